"""Tests of :class:`IndexingMiddleware`, the downloader middleware that reads indexing rules and usage preferences, and
of :class:`OutputMiddleware`, the spider middleware that drops items and links because of them. The responses are fakes.
"""

from __future__ import annotations

import gc
from contextlib import nullcontext
from copy import copy
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from weakref import ref

import attrs
import pytest
from scrapy import Field, FormRequest, Item, Request, Spider, signals
from scrapy.exceptions import DropItem, IgnoreRequest, NotConfigured
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.logformatter import LogFormatter
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep import indexing_rules, usage_preferences
from scrapy_rep.base.effects import NO_EFFECT
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.pages.indexing import IndexingMiddleware
from scrapy_rep.crawl.pages.output import Links, OutputMiddleware
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.exceptions import FileDenied, ItemDenied, UsageDenied
from scrapy_rep.protocol.indexing.statements import MAX_PAGE
from scrapy_rep.protocol.usage.statements import CATEGORIES
from tests.fakes import coroutine_test, fake_crawler, records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

URL = "http://example.com/page"
OTHER = "http://example.com/other"
IMAGE = "http://example.com/image.png"
LINK = b'<a rel=ugc href="/other">'
NOINDEX_TAG = b'<meta name="robots" content="noindex">'
IN_UTF_16 = NOINDEX_TAG.decode().encode("utf-16-le")
EXPIRED, EXPIRING = (f"unavailable_after: {year}-01-01" for year in (1999, 2999))
PDF, JSON = "application/pdf", "application/json"
CLASSES = {"text/html": HtmlResponse, "text/plain": TextResponse}

IGNORE, ANNOTATE = {"REP_NOINDEX": "ignore"}, {"REP_NOINDEX": "annotate"}
FOR_TRAINING, FOR_SEARCH = (
    {"REP_PURPOSES": [purpose]} for purpose in ("train-ai", "search")
)
FOR_SEARCH_UNKNOWN_DENIED = {**FOR_SEARCH, "REP_USAGE_UNKNOWN": "deny"}
FOR_BOTH = {"REP_PURPOSES": ["search", "train-ai"], "REP_USAGE": "annotate"}
ITEMS, LINKS = (f"its {name}, which must not be" for name in ("items", "links"))
"""Parts of log messages."""

EXEMPT = {"dont_obey_noindex": True}

IMAGES = {"IMAGES_STORE": "unused"}
"""The setting that Scrapy's ImagesPipeline needs."""


class ParseSpider(Spider):
    """A spider as the command ``scrapy parse`` makes it: ``start()`` is defined in the module of this command."""

    def start(self) -> Any: ...

    start.__module__ = "scrapy.commands.parse"


class Crawl:
    """A crawl with :class:`IndexingMiddleware` and :class:`OutputMiddleware`, but without an engine."""

    def __init__(self, **settings: Any) -> None:
        self.crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
        self.reader = IndexingMiddleware.from_crawler(self.crawler)
        self.output = OutputMiddleware.from_crawler(self.crawler)
        self.records = records(self.crawler)

    def receive(self, response: Response, **meta: Any) -> Response:
        """Pass *response* through the downloader middleware, as the response to a request with *meta*. Return the
        result of the middleware.
        """
        response.request = Request(URL, meta=meta, headers={"User-Agent": "mybot"})
        return self.reader.process_response(response.request, response)

    def filter_output(self, response: Response, *output: Any) -> list[Any]:
        """Return the items and requests in *output* that the spider middleware does not drop. A callback has made
        *output* from *response*.
        """
        return list(self.output.process_spider_output(response, output))

    def count(self, stat: str) -> int | None:
        """Return the value of *stat*."""
        count: int | None = self.crawler.stats.get_value(stat)
        return count


def page(
    *tags: str, body: bytes = b"", content_type: str = "text/html", status: int = 200
) -> Response:
    """Return a response with an X-Robots-Tag header for each of *tags*."""
    response_class = CLASSES.get(content_type.partition(";")[0], Response)
    headers = {"Content-Type": content_type, "X-Robots-Tag": list(tags)}
    return response_class(URL, body=body, headers=headers, status=status)


# Reading of responses.


