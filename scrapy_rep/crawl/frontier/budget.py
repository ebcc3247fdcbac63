"""How many pages of each host are fetched: ``REP_PAGES_PER_HOST``."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from scrapy import signals
from scrapy.utils.datatypes import LocalCache

from scrapy_rep.base import stats
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import bare_host, url_origin
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.protocol.access.overrides import override_for
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.frontier.limits import InFlight
    from scrapy_rep.protocol.origins import Origin

# The most URLs of counted pages to remember. A retry or a redirect of a remembered one is not counted
# again.
_MAX_URLS = 100_000


class Keeper(Protocol):
    """Keeps the numbers of pages, so that they outlive the process."""

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Keep that *request* counts as a page of *host*, before it is sent; no more if the *change* is -1."""


class Budget:
    """Counts the pages of each host, by its name, and says whether it may have another one."""

    def __init__(self, crawler: Crawler, clock: Clock) -> None:
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._clock = clock
        self._pages = settings.pages_per_host
        self._overrides = settings.overrides
        self.pages: Counter[str] = Counter()
        """The pages of each host that were sent, or are on their way."""

        self.keeper: Keeper | None = None
        """Keeps the counts; None if they end with this process."""

        self._free: WeakSet[Request] = WeakSet()
        """The requests that belong to pages that were counted before. They pass as often as they come."""

        self._counted_urls: LocalCache[int, bool] = LocalCache(_MAX_URLS)
        self._full: set[str] = set()
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    def admits(self, request: Request, entry: InFlight) -> bool:
        """Count *request* as a page of its host, unless it is a retry of one, or was redirected from one. Return
        False if the host has had as many pages as it may.
        """
        origin = url_origin(request)
        if origin is None:
            return True  # It is not sent.
        if not (entry.page_of or request in self._free):
            page = self._repeated(request)
            host = _host_of(origin, entry)
            if page is not None:
                del self._counted_urls[page]  # It has one retry or redirect.
                self._free.add(request)
            elif self._count(request, host, origin):
                entry.page_of = host
            else:
                return False
        self._counted_urls[hash(request.url)] = True
        return True

    def _count(self, request: Request, host: str, origin: Origin) -> bool:
        """Count *request* as a page of *host*. Return False if that has had as many as it may."""
        pages, _ = self._limit(origin)
        if pages and self.pages[host] >= pages:
            self._note_full(host, origin)
            return False
        self.pages[host] += 1
        if self.keeper is not None:
            self.keeper.keep_page(request, host, 1)
        return True

    def give_back(self, request: Request, entry: InFlight) -> None:
        """Note that *request* was not sent, although it was counted."""
        self.pages[entry.page_of] -= 1
        self._counted_urls.pop(hash(request.url), None)
        if self.keeper is not None:
            self.keeper.keep_page(request, entry.page_of, -1)
        entry.page_of = ""

    def why_refused(self, request: Request, entry: InFlight) -> str:
        """Return why *request* is refused, for a message."""
        origin = url_origin(request)
        assert origin is not None
        return self._why(_host_of(origin, entry), origin)

    def _why(self, host: str, origin: Origin) -> str:
        pages, setting = self._limit(origin)
        return f"{host} has had {pages} pages ({setting})"

    def _limit(self, origin: Origin) -> tuple[int, str]:
        """Return how many pages the host of *origin* may have, and the setting that says so."""
        override = override_for(self._overrides, origin, self._clock.time())
        if override is None or override.pages is None:
            return self._pages, "REP_PAGES_PER_HOST"
        return override.pages, "REP_OVERRIDES"

    def is_counted(self, request: Request) -> bool:
        """Whether *request*, which is new, belongs to a page that was counted, for a keeper."""
        return self._repeated(request) is not None

    def pass_free(self, request: Request) -> None:
        """Note that an earlier run has counted *request*, and may have sent it."""
        self._free.add(request)

    def _repeated(self, request: Request) -> int | None:
        """Return the hash of the page that *request* repeats, or to whose redirect within the host it goes; None
        if it is a page of its own. Spiders copy the meta that says so to requests for other pages.
        """
        url = hash(request.url)
        if request.meta.get("retry_times") and url in self._counted_urls:
            return url
        redirected_from = request.meta.get("redirect_urls")
        if not redirected_from:
            return None
        url, before = hash(redirected_from[-1]), origin_of(redirected_from[-1])
        origin = url_origin(request)
        if before is None or origin is None or bare_host(before) != bare_host(origin):
            return None
        return url if url in self._counted_urls else None

    def _note_full(self, host: str, origin: Origin) -> None:
        if host in self._full:
            return
        if not self._full:
            self._logger.info(
                "%(why)s: further requests to it are refused. Further hosts are counted, and not named",
                why=self._why(host, origin),
            )
        self._full.add(host)
        self._crawler.stats.inc_value(stats.BUDGET_HOSTS)

    def _spider_closed(self) -> None:
        if self._full:
            self._logger.at_end(
                logging.INFO,
                "Hosts that have had as many pages as they may (REP_PAGES_PER_HOST, REP_OVERRIDES), so that further "
                "requests to them were refused: %(hosts)s",
                hosts=f"{len(self._full):,}",
            )


def _host_of(origin: Origin, entry: InFlight) -> str:
    """Return the host whose page the request of *entry*, to *origin*, is for: a service may fetch it."""
    key = entry.queue.key
    slot: str = key.slot
    return slot if key.is_service else bare_host(origin)
