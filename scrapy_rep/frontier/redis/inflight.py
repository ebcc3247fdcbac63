"""The requests that a worker has taken from the queue, and its places at hosts."""

from __future__ import annotations

import uuid
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.compat.internals import (
    active_requests,
    is_closing,
    requests_in_progress,
    slot_state,
)
from scrapy_rep.frontier.hostkeys import host_of
from scrapy_rep.frontier.redis.worker import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep.frontier.redis.worker import Popped, Worker


class Taken(NamedTuple):
    """A request that this worker has taken from the queue."""

    number: str
    host: str
    slot: str

    generation: int
    pushed: int
    last_pause: int
    """The values of the worker's counters when it took the request."""


class InFlight:
    """The requests that are in flight in this worker. A request is in flight until its
    callback has ended, and has a place at its host until it has left the downloader.

    Requests that did not come from a queue, for media and robots.txt, get their places at
    hosts here too.
    """

    def __init__(self, crawler: Crawler, worker: Worker) -> None:
        self._crawler = crawler
        self._worker = worker
        self.on_ended: Callable[[], None] = lambda: None
        """Called when there is something to report."""

        self._taken: dict[Request, Taken] = {}
        self._places: dict[Request, Taken] = {}
        self._acquired: dict[str, str] = {}
        self._fetched: set[Request] = set()
        self._successes: dict[Request | str, int] = {}
        """The requests that have succeeded after a pause, or the hosts, for acquired places; and
        the number of that pause."""

    @property
    def requests(self) -> list[str]:
        """The numbers of the requests."""
        return [taken.number for taken in self._taken.values()]

    @property
    def places(self) -> list[str]:
        """The numbers of the places at hosts."""
        numbers = [taken.number for taken in self._places.values()]
        return [*numbers, *self._acquired.values()]

    def add(self, request: Request, popped: Popped, slot: str) -> None:
        worker = self._worker
        taken = Taken(
            popped.number,
            popped.host,
            slot,
            worker.generation,
            worker.pushed,
            worker.last_pause,
        )
        self._taken[request] = taken
        if popped.has_place:
            self._places[request] = taken

    # Turns at hosts.

    def has_turn(self, request: Request) -> bool:
        """Whether *request* got its turn from the Redis server, and still has it."""
        taken = self._places.get(request)
        return taken is not None and self._is_held(taken)

    def acquire(self, host: str) -> bool:
        """Try to get the place at *host* until it is released. Return True on success."""
        if any(
            taken.host == host and self._is_held(taken)
            for taken in self._places.values()
        ):
            # The request with the place waits for its robots.txt anyway, and then for the
            # delay after that.
            return True
        number = uuid.uuid4().hex
        found = self._worker.acquire(number, host)
        if found:
            self._acquired[host] = number
        # While the server fails, this worker alone keeps the delay.
        return found is not False

    def release(self, host: str, delay: float, *, fetched: bool) -> None:
        """Let another worker send to *host*, after *delay* seconds if it was *fetched*."""
        number = self._acquired.pop(host, None)
        if number is not None:
            pause = self._successes.pop(host, 0)
            self._worker.left(number, host, fetched=fetched, pause=pause, delay=delay)
            self.on_ended()

    def give_up(self, request: Request) -> None:
        """Give the place of *request* back, if it has one: its host asked for a pause meanwhile."""
        if request in self._places:
            self._leave(request)
            self.on_ended()

    # Back-off.

    def back_off(self, host: str, pause: float, own: float) -> None:
        """Tell the other workers that *host* has asked for a pause."""
        self._worker.back_off(host, pause, own)

    def succeeded(self, request: Request) -> None:
        """Note that a host has answered *request* after a pause, without asking for another."""
        taken = self._places.get(request)
        if taken is not None:
            self._successes[request] = taken.last_pause
        else:
            self._successes[host_of(request)] = self._worker.last_pause

    def _is_held(self, taken: Taken) -> bool:
        """Whether this worker still has the request *taken*: as far as it knows, its lease has
        not expired since.
        """
        return self._worker.is_alive and taken.generation == self._worker.generation

    # The end of requests.

    def on_left_downloader(self, request: Request) -> bool:
        """Note that *request* was sent, or failed. Return whether it is from the queue."""
        if request not in self._taken:
            return False
        self._fetched.add(request)
        return True

    def settle(self) -> None:
        """Find out which requests have ended, for the next report to the Redis server."""
        active = active_requests(self._crawler)
        fetched = self._fetched
        for request in [
            one for one in self._places if one not in active or one in fetched
        ]:
            self._leave(request)
        in_progress = requests_in_progress(self._crawler)
        ended = [one for one in self._taken if one not in in_progress]
        closing = bool(ended) and is_closing(self._crawler)
        for request in ended:
            if request in fetched or not closing:
                taken = self._taken.pop(request)
                self._worker.done(taken.number, taken.pushed)
            # Otherwise the closing spider may not have sent it, so it returns to the queue.
            fetched.discard(request)

    def _leave(self, request: Request) -> None:
        """Free the place of *request*."""
        taken = self._places.pop(request)
        _, gap = self._limits_of(taken.slot)
        own_gap = gap if gap != self.limits.gap else 0
        fetched = request in self._fetched
        self._worker.left(
            taken.number,
            taken.host,
            fetched=fetched,
            pause=self._successes.pop(request, 0),
            gap=own_gap,
        )

    @cached_property
    def limits(self) -> Limits:
        """The limits in the settings, as the engine's downloader has read them: the engine must
        exist."""
        slots = self._crawler.settings.getdict("DOWNLOAD_SLOTS")
        of_hosts = {slot: self._limits_of(slot) for slot in slots}
        return Limits(*self._limits_of(""), of_hosts)

    def _limits_of(self, slot: str) -> tuple[int, int]:
        """The concurrency of a download slot, and the milliseconds between its requests."""
        state = slot_state(self._crawler, slot)
        if state is None:
            return 1, 0
        return max(state.concurrency, 1), round(1000 * state.delay)
