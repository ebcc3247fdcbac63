"""A process of the fork server behaves like one of ``python -m``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests import forks
from tests.crawl.crawl import CrawlResult, run_crawl
from tests.crawl.server import Site

if TYPE_CHECKING:
    from pathlib import Path

LAST_WORDS = """\
import sys
class Cycle:
    def __init__(self): self.itself = self
    def __del__(self): print("end", file=sys.stderr)
cycle = Cycle()
"""
WHAT_IT_GETS = """\
import json, os, sys
print(json.dumps([sys.argv, sys.path[0], os.getcwd(), dict(os.environ), sys.stdin.read()]))
"""
WAIT = "import time; print('waits', flush=True); time.sleep(60); print('too late')"
KILLED = """\
from tests import forks
with forks.Popen(["its_module"]) as process: pass
"""


@pytest.mark.newest
@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("pass", 0, b""),
        ("raise SystemExit('no')", 1, b"no\n"),
        ("1 / 0", 1, b"ZeroDivisionError: division by zero\n"),
        ("raise KeyboardInterrupt", -2, b"KeyboardInterrupt\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, b""),
        ("import atexit; atexit.register(print, 'end', file=__import__('sys').stderr)", 0, b"end\n"),
        ("import threading; threading.Timer(0.1, print, ['late'], {'file': __import__('sys').stderr}).start()", 0, b"late\n"),
        (LAST_WORDS, 0, b"end\n"),
        (f"{LAST_WORDS}sys.exit(3)", 3, b"end\n"),
        ("import os; os._exit(7)", 7, b""),
    ],
)  # fmt: skip
def test_how_it_ends(tmp_path: Path, code: str, status: int, said: bytes) -> None:
    (tmp_path / "its_module.py").write_text(code)
    done = forks.run(["its_module"], cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr.endswith(said)
    assert done.stderr or not said


@pytest.mark.newest
def test_what_it_gets(tmp_path: Path) -> None:
    """It has the arguments, folder, environment and input that it is given, and nothing else."""
    module = tmp_path / "its_module.py"
    module.write_text(WHAT_IT_GETS)
    given = {"cwd": tmp_path, "env": {"NAME": "tea ü"}}
    done = forks.run(["its_module", "-x", "é"], stdin="água\n".encode(), **given)
    got = [
        [str(module), "-x", "é"],
        str(tmp_path),
        str(tmp_path),
        given["env"],
        "água\n",
    ]
    assert json.loads(done.stdout) == got


@pytest.mark.newest
def test_stopped(tmp_path: Path) -> None:
    """Ctrl-C ends it, as does a time limit, and the end of the tests."""
    (tmp_path / "its_module.py").write_text(WAIT)
    with forks.Popen(["its_module"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"waits\n"
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    with pytest.raises(subprocess.TimeoutExpired):
        forks.run(["its_module"], cwd=tmp_path, timeout=0.1)
    command = [sys.executable, "-c", KILLED]
    environment = {**os.environ, "PYTHONPATH": str(forks.ROOT)}
    pipe = {"stdout": subprocess.PIPE, "env": environment, "cwd": tmp_path}
    with subprocess.Popen(command, **pipe) as tests:
        assert tests.stdout.readline() == b"waits\n"
        tests.kill()
        # This is the end of the process, and of its server, which have the same output.
        assert tests.stdout.read() == b""


@pytest.mark.slow
@pytest.mark.unmeasured
def test_crawl_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl in a new Python process has the same result as one in a forked process."""
    with Site() as site:
        host = site.add("User-agent: *\nDisallow: /private/\n")
        urls = [host.url("/public"), host.url("/private/1")]
        forked = run_crawl(urls)
        monkeypatch.setattr(forks, "CAN_FORK", False)
        fresh = run_crawl(urls)
    assert host.pages == ["/public", "/public"]
    assert timeless(fresh) == timeless(forked)


def timeless(crawl: CrawlResult) -> list[Any]:
    """Return the result of *crawl*, and its stats without times."""
    stats = {
        key: value
        for key, value in crawl.stats.items()
        if not key.endswith("_time") and not isinstance(value, float)
    }
    return [crawl.exit_code, crawl.errors, crawl.responses, stats]
