"""The hosts that a worker owns, and the requests to them that the worker took from the Redis server."""

from __future__ import annotations

from heapq import heapify, heappush
from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.crawl.frontier.scheduler import MemoryRequests

if TYPE_CHECKING:
    from collections.abc import Container

    from scrapy import Request

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.frontier.limits import Queue
    from scrapy_rep.crawl.frontier.queues import RequestOrder
    from scrapy_rep.redis.exchange import Taken

# A worker takes further hosts until it has enough requests that can be sent soon. If a host's robots.txt is still
# unknown this many seconds after the worker got the host, the host's requests no longer count as requests that can be
# sent soon.
_UNKNOWN_AFTER = 2.0


class Lease:
    """The hosts that a worker owns, and the time until which it owns them."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self._renewed_at = -inf, -inf
        """When the lease was last renewed, on the monotonic clock and on the system clock."""

        self.hosts: dict[str, OwnedHost] = {}
        self.lost: set[Request] = set()
        """The requests in progress that other workers may have taken, because the lease ended or Redis was restored
        from older data.
        """

    def renew(self, began: tuple[float, float]) -> None:
        """Record that a call to the server renewed the lease. *began* is the start of the call, on the monotonic clock
        and on the system clock.
        """
        self._renewed_at = began

    @property
    def is_valid(self) -> bool:
        """Whether the lease is still running. After its end, other workers may take the hosts and requests. The lease
        ends :attr:`seconds` seconds after its last renewal, on the monotonic clock or on the system clock, whichever is
        first.
        """
        # The monotonic clock can stop while the machine sleeps, and the system clock can be set back.
        monotonic, time = self._renewed_at
        passed = max(self._clock.monotonic() - monotonic, self._clock.time() - time)
        return passed < self.seconds

    def owns(self, slot: str) -> bool:
        """Whether this worker owns the host of the download slot *slot*, so that no other worker takes the host's
        requests.
        """
        return name_of(slot) in self.hosts and self.is_valid


class OwnedRequests(MemoryRequests):
    """Stores the requests of one queue that wait in the memory of this worker.

    Requests that were taken from the Redis server are sent in the order that they had on the server. Before them, this
    worker sends requests that cannot be serialised for the server, and requests that have returned to the scheduler
    unsent, for example because of a pause.
    """

    __slots__ = ("_taken",)

    medium = "redis"

    def __init__(self, order: RequestOrder, taken: Container[Request]) -> None:
        """Create an empty queue. *order* sorts the requests that are not from the server. *taken* contains the requests
        that this worker took from the server. The queue only looks up whether a request is one of them.
        """
        super().__init__(order)
        self._taken = taken

    def put(self, request: Request, taken: Taken) -> None:
        """Add *request*, which this worker took from the Redis server. *taken* is what the server sent: the serialised
        request, with its score and its number. Requests with a lower score are sent first. Requests with the same score
        are sent in the order of their numbers.
        """
        self.count += 1
        heappush(self._heap, (taken.score, int(taken.number, 16), request))

    def pop(self) -> Request | None:  # type: ignore[override]
        """Remove and return the next request. Return None if the queue is empty. The scheduler may pop from an empty
        queue, because it is not told when this worker gives the requests of a queue back to the server.
        """
        return super().pop() if self.count else None

    def medium_of(self, request: Request) -> str:
        """Return ``"redis"`` if *request* was taken from the server, and ``"memory"`` if it is only in this worker's
        memory.
        """
        return self.medium if request in self._taken else "memory"

    def take_all(self) -> list[Request]:
        """Return the requests that were taken from the server, and remove them from this queue. Requests that are only
        in this worker's memory stay in the queue.
        """
        requests = [row[-1] for row in self._heap if row[-1] in self._taken]
        self._heap = [row for row in self._heap if row[-1] not in self._taken]
        heapify(self._heap)
        self.count = len(self._heap)
        return requests


class OwnedHost:
    """A host whose requests only this worker sends. *key* is the name of the host's download slot."""

    def __init__(self, key: str, now: float) -> None:
        self.key = key
        self.since = self.needed_at = now
        """``since`` is the time when this worker got the host, and ``needed_at`` the time when the host last had
        requests, both in seconds of the monotonic clock."""

        self.queues: set[Queue] = set()
        """The queues of this worker in which the host's requests wait, one for each origin."""

        self.on_server = 0
        """The number of the host's requests that no worker has taken from the Redis server."""

    @property
    def count(self) -> int:
        """The number of the host's requests that wait in this worker."""
        return sum(queue.count for queue in self.queues)

    def count_usable(self, now: float) -> int:
        """Return how many of the host's waiting requests this worker can probably send soon. In the first two seconds
        after this worker got the host, all waiting requests count, because robots.txt usually arrives within this time.
        Later, requests that still wait for robots.txt do not count.
        """
        if now - self.since < _UNKNOWN_AFTER:
            return self.count
        return sum(queue.count for queue in self.queues if not _waits_for_rules(queue))


def _waits_for_rules(queue: Queue) -> bool:
    """Whether the requests of *queue* wait for robots.txt, because it is still to be fetched, is being fetched, or is
    unreachable.
    """
    site = queue.site
    return site is not None and bool(site.fetch_stage or site.outage)


def name_of(slot: str) -> str:
    """Return the name that the download slot *slot* has on the server. Each line break or other whitespace becomes a
    single space, because the server uses line breaks to separate the name from other data.
    """
    return " ".join(slot.split())
