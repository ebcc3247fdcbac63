"""The checks of the URL that a response comes from, with fake responses."""

from __future__ import annotations

from typing import Any

from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from tests.fakes import answer, coroutine_test, fake_crawler, records

SITE = "http://example.com"
ROBOTS_URL = f"{SITE}/robots.txt"


async def arrive(url: str, **settings: Any) -> tuple[Any, list[str]]:
    """Check a response whose download handler followed a redirect to *url*. Return the stats,
    and the URLs of the requests that were reported as allowed.
    """
    settings = {"USER_AGENT": "mybot", **settings}
    crawler = fake_crawler(settings, {ROBOTS_URL: answer(ROBOTS_URL)})
    middleware = RobotsTxtMiddleware.from_crawler(crawler)
    seen = records(crawler)
    response = HtmlResponse(url)
    assert await middleware.process_response(Request(SITE), response) is response
    return crawler.stats, [each.url for each in seen if each.verdict == "allowed"]


@coroutine_test
async def test_an_override_counts_for_a_page_that_it_allows() -> None:
    """The stat of an override counts allowed redirects of a browser as it counts requests."""
    stats, _ = await arrive(f"{SITE}/public", REP_OVERRIDES={"example.com": "obey"})
    assert stats.get_value("rep/override/obey") == 1


@coroutine_test
async def test_a_robotstxt_is_reported_only_with_all_requests() -> None:
    """A browser may fetch robots.txt. Only the ledger level "all" records that."""
    ledger = {"REP_LEDGER": "unused.sqlite"}
    assert await _allowed(**ledger) == []
    assert await _allowed(**ledger, REP_LEDGER_LEVEL="all") == [ROBOTS_URL]


async def _allowed(**settings: Any) -> list[str]:
    return (await arrive(ROBOTS_URL, **settings))[1]