@pytest.mark.parametrize(
    ("response", "settings", "flags"),
    [
        (page(), {}, []),
        (page("nofollow", body=NOINDEX_TAG), {}, ["noindex", "nofollow"]),
        # Meta tags are read only in HTML, in the encoding that the header declares.
        (page("nofollow", body=NOINDEX_TAG, content_type="text/plain"), {}, ["nofollow"]),
        (page("nofollow", body=NOINDEX_TAG, content_type=PDF), {}, ["nofollow"]),
        (page(body=IN_UTF_16, content_type="text/html; charset=utf-16le"), {}, ["noindex"]),
        # Statements apply if they are for all crawlers, or for a product token of this crawl.
        (page("mybot: noindex", "other: nofollow"), {}, ["noindex"]),
        (
            page("mybot: noindex", "searcher: nofollow"),
            {"ROBOTSTXT_USER_AGENT": "searcher"},
            ["nofollow"],
        ),
    ],
)  # fmt: skip
def test_a_spider_can_read_the_rules_of_every_response(
    response: Response, settings: dict[str, Any], flags: list[str]
) -> None:
    """``indexing_rules(response)`` returns the rules of the header and the meta tags, and ``response.flags`` sums them
    up. Nothing is added to ``response.meta``.
    """
    assert Crawl(**settings).receive(response).flags == flags
    assert response.meta == {}
    rules = indexing_rules(response)
    permissions = {"noindex": rules.index, "nofollow": rules.follow}
    assert [name for name, is_allowed in permissions.items() if not is_allowed] == flags


@pytest.mark.parametrize("content_type", ["text/html", "application/pdf"])
def test_copies_of_a_response_keep_its_rules_and_preferences(content_type: str) -> None:
    """``indexing_rules`` and ``usage_preferences`` also work for copies of a response, and after another middleware has
    replaced ``response.request``. When a request is sent again, the rules of its earlier response are kept.
    """
    crawl = Crawl(**FOR_TRAINING)
    response = crawl.receive(page("noindex, noai", content_type=content_type))
    first = response.request
    assert first is not None
    later = page("nofollow").replace(request=first)
    crawl.reader.process_response(first, later)
    changed = later.replace(url=OTHER, body=b"", cls=TextResponse)
    restored = page("nofollow").replace(request=Request(OTHER))
    crawl.reader.process_response(Request(URL), restored)
    exchanged = crawl.receive(page("nofollow"))
    exchanged.request = Request(OTHER)
    assert not indexing_rules(response).index
    assert usage_preferences(response).get("train-ai") is False
    for variant in (later, changed, changed.copy(), restored.copy(), exchanged):
        assert indexing_rules(variant).restrictions() == {"follow": False}
        assert usage_preferences(variant).get("train-ai") is None


@pytest.mark.parametrize("read", [indexing_rules, usage_preferences])
@pytest.mark.parametrize("request_", [None, Request(URL)])
def test_the_rules_of_a_response_that_was_not_read_raise_value_error(
    read: Any, request_: Request | None
) -> None:
    """The error says that no crawl has read the response, and which function parses it."""
    response = page("noindex").replace(request=request_)
    with pytest.raises(ValueError, match=r"not read.*add-on.*scrapy_rep\.\w+\.parse"):
        read(response)


def test_the_rules_of_a_response_are_freed_with_it() -> None:
    """The rules stay in memory only as long as the response, one of its copies, or its request."""
    crawl = Crawl()
    response = crawl.receive(page("noindex"))
    references = [
        ref(response),
        ref(response.request),
        ref(indexing_rules(response)),
    ]
    copied = response.copy()
    crawl.records.clear()
    del response
    gc.collect()
    assert [get() is not None for get in references] == [False, True, True]
    assert not indexing_rules(copied).index
    del copied
    gc.collect()
    assert [get() for get in references] == [None, None, None]


def test_pages_that_are_too_long_are_counted() -> None:
    """Only the first MAX_PAGE bytes of a page are read. A stat counts the pages that are longer."""
    crawl = Crawl()
    for size in (MAX_PAGE, MAX_PAGE + 1):
        crawl.receive(page(body=b" " * size))
    assert crawl.count("rep/page/too_long") == 1


def test_a_robotstxt_is_not_read_as_a_page() -> None:
    response = Crawl().reader.process_response(RobotsTxtRequest(URL), page("noindex"))
    assert response.flags == []


