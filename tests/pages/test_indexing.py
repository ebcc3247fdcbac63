"""What a crawl does with the items, links and files of responses that state indexing rules or usage
preferences: the downloader middleware that reads these, and the spider middleware that drops items
and links, with fake responses.
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
PAST, FUTURE = (f"unavailable_after: {year}-01-01" for year in (1999, 2999))
PDF, JSON = "application/pdf", "application/json"
CLASSES = {"text/html": HtmlResponse, "text/plain": TextResponse}

IGNORE, ANNOTATE = {"REP_NOINDEX": "ignore"}, {"REP_NOINDEX": "annotate"}
FOR_TRAINING, FOR_SEARCH = (
    {"REP_PURPOSES": [purpose]} for purpose in ("train-ai", "search")
)
UNKNOWN_IS_NO = {**FOR_SEARCH, "REP_USAGE_UNKNOWN": "deny"}
FOR_BOTH = {"REP_PURPOSES": ["search", "train-ai"], "REP_USAGE": "annotate"}
ITEMS, LINKS = (f"its {name}, which must not be" for name in ("items", "links"))
EXEMPT = {"dont_obey_noindex": True}

IMAGES = {"IMAGES_STORE": "unused"}
"""The setting with which Scrapy's ImagesPipeline is used."""


class OfParse(Spider):
    """The spider of ``scrapy parse``."""

    def start(self) -> Any: ...

    start.__module__ = "scrapy.commands.parse"


class Crawl:
    """A crawl with both middlewares."""

    def __init__(self, **settings: Any) -> None:
        self.crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
        self.reader = IndexingMiddleware.from_crawler(self.crawler)
        self.gate = OutputMiddleware.from_crawler(self.crawler)
        self.seen = records(self.crawler)

    def receive(self, response: Response, **meta: Any) -> Response:
        """Read *response* to a request with *meta*, as the downloader does."""
        response.request = Request(URL, meta=meta, headers={"User-Agent": "mybot"})
        return self.reader.process_response(response.request, response)

    def kept(self, response: Response, *made: Any) -> list[Any]:
        """Return what passes of the items and requests that a callback has *made*."""
        return list(self.gate.process_spider_output(response, made))

    def count(self, stat: str) -> int | None:
        count: int | None = self.crawler.stats.get_value(stat)
        return count


def page(
    *tags: str, body: bytes = b"", content_type: str = "text/html", status: int = 200
) -> Response:
    """Return a page, or another response, with these values of X-Robots-Tag."""
    response_class = CLASSES.get(content_type.partition(";")[0], Response)
    headers = {"Content-Type": content_type, "X-Robots-Tag": list(tags)}
    return response_class(URL, body=body, headers=headers, status=status)


# What is read.


