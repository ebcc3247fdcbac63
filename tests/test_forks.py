"""A process of the fork server behaves like one of ``python -m``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import forks
from tests.crawl.conftest import CHOSEN, check
from tests.crawl.crawl import ADDON, QUIET, ROOT, environment, run_crawl
from tests.crawl.server import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LAST_WORDS = """\
import sys
class Cycle:
    def __init__(self): self.itself = self
    def __del__(self): print("end", file=sys.stderr)
cycle = Cycle()
"""


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], str]:
    def write(code: str) -> str:
        (tmp_path / "its_module.py").write_text(code)
        return "its_module"

    return write


@pytest.mark.newest
@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("pass", 0, b""),
        ("raise SystemExit('no')", 1, b"no\n"),
        ("1 / 0", 1, b"ZeroDivisionError: division by zero\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, b""),
        ("import atexit; atexit.register(print, 'end', file=__import__('sys').stderr)", 0, b"end\n"),
        ("import threading; threading.Timer(0.1, print, ['late'], {'file': __import__('sys').stderr}).start()", 0, b"late\n"),
        (LAST_WORDS, 0, b"end\n"),
        (f"{LAST_WORDS}sys.exit(3)", 3, b"end\n"),
        ("import os; os._exit(7)", 7, b""),
    ],
)  # fmt: skip
def test_how_it_ends(
    module: Callable[[str], str], tmp_path: Path, code: str, status: int, said: bytes
) -> None:
    done = forks.run([module(code)], cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr.endswith(said)
    assert done.stderr or not said


@pytest.mark.slow
@pytest.mark.parametrize("mode", CHOSEN[:1])
def test_crawl_from_the_start(mode: str, tmp_path: Path) -> None:
    """A crawl in a new Python process has the same result as one in a forked process."""
    check(mode)
    with Site() as site:
        host = site.add("User-agent: *\nDisallow: /private/\n")
        urls = [host.url("/public"), host.url("/private/1")]
        forked = run_crawl(urls, mode=mode)
        spec = {
            "mode": mode,
            "spider": "tests.crawl.spiders.PlanSpider",
            "settings": {**QUIET, **ADDON},
            "attributes": {"steps": [[{"url": url} for url in urls], []]},
            "names": {},
            "constants": {},
        }
        report = tmp_path / "report.json"
        done = subprocess.run(
            [sys.executable, "-m", "tests.crawl.runner", str(report)],
            input=json.dumps(spec).encode(),
            cwd=ROOT,
            env=environment(measured=False),
            capture_output=True,
            check=False,
        )
    assert done.returncode == forked.exit_code == 0, done.stderr
    assert host.pages == ["/public", "/public"]
    fresh: dict[str, Any] = json.loads(report.read_text())
    assert fresh["errors"] == forked.errors
    assert fresh["responses"] == forked.responses
    assert counts(fresh["stats"]) == counts(forked.stats)


def counts(stats: dict[str, Any]) -> dict[str, Any]:
    """Return the stats without times and memory."""
    return {
        key: value
        for key, value in stats.items()
        if not key.endswith(("time", "_seconds")) and "memusage" not in key
        if not isinstance(value, float)
    }
