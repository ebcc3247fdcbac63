"""The clock of a crawl, which its components share, and alarms, which call functions at given times."""

from __future__ import annotations

import time
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import call_later

from scrapy_rep.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.utils.asyncio import CallLaterResult

logger = get_logger(__name__)


class Clock:
    """The monotonic clock, the wall clock and the timers of this process. Tests replace an instance by an object with
    the same methods, so that a crawl runs in virtual time.
    """

    monotonic = staticmethod(time.monotonic)
    """Return the time in seconds on the monotonic clock, which is used to measure durations."""

    time = staticmethod(time.time)
    """Return the time in seconds since the epoch, which is used for values that are stored."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        """Schedule a call of *function* after the given number of *seconds*. Return an object whose ``cancel`` method
        prevents the call.
        """
        return call_later(seconds, function)


class Alarms:
    """Calls functions at given times of the monotonic clock. All alarms share a single timer.

    A function is never called early. A single alarm cannot be cancelled, so each function must check
    whether there is still something to do.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = count()
        self._timer: CallLaterResult | None = None
        self._timer_at = 0.0
        self.is_stopped = False
        """Whether :meth:`stop` was called. After that, no function is called."""

    def at(self, moment: float, function: Callable[..., None], *args: Any) -> None:
        """Schedule a call of *function* with *args* at *moment*, in seconds on the monotonic clock. If *moment*
        is in the past, the call follows in the next iteration of the event loop.
        """
        heappush(self._heap, (moment, next(self._number), function, args))
        self._set_timer()

    def stop(self) -> None:
        """Delete all alarms. Later calls of :meth:`at` have no effect."""
        self.is_stopped = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self.is_stopped or not self._heap:
            return
        first = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= first:
                return
            self._timer.cancel()
        self._timer_at = first
        seconds = max(first - self.clock.monotonic(), 0.0)
        self._timer = self.clock.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        # An event loop may call this method slightly too early. Then no alarm is due yet, and _set_timer() starts
        # a new timer.
        now = self.clock.monotonic()
        # The due functions may set new alarms. New alarms always wait for the next timer, even if they are due
        # already; otherwise this method might never end.
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heappop(self._heap))
        for _, _, function, args in due:
            try:
                function(*args)
            except Exception:
                logger.exception(
                    "A scheduled function of scrapy-rep failed, which is a bug in scrapy-rep. The crawl continues, but "
                    "some requests may wait too long; if they do, restart the crawl. Please report this traceback"
                )
        self._set_timer()
