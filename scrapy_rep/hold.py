"""Requests that wait for a robots.txt, outside of the downloader."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest

from scrapy_rep import meta
from scrapy_rep.internals import extend_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.origins import Origin

HELD_AT_MOST = 100_000
"""How many requests are held at once. More than that wait in the downloader, which stops
Scrapy from taking more of them from its queue."""


class Hold:
    """Keeps requests until the robots.txt of their origin has come.

    A request that waits in ``process_request`` is one of the ``CONCURRENT_REQUESTS``, and
    many that wait for one slow host leave no place for the others. Scrapy's scheduler, on
    the other hand, knows no requests that must not be taken yet. So a request that has to
    wait is handed back to the engine, as a redirect is; the engine means to schedule it,
    and says so in a signal that can refuse it; there it is kept. When the robots.txt has
    come it is scheduled as the spider's own requests are. All this is public, and the
    same with every reactor, without one, and with other schedulers.

    *waits* tells whether an origin is still waited for.
    """

    def __init__(self, crawler: Crawler, waits: Callable[[Origin], bool]) -> None:
        self._crawler = crawler
        self._waits = waits
        self._held: dict[Origin, list[Request]] = {}
        self._handed_back: dict[int, tuple[Request, Origin]] = {}
        self._count = 0
        self._listens = False
        connect = crawler.signals.connect
        connect(self._spider_opened, signals.spider_opened)
        connect(self._spider_idle, signals.spider_idle)

    def came_straight_back(self, request: Request) -> bool:
        """Whether *request* was handed back, and nothing has scheduled it.

        So it is with what a pipeline or a callback downloads by itself: that has to wait
        where it is. To be called first, since it makes the request again what it was.
        """
        if meta.DONT_FILTER in request.meta:
            request.dont_filter = request.meta.pop(meta.DONT_FILTER)
        return self._handed_back.pop(id(request), None) is not None

    def hand_back(self, request: Request, origin: Origin) -> bool:
        """Whether *request* can be held, and is to be returned from ``process_request``."""
        if self._count >= HELD_AT_MOST:
            return False
        self._listen()
        self._handed_back[id(request)] = (request, origin)
        request.meta.setdefault(meta.HELD_SINCE, time.time())
        # It is known to the duplicate filter already, and must pass it again.
        request.meta[meta.DONT_FILTER] = request.dont_filter
        request.dont_filter = True
        return True

    def first(self, origin: Origin) -> Request | None:
        """One that waits for *origin*, if any does."""
        requests = self._held.get(origin)
        return requests[0] if requests else None

    def give_up(self, origin: Origin, since: float) -> int:
        """Let those wait no longer that have waited for *origin* since *since*, in
        seconds since the epoch. Returns how many these are.
        """
        count = 0
        for request in self._held.get(origin, ()):
            # Not those given up before, which are held once more if what is known has run
            # out by the time that they ask again.
            if 0.0 < request.meta[meta.HELD_SINCE] <= since:
                request.meta[meta.HELD_SINCE] = 0.0
                count += 1
        return count

    def release(self, origin: Origin) -> None:
        """Schedule those that wait for *origin*."""
        if not self._handed_back:
            self._stop_listening()
        for request in self._pop(origin):
            self._crawler.engine.crawl(request)

    # Every link of every page is scheduled before the duplicate filter sees it, and to be
    # told of one takes longer than all else that is done with most of them. So this is
    # told only while there are some to look out for.

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._crawler.signals.connect(
                self._request_scheduled, signals.request_scheduled
            )

    def _stop_listening(self) -> None:
        # Not to be called by a receiver of the signal: the next receiver would miss it.
        if self._listens:
            self._listens = False
            self._crawler.signals.disconnect(
                self._request_scheduled, signals.request_scheduled
            )

    def _pop(self, origin: Origin) -> list[Request]:
        requests = self._held.pop(origin, [])
        self._count -= len(requests)
        return requests

    def _spider_opened(self) -> None:
        extend_scheduler(self._crawler, lambda: bool(self._held), self._give_back)

    def _give_back(self) -> list[Request]:
        """All that is held, for another run: the time that it has waited does not count,
        nor does that until then.
        """
        requests = [one for origin in list(self._held) for one in self._pop(origin)]
        for request in requests:
            del request.meta[meta.HELD_SINCE]
        return requests

    def _request_scheduled(self, request: Request) -> None:
        found = self._handed_back.pop(id(request), None)
        # In the meantime the robots.txt may have come.
        if found is not None and self._waits(found[1]):
            self._held.setdefault(found[1], []).append(request)
            self._count += 1
            raise IgnoreRequest("Waits for robots.txt")

    def _spider_idle(self) -> None:
        # What was handed back and has gone astray, since another component dropped it on
        # its way, is not waited for.
        self._handed_back.clear()
        # Where the scheduler could not be extended.
        if self._held:
            raise DontCloseSpider
