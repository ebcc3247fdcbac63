"""The requests that a worker has taken from the queue, and its places at hosts."""

from __future__ import annotations

import json
import uuid
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

    from scrapy_rep.frontier.redis.worker import Popped, Worker


class Lease(NamedTuple):
    """A request that this worker has taken from the queue."""

    number: str
    host: str
    slot: str

    generation: int
    kept: int
    """What the worker had counted when it took the request."""


class InFlight:
    """The requests that are in flight in this worker: each of them until its callback has
    ended, and its place at a host until it has left the downloader.

    Requests that no queue has handed out, of media and for robots.txt, get places at hosts
    here too, in place of :class:`~scrapy_rep.frontier.leases.Leases`.
    """

    are_shared = True

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self._leases: dict[Request, Lease] = {}
        self._places: dict[Request, Lease] = {}
        self._acquired: dict[str, str] = {}
        self._fetched: set[Request] = set()

    @property
    def requests(self) -> list[str]:
        """The numbers of the requests."""
        return [lease.number for lease in self._leases.values()]

    @property
    def places(self) -> list[str]:
        """The numbers of the places at hosts."""
        numbers = [lease.number for lease in self._places.values()]
        return [*numbers, *self._acquired.values()]

    def add(self, request: Request, popped: Popped, slot: str) -> None:
        worker = self._worker
        lease = Lease(popped.number, popped.host, slot, worker.generation, worker.kept)
        self._leases[request] = self._places[request] = lease

    # Turns at hosts.

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got its turn from the server, and still has it."""
        lease = self._places.get(request)
        return lease is not None and self._is_held(lease)

    async def acquire(self, host: str, delay: float) -> bool:
        if any(
            lease.host == host and self._is_held(lease)
            for lease in self._places.values()
        ):
            # The request that has the place can't go before its robots.txt is known, and
            # then waits for the delay after that.
            return True
        number = uuid.uuid4().hex
        found = self._worker.acquire(number, host)
        if found:
            self._acquired[host] = number
        # Where the server fails, the delay is kept by this worker alone.
        return found is not False

    def renew(self, host: str, delay: float) -> None:
        """A place holds for as long as this worker lives."""

    def release(self, host: str, delay: float) -> None:
        number = self._acquired.pop(host, None)
        if number is not None:
            self._worker.release(number, host, delay)

    def _is_held(self, lease: Lease) -> bool:
        """Whether no other worker has it: as far as this worker knows, its own lease has
        never expired since.
        """
        return self._worker.is_alive and lease.generation == self._worker.generation

    # The end of requests.

    def on_left_downloader(self, request: Request) -> bool:
        """A request has been to a server, or tried. Returns whether it is one of these."""
        if request not in self._places:
            return False
        self._fetched.add(request)
        return True

    def settle(self) -> None:
        """Find out which requests have ended, for the next report to the server."""
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
        _, gap = self._limits_of(lease.slot)
        own_gap = gap if gap != self.limits.gap else 0
        fetched = request in self._fetched
        self._worker.left(lease.number, lease.host, fetched=fetched, gap=own_gap)

    @cached_property
    def limits(self) -> Limits:
        """What the settings say; when the engine is there, which knows them best."""
        slots = self._crawler.settings.getdict("DOWNLOAD_SLOTS")
        of_hosts = {slot: self._limits_of(slot) for slot in slots}
        text = json.dumps(of_hosts) if of_hosts else ""
        return Limits(*self._limits_of(""), text)

    def _limits_of(self, slot: str) -> tuple[int, int]:
        """How many requests a download slot allows at once, and how many milliseconds
        apart.
        """
        state = slot_state(self._crawler, slot)
        if state is None:
            return 1, 0
        return max(state.concurrency, 1), round(1000 * state.delay)
