#!/usr/bin/env python3
"""Runs a command of the project, in virtual environments that it creates beside this file.

    python3 dev.py demo      run the example crawl: offline, on loopback
    python3 dev.py test      run all checks: lint, types, import rules, tests
    python3 dev.py test -k race      run tests only, with arguments for pytest
    python3 dev.py test --long       run tests only, with many more examples
    python3 dev.py docs      build the documentation, in docs/_build
    python3 dev.py package   build wheel and sdist in dist, and check them

Requires Python 3.10 or later. On Debian, as root, it installs missing packages: the venv module
and, for the tests, the Redis server and Chromium.
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parent
OLDEST_SCRAPY = "2.14.0"
# Keep compiled modules: otherwise each of many processes would compile them again.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
PACKAGING = ["build", "mypy", "pyright", "twine"]
PYTHONS = [f"python3.{minor}" for minor in range(10, 15)]


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
    python = environment(".venv", sys.executable, [f"{HERE}[report]"])
    scrapy = [python, "-m", "scrapy", "crawl", "demo", *arguments]
    status = run(*scrapy, cwd=HERE / "example_project")
    print("\nTo continue, see example_project/README.md:")
    print("$ cd example_project; . ../.venv/bin/activate")
    return status


def test(arguments: list[str]) -> int:
    """Run checks, then the tests on the newest and on the oldest Scrapy, side by side.

    They run on the newest and on the oldest supported Python of this machine.
    """
    pythons = available_pythons()
    installer()  # It may need apt-get, which cannot run twice at a time.
    with ThreadPoolExecutor() as pool:
        programs = pool.submit(install_programs)
        newest = environment(".venv-newest", pythons[-1], [f"{HERE}[test]"])
        oldest = environment(
            ".venv-oldest", pythons[0], [f"{HERE}[test]", f"scrapy=={OLDEST_SCRAPY}"]
        )
        programs.result()
    on_newest, on_oldest = [newest, "-m", "pytest"], [oldest, "-m", "pytest"]
    # Crawls wait for slow servers about as long as they compute, so there are more processes
    # than cores. Slow tests start first. A third of the work is on the oldest Scrapy.
    cores = os.cpu_count() or 1
    parallel = ["--dist", "loadgroup", "--no-loadscope-reorder", "-n"]
    tests_on_newest = [*on_newest, *parallel, str(5 * cores // 2)]
    tests_on_oldest = [*on_oldest, *parallel, str(cores), "-m", "not newest"]
    if arguments:
        return run_timed(
            [[*tests_on_newest, *arguments], [*tests_on_oldest, *arguments]]
        )
    # Collecting the tests first compiles them for all later processes.
    collect = ["--collect-only", "-qq"]
    checks = [
        [newest, "-m", "mypy"],
        [*on_newest, *collect],
        [*on_oldest, *collect],
        [newest, "-m", "ruff", "check"],
        [newest, "-m", "ruff", "format", "--check"],
        [str(Path(newest).with_name("lint-imports"))],
    ]
    # Tests with a mode as parameter run in one mode on the newest Scrapy, and in another on
    # the oldest. Other tests use asyncio; the most important ones run in all modes.
    measured = ["--cov", "--cov-report=term"]
    return run_timed(
        [
            ["env", "MODES=reactorless", *tests_on_newest, *measured],
            ["env", "MODES=select", *tests_on_oldest],
        ],
        checks,
    )


def docs() -> int:
    """Build the documentation. A warning is an error, as in the tests."""
    python = environment(".venv-docs", sys.executable, [f"{HERE}[docs]"])
    site = HERE / "docs" / "_build"
    return run(python, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", str(site))


def package() -> int:
    """Build and check the wheel and the sdist. Then use the wheel as a user does: install it
    into an empty environment, crawl, make a report, and check types.
    """
    tools = environment(".venv-package", sys.executable, PACKAGING)
    shutil.rmtree(HERE / "dist", ignore_errors=True)
    if run(tools, "-m", "build", "--quiet", "--outdir", "dist"):
        return 1
    built = sorted(map(str, (HERE / "dist").iterdir()))
    (wheel,) = (path for path in built if path.endswith(".whl"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_venv(sys.executable, folder / "venv")
        python = str(folder / "venv" / "bin" / "python")
        example = shutil.copytree(HERE / "example_project", folder / "example")
        user = shutil.copy(HERE / "tests" / "typing" / "user.py", folder)
        scrapy = [python, "-m", "scrapy"]
        steps = [
            [tools, "-m", "twine", "check", "--strict", *built],
            [python, "-m", "pip", "install", "--quiet", f"{wheel}[report]"],
            [*scrapy, "crawl", "demo"],
            [*scrapy, "rep", "report", "demo.ledger"],
            [tools, "-m", "mypy", "--strict", "--python-executable", python, user],
            [tools, "-m", "pyright", "--pythonpath", python, user],
        ]
        return int(any(run(*step, cwd=example) for step in steps))


def run_timed(steps: list[list[str]], checks: Sequence[list[str]] = ()) -> int:
    """Run *checks* side by side, then, if none failed, *steps* side by side.

    The output of the first step is shown at once, that of the others when they end. Print how
    long each took. Return the status of the first that failed.
    """
    began = time.monotonic()
    status, times = 0, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for check, (seconds, done) in zip(
            checks, pool.map(capture, checks), strict=True
        ):
            print("$", *check)
            print(done.stdout, flush=True)
            times.append((seconds, check))
            status = status or done.returncode
    if not status:
        # Crawls wait more than they compute: one run can compute while another waits.
        with ThreadPoolExecutor(len(steps)) as pool:
            others = [pool.submit(capture, step) for step in steps[1:]]
            start = time.monotonic()
            status = run(*steps[0])
            times.append((time.monotonic() - start, steps[0]))
            for step, (seconds, done) in zip(
                steps[1:], (other.result() for other in others), strict=True
            ):
                print("$", *step)
                print(done.stdout, flush=True)
                times.append((seconds, step))
                status = status or done.returncode
    print("\nSeconds for each command, and in total:")
    for seconds, step in times:
        print(f"{seconds:6.0f}  {' '.join(step).replace(f'{HERE}/', '')}")
    print(f"{time.monotonic() - began:6.0f}", flush=True)
    return status


def capture(command: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run *command*. Return its seconds, and the process with its output."""
    start = time.monotonic()
    done = subprocess.run(
        command,
        cwd=HERE,
        env=ENVIRONMENT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return time.monotonic() - start, done


def available_pythons() -> list[str]:
    """The supported Pythons on the PATH that have venv, oldest first."""
    found = [path for name in PYTHONS if (path := shutil.which(name)) and runs(path)]
    return found or [sys.executable]


def runs(python: str) -> bool:
    check = [python, "-c", "import venv"]
    return not subprocess.run(check, check=False, capture_output=True).returncode


@cache
def installer() -> str:
    """The path of uv, which installs in seconds what takes pip a minute."""
    folder = HERE / ".venv-uv"
    executable = folder / "bin" / "uv"
    if not executable.exists():
        make_venv(sys.executable, folder)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", "uv"], check=True)
    return str(executable)


def environment(name: str, python: str, requirements: list[str]) -> str:
    """The Python of a virtual environment with *requirements*, which is created if it is
    missing or if its requirements have changed.
    """
    folder = HERE / name
    executable = str(folder / "bin" / "python")
    made_from = folder / "made-from"
    wanted = fingerprint([python, *requirements])
    if not made_from.exists() or made_from.read_text() != wanted:
        print(f"Setting up {folder.name} with {python}", flush=True)
        uv = installer()
        venv = [uv, "venv", "--quiet", "--clear", "--seed", "--python", python]
        subprocess.run([*venv, str(folder)], check=True)
        editable = [part for one in requirements for part in as_argument(one)]
        pip = [uv, "pip", "install", "--quiet", "--python", executable]
        subprocess.run([*pip, *editable], check=True)
        made_from.write_text(wanted)
    return executable


def as_argument(requirement: str) -> list[str]:
    return ["--editable", requirement] if requirement[0] == "/" else [requirement]


def make_venv(python: str, folder: Path) -> None:
    command = [python, "-m", "venv", "--clear", str(folder)]
    if not subprocess.run(command, check=False, capture_output=True).returncode:
        return
    # On Debian, the venv module is a separate package.
    install("python3-venv")
    subprocess.run(command, check=True)


def install_programs() -> None:
    # Either browser works; the first one takes half the time.
    for programs in (("redis-server",), ("chromium-headless-shell", "chromium")):
        if not any(shutil.which(program) or install(program) for program in programs):
            print(f"No {programs[-1]}: the tests that need it are skipped", flush=True)


def install(package: str) -> bool:
    """Install a system package, on Debian, as root. Return whether that succeeded."""
    if not shutil.which("apt-get") or os.getuid():
        return False
    print(f"Installing {package}", flush=True)
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (
        ["update"],
        ["install", "-y", "--no-install-recommends", package],
    ):
        done = subprocess.run(
            ["apt-get", "-qq", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=quietly,
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr, flush=True)
            return False
    return True


def fingerprint(parts: list[str]) -> str:
    digest = hashlib.sha256("\n".join(parts).encode())
    for name in ("setup.cfg", "pyproject.toml"):
        digest.update((HERE / name).read_bytes())
    return digest.hexdigest()


def run(*command: str, cwd: Path = HERE) -> int:
    print("$", *command, flush=True)
    return subprocess.run(command, check=False, cwd=cwd, env=ENVIRONMENT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
