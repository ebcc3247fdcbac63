"""The example project, crawled by several workers."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.example import copy_project, environment, without_time
from tests.stores.redis_server import BINARY

if TYPE_CHECKING:
    from pathlib import Path

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


def run(project: Path, *arguments: str, path: str = "") -> tuple[int, str]:
    process = subprocess.run(
        [sys.executable, "-m", "demo.many", *arguments],
        cwd=project,
        env=environment() | ({"PATH": path} if path else {}),
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "ERROR" not in process.stderr
    return process.returncode, without_time(process.stdout)


@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_many(tmp_path: Path) -> None:
    """Workers on one queue fetch together what one fetches alone, each page once, and one
    robots.txt for all. Each has a ledger of its own.
    """
    pytest.importorskip("scrapy_redis")
    project = copy_project(tmp_path)
    status, printed = run(project, "3")
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


@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_killed(tmp_path: Path) -> None:
    """What a worker had under way that is killed is fetched by another one, and nothing is
    lost with it.
    """
    pytest.importorskip("scrapy_redis")
    status, printed = run(copy_project(tmp_path), "2", "--kill")
    head, *lines = printed.splitlines()
    assert re.fullmatch(r"worker [12] was killed", head)
    assert not {*ALL_FETCHED, *ACQUITTED} - set(lines)
    assert status == 0


def test_without_redis(tmp_path: Path) -> None:
    """It says what is missing."""
    status, printed = run(copy_project(tmp_path), path=str(tmp_path))
    assert status == 2
    assert "there is no redis-server" in printed
