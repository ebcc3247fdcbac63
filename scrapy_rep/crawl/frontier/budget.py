"""The page budget: limits the number of pages that a crawl fetches from each host (``REP_PAGES_PER_HOST``)."""

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

# The maximum number of counted pages whose URLs are remembered. The URLs are needed to recognize a retry or redirect of
# a counted page, which is not counted again.
_MAX_URLS = 100_000


class PageCountStorage(Protocol):
    """Stores the number of counted pages of each host. The next run of the crawl continues from these numbers."""

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Add *change* to the stored number of pages of *host*. *change* is 1 if *request* was counted as a page and is
        about to be sent. *change* is -1 if *request* is no longer counted, because it was not sent.
        """


class Budget:
    """Counts the pages of each host, by host name, and decides whether another page of a host may be fetched."""

    def __init__(self, crawler: Crawler, clock: Clock) -> None:
        settings = RepSettings.of(crawler)
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._clock = clock
        self._max_pages = settings.pages_per_host
        self._overrides = settings.overrides
        self.pages: Counter[str] = Counter()
        """The number of pages of each host, including those in flight."""

        self._storage: PageCountStorage | None = None
        """Stores the counts for later runs; None if the counts are lost when this process ends."""

        self._free: WeakSet[Request] = WeakSet()
        """The requests that are always admitted, because their page was counted earlier: retries, redirects, and
        requests that an earlier run counted."""

        self._counted_urls: LocalCache[int, int] = LocalCache(_MAX_URLS)
        """Maps the hash of each counted page's URL to the number of counted requests with this URL."""

        self._full: set[str] = set()
        """The hosts that reached their limit."""

        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    def store_with(self, storage: PageCountStorage) -> None:
        """From now on, save each change of the page counts in *storage*, such as the file in the ``JOBDIR``."""
        self._storage = storage

    def resume(self, pages: Mapping[str, int]) -> None:
        """Continue counting from the numbers in *pages*. It maps hosts to their numbers of pages, including the pages
        of earlier runs or of other workers (processes of the same crawl).
        """
        for host, number in pages.items():
            self.pages[host] = number

    def admits(self, request: Request, entry: InFlight) -> bool:
        """Count *request* as a page of its host, record this host in *entry* (the state of *request* in flight), and
        return True. If the host has already reached its maximum number of pages, do nothing and return False.

        For a retry of a counted page, or a redirect of a counted page within the same host, always return True, and do
        not count the page again.
        """
        origin = url_origin(request)
        if origin is None:
            return True  # The URL is invalid. The gate will refuse the request.
        is_known = bool(entry.page_of) or request in self._free
        if not is_known:
            page = self._repeated(request)
            host = _host_of(origin, entry)
            if page is not None:
                # *request* repeats a page that was counted earlier. Forget the URL of that page. The URL of *request*
                # is added below instead, so that a further retry or redirect is recognized.
                self._forget_url(page)
                self._free.add(request)
            elif self._count(request, host, origin):
                entry.page_of = host
            else:
                return False
        url = hash(request.url)
        if not (is_known and url in self._counted_urls):
            self._counted_urls[url] = self._counted_urls.get(url, 0) + 1
        return True

    def _forget_url(self, url: int) -> None:
        """Subtract one from the number of counted requests with the URL whose hash is *url*. If the number becomes 0,
        forget the URL.
        """
        others = self._counted_urls.pop(url, 1) - 1
        if others:
            self._counted_urls[url] = others

    def _count(self, request: Request, host: str, origin: Origin) -> bool:
        """Count *request* as a page of *host*, and return True. Return False if *host* has reached its limit."""
        pages, _ = self._limit(origin)
        if pages and self.pages[host] >= pages:
            self._note_full(host, origin)
            return False
        self.pages[host] += 1
        if self._storage is not None:
            self._storage.keep_page(request, host, 1)
        return True

    def give_back(self, request: Request, entry: InFlight) -> None:
        """Undo the count of *request*, because it was counted but not sent."""
        self.pages[entry.page_of] -= 1
        self._forget_url(hash(request.url))
        if self._storage is not None:
            self._storage.keep_page(request, entry.page_of, -1)
        entry.page_of = ""

    def why_refused(self, request: Request, entry: InFlight) -> str:
        """Return the reason why *request* is refused, as text for a message: the maximum number of pages, which its
        host has reached, and the setting that contains this number.
        """
        origin = url_origin(request)
        assert origin is not None
        return self._why(_host_of(origin, entry), origin)

    def _why(self, host: str, origin: Origin) -> str:
        pages, setting = self._limit(origin)
        return f"{host} has reached its limit of {pages} pages ({setting})"

    def _limit(self, origin: Origin) -> tuple[int, str]:
        """Return the maximum number of pages for the host of *origin*, and the name of the setting that contains this
        number. If the number is 0, the pages of the host are not limited.
        """
        override = override_for(self._overrides, origin, self._clock.time())
        if override is None or override.pages is None:
            return self._max_pages, "REP_PAGES_PER_HOST"
        return override.pages, "REP_OVERRIDES"

    def repeats_counted_page(self, request: Request) -> bool:
        """Whether *request* is a retry of a counted page, or a redirect of a counted page within the same host. The
        page budget does not count such a request again.
        """
        # The JOBDIR stores the result together with *request*. If it is True, a run that continues the crawl calls
        # pass_free(), because the new run does not know the URLs of the pages that were counted in this run.
        return self._repeated(request) is not None

    def pass_free(self, request: Request) -> None:
        """Let :meth:`admits` always admit *request* without counting it, because an earlier run counted its page."""
        self._free.add(request)

    def _repeated(self, request: Request) -> int | None:
        """Return the hash of the counted page's URL if *request* is a retry of a counted page, or a redirect of a
        counted page of the same host. Otherwise, return None.

        Meta keys alone do not prove a retry or redirect, because spiders copy them to requests for other pages. So the
        URL of a retry, and the URL from which a request was redirected, must also be the URL of a counted page.
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
        """Record in the stats that *host* reached its limit. Log a message for the first host only."""
        if host in self._full:
            return
        if not self._full:
            self._logger.info(
                "%(why)s: further requests to this host are refused. This message is logged for the first host only. "
                "A line at the end of the crawl contains the number of all hosts that reached their limit",
                why=self._why(host, origin),
            )
        self._full.add(host)
        self._crawler.stats.inc_value(stats.BUDGET_HOSTS)

    def _spider_closed(self) -> None:
        if self._full:
            self._logger.at_end(
                logging.INFO,
                "Hosts that reached their limit of pages (REP_PAGES_PER_HOST, REP_OVERRIDES): %(hosts)s. Further "
                "requests to these hosts were refused",
                hosts=f"{len(self._full):,}",
            )


def _host_of(origin: Origin, entry: InFlight) -> str:
    """Return the host whose page budget counts the request of *entry*, a request to *origin*.

    Usually, this is the host of *origin*. If *origin* belongs to a service that fetches a page from another host, such
    as a rendering proxy, this is the host of the page.
    """
    key = entry.queue.key
    # A request to a service has the download slot of the page's host.
    slot: str = key.slot
    return slot if key.is_service else bare_host(origin)