@pytest.mark.parametrize("settings", [{}, IGNORE, FOR_TRAINING])
@pytest.mark.parametrize("tags", [(), ("index, follow, max-snippet: 20",)])
def test_responses_that_deny_nothing_share_one_constant(
    settings: dict[str, Any], tags: tuple[str, ...]
) -> None:
    """With the constant NO_EFFECT, all items and links pass without further checks."""
    crawl = Crawl(**settings)
    response = crawl.receive(page(*tags))
    usage = SiteUsage.of(crawl.crawler)
    assert usage.effects_of(response.request, response) is NO_EFFECT


# Dropped items, images and links.


@pytest.mark.parametrize(
    ("tag", "settings", "meta", "dropped"),
    [
        ("all", {}, {}, ""),
        ("max-snippet: 20", {}, {}, ""),
        ("noindex", {}, {}, "items: noindex"),
        ("nofollow", {}, {}, "links: nofollow"),
        ("mybot: NONE", {}, {}, "items: noindex, links: nofollow"),
        (EXPIRED, {}, {}, "items: unavailable_after"),
        (EXPIRING, {}, {}, ""),
        ("noimageindex", {}, {}, "images: noimageindex"),
        # A setting, or the meta of the request, overrides the page.
        ("noindex, noimageindex", IGNORE, {}, ""),
        ("noindex, noimageindex", ANNOTATE, {}, ""),
        ("none", {"REP_NOFOLLOW": "ignore"}, {}, "items: noindex"),
        ("none, noimageindex", {}, EXEMPT, "links: nofollow"),
        # The rel of the link contains a value of REP_REL, or of the default of the dialect.
        ("all", {"REP_REL": ["UGC"]}, {}, "links: nofollow"),
        ("all", {"REP_REL": ["sponsored"]}, {}, ""),
        ("all", {"REP_DIALECT": "google"}, {}, "links: nofollow"),
        ("all", {"REP_DIALECT": "google", "REP_REL": []}, {}, ""),
        # Usage preferences, in a crawl with purposes.
        ("noai", FOR_TRAINING, {}, "items: train-ai"),
        ("noai", FOR_SEARCH, {}, ""),
        ("noai", {**FOR_TRAINING, "REP_USAGE": "annotate"}, {}, ""),
        ("noai", {**FOR_TRAINING, "REP_USAGE": "ignore"}, {}, ""),
        ("noimageai", FOR_TRAINING, {}, "images: train-ai"),
        ("noindex, noai", FOR_TRAINING, {}, "items: noindex"),
        ("all", FOR_SEARCH_UNKNOWN_DENIED, {}, "items: search"),
    ],
)
def test_page_and_settings_decide_which_items_images_and_links_are_dropped(
    tag: str, settings: dict[str, Any], meta: dict[str, Any], dropped: str
) -> None:
    """*dropped* lists what is dropped, each with the reason in its record."""
    crawl = Crawl(**IMAGES, **settings)
    response = crawl.receive(page(tag, body=LINK), **meta)
    item, link = {"image_urls": [IMAGE]}, Request(OTHER)
    result = crawl.filter_output(response, item, link)
    kinds = []
    if item not in result:
        kinds.append("items")
    elif not item["image_urls"]:
        kinds.append("images")
    if link not in result:
        kinds.append("links")
    reasons = [record.reason for record in crawl.records if record.verdict == "dropped"]
    outcomes = zip(kinds, reasons, strict=True)
    assert ", ".join(f"{kind}: {reason}" for kind, reason in outcomes) == dropped


