"""Counts the responses of a crawl, and measures the delays that it keeps, for its ledger."""

from __future__ import annotations

from typing import NamedTuple

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

    def plus(self, more: OfHour) -> OfHour:
        """Return both, of the same origin and hour, as one."""
        return OfHour(
            self.origin,
            self.hour,
            self.pages + more.pages,
            self.bytes + more.bytes,
            *_sooner(self.delay, self.gap, more.delay, more.gap),
            self.pauses + more.pauses,
            *_sooner(self.pause, self.resumed, more.pause, more.resumed),
        )


class OfMinute(NamedTuple):
    """What is added to a row of the table ``progress``; its columns but the crawl."""

    minute: int
    pages: int = 0
    bytes: int = 0
    waiting: int | None = None

    def plus(self, more: OfMinute) -> OfMinute:
        """Return both, of the same minute, as one."""
        waiting = max(self.waiting or 0, more.waiting or 0)
        is_known = self.waiting is not None or more.waiting is not None
        return OfMinute(
            self.minute,
            self.pages + more.pages,
            self.bytes + more.bytes,
            waiting if is_known else None,
        )


def _sooner(
    asked: float | None,
    gap: float | None,
    more_asked: float | None,
    more_gap: float | None,
) -> tuple[float | None, float | None]:
    """Return what was asked for, and the time until the next request, of the one that came sooner,
    compared with what was asked for; None if that time is not known.
    """
    if more_asked is None:
        return asked, gap
    if asked is None or gap is None:
        return more_asked, more_gap
    if more_gap is not None and more_gap * asked < gap * more_asked:
        return more_asked, more_gap
    return asked, gap


class Traffic:
    """Adds up what is counted and measured, until the ledger takes it; without one, nothing is.

    Each method that notes something has the time ``now``, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self._is_open = False
        self._hours: dict[tuple[str, int], OfHour] = {}
        self._minutes: dict[int, OfMinute] = {}

    def open(self) -> None:
        """Begin to add up: from now on, :meth:`take` is called again and again."""
        self._is_open = True

    def take(self) -> list[OfHour | OfMinute]:
        """Return what was noted since the last call, one row for each origin and hour, and one for
        each minute.
        """
        taken: list[OfHour | OfMinute] = [*self._hours.values()]
        taken += self._minutes.values()
        self._hours.clear()
        self._minutes.clear()
        return taken

    def note_page(self, origin: str, octets: int, now: float) -> None:
        """Note a response, with the length of its body."""
        self._add(OfHour(origin, _begin(now, _HOUR), 1, octets))
        self._add_to_minute(OfMinute(_begin(now, _MINUTE), 1, octets))

    def note_waiting(self, requests: int, now: float) -> None:
        """Note how many requests wait."""
        self._add_to_minute(OfMinute(_begin(now, _MINUTE), waiting=requests))

    def note_gap(
        self, origin: str, delay: float, gap: float | None, now: float
    ) -> None:
        """Note that a request is sent to an origin with a *delay*, *gap* seconds after the last
        answer; None if that is not known.
        """
        known = None if gap is None else round(gap, 6)
        self._add(OfHour(origin, _begin(now, _HOUR), delay=delay, gap=known))

    def note_pause(self, origin: str, pause: float, now: float) -> None:
        """Note that an origin asks for a *pause*."""
        self._add(OfHour(origin, _begin(now, _HOUR), pauses=1, pause=pause))

    def note_resumed(
        self, origin: str, pause: float, resumed: float, now: float
    ) -> None:
        """Note that the first request after a *pause* is sent, *resumed* seconds after the answer
        that asked for it.
        """
        hour, known = _begin(now, _HOUR), round(resumed, 6)
        self._add(OfHour(origin, hour, pause=pause, resumed=known))

    def _add(self, more: OfHour) -> None:
        if self._is_open:
            key = more.origin, more.hour
            before = self._hours.get(key)
            self._hours[key] = before.plus(more) if before else more

    def _add_to_minute(self, more: OfMinute) -> None:
        if self._is_open:
            before = self._minutes.get(more.minute)
            self._minutes[more.minute] = before.plus(more) if before else more


def _begin(now: float, seconds: int) -> int:
    return int(now // seconds * seconds)
