"""How long a robots.txt holds, with a clock that the crawl moves on."""

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

MINUTE, HOUR, DAY = 60.0, 3600.0, 24 * 3600.0
NO_A, NO_B = "User-agent: *\nDisallow: /a/\n", "User-agent: *\nDisallow: /b/\n"
DOWN = Answer(status=503)
ONE = {"CONCURRENT_REQUESTS": 1}
ALL, NONE, KEPT = {"/a/", "/b/"}, set(), {"/b/"}


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


def test_a_rule_that_changes(site: Site, mode: str) -> None:
    """When robots.txt becomes stale, URLs that are already queued follow the new rules."""
    host = site.add([holds(NO_B, Cache_Control="max-age=600"), robots(NO_A)])
    before = [f"/{part}/{number}" for number in range(10) for part in "ab"]
    after = [f"/{part}/{number}" for number in range(10, 60) for part in "ab"]
    paths = [*before, "/tick", *after]
    result = crawl_in_order(map(host.url, paths), mode, moves={"/tick": 601})
    assert host.pages == sorted(
        ["/tick"]
        + [path for path in before if path.startswith("/a/")]
        + [path for path in after if path.startswith("/b/")]
    )
    assert len(host.robots_hits) == 2
    assert result.stats["rep/denied/rule"] == 60


# tests/protocol/access/states has this, and what holds in an outage, for each dialect;
# tests/fetching/test_cache.py how long an outage has lasted.
@pytest.mark.parametrize(
    ("seconds", "fetches"), [(7 * DAY - MINUTE, 1), (7 * DAY + 1, 2)]
)
def test_how_long_it_holds(site: Site, seconds: float, fetches: int) -> None:
    """Without a Cache-Control header, the dialect says how long robots.txt is fresh."""
    host = site.add([robots(NO_B), robots(NO_A)])
    urls = map(host.url, ("/c/", "/tick", "/a/", "/b/"))
    settings = {"REP_DIALECT": "classic"}
    crawl_in_order(urls, settings=settings, moves={"/tick": seconds})
    assert host.pages == [["/a/", "/c/", "/tick"], ["/b/", "/c/", "/tick"]][fetches - 1]
    assert len(host.robots_hits) == fetches


def test_a_good_copy_is_kept_in_mid_crawl(site: Site, mode: str) -> None:
    """If a stale robots.txt can't be refreshed because of status 503, its old rules
    hold and the crawl goes on.
    """
    host = site.add([robots(NO_A), DOWN])
    paths = [f"/{part}/{number}" for number in range(20) for part in "ab"]
    paths.insert(20, "/tick")
    result = crawl_in_order(
        map(host.url, paths),
        mode,
        settings={"REP_WAIT_MAX": 600},
        moves={"/tick": DAY + 1},
    )
    assert host.pages == sorted(path for path in paths if not path.startswith("/a/"))
    assert {error["reason"] for error in result.errors} == {"rule"}
    assert len(host.robots_hits) == 2
    assert "rep/given_up" not in result.stats


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


def test_retry_after_is_kept_to(site: Site) -> None:
    """robots.txt is not fetched again before the time in ``Retry-After``."""
    down = Answer(status=503, headers={"Retry-After": "7200"})
    host = site.add([down, robots(NO_A)])
    again = [host.url("/a/"), host.url("/b/")]
    later = [HOUR, HOUR - MINUTE]
    result = crawl_with_clock(again, settings=ONE, later=later, again=again)
    assert host.pages == []
    assert len(result.errors) == 6
    assert len(host.robots_hits) == 1
