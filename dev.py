#!/usr/bin/env python3
"""Sets up what a command needs, in virtual environments beside this file, and runs it.

    python3 dev.py demo      the example crawl: offline, on loopback
    python3 dev.py test      everything that must hold: lint, types, imports, tests
    python3 dev.py test -k race      the tests alone, with arguments for pytest

Needs Python 3.10 or newer, and nothing else: on Debian, as root, it installs the packages
with the venv module and, for the tests, the Redis server and Chromium if they are not there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST_SCRAPY = "2.14.0"
PYTHONS = [f"python3.{minor}" for minor in range(10, 15)]


def main(arguments: list[str]) -> int:
    match arguments:
        case ["demo", *rest]:
            return demo(rest)
        case ["test", *rest]:
            return test(rest)
    print(__doc__)
    return 0 if arguments in (["-h"], ["--help"]) else 2


def demo(arguments: list[str]) -> int:
    python = environment(".venv", sys.executable, [f"{HERE}[report]"])
    scrapy = [python, "-m", "scrapy", "crawl", "demo", *arguments]
    status = run(*scrapy, cwd=HERE / "example_project")
    print("\nTo go on, as example_project/README.md says:")
    print("$ cd example_project; . ../.venv/bin/activate")
    return status


def test(arguments: list[str]) -> int:
    """Checks and tests on the newest Scrapy, then the tests on the oldest.

    Each on the newest and the oldest Python of this machine.
    """
    for program in ("redis-server", "chromium"):
        if not shutil.which(program) and not install(program):
            print(f"No {program}: the tests that need it are skipped", flush=True)
    pythons = available_pythons()
    newest = environment(".venv-newest", pythons[-1], [f"{HERE}[test]"])
    oldest = environment(
        ".venv-oldest", pythons[0], [f"{HERE}[test]", f"scrapy=={OLDEST_SCRAPY}"]
    )
    # Crawls wait for servers that are slow on purpose more than they compute, and the
    # slow ones stand together: whoever is done takes from those who are not.
    in_parallel = ["-n", str(2 * (os.cpu_count() or 1)), "--dist", "worksteal"]
    on_oldest = [oldest, "-m", "pytest", *in_parallel]
    # These are the same on the oldest: they know no crawl, or are about this checkout, or
    # about what is said to a crawl, by servers and settings, or what crawls share and
    # leave behind.
    apart = ["protocol", "stores", "ledger", "report", "commands"]
    checkout = ("benchmarks", "conformance", "example_walk", "house", "readme")
    apart += [f"test_{name}.py" for name in checkout]
    said = ("access", "agents", "ledger", "refresh", "settings")
    fetched = ("compressed", "fetching")
    shared = ("resuming", "stores", "workers", "shared_delay")
    apart += [f"crawl/test_{name}.py" for name in (*said, *fetched, *shared)]
    ignored = [f"--ignore=tests/{name}" for name in apart]
    if arguments:
        steps = [[newest, "-m", "pytest", *in_parallel], on_oldest]
        steps = [[*step, *arguments] for step in steps]
    else:
        steps = [
            [newest, "-m", "ruff", "check"],
            [newest, "-m", "ruff", "format", "--check"],
            [newest, "-m", "mypy"],
            [str(Path(newest).with_name("lint-imports"))],
            # What is tried in each mode is tried in one on the newest, and in another on
            # the oldest; all the rest is in asyncio's, and what matters most in each.
            [
                *("env", "MODES=reactorless", newest, "-m", "pytest"),
                *(*in_parallel, "--cov", "--cov-report=term"),
            ],
            ["env", "MODES=select", *on_oldest, *ignored],
        ]
    for step in steps:
        status = run(*step)
        if status:
            return status
    return 0


def available_pythons() -> list[str]:
    """The Pythons on the PATH that are supported and do run, oldest first."""
    found = [path for name in PYTHONS if (path := shutil.which(name)) and runs(path)]
    return found or [sys.executable]


def runs(python: str) -> bool:
    check = [python, "-c", "import venv"]
    return not subprocess.run(check, check=False, capture_output=True).returncode


def environment(name: str, python: str, requirements: list[str]) -> str:
    """The Python of a virtual environment with *requirements*, made if it is not there
    or if what it was made from has changed.
    """
    folder = HERE / name
    executable = folder / "bin" / "python"
    made_from = folder / "made-from"
    wanted = fingerprint([python, *requirements])
    if not made_from.exists() or made_from.read_text() != wanted:
        print(f"Setting up {folder.name} with {python}", flush=True)
        make_venv(python, folder)
        pip = [str(executable), "-m", "pip", "install", "--quiet"]
        pip.append("--disable-pip-version-check")
        editable = [part for one in requirements for part in as_argument(one)]
        subprocess.run([*pip, *editable], check=True, cwd=HERE)
        made_from.write_text(wanted)
    return str(executable)


def as_argument(requirement: str) -> list[str]:
    return ["--editable", requirement] if requirement[0] == "/" else [requirement]


def make_venv(python: str, folder: Path) -> None:
    command = [python, "-m", "venv", "--clear", str(folder)]
    if not subprocess.run(command, check=False, capture_output=True).returncode:
        return
    # Debian has the venv module in a package of its own.
    install("python3-venv")
    subprocess.run(command, check=True)


def install(package: str) -> bool:
    """Whether *package* of the system could be installed: on Debian, as root."""
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
    return subprocess.run(command, check=False, cwd=cwd).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
