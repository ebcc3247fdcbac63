"""A clock for tests, which stands still until a test advances it."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf, nextafter
from typing import TYPE_CHECKING

from scrapy_rep.base.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = 1_704_110_400.0
"""The first of January 2024, 12:00 UTC."""


class FakeClock(Clock):
    """A clock whose time changes only in :meth:`advance`, which also calls the timers that are due."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._number = count()
        self._epoch = NOON - self._now

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now + self._epoch

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back by *seconds*."""
        self._epoch -= seconds

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        assert seconds >= 0
        timer = Timer(function)
        moment = self._now + seconds
        if seconds and moment == self._now:
            # The delay is too short for the resolution of the clock. As on a real clock,
            # the timer is due later than now.
            moment = nextafter(moment, inf)
        heappush(self._timers, (moment, next(self._number), timer))
        return timer

    @property
    def next_timer(self) -> float | None:
        """The number of seconds until the next timer is due; None if no timer is set."""
        while self._timers and self._timers[0][2].is_cancelled:
            heappop(self._timers)
        return max(self._timers[0][0] - self._now, 0.0) if self._timers else None

    @property
    def timers(self) -> int:
        """The number of timers that are set."""
        return sum(not timer.is_cancelled for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass, and call the function of each timer when it is due."""
        end = self._now + seconds
        while self.next_timer is not None and self._timers[0][0] <= end:
            moment, _, timer = heappop(self._timers)
            self._now = max(self._now, moment)
            timer.function()
        self._now = end


@dataclass
class Timer:
    """A call of *function* at a later time, unless :meth:`cancel` is called before."""

    function: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True
