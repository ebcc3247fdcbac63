"""Collects measurements of a crawl for the ledger: the numbers of pages and bytes that the crawl receives, the number
of waiting requests, and the gaps (the times between a response and the next request to the same origin).
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

# The maximum number of items in Traffic._extremes. When it is reached, all items are removed. The next gap of each
# origin is then written to the ledger, even if the ledger already contains a shorter gap.
_MAX_EXTREMES = 100_000


class Traffic:
    """Collects the traffic of a crawl for the ledger: the numbers of pages and bytes by origin, the number of waiting
    requests, and the shortest gaps. A gap is the time between a response and the next request to the same origin.
    """

    def __init__(self) -> None:
        self.wants_waiting = True
        """Whether the scheduler should count its waiting requests now, and pass the number to :meth:`note_waiting`. The
        requests are counted only once between two calls of :meth:`take`: :meth:`note_waiting` sets this attribute to
        False, and :meth:`take` sets it to True again."""

        # Whether pages and gaps are collected. This is False until LedgerExtension calls open(), since only
        # LedgerExtension calls take(). Without calls of take(), the collections below would grow without end.
        self._is_open = False
        self._pages: dict[Origin, list[int]] = {}
        self._waiting: int | None = None
        self._gaps: list[Row] = []
        self._extremes: dict[tuple[str, str], tuple[float, float]] = {}
        """The extremes of all calls of :meth:`note_gap` so far. Each key is a pair: the kind of the gap (``"delay"`` or
        ``"pause"``) and the origin. Each value is a pair: the smallest ratio of the time waited to the time that the
        origin asked for, and the longest time that the origin asked for."""

    @classmethod
    def of(cls, crawler: Crawler) -> Traffic | None:
        """Return the Traffic that all components of a crawl share. Return None if the crawl writes no ledger."""
        if RepSettings.of(crawler).ledger is None:
            return None
        return shared_component(crawler, _new_traffic)

    def open(self) -> None:
        """Start to collect. Before this call, :meth:`note_page` and :meth:`note_gap` do nothing. LedgerExtension calls
        this method when it opens the ledger.
        """
        self._is_open = True

    def take(self, now: float) -> list[Row]:
        """Return the traffic since the last call of this method, as rows for the ledger, and reset the counts.

        *now* is the present time in seconds since the epoch. The ledger has a row for each hour and for each minute.
        The pages since the last call are added to the rows of the hour and the minute that contain *now*.
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
        """Count *response* as a page of the origin that sent it. *request* is the request for *response*."""
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
        """Record how long the crawl waited between a response from *origin* and the next request to *origin*, and how
        long *origin* asked it to wait.

        The ledger gets a row only if the ratio of *gap* to *asked* is smaller, or *asked* is larger, than in all
        earlier calls with the same *kind* and *origin*.

        :param kind: ``"delay"`` for a delay in robots.txt, ``"pause"`` for a pause after a response, such as a 429
        :param asked: the delay or pause, in seconds, that *origin* asks for
        :param gap: the time, in seconds, that the crawl waited. None if it is not known, because the request is the
            first to *origin*, or because the pause has just begun
        :param now: the present time in seconds since the epoch
        """
        if not self._is_open or asked <= 0:
            return
        ratio = inf if gap is None else gap / asked
        key = kind, origin
        shortest, most = self._extremes.get(key, (inf, 0.0))
        if ratio >= shortest and asked <= most:
            return
        if len(self._extremes) >= _MAX_EXTREMES:
            self._extremes.clear()
        self._extremes[key] = min(ratio, shortest), max(asked, most)
        rounded = None if gap is None else round(gap, 6)
        self._gaps.append(("gap", (origin, kind, now, asked, rounded)))


def _new_traffic(_crawler: Crawler) -> Traffic:
    return Traffic()
