"""The spider middleware for items and links, with fake responses. ``tests/responses/test_effects.py``
has the cases of what settings make of a page.
"""

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
from scrapy.logformatter import LogFormatter
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.preferences import UsagePreferences
from scrapy_rep.spidermiddlewares.indexing import IndexingGateMiddleware
from tests.fakes import coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler

URL = "http://example.com/page"
OTHER = "http://example.com/other"
IMAGE = "http://example.com/image.png"
FUTURE, PAST = b"unavailable_after: 2999-01-01", b"unavailable_after: 1999-01-01"
IGNORE = dict.fromkeys(["REP_NOINDEX", "REP_NOFOLLOW", "REP_USAGE"], "ignore")
ANNOTATE = {"REP_NOINDEX": "annotate"}
FOR_TRAINING = {"REP_PURPOSES": ["train-ai"]}
FOR_BOTH = {"REP_PURPOSES": ["search", "train-ai"], "REP_USAGE": "annotate"}


class Anything:
    """An object that is no item for Scrapy."""


class Silent(LogFormatter):
    """A log formatter that logs no dropped items."""

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return None


def gate(*pipelines: object, **settings: Any) -> tuple[IndexingGateMiddleware, Crawler]:
    crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
    engine: Any = crawler.engine
    itemproc = SimpleNamespace(middlewares=pipelines)
    engine.scraper = SimpleNamespace(itemproc=itemproc)
    return IndexingGateMiddleware.from_crawler(crawler), crawler


def page(*tags: bytes, body: bytes = b"", usage: str = "", **meta: Any) -> HtmlResponse:
    """Return a page with these rules, whose robots.txt states *usage*."""
    robots = f"User-agent: *\nContent-Usage: {usage}\n".encode()
    meta["rep_indexing"] = IndexingRules.parse(tags, agents=("mybot",))
    meta["rep_usage"] = RobotsTxt.parse(robots).usage(URL, ("mybot",))
    return HtmlResponse(URL, body=body, request=Request(URL, meta=meta))


def test_nothing_to_do() -> None:
    """If the settings ignore all rules, the middleware is disabled."""
    with pytest.raises(NotConfigured):
        gate(**IGNORE)
    gate(**IGNORE, REP_REL=["ugc"])
    gate(REP_NOINDEX="ignore", REP_NOFOLLOW="ignore")


# Links.


