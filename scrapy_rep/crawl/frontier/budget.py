"""Limits the number of pages that a crawl fetches from each host: ``REP_PAGES_PER_HOST``."""

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
    from collections.abc import Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.frontier.limits import InFlight
    from scrapy_rep.protocol.origins import Origin

# The maximum number of URLs of counted pages to remember, so that a retry or a redirect of a page is not counted
# again.
_MAX_URLS = 100_000


class Keeper(Protocol):
    """Stores the number of pages of each host, so that a later run of the crawl continues to count."""

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Add *change* (1 or -1) to the stored pages of *host*, because *request*, which is about to be sent,
        counts as a page, or no longer does.
        """


class Budget:
    """Counts the pages of each host (by host name), and says whether another page of the host may be fetched."""

    def __init__(self, crawler: Crawler, clock: Clock) -> None:
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._clock = clock
        self._max_pages = settings.pages_per_host
        self._overrides = settings.overrides
        self.pages: Counter[str] = Counter()
        """The number of pages of each host, including those in flight."""

        self._keeper: Keeper | None = None
        """Stores the counts for later runs; None if the counts end with this process."""

        self._free: WeakSet[Request] = WeakSet()
        """The requests whose page was counted before: retries, redirects, and requests of an earlier run. They are
        always admitted."""

        self._counted_urls: LocalCache[int, bool] = LocalCache(_MAX_URLS)
        self._full: set[str] = set()
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    def store_with(self, keeper: Keeper) -> None:
        """Store each count with *keeper* from now on."""
        self._keeper = keeper

    def resume(self, pages: Mapping[str, int]) -> None:
        """Continue to count from the stored number of *pages*, by host."""
        for host, number in pages.items():
            self.pages[host] = number

    def admits(self, request: Request, entry: InFlight) -> bool:
        """Return whether *request* may be sent, and count it as a page of its host. A retry, or the target of a
        redirect within the host, belongs to a page that was counted before: it is always admitted, and not
        counted. Return False if the host has reached its limit.
        """
        origin = url_origin(request)
        if origin is None:
            return True  # An invalid URL, which is refused elsewhere.
        if not (entry.page_of or request in self._free):
            page = self._repeated(request)
            host = _host_of(origin, entry)
            if page is not None:
                # The retry or redirect takes the place of the page: its URL is remembered below.
                del self._counted_urls[page]
                self._free.add(request)
            elif self._count(request, host, origin):
                entry.page_of = host
            else:
                return False
        self._counted_urls[hash(request.url)] = True
        return True

    def _count(self, request: Request, host: str, origin: Origin) -> bool:
        """Count *request* as a page of *host*, and return True; False if *host* has reached its limit."""
        pages, _ = self._limit(origin)
        if pages and self.pages[host] >= pages:
            self._note_full(host, origin)
            return False
        self.pages[host] += 1
        if self._keeper is not None:
            self._keeper.keep_page(request, host, 1)
        return True

    def give_back(self, request: Request, entry: InFlight) -> None:
        """Undo the count of *request*, which was not sent after all."""
        self.pages[entry.page_of] -= 1
        self._counted_urls.pop(hash(request.url), None)
        if self._keeper is not None:
            self._keeper.keep_page(request, entry.page_of, -1)
        entry.page_of = ""

    def why_refused(self, request: Request, entry: InFlight) -> str:
        """Return the reason for which *request* is refused, in words for a message."""
        origin = url_origin(request)
        assert origin is not None
        return self._why(_host_of(origin, entry), origin)

    def _why(self, host: str, origin: Origin) -> str:
        pages, setting = self._limit(origin)
        return f"{host} has reached its limit of {pages} pages ({setting})"

    def _limit(self, origin: Origin) -> tuple[int, str]:
        """Return the limit of pages for the host of *origin* (0 for none), and the setting that it comes from."""
        override = override_for(self._overrides, origin, self._clock.time())
        if override is None or override.pages is None:
            return self._max_pages, "REP_PAGES_PER_HOST"
        return override.pages, "REP_OVERRIDES"

    def is_counted(self, request: Request) -> bool:
        """Whether *request* is a retry or a redirect of a page that was counted. A keeper stores this with the
        request.
        """
        return self._repeated(request) is not None

    def pass_free(self, request: Request) -> None:
        """Admit *request* without counting it, because an earlier run has already counted it."""
        self._free.add(request)

    def _repeated(self, request: Request) -> int | None:
        """If *request* is a retry of a counted page, or a redirect from a counted page of the same host, return the
        hash of the URL of that page; else None. The meta keys alone do not prove a retry or redirect, since spiders
        copy them to requests for other pages; so the URL must have been counted.
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
                "%(why)s: further requests to this host are refused. This is logged for the first host only: "
                "those that reach their limit later are refused too, and counted in a line at the end of the crawl",
                why=self._why(host, origin),
            )
        self._full.add(host)
        self._crawler.stats.inc_value(stats.BUDGET_HOSTS)

    def _spider_closed(self) -> None:
        if self._full:
            self._logger.at_end(
                logging.INFO,
                "Hosts that have reached their limit of pages (REP_PAGES_PER_HOST, REP_OVERRIDES), so that further "
                "requests to them were refused: %(hosts)s",
                hosts=f"{len(self._full):,}",
            )


def _host_of(origin: Origin, entry: InFlight) -> str:
    """Return the host to which a request to *origin* counts. If a service (such as a rendering proxy) fetches the
    page, that is the host behind the service, which has its own download slot.
    """
    key = entry.queue.key
    slot: str = key.slot
    return slot if key.is_service else bare_host(origin)
