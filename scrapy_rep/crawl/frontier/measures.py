"""Measures for the ledger which delays and pauses a crawl keeps: when it sends, not when it plans."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.base.requests import origin_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.frontier.backlog import Backlog
    from scrapy_rep.crawl.frontier.core import Scope, Ticket
    from scrapy_rep.crawl.ledger.traffic import Traffic


class Measures:
    """Notes in *traffic* what is measured; without it, nothing is."""

    def __init__(self, clock: Clock, traffic: Traffic | None) -> None:
        self._clock = clock
        self._traffic = traffic
        self.is_on = traffic is not None

    def sent(self, request: Request, ticket: Ticket) -> None:
        """Note how long after the last answer *request* is sent, if its host has a delay or has
        asked for a pause. It may have to wait in its download slot as well, so it is sent now at
        the earliest.
        """
        traffic = self._traffic
        if traffic is None:
            return
        now, time = self._clock.monotonic(), self._clock.time()
        for scope in ticket.scopes:
            if scope.delays and ticket.obeys:
                gap = 0.0 if scope.sent else now - scope.answered_at
                known = gap if gap < inf else None
                traffic.note_delay(_origin_text(request), scope.delay, known, time)
            found = scope.back_off
            if found is not None and found.asked:
                resumed = now - found.asked_at
                traffic.note_pause(_origin_text(request), found.asked, resumed, time)
                found.asked = 0.0

    def asked(self, request: Request, scope: Scope, until_before: float) -> None:
        """Note that the answer to *request* asks for a pause of *scope*, if that ends later than
        the pause before it.
        """
        traffic, found = self._traffic, scope.back_off
        if traffic is None or found is None or found.until <= until_before:
            return
        now = self._clock.time()
        traffic.note_pause(_origin_text(request), found.asked, None, now)

    def waiting(self, queues: Iterable[Backlog], in_downloader: int) -> None:
        """Note how many requests wait in *queues* and in the downloader, if that is known."""
        traffic = self._traffic
        if traffic is None or not traffic.wants_waiting:
            return
        counts = [queue.count_waiting() for queue in queues]
        known = [count for count in counts if count is not None]
        if known and len(known) == len(counts):
            traffic.note_waiting(sum(known) + in_downloader)


def _origin_text(request: Request) -> str:
    """Return the origin of *request* as a ledger has it."""
    origin = origin_at(request.url, request)
    return "" if origin is None else str(origin)
