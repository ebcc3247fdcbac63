"""Purposes and usage preferences in both downloader middlewares, with fake responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy_rep.exceptions import FileDenied, RobotsDenied
from scrapy_rep.fetching.identity import Identity
from scrapy_rep.protocol.robots import RobotsTxt
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

    async def send(self, path: str, **meta: Any) -> Request:
        """A request that the robots.txt middleware has let pass."""
        request = Request(f"{SITE}{path}", meta=meta)
        while await self.gate.process_request(request) is request:
            pass
        return request

    def receive(
        self, request: Request, body: bytes = b"", **headers: str
    ) -> UsagePreferences:
        """The usage preferences for the response to *request*."""
        self.reader.process_response(request, page(request, body, **headers))
        found: UsagePreferences = request.meta["rep_usage"]
        return found

    def stat(self, key: str) -> Any:
        return self.crawler.stats.get_value(key)


def page(request: Request, body: bytes = b"", **headers: str) -> Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    is_html = "html" in fields.get("Content-Type", "html")
    response_class = HtmlResponse if is_html else Response
    return response_class(request.url, headers=fields, body=body)


# Product tokens of purposes.


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


def test_the_pace_of_several_names() -> None:
    """The largest crawl delay for any of the product tokens counts; that for ``*`` does not."""
    robots = RobotsTxt.parse(
        b"User-agent: searcher\nCrawl-delay: 1\n\n"
        b"User-agent: trainer\nCrawl-delay: 3\n\n"
        b"User-agent: *\nCrawl-delay: 10\n"
    )
    delays = []
    for purposes in (["search"], ["train-ai"], ["search", "train-ai"]):
        crawler = fake_crawler({"REP_PURPOSES": purposes, "REP_AGENTS": NAMES})
        delays.append(Identity.of(crawler).pace(robots).crawl_delay)
    assert delays == [1, 3, 3]


def test_all_names_are_addressed() -> None:
    """A statement of a page to any of the product tokens counts; a purpose without its own
    token has that of the crawler.
    """
    crawl = Crawl("search", "train-ai", "tdm", REP_AGENTS=NAMES)
    assert crawl.reader._identity.tokens(None) == ("searcher", "trainer", "mybot")
    for name, index in (
        ("searcher", False),
        ("trainer", False),
        ("mybot", False),
        ("other", True),
    ):
        request = Request(SITE, headers={"User-Agent": "mybot"})
        crawl.receive(request, X_Robots_Tag=f"{name}: noindex")
        assert request.meta["rep_indexing"].index is index


# Pages.


@pytest.mark.parametrize(("level", "told"), [("all", 1), ("denied", 0)])
@coroutine_test
async def test_what_a_ledger_is_told(level: str, told: int, tmp_path: Any) -> None:
    """At the level "all", a signal for the ledger carries the usage preferences and the cache
    entry of robots.txt.
    """
    robots = b"User-agent: *\nContent-Usage: train-ai=n\n"
    crawl = Crawl(
        "search",
        robots=robots,
        REP_LEDGER=str(tmp_path / "ledger.sqlite"),
        REP_LEDGER_LEVEL=level,
    )
    seen = records(crawl.crawler)
    request = await crawl.send("/a")
    crawl.receive(request, X_Robots_Tag="search=y", Content_Usage="ai-use=y")
    assert sum(each.layer == "usage" for each in seen) == told


# Files for pipelines.


@pytest.mark.parametrize(
    ("headers", "settings", "purposes", "refused"),
    [
        ({"Content_Usage": "train-ai=n"}, {}, ["train-ai"], "train-ai"),
        ({"Content_Usage": "train-ai=n"}, {}, ["search"], None),
        ({"Content_Usage": "train-ai=n"}, {}, [], None),
        (
            {"Content_Usage": "train-ai=n"},
            {"REP_USAGE": "annotate"},
            ["train-ai"],
            None,
        ),
        ({"tdm_reservation": "1"}, {}, ["search", "tdm"], "tdm"),
        ({"X_Robots_Tag": "noimageai"}, {}, ["train-ai"], "train-ai"),
        (
            {"X_Robots_Tag": "noimageai", "Content_Type": "application/pdf"},
            {},
            ["train-ai"],
            None,
        ),
        ({}, {"REP_USAGE_UNKNOWN": "deny"}, ["search"], "search"),
    ],
)
def test_files_that_are_not_for_a_purpose(
    headers: dict[str, str],
    settings: dict[str, Any],
    purposes: list[str],
    refused: str | None,
) -> None:
    """A media pipeline does not get a file that must not serve a purpose of the crawl."""
    crawl = Crawl(*purposes, **settings)
    seen = records(crawl.crawler)
    request = Request(f"{SITE}/a.png", callback=NO_CALLBACK)
    headers = {"Content_Type": "image/png", **headers}
    if refused is None:
        crawl.receive(request, **headers)
        assert seen == []
        return
    with pytest.raises(FileDenied) as caught:
        crawl.receive(request, **headers)
    assert isinstance(caught.value, IgnoreRequest)
    (record,) = seen
    assert record is caught.value.record
    assert (record.reason, record.url) == (refused, request.url)
    assert (record.layer, record.verdict) == ("usage", "dropped")
    assert crawl.stat(f"rep/usage/media/{refused}") == 1
