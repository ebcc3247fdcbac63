"""The spider middleware that drops links and items that the rules of their page forbid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import NotConfigured
from w3lib.url import canonicalize_url

from scrapy_rep.base import meta
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.record import Subject, Verdict
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.decisions import DecisionReporter
from scrapy_rep.crawl.pages.items import ItemGate
from scrapy_rep.crawl.pages.links import Links, only_marked
from scrapy_rep.protocol.indexing.statements import Statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.crawl.pages.effects import Effects
    from scrapy_rep.protocol.indexing.rules import IndexingRules


class IndexingGateMiddleware:
    """Drops the requests and items of a callback that its response forbids."""

    ORDER = 100
    """Scrapy passes the output of callbacks in descending order. This is near the engine,
    after all middlewares that make or change items and requests."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._settings = settings = RepSettings.of(crawler)
        policies = {settings.noindex, settings.nofollow, settings.usage}
        if policies == {"ignore"} and not settings.rel:
            raise NotConfigured
        self._items = ItemGate(crawler)
        self._reporter = DecisionReporter.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> IndexingGateMiddleware:
        return cls(crawler)

    def process_spider_output(
        self, response: Response, result: Iterable[Any]
    ) -> Iterator[Any]:
        page = self._page(response)
        for output in result:
            if self._passes(output, page):
                yield output

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page = self._page(response)
        async for output in result:
            if self._passes(output, page):
                yield output

    def _page(self, response: Response) -> _Page:
        # Without a request, response.meta raises AttributeError.
        rules: IndexingRules | None = None
        if response.request is not None:
            rules = response.meta.get(meta.INDEXING)
        page = _Page(response, self._items.effects(response, rules))
        if self._settings.rel:
            page.marked = only_marked(response, self._settings.rel)
        return page

    def _passes(self, output: Any, page: _Page) -> bool:
        if not isinstance(output, Request):
            return self._items.may_keep(output, page.response, page.effects)
        if meta.INDEXING in output.meta:
            # The spider has copied the meta of the page, but its rules are not of this request.
            del output.meta[meta.INDEXING]
            output.meta.pop(meta.USAGE, None)
        return self._may_follow(output, page)

    def _may_follow(self, request: Request, page: _Page) -> bool:
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


@dataclass(slots=True)
class _Page:
    """A response, and what of the output for it must not pass."""

    response: Response
    effects: Effects
    """What happens to its items and links."""

    marked: Mapping[str, str] = field(default_factory=dict)
    """The canonical URLs that may not be followed, with the ``rel`` of their links."""

    _links: Links | None = None
    """Its links, once they are needed: to read them takes time."""

    def why_not_follow(self, request: Request) -> Statement | str | None:
        """Return why *request* must not be followed: the statement of its page, or the ``rel`` of
        its link; None if it may be followed. A request that follows no link always may: a form, or
        one for a URL to which the page does not link.
        """
        if self.effects.links is None and not self.marked:
            return None
        if request.method != "GET" or request.body:
            return None
        if request.meta.get(meta.DONT_OBEY_NOFOLLOW):
            return None
        if request.url == self.response.url:
            return None  # A retry of the page itself.
        url = canonicalize_url(request.url)
        if self.effects.links is not None and self._has_link_to(url):
            return self.effects.links
        return self.marked.get(url)

    def _has_link_to(self, url: str) -> bool:
        """Whether the page links to a canonical URL. One that has too many links to read them counts
        as if it did.
        """
        if self._links is None:
            self._links = Links.of(self.response)
        return url in self._links.urls or not self._links.is_whole
