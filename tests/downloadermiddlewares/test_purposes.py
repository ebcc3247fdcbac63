"""Purposes and usage preferences in both downloader middlewares, with fake responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.protocol.usage.vocabulary import Signal, Source
from tests.fakes import answer, coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from scrapy_rep.protocol.usage.preferences import UsagePreferences

pytestmark = pytest.mark.newest

SITE = "http://example.com"
ROBOTS_URL = f"{SITE}/robots.txt"
NAMES = {"search": "searcher", "train-ai": "trainer", "ai-use": ["trainer"]}
GROUPS = b"""\
User-agent: searcher
Disallow: /not-for-search/
Disallow: /for-none/

User-agent: trainer
Disallow: /not-for-training/
Disallow: /for-none/
Content-Usage: /usage/ train-ai=n, search=n

User-agent: other
Disallow: /
"""


class Crawl:
    """The middlewares of a crawl that has *purposes*."""

    def __init__(self, *purposes: str, robots: bytes = b"", **settings: Any) -> None:
        settings = {"REP_PURPOSES": list(purposes), "USER_AGENT": "mybot", **settings}
        answers = {ROBOTS_URL: answer(ROBOTS_URL, robots)}
        self.crawler = fake_crawler(settings, answers)
        self.gate = RobotsTxtMiddleware.from_crawler(self.crawler)
        self.reader = IndexingMiddleware.from_crawler(self.crawler)

    async def send(self, path: str) -> Request:
        """A request that the robots.txt middleware has let pass."""
        request = Request(f"{SITE}{path}")
        while await self.gate.process_request(request) is request:
            pass
        return request

    def receive(self, request: Request, **headers: str) -> UsagePreferences:
        """The usage preferences for the response to *request*."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        response = HtmlResponse(request.url, headers=fields)
        self.reader.process_response(request, response)
        found: UsagePreferences = request.meta["rep_usage"]
        return found


@coroutine_test
async def test_a_request_in_several_names() -> None:
    """A page is fetched if one of the product tokens may fetch it, and denied to the purposes
    of the other tokens.
    """
    crawl = Crawl("search", "train-ai", "ai-use", robots=GROUPS, REP_AGENTS=NAMES)
    free = crawl.receive(await crawl.send("/free"))
    assert free.denial(["search", "train-ai", "ai-use"]) is None

    stated = crawl.receive(await crawl.send("/not-for-search/"))
    denial = stated.denial(["search"])
    assert denial is not None
    statement = denial.statement
    assert statement is not None
    assert (statement.source, statement.signal) == (Source.ROBOTS_TXT, Signal.GROUP)
    assert (statement.agent, statement.position) == ("searcher", 2)
    assert statement.text == "Disallow: /not-for-search/"
    assert stated.denial(["train-ai", "ai-use"]) is None

    stated = crawl.receive(await crawl.send("/not-for-training/"))
    assert stated.denial(["search"]) is None
    for purpose in ("train-ai", "ai-use"):
        denial = stated.denial([purpose])
        assert denial is not None
        assert denial.statement is not None
        assert denial.statement.agent == "trainer"

    with pytest.raises(RobotsDenied) as caught:
        await crawl.send("/for-none/")
    assert caught.value.record.statement == "Disallow: /for-none/"


@coroutine_test
async def test_preferences_are_those_of_the_name_for_the_purpose() -> None:
    """The preferences of a group count only for the purposes of its product token."""
    crawl = Crawl("search", "train-ai", robots=GROUPS, REP_AGENTS=NAMES)
    stated = crawl.receive(await crawl.send("/usage/"))
    assert stated.denial(["train-ai"]) is not None
    assert stated.denial(["search"]) is None


@pytest.mark.parametrize(("level", "told"), [("all", 1), ("denied", 0)])
@coroutine_test
async def test_what_a_ledger_is_told(level: str, told: int) -> None:
    """At the level "all", what a page states about its use is recorded, whatever it allows."""
    crawl = Crawl("search", REP_LEDGER="ledger", REP_LEDGER_LEVEL=level)
    seen = records(crawl.crawler)
    crawl.receive(await crawl.send("/a"), Content_Usage="ai-use=y")
    assert sum(each.layer == "usage" for each in seen) == told
