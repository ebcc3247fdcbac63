"""Requests that wait for something, outside of the downloader."""

from __future__ import annotations

import logging
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest

from scrapy_rep import meta
from scrapy_rep.internals import extend_scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

HELD_AT_MOST = 300_000
"""How many requests are held at once: about a gigabyte of them. More than that wait in the
downloader, which stops Scrapy from taking more of them from its queue."""


class Hold:
    """Keeps requests until what they wait for has come.

    A request that waits in ``process_request`` is one of the ``CONCURRENT_REQUESTS``, and
    many that wait for one slow host leave no place for the others. Scrapy's scheduler, on
    the other hand, knows no requests that must not be taken yet. So a request that has to
    wait is handed back to the engine, as a redirect is; the engine means to schedule it,
    and says so in a signal that can refuse it; there it is kept. When it is released it
    is scheduled as the spider's own requests are. All this is public, and the same with
    every reactor, without one, and with other schedulers.

    What requests wait for is named by a key: those with one key are released in the order
    of their priority.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._held: dict[Hashable, list[tuple[int, int, Request]]] = {}
        self._handed_back: dict[int, tuple[Request, Hashable, Callable[[], bool]]] = {}
        self._count = 0
        self._has_warned = False
        self._turn = count()
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

    def hand_back(
        self, request: Request, key: Hashable, waits: Callable[[], bool]
    ) -> bool:
        """Whether *request* can be held, and is to be returned from ``process_request``.

        It is held where it still *waits* when the engine has it back.
        """
        if self._count >= HELD_AT_MOST:
            self._warn()
            return False
        self._listen()
        self._handed_back[id(request)] = (request, key, waits)
        # It is known to the duplicate filter already, and must pass it again.
        request.meta[meta.DONT_FILTER] = request.dont_filter
        request.dont_filter = True
        return True

    def count(self, key: Hashable) -> int:
        return len(self._held.get(key, ()))

    def held(self, key: Hashable) -> Iterator[Request]:
        """Those that wait for *key*; first the one that is released first."""
        return (request for _, _, request in self._held.get(key, ()))

    def release(self, key: Hashable) -> None:
        """Schedule those that wait for *key*."""
        if not self._handed_back:
            self._stop_listening()
        while key in self._held:
            self.release_one(key)

    def release_one(self, key: Hashable) -> Request:
        """Schedule the one of the highest priority, of those that wait for *key*."""
        request = self._pop(key)
        self._crawler.engine.crawl(request)
        return request

    def move(self, key: Hashable, to: Hashable) -> None:
        """Let those that wait for *key* wait for another."""
        for entry in self._held.pop(key, ()):
            heappush(self._held.setdefault(to, []), entry)

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

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%(count)d requests are held, and no more can be: until there are fewer, "
                "those that have to wait take places of CONCURRENT_REQUESTS",
                {"count": self._count},
                extra={"spider": self._crawler.spider},
            )

    def _pop(self, key: Hashable) -> Request:
        requests = self._held[key]
        _, _, request = heappop(requests)
        if not requests:
            del self._held[key]
        self._count -= 1
        return request

    def _spider_opened(self) -> None:
        extend_scheduler(self._crawler, lambda: bool(self._held), self._give_back)

    def _give_back(self) -> list[Request]:
        """All that is held, for another run: the time that it has waited does not count,
        nor does that until then.
        """
        requests = []
        while self._held:
            request = self._pop(next(iter(self._held)))
            request.meta.pop(meta.HELD_SINCE, None)
            requests.append(request)
        return requests

    def _request_scheduled(self, request: Request) -> None:
        found = self._handed_back.pop(id(request), None)
        if found is None:
            return
        _, key, waits = found
        # In the meantime it may have come.
        if waits():
            held = self._held.setdefault(key, [])
            heappush(held, (-request.priority, next(self._turn), request))
            self._count += 1
            raise IgnoreRequest("Is held")

    def _spider_idle(self) -> None:
        # What was handed back and has gone astray, since another component dropped it on
        # its way, is not waited for.
        self._handed_back.clear()
        # Where the scheduler could not be extended.
        if self._held:
            raise DontCloseSpider
