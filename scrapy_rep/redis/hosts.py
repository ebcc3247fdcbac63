"""The hosts that a worker owns, and their requests that it has taken from the Redis server."""

from __future__ import annotations

from heapq import heappush
from math import inf
from typing import TYPE_CHECKING

from scrapy_rep.crawl.frontier.scheduler import MemoryRequests

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.base.clock import Clock
    from scrapy_rep.crawl.frontier.limits import Queue
    from scrapy_rep.redis.exchange import Taken

# The seconds after which the requests of a host whose robots.txt is still not known do not count as usable.
_UNKNOWN_AFTER = 2.0


class Lease:
    """The hosts that a worker owns, and until when."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self.seconds = seconds
        self._renewed_at = -inf, -inf
        """When the lease was last renewed, on the monotonic clock and on the system clock."""

        self.hosts: dict[str, OwnedHost] = {}
        self.lost: set[Request] = set()
        """The requests in progress that other workers have by now: the lease had ended, or Redis has older data."""

    def renew(self, began: tuple[float, float]) -> None:
        """Note that a call of the server, which *began* at this time on both clocks, has renewed the lease."""
        self._renewed_at = began

    @property
    def is_valid(self) -> bool:
        """Whether the lease has not ended. After its end, other workers may take its hosts and requests. Of two
        clocks, the one counts by which more time has passed: the monotonic clock may stop while the machine
        sleeps, and the system clock may be set back.
        """
        monotonic, time = self._renewed_at
        passed = max(self._clock.monotonic() - monotonic, self._clock.time() - time)
        return passed < self.seconds

    def owns(self, slot: str) -> bool:
        """Whether this worker alone sends requests to the download slot *slot*."""
        return name_of(slot) in self.hosts and self.is_valid


class OwnedRequests(MemoryRequests):
    """The requests of a queue that this worker has taken from the server, in the order that they had there."""

    __slots__ = ()

    medium = "redis"

    def put(self, request: Request, taken: Taken) -> None:
        """Add *request*, which was taken from the server."""
        self.count += 1
        heappush(self._heap, (taken.score, int(taken.number, 16), request))

    def pop(self) -> Request | None:  # type: ignore[override]
        """Remove and return the next request; None if all were given back, of which the limits are not told."""
        return super().pop() if self.count else None

    def take_all(self) -> list[Request]:
        """Remove all requests, and return them."""
        requests = [request for *_, request in self._heap]
        self._heap.clear()
        self.count = 0
        return requests


class OwnedHost:
    """A host whose requests this worker alone sends. Its name is that of a download slot."""

    def __init__(self, key: str, now: float) -> None:
        self.key = key
        self.since = self.needed_at = now
        """Since when this worker owns the host, and when the host last had requests."""

        self.queues: set[Queue] = set()
        """The queues in which its requests wait here: one for each origin."""

        self.on_server = 0
        """How many of its requests are on the server still."""

    @property
    def count(self) -> int:
        """How many of its requests wait here."""
        return sum(queue.count for queue in self.queues)

    def count_usable(self, now: float) -> int:
        """Return how many of the requests that wait here could be sent soon: not those that still wait for robots.txt
        two seconds after this worker has got the host.
        """
        if now - self.since < _UNKNOWN_AFTER:
            return self.count
        return sum(queue.count for queue in self.queues if not _waits_for_rules(queue))


def _waits_for_rules(queue: Queue) -> bool:
    """Whether the robots.txt of *queue* is being fetched, or unreachable."""
    site = queue.site
    return site is not None and bool(site.fetch_stage or site.outage)


def name_of(slot: str) -> str:
    """Return the name on the server of the download slot *slot*, without line breaks, which end a name there."""
    return " ".join(slot.split())