@pytest.mark.parametrize("status", [199, 200, 204, 299, 300, 304, 404, 503])
def test_indexing_rules_have_an_effect_only_with_a_2xx_status(status: int) -> None:
    """The indexing rules of a response with another status have no effect. A spider can read them nevertheless, and
    rules that deny something are recorded with the reason "no-page". Usage preferences have an effect with any status.
    """
    is_page = 200 <= status < 300
    rules = ("none, noimageindex", EXPIRED)
    crawl = Crawl(**IMAGES, REP_LEDGER="a.sqlite", REP_REL=["ugc"])
    response = crawl.receive(page(*rules, body=LINK, status=status))
    assert response.flags == (["noindex", "nofollow"] if is_page else [])
    assert not indexing_rules(response).index
    noted = {record.reason for record in crawl.records if record.verdict == "noted"}
    assert noted == (set() if is_page else {"no-page"})
    item, link = {"image_urls": [IMAGE]}, Request(OTHER)
    assert crawl.filter_output(response, item, link) == (
        [] if is_page else [item, link]
    )
    assert item == {"image_urls": [IMAGE]}
    response = crawl.receive(page(body=LINK, status=status))
    assert crawl.filter_output(response, link) == ([] if is_page else [link])
    request = Request(URL, callback=NO_CALLBACK)
    with nullcontext() if not is_page else pytest.raises(FileDenied):
        crawl.reader.process_response(
            request, page(*rules, content_type=PDF, status=status)
        )
    crawl = Crawl(**FOR_TRAINING)
    assert crawl.filter_output(crawl.receive(page("noai", status=status)), item) == []


@pytest.mark.parametrize(
    ("tag", "settings", "words"),
    [
        ("none", {"REP_NOFOLLOW": "ignore", "REP_NOINDEX": "annotate"}, ""),
        ("noindex", {}, f"{ITEMS} indexed: noindex (header)"),
        ("nofollow", {}, f"{LINKS} followed: nofollow (header)"),
        ("all", {"REP_REL": ["ugc", "sponsored"]}, "links with rel=sponsored, ugc"),
        (
            "noindex",
            {"REP_REL": ["ugc"]},
            f"{ITEMS} indexed: noindex (header); links with rel=ugc",
        ),
        ("noimageindex", {}, f"the images of {ITEMS} indexed: noimageindex (header)"),
        ("noai", FOR_TRAINING, f"{ITEMS} used for train-ai: noai (header)"),
        (
            "all",
            FOR_SEARCH_UNKNOWN_DENIED,
            f"{ITEMS} used for search: nothing is stated",
        ),
    ],
)
def test_scrapy_parse_drops_nothing_and_warns(
    caplog: pytest.LogCaptureFixture, tag: str, settings: dict[str, Any], words: str
) -> None:
    """The warning says what a crawl would drop, and why."""
    crawl = Crawl(**settings)
    crawl.crawler.spider = ParseSpider.from_crawler(crawl.crawler, "fake")
    crawl.reader = IndexingMiddleware.from_crawler(crawl.crawler)
    crawl.receive(page(tag))
    start = f"scrapy parse shows all items and links of {URL}, but a crawl would drop "
    assert caplog.messages == ([start + words] if words else [])


class SilentLogFormatter(LogFormatter):
    """A log formatter that does not log dropped items."""

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("tag", "settings", "formatter", "error_class"),
    [
        ("noindex", {}, LogFormatter, ItemDenied),
        ("noai", FOR_TRAINING, LogFormatter, UsageDenied),
        ("noindex", {}, SilentLogFormatter, ItemDenied),
    ],
)
@coroutine_test
async def test_an_item_is_dropped_in_the_same_way_as_by_a_pipeline(
    caplog: pytest.LogCaptureFixture,
    tag: str,
    settings: dict[str, Any],
    formatter: type[LogFormatter],
    error_class: type[DropItem],
) -> None:
    """The signal ``item_dropped`` is sent with an exception that has the record of the decision. The log formatter of
    the project makes a log line, which is logged at the level DEBUG.
    """
    caplog.set_level("DEBUG")
    crawl = Crawl(**settings)
    crawl.crawler.logformatter = formatter()
    dropped: Deferred[Any] = Deferred()

    def receive(item: Any, response: Any, exception: DropItem) -> None:
        dropped.callback((item, response, exception))

    crawl.crawler.signals.connect(receive, signals.item_dropped)
    response, item = crawl.receive(page(tag)), {"a": 1}
    assert crawl.filter_output(response, item) == []
    dropped_item, dropped_response, error = await maybe_deferred_to_future(dropped)
    assert (dropped_item, dropped_response) == (item, response)
    assert type(error) is error_class
    assert [error.record] == crawl.records
    assert str(error).startswith(f"{URL} must not be ")
    levels = [
        record.levelname
        for record in caplog.records
        if f"Dropped: {error}" in record.getMessage()
    ]
    assert levels == (["DEBUG"] if formatter is LogFormatter else [])


