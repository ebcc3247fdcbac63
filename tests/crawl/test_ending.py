"""The end of a crawl with waiting requests: no failures are stored, memory is
freed, and no request is lost.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.stores.sqlite import SqliteStore
from scrapy_rep.stores.testing import lock, read
from tests import forks
from tests.crawl.answers import HANGS, redirect
from tests.crawl.crawl import ADDON, ROOT, start_crawl
from tests.crawl.test_frontier import named

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"


def test_closing_is_no_outage(site: Site, mode: str, tmp_path: Path) -> None:
    """A crawl that is closed while robots.txt files wait for a turn, an answer (also after
    redirects) or a retry stores no failure for them, gives back their locks, and ends soon, as do
    the many requests that wait for them.
    """
    slow = site.add(f"{RULES}Crawl-delay: 60\n", name=named(1))
    strangers = [
        site.add(redirect(slow.url("/stranger"), delay=0.2), name=named(number))
        for number in range(2, 8)
    ]
    hanging, moved = site.add(HANGS), site.add()
    moved.chain(2, HANGS)
    other = site.add(RULES)
    urls = [one.url(f"/{number}") for one in (hanging, moved) for number in range(40)]
    store = tmp_path / "robotstxt.sqlite"
    crawl = start_crawl(
        [*urls, *(host.url("/public") for host in (slow, *strangers, other))],
        mode=mode,
        settings={"REP_STORE": f"sqlite:///{store}", "REP_WAIT_MAX": 600},
    )
    crawl.until(
        lambda: (
            hanging.robots_hits
            and len(moved.hits) == 3
            and other.pages
            and all(host.robots_hits for host in strangers)
        )
    )
    crawl.process.send_signal(signal.SIGINT)
    result = crawl.result(60)
    assert result.exit_code == 0
    assert result.stats["finish_reason"] == "shutdown"
    assert (hanging.pages, moved.pages) == ([], ["/hop-1", "/hop-2"])
    assert len(hanging.robots_hits) == 1
    assert other.pages == ["/public"]
    stored = SqliteStore(store)
    for host in (*strangers, hanging, moved):
        key = str(origin_of(host.origin))
        assert read(stored, key) is None
        assert lock(stored, key, "the next crawl", 1)
    assert read(stored, str(origin_of(other.origin))) is not None
    stored.close()
    assert "log_count/ERROR" not in result.stats, result.log
    for bad in ("is unreachable", "Traceback", "never retrieved"):
        assert bad not in result.log


def test_crawlers_are_freed(tmp_path: Path) -> None:
    """Three crawls in one process, one after the other, are all freed from memory."""
    code = f"""
import asyncio, gc, weakref
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.reactor import install_reactor
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from twisted.internet import defer, reactor, task

class Three(Spider):
    name = "three"
    start_urls = ["http://127.0.0.1:9/"]

async def main(_):
    seen = []
    runner = AsyncCrawlerRunner({json.loads(json.dumps(ADDON))!r} | {{
        "LOG_ENABLED": False, "TELNETCONSOLE_ENABLED": False}})
    for _ in range(3):
        crawler = runner.create_crawler(Three)
        seen.append(weakref.ref(crawler))
        await defer.Deferred.fromFuture(asyncio.ensure_future(runner.crawl(crawler)))
        del crawler
    await task.deferLater(reactor, 0.1)
    gc.collect()
    print("alive:", sum(each() is not None for each in seen))

task.react(lambda reactor: defer.Deferred.fromCoroutine(main(reactor)))
"""
    (tmp_path / "three_crawls.py").write_text(code)
    done = forks.run(
        ["three_crawls"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert b"alive: 0" in done.stdout, (done.stdout + done.stderr).decode()
