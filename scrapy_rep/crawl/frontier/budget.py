"""How many pages of each host are fetched: ``REP_PAGES_PER_HOST``."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

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
    from typing_extensions import Self

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.frontier.limits import InFlight
    from scrapy_rep.protocol.origins import Origin

# The URLs of the last pages that are remembered: a retry or a redirect of one is no further page.
_MAX_URLS = 100_000


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

        self.new_pages: dict[object, str] | None = None
        """The hosts of the pages that are not done, for a scheduler that keeps the counts; None if it does not."""

        self._urls: LocalCache[int, bool] = LocalCache(_MAX_URLS)
        self._full: set[str] = set()
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    @classmethod
    def if_set(cls, crawler: Crawler, clock: Clock) -> Self | None:
        """Return the budget of a crawl; None if no setting limits its pages."""
        settings = RepSettings.of(crawler)
        is_set = settings.pages_per_host or any(
            override.pages is not None for override in settings.overrides
        )
        return cls(crawler, clock) if is_set else None

    def admits(self, request: Request, entry: InFlight) -> bool:
        """Count *request* as a page of its host, unless it is a retry of one, or was redirected from one. Return
        False if the host has had as many pages as it may.
        """
        origin = url_origin(request)
        if origin is None:
            return True  # It is not sent.
        host = bare_host(origin)
        if entry.page_of or self._repeats(request, host):
            self._urls[hash(request.url)] = True
            return True
        pages = self._limit(origin)
        if pages and self.pages[host] >= pages:
            self._note_full(host, pages)
            return False
        self.pages[host] += 1
        self._urls[hash(request.url)] = True
        entry.page_of = host
        if self.new_pages is not None:
            self.new_pages[request] = host
        return True

    def give_back(self, request: Request, entry: InFlight) -> None:
        """Note that *request* was not sent, although it was counted."""
        self.pages[entry.page_of] -= 1
        entry.page_of = ""
        if self.new_pages is not None:
            self.new_pages.pop(request, None)

    def done(self, request: object) -> str:
        """Return the host in whose budget *request*, whose callback has ended, counts; empty if in none."""
        return "" if self.new_pages is None else self.new_pages.pop(request, "")

    def why_refused(self, request: Request) -> str:
        """Return why *request* is refused, for a message."""
        origin = url_origin(request)
        assert origin is not None
        return f"{bare_host(origin)} has had {self._limit(origin)} pages (REP_PAGES_PER_HOST)"

    def _limit(self, origin: Origin) -> int:
        override = override_for(self._overrides, origin, self._clock.time())
        if override is None or override.pages is None:
            return self._pages
        return override.pages

    def _repeats(self, request: Request, host: str) -> bool:
        """Whether *request* is for a page of *host* that was counted: Scrapy repeats it, or follows its redirect."""
        url = request.url if request.meta.get("retry_times") else None
        redirected_from = request.meta.get("redirect_urls")
        if url is None and redirected_from:
            url = redirected_from[-1]
            origin = origin_of(url)
            if origin is None or bare_host(origin) != host:
                return False
        return url is not None and hash(url) in self._urls

    def _note_full(self, host: str, pages: int) -> None:
        if host in self._full:
            return
        if not self._full:
            self._logger.info(
                "%(host)s has had %(pages)d pages: further requests to it are refused. Further hosts are "
                "counted, and not named (REP_PAGES_PER_HOST)",
                host=host,
                pages=pages,
            )
        self._full.add(host)
        self._crawler.stats.inc_value(stats.BUDGET_HOSTS)

    def _spider_closed(self) -> None:
        if self._full:
            self._logger.at_end(
                logging.INFO,
                "Hosts that have had as many pages as REP_PAGES_PER_HOST allows, and were asked for more: "
                "%(hosts)s",
                hosts=f"{len(self._full):,}",
            )
