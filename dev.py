#!/usr/bin/env python3
"""Runs a command of the project, in virtual environments that it creates beside this file.

    python3 dev.py demo      run the example crawl: offline, on loopback
    python3 dev.py test      run all checks: lint, types, import rules, tests
    python3 dev.py test -k race      run tests only, with arguments for pytest
    python3 dev.py test --long       run tests only, with many more examples
    python3 dev.py test --coverage   run tests on the newest Scrapy only, and measure what they cover
    python3 dev.py docs      build the documentation, in docs/_build
    python3 dev.py package   build wheel and sdist in dist, and check them

Requires Python 3.10 or later. It says what it installs before it does. On Debian, as root, it
installs missing packages with apt-get: python3-venv and, for the tests, redis-server and Chromium.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST_SCRAPY = "2.14.0"
PYTHONS = [f"python3.{minor}" for minor in range(10, 16)]
# Keep compiled modules: otherwise each of many processes would compile them again.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
# Trust what the machine trusts, such as the proxy of a company: uv has certificates of its own.
os.environ.setdefault("UV_SYSTEM_CERTS", "1")


def main(arguments: list[str]) -> int:
    match arguments:
        case ["demo", *rest]:
            return demo(rest)
        case ["test", *rest]:
            return test(rest)
        case ["docs"]:
            return docs()
        case ["package"]:
            return package()
    print(__doc__)
    return 0 if arguments in (["-h"], ["--help"]) else 2


def demo(arguments: list[str]) -> int:
    python = environment(".venv", sys.executable, f"{HERE}[report]")
    scrapy = [python, "-m", "scrapy", "crawl", "demo", *arguments]
    status = run(scrapy, cwd=HERE / "example_project")
    print(
        "\nTo continue, see example_project/README.md:\n"
        "$ cd example_project; . ../.venv/bin/activate; scrapy rep report demo.ledger"
    )
    return status


def test(arguments: list[str]) -> int:
    """Run the checks, then the tests on the newest and on the oldest Scrapy, side by side, on
    the newest and on the oldest supported Python of this machine.
    """
    install_one_of("redis-server")
    # The headless shell takes half the time of the browser.
    install_one_of("chromium-headless-shell", "chromium")
    pythons = [path for name in PYTHONS if (path := shutil.which(name)) and runs(path)]
    pythons = pythons or [sys.executable]
    tests = f"{HERE}[test]"
    newest = environment(".venv-newest", pythons[-1], tests)
    oldest = environment(".venv-oldest", pythons[0], tests, f"scrapy=={OLDEST_SCRAPY}")
    # A crawl mostly waits for its server, so there are more processes than cores; fewer for the oldest
    # Scrapy, which has a sixth of the tests. Slow tests start first. Tests with a mode as parameter
    # run in one mode on the newest Scrapy, and in another on the oldest. Other tests use asyncio; the
    # most important ones run in all modes.
    cores = os.cpu_count() or 1
    pytest = ["-m", "pytest", "--dist", "loadscope", "--no-loadscope-reorder"]
    on_newest = [newest, *pytest, "-n", str(3 * cores)]
    on_oldest = [oldest, *pytest, "-n", str(cores), "-m", "not newest"]
    reactorless, select = ["env", "MODES=reactorless"], ["env", "MODES=select"]
    if arguments[:1] == ["--coverage"]:
        measure = ["--cov", "--cov-report=term", *arguments[1:]]
        return run([*reactorless, *on_newest, *measure])
    if arguments:
        return run_together([*on_newest, *arguments], [*on_oldest, *arguments])
    collect = ["-m", "pytest", "--collect-only", "-qq"]
    return run_together(
        [newest, "-m", "mypy"],
        # Collecting the tests compiles them for all later processes.
        [newest, *collect],
        [oldest, *collect, "-m", "not newest"],
        [newest, "-m", "ruff", "check"],
        [newest, "-m", "ruff", "format", "--check"],
        [str(Path(newest).with_name("lint-imports"))],
    ) or run_together([*reactorless, *on_newest], [*select, *on_oldest])


def docs() -> int:
    """Write what is generated, build the documentation, and say where it is. A warning is an error,
    as in the tests.
    """
    python = environment(".venv-docs", sys.executable, f"{HERE}[docs]")
    folder = HERE / "docs" / "_build"
    site = ["sphinx", "-W", "--keep-going", "-q", "docs", str(folder)]
    modules = [["docs._ext.settingspage"], ["docs._ext.generated"], site]
    if any(run([python, "-m", *module]) for module in modules):
        return 1
    print(f"The site is {(folder / 'index.html').as_uri()}")
    return 0


def package() -> int:
    """Build and check the wheel and the sdist. Then use the wheel as a user does: install it
    into an empty environment, crawl, make a report, and check types.
    """
    tools = environment(
        ".venv-package", sys.executable, "build", "mypy", "pyright", "twine"
    )
    shutil.rmtree(HERE / "dist", ignore_errors=True)
    if run([tools, "-m", "build", "--quiet", "--outdir", "dist"]):
        return 1
    built = sorted(map(str, (HERE / "dist").iterdir()))
    (wheel,) = (path for path in built if path.endswith(".whl"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = environment(str(folder / "venv"), sys.executable, f"{wheel}[report]")
        example = shutil.copytree(HERE / "example_project", folder / "example")
        user = shutil.copy(HERE / "tests" / "typing" / "user.py", folder)
        steps = [
            [tools, "-m", "twine", "check", "--strict", *built],
            [python, "-m", "scrapy", "crawl", "demo"],
            [python, "-m", "scrapy", "rep", "report", "demo.ledger"],
            [tools, "-m", "mypy", "--strict", "--python-executable", python, user],
            [tools, "-m", "pyright", "--pythonpath", python, user],
        ]
        return int(any(run(step, cwd=example) for step in steps))


def run(command: list[str], cwd: Path = HERE) -> int:
    print("$", *command, flush=True)
    return subprocess.run(command, check=False, cwd=cwd, env=ENVIRONMENT).returncode


def run_together(*commands: list[str]) -> int:
    """Run *commands* side by side, as many as there are cores, but at least two. Show the
    output of the first as it comes, that of the others when they end, and how long each took.
    Return the status of the first that failed.
    """

    def timed(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        output = {} if command is commands[0] else piped
        began = time.monotonic()
        done = subprocess.run(command, check=False, cwd=HERE, env=ENVIRONMENT, **output)
        return done, time.monotonic() - began

    status = 0
    with ThreadPoolExecutor(max(os.cpu_count() or 1, 2)) as pool:
        for done, seconds in pool.map(timed, commands):
            print(done.stdout or "")
            print(f"$ {' '.join(done.args)}: {seconds:.0f} seconds\n", flush=True)
            status = status or done.returncode
    return status


def environment(name: str, python: str, *requirements: str) -> str:
    """Return the Python of a virtual environment with *requirements*. The environment is created if it is
    missing, or if its requirements have changed.
    """
    folder = HERE / name
    executable = str(folder / "bin" / "python")
    made_from = folder / "made-from"
    digest = hashlib.sha256("\n".join([python, *requirements]).encode())
    for file in ("setup.cfg", "pyproject.toml"):
        digest.update((HERE / file).read_bytes())
    if not made_from.exists() or made_from.read_text() != digest.hexdigest():
        print(f"Creating {folder} with {python}:", *requirements, flush=True)
        venv = ["venv", "--quiet", "--clear", "--seed", "--python", python, str(folder)]
        subprocess.run([uv(), *venv], check=True)
        project = ["--editable"] if requirements[0].startswith(f"{HERE}[") else []
        install = ["pip", "install", "--quiet", "--python", executable]
        subprocess.run([uv(), *install, *project, *requirements], check=True)
        made_from.write_text(digest.hexdigest())
    return executable


@cache
def uv() -> str:
    """Return the path of uv, which installs in seconds what takes pip a minute. It is installed if it is missing."""
    folder = HERE / ".venv-uv"
    if not (folder / "bin" / "uv").exists():
        if not runs(sys.executable):  # On Debian, this module is a package of its own.
            install_one_of("python3-venv")
        print(f"Creating {folder} with {sys.executable}: uv", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", "uv"], check=True)
    return str(folder / "bin" / "uv")


def runs(python: str) -> bool:
    """Whether *python* starts, and can create virtual environments."""
    check = [python, "-c", "import ensurepip, venv"]
    return not subprocess.run(check, check=False, capture_output=True).returncode


def install_one_of(*packages: str) -> None:
    """Install one of *packages*, unless there is a program with one of their names. The first package that can
    be installed is: on Debian, as root.
    """
    if any(map(shutil.which, packages)):
        return
    get = "DEBIAN_FRONTEND=noninteractive apt-get -qq"
    for package in packages if shutil.which("apt-get") and not os.getuid() else ():
        print(f"Installing {package} with apt-get", flush=True)
        install = f"{get} install -y --no-install-recommends {package}"
        command = f"({get} update && {install}) > /dev/null"
        if not subprocess.run(command, check=False, shell=True).returncode:
            return
    print(f"No {packages[0]}: the tests that need it are skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