# Links.


@pytest.mark.parametrize(
    ("tag", "why", "layer"),
    [("nofollow", "nofollow (header)", "header"), ("all", "rel=ugc", "rel")],
)
def test_a_dropped_request_is_recorded_with_page_and_statement(
    caplog: pytest.LogCaptureFixture, tag: str, why: str, layer: str
) -> None:
    """The log line and the record contain the URL of the page and the reason: the nofollow statement of the page, or
    the ``rel`` of the link.
    """
    caplog.set_level("DEBUG")
    crawl = Crawl(REP_REL=["ugc"])
    response = crawl.receive(page(tag, body=LINK))
    assert crawl.filter_output(response, Request(OTHER)) == []
    (record,) = crawl.records
    assert (record.url, record.page, record.layer) == (OTHER, URL, layer)
    line = f"Dropped <GET {OTHER}>: its link on <200 {URL}> must not be followed: {why}"
    assert line in caplog.messages


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
def test_a_marked_link_is_found_in_each_encoding(encoding: str) -> None:
    crawl = Crawl(REP_REL=["ugc"])
    body = LINK.decode().encode(encoding)
    headers = {"Content-Type": f"text/html; charset={encoding}"}
    response = crawl.receive(HtmlResponse(URL, headers=headers, body=body))
    assert crawl.filter_output(response, Request(OTHER)) == []


@pytest.mark.parametrize("rel", ["&#117;gc", "u&#x67;c", "ugc&#32;x", "UG&#67"])
def test_character_references_in_a_rel_are_decoded(rel: str) -> None:
    """A rel value is found even if the page writes it with character references, such as ``&#117;gc`` for ``ugc``."""
    crawl = Crawl(REP_REL=["ugc"])
    response = crawl.receive(page(body=f'<a rel="{rel}" href="/other">'.encode()))
    assert crawl.filter_output(response, Request(OTHER)) == []


@pytest.mark.parametrize("tag", ["nofollow", "all"])
def test_exempt_requests_and_retries_are_not_dropped(tag: str) -> None:
    """A request with ``dont_obey_nofollow`` is not dropped. A request for the URL of the page itself is a retry, and is
    not dropped even if the page links to itself.
    """
    crawl = Crawl(REP_REL=["ugc"])
    body = LINK + f'<a rel=ugc href="{URL}">'.encode()
    response = crawl.receive(page(tag, body=body))
    exempt = Request(OTHER, meta={"dont_obey_nofollow": True})
    passing = [exempt, response.request, Request(URL, dont_filter=True)]
    assert crawl.filter_output(response, *passing, Request(OTHER)) == passing


@pytest.mark.parametrize("response", [page("nofollow", body=LINK), page(body=LINK)])
def test_only_a_get_for_a_linked_url_follows_a_link(response: Response) -> None:
    """Other requests pass, since they do not follow a link of the page."""
    crawl = Crawl(REP_REL=["ugc"])
    passing = [
        FormRequest(OTHER, formdata={"user": "me"}),
        FormRequest(OTHER),
        Request(OTHER, method="HEAD"),
        Request(OTHER, body=b"{}"),
        Request(f"{OTHER}?page=1"),
    ]
    linked = [Request(OTHER), FormRequest(f"{OTHER}#a", method="GET")]
    response = crawl.receive(response)
    assert crawl.filter_output(response, *passing, *linked) == [
        passing[0],
        *passing[2:],
    ]


@pytest.mark.newest
def test_each_get_counts_as_a_link_if_the_page_has_too_many_links() -> None:
    """If a nofollow page has more links than this package reads, each GET request from the page is dropped, because its
    URL could be among the unread links. Other requests are kept.
    """
    crawl = Crawl()
    links = b"".join(b'<a href="/%d">' % number for number in range(30_000))
    response = crawl.receive(page("nofollow", body=links))
    form = FormRequest(OTHER, formdata={"user": "me"})
    assert crawl.filter_output(response, Request(OTHER), form) == [form]


def test_links_are_not_read_for_items_and_forms() -> None:
    """Reading the links takes time, so it is done only if a request may follow one of them."""
    crawl = Crawl()
    with patch.object(Links, "of") as read_links:
        response = crawl.receive(page("nofollow", body=LINK))
        output = [{}, FormRequest(OTHER, formdata={"a": "b"})]
        assert crawl.filter_output(response, *output) == output
    assert not read_links.called


