"""The clock of the frontier, and its alarms."""

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
    """The clocks and timers of this process. Tests replace an instance to run in virtual time."""

    monotonic = staticmethod(time.monotonic)
    """Returns the time in seconds on the monotonic clock, to measure how long something takes."""

    time = staticmethod(time.time)
    """Returns the time in seconds since the epoch, for values that are stored."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        """Call *function* after *seconds*. Return an object whose method ``cancel`` prevents the call."""
        return call_later(seconds, function)


class Alarms:
    """Calls functions at given times of the monotonic clock, with a single timer for all of them.

    A function is never called early. An alarm cannot be cancelled: its function has to check
    whether there is still something to do.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = count()
        self._timer: CallLaterResult | None = None
        self._timer_at = 0.0
        self.is_stopped = False
        """Whether :meth:`stop` was called, so that no function is called any more."""

    def at(self, moment: float, function: Callable[..., None], *args: Any) -> None:
        """Call *function* with *args* at *moment*, or soon if *moment* has passed."""
        heappush(self._heap, (moment, next(self._number), function, args))
        self._set_timer()

    def stop(self) -> None:
        """Delete all alarms. Alarms that are set later are ignored."""
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
        # An event loop may run a timer a little early: then no alarm is due yet, and
        # _set_timer() starts another timer.
        now = self.clock.monotonic()
        # New alarms that these functions set wait for the next timer, so that this method ends.
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heappop(self._heap))
        for _, _, function, args in due:
            try:
                function(*args)
            except Exception:
                logger.exception(
                    "Error in a timer: this is a bug of scrapy-rep. Restart the crawl if requests "
                    "wait too long, and report the traceback"
                )
        self._set_timer()
