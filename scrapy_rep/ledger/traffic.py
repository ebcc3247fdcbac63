"""Counts the responses of a crawl, and measures the delays that it keeps, for its ledger."""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

_HOUR, _MINUTE = 3600, 60

# The most rows to keep, while the ledger cannot be written.
_MAX_ROWS = 100_000

Row: TypeAlias = "tuple[str | float | None, ...]"
"""The columns of the table ``traffic`` but the crawl, or those of the table ``progress``, which
are fewer. The ledger adds up the rows of an hour or a minute.
"""

PROGRESS_COLUMNS = 4


class Traffic:
    """What was sent and received since the writer of the ledger, in its thread, has last taken it.

    Each method of the crawl has the time ``now``, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.dropped = 0
        """What was not counted, since the ledger could not be written for long."""

        self._rows: deque[Row] = deque()

    def note_page(self, origin: str, octets: int, now: float) -> None:
        """Note a response, with the length of its body."""
        hour, minute = _begin(now, _HOUR), _begin(now, _MINUTE)
        self._add((origin, hour, 1, octets, None, None, 0, None, None))
        self._add((minute, 1, octets, None))

    def note_waiting(self, requests: int, now: float) -> None:
        """Note how many requests wait."""
        self._add((_begin(now, _MINUTE), 0, 0, requests))

    def note_gap(
        self, origin: str, delay: float, gap: float | None, now: float
    ) -> None:
        """Note that a request is sent to an origin with a *delay*, *gap* seconds after the last
        answer; None if that is not known.
        """
        known = None if gap is None else round(gap, 6)
        hour = _begin(now, _HOUR)
        self._add((origin, hour, 0, 0, delay, known, 0, None, None))

    def note_pause(self, origin: str, pause: float, now: float) -> None:
        """Note that an origin asks for a *pause*."""
        self._add((origin, _begin(now, _HOUR), 0, 0, None, None, 1, pause, None))

    def note_resumed(
        self, origin: str, pause: float, resumed: float, now: float
    ) -> None:
        """Note that the first request after a *pause* is sent, *resumed* seconds after the answer
        that asked for it.
        """
        hour, known = _begin(now, _HOUR), round(resumed, 6)
        self._add((origin, hour, 0, 0, None, None, 0, pause, known))

    def take(self) -> list[Row]:
        """Return the rows, and forget them."""
        return [self._rows.popleft() for _ in range(len(self._rows))]

    def _add(self, row: Row) -> None:
        if len(self._rows) < _MAX_ROWS:
            self._rows.append(row)
        else:
            self.dropped += 1


def _begin(now: float, seconds: int) -> int:
    return int(now // seconds * seconds)
