"""Counts the pages and bytes that a crawl receives, and measures the gaps between its requests. The ledger stores these
values.
"""

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

    # The name of a ledger table, and a row for this table without the ID of the crawl.
    Row: TypeAlias = tuple[str, tuple[Any, ...]]

_HOUR, _MINUTE = 3600, 60

# The maximum number of origins whose shortest gaps are remembered. When it is reached, all gaps are forgotten. The only
# effect is that the ledger gets additional rows, with gaps that are longer than earlier ones.
_MAX_REMEMBERED = 100_000


class Traffic:
    """Collects the traffic of a crawl for the ledger: pages and bytes by origin, the number of waiting requests, and
    the shortest gaps between requests. Times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.wants_waiting = True
        """Whether the scheduler should count its waiting requests and pass the number to :meth:`note_waiting`, which
        sets this attribute to False. :meth:`take`, which returns the number as part of the traffic, sets this attribute
        to True again. So the requests are counted only once between two calls of :meth:`take`."""

        self._is_open = False
        self._pages: dict[Origin, list[int]] = {}
        self._waiting: int | None = None
        self._gaps: list[Row] = []
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}
        """Two values for each kind of gap (``"delay"`` or ``"pause"``) and each origin: the smallest ratio of a gap to
        its requested delay so far, and the longest requested delay so far. A new gap is written to the ledger only if
        it changes one of these values."""

    @classmethod
    def of(cls, crawler: Crawler) -> Traffic | None:
        """Return the Traffic that all components of a crawl share. Return None if the crawl writes no ledger."""
        if RepSettings.of(crawler).ledger is None:
            return None
        return shared_component(crawler, _new_traffic)

    def open(self) -> None:
        """Start counting. The ledger calls this method when it opens. Before that, nothing is counted: the counts would
        accumulate in memory, since only an open ledger calls :meth:`take`, which resets them.
        """
        self._is_open = True

    def take(self, now: float) -> list[Row]:
        """Return the traffic since the last call of this method, as rows for the ledger. The ledger contains
        the number of pages for each hour and each minute. The pages since the last call count for the hour and the
        minute of the time *now*.
        """
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
        """Count *response*, the answer to *request*, as a page of its origin."""
        origin = origin_at(response.url, request)
        if origin is not None:
            self.note_page(origin, len(response.body))

    def note_page(self, origin: Origin, octets: int) -> None:
        """Count a page from *origin*, with a body of *octets* bytes."""
        if self._is_open:
            counts = self._pages.setdefault(origin, [0, 0])
            counts[0] += 1
            counts[1] += octets

    def note_waiting(self, requests: int) -> None:
        """Record that *requests* is the number of requests that wait in the scheduler."""
        self._waiting, self.wants_waiting = requests, False

    def note_gap(
        self, kind: str, origin: str, asked: float, gap: float | None, now: float
    ) -> None:
        """Note the gap between an answer from *origin* and the next request to *origin*. The gap is written to the
        ledger in two cases: if the ratio of the gap to the requested delay is smaller than all earlier ratios for the
        same kind and origin; and if the requested delay is longer than all earlier ones for the same kind and origin.
        Other gaps are ignored.

        :param kind: ``"delay"`` if robots.txt requested the delay, ``"pause"`` if a 429 or 503 response requested it
        :param asked: the requested delay in seconds
        :param gap: the seconds from the answer to the request; None if there is no answer or no request yet
        :param now: the time of the gap, in seconds since the epoch
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