@coroutine_test
async def test_copied_meta_contains_no_rules() -> None:
    """The meta of a response contains only the keys of the spider, in synchronous and asynchronous callbacks. Items of
    asynchronous callbacks are dropped like others.
    """
    crawl = Crawl()
    response = crawl.receive(page("noindex"))

    async def callback() -> AsyncIterator[Any]:
        yield {"a": 1}
        yield Request(OTHER, meta=dict(response.meta))

    requests = [
        request
        async for request in crawl.output.process_spider_output_async(
            response, callback()
        )
    ]
    requests += crawl.filter_output(response, Request(OTHER, meta=dict(response.meta)))
    assert [request.url for request in requests] == [OTHER, OTHER]
    assert [request.meta for request in requests] == [{}, {}]


@pytest.mark.parametrize("request_", [None, Request(URL)])
def test_items_and_links_of_responses_that_were_not_read_are_kept(
    request_: Request | None,
) -> None:
    """The downloader middleware reads the rules of each response. The rules of a response that did not pass through the
    downloader middleware are unknown, so nothing is dropped.
    """
    output = [{"a": 1}, Request(OTHER)]
    assert Crawl().filter_output(HtmlResponse(URL, request=request_), *output) == output


def test_the_spider_middleware_is_disabled_if_all_rules_are_ignored() -> None:
    no_rules = {**IGNORE, "REP_NOFOLLOW": "ignore"}
    with pytest.raises(NotConfigured):
        Crawl(**no_rules, REP_USAGE="ignore")
    assert Crawl(**no_rules, REP_USAGE="ignore", REP_REL=["ugc"])
    assert Crawl(**no_rules)


# Annotated items.


@pytest.mark.parametrize(
    ("response", "settings", "meta", "annotation"),
    [
        # Without "annotate", items are not annotated.
        (page(EXPIRING), {}, {}, {}),
        (page(EXPIRING), {}, EXEMPT, {}),
        (page(EXPIRING), IGNORE, {}, {}),
        (page("none, noimageindex", content_type=JSON), {}, {}, {}),
        # With "annotate", an item gets the restrictions of its page. The page may be a data file.
        (page(), ANNOTATE, {}, {}),
        (page("index, follow, max-snippet:-1, max-image-preview:large"), ANNOTATE, {}, {}),
        (page("noindex, max-snippet: 2"), ANNOTATE, {}, {"index": False, "max_snippet": 2}),
        (page("noimageindex"), ANNOTATE, {}, {"image_index": False}),
        (page(EXPIRING), ANNOTATE, {}, {"unavailable_after": "2999-01-01T00:00:00Z"}),
        (page("none", content_type=JSON), ANNOTATE, {}, {"index": False, "follow": False}),
        (page("noindex"), ANNOTATE, EXEMPT, {}),
        (page("noindex", status=404), ANNOTATE, {}, {}),
    ],
)  # fmt: skip
def test_annotated_items_have_the_restrictions_of_their_page(
    response: Response,
    settings: dict[str, Any],
    meta: dict[str, Any],
    annotation: dict[str, Any],
) -> None:
    """With REP_NOINDEX = "annotate", nothing is dropped because of the indexing rules. Instead, the restrictions of the
    page are added to the field REP_ITEM_FIELD of each item; other keys in the field are kept. If the page has no
    restrictions, its items are unchanged. With other values of REP_NOINDEX, items get no restrictions.

    The rules of a data file, such as JSON, never drop an item.
    """
    crawl = Crawl(**IMAGES, **settings, REP_ITEM_FIELD="rules")
    item = {"rules": {"other": 1}, "image_urls": [IMAGE]}
    output = [item, Request(OTHER)]
    assert crawl.filter_output(crawl.receive(response, **meta), *output) == output
    assert item["image_urls"] == [IMAGE]
    assert item["rules"] == {"other": 1, **annotation}
    decisions = [(record.verdict, record.reason) for record in crawl.records]
    is_denied = annotation.get("index") is False
    assert decisions == [("annotated", "noindex")] * is_denied
    is_expiring = response.headers.get("X-Robots-Tag") == EXPIRING.encode()
    is_expiring &= not meta and settings is not IGNORE
    assert crawl.count("rep/noindex/annotated") == (1 if annotation else None)
    assert crawl.count("rep/noindex/expiring") == (1 if is_expiring else None)


