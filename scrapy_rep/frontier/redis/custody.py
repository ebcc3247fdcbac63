"""The requests that a worker has taken from the queue, and what becomes of them."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.compat.internals import (
    active_requests,
    is_closing,
    requests_in_progress,
    slot_state,
)
from scrapy_rep.frontier.redis.worker import Limits

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.redis.worker import Worker


class Lease(NamedTuple):
    """A request that this worker has taken from the queue."""

    number: str
    host: str
    slot: str

    life: int
    kept: int
    """What the worker that has taken it had counted then."""


class Custody:
    """Has each request until its callback has ended, and its place at a host until it has
    left the downloader.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self._leases: dict[Request, Lease] = {}
        self._places: dict[Request, Lease] = {}
        self._fetched: set[Request] = set()

    @property
    def requests(self) -> list[str]:
        """The numbers of the requests."""
        return [lease.number for lease in self._leases.values()]

    @property
    def places(self) -> list[str]:
        """The numbers of those that have a place at a host."""
        return [lease.number for lease in self._places.values()]

    def add(self, request: Request, number: str, host: str, slot: str) -> None:
        lease = Lease(number, host, slot, self._worker.life, self._worker.kept)
        self._leases[request] = self._places[request] = lease

    def has_turn(self, request: Request) -> bool:
        """Whether *request* has got its turn from the server, and has it still."""
        lease = self._places.get(request)
        return lease is not None and self._is_held(lease)

    def has_place(self, host: str) -> bool:
        """Whether one of the requests has its place at *host*."""
        return any(
            lease.host == host and self._is_held(lease)
            for lease in self._places.values()
        )

    def _is_held(self, lease: Lease) -> bool:
        """Whether others don't have it: as far as this worker knows, the server has never
        taken it for dead since.
        """
        return self._worker.is_alive and lease.life == self._worker.life

    def left(self, request: Request) -> bool:
        """A request has been to a server, or tried. Returns whether it is one of these."""
        if request not in self._places:
            return False
        self._fetched.add(request)
        return True

    def note_ends(self) -> None:
        """Tell what has become of requests."""
        active = active_requests(self._crawler)
        fetched = self._fetched
        for request in [
            one for one in self._places if one not in active or one in fetched
        ]:
            self._leave(request)
        in_progress = requests_in_progress(self._crawler)
        ended = [one for one in self._leases if one not in in_progress]
        closing = bool(ended) and is_closing(self._crawler)
        for request in ended:
            if request in fetched or not closing:
                lease = self._leases.pop(request)
                self._worker.done(lease.number, lease.kept)
            # Else it may not have been sent because the spider closes: others get it.
            fetched.discard(request)

    def _leave(self, request: Request) -> None:
        """The place of *request* is free."""
        lease = self._places.pop(request)
        state = slot_state(self._crawler, lease.slot)
        gap = round(1000 * state.delay) if state is not None else 0
        own_gap = gap if gap != self.limits.gap else 0
        fetched = request in self._fetched
        self._worker.left(lease.number, lease.host, fetched=fetched, gap=own_gap)

    @cached_property
    def limits(self) -> Limits:
        """What the settings say; when the engine is there, which knows them best."""
        state = slot_state(self._crawler, "")
        at_once = max(state.concurrency, 1) if state is not None else 1
        gap = round(1000 * state.delay) if state is not None else 0
        of_hosts = {}
        for slot in self._crawler.settings.getdict("DOWNLOAD_SLOTS"):
            own = slot_state(self._crawler, slot)
            if own is not None:
                of_hosts[slot] = [max(own.concurrency, 1), round(1000 * own.delay)]
        text = json.dumps(of_hosts) if of_hosts else ""
        return Limits(at_once, gap, text)
