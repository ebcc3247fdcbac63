"""A robots.txt that becomes stale within a crawl, whose clock is moved on.

tests/protocol/access has how long it holds, and what holds in an outage, for each dialect;
tests/fetching/test_cache.py how long an outage has lasted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Site

pytestmark = [pytest.mark.newest, pytest.mark.unmeasured]

DAY = 24 * 3600.0
NO_A, NO_B = "User-agent: *\nDisallow: /a/\n", "User-agent: *\nDisallow: /b/\n"
DOWN = Answer(status=503)
ONE = {"CONCURRENT_REQUESTS": 1}


def holds(text: str, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return robots(text, headers=fields)


def crawl_in_order(
    urls: Iterable[str], mode: str = "asyncio", **kw: Any
) -> CrawlResult:
    """Crawl the first of *urls*, and then the others, which are queued at once."""
    first, *others = urls
    return crawl_with_clock([first], mode, later=[0], again=others, **kw)


def crawl_with_clock(urls: list[str], mode: str = "asyncio", **kw: Any) -> CrawlResult:
    settings = {**ONE, **kw.pop("settings", {})}
    spider = f"tests.crawl.waiting_spiders.{kw.pop('spider', 'ClockSpider')}"
    return run_crawl(urls, mode=mode, spider=spider, settings=settings, **kw)


def test_when_it_becomes_stale(site: Site, mode: str) -> None:
    """When robots.txt becomes stale, URLs that are already queued follow the new rules. If it
    can't be refreshed because of status 503, its old rules hold and the crawl goes on.
    """
    changed = site.add([holds(NO_B, Cache_Control="max-age=600"), robots(NO_A)])
    kept = site.add([robots(NO_A), DOWN])
    paths = [f"/{part}/{number}" for number in range(20) for part in "ab"]
    before = [host.url(path) for path in paths[:20] for host in (changed, kept)]
    after = [host.url(path) for path in paths[20:] for host in (changed, kept)]
    result = crawl_in_order(
        [*before, changed.url("/tick"), *after],
        mode,
        settings={"REP_WAIT_MAX": 600},
        moves={"/tick": DAY + 1},
    )
    first, rest = ["/tick", *paths[:20:2]], paths[21::2]
    assert changed.pages == sorted(first + rest)
    assert kept.pages == sorted(paths[1::2])
    assert {error["reason"] for error in result.errors} == {"rule"}
    assert result.stats["rep/denied/rule"] == 40
    assert len(changed.robots_hits) == len(kept.robots_hits) == 2
    assert "rep/denied/unreachable" not in result.stats


def test_nobody_passes_while_it_is_refreshed(site: Site, mode: str) -> None:
    """While a stale robots.txt is refreshed, requests to its host wait, and
    those to other hosts do not.
    """
    host, other = site.add(), site.add()
    answered = []

    def others_are_done() -> bool:
        if len(other.pages) == len(paths):
            answered.append(time.monotonic())
        return bool(answered)

    fresh = robots(NO_A, after=others_are_done)
    host.answers["/robots.txt"] = [robots(NO_B), fresh]
    paths = [f"/{part}/{number}" for number in range(20) for part in "ab"]
    urls = [*map(host.url, paths), *map(other.url, paths)]
    settings = {"CONCURRENT_REQUESTS": 4}
    first = [host.url("/a/first")]
    crawl_with_clock(first, mode, settings=settings, later=[DAY + 1], again=urls)
    asked = [hit.time for hit in host.robots_hits]
    assert len(asked) == 2
    assert answered
    for hit in host.hits:
        if hit.path.startswith("/a/") and hit.path != "/a/first":
            assert hit.time < asked[1]
        if hit.path.startswith("/b/"):
            assert hit.time >= answered[0]
    assert len([path for path in host.pages if path.startswith("/b/")]) == 20
