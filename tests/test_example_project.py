"""The example project: its crawls, judged by the access log of its site, and its README."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.settings import DEFAULTS
from tests import effort, forks
from tests.example import PROJECT, environment
from tests.stores.redis_server import BINARY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unmeasured

BLOCKS = re.findall(
    r"```console\n(.*?)```", (PROJECT / "README.md").read_text(), re.DOTALL
)
COMMANDS = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", "".join(BLOCKS), re.MULTILINE)
"""The commands of the README, with the output that it shows."""

IN_TIME = [
    "  0 forbidden",
    "  0 outside of a Visit-time",
    "  0 faster than a Crawl-delay",
    "  0 within a pause",
    "  http://slow.example/: Crawl-delay 0.3 s, smallest gap <gap> s",
    "  http://bare.example/: Retry-After 1 s, next request after <gap> s",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, without the output of earlier crawls."""
    left = shutil.ignore_patterns("*.ledger*", "robots-report.html", "__pycache__")
    return shutil.copytree(PROJECT, tmp_path / "project", ignore=left)


def run(project: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit status and the output of Scrapy, or of a module of the project."""
    done = forks.run([*arguments], cwd=project, env=environment())
    log = done.stderr.decode()
    assert "ERROR" not in log
    assert "Traceback" not in log
    # A crawl prints nothing on standard error, and a command nothing but its messages.
    assert not (log and "crawl" in arguments)
    return done.returncode, (done.stdout.decode() + log)


def timeless(printed: str) -> str:
    """Return *printed* without what depends on the time and the machine."""
    printed = re.sub(r"\b\d+\.\d{3} s$", "<gap> s", printed, flags=re.MULTILINE)
    return re.sub(
        r"\b\d{4}-\d{4} +/$", "<hours> /", printed, flags=re.MULTILINE
    ).rstrip()


@pytest.mark.newest
@pytest.mark.slow
def test_walk(project: Path) -> None:
    """One after the other, all commands of the README print what it shows."""
    for command, shown in COMMANDS:
        if command.startswith("scrapy "):
            status, printed = run(project, *shlex.split(command))
            assert status in {0, 1}
        else:
            printed = subprocess.check_output(
                command, shell=True, cwd=project, text=True
            )
        assert timeless(printed) == timeless(shown), command
    named = {command.split()[2] for command, _ in COMMANDS if " rep " in command}
    assert named == {"check", "lint", "page", "diff", "report"}
    report = (project / "robots-report.html").read_text()
    assert "Hosts treated as having no robots.txt" in report


@pytest.mark.newest
@pytest.mark.slow
@pytest.mark.skipif(not effort.is_long, reason="takes long: only with --long")
@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_many(project: Path) -> None:
    """The command for several workers sends the requests of a single worker, kills one of its
    workers when it is told to, and judges what they did.
    """
    pytest.importorskip("scrapy_redis")
    status, printed = run(project, "demo.offline.many", "2", "--kill")
    shares, _, verdict = timeless(printed).partition("\n\n")
    assert verdict.splitlines()[1:] == IN_TIME
    assert "\n0 requests of a single worker are missing\n" in shares
    requests = sum(map(int, re.findall(r": (\d+) requests$", shares, re.MULTILINE)))
    assert re.match(r"demobot/1.0 \(worker [12]\) is killed\n", shares)
    assert requests >= 46
    assert status == 0


@pytest.mark.newest
def test_settings() -> None:
    """One line of settings.py enables this package, four more set options of the project, and
    comments show every setting with its default.
    """
    settings = (PROJECT / "demo" / "settings.py").read_text()
    shown = re.findall(r"^# (REP_\w+) = (.+)$", settings, flags=re.MULTILINE)
    assert {name: ast.literal_eval(value) for name, value in shown} == DEFAULTS
    assert len(shown) == len(DEFAULTS)
    code = re.sub(r"^#.*\n", "", settings, flags=re.MULTILINE)
    lines = [line for line in code.splitlines() if re.search(r"scrapy_rep|REP_", line)]
    assert lines == [
        'ADDONS = {"scrapy_rep.Addon": 500}',
        "REP_WAIT_MAX = 2",
        'REP_REL = ["nofollow", "ugc", "sponsored"]',
        'REP_LEDGER = "demo.ledger"',
        'REP_LEDGER_LEVEL = "all"',
    ]
