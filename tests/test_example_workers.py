"""The example project, crawled by several workers."""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests import forks
from tests.example import PROJECT, copy_project, environment, without_time
from tests.forks import popen
from tests.stores.redis_server import BINARY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.forks import Forked

pytestmark = pytest.mark.unmeasured

ACQUITTED = [
    "requests that reached a forbidden path: 0",
    "requests outside of a Visit-time: 0",
    "hosts asked faster than their Crawl-delay: 0",
    "smallest gap at http://slow.example: <gap>, asked for: 0.3 s",
]
ALL_FETCHED = [
    "pages that were fetched: 32",
    "pages that should have been fetched, and were not: 0",
]


class Run(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str]: ...


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project(tmp_path)


@pytest.fixture
def run(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """A function that runs the command, with its workers started by the fork server."""
    monkeypatch.syspath_prepend(str(PROJECT))
    monkeypatch.chdir(project)
    many = import_module("demo.many")
    monkeypatch.setattr(many, "os", SimpleNamespace(environ=environment()))
    # An earlier test may have chosen another project.
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "demo.workers")
    started: list[Forked] = []

    def start(*args: Any, **given: Any) -> Forked:
        process = popen.Popen(*args, **given)
        if args[0][0] == sys.executable:
            process.wait = partial(process.wait, 180)
            started.append(process)
        return process

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["many", *arguments])
        status = many.main()
        printed, log = capfd.readouterr()
        assert "ERROR" not in log
        return status, without_time(printed)

    # Longer than a busy machine keeps a worker from its heartbeat.
    monkeypatch.setattr(many, "LEASE", 6)
    monkeypatch.setattr(
        many, "subprocess", SimpleNamespace(Popen=start, PIPE=popen.PIPE)
    )
    yield run
    for process in started:
        process.kill()


@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_many(run: Run, project: Path) -> None:
    """Workers on one queue fetch the same pages as a single crawl, each page and each
    robots.txt once. Each worker has its own ledger.
    """
    pytest.importorskip("scrapy_redis")
    status, printed = run("3")
    table, _, verdict = printed.partition("\n\n")
    assert verdict.splitlines() == [
        *ALL_FETCHED,
        "pages fetched again: 0",
        "requests for a robots.txt: 12",
        "robots.txt files asked for again: 0",
        *ACQUITTED,
    ]
    assert status == 0
    numbers = dict(re.findall(r"^(\d+) +(\d+)$", table, re.MULTILINE))
    assert sum(map(int, numbers.values())) == 32 + 12
    assert len(list(project.glob("demo-*.ledger"))) == 3


@pytest.mark.newest
@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_killed(run: Run) -> None:
    """If a worker is killed, another one fetches the pages that it had
    under way, and none is lost.
    """
    pytest.importorskip("scrapy_redis")
    status, printed = run("2", "--kill")
    head, *lines = printed.splitlines()
    assert re.fullmatch(r"worker [12] was killed", head)
    assert [line for line in (*ALL_FETCHED, *ACQUITTED) if line not in lines] == []
    assert status == 0


@pytest.mark.newest
def test_without_redis(project: Path, tmp_path: Path) -> None:
    """Without a redis-server, the command says that it is missing."""
    nowhere = environment() | {"PATH": str(tmp_path)}
    done = forks.run(["demo.many"], cwd=project, env=nowhere)
    assert done.returncode == 2
    assert b"there is no redis-server" in done.stdout
    assert b"ERROR" not in done.stderr
