"""Counts the responses of a crawl, and measures the delays that it keeps, for its ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_HOUR, _MINUTE = 3600, 60


class OfHour(NamedTuple):
    """What is added to a row of the table ``traffic``; its columns but the crawl."""

    origin: str
    hour: int
    pages: int = 0
    bytes: int = 0
    delay: float | None = None
    gap: float | None = None
    pauses: int = 0
    pause: float | None = None
    resumed: float | None = None


class OfMinute(NamedTuple):
    """What is added to a row of the table ``progress``; its columns but the crawl."""

    minute: int
    pages: int = 0
    bytes: int = 0
    waiting: int | None = None


class Traffic:
    """Passes what is counted and measured to the ledger.

    Each method has the time ``now``, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.write: Callable[[OfHour | OfMinute], object] = lambda _: None
        """The method of the writer, while the ledger is open."""

    def note_page(self, origin: str, octets: int, now: float) -> None:
        """Note a response, with the length of its body."""
        self.write(OfHour(origin, _begin(now, _HOUR), 1, octets))
        self.write(OfMinute(_begin(now, _MINUTE), 1, octets))

    def note_waiting(self, requests: int, now: float) -> None:
        """Note how many requests wait."""
        self.write(OfMinute(_begin(now, _MINUTE), waiting=requests))

    def note_gap(
        self, origin: str, delay: float, gap: float | None, now: float
    ) -> None:
        """Note that a request is sent to an origin with a *delay*, *gap* seconds after the last
        answer; None if that is not known.
        """
        known = None if gap is None else round(gap, 6)
        self.write(OfHour(origin, _begin(now, _HOUR), delay=delay, gap=known))

    def note_pause(self, origin: str, pause: float, now: float) -> None:
        """Note that an origin asks for a *pause*."""
        self.write(OfHour(origin, _begin(now, _HOUR), pauses=1, pause=pause))

    def note_resumed(
        self, origin: str, pause: float, resumed: float, now: float
    ) -> None:
        """Note that the first request after a *pause* is sent, *resumed* seconds after the answer
        that asked for it.
        """
        hour, known = _begin(now, _HOUR), round(resumed, 6)
        self.write(OfHour(origin, hour, pause=pause, resumed=known))


def _begin(now: float, seconds: int) -> int:
    return int(now // seconds * seconds)
