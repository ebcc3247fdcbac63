#!/usr/bin/env python3
"""Runs a task of the project, such as its tests, in virtual environments that are created beside this file.

    python3 dev.py demo      run the example crawl: offline, on loopback
    python3 dev.py test      run all checks: lint, types, import rules, tests
    python3 dev.py test -k race      run tests only, with arguments for pytest
    python3 dev.py test --long       run tests only, with many more examples
    python3 dev.py test --coverage   run tests on the newest Scrapy only, and measure coverage
    python3 dev.py docs      build the documentation, in docs/_build
    python3 dev.py package   build wheel and sdist in dist, and check them

Requires Python 3.10 or later. Each installation is announced before it starts. On Debian, as root, missing
packages are installed with apt-get: python3-venv and, for the tests, redis-server and Chromium.
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
# PYTHONDONTWRITEBYTECODE is removed, so that compiled modules are written to disk: otherwise, each of the many test
# processes would compile them again.
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
    """Run the checks, and then the tests in two environments at the same time: the newest Scrapy on the newest
    Python of this machine, and the oldest supported Scrapy on its oldest supported Python. With *arguments*
    for pytest, run the tests alone. Return the exit status.
    """
    install_one_of("redis-server")
    # The headless shell is preferred: tests with it take half the time.
    install_one_of("chromium-headless-shell", "chromium")
    pythons = [path for name in PYTHONS if (path := shutil.which(name)) and runs(path)]
    pythons = pythons or [sys.executable]
    tests = f"{HERE}[test]"
    newest = environment(".venv-newest", pythons[-1], tests)
    oldest = environment(".venv-oldest", pythons[0], tests, f"scrapy=={OLDEST_SCRAPY}")
    # More processes than cores, since two fifths of the time of a crawl is waiting for servers and timers; fewer for the
    # oldest Scrapy, on which a sixth of the tests run. MODES selects the reactor of tests that have it as a parameter:
    # one on the newest Scrapy, another one on the oldest. Other tests use asyncio; the most important ones run with
    # each reactor.
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
    # Collects the tests only to compile all modules, so that the many test processes below need not.
    is_compiled = any((HERE / "tests").rglob("*-pytest-*.pyc"))
    collect = [] if is_compiled else [[newest, "-m", "pytest", "--collect-only", "-qq"]]
    return run_together(
        [newest, "-m", "mypy"],
        *collect,
        [newest, "-m", "ruff", "check"],
        [newest, "-m", "ruff", "format", "--check"],
        [str(Path(newest).with_name("lint-imports"))],
    ) or run_together([*reactorless, *on_newest], [*select, *on_oldest])


def docs() -> int:
    """Write the generated parts of the documentation, build its site, and print the address of the site. A warning
    of Sphinx is an error, as in the tests. Return the exit status.
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
    """Build the wheel and the sdist, and check them. Then try the wheel as a user would: install it into an empty
    environment, crawl, make a report, and check the types of a program that uses it. Return the exit status.
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
    """Run *commands* at the same time: as many as there are cores, but at least two. Print the output of the first
    command as it comes, the output of the others when they end, and the time of each. Return the status of the
    first command that failed, or 0.
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
    """Return the path of the Python in the virtual environment *name* with *requirements*. Create the environment
    if it is missing, or if its requirements have changed.
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
    """Return the path of uv, which installs packages in seconds where pip takes a minute. Install uv if it is missing."""
    folder = HERE / ".venv-uv"
    if not (folder / "bin" / "uv").exists():
        if not runs(sys.executable):  # On Debian, venv is a separate package.
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
    """Make sure that a program with the name of one of *packages* is installed. If there is none, install the first
    package that can be installed with apt-get, on Debian as root; else print a note.
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
    print(
        f"{packages[0]} is not installed: the tests that need it are skipped",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
