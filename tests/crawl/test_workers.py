"""Several crawls on one store fetch each robots.txt once, and survive the end of
another crawl or of the store.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.test_stores import check_obeyed, urls, wait_until
from tests.stores.redis_server import BINARY, RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

RULES = "User-agent: *\nDisallow: /private/\n"
WORKERS, HOSTS = 4, 36


@pytest.fixture(params=["redis", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store that several processes can use."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'robotstxt.sqlite'}"
        return
    if BINARY is None:
        pytest.skip("There is no redis-server on the PATH")
    with RedisServer() as server:
        yield server.url


def test_one_fetch_for_all(site: Site, store: str) -> None:
    """If four workers need the robots.txt of a host at once, one fetches it, and all obey it."""
    hosts = [site.add(robots(RULES, delay=0.2)) for _ in range(HOSTS)]
    asked = urls(hosts, "page", 1)
    settings = {"REP_STORE": store, "CONCURRENT_REQUESTS": 16}

    def work(_: int) -> CrawlResult:
        return run_crawl(asked, settings=settings)

    with ThreadPoolExecutor(WORKERS) as pool:
        results = list(pool.map(work, range(WORKERS)))
    assert [len(host.robots_hits) for host in hosts] == [1] * HOSTS
    for result in results:
        check_obeyed(asked, hosts, result)
        assert "rep/store/errors" not in result.stats
    for host in hosts:
        assert host.pages == ["/public/page-0"] * WORKERS
    taken = sum(r.stats.get("rep/robotstxt/from_store", 0) for r in results)
    assert taken == (WORKERS - 1) * HOSTS


@pytest.mark.slow
def test_killed_with_the_lock(site: Site, store: str) -> None:
    """If a worker is killed while it fetches a robots.txt, the others wait for some
    seconds, and then fetch it.
    """
    slow = site.add([Answer(hang=True), robots(RULES)])
    healthy = site.add(RULES)
    settings = {"REP_STORE": store}
    first = start_crawl([slow.url("/public/first")], settings=settings)
    wait_until(lambda: slow.robots_hits or first.process.poll() is not None)
    asked = urls([slow, healthy], "page")
    second = start_crawl(asked, settings=settings)
    wait_until(lambda: len(healthy.pages) == 4 or second.process.poll() is not None)
    # The second crawl waits for the first one, without its own fetch.
    assert len(slow.robots_hits) == 1
    assert second.process.poll() is None, second.log
    first.process.kill()
    killed = time.monotonic()
    assert first.wait() == -9
    result = second.result()
    assert time.monotonic() - killed < 100
    check_obeyed(asked, [slow, healthy], result)
    assert slow.pages == healthy.pages == [f"/public/page-{n}" for n in range(4)]
    assert [len(host.robots_hits) for host in (slow, healthy)] == [2, 1]
    assert slow.robots_hits[1].time - killed < 60


@pytest.mark.slow
@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_redis_stopped_and_started(site: Site) -> None:
    """While Redis is down, the crawl goes on and obeys; when it is back,
    the crawl uses it again.
    """
    # Each robots.txt takes longer than the one before, so that the store is used all the
    # time.
    hosts = [site.add(robots(RULES, delay=0.25 * n)) for n in range(HOSTS)]
    asked = [url for host in hosts for url in urls([host], "page", 2)]
    requests = [{"url": url, "priority": -at} for at, url in enumerate(asked)]
    with RedisServer() as server:
        settings = {"REP_STORE": server.url, "CONCURRENT_REQUESTS": 4}
        crawl = start_crawl(requests, settings=settings)
        ended = crawl.process.poll
        wait_until(lambda: hosts[4].pages or ended() is not None)
        server.stop()
        wait_until(lambda: hosts[12].pages or ended() is not None)
        server.start()
        result = crawl.result()
        kept = list(server.client().scan_iter("rep:file:*"))
    check_obeyed(asked, hosts, result)
    for host in hosts:
        assert host.pages == ["/public/page-0", "/public/page-1"]
        assert len(host.robots_hits) == 1
    assert result.stats["rep/store/errors"] > 0
    assert len(result.lines("WARNING", "continues without it")) == 1, result.log
    assert len(result.lines("INFO", "works again")) == 1, result.log
    # Redis restarted empty: these entries were stored after that.
    assert 0 < len(kept) < HOSTS - 4