@pytest.mark.parametrize(
    ("tags", "settings", "meta", "source", "why"),
    [
        ([b"nofollow"], {}, {}, "page", "nofollow (header)"),
        ([b"mybot: NONE"], {}, {}, "page", "NONE (header)"),
        ([b"noindex"], {}, {}, None, ""),
        ([b"nofollow"], {}, {"dont_obey_nofollow": True}, None, ""),
        ([], {"REP_REL": ["ugc"]}, {}, "rel", "rel=ugc"),
        ([], {"REP_REL": ["UGC"]}, {"dont_obey_nofollow": True}, None, ""),
        ([], {"REP_REL": ["sponsored"]}, {}, None, ""),
        ([], {"REP_DIALECT": "google"}, {}, "rel", "rel=ugc"),
        ([], {"REP_DIALECT": "google", "REP_REL": []}, {}, None, ""),
    ],
)
def test_links(  # noqa: PLR0917
    tags: list[bytes],
    settings: dict[str, Any],
    meta: dict[str, Any],
    source: str | None,
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A request passes unless the page or the link forbids following it. The log line has the
    statement of the page, or the rel of the link.
    """
    caplog.set_level("DEBUG")
    mw, crawler = gate(**settings)
    seen = records(crawler)
    response = page(*tags, body=b'<a rel=ugc href="/other">')
    request = Request(OTHER, meta=meta)
    caplog.clear()
    found = list(mw.process_spider_output(response, [request, request]))
    assert found == ([] if source else [request, request])
    assert [(each.url, each.page) for each in seen] == [(OTHER, URL)] * (2 - len(found))
    assert all((each.layer == "rel") is (source == "rel") for each in seen)
    count = crawler.stats.get_value(f"rep/nofollow/{source}")
    assert count == (2 if source else None)
    line = f"Dropped <GET {OTHER}>: its link on <200 {URL}> must not be followed: {why}"
    assert caplog.messages == [line] * (2 - len(found))


def test_the_request_of_the_page_is_asked_for_again() -> None:
    """A callback that returns the request of its own page, or one for its URL, as a retry, follows
    no link. Its other links and items are still dropped.
    """
    mw, _ = gate()
    response = page(b"none")
    again = Request(URL, dont_filter=True)
    made = [response.request, again, Request(OTHER), {"a": 1}]
    assert list(mw.process_spider_output(response, made)) == [response.request, again]


@coroutine_test
async def test_rules_are_not_handed_on() -> None:
    """A spider that copies its response's meta does not copy the rules, nor the preferences. So it
    is with asynchronous callbacks, whose output is filtered, too.
    """
    mw, _ = gate(**FOR_TRAINING)
    response = page(usage="train-ai=n")

    async def result() -> AsyncIterator[Any]:
        yield {"a": 1}
        yield Request(OTHER, meta=dict(response.meta))

    found = [one async for one in mw.process_spider_output_async(response, result())]
    found += mw.process_spider_output(
        response, [Request(OTHER, meta=dict(response.meta))]
    )
    assert [request.url for request in found] == [OTHER, OTHER]
    assert not {"rep_indexing", "rep_usage"} & {
        key for request in found for key in request.meta
    }


def test_responses_without_rules_pass() -> None:
    """Items and links of responses that no middleware has read pass."""
    mw, _ = gate()
    for response in (HtmlResponse(URL), HtmlResponse(URL, request=Request(URL))):
        assert list(mw.process_spider_output(response, [{"a": 1}])) == [{"a": 1}]


# Items.


@pytest.mark.parametrize(
    ("tag", "usage", "settings", "rule"),
    [
        (b"noindex", "", {}, "noindex"),
        (PAST, "", {}, "unavailable_after"),
        (b"nofollow", "", {}, None),
        (b"noindex", "", {"dont_obey_noindex": True}, None),
        (b"", "train-ai=n", FOR_TRAINING, "train-ai"),
        (b"", "train-ai=n", {"REP_PURPOSES": ["search"]}, None),
        (
            b"",
            "train-ai=y",
            {"REP_PURPOSES": ["search"], "REP_USAGE_UNKNOWN": "deny"},
            "search",
        ),
        (b"", "train-ai=n", {**FOR_TRAINING, "LOG_FORMATTER": Silent}, "train-ai"),
    ],
)
@coroutine_test
async def test_items(
    caplog: pytest.LogCaptureFixture,
    tag: bytes,
    usage: str,
    settings: dict[str, Any],
    rule: str | None,
) -> None:
    """An item is dropped as pipelines drop it, with the deciding statement, and logged by the log
    formatter of the project.
    """
    meta = {key: settings[key] for key in settings if key.islower()}
    mw, crawler = gate(**{key: settings[key] for key in settings if key.isupper()})
    crawler.logformatter = settings.get("LOG_FORMATTER", LogFormatter)()
    dropped: Deferred[Any] = Deferred()

    def receive(item: Any, response: Any, exception: DropItem) -> None:
        dropped.callback((item, response.url, exception))

    crawler.signals.connect(receive, signals.item_dropped)
    item = {"a": 1}
    found = list(mw.process_spider_output(page(tag, usage=usage, **meta), [item]))
    assert found == ([] if rule else [item])
    assert ("Dropped: " in caplog.text) is bool(
        rule and "LOG_FORMATTER" not in settings
    )
    if rule is None:
        return
    *rest, error = await maybe_deferred_to_future(dropped)
    assert rest == [item, URL]
    assert error.record.reason == rule
    if tag:
        evidence = f"{URL} must not be indexed: {tag.decode()} (header)"
        assert (type(error), str(error)) == (ItemDenied, evidence)
    else:
        assert type(error) is UsageDenied
    kind = "noindex" if tag else "usage"
    assert crawler.stats.get_value(f"rep/{kind}/dropped/{rule}") == 1


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


@dataclass(frozen=True)
class FrozenData:
    robots: Any = None


@attrs.define
class AttrsWithField:
    robots: Any = None


def pydantic_model() -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Model", robots=(dict | None, None))()


@pytest.mark.parametrize(
    ("make", "annotated"),
    [
        (dict, True),
        (WithField, True),
        (WithoutField, False),
        (DataWithField, True),
        (DataWithoutField, False),
        (FrozenData, False),
        (AttrsWithField, True),
        (pydantic_model, True),
    ],
)
def test_annotate(make: Any, annotated: bool) -> None:
    """The rules are written into the field of every item type that has it, unless the item cannot
    be changed; others pass.
    """
    mw, crawler = gate(**ANNOTATE)
    item = make()
    (found,) = mw.process_spider_output(page(b"noindex, max-snippet: 20"), [item])
    assert found is item
    if annotated:
        rules = item["robots"] if isinstance(item, (dict, Item)) else item.robots
        assert (rules["index"], rules["max_snippet"]) == (False, 20)
    key = "rep/noindex/annotated" if annotated else "rep/noindex/not_annotated"
    assert crawler.stats.get_value(key) == 1


def test_annotate_until_a_date() -> None:
    """An item that may be indexed until a date says so, beside what its field has already."""
    mw, crawler = gate(REP_ITEM_FIELD="rules")
    (item,) = mw.process_spider_output(page(FUTURE), [{"rules": {"own": 1}}])
    assert item["rules"]["unavailable_after"].startswith("2999-01-01")
    assert item["rules"]["own"] == 1
    assert crawler.stats.get_value("rep/noindex/expiring") == 1


def test_annotate_what_it_may_be_used_for() -> None:
    """The item field has the answer for each purpose, and for images where that differs; the
    signal has the denied one.
    """
    mw, crawler = gate(**FOR_BOTH)
    seen = records(crawler)
    for usage, may_train in (("train-ai=n", False), ("train-ai=y", True)):
        (item,) = mw.process_spider_output(page(usage=usage), [{}])
        assert item["robots"] == {"usage": {"search": True, "train-ai": may_train}}
    (record,) = seen
    assert (record.verdict, record.reason) == ("annotated", "train-ai")
    assert crawler.stats.get_value("rep/usage/annotated") == 2

    response = page()
    statements = IndexingRules.parse([b"noimageai"]).statements
    response.meta["rep_usage"] = UsagePreferences.of_page([], statements, ())
    (item,) = mw.process_spider_output(response, [{}])
    assert item["robots"] == {
        "usage": {"search": True, "train-ai": True},
        "usage_of_images": {"search": True, "train-ai": False},
    }


# Images.

IMAGES = SimpleNamespace(images_urls_field="image_urls")


@pytest.mark.parametrize(
    ("item", "pipelines"),
    [
        ({"image_urls": None}, [IMAGES]),
        ({"images": [IMAGE]}, [IMAGES]),
        (None, [IMAGES]),
        (Anything(), [IMAGES]),
        ({"image_urls": [IMAGE]}, []),
    ],
)
def test_items_without_images(item: Any, pipelines: list[Any]) -> None:
    """On a page with noimageindex, an item that names no image for an ImagesPipeline of the crawl
    is left as it is, whatever it is.
    """
    mw, crawler = gate(*pipelines)
    before = copy(item)
    (found,) = mw.process_spider_output(page(b"noimageindex"), [item])
    assert found is item
    assert found == before or isinstance(item, Anything)
    assert crawler.stats.get_value("rep/noindex/media/noimageindex") is None


@pytest.mark.parametrize(
    ("settings", "meta", "image_index"),
    [
        (ANNOTATE, {}, False),
        ({"REP_NOINDEX": "ignore"}, {}, None),
        ({}, {"dont_obey_noindex": True}, None),
    ],
)
def test_images_that_are_kept(
    settings: dict[str, Any], meta: dict[str, Any], image_index: bool | None
) -> None:
    """With REP_NOINDEX = "annotate", an item of a page with noimageindex only says so. With
    "ignore", or dont_obey_noindex in the request for the page, nothing happens.
    """
    mw, _ = gate(IMAGES, **settings)
    response = page(b"noimageindex", **meta)
    (found,) = mw.process_spider_output(response, [{"image_urls": [IMAGE]}])
    assert found["image_urls"] == [IMAGE]
    assert found.get("robots", {}).get("image_index") is image_index
