"""Requests to a host that asks for a delay go one after the other."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from scrapy_rep import meta, stats
from scrapy_rep.inplace import InPlace
from scrapy_rep.internals import is_closing, is_in_downloader
from scrapy_rep.lanes import Lane, Lanes, host_of, keys_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

    from scrapy_rep.hold import Hold
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.reservations import Reservations

logger = logging.getLogger("scrapy_rep.politeness")

# After so many seconds, a request that was let go and is nowhere to be seen is lost:
# another component has dropped it.
_LOST_AFTER = 2.0

# Seconds, and requests: from then on the log says how long a host will take.
_LONG_DELAY = 10
_MANY = 20
_TELL_AFTER = 3.0

# What has the place in a lane: somebody is about to choose who goes next; the one that
# was called, and is on its way through the scheduler.
_CALLING = object()
_CALLED = object()


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
        self._in_place = InPlace(crawler)
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
        if self._has_turn(lane, request) or await self._take(lane, request):
            return True
        lane = self.lanes.current(lane)
        if not in_place and self._hold.hand_back(
            request, lane, partial(self._waits, lane)
        ):
            self._crawler.stats.inc_value(stats.HELD)
            return False
        self._waits(lane)
        await self._in_place.wait(lane, request, makes_room=in_place)
        return True

    def find(self, request: Request) -> Lane | None:
        return self.lanes.find(*keys_of(self._crawler, request))

    def lane(
        self, request: Request, origin: Origin, delay: float, ago: float
    ) -> Lane | None:
        """The lane that *request* has to take, if any, now that *origin* asks for
        *delay* seconds, in a robots.txt that was fetched so many seconds *ago*.
        """
        keys = keys_of(self._crawler, request)
        if not delay and self.lanes.find(*keys) is None:
            return None
        if not self.lanes:
            # Sent for each response, so not connected to before there is need.
            self._crawler.signals.connect(self._left, signals.request_left_downloader)
        lane, other = self.lanes.join(*keys)
        if other is not None:
            self._move(other, lane)
            self._look_at(lane, lane.free_at)
        if not delay:
            lane.delays.pop(origin, None)
            return lane
        if origin not in lane.delays:
            # A robots.txt was a request too, of this worker or another. Once, since by
            # the clock that says when, it may lie in the future for long.
            lane.last = max(lane.last, time.monotonic() - max(ago, 0.0))
        lane.delays[origin] = delay
        return lane

    def step_aside(self, request: Request) -> None:
        """*request* does not go after all: there is no need to wait after it."""
        lane = self.find(request) if self.lanes else None
        if lane is not None and self._has_turn(lane, request):
            self._leave(lane, fetched=False)

    def is_idle(self, lane: Lane) -> bool:
        """Whether nothing is lost if *lane* is forgotten."""
        return self._next(lane) is None and lane.is_free(time.monotonic())

    def _next(self, lane: Lane) -> Request | None:
        """Whose turn is next, of those that wait."""
        return self._in_place.first(lane) or next(self._hold.held(lane), None)

    def _move(self, lane: Lane, to: Lane) -> None:
        self._in_place.move(lane, to)
        self._hold.move(lane, to)

    def _has_turn(self, lane: Lane, request: Request) -> bool:
        """Whether the place is that of *request*, which was called to it.

        Of several that were called, and have been long in coming, the first one to come
        has it. A request that has been in a scheduler may be a copy of the one called.
        """
        was_called = request.meta.pop(meta.CALLED, False)
        if was_called and lane.busy is _CALLED and lane.host == host_of(request):
            lane.busy, lane.since = request, time.monotonic()
        return lane.busy is request

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
        self._reservations.leave(lane.host, lane.delay if fetched else 0.0)
        if self._next(lane) is not None:
            self._look_at(lane, lane.free_at)

    async def _take(self, lane: Lane, request: Request) -> bool:
        self._clear(lane)
        now = time.monotonic()
        if self._in_place.first(lane) or not lane.is_free(now):
            return False
        # So that nobody else takes it while other workers are asked.
        lane.busy, lane.since, lane.host = request, now, host_of(request)
        reserved = await self._reservations.reserve(lane.host, lane.delay)
        lane = self.lanes.current(lane)
        if lane.busy is request and reserved:
            self._let_go(lane, request, request)
            return True
        if lane.busy is request:
            lane.busy = None
        if not reserved:
            self._ask_later(lane)
        else:  # The lane has become one with that of somebody who is on the way.
            self._reservations.leave(host_of(request), 0.0)
        return False

    def _ask_later(self, lane: Lane) -> None:
        """Another worker has the place."""
        lane.not_before = time.monotonic() + self._reservations.pause(lane.delay)
        self._look_at(lane, lane.free_at)

    def _let_go(self, lane: Lane, request: Request, stand_in: object) -> None:
        lane.host = host_of(request)
        more = self._next(lane) is not None
        self.waited += lane.take(stand_in, time.monotonic(), more=more)
        if more or self._reservations.has(lane.host):
            self._look_at(lane, time.monotonic() + _LOST_AFTER)

    def _waits(self, lane: Lane) -> bool:
        """One more waits, in its place or held. It is not let go."""
        now = time.monotonic()
        lane.waits(now)
        # A little later it can be said how many there are.
        moment = lane.free_at if lane.told else now + _TELL_AFTER
        self._look_at(lane, min(lane.free_at, moment))
        return True

    def _look_at(self, lane: Lane, moment: float) -> None:
        """Look after *lane* at a *moment* of the monotonic clock."""
        self._cancel(lane)
        delay = max(moment - time.monotonic(), 0.0)
        self._timers[lane] = call_later(delay, self._look, lane)

    def _look(self, lane: Lane) -> None:
        del self._timers[lane]
        became = self.lanes.current(lane)
        if became is not lane:
            # What was about to be held when that happened.
            self._move(lane, became)
            lane = became
        self._clear(lane)
        now = time.monotonic()
        if lane.busy is not None:
            # Its place must not run out while it waits for one in the downloader, or for
            # an answer.
            self._reservations.renew(lane.host, lane.delay)
            self._look_at(lane, now + _LOST_AFTER)
        if is_closing(self._crawler) or self._next(lane) is None:
            return
        self._tell(lane)
        if lane.is_free(now):
            # At once: the coroutine may start later, and others ask meanwhile.
            lane.busy, lane.since = _CALLING, now
            deferred_from_coro(self._call_next(lane))
        elif lane.busy is None:
            self._look_at(lane, lane.free_at)

    async def _call_next(self, lane: Lane) -> None:
        """Let the next one go of those that wait."""
        lane = self.lanes.current(lane)
        request = self._next(lane)
        if request is None:  # It was cancelled.
            lane.busy = None
            return
        host, reserved = host_of(request), False
        try:
            reserved = await self._reservations.reserve(host, lane.delay)
        finally:
            lane = self.lanes.current(lane)
            is_free = lane.busy is _CALLING
            lane.busy = None if is_free else lane.busy
        # By now it may be the turn of another, which has come later.
        request = self._next(lane)
        if not reserved:
            self._ask_later(lane)
        elif is_free and request is not None and host_of(request) == host:
            self._call(lane, request)
        else:
            self._reservations.leave(host, 0.0)
            self._look_at(lane, lane.free_at)

    def _call(self, lane: Lane, request: Request) -> None:
        if self._in_place.first(lane):
            self._let_go(lane, request, request)
            self._in_place.call(lane)
        elif not is_closing(self._crawler):
            request.meta[meta.CALLED] = True
            self._hold.release_one(lane)
            self._let_go(lane, request, _CALLED)

    def _clear(self, lane: Lane) -> None:
        """Forget the one that was let go, if it is nowhere to be seen."""
        is_old = time.monotonic() > lane.since + _LOST_AFTER
        if (
            is_old
            and lane.busy is not _CALLING
            and not is_in_downloader(self._crawler, lane.busy)
        ):
            lane.busy = None

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
