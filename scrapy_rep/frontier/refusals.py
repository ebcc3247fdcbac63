"""Refuses requests in the queues of hosts that were given up."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from scrapy_rep import stats
from scrapy_rep.compat.internals import fail, is_scraper_full, wake
from scrapy_rep.frontier.reporter import Case
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.clock import Alarms
    from scrapy_rep.frontier.outages import Outage
    from scrapy_rep.frontier.reporter import DecisionReporter

logger = get_logger(__name__)

# The seconds that one iteration of the event loop may spend on refusing requests, and the
# seconds before the next attempt when callbacks cannot keep up, or after an error.
_SLICE = 0.005
_PAUSE = 0.02


class Refusals:
    """Calls the errbacks of the requests in the queues of hosts that were given up.

    In the downloader, each request would take one of ``CONCURRENT_REQUESTS`` places and an
    iteration of the engine. Here, a time limit applies to each iteration of the event loop.
    """

    def __init__(
        self, crawler: Crawler, alarms: Alarms, reporter: DecisionReporter
    ) -> None:
        self._crawler = crawler
        self._clock = alarms.clock
        self._alarms = alarms
        self._reporter = reporter
        self._queues: deque[tuple[BackQueue, Outage]] = deque()
        self._is_running = False

    def add(self, queue: BackQueue, outage: Outage) -> None:
        """Refuse the requests of *queue* until it is empty or *outage* is over."""
        self._queues.append((queue, outage))
        if not self._is_running:
            self._is_running = True
            self._alarms.at(self._clock.monotonic(), self._refuse_some)

    def _refuse_some(self) -> None:
        now = self._clock.monotonic()
        until = now + _SLICE
        pause = 0.0
        while self._queues and now < until:
            if is_scraper_full(self._crawler):
                pause = _PAUSE
                break
            queue, outage = self._queues[0]
            if outage.is_over:
                self._queues.popleft()
                queue.release()
            elif not len(queue):
                self._queues.popleft()
            elif not self._refuse_one(queue, outage):
                pause = _PAUSE
                break
            now = self._clock.monotonic()
        self._is_running = bool(self._queues)
        if self._is_running:
            self._alarms.at(now + pause, self._refuse_some)
        # The crawl may be done now, or requests may have become ready.
        wake(self._crawler)

    def _refuse_one(self, queue: BackQueue, outage: Outage) -> bool:
        """Refuse one request. Return False after an error."""
        try:
            request = queue.take()
            if request is not None:
                self._refuse(request, queue, outage)
        except Exception:
            logger.exception(
                "Error while refusing a request to %(host)s, whose robots.txt is unreachable: "
                "its errback may not be called. The next request is refused after a pause",
                {"host": outage.known.origin},
                extra={"spider": self._crawler.spider},
            )
            return False
        return True

    def _refuse(self, request: Request, queue: BackQueue, outage: Outage) -> None:
        known = outage.known
        decision = known.robots.decide(request.url, ())
        if decision.allowed:
            # It is the spider's own request for robots.txt, which is always allowed.
            queue.owner.push(request, is_exempt=True)
            return
        self._crawler.stats.inc_value(stats.GIVEN_UP)
        case = Case(request, known.origin, known.entry)
        fail(self._crawler, request, self._reporter.refused(case, decision))
