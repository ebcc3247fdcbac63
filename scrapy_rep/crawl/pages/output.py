"""The spider middleware that applies the indexing rules and usage preferences of a page to the requests and items that
the callback for this page yields. The middleware drops forbidden requests and items, or writes into the items what is
forbidden. To find forbidden requests, this module also parses the links of a page.
"""

from __future__ import annotations

import re
from copy import copy, deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from scrapy import Request, signals
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.log import logformatter_adapter
from scrapy.utils.misc import arg_to_iter
from w3lib.html import get_base_url, strip_html5_whitespace
from w3lib.url import canonicalize_url

from scrapy_rep.base import meta, stats
from scrapy_rep.base.effects import NO_EFFECT, is_success
from scrapy_rep.base.log import CrawlLog, get_logger
from scrapy_rep.base.records import forbidden
from scrapy_rep.base.settings import ITEM_FIELD, RepSettings
from scrapy_rep.crawl.pages.usage import SiteUsage
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.protocol.indexing.statements import Statement
from scrapy_rep.record import Layer, Subject, Verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.effects import Effects
    from scrapy_rep.base.records import Because
    from scrapy_rep.record import Record


logger = get_logger(__name__)


class OutputMiddleware:
    """Drops requests and items that a callback yields if the indexing rules, usage preferences or ``rel`` attributes
    of the response forbid them.

    If the setting ``REP_NOINDEX`` is ``"annotate"``, items are not dropped because of indexing rules. If ``REP_USAGE``
    is ``"annotate"``, items are not dropped because of usage preferences. Instead, the middleware writes the
    restrictions of the response, such as ``{"index": False}``, into the item field that ``REP_ITEM_FIELD`` names.
    """

    ORDER = 100
    """The order in ``SPIDER_MIDDLEWARES``. Scrapy passes the output of callbacks through spider middlewares in
    descending order. So this middleware sees items and requests after other middlewares have created or changed
    them."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = settings = RepSettings.of(crawler)
        policies = {settings.noindex, settings.nofollow, settings.usage}
        if policies == {"ignore"} and not settings.rel:
            raise NotConfigured
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        # Scrapy's ImagesPipeline, which takes image URLs from items, is off if IMAGES_STORE is not set.
        has_images = bool(crawler.settings.get("IMAGES_STORE"))
        field = crawler.settings.get("IMAGES_URLS_FIELD", "image_urls")
        self._image_fields = [field] if has_images else []
        self._warned_of: WeakSet[type] = WeakSet()
        self._usage = SiteUsage.of(crawler)
        self._reporter = DecisionReporter.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OutputMiddleware:
        return cls(crawler)

    def process_spider_output(
        self, response: Response, result: Iterable[Any]
    ) -> Iterator[Any]:
        page = self._page_of(response)
        for output in result:
            if page is None or self._may_pass(page, output):
                yield output

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page = self._page_of(response)
        async for output in result:
            if page is None or self._may_pass(page, output):
                yield output

    def _page_of(self, response: Response) -> _Page | None:
        """Return a _Page with *response* and its restrictions on items and links. Return None if *response* has no
        restrictions.
        """
        request, effects = response.request, NO_EFFECT
        if request is not None:
            effects = self._usage.effects_of(request, response)
        rels = self._settings.rel
        if rels and not is_success(response):
            rels = frozenset()
        if effects is NO_EFFECT and not rels:
            return None
        return _Page(response, effects, rels)

    def _may_pass(self, page: _Page, output: Any) -> bool:
        if isinstance(output, Request):
            return self._may_follow(output, page)
        return self._may_keep(output, page.response, page.effects)

    def _may_follow(self, request: Request, page: _Page) -> bool:
        """Return True if *request*, which the callback for *page* has yielded, is passed on to the scheduler, and False
        if it is dropped. A forbidden request is reported and dropped. In a dry run, it is only reported.
        """
        because = page.why_not_follow(request)
        if because is None:
            return True
        is_dry_run = self._settings.dry_run
        if not is_dry_run:
            why = because if isinstance(because, Statement) else f"rel={because}"
            self._logger.debug(
                "Dropped %(request)s: its link on %(response)s must not be followed: %(why)s",
                response=page.response,
                why=why,
                request=request,
            )
        self._reporter.stated(
            Subject.LINK,
            Verdict.DROPPED,
            "nofollow",
            because,
            request=request,
            response=page.response,
            url=request.url,
        )
        return is_dry_run

    def _may_keep(self, item: Any, response: Response, effects: Effects) -> bool:
        """Apply *effects*, the restrictions of *response*, to an *item* that the callback has yielded. Return True if
        *item* is passed on to the item pipelines, and False if it is dropped.

        If *item* is passed on, the restrictions are written into it if the settings say so, and forbidden image URLs
        are removed from it. A dry run only reports the decisions, and passes on each item unchanged.
        """
        if effects.items is not None:
            return self._drop(item, *effects.items, response)
        if not self._settings.dry_run:
            self._annotate(item, response, effects)
        if effects.images is None:
            return True
        try:
            item = copy(item) if self._settings.dry_run else item
            urls = _take_image_urls(item, self._image_fields)
        except (AttributeError, TypeError, ValueError):
            return self._drop(item, *effects.images, response)
        for url in urls:
            self._report(Verdict.DROPPED, *effects.images, response, url)
        return True

    def _annotate(self, item: Any, response: Response, effects: Effects) -> None:
        """Write the restrictions and disallowed purposes in *effects* into the field of *item* that the setting
        ``REP_ITEM_FIELD`` names. Also report ``effects.noted``: the prohibitions, such as ``noindex``, that
        do not drop *item*, because ``REP_NOINDEX`` or ``REP_USAGE`` is ``"annotate"``.

        If *item* does not accept the field, the item is left unchanged and counted in the stats. A warning is logged,
        once for each item class.
        """
        for denied in effects.noted:
            self._report(Verdict.ANNOTATED, *denied, response)
        name, count = self._settings.item_field, self._crawler.stats.inc_value
        if effects.is_expiring:
            count(stats.EXPIRING)
        notes = {**(effects.restrictions or {}), **deepcopy(effects.usage or {})}
        if not notes:
            return
        # Imported here, since itemadapter loads the libraries of all item types, which takes 9 MB and 0.1 s.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        try:
            adapter = ItemAdapter(item)
            before = adapter.get(name)
            adapter[name] = {**before, **notes} if isinstance(before, dict) else notes
        except (AttributeError, KeyError, TypeError, ValueError):
            # The item class lacks the field or rejects the value, or its instances are immutable.
            count(stats.NOT_ANNOTATED)
            self._warn_of_class(type(item))
            return
        if effects.restrictions:
            count(stats.ANNOTATED)
        if effects.usage:
            count(stats.USAGE_ANNOTATED)

    def _warn_of_class(self, kind: type) -> None:
        """Warn that the restrictions of pages cannot be written into items of the class *kind*. If the warning was
        already logged for this class, do nothing.
        """
        if kind in self._warned_of:
            return
        self._warned_of.add(kind)
        self._logger.warning(
            "The restrictions of pages (such as noindex) are not written into items of the class %(kind)s, because "
            "%(kind)s has no writable field %(field)r. The items are kept. Add the field to the class, or name "
            "another field in %(setting)s. The stat %(stat)s counts these items",
            kind=f"{kind.__module__}.{kind.__qualname__}",
            field=self._settings.item_field,
            setting=ITEM_FIELD,
            stat=stats.NOT_ANNOTATED,
        )

    def _report(
        self,
        verdict: Verdict,
        reason: str,
        because: Because,
        response: Response,
        image: str = "",
    ) -> Record:
        """Report a decision about an item of *response*, or about an image of the item, and return the record of the
        decision. *image* is the URL of the image, and is empty for a decision about the item.
        """
        return self._reporter.stated(
            Subject.FILE if image else Subject.ITEM,
            verdict,
            reason,
            because,
            request=response.request,
            response=response,
            url=image,
            entry=self._usage.entry(response.request),
        )

    def _drop(
        self, item: Any, reason: str, because: Because, response: Response
    ) -> bool:
        """Report the decision to drop *item*, and return False. Also log the drop and send the signal ``item_dropped``,
        as Scrapy does when an item pipeline raises DropItem.

        In a dry run, only report the decision, and return True, so that *item* is passed on to the item pipelines.
        """
        record = self._report(Verdict.DROPPED, reason, because, response)
        if self._settings.dry_run:
            return True
        what = "The images of " if reason == "noimageindex" else ""
        message = f"{what}{response.url} {forbidden(reason, because)}"
        is_use = record.layer is Layer.USAGE
        exception = (UsageDenied if is_use else ItemDenied)(message, record)
        spider = self._crawler.spider
        assert spider is not None
        entry = self._crawler.logformatter.dropped(item, exception, response, spider)
        if entry is not None:
            logger.log(*logformatter_adapter(entry), extra={"spider": spider})
        # Receivers of the signal may be coroutines, which this synchronous function cannot await.
        deferred_from_coro(
            self._crawler.signals.send_catch_log_async(
                signal=signals.item_dropped,
                item=item,
                response=response,
                spider=spider,
                exception=exception,
            )
        )
        return False


class _Page:
    """A response, with its restrictions on the items and requests that the callback for this response yields."""

    def __init__(self, response: Response, effects: Effects, rels: frozenset[str]):
        self.response = response
        self.effects = effects
        """The effects of the response's indexing rules and usage preferences on items, images and links."""

        self._rels = rels

    @cached_property
    def _links(self) -> Links:
        """The links of the page. The page is parsed when this property is first used, since parsing is slow, and the
        links of most pages are not needed.
        """
        return Links.of(self.response)

    @cached_property
    def marked(self) -> Mapping[str, str]:
        """The URLs that must not be followed because of the setting ``REP_REL``. A URL must not be followed if every
        link to it on the page has a ``rel`` value that is listed in ``REP_REL``, such as ``nofollow``. The keys are the
        URLs in canonical form. The values are the ``rel`` attributes of the first link to each URL, as written.
        """
        if not self._rels or not isinstance(self.response, HtmlResponse):
            return {}
        body = self.response.body.lower()
        # Most pages need not be parsed, because their bytes contain no value of REP_REL. To search a page of 50 KB
        # takes 0.2 ms; to parse it takes 2 ms. The search can miss a value only in two cases: the page is in UTF-16
        # (which contains zero bytes), or the value is written with character references (&#...;).
        may_hide = b"\0" in body or b"&#" in body
        if not may_hide and not any(rel.encode() in body for rel in self._rels):
            return {}
        return self._links.only_marked(self._rels)

    def why_not_follow(self, request: Request) -> Statement | str | None:
        """Return why *request*, which the callback for this page has yielded, is forbidden: the page's nofollow
        statement, or the ``rel`` attribute of the link. Return None if *request* is allowed.

        Only a request for a URL to which the page links can be forbidden. If the page has too many links to read them
        all, its nofollow statement counts for every URL, since any URL can be among the unread links. These requests
        are always allowed: requests for the page itself, requests with the meta key ``dont_obey_nofollow``, and
        requests with a body or with another method than GET, such as submitted forms.
        """
        stated = self.effects.links
        if stated is None and not self.marked:
            return None
        if request.method != "GET" or request.body:
            return None
        if request.meta.get(meta.DONT_OBEY_NOFOLLOW):
            return None
        if request.url == self.response.url:
            return None  # The callback retries its own page.
        url = canonicalize_url(request.url)
        if stated is not None:
            links = self._links
            if url in links.urls or not links.is_whole:
                return stated
        return self.marked.get(url)


