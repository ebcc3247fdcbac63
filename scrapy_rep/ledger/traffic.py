"""Counts the responses of a crawl, and measures the delays that it keeps, for its ledger."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from threading import Lock
from typing import TypeAlias

_HOUR, _MINUTE = 3600, 60

# The most origins to count for, while the ledger cannot be written.
_MAX_ORIGINS = 100_000

Row: TypeAlias = "tuple[str | float | None, ...]"


@dataclass(slots=True)
class _Traffic:
    """The columns of a row of the table ``traffic``."""

    pages: int = 0
    bytes: int = 0
    delay: float | None = None
    gap: float | None = None
    pauses: int = 0
    pause: float | None = None
    resumed: float | None = None


@dataclass(slots=True)
class _Progress:
    """The columns of a row of the table ``progress``."""

    pages: int = 0
    bytes: int = 0
    waiting: int | None = None


class Traffic:
    """What was sent and received since the writer of the ledger, in its thread, has last taken it.

    Each method of the crawl has the time ``now``, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.dropped = 0
        """What was not counted, since the ledger could not be written for long."""

        self._lock = Lock()
        self._by_origin: dict[tuple[str, int], _Traffic] = {}
        self._by_minute: dict[int, _Progress] = {}

    def note_page(self, origin: str, octets: int, now: float) -> None:
        """Note a response, with the length of its body."""
        with self._lock:
            for row in self._of(origin, now), self._in(now):
                row.pages += 1
                row.bytes += octets

    def note_waiting(self, requests: int, now: float) -> None:
        """Note how many requests wait."""
        with self._lock:
            row = self._in(now)
            row.waiting = max(row.waiting or 0, requests)

    def note_gap(
        self, origin: str, delay: float, gap: float | None, now: float
    ) -> None:
        """Note that a request is sent to an origin with a *delay*, *gap* seconds after the last
        answer; None if that is not known.
        """
        with self._lock:
            row = self._of(origin, now)
            if _is_sooner(gap, delay, row.gap, row.delay):
                row.delay, row.gap = delay, None if gap is None else round(gap, 6)

    def note_pause(self, origin: str, pause: float, now: float) -> None:
        """Note that an origin asks for a *pause*."""
        with self._lock:
            row = self._of(origin, now)
            row.pauses += 1
            if row.resumed is None:
                row.pause = max(row.pause or 0.0, pause)

    def note_resumed(
        self, origin: str, pause: float, resumed: float, now: float
    ) -> None:
        """Note that the first request after a *pause* is sent, *resumed* seconds after the answer
        that asked for it.
        """
        with self._lock:
            row = self._of(origin, now)
            if _is_sooner(resumed, pause, row.resumed, row.pause):
                row.pause, row.resumed = pause, round(resumed, 6)

    def take(self) -> tuple[list[Row], list[Row]]:
        """Return the rows of both tables, without the number of the crawl, and forget them."""
        with self._lock:
            traffic, self._by_origin = self._by_origin, {}
            progress, self._by_minute = self._by_minute, {}
        return (
            [(*key, *astuple(row)) for key, row in traffic.items()],
            [(minute, *astuple(row)) for minute, row in progress.items()],
        )

    def _of(self, origin: str, now: float) -> _Traffic:
        key = origin, int(now // _HOUR * _HOUR)
        row = self._by_origin.get(key)
        if row is None:
            row = _Traffic()
            if len(self._by_origin) < _MAX_ORIGINS:
                self._by_origin[key] = row
            else:
                self.dropped += 1
        return row

    def _in(self, now: float) -> _Progress:
        minute = int(now // _MINUTE * _MINUTE)
        row = self._by_minute.get(minute)
        if row is None:
            row = self._by_minute[minute] = _Progress()
        return row


def _is_sooner(
    gap: float | None, delay: float, than_gap: float | None, than_delay: float | None
) -> bool:
    """Whether a *gap*, compared with its *delay*, is shorter than another one."""
    if than_gap is None or than_delay is None:
        return True
    return gap is not None and gap * than_delay < than_gap * delay
