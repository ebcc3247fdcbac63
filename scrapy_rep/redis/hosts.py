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

# If robots.txt is still unknown this many seconds after a worker got a host, the host's requests no longer count as
# requests that can be sent soon.
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
        ends when its seconds have passed on either clock: the monotonic clock may stop while the machine sleeps,
        and the system clock may be set back.
        """
        monotonic, time = self._renewed_at
        passed = max(self._clock.monotonic() - monotonic, self._clock.time() - time)
        return passed < self.seconds

    def owns(self, slot: str) -> bool:
        """Whether this worker alone sends requests to the download slot *slot*."""
        return name_of(slot) in self.hosts and self.is_valid


class OwnedRequests(MemoryRequests):
    """The requests of one queue that wait in this worker. Requests from the server have the same order as on the
    server. Two other kinds of requests are sent before them: requests that cannot be written to the server, and
    requests that were put back.
    """

    __slots__ = ("_taken",)

    medium = "redis"

    def __init__(self, order: RequestOrder, taken: Container[Request]) -> None:
        """Create an empty queue. *taken* contains all requests that this worker took from the server."""
        super().__init__(order)
        self._taken = taken

    def put(self, request: Request, taken: Taken) -> None:
        """Add *request*, which was taken from the server."""
        self.count += 1
        heappush(self._heap, (taken.score, int(taken.number, 16), request))

    def pop(self) -> Request | None:  # type: ignore[override]
        """Remove and return the next request. Return None if the queue is empty. The scheduler may pop from an empty
        queue: when a worker gives requests back to the server, the limits still list their queue as ready.
        """
        return super().pop() if self.count else None

    def medium_of(self, request: Request) -> str:
        """Return ``"redis"`` if *request* was taken from the server, and ``"memory"`` if this worker keeps it."""
        return self.medium if request in self._taken else "memory"

    def take_all(self) -> list[Request]:
        """Remove all requests that were taken from the server, and return them."""
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
        """The number of the host's requests that are still on the server."""

    @property
    def count(self) -> int:
        """The number of the host's requests that wait in this worker."""
        return sum(queue.count for queue in self.queues)

    def count_usable(self, now: float) -> int:
        """Return the number of waiting requests that could be sent soon. In the first two seconds after this worker got
        the host, these are all waiting requests. Later, requests that still wait for robots.txt do not count.
        """
        if now - self.since < _UNKNOWN_AFTER:
            return self.count
        return sum(queue.count for queue in self.queues if not _waits_for_rules(queue))


def _waits_for_rules(queue: Queue) -> bool:
    """Whether the robots.txt of *queue* is being fetched or is unreachable."""
    site = queue.site
    return site is not None and bool(site.fetch_stage or site.outage)


def name_of(slot: str) -> str:
    """Return the name that the download slot *slot* has on the server. Line breaks become spaces, because a line break
    ends a name on the server.
    """
    return " ".join(slot.split())
