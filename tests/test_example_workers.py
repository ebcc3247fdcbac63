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
    """What the command does, whose workers are processes of the fork server."""
    monkeypatch.syspath_prepend(str(PROJECT))
    monkeypatch.chdir(project)
    many = import_module("demo.many")
    monkeypatch.setattr(many, "os", SimpleNamespace(environ=environment()))
    # Not that of another project, if a test before has asked for one.
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

    monkeypatch.setattr(many, "LEASE", 2)
    monkeypatch.setattr(
        many, "subprocess", SimpleNamespace(Popen=start, PIPE=popen.PIPE)
    )
    yield run
    for process in started:
        process.kill()


@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_many(run: Run, project: Path) -> None:
    """Workers on one queue fetch together what one fetches alone, each page once, and one
    robots.txt for all. Each has a ledger of its own.
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
    """What a worker had under way that is killed is fetched by another one, and nothing is
    lost with it.
    """
    pytest.importorskip("scrapy_redis")
    status, printed = run("2", "--kill")
    head, *lines = printed.splitlines()
    assert re.fullmatch(r"worker [12] was killed", head)
    assert not {*ALL_FETCHED, *ACQUITTED} - set(lines)
    assert status == 0


@pytest.mark.newest
def test_without_redis(project: Path, tmp_path: Path) -> None:
    """It says what is missing."""
    nowhere = environment() | {"PATH": str(tmp_path)}
    done = forks.run(["demo.many"], cwd=project, env=nowhere)
    assert done.returncode == 2
    assert b"there is no redis-server" in done.stdout
    assert b"ERROR" not in done.stderr