@pytest.mark.parametrize(
    ("response", "settings", "flags"),
    [
        (page(), {}, []),
        (page("nofollow", body=NOINDEX_TAG), {}, ["noindex", "nofollow"]),
        # Only HTML has meta tags; it is in the encoding that its header declares.
        (page("nofollow", body=NOINDEX_TAG, content_type="text/plain"), {}, ["nofollow"]),
        (page("nofollow", body=NOINDEX_TAG, content_type=PDF), {}, ["nofollow"]),
        (page(body=IN_UTF_16, content_type="text/html; charset=utf-16le"), {}, ["noindex"]),
        # The statements count that are for everyone, or for a product token of the crawl.
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
    """``indexing_rules(response)`` has the rules of the header and the meta tags of every
    response, and ``response.flags`` sums them up. Nothing is added to its meta.
    """
    assert Crawl(**settings).receive(response).flags == flags
    assert response.meta == {}
    rules = indexing_rules(response)
    rights = {"noindex": rules.index, "nofollow": rules.follow}
    assert [name for name, is_allowed in rights.items() if not is_allowed] == flags


@pytest.mark.parametrize("content_type", ["text/html", "application/pdf"])
def test_copies_of_a_response_have_what_it_states(content_type: str) -> None:
    """What a response states is known of each copy of it, of the response to a request that a
    component has replaced, and of a response whose request it has exchanged; and of an earlier
    response after its request was sent again.
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
    for passed_on in (later, changed, changed.copy(), restored.copy(), exchanged):
        assert indexing_rules(passed_on).restrictions() == {"follow": False}
        assert usage_preferences(passed_on).get("train-ai") is None


@pytest.mark.parametrize("read", [indexing_rules, usage_preferences])
@pytest.mark.parametrize("request_", [None, Request(URL)])
def test_the_functions_say_that_a_response_was_not_read(
    read: Any, request_: Request | None
) -> None:
    """For a response that no crawl has read, the functions say so, and what to call instead."""
    response = page("noindex").replace(request=request_)
    with pytest.raises(ValueError, match=r"not read.*add-on.*scrapy_rep\.\w+\.parse"):
        read(response)


def test_what_a_response_states_is_forgotten_with_it() -> None:
    """What a response states is kept no longer than the response, its copies and its request."""
    crawl = Crawl()
    response = crawl.receive(page("noindex"))
    kept = [ref(response), ref(response.request), ref(indexing_rules(response))]
    copied = response.copy()
    crawl.seen.clear()
    del response
    gc.collect()
    assert [read() is not None for read in kept] == [False, True, True]
    assert not indexing_rules(copied).index
    del copied
    gc.collect()
    assert [read() for read in kept] == [None, None, None]


def test_pages_that_are_too_long_are_counted() -> None:
    """Pages that are too long to be read to their end are counted in the stats."""
    crawl = Crawl()
    for size in (MAX_PAGE, MAX_PAGE + 1):
        crawl.receive(page(body=b" " * size))
    assert crawl.count("rep/page/too_long") == 1


def test_a_robotstxt_is_not_read_as_a_page() -> None:
    """A robots.txt that the package fetches is not read as a page."""
    response = Crawl().reader.process_response(RobotsTxtRequest(URL), page("noindex"))
    assert response.flags == []


@pytest.mark.parametrize("settings", [{}, IGNORE, FOR_TRAINING])
@pytest.mark.parametrize("tags", [(), ("index, follow, max-snippet: 20",)])
def test_responses_that_deny_nothing_share_one_value(
    settings: dict[str, Any], tags: tuple[str, ...]
) -> None:
    """All responses that deny nothing share one value for it, which lets everything pass at once."""
    crawl = Crawl(**settings)
    response = crawl.receive(page(*tags))
    usage = SiteUsage.of(crawl.crawler)
    assert usage.effects_of(response.request, response) is NO_EFFECT


# What a crawl drops.


@pytest.mark.parametrize(
    ("tag", "settings", "meta", "dropped"),
    [
        ("all", {}, {}, ""),
        ("max-snippet: 20", {}, {}, ""),
        ("noindex", {}, {}, "items: noindex"),
        ("nofollow", {}, {}, "links: nofollow"),
        ("mybot: NONE", {}, {}, "items: noindex, links: nofollow"),
        (PAST, {}, {}, "items: unavailable_after"),
        (FUTURE, {}, {}, ""),
        ("noimageindex", {}, {}, "images: noimageindex"),
        # The user overrides the page, by a setting or in the meta of its request.
        ("noindex, noimageindex", IGNORE, {}, ""),
        ("noindex, noimageindex", ANNOTATE, {}, ""),
        ("none", {"REP_NOFOLLOW": "ignore"}, {}, "items: noindex"),
        ("none, noimageindex", {}, EXEMPT, "links: nofollow"),
        # Its link has a value of REP_REL, or one that the dialect names.
        ("all", {"REP_REL": ["UGC"]}, {}, "links: nofollow"),
        ("all", {"REP_REL": ["sponsored"]}, {}, ""),
        ("all", {"REP_DIALECT": "google"}, {}, "links: nofollow"),
        ("all", {"REP_DIALECT": "google", "REP_REL": []}, {}, ""),
        # The crawl has purposes.
        ("noai", FOR_TRAINING, {}, "items: train-ai"),
        ("noai", FOR_SEARCH, {}, ""),
        ("noai", {**FOR_TRAINING, "REP_USAGE": "annotate"}, {}, ""),
        ("noai", {**FOR_TRAINING, "REP_USAGE": "ignore"}, {}, ""),
        ("noimageai", FOR_TRAINING, {}, "images: train-ai"),
        ("noindex, noai", FOR_TRAINING, {}, "items: noindex"),
        ("all", UNKNOWN_IS_NO, {}, "items: search"),
    ],
)
def test_items_images_and_links_are_dropped_as_page_and_settings_say(
    tag: str, settings: dict[str, Any], meta: dict[str, Any], dropped: str
) -> None:
    """What a page states, and the settings, decide whether an item passes, with its images, and
    whether a link does. The reason is recorded.
    """
    crawl = Crawl(**IMAGES, **settings)
    response = crawl.receive(page(tag, body=LINK), **meta)
    item, link = {"image_urls": [IMAGE]}, Request(OTHER)
    kept = crawl.kept(response, item, link)
    withheld = []
    if item not in kept:
        withheld.append("items")
    elif not item["image_urls"]:
        withheld.append("images")
    if link not in kept:
        withheld.append("links")
    reasons = [record.reason for record in crawl.seen if record.verdict == "dropped"]
    outcomes = zip(withheld, reasons, strict=True)
    assert ", ".join(f"{what}: {reason}" for what, reason in outcomes) == dropped


@pytest.mark.parametrize("status", [199, 200, 204, 299, 300, 304, 404, 503])
def test_only_a_page_with_a_2xx_status_has_rules_with_an_effect(status: int) -> None:
    """The indexing rules of a response have an effect only with a 2xx status. With any status, a
    spider can read them, and the ledger has those that deny something, with the reason that they
    have no effect. Usage preferences have theirs with any status.
    """
    is_page = 200 <= status < 300
    rules = ("none, noimageindex", PAST)
    crawl = Crawl(**IMAGES, REP_LEDGER="a.sqlite", REP_REL=["ugc"])
    response = crawl.receive(page(*rules, body=LINK, status=status))
    assert response.flags == (["noindex", "nofollow"] if is_page else [])
    assert not indexing_rules(response).index
    noted = {record.reason for record in crawl.seen if record.verdict == "noted"}
    assert noted == (set() if is_page else {"no-page"})
    item, link = {"image_urls": [IMAGE]}, Request(OTHER)
    assert crawl.kept(response, item, link) == ([] if is_page else [item, link])
    assert item == {"image_urls": [IMAGE]}
    response = crawl.receive(page(body=LINK, status=status))
    assert crawl.kept(response, link) == ([] if is_page else [link])
    request = Request(URL, callback=NO_CALLBACK)
    with nullcontext() if not is_page else pytest.raises(FileDenied):
        crawl.reader.process_response(
            request, page(*rules, content_type=PDF, status=status)
        )
    crawl = Crawl(**FOR_TRAINING)
    assert crawl.kept(crawl.receive(page("noai", status=status)), item) == []


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
        ("all", UNKNOWN_IS_NO, f"{ITEMS} used for search: nothing is stated"),
    ],
)
def test_scrapy_parse_drops_nothing_and_warns(
    caplog: pytest.LogCaptureFixture, tag: str, settings: dict[str, Any], words: str
) -> None:
    """``scrapy parse`` drops nothing. It warns of what a crawl would drop, and says why."""
    crawl = Crawl(**settings)
    crawl.crawler.spider = OfParse.from_crawler(crawl.crawler, "fake")
    crawl.reader = IndexingMiddleware.from_crawler(crawl.crawler)
    crawl.receive(page(tag))
    start = f"scrapy parse shows all items and links of {URL}, but a crawl would drop "
    assert caplog.messages == ([start + words] if words else [])


class Silent(LogFormatter):
    """A log formatter that logs no dropped items."""

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("tag", "settings", "formatter", "denied"),
    [
        ("noindex", {}, LogFormatter, ItemDenied),
        ("noai", FOR_TRAINING, LogFormatter, UsageDenied),
        ("noindex", {}, Silent, ItemDenied),
    ],
)
@coroutine_test
async def test_an_item_is_dropped_as_pipelines_drop_it(
    caplog: pytest.LogCaptureFixture,
    tag: str,
    settings: dict[str, Any],
    formatter: type[LogFormatter],
    denied: type[DropItem],
) -> None:
    """An item is dropped as pipelines drop it: with the signal ``item_dropped``, an exception that
    has the decision, and a line of the project's log formatter, at the level DEBUG.
    """
    caplog.set_level("DEBUG")
    crawl = Crawl(**settings)
    crawl.crawler.logformatter = formatter()
    dropped: Deferred[Any] = Deferred()

    def receive(item: Any, response: Any, exception: DropItem) -> None:
        dropped.callback((item, response, exception))

    crawl.crawler.signals.connect(receive, signals.item_dropped)
    response, item = crawl.receive(page(tag)), {"a": 1}
    assert crawl.kept(response, item) == []
    *rest, error = await maybe_deferred_to_future(dropped)
    assert rest == [item, response]
    assert type(error) is denied
    assert [error.record] == crawl.seen
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
    """The log and the record of a dropped request have the page, and the statement of the page or
    the rel of the link.
    """
    caplog.set_level("DEBUG")
    crawl = Crawl(REP_REL=["ugc"])
    response = crawl.receive(page(tag, body=LINK))
    assert crawl.kept(response, Request(OTHER)) == []
    (record,) = crawl.seen
    assert (record.url, record.page, record.layer) == (OTHER, URL, layer)
    line = f"Dropped <GET {OTHER}>: its link on <200 {URL}> must not be followed: {why}"
    assert line in caplog.messages


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
def test_a_marked_link_is_found_in_each_encoding(encoding: str) -> None:
    """The rel of a link is found in each encoding."""
    crawl = Crawl(REP_REL=["ugc"])
    body = LINK.decode().encode(encoding)
    headers = {"Content-Type": f"text/html; charset={encoding}"}
    response = crawl.receive(HtmlResponse(URL, headers=headers, body=body))
    assert crawl.kept(response, Request(OTHER)) == []


@pytest.mark.parametrize("rel", ["&#117;gc", "u&#x67;c", "ugc&#32;x", "UG&#67"])
def test_a_rel_may_have_character_references(rel: str) -> None:
    """The rel of a link may be written with character references, also as the only one of a page."""
    crawl = Crawl(REP_REL=["ugc"])
    response = crawl.receive(page(body=f'<a rel="{rel}" href="/other">'.encode()))
    assert crawl.kept(response, Request(OTHER)) == []


@pytest.mark.parametrize("tag", ["nofollow", "all"])
def test_exempt_requests_and_retries_follow_no_link(tag: str) -> None:
    """A request with ``dont_obey_nofollow`` passes; so does that of the page itself, or one for its
    URL, as a retry: it follows no link.
    """
    crawl = Crawl(REP_REL=["ugc"])
    body = LINK + f'<a rel=ugc href="{URL}">'.encode()
    response = crawl.receive(page(tag, body=body))
    exempt = Request(OTHER, meta={"dont_obey_nofollow": True})
    passing = [exempt, response.request, Request(URL, dont_filter=True)]
    assert crawl.kept(response, *passing, Request(OTHER)) == passing


@pytest.mark.parametrize("response", [page("nofollow", body=LINK), page(body=LINK)])
def test_only_a_get_for_a_linked_url_follows_a_link(response: Response) -> None:
    """Only a GET follows a link, and only if the page has one to its URL."""
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
    assert crawl.kept(response, *passing, *linked) == [passing[0], *passing[2:]]


@pytest.mark.newest
def test_with_too_many_links_each_get_counts_as_a_link() -> None:
    """If a page that says nofollow has too many links to read them, each GET counts as one of them."""
    crawl = Crawl()
    links = b"".join(b'<a href="/%d">' % number for number in range(30_000))
    response = crawl.receive(page("nofollow", body=links))
    form = FormRequest(OTHER, formdata={"user": "me"})
    assert crawl.kept(response, Request(OTHER), form) == [form]


def test_links_are_read_for_requests_only() -> None:
    """The links of a page are not read for its items, nor for forms."""
    crawl = Crawl()
    with patch.object(Links, "of") as read:
        response = crawl.receive(page("nofollow", body=LINK))
        made = [{}, FormRequest(OTHER, formdata={"a": "b"})]
        assert crawl.kept(response, *made) == made
    assert not read.called


@coroutine_test
async def test_copied_meta_hands_no_rules_on() -> None:
    """A spider that copies the meta of its response copies its own keys alone. So it is with
    asynchronous callbacks, whose items are dropped, too.
    """
    crawl = Crawl()
    response = crawl.receive(page("noindex"))

    async def made() -> AsyncIterator[Any]:
        yield {"a": 1}
        yield Request(OTHER, meta=dict(response.meta))

    requests = [
        request
        async for request in crawl.gate.process_spider_output_async(response, made())
    ]
    requests += crawl.kept(response, Request(OTHER, meta=dict(response.meta)))
    assert [request.url for request in requests] == [OTHER, OTHER]
    assert [request.meta for request in requests] == [{}, {}]


@pytest.mark.parametrize("request_", [None, Request(URL)])
def test_items_of_responses_that_were_not_read_pass(request_: Request | None) -> None:
    """Items and links of responses that did not pass through the downloader middleware pass."""
    made = [{"a": 1}, Request(OTHER)]
    assert Crawl().kept(HtmlResponse(URL, request=request_), *made) == made


def test_the_spider_middleware_is_disabled_if_all_rules_are_ignored() -> None:
    """If the settings ignore all rules, the spider middleware is disabled."""
    no_rules = {**IGNORE, "REP_NOFOLLOW": "ignore"}
    with pytest.raises(NotConfigured):
        Crawl(**no_rules, REP_USAGE="ignore")
    assert Crawl(**no_rules, REP_USAGE="ignore", REP_REL=["ugc"])
    assert Crawl(**no_rules)


# What items say.


@pytest.mark.parametrize(
    ("response", "settings", "meta", "says"),
    [
        # Nothing, unless a setting asks for it.
        (page(FUTURE), {}, {}, {}),
        (page(FUTURE), {}, EXEMPT, {}),
        (page(FUTURE), IGNORE, {}, {}),
        (page("none, noimageindex", content_type=JSON), {}, {}, {}),
        # With "annotate", what its page restricts, also if that is data.
        (page(), ANNOTATE, {}, {}),
        (page("index, follow, max-snippet:-1, max-image-preview:large"), ANNOTATE, {}, {}),
        (page("noindex, max-snippet: 2"), ANNOTATE, {}, {"index": False, "max_snippet": 2}),
        (page("noimageindex"), ANNOTATE, {}, {"image_index": False}),
        (page(FUTURE), ANNOTATE, {}, {"unavailable_after": "2999-01-01T00:00:00Z"}),
        (page("none", content_type=JSON), ANNOTATE, {}, {"index": False, "follow": False}),
        (page("noindex"), ANNOTATE, EXEMPT, {}),
        (page("noindex", status=404), ANNOTATE, {}, {}),
    ],
)  # fmt: skip
def test_annotated_items_say_what_their_page_restricts(
    response: Response,
    settings: dict[str, Any],
    meta: dict[str, Any],
    says: dict[str, Any],
) -> None:
    """With REP_NOINDEX = "annotate", an item says what its page restricts, which drops nothing then;
    one of a page that restricts nothing is left as it is, as all are without that setting. What its
    field has already stays. The rules of data drop nothing.
    """
    crawl = Crawl(**IMAGES, **settings, REP_ITEM_FIELD="rules")
    item = {"rules": {"own": 1}, "image_urls": [IMAGE]}
    made = [item, Request(OTHER)]
    assert crawl.kept(crawl.receive(response, **meta), *made) == made
    assert item["image_urls"] == [IMAGE]
    assert item["rules"] == {"own": 1, **says}
    noted = [(record.verdict, record.reason) for record in crawl.seen]
    assert noted == [("annotated", "noindex")] * (says.get("index") is False)
    is_expiring = response.headers.get("X-Robots-Tag") == FUTURE.encode()
    is_expiring &= not meta and settings is not IGNORE
    assert crawl.count("rep/noindex/annotated") == (1 if says else None)
    assert crawl.count("rep/noindex/expiring") == (1 if is_expiring else None)


@pytest.mark.parametrize(
    ("tag", "says"),
    [
        ("noai", {"usage": {"train-ai": False}}),
        ("all", {}),
        ("noimageai", {"usage_of_images": {"train-ai": False}}),
    ],
)
def test_annotated_items_name_the_disallowed_purposes(
    tag: str, says: dict[str, Any]
) -> None:
    """With REP_USAGE = "annotate", an item has the purposes that its page disallows, or disallows for
    its images; one of a page that disallows none is left as it is.
    """
    crawl = Crawl(**FOR_BOTH)
    (item,) = crawl.kept(crawl.receive(page(tag)), {})
    assert item == ({"robots": says} if says else {})
    noted = [(record.verdict, record.reason) for record in crawl.seen]
    assert noted == [("annotated", "train-ai")] * ("usage" in says)
    assert crawl.count("rep/usage/annotated") == (1 if says else None)


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
    """Every item type that has the field gets the rules, unless its items cannot be changed. Items
    without the field pass unchanged.
    """
    crawl, item = Crawl(**ANNOTATE), make()
    (kept,) = crawl.kept(crawl.receive(page("noindex")), item)
    assert kept is item
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
        ({}, FUTURE, False),
    ],
)
def test_items_without_the_field_cause_one_warning(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], tag: str, warns: bool
) -> None:
    """One warning names the class of the items that cannot say what they were to say, the field,
    and the setting; later items are counted only.
    """
    crawl = Crawl(**settings, REP_ITEM_FIELD="rules")
    response = crawl.receive(page(tag))
    without = make_dataclass("WithoutField", [])
    crawl.kept(response, without(), {}, without())
    assert len(caplog.messages) == warns
    for line in caplog.messages:
        assert "WithoutField has no writable field 'rules'" in line
        assert "REP_ITEM_FIELD" in line
    assert crawl.count("rep/noindex/not_annotated") == (2 if warns else None)


class Anything:
    """An object that is no item for Scrapy."""


@pytest.mark.parametrize(
    ("item", "settings"),
    [
        ({"image_urls": None}, IMAGES),
        ({"images": [IMAGE]}, IMAGES),
        ({"image_urls": [IMAGE]}, {**IMAGES, "IMAGES_URLS_FIELD": "pictures"}),
        (None, IMAGES),
        (Anything(), IMAGES),
        ({"image_urls": [IMAGE]}, {}),
    ],
)
def test_an_item_without_images_is_left_as_it_is_on_a_noimageindex_page(
    item: Any, settings: dict[str, Any]
) -> None:
    """On a page with noimageindex, an item that names no image for an ImagesPipeline of the crawl
    is left as it is, whatever it is.
    """
    crawl, before = Crawl(**settings), copy(item)
    (kept,) = crawl.kept(crawl.receive(page("noimageindex")), item)
    assert kept is item
    assert kept == before or isinstance(item, Anything)
    assert crawl.seen == []


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
        ({TAG: PAST, "Content-Type": PDF}, {}, {}, "unavailable_after"),
        ({TAG: FUTURE, "Content-Type": PDF}, {}, {}, None),
        ({TAG: "noimageindex"}, {}, {}, "noimageindex"),
        ({TAG: "noimageindex", "Content-Type": PDF}, {}, {}, None),
        (NO_TRAINING, FOR_TRAINING, {}, "train-ai"),
        (NO_TRAINING, FOR_SEARCH, {}, None),
        (NO_TRAINING, {}, {}, None),
        (NO_TRAINING, {**FOR_TRAINING, "REP_USAGE": "annotate"}, {}, None),
        ({"tdm-reservation": "1"}, {"REP_PURPOSES": ["search", "tdm"]}, {}, "tdm"),
        ({TAG: "noimageai"}, FOR_TRAINING, {}, "train-ai"),
        ({TAG: "noimageai", "Content-Type": PDF}, FOR_TRAINING, {}, None),
        ({}, UNKNOWN_IS_NO, {}, "search"),
    ],
)
def test_a_pipeline_gets_no_file_that_says_noindex(
    fields: dict[str, str],
    settings: dict[str, Any],
    meta: dict[str, Any],
    refused: str | None,
) -> None:
    """A media pipeline does not get a file whose own headers say noindex or a date in the past, an
    image that says noimageindex, nor a file that must not serve a purpose of the crawl. Spiders get
    them.
    """
    crawl = Crawl(**settings)
    response = Response(URL, headers={"Content-Type": "image/png", **fields})
    assert crawl.receive(response) is response
    request = Request(URL, callback=NO_CALLBACK, meta=meta)
    if refused is None:
        assert crawl.reader.process_response(request, response) is response
        assert crawl.seen == []
        return
    with pytest.raises(FileDenied) as caught:
        crawl.reader.process_response(request, response)
    assert isinstance(caught.value, IgnoreRequest)
    (record,) = crawl.seen
    assert record is caught.value.record
    assert (record.reason, record.verdict, record.url) == (refused, "dropped", URL)
    is_use = refused in CATEGORIES
    kind = "usage" if is_use else "noindex"
    assert (record.layer == "usage") is is_use
    assert crawl.count(f"rep/{kind}/media/{refused}") == 1


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("tag", "settings"), [("noindex", {}), ("noai", FOR_TRAINING)])
def test_html_that_a_callback_awaits_is_no_file(
    tag: str, settings: dict[str, Any], moved: bool
) -> None:
    """HTML that a callback or a component downloads itself is no file; anything else is one."""
    crawl = Crawl(**IMAGES, **settings)
    meta = {"redirect_urls": [URL]} if moved else {}
    request = Request(OTHER if moved else URL, callback=NO_CALLBACK, meta=meta)
    response = page(tag)
    assert crawl.reader.process_response(request, response) is response
    assert crawl.seen == []
    with pytest.raises(FileDenied):
        crawl.reader.process_response(request, page(tag, content_type=PDF))
