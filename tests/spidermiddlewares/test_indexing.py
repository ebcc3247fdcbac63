"""The spider middleware for items and links, with fake responses."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from scrapy import Field, Item, Request, signals
from scrapy.exceptions import DropItem, NotConfigured
from scrapy.http import HtmlResponse
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.exceptions import ItemDenied
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware
from tests.fakes import coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

URL = "http://example.com/page"
FUTURE, PAST = b"unavailable_after: 2999-01-01", b"unavailable_after: 1999-01-01"


class Anything:
    """An object that is no item for Scrapy."""


def gate(**settings: Any) -> tuple[IndexingGateMiddleware, Crawler]:
    crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
    return IndexingGateMiddleware.from_crawler(crawler), crawler


def page(*tags: bytes, body: bytes = b"", **meta: Any) -> HtmlResponse:
    meta["rep_indexing"] = IndexingRules.parse(tags)
    return HtmlResponse(URL, body=body, request=Request(URL, meta=meta))


def test_nothing_to_do() -> None:
    """If the settings ignore all rules, the middleware is disabled."""
    with pytest.raises(NotConfigured):
        gate(REP_NOINDEX="ignore", REP_NOFOLLOW="ignore", REP_USAGE="ignore")
    gate(REP_NOINDEX="ignore", REP_NOFOLLOW="ignore")
    gate(
        REP_NOINDEX="ignore",
        REP_NOFOLLOW="ignore",
        REP_USAGE="ignore",
        REP_REL=["ugc"],
    )


@pytest.mark.parametrize(
    ("tags", "settings", "meta", "source"),
    [
        ([b"nofollow"], {}, {}, "page"),
        ([b"none"], {}, {}, "page"),
        ([b"noindex"], {}, {}, None),
        ([], {}, {}, None),
        ([b"nofollow"], {"REP_NOFOLLOW": "ignore"}, {}, None),
        ([b"nofollow"], {}, {"dont_obey_nofollow": True}, None),
        ([], {"REP_REL": ["ugc"]}, {}, "rel"),
        ([], {"REP_REL": ["UGC"]}, {"dont_obey_nofollow": True}, None),
        ([], {"REP_REL": ["sponsored"]}, {}, None),
        ([], {"REP_DIALECT": "google"}, {}, "rel"),
        ([], {"REP_DIALECT": "google", "REP_REL": []}, {}, None),
    ],
)
def test_links(
    tags: list[bytes], settings: dict[str, Any], meta: dict[str, Any], source: str
) -> None:
    """A request passes unless the page or the link forbids following it."""
    mw, crawler = gate(**settings)
    seen = records(crawler)
    response = page(*tags, body=b'<a rel=ugc href="/other">')
    request = Request("http://example.com/other", meta=meta)
    found = list(mw.process_spider_output(response, [request, request]))
    assert found == ([] if source else [request, request])
    assert len(seen) == (2 if source else 0)
    for record in seen:
        assert (record.url, record.page) == (request.url, response.url)
        assert (record.layer == "rel") is (source == "rel")
    count = crawler.stats.get_value(f"rep/nofollow/{source}")
    assert count == (2 if source else None)


@pytest.mark.parametrize(
    ("tags", "settings", "why"),
    [
        ([b"nofollow"], {}, "nofollow (header)"),
        ([b"mybot: NONE"], {}, "NONE (header)"),
        ([], {"REP_REL": ["ugc"]}, "rel=ugc"),
    ],
)
def test_the_log_says_why_a_link_is_dropped(
    tags: list[bytes],
    settings: dict[str, Any],
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log line of a dropped link has the statement of its page, or the rel of the link."""
    mw, _ = gate(**settings)
    rules = IndexingRules.parse(tags, agents=("mybot",))
    response = page(body=b'<a rel=ugc href="/other">')
    caplog.set_level("DEBUG")
    caplog.clear()
    response.meta["rep_indexing"] = rules
    request = Request("http://example.com/other")
    assert not list(mw.process_spider_output(response, [request]))
    assert caplog.messages == [
        f"Dropped <GET {request.url}>: its link on <200 {URL}> must not be followed: {why}"
    ]


def test_the_page_again_is_no_link() -> None:
    """A callback that returns the request of its own page, as a retry, follows no link."""
    mw, _ = gate()
    request = Request(URL, dont_filter=True)
    assert list(mw.process_spider_output(page(b"nofollow"), [request])) == [request]


def test_rules_are_not_handed_on() -> None:
    """A spider that copies its response's meta does not copy the rules."""
    mw, _ = gate()
    response = page()
    request = Request("http://example.com/next", meta=dict(response.meta))
    assert list(mw.process_spider_output(response, [request])) == [request]
    assert "rep_indexing" not in request.meta


def test_the_request_of_the_page_is_asked_for_again() -> None:
    """After a spider retries a page, its other links and items are still dropped."""
    mw, _ = gate()
    response = page(b"none")
    made = [response.request, Request("http://example.com/next"), {"a": 1}]
    assert list(mw.process_spider_output(response, made)) == [response.request]


def test_responses_without_rules_pass() -> None:
    """Items and links of responses that no middleware has read pass."""
    mw, _ = gate()
    for response in (HtmlResponse(URL), HtmlResponse(URL, request=Request(URL))):
        assert list(mw.process_spider_output(response, [{"a": 1}])) == [{"a": 1}]