@pytest.mark.parametrize(
    ("tag", "annotation"),
    [
        ("noai", {"usage": {"train-ai": False}}),
        ("all", {}),
        ("noimageai", {"usage_of_images": {"train-ai": False}}),
    ],
)
def test_annotated_items_name_the_disallowed_purposes(
    tag: str, annotation: dict[str, Any]
) -> None:
    """With REP_USAGE = "annotate", the purposes that a page disallows, for itself or for its images, are added to the
    items from the page. If the page disallows no purpose, its items are unchanged.
    """
    crawl = Crawl(**FOR_BOTH)
    (item,) = crawl.filter_output(crawl.receive(page(tag)), {})
    assert item == ({"robots": annotation} if annotation else {})
    decisions = [(record.verdict, record.reason) for record in crawl.records]
    assert decisions == [("annotated", "train-ai")] * ("usage" in annotation)
    assert crawl.count("rep/usage/annotated") == (1 if annotation else None)


def pydantic_model() -> Any:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Model", robots=(dict | None, None))()


FIELD = [("robots", Any, None)]


@pytest.mark.parametrize(
    ("make", "is_annotated"),
    [
        (dict, True),
        (type("WithField", (Item,), {"robots": Field()}), True),
        (type("WithoutField", (Item,), {"a": Field()}), False),
        (make_dataclass("DataWithField", FIELD), True),
        (make_dataclass("DataWithoutField", []), False),
        (make_dataclass("FrozenData", FIELD, frozen=True), False),
        (attrs.make_class("Attrs", {"robots": attrs.field(default=None)}), True),
        (pydantic_model, True),
    ],
)
def test_every_item_type_with_the_field_gets_the_rules(
    make: Any, is_annotated: bool
) -> None:
    """Items that lack the field, or cannot be changed, pass unchanged."""
    crawl, item = Crawl(**ANNOTATE), make()
    (result,) = crawl.filter_output(crawl.receive(page("noindex")), item)
    assert result is item
    if is_annotated:
        rules = item["robots"] if isinstance(item, (dict, Item)) else item.robots
        assert rules == {"index": False}
    name = "annotated" if is_annotated else "not_annotated"
    assert crawl.count(f"rep/noindex/{name}") == 1


@pytest.mark.parametrize(
    ("settings", "tag", "warns"),
    [
        (ANNOTATE, "noindex", True),
        ({**FOR_TRAINING, "REP_USAGE": "annotate"}, "noai", True),
        (ANNOTATE, "all", False),
        ({}, EXPIRING, False),
    ],
)
def test_items_without_the_field_cause_one_warning(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], tag: str, warns: bool
) -> None:
    """The warning names the class of the items that cannot be annotated, the missing field, and the setting
    REP_ITEM_FIELD. Later items are only counted.
    """
    crawl = Crawl(**settings, REP_ITEM_FIELD="rules")
    response = crawl.receive(page(tag))
    item_class = make_dataclass("WithoutField", [])
    crawl.filter_output(response, item_class(), {}, item_class())
    assert len(caplog.messages) == warns
    for line in caplog.messages:
        assert "WithoutField has no writable field 'rules'" in line
        assert "REP_ITEM_FIELD" in line
    assert crawl.count("rep/noindex/not_annotated") == (2 if warns else None)


class NotAnItem:
    """An object that Scrapy does not support as an item."""


@pytest.mark.parametrize(
    ("item", "settings"),
    [
        ({"image_urls": None}, IMAGES),
        ({"images": [IMAGE]}, IMAGES),
        ({"image_urls": [IMAGE]}, {**IMAGES, "IMAGES_URLS_FIELD": "pictures"}),
        (None, IMAGES),
        (NotAnItem(), IMAGES),
        ({"image_urls": [IMAGE]}, {}),
    ],
)
def test_an_item_without_images_for_a_pipeline_is_not_changed_by_noimageindex(
    item: Any, settings: dict[str, Any]
) -> None:
    """An ImagesPipeline downloads images only if the project uses it, and only from the item field that it is
    configured to read. An object that is not an item is not changed either.
    """
    crawl, before = Crawl(**settings), copy(item)
    (result,) = crawl.filter_output(crawl.receive(page("noimageindex")), item)
    assert result is item
    assert result == before or isinstance(item, NotAnItem)
    assert crawl.records == []


