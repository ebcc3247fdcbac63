"""The item gate, with pages that have usage preferences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.http import HtmlResponse
from scrapy.logformatter import LogFormatter
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.exceptions import UsageDenied
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.preferences import UsagePreferences
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware
from tests.fakes import coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler


pytestmark = pytest.mark.newest

URL = "http://example.com/page"


class Silent(LogFormatter):
    """A log formatter that logs no dropped items."""

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return None


def gate(*purposes: str, **settings: Any) -> tuple[IndexingGateMiddleware, Crawler]:
    settings = {"REP_PURPOSES": list(purposes), "USER_AGENT": "mybot", **settings}
    crawler = fake_crawler(settings)
    return IndexingGateMiddleware.from_crawler(crawler), crawler


def stated(text: str) -> UsagePreferences:
    body = f"User-agent: *\nContent-Usage: {text}\n".encode()
    return RobotsTxt.parse(body).usage(URL, ("mybot",))


def page(preferences: UsagePreferences | None = None, tag: bytes = b"") -> HtmlResponse:
    meta = {
        "rep_indexing": IndexingRules.parse([tag] if tag else []),
        "rep_usage": preferences,
    }
    return HtmlResponse(URL, request=Request(URL, meta=meta))


def no_images() -> UsagePreferences:
    """Preferences that are only about the images of a page."""
    rules = IndexingRules.parse([b"noimageai"])
    return UsagePreferences.of_page([], rules.statements, ())


@pytest.mark.parametrize(
    ("text", "purposes", "settings", "denied"),
    [
        ("train-ai=n", ["train-ai"], {}, "train-ai"),
        ("train-ai=n, search=n", ["search", "train-ai"], {}, "search"),
        ("train-ai=n", ["search"], {}, None),
        ("train-ai=y", ["train-ai"], {}, None),
        ("train-ai=n", ["train-ai"], {"REP_USAGE": "ignore"}, None),
        ("train-ai=y", ["search"], {"REP_USAGE_UNKNOWN": "deny"}, "search"),
        ("train-ai=n", ["train-ai"], {"LOG_FORMATTER": Silent}, "train-ai"),
    ],
)
@coroutine_test
async def test_items(
    caplog: pytest.LogCaptureFixture,
    text: str,
    purposes: list[str],
    settings: dict[str, Any],
    denied: str | None,
) -> None:
    """An item whose page denies a purpose is dropped with the signal of pipelines, and logged
    by the log formatter of the project.
    """
    mw, crawler = gate(*purposes, **settings)
    crawler.logformatter = settings.get("LOG_FORMATTER", LogFormatter)()
    seen: Deferred[Any] = Deferred()

    def receive(item: Any, exception: UsageDenied) -> None:
        seen.callback((item, exception))

    crawler.signals.connect(receive, signals.item_dropped)
    item = {"a": 1}
    found = list(mw.process_spider_output(page(stated(text)), [item]))
    if denied is None:
        assert found == [item]
        return
    assert found == []
    dropped, exception = await maybe_deferred_to_future(seen)
    assert dropped is item
    assert type(exception) is UsageDenied
    assert exception.record.reason == denied
    assert crawler.stats.get_value(f"rep/usage/dropped/{denied}") == 1
    assert ("Dropped: " in caplog.text) is ("LOG_FORMATTER" not in settings)


def test_annotate() -> None:
    """The item field has the answer for each purpose; the signal has the denied one."""
    mw, crawler = gate("search", "train-ai", REP_USAGE="annotate")
    seen = records(crawler)
    for text, may_train in (("train-ai=n", False), ("train-ai=y", True)):
        (item,) = mw.process_spider_output(page(stated(text)), [{}])
        assert item["robots"]["usage"] == {"search": True, "train-ai": may_train}
    (record,) = seen
    assert (record.verdict, record.reason) == ("annotated", "train-ai")
    assert crawler.stats.get_value("rep/usage/annotated") == 2


def test_annotate_images() -> None:
    """If a page denies only the use of its images, the item field says that too."""
    mw, _ = gate("search", "train-ai", REP_USAGE="annotate")
    (item,) = mw.process_spider_output(page(no_images()), [{}])
    assert item["robots"] == {
        "usage": {"search": True, "train-ai": True},
        "usage_of_images": {"search": True, "train-ai": False},
    }


@coroutine_test
async def test_asynchronous_callbacks() -> None:
    """The output of an asynchronous callback is filtered, too, and its requests do not inherit
    the rules of the page.
    """
    mw, _ = gate("train-ai")
    response = page(stated("train-ai=n"))

    async def result() -> AsyncIterator[Any]:
        yield {"a": 1}
        yield Request("http://example.com/next", meta=dict(response.meta))

    found = [one async for one in mw.process_spider_output_async(response, result())]
    (request,) = found
    assert request.url == "http://example.com/next"
    assert "rep_indexing" not in request.meta
    assert "rep_usage" not in request.meta
