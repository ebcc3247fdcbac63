"""Crawls that are killed with SIGKILL fetch nothing forbidden, and damage no files: neither their
ledger nor their store.
"""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.ledger.reader import open_ledger
from tests import effort
from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.server import PAGE
from tests.crawl.test_stores import wait_until
from tests.report.making import run as report

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured, pytest.mark.slow]

HOSTS, PAGES, FORBIDDEN = 3, 20, 4
RULES = "User-agent: *\nDisallow: /private/\n"
AT_ONCE = 4


class Killed:
    """A crawl with all its files in one folder, which is killed and started again.

    Each run requests the URLs of the earlier runs, and some of its own.
    """

    def __init__(self, hosts: list[Host], folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder
        self.ledger = folder / "ledger.sqlite"
        self.asked: list[str] = []
        self._forbidden: list[str] = []
        self._runs = 0

    def arguments(self) -> dict[str, Any]:
        self._runs += 1
        for host in self.hosts:
            paths = [f"/{self._runs}/{number}" for number in range(PAGES)]
            host.answers |= {path: Answer(PAGE, delay=0.01) for path in paths}
            self.asked += map(host.url, paths)
            paths = [f"/private/{self._runs}/{n}" for n in range(FORBIDDEN)]
            self._forbidden += map(host.url, paths)
        urls = [*self.asked, *self._forbidden]
        settings = {
            "CONCURRENT_REQUESTS": AT_ONCE,
            "JOBDIR": str(self.folder / "job"),
            "REP_LEDGER": str(self.ledger),
            "REP_LEDGER_LEVEL": "all",
        }
        return {"requests": urls, "settings": settings}

    def run_until(self, hits: int, pause: float) -> None:
        """Kill a run *pause* seconds after it has fetched *hits* pages."""
        before = len(self.fetched())
        crawl = start_crawl(**self.arguments())
        wait_until(
            lambda: (
                len(self.fetched()) >= before + hits or crawl.process.poll() is not None
            )
        )
        time.sleep(pause)
        crawl.process.kill()
        crawl.wait()
        assert "Traceback" not in crawl.log, crawl.log

    def fetched(self) -> list[str]:
        return [host.url(path) for host in self.hosts for path in host.pages]


def moments(seed: int) -> list[tuple[int, float]]:
    """Return when to kill each run: after how many pages, and how many seconds later."""
    chance = random.Random(seed)
    count = 30 if effort.is_long else 4
    return [
        (chance.randrange(HOSTS * PAGES), chance.uniform(0, 0.05)) for _ in range(count)
    ]


def test_kills(site: Site, tmp_path: Path) -> None:
    """After each kill, the ledger and the store are whole. At the end each allowed page was
    fetched, and the report can be made.
    """
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    delayed = site.add(f"{RULES}Crawl-delay: 0.01\n", name="127.0.1.1")
    hosts = [delayed, *(site.add(RULES) for _ in range(HOSTS - 1))]
    crawl = Killed(hosts, tmp_path)
    for hits, pause in moments(seed):
        crawl.run_until(hits, pause)
        check_files(crawl)
    result = run_crawl(**crawl.arguments())
    assert result.stats["finish_reason"] == "finished"
    assert "log_count/ERROR" not in result.stats, result.log
    check_files(crawl)
    assert set(crawl.fetched()) == set(crawl.asked)
    assert report(crawl.ledger, "-o", tmp_path / "report.html") == 0


def check_files(crawl: Killed) -> None:
    """Check that the ledger and the store are intact, and that the ledger
    allowed no forbidden page.
    """
    for path in (crawl.ledger, crawl.folder / "job" / "robotstxt.sqlite"):
        if path.exists():
            with closing(sqlite3.connect(path)) as database:
                (found,) = database.execute("PRAGMA integrity_check").fetchone()
            assert found == "ok", path
    if crawl.ledger.exists():
        with closing(open_ledger(str(crawl.ledger))) as ledger:
            query = "SELECT count(*) FROM decision WHERE verdict = 'allowed'"
            (private,) = ledger.execute(
                f"{query} AND url LIKE '%/private/%'"
            ).fetchone()
            assert private == 0