# Files for media pipelines.

TAG = "X-Robots-Tag"
NO_TRAINING = {"Content-Usage": "train-ai=n"}


@pytest.mark.parametrize(
    ("fields", "settings", "meta", "refused"),
    [
        ({TAG: "noindex", "Content-Type": PDF}, {}, {}, "noindex"),
        ({TAG: "noindex"}, {}, EXEMPT, None),
        ({TAG: "noindex"}, ANNOTATE, {}, None),
        ({TAG: "noindex"}, IGNORE, {}, None),
        ({TAG: "noindex", "Content-Type": "text/xml"}, {}, {}, None),
        ({TAG: EXPIRED, "Content-Type": PDF}, {}, {}, "unavailable_after"),
        ({TAG: EXPIRING, "Content-Type": PDF}, {}, {}, None),
        ({TAG: "noimageindex"}, {}, {}, "noimageindex"),
        ({TAG: "noimageindex", "Content-Type": PDF}, {}, {}, None),
        (NO_TRAINING, FOR_TRAINING, {}, "train-ai"),
        (NO_TRAINING, FOR_SEARCH, {}, None),
        (NO_TRAINING, {}, {}, None),
        (NO_TRAINING, {**FOR_TRAINING, "REP_USAGE": "annotate"}, {}, None),
        ({"tdm-reservation": "1"}, {"REP_PURPOSES": ["search", "tdm"]}, {}, "tdm"),
        ({TAG: "noimageai"}, FOR_TRAINING, {}, "train-ai"),
        ({TAG: "noimageai", "Content-Type": PDF}, FOR_TRAINING, {}, None),
        ({}, FOR_SEARCH_UNKNOWN_DENIED, {}, "search"),
    ],
)
def test_a_media_pipeline_does_not_get_a_file_that_must_not_be_indexed_or_used(
    fields: dict[str, str],
    settings: dict[str, Any],
    meta: dict[str, Any],
    refused: str | None,
) -> None:
    """A media pipeline does not get a document whose headers say noindex, or whose date in unavailable_after has
    passed. It does not get an image whose headers say noimageindex, or a file whose headers disallow a purpose of the
    crawl. A spider gets all of these files.
    """
    crawl = Crawl(**settings)
    response = Response(URL, headers={"Content-Type": "image/png", **fields})
    assert crawl.receive(response) is response
    request = Request(URL, callback=NO_CALLBACK, meta=meta)
    if refused is None:
        assert crawl.reader.process_response(request, response) is response
        assert crawl.records == []
        return
    with pytest.raises(FileDenied) as caught:
        crawl.reader.process_response(request, response)
    assert isinstance(caught.value, IgnoreRequest)
    (record,) = crawl.records
    assert record is caught.value.record
    assert (record.reason, record.verdict, record.url) == (refused, "dropped", URL)
    is_for_usage = refused in CATEGORIES
    kind = "usage" if is_for_usage else "noindex"
    assert (record.layer == "usage") is is_for_usage
    assert crawl.count(f"rep/{kind}/media/{refused}") == 1


@pytest.mark.parametrize("is_redirected", [False, True])
@pytest.mark.parametrize(("tag", "settings"), [("noindex", {}), ("noai", FOR_TRAINING)])
def test_an_html_page_that_a_callback_downloads_is_not_refused(
    tag: str, settings: dict[str, Any], is_redirected: bool
) -> None:
    """A callback or a component downloads a page in the same way as a media pipeline downloads a file. HTML counts as a
    page, and any other response counts as a file, which can be refused.
    """
    crawl = Crawl(**IMAGES, **settings)
    meta = {"redirect_urls": [URL]} if is_redirected else {}
    url = OTHER if is_redirected else URL
    request = Request(url, callback=NO_CALLBACK, meta=meta)
    response = page(tag)
    assert crawl.reader.process_response(request, response) is response
    assert crawl.records == []
    with pytest.raises(FileDenied):
        crawl.reader.process_response(request, page(tag, content_type=PDF))