def _take_image_urls(item: Any, fields: list[str]) -> list[str]:
    """Empty the *fields* of *item*, and return the URLs that they contained. ImagesPipeline takes the URLs of
    images from these fields, so it downloads no images for *item*. Raises AttributeError, TypeError or ValueError if
    *item* cannot be changed.
    """
    from itemadapter import ItemAdapter  # noqa: PLC0415

    if not fields or not ItemAdapter.is_item(item):
        return []
    adapter = ItemAdapter(item)
    values = {name: value for name in fields if (value := adapter.get(name))}
    for name, value in values.items():
        adapter[name] = type(value)()
    urls = (url for value in values.values() for url in arg_to_iter(value))
    return [url for url in urls if isinstance(url, str)]


_SEPARATORS = re.compile(r"[\s,]+")

# The maximum work for converting the links of one page into canonical URLs. It limits the time to about one second,
# which is enough for 15,000 links. The work for a link is _WORK_OF_LINK, plus the length of the page's base URL, plus
# the length of the link's URL. If the link's URL is not ASCII, its length is multiplied by _WORK_OF_NON_ASCII.
_MAX_WORK = 2_000_000
_WORK_OF_LINK = 100
_WORK_OF_NON_ASCII = 4


class Links:
    """The ``<a>`` and ``<area>`` links of a page, with their URLs and ``rel`` attributes, in document order."""

    def __init__(
        self, targets: tuple[tuple[str, str], ...] = (), *, is_whole: bool = True
    ) -> None:
        self.targets = targets
        """The links. Each is a pair of the canonical URL and the ``rel`` attribute as written. The canonical URL comes
        from w3lib's ``canonicalize_url``, which Scrapy's fingerprints use too."""

        self.is_whole = is_whole
        """Whether *targets* contains all links of the page. False if reading all links would have taken too long."""

    @cached_property
    def urls(self) -> frozenset[str]:
        """The canonical URLs of all links."""
        return frozenset(url for url, _ in self.targets)

    def only_marked(self, rels: frozenset[str]) -> dict[str, str]:
        """Return the URLs for which every link on the page has one of *rels* in its ``rel`` attribute. Each URL is mapped
        to the ``rel`` attribute of the first link to it, as written. The URLs are in canonical form, as in
        :attr:`targets`. *rels* must be in lower case.
        """
        marked: dict[str, str] = {}
        unmarked: set[str] = set()
        for url, rel in self.targets:
            if rels.isdisjoint(_SEPARATORS.split(rel.lower())):
                unmarked.add(url)
            else:
                marked.setdefault(url, rel)
        return {url: rel for url, rel in marked.items() if url not in unmarked}

    @classmethod
    def of(cls, response: Response) -> Links:
        """Parse *response* and return its links. If there are too many to read them all, :attr:`is_whole` is False. A
        response that is not HTML has no links.
        """
        if not isinstance(response, HtmlResponse):
            return cls()
        base, work = get_base_url(response.text[:4096], response.url), 0
        targets: list[tuple[str, str]] = []
        for href, rel in _elements(response):
            factor = 1 if href.isascii() else _WORK_OF_NON_ASCII
            work += _WORK_OF_LINK + len(base) + factor * len(href)
            if work > _MAX_WORK:
                return cls(tuple(targets), is_whole=False)
            targets += [(url, rel) for url in _canonical(href, response)]
        return cls(tuple(targets))


def _elements(response: HtmlResponse) -> Iterator[tuple[str, str]]:
    """Yield a pair of the ``href`` and the ``rel`` of each ``<a>`` and ``<area>`` element that has an ``href``. If the
    element has no ``rel``, the second value is empty.
    """
    for element in response.selector.root.iter("a", "area"):
        href = element.get("href")
        if href is not None:
            yield strip_html5_whitespace(href), element.get("rel", "")


def _canonical(href: str, response: HtmlResponse) -> set[str]:
    """Return the canonical URLs that a request for the link *href* can have. Usually, the set contains one URL. If the
    URL is not ASCII, the set can contain two, since spiders encode the query of a URL in UTF-8 or in the encoding of
    the page. If the URL is invalid, such as ``http://[``, the set is empty.
    """
    try:
        url = response.urljoin(href)
        urls = {canonicalize_url(url)}
        if not url.isascii():
            urls.add(canonicalize_url(url, encoding=response.encoding))
    except ValueError:
        return set()
    return urls
