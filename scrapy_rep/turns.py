"""Requests to a host that asks for a delay go one after the other."""

from __future__ import annotations

import logging
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep import meta, stats
from scrapy_rep.compat import sleep
from scrapy_rep.internals import (
    download_slot,
    is_closing,
    is_in_downloader,
    room_in_downloader,
)
from scrapy_rep.lanes import Lane, Lanes

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.hold import Hold
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.reservations import Reservations

logger = logging.getLogger("scrapy_rep.politeness")

# How long, in seconds, one that waits where it is sleeps at most: it is among those that
# a closing spider waits for.
_CLOSING_LOOK = 0.2
_SHORTEST_LOOK = 0.02

# After so many seconds, a request that was let go and is nowhere to be seen is lost:
# another component has dropped it.
_LOST_AFTER = 2.0

# Seconds, and requests: from then on the log says how long a host will take.
_LONG_DELAY = 10
_MANY = 20
_TELL_AFTER = 3.0


class Turns:
    """Lets requests go when their turn has come.

    One whose turn has not come is held, so that it takes no place from those to other
    hosts. What Scrapy's own delays come to (``DOWNLOAD_DELAY``, AutoThrottle,
    ``DOWNLOAD_SLOTS``) is waited for after that, and can only make it longer.
    """

    def __init__(
        self, crawler: Crawler, hold: Hold, reservations: Reservations
    ) -> None:
        self._crawler = crawler
        self._hold = hold
        self._reservations = reservations
        self._timers: dict[Lane, CallLaterResult] = {}
        self.lanes = Lanes()
        self.waited = 0.0
        """Seconds, added up over lanes, in which requests waited for a delay to pass."""
        crawler.signals.connect(self._spider_closed, signals.spider_closed)

    async def wait(self, request: Request, lane: Lane, *, in_place: bool) -> bool:
        """Whether it is the turn of *request*; if not, it is to be returned from
        ``process_request``.

        With *in_place* it can't be, and waits here. Raises IgnoreRequest where the spider
        closes meanwhile.
        """
        found: Lane | None = lane
        turn = request.meta.pop(meta.TURN, None)
        while found is not None:
            if turn is not None and found.turn == turn:
                # Where it was serialized, it is another object now.
                found.busy, found.turn = request, None
            if found.busy is request or await self._take(found, request):
                break
            if not in_place and self._hold.hand_back(request, found, lambda: True):
                self._crawler.stats.inc_value(stats.HELD)
                now = time.monotonic()
                found.waits(now)
                # A little later it can be said how many there are.
                moment = found.free_at if found.told else now + _TELL_AFTER
                self._look_at(found, min(found.free_at, moment))
                return False
            found = await self._wait_in_place(found, request)
        return True

    def find(self, request: Request) -> Lane | None:
        return self.lanes.find(*_keys(self._crawler, request))

    def lane(self, request: Request, origin: Origin, delay: float) -> Lane | None:
        """The lane that *request* has to take, if any, now that *origin* asks for
        *delay* seconds.
        """
        keys = _keys(self._crawler, request)
        if not delay and self.lanes.find(*keys) is None:
            return None
        if not self.lanes:
            # Sent for each response, so not connected to before there is need.
            self._crawler.signals.connect(self._left, signals.request_left_downloader)
        lane, other = self.lanes.join(*keys)
        if other is not None:
            self._hold.move(other, lane)
            self._look_at(lane, lane.free_at)
        if delay:
            lane.delays[origin] = delay
        else:
            lane.delays.pop(origin, None)
        return lane

    def step_aside(self, request: Request) -> None:
        """*request* does not go after all: there is no need to wait after it."""
        lane = self.find(request) if self.lanes else None
        if lane is not None and lane.busy is request:
            self._leave(lane, fetched=False)

    def is_idle(self, lane: Lane) -> bool:
        """Whether nothing is lost if *lane* is forgotten."""
        waits = self._hold.count(lane) or lane.first is not None
        return not waits and lane.is_free(time.monotonic())

    def _left(self, request: Request) -> None:
        """A request, of whatever kind, has been to a server, or tried."""
        lane = self.find(request)
        if lane is None:
            return
        if lane.busy is request:
            self._leave(lane, fetched=True)
        else:  # It had leave of its own, or was sent before the delay was known.
            lane.last = time.monotonic()

    def _leave(self, lane: Lane, *, fetched: bool) -> None:
        lane.leave(time.monotonic(), fetched=fetched)
        self._reservations.leave(lane.name, lane.delay if fetched else 0.0)
        if self._hold.count(lane):
            self._look_at(lane, lane.free_at)

    async def _take(self, lane: Lane, request: Request) -> bool:
        self._clear(lane)
        if not lane.is_free(time.monotonic(), request):
            return False
        # So that nobody else takes it while other workers are asked.
        lane.busy, lane.since = request, time.monotonic()
        if not await self._reservations.reserve(lane.name, lane.delay):
            lane.busy = None
            return False
        self._let_go(lane, request)
        return True

    def _let_go(self, lane: Lane, request: Request) -> None:
        more = bool(self._hold.count(lane))
        self.waited += lane.take(request, time.monotonic(), more=more)
        if more:
            self._look_at(lane, time.monotonic() + _LOST_AFTER)

    async def _wait_in_place(self, lane: Lane, request: Request) -> Lane | None:
        """Let some time pass, and return the lane, which may be another by then."""
        now = time.monotonic()
        lane.waits(now)
        lane.first = lane.first or request
        pause = min(max(lane.free_at - now, _SHORTEST_LOOK), _CLOSING_LOOK)
        try:
            with room_in_downloader(self._crawler):
                await sleep(pause)
        finally:
            if lane.first is request:
                lane.first = None
        if is_closing(self._crawler):
            raise IgnoreRequest("The spider closes, and its turn has not come")
        return self.find(request)

    def _look_at(self, lane: Lane, moment: float) -> None:
        """Look after *lane* at a *moment* of the monotonic clock."""
        self._cancel(lane)
        delay = max(moment - time.monotonic(), 0.0)
        self._timers[lane] = call_later(delay, self._look, lane)

    def _look(self, lane: Lane) -> None:
        del self._timers[lane]
        if is_closing(self._crawler) or not self._hold.count(lane):
            return
        self._tell(lane)
        self._clear(lane)
        now = time.monotonic()
        if lane.is_free(now):
            # At once: the coroutine may start later, and others ask meanwhile.
            lane.busy, lane.since = self, now
            deferred_from_coro(self._call_next(lane))
        elif lane.busy is not None:
            self._look_at(lane, now + _LOST_AFTER)
        else:
            self._look_at(lane, max(lane.free_at, now + _CLOSING_LOOK))

    async def _call_next(self, lane: Lane) -> None:
        """Let the next one go of those that are held."""
        reserved = await self._reservations.reserve(lane.name, lane.delay)
        lane.busy = None
        if is_closing(self._crawler) or not self._hold.count(lane):
            return
        if reserved:
            lane.turn = uuid.uuid4().hex
            request = self._hold.release_one(lane, **{meta.TURN: lane.turn})
            self._let_go(lane, request)
        else:
            pause = self._reservations.pause(lane.delay)
            self._look_at(lane, time.monotonic() + pause)

    def _clear(self, lane: Lane) -> None:
        """Forget the one that was let go, if it is nowhere to be seen."""
        is_old = time.monotonic() > lane.since + _LOST_AFTER
        if (
            is_old
            and lane.busy is not self
            and not is_in_downloader(self._crawler, lane.busy)
        ):
            lane.busy = lane.turn = None

    def _tell(self, lane: Lane) -> None:
        count = self._hold.count(lane)
        if lane.told or lane.delay <= _LONG_DELAY or count < _MANY:
            return
        # The first time is soon, and there may be many more to come.
        lane.told = True
        logger.info(
            "%(host)s asks for %(delay)g s between requests: the %(count)d that wait will "
            "take %(time)s",
            {
                "host": lane.name,
                "delay": lane.delay,
                "count": count,
                "time": timedelta(seconds=round(count * lane.delay)),
            },
            extra={"spider": self._crawler.spider},
        )

    def _cancel(self, lane: Lane) -> None:
        timer = self._timers.pop(lane, None)
        if timer is not None:
            timer.cancel()

    def _spider_closed(self) -> None:
        for lane in list(self._timers):
            self._cancel(lane)


def _keys(crawler: Crawler, request: Request) -> tuple[str, str]:
    host = urlparse_cached(request).hostname or ""
    return host, download_slot(crawler, request)
