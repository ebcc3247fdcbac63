"""How a request comes to know what it must keep to, and how long it waits for that."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later

from scrapy_rep import meta, stats
from scrapy_rep.compat import sleep
from scrapy_rep.internals import is_closing, room_in_downloader
from scrapy_rep.protocol.robotstxt import Reason

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.hold import Hold
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.registry import Known, RobotsTxtRegistry

logger = logging.getLogger(__name__)

# How often, in seconds, a request that waits where it is looks whether that is over.
_LOOK_EVERY = 0.2

# In seconds, so that a clock that is a little off does not make a loop of it.
_SOONEST = 0.1


class Waiting:
    """Lets requests wait for a robots.txt that is on its way, and for *wait* seconds for
    one that can't be had.
    """

    def __init__(
        self, crawler: Crawler, registry: RobotsTxtRegistry, hold: Hold, wait: float
    ) -> None:
        self._crawler = crawler
        self._registry = registry
        self._hold = hold
        self._wait = wait
        self._timers: dict[Origin, CallLaterResult] = {}
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    async def known(
        self, origin: Origin, request: Request, *, in_place: bool
    ) -> Known | None:
        """What *request* must keep to; None if it has to wait, and must be returned from
        ``process_request``.

        With *in_place* it can't be returned, and waits here. Raises IgnoreRequest where
        the spider closes meanwhile.
        """
        known = self._registry.at_hand(origin)
        while known is None or self._is_worth_waiting(known, request):
            waits = partial(self._waits, origin)
            if not in_place and self._hold.hand_back(request, origin, waits):
                request.meta.setdefault(meta.HELD_SINCE, time.time())
                self._crawler.stats.inc_value(stats.HELD)
                if known is None:
                    self._registry.take_off(origin, request)
                else:
                    self._ask_again_later(origin, known, request)
                return None
            known = await self._wait_in_place(origin, known, request)
        request.meta.pop(meta.HELD_SINCE, None)
        return known

    async def _wait_in_place(
        self, origin: Origin, known: Known | None, request: Request
    ) -> Known:
        """What is known a little later, for a request that can't be held."""
        if known is None:
            return await self._registry.wait(origin, request)
        request.meta.setdefault(meta.HELD_SINCE, time.time())
        with room_in_downloader(self._crawler):
            await sleep(_LOOK_EVERY)
        if is_closing(self._crawler):
            raise IgnoreRequest(f"{origin.robotstxt_url} is no longer waited for")
        return self._registry.at_hand(origin) or await self._registry.wait(
            origin, request
        )

    def settled(self, origin: Origin, known: Known) -> None:
        """Let those go that waited for *origin*: each is asked about again."""
        if self._wait and _is_out_of_reach(known):
            # Those whose time is nearly over go with those whose time is.
            nearly = min(1.0, self._wait / 4)
            count = self._give_up(origin, time.time() - self._wait + nearly)
            if count:
                self._crawler.stats.inc_value(stats.GIVEN_UP, count)
                logger.warning(
                    "%(url)s can still not be had: %(count)d requests that have waited "
                    "for it for %(wait)g seconds are given up",
                    {"url": origin.robotstxt_url, "count": count, "wait": self._wait},
                    extra={"spider": self._crawler.spider},
                )
        self._hold.release(origin)

    def _give_up(self, origin: Origin, since: float) -> int:
        """Let those wait no longer that have waited for *origin* since *since*, in
        seconds since the epoch. Returns how many these are.
        """
        count = 0
        for request in self._hold.held(origin):
            # Not those given up before, which are held once more if what is known has run
            # out by the time that they ask again.
            if 0.0 < request.meta[meta.HELD_SINCE] <= since:
                request.meta[meta.HELD_SINCE] = 0.0
                count += 1
        return count

    def _waits(self, origin: Origin) -> bool:
        return self._registry.is_under_way(origin) or origin in self._timers

    def _is_worth_waiting(self, known: Known, request: Request) -> bool:
        since = request.meta.get(meta.HELD_SINCE, time.time())
        return _is_out_of_reach(known) and time.time() < since + self._wait

    def _ask_again_later(self, origin: Origin, known: Known, request: Request) -> None:
        if origin in self._timers:
            return
        now = time.time()
        moment = min(known.entry.expires, request.meta[meta.HELD_SINCE] + self._wait)
        delay = max(moment - now, _SOONEST)
        self._timers[origin] = call_later(delay, self._ask_again, origin)

    def _ask_again(self, origin: Origin) -> None:
        del self._timers[origin]
        if is_closing(self._crawler):
            return
        known = self._registry.at_hand(origin)
        request = next(self._hold.held(origin), None)
        if known is not None:
            # Not yet the time for it, but for those who have waited long enough.
            self.settled(origin, known)
        elif request is not None:
            self._registry.take_off(origin, request)

    def _spider_closed(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def _is_out_of_reach(known: Known) -> bool:
    """Whether nothing may be fetched because robots.txt could not be had."""
    if known.entry.unreachable_since is None:
        return False
    decision = known.robots.decide("http://host/", ())
    return not decision.allowed and decision.reason is Reason.UNREACHABLE
