"""Counts the pages and bytes that a crawl receives, and measures the gaps between its requests, for the ledger."""

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

    # The name of a table of the ledger, and a row for it without the ID of the crawl.
    Row: TypeAlias = tuple[str, tuple[Any, ...]]

_HOUR, _MINUTE = 3600, 60

# The maximum number of origins whose shortest gaps are kept in memory. Beyond that, the memory is cleared, which
# costs only additional rows in the ledger.
_MAX_REMEMBERED = 100_000


class Traffic:
    """Collects the traffic of a crawl until the ledger takes it: pages and bytes by origin, the number of
    waiting requests, and the shortest gaps between requests. Times are in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.wants_waiting = True
        """Whether the number of waiting requests is still missing for the next row. The scheduler counts the
        requests only if it is."""

        self._is_open = False
        self._pages: dict[Origin, list[int]] = {}
        self._waiting: int | None = None
        self._gaps: list[Row] = []
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}
        """By kind and origin: the smallest ratio of a gap to the requested delay, and the longest requested delay.
        Only gaps beyond these extremes are written to the ledger."""

    @classmethod
    def of(cls, crawler: Crawler) -> Traffic | None:
        """Return the Traffic that all components of a crawl share; None if the crawl has no ledger."""
        if RepSettings.of(crawler).ledger is None:
            return None
        return shared_component(crawler, _new_traffic)

    def open(self) -> None:
        """Start counting. Before this call, nothing is counted: nobody calls :meth:`take` yet, and counts would pile
        up in memory.
        """
        self._is_open = True

    def take(self, now: float) -> list[Row]:
        """Return the traffic since the last call as rows of the ledger, for the hour and the minute of *now*."""
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
        """Note the number of requests that wait in the queue (*requests*)."""
        self._waiting, self.wants_waiting = requests, False

    def note_gap(
        self, kind: str, origin: str, asked: float, gap: float | None, now: float
    ) -> None:
        """Note the gap between an answer of an origin and the next request to the origin. A row is written only
        if this gap is shorter, in relation to the requested delay, than all before it, or if the requested
        delay is longer than before.

        :param kind: how the origin asked for the delay: ``"delay"`` (robots.txt) or ``"pause"`` (429, 503)
        :param asked: the requested delay in seconds
        :param gap: the seconds from the answer to the request; None if one of the two is missing so far
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
