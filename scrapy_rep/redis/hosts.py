"""The hosts that a worker owns, and their requests that it has taken from the Redis server."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request

    from scrapy_rep.crawl.frontier.frontier import QueueKey
    from scrapy_rep.crawl.frontier.limits import Queue
    from scrapy_rep.redis.exchange import Taken

# The most requests of a queue that are taken ahead of need.
MAX_BATCH = 200

# A host whose robots.txt is not known after these seconds is not counted on.
_UNKNOWN_AFTER = 2.0


class OwnedRequests:
    """The requests of a queue that this worker has taken from the server, in their order there."""

    medium = "redis"

    def __init__(self, queue: Queue, note_popped: Callable[[Request], None]) -> None:
        self._queue = queue
        self._note_popped = note_popped
        self._heap: list[tuple[float, str, Request]] = []
        self.popped = 0
        """How many were popped since more was wanted."""

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self._heap)

    @property
    def waits_for_rules(self) -> bool:
        """Whether the robots.txt is being fetched, or unreachable."""
        site = self._queue.site
        return site is not None and bool(site.fetch_stage or site.outage)

    def put(self, request: Request, taken: Taken, *, is_first: bool = False) -> None:
        """Add *request*, which was taken from the server."""
        score = -inf if is_first else taken.score
        heappush(self._heap, (score, taken.number, request))

    def pop(self) -> Request | None:
        """Remove and return the next request; None if there is none any more."""
        if not self._heap:
            return None
        request = heappop(self._heap)[-1]
        self.popped += 1
        self._note_popped(request)
        return request

    def peek(self) -> Request | None:
        """Return the next request; None if there is none."""
        return self._heap[0][-1] if self._heap else None

    def take_all(self) -> list[Request]:
        """Remove all requests, and return them."""
        requests = [request for *_, request in self._heap]
        self._heap.clear()
        return requests


class OwnedHost:
    """A host whose requests this worker alone sends."""

    def __init__(self, key: str, now: float) -> None:
        self.key = key
        self.since = self.needed_at = now
        """Since when it is owned, and when it last had requests."""

        self.queues: dict[str, OwnedRequests] = {}
        """Its requests that are here, by the queue on the server."""

        self.on_server: dict[str, int] = {}
        """How many requests of each queue are on the server still."""

    @property
    def count(self) -> int:
        """How many requests it has, as far as that is known."""
        here = sum(requests.count for requests in self.queues.values())
        return here + sum(self.on_server.values())

    def wanted(self, batch: int) -> Iterator[tuple[str, int]]:
        """Return of which queues how many requests are wanted: a *batch*, and twice as many as were popped since."""
        for name, on_server in self.on_server.items():
            requests = self.queues.get(name)
            popped, here = (requests.popped, requests.count) if requests else (0, 0)
            most = min(batch + 2 * popped, MAX_BATCH)
            if on_server and here <= most / 2:
                yield name, most - here
            if requests is not None:
                requests.popped = 0

    def is_usable(self, now: float) -> bool:
        """Whether requests of this host can be sent soon. They cannot if all its queues still wait for
        robots.txt two seconds after this worker has got the host.
        """
        if now - self.since < _UNKNOWN_AFTER:
            return True
        return not all(requests.waits_for_rules for requests in self.queues.values())


def unit_of(slot: str) -> str:
    """Return the name on the server of the download slot *slot*: nearly always a host."""
    return " ".join(slot.split())


def name_of(key: QueueKey) -> str:
    """Return the name on the server of the queue with *key*."""
    kind = "service" if key.is_service else "" if key.is_of_http else "other"
    return f"{unit_of(key.slot)}\t{key.origin or ''}\t{kind}"


def host_of(queue: str) -> str:
    """Return the host, or the download slot, of a queue on the server."""
    return queue.partition("\t")[0]