@pytest.mark.parametrize(
    ("tags", "settings", "meta", "rule"),
    [
        ([b"noindex"], {}, {}, "noindex"),
        ([b"none"], {}, {}, "noindex"),
        ([PAST], {}, {}, "unavailable_after"),
        ([b"nofollow"], {}, {}, None),
        ([b"noindex"], {"REP_NOINDEX": "ignore"}, {}, None),
        ([b"noindex"], {"REP_NOINDEX": "annotate"}, {}, None),
        ([b"noindex"], {}, {"dont_obey_noindex": True}, None),
    ],
)
@coroutine_test
async def test_items(
    tags: list[bytes], settings: dict[str, Any], meta: dict[str, Any], rule: str | None
) -> None:
    """An item is dropped as pipelines drop it, with the deciding statement."""
    mw, crawler = gate(**settings)
    seen: Deferred[Any] = Deferred()

    def receive(item: Any, response: Any, exception: DropItem) -> None:
        seen.callback((item, response.url, exception))

    crawler.signals.connect(receive, signals.item_dropped)
    item = {"a": 1}
    found = list(mw.process_spider_output(page(*tags, **meta), [item]))
    if rule is None:
        assert found == [item]
        return
    assert found == []
    evidence = f"{URL} must not be indexed: {tags[0].decode()} (header)"
    *rest, error = await maybe_deferred_to_future(seen)
    assert rest == [item, URL]
    assert (type(error), str(error)) == (ItemDenied, evidence)
    assert crawler.stats.get_value(f"rep/noindex/dropped/{rule}") == 1


class WithField(Item):
    robots = Field()


class WithoutField(Item):
    a = Field()


@dataclass
class DataWithField:
    robots: Any = None


@dataclass
class DataWithoutField:
    a: int = 1


@attrs.define
class AttrsWithField:
    robots: Any = None


@pytest.mark.parametrize(
    ("item", "annotated"),
    [
        ({}, True),
        (WithField(), True),
        (WithoutField(), False),
        (DataWithField(), True),
        (DataWithoutField(), False),
        (AttrsWithField(), True),
    ],
)
def test_annotate(item: Any, annotated: bool) -> None:
    """The rules are written into the field of every item type that has it; others pass."""
    mw, crawler = gate(REP_NOINDEX="annotate")
    response = page(b"noindex, max-snippet: 20")
    (found,) = mw.process_spider_output(response, [item])
    assert found is item
    if annotated:
        rules = item["robots"] if isinstance(item, (dict, Item)) else item.robots
        assert (rules["index"], rules["max_snippet"]) == (False, 20)
    key = "rep/noindex/annotated" if annotated else "rep/noindex/not_annotated"
    assert crawler.stats.get_value(key) == 1


def test_annotate_what_says_nothing() -> None:
    """With "annotate", the items of pages without rules say that they may be indexed."""
    mw, _ = gate(REP_NOINDEX="annotate")
    (found,) = mw.process_spider_output(page(), [{}])
    assert found["robots"]["index"] is True


def test_annotate_pydantic() -> None:
    """pydantic models count as items too."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", robots=(dict | None, None))
    mw, _ = gate(REP_NOINDEX="annotate", REP_ITEM_FIELD="robots")
    (found,) = mw.process_spider_output(page(b"noindex"), [model()])
    assert found.robots["index"] is False


@pytest.mark.parametrize("noindex", ["drop", "annotate"])
def test_expiring_items_are_annotated(noindex: str) -> None:
    """An item that may be indexed until a date is annotated."""
    mw, crawler = gate(REP_NOINDEX=noindex, REP_ITEM_FIELD="rules")
    (item,) = mw.process_spider_output(page(FUTURE), [{}])
    assert item["rules"]["unavailable_after"].startswith("2999-01-01")
    assert crawler.stats.get_value("rep/noindex/expiring") == 1


@pytest.mark.parametrize(
    "item",
    [
        {"image_urls": None},
        {"images": ["http://example.com/image.png"]},
        None,
        Anything(),
    ],
)
def test_items_without_images(item: Any) -> None:
    """On a page with noimageindex, an item that names no image for ImagesPipeline is left as it
    is, whatever it is.
    """
    mw, crawler = gate()
    pipelines = [SimpleNamespace(images_urls_field="image_urls")]
    engine: Any = crawler.engine
    engine.scraper = SimpleNamespace(itemproc=SimpleNamespace(middlewares=pipelines))
    before = copy(item)
    (found,) = mw.process_spider_output(page(b"noimageindex"), [item])
    assert found is item
    assert found == before or isinstance(item, Anything)
    assert crawler.stats.get_value("rep/noindex/media/noimageindex") is None


@pytest.mark.parametrize(
    ("settings", "meta", "is_said"),
    [
        ({"REP_NOINDEX": "annotate"}, {}, True),
        ({"REP_NOINDEX": "ignore"}, {}, False),
        ({}, {"dont_obey_noindex": True}, False),
    ],
)
def test_images_that_are_kept(
    settings: dict[str, Any], meta: dict[str, Any], is_said: bool
) -> None:
    """With REP_NOINDEX = "annotate", an item of a page with noimageindex only says so. With
    "ignore", or dont_obey_noindex in the request for the page, nothing happens.
    """
    mw, crawler = gate(**settings)
    pipelines = [SimpleNamespace(images_urls_field="image_urls")]
    engine: Any = crawler.engine
    engine.scraper = SimpleNamespace(itemproc=SimpleNamespace(middlewares=pipelines))
    urls = ["http://example.com/image.png"]
    response = page(b"noimageindex", **meta)
    (found,) = mw.process_spider_output(response, [{"image_urls": urls}])
    assert found["image_urls"] == urls
    assert found.get("robots", {}).get("image_index") is (False if is_said else None)


def test_images_without_a_pipeline() -> None:
    """If the crawl has no ImagesPipeline, the URLs of images stay in their item."""
    mw, _ = gate()
    item = {"image_urls": ["http://example.com/image.png"]}
    (found,) = mw.process_spider_output(page(b"noimageindex"), [dict(item)])
    assert found == item
