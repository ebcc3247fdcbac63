"""A process of the fork server behaves like one of ``python -m``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import forks
from tests.crawl.conftest import CHOSEN, check
from tests.crawl.crawl import ADDON, QUIET, ROOT, environment, run_crawl
from tests.crawl.server import Site

if TYPE_CHECKING:
    from collections.abc import Callable

TOLD = """\
import json, os, sys
print("to stderr", file=sys.stderr)
print(json.dumps({
    "name": __name__, "argv": sys.argv[1:], "path": sys.path[0], "cwd": os.getcwd(),
    "environ": dict(os.environ), "stdin": sys.stdin.read(),
    "reactor": "twisted.internet.reactor" in sys.modules,
}))
sys.exit(3)
"""
LAST_WORDS = """\
import sys
class Cycle:
    def __init__(self): self.itself = self
    def __del__(self): print("end", file=sys.stderr)
cycle = Cycle()
"""
READY = (
    "import sys, time; print('ready', flush=True); sys.stdin.read(); time.sleep(600)"
)


@pytest.fixture
def module(tmp_path: Path) -> Callable[[str], str]:
    def write(code: str) -> str:
        (tmp_path / "its_module.py").write_text(code)
        return "its_module"

    return write


@pytest.mark.newest
def test_what_is_given(module: Callable[[str], str], tmp_path: Path) -> None:
    """The process gets exactly the given arguments, input, folder and environment."""
    environment = {"A": "1", "B": "ü"}
    command = [module(TOLD), "one", "two"]
    done = forks.run(command, given=b"given", cwd=tmp_path, env=environment)
    assert done.returncode == 3
    assert done.stderr == b"to stderr\n"
    assert json.loads(done.stdout) == {
        "name": "__main__",
        "argv": ["one", "two"],
        "path": str(tmp_path),
        "cwd": str(tmp_path),
        "environ": environment,
        "stdin": "given",
        "reactor": False,
    }


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


@pytest.mark.newest
def test_signals(module: Callable[[str], str], tmp_path: Path) -> None:
    """A process can be stopped, continued, interrupted and killed by signals."""
    name = module(READY)
    with (tmp_path / "out").open("w") as out:
        first = forks.start([name], cwd=tmp_path, stdout=out)
        second = forks.start([name], cwd=tmp_path, stdout=out)
    assert first.pid != second.pid
    while (tmp_path / "out").read_text().count("ready") < 2:
        time.sleep(0.01)
    assert first.poll() is None
    first.send_signal(signal.SIGSTOP)
    while state(first.pid) != "T":
        time.sleep(0.01)
    first.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(0.05)
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) == -signal.SIGINT
    assert "KeyboardInterrupt" in (tmp_path / "out").read_text()
    assert second.poll() is None
    second.kill()
    assert second.wait() == second.poll() == second.returncode == -signal.SIGKILL
    second.kill()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


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
