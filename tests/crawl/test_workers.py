"""Several crawls on one store fetch each robots.txt once, and survive the end of
another crawl or of the store.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import robots
from tests.crawl.crawl import run_crawl
from tests.crawl.test_stores import check_obeyed, urls
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
