"""Refuses the requests of queues whose hosts are unreachable, or pause, for too long.

In the downloader, each of them would take one of the places of ``CONCURRENT_REQUESTS`` and an
iteration of the engine. Here, a time limit applies to each iteration of the event loop.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from scrapy_rep import stats
from scrapy_rep.compat.internals import fail, is_scraper_full, wake
from scrapy_rep.frontier.core import Phase
from scrapy_rep.frontier.hostkeys import request_origin
from scrapy_rep.frontier.reporter import BACK_OFF, Case
from scrapy_rep.log import CrawlLog

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.frontier import BackQueue, Frontier
    from scrapy_rep.frontier.reporter import DecisionReporter

# The seconds that one iteration of the event loop may spend here, and the seconds before the next
# attempt when callbacks cannot keep up, or after an error.
_SLICE = 0.005
_PAUSE = 0.02


class Refusing:
    """The queues whose requests are refused."""

    def __init__(
        self, crawler: Crawler, frontier: Frontier, reporter: DecisionReporter
    ) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier = frontier
        self._reporter = reporter
        self._queues: deque[BackQueue] = deque()
        self._is_under_way = False
        self.failing: set[Request] = set()
        """The requests that were refused, until their errbacks have ended."""

    def add(self, queue: BackQueue) -> None:
        """Refuse the requests of *queue*, soon, as long as its hosts do not answer."""
        self._queues.append(queue)
        if not self._is_under_way:
            self._is_under_way = True
            frontier = self._frontier
            frontier.alarms.at(frontier.clock.monotonic(), self._refuse_some)

    def _refuse_some(self) -> None:
        frontier = self._frontier
        now = frontier.clock.monotonic()
        until, pause = now + _SLICE, 0.0
        while self._queues and now < until and not frontier.is_stopped:
            queue = self._queues[0]
            if is_scraper_full(self._crawler):
                pause = _PAUSE
                break
            if not len(queue):
                self._queues.popleft()
            elif not frontier.core.is_refused(queue, now):
                self._queues.popleft()
                frontier.add(queue)
            elif not self._refuse_one(queue):
                pause = _PAUSE
                break
            now = frontier.clock.monotonic()
        self._is_under_way = bool(self._queues) and not frontier.is_stopped
        if self._is_under_way:
            frontier.alarms.at(now + pause, self._refuse_some)
        frontier.flush()
        # The crawl may be done now, or requests may have become ready.
        wake(self._crawler)

    def _refuse_one(self, queue: BackQueue) -> bool:
        """Refuse one request. Return False after an error."""
        try:
            request = queue.owner.take(queue)
            if request is not None:
                self._refuse(request, queue)
        except Exception:
            self._logger.exception(
                "Error while refusing a request to %(host)s: its errback may not be called. The "
                "next request is refused after a pause",
                host=queue.key.origin or queue.key.slot,
            )
            return False
        return True

    def _refuse(self, request: Request, queue: BackQueue) -> None:
        host = queue.host
        if host is not None and host.phase is Phase.REFUSED:
            case = Case(request, host.origin, host.known)
            decision = host.known.robots.decide(request.url, ())
            if decision.allowed:
                # It is the spider's own request for robots.txt, which is always allowed.
                queue.owner.push(request, is_exempt=True)
                return
        else:
            why = self._frontier.pauses.why_refused(queue)
            case = Case(request, request_origin(request), why=why)
            decision = BACK_OFF
        self._crawler.stats.inc_value(stats.GIVEN_UP)
        self.failing.add(request)
        error = self._reporter.refused(case, decision)
        fail(self._crawler, request, error, partial(self.failing.discard, request))
