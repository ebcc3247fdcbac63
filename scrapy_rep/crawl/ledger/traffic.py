"""Adds up, for the ledger, what a crawl receives, and measures how long it waits for hosts."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.base.compat import shared_component
from scrapy_rep.base.requests import origin_at
from scrapy_rep.base.settings import RepSettings

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.protocol.origins import Origin

    # A table of the ledger, and its columns, but the crawl.
    Row: TypeAlias = tuple[str, tuple[Any, ...]]

_HOUR, _MINUTE = 3600, 60

# The most hosts whose shortest gaps are remembered. Of one that is forgotten, more rows are written.
_MAX_REMEMBERED = 100_000


class Traffic:
    """Adds up what is counted and measured, until the ledger takes it.

    Times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.wants_waiting = True
        """Whether it is not known how many requests wait. Once for each row is enough."""

        self._is_open = False
        self._pages: dict[Origin, list[int]] = {}
        self._waiting: int | None = None
        self._gaps: list[Row] = []
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}
        """For each origin and kind, the shortest gap by what was asked for, and the most that was."""

    @classmethod
    def of(cls, crawler: Crawler) -> Traffic | None:
        """The instance that the components of a crawl share; None if it writes no ledger."""
        if RepSettings.of(crawler).ledger is None:
            return None
        return shared_component(crawler, _made)

    def open(self) -> None:
        """Begin to add up: from now on, :meth:`take` is called again and again."""
        self._is_open = True

    def take(self, now: float) -> list[Row]:
        """Return what was noted since the last call, which counts for the hour and the minute of
        *now*.
        """
        hour, minute = (int(now // each * each) for each in (_HOUR, _MINUTE))
        taken: list[Row] = [
            ("traffic", (str(origin), hour, *counts))
            for origin, counts in self._pages.items()
        ]
        pages = sum(count for count, _ in self._pages.values())
        if pages or self._waiting:
            taken.append(("progress", (minute, pages, self._waiting)))
        taken += self._gaps
        self._pages, self._gaps, self._waiting = {}, [], None
        self.wants_waiting = True
        return taken

    def note_response(self, request: Request, response: Response) -> None:
        """Note *response*, which has come to *request*."""
        origin = origin_at(response.url, request)
        if origin is not None:
            self.note_page(origin, len(response.body))

    def note_page(self, origin: Origin, octets: int) -> None:
        """Note a response, with the length of its body."""
        if self._is_open:
            counts = self._pages.setdefault(origin, [0, 0])
            counts[0] += 1
            counts[1] += octets

    def note_waiting(self, requests: int) -> None:
        """Note how many requests wait."""
        self._waiting, self.wants_waiting = requests, False

    def note_gap(
        self, kind: str, origin: str, asked: float, gap: float | None, now: float
    ) -> None:
        """Note that a request is sent to an origin *gap* seconds after an answer; None if there was
        no answer, or no request yet. The *kind* is ``"delay"`` or ``"pause"``: what was *asked* for.

        A gap is kept if it is shorter, by what was asked for, than those before it. One that is not
        known counts only if it is the first, or if more is asked for.
        """
        if not self._is_open or asked <= 0:
            return
        ratio = inf if gap is None else gap / asked
        key = kind, origin
        shortest, most = self._extremes.get(key, (inf, 0.0))
        if ratio >= shortest and asked <= most:
            return
        if len(self._extremes) >= _MAX_REMEMBERED:
            self._extremes.clear()
        self._extremes[key] = min(ratio, shortest), max(asked, most)
        known = None if gap is None else round(gap, 6)
        self._gaps.append(("gap", (origin, kind, now, asked, known)))


def _made(crawler: Crawler) -> Traffic:
    return Traffic()
