"""The spider middleware that drops the links and items that their page forbids, or annotates items;
and the links of a page.
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
    """Drops the requests and items of a callback that its response forbids, or annotates items."""

    ORDER = 100
    """Scrapy passes the output of callbacks in descending order. This is near the engine,
    after all middlewares that make or change items and requests."""

    def __init__(self, crawler: Crawler) -> None:
        self._settings = settings = RepSettings.of(crawler)
        policies = {settings.noindex, settings.nofollow, settings.usage}
        if policies == {"ignore"} and not settings.rel:
            raise NotConfigured
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        # Without the setting, Scrapy's ImagesPipeline is off.
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
        """Return the page that judges the output for *response*; None if all output may pass."""
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
        """Return whether *request*, which a callback has made of *page*, may pass. Reports one that may
        not; in a dry run, it passes nevertheless.
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
        """Return whether *item* may pass, after the changes that *effects* demand. In a dry run, each
        item passes unchanged, and what would be withheld is reported.
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
        """Write what *effects* has for items into the field ``REP_ITEM_FIELD`` of *item*, and report
        each restriction.
        """
        for denied in effects.noted:
            self._report(Verdict.ANNOTATED, *denied, response)
        name, count = self._settings.item_field, self._crawler.stats.inc_value
        if effects.is_expiring:
            count(stats.EXPIRING)
        notes = {**(effects.restrictions or {}), **deepcopy(effects.usage or {})}
        if not notes:
            return
        # Imported here: it loads the libraries of all item types, which take megabytes.
        from itemadapter import ItemAdapter  # noqa: PLC0415

        try:
            adapter = ItemAdapter(item)
            before = adapter.get(name)
            adapter[name] = {**before, **notes} if isinstance(before, dict) else notes
        except (AttributeError, KeyError, TypeError, ValueError):
            # The item type does not have the field, or does not accept the value, or its items
            # cannot be changed.
            count(stats.NOT_ANNOTATED)
            self._warn_of_class(type(item))
            return
        if effects.restrictions:
            count(stats.ANNOTATED)
        if effects.usage:
            count(stats.USAGE_ANNOTATED)

    def _warn_of_class(self, kind: type) -> None:
        """Warn once of a class of items whose objects cannot be annotated."""
        if kind in self._warned_of:
            return
        self._warned_of.add(kind)
        self._logger.warning(
            "Items of the class %(kind)s pass without what their pages allow: %(kind)s has no field "
            "%(field)r that can be written. Add the field to the class, or name another one in "
            "%(setting)s. Such items are counted in %(stat)s",
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
        """Report a decision about an item of *response*, or about the URL of an *image* of the item."""
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
        """Report and log that *item* is dropped, and send ``item_dropped``, as Scrapy does for item
        pipelines. The log level is that of the exception, unless the log formatter changes it. In a
        dry run, only report it. Return whether the item passes, which is so in a dry run.
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
        # Receivers may be coroutines, which this synchronous function can't await.
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
    """A response that restricts the output of its callback."""

    def __init__(self, response: Response, effects: Effects, rels: frozenset[str]):
        self.response = response
        self.effects = effects
        """The effects on its items and links."""

        self._rels = rels

    @cached_property
    def _links(self) -> Links:
        """The links of the page, which are read when they are first needed."""
        return Links.of(self.response)

    @cached_property
    def marked(self) -> Mapping[str, str]:
        """The canonical URLs that must not be followed, with the ``rel`` of their links."""
        if not self._rels or not isinstance(self.response, HtmlResponse):
            return {}
        body = self.response.body.lower()
        # Most pages need not be parsed. A page with zero bytes may be in UTF-16, and a character
        # reference may stand in the rel of a link.
        may_hide = b"\0" in body or b"&#" in body
        if not may_hide and not any(rel.encode() in body for rel in self._rels):
            return {}
        return self._links.only_marked(self._rels)

    def why_not_follow(self, request: Request) -> Statement | str | None:
        """Return why *request* must not be followed: the statement of the page, or the ``rel`` of
        its link; None if it may be followed.

        A request that follows no link may always be sent: a form, or a URL to which the page does not
        link. A page with too many links to read all of them counts as if it linked to each URL.
        """
        stated = self.effects.links
        if stated is None and not self.marked:
            return None
        if request.method != "GET" or request.body:
            return None
        if request.meta.get(meta.DONT_OBEY_NOFOLLOW):
            return None
        if request.url == self.response.url:
            return None  # A retry of the page itself.
        url = canonicalize_url(request.url)
        if stated is not None:
            links = self._links
            if url in links.urls or not links.is_whole:
                return stated
        return self.marked.get(url)


def _take_image_urls(item: Any, fields: list[str]) -> list[str]:
    """Empty the *fields* of *item* from which an ImagesPipeline takes URLs, and return the URLs.
    Raises AttributeError, TypeError or ValueError if *item* cannot be changed.
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

# The work for the links of one page is bounded to about a second. It is counted in characters: those
# of each link and of the base URL, and a constant for each link. That suffices for 15,000 links.
_MAX_WORK = 2_000_000
_WORK_OF_LINK = 100
_WORK_OF_NON_ASCII = 4


class Links:
    """The ``<a>`` and ``<area>`` links of a page, in order."""

    def __init__(
        self, targets: tuple[tuple[str, str], ...] = (), *, is_whole: bool = True
    ) -> None:
        self.targets = targets
        """The canonical URL (w3lib's ``canonicalize_url``, which Scrapy's fingerprints use too) of each
        link, and its ``rel``, as written."""

        self.is_whole = is_whole
        """Whether these are all links of the page, which may have too many to read."""

    @cached_property
    def urls(self) -> frozenset[str]:
        return frozenset(url for url, _ in self.targets)

    def only_marked(self, rels: frozenset[str]) -> dict[str, str]:
        """Return the URLs all of whose links have one of *rels* (in lower case), with the ``rel`` of
        the first link, as written.
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
        """Read the links of *response*. A response that is not HTML has none."""
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
    """Yield the ``href`` and the ``rel`` of each link."""
    for element in response.selector.root.iter("a", "area"):
        href = element.get("href")
        if href is not None:
            yield strip_html5_whitespace(href), element.get("rel", "")


def _canonical(href: str, response: HtmlResponse) -> set[str]:
    """Return the canonical URLs of a link: two if its query is not ASCII, which a spider writes in the
    encoding of the page or in UTF-8; none if it is invalid, such as "http://[".
    """
    try:
        url = response.urljoin(href)
        urls = {canonicalize_url(url)}
        if not url.isascii():
            urls.add(canonicalize_url(url, encoding=response.encoding))
    except ValueError:
        return set()
    return urls
