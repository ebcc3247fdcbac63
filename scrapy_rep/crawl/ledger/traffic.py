"""Counts for the ledger the pages and bytes that a crawl receives, and the gaps that it keeps."""

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

# The most hosts whose shortest gaps are remembered. A host that is forgotten gets more rows.
_MAX_REMEMBERED = 100_000


class Traffic:
    """Counts pages, bytes and waiting requests, and collects gaps, until the ledger takes them.

    Times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.wants_waiting = True
        """Whether the number of waiting requests is still unknown. Each row needs it once."""

        self._is_open = False
        self._pages: dict[Origin, list[int]] = {}
        self._waiting: int | None = None
        self._gaps: list[Row] = []
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}
        """The smallest ratio of a gap to what was asked for, and the most that was asked for, by kind and
        origin."""

    @classmethod
    def of(cls, crawler: Crawler) -> Traffic | None:
        """Return the instance that the components of a crawl share; None if the crawl has no ledger."""
        if RepSettings.of(crawler).ledger is None:
            return None
        return shared_component(crawler, _new_traffic)

    def open(self) -> None:
        """Begin to count. From now on, :meth:`take` is called regularly."""
        self._is_open = True

    def take(self, now: float) -> list[Row]:
        """Return rows with everything since the last call, for the hour and the minute of *now*."""
        hour, minute = (int(now // unit * unit) for unit in (_HOUR, _MINUTE))
        rows: list[Row] = [
            ("traffic", (str(origin), hour, *counts))
            for origin, counts in self._pages.items()
        ]
        pages = sum(count for count, _ in self._pages.values())
        if pages or self._waiting:
            rows.append(("progress", (minute, pages, self._waiting)))
        rows += self._gaps
        self._pages, self._gaps, self._waiting = {}, [], None
        self.wants_waiting = True
        return rows

    def note_response(self, request: Request, response: Response) -> None:
        """Count *response*, the answer to *request*."""
        origin = origin_at(response.url, request)
        if origin is not None:
            self.note_page(origin, len(response.body))

    def note_page(self, origin: Origin, octets: int) -> None:
        """Count a response from *origin* with a body of so many *octets*."""
        if self._is_open:
            counts = self._pages.setdefault(origin, [0, 0])
            counts[0] += 1
            counts[1] += octets

    def note_waiting(self, requests: int) -> None:
        """Note the number of *requests* that wait."""
        self._waiting, self.wants_waiting = requests, False

    def note_gap(
        self, kind: str, origin: str, asked: float, gap: float | None, now: float
    ) -> None:
        """Note that a request is sent to an origin *gap* seconds after an answer. The gap is None if there
        was no answer, or no request yet.

        The origin has *asked* for so many seconds, by a *kind* of statement: ``"delay"`` or ``"pause"``.
        A gap is kept if it is shorter than those before it, in relation to what was asked for. An unknown
        gap is kept only if it is the first, or if more is asked for.
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
        rounded = None if gap is None else round(gap, 6)
        self._gaps.append(("gap", (origin, kind, now, asked, rounded)))


def _new_traffic(_crawler: Crawler) -> Traffic:
    return Traffic()
