#!/usr/bin/env python3
"""Runs development tasks, such as the tests. The virtual environments for the tasks are created beside this file.

    python3 dev.py demo      run the example crawl, offline on the loopback interface
    python3 dev.py test      run all checks: linters, types, import rules and tests
    python3 dev.py test -k race      run only tests, with arguments for pytest
    python3 dev.py test --long       run only tests, with many more examples
    python3 dev.py test --coverage   run only tests, on the newest Scrapy, and measure coverage
    python3 dev.py docs      build the documentation in docs/_build
    python3 dev.py package   build the wheel and the sdist in dist, and check them

The tasks need Python 3.10 or later. Each installation is announced before it starts. If you are root on Debian,
missing Debian packages are installed with apt-get: python3-venv and, for the tests, redis-server and Chromium.
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
# The environment variables for all commands. PYTHONDONTWRITEBYTECODE is removed, because with it, each of the many test
# processes would compile all modules again.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
# Makes uv accept all certificates that this machine accepts, such as the certificate of a company's proxy. By default,
# uv accepts only the certificates that it includes.
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
    """Run all checks and tests, and return the exit status. With *arguments* for pytest, run only the tests.

    The tests run in two environments at the same time: the newest Scrapy on the newest Python of this machine, and
    the oldest supported Scrapy on this machine's oldest supported Python.
    """
    install_one_of("redis-server")
    # The headless shell of Chromium is preferred, because with it, browser tests take half the time.
    install_one_of("chromium-headless-shell", "chromium")
    pythons = [path for name in PYTHONS if (path := shutil.which(name)) and runs(path)]
    pythons = pythons or [sys.executable]
    tests = f"{HERE}[test]"
    newest = environment(".venv-newest", pythons[-1], tests)
    oldest = environment(".venv-oldest", pythons[0], tests, f"scrapy=={OLDEST_SCRAPY}")
    # There are more processes than cores, because crawls spend two fifths of their time waiting for servers and timers.
    # The oldest Scrapy gets fewer processes, because only a sixth of the tests run on it.
    #
    # Tests with the fixture "mode" run with the reactors that the environment variable MODES contains. Tests with the
    # fixture "every_mode" run with all reactors. Tests without these fixtures run with the asyncio reactor.
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
    # Collecting the tests compiles all modules, so that the test processes below do not have to.
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
    """Write the generated parts of the documentation, build the site, and print its address. Return the exit status.
    A Sphinx warning counts as an error, as in the tests.
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
    """Build the wheel and the sdist, and check their metadata. Then use the wheel as a user would: install it into an
    empty environment, run a crawl, create a report, and check the types of a program that uses the package. Return
    the exit status.
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
    """Run *commands* concurrently. The number of concurrent commands is the number of cores, but at least two. Return
    the exit status of the first command that failed, or 0 if all succeeded.

    The output of the first command is printed immediately. The output of each other command is printed after the
    command has ended. The time that each command took is printed too.
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
    """Return the path of the Python executable in the virtual environment *name*. If the environment is missing, or if
    *python* or *requirements* changed, create the environment with *python*, and install *requirements*.
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
    """Return the path of the program uv, and install uv if it is missing. uv installs packages in seconds, and pip
    would need a minute.
    """
    folder = HERE / ".venv-uv"
    if not (folder / "bin" / "uv").exists():
        if not runs(sys.executable):  # On Debian, venv is a separate package.
            install_one_of("python3-venv")
        print(f"Creating {folder} with {sys.executable}, to install uv", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", "uv"], check=True)
    return str(folder / "bin" / "uv")


def runs(python: str) -> bool:
    """Whether the executable *python* starts and can create virtual environments."""
    check = [python, "-c", "import ensurepip, venv"]
    return not subprocess.run(check, check=False, capture_output=True).returncode


def install_one_of(*packages: str) -> None:
    """Install one of *packages*: the first that apt-get can install. Do nothing if a program with the name of one of
    *packages* is already on the PATH.

    If all installations fail, or if the user is not root on Debian, print that ``packages[0]`` is not installed.
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
        f"{packages[0]} is not installed, so tests that need it are skipped",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
