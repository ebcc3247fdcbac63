"""An event loop in virtual time: instead of waiting, it moves the clock to the next timer."""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

EPOCH = 1_800_000_000.0
"""The time of day when each crawl begins."""

_TICK = 1e-6
"""The seconds that each turn of the loop takes."""

_REAL = {"time": time.time, "monotonic": time.monotonic}


class _Selector(selectors.DefaultSelector):
    now = 1_000.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        # As a real clock, this one never stands still: code that is called a little early, and
        # waits for the rest, would be called at the same time forever.
        self.now += _TICK
        if events:
            return events
        if timeout is None:  # Only another thread can bring something.
            return super().select(0.05)
        self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits. Its clock is that of the whole process while it runs."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        self._is_time_of: dict[str, Any] = {
            "monotonic": self.time,
            "time": self.time_of_day,
        }
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the seconds on the monotonic clock."""
        return self._virtual.now

    def time_of_day(self) -> float:
        """Return the seconds since the epoch."""
        return EPOCH + self._virtual.now

    def __enter__(self) -> Self:
        asyncio.set_event_loop(self)
        _replace(_REAL, self._is_time_of)
        return self

    def __exit__(self, *args: object) -> None:
        _replace(self._is_time_of, _REAL)
        asyncio.set_event_loop(None)
        self.close()


def _replace(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Put *new* clocks in the place of *old* ones, also where a module imported them by name."""
    for name, module in list(sys.modules.items()):
        if name == "time" or name.split(".")[0] in {"scrapy", "scrapy_rep", "twisted"}:
            for key, clock in old.items():
                # Compare with ==: bound methods are made anew each time.
                if vars(module).get(key) == clock:
                    setattr(module, key, new[key])
