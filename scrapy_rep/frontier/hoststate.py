"""The state of hosts whose robots.txt is not known."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.request import Causes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.outages import Outage
    from scrapy_rep.protocol.origins import Origin

_MAX_GIVEN_UP = 20_000


@dataclass(slots=True, eq=False)
class Host:
    """An origin whose robots.txt is not known, or is unreachable."""

    origin: Origin

    # An empty tuple takes no memory. Most hosts have one back queue and no waiter.
    parked: list[BackQueue] | tuple[()] = ()
    """The back queues that wait for robots.txt."""

    waiters: list[Deferred[None]] | tuple[()] = ()
    """The requests in the downloader that wait for robots.txt. Each has its own Deferred,
    because only the first that awaits a Deferred gets its result."""

    causes: Causes | None = None
    """The requests that need robots.txt, with only what the fetch takes over from them."""

    is_wanted: bool = False
    """Whether a fetch of robots.txt has been requested, and has not begun."""

    is_learning: bool = False
    """Whether robots.txt is being looked up in the store or fetched."""

    outage: Outage | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the state may be forgotten."""
        return not (
            self.parked
            or self.waiters
            or self.is_wanted
            or self.is_learning
            or self.outage
        )

    @property
    def queued(self) -> int:
        """The number of requests in queues that wait for robots.txt."""
        return sum(map(len, self.parked))

    def add_cause(self, cause: Request) -> bool:
        """Remember a request that needs robots.txt. Return whether it has a new proxy."""
        if self.causes is None:
            self.causes = Causes()
        return self.causes.add(cause)

    def wait(self) -> Deferred[None]:
        """Return a Deferred for a request in the downloader to await."""
        waiter: Deferred[None] = Deferred()
        self.waiters = self.waiters or []
        self.waiters.append(waiter)
        return waiter

    def park(self, queue: BackQueue) -> None:
        """Make *queue* wait for robots.txt."""
        if self.parked:
            self.parked.append(queue)
        else:
            self.parked = [queue]

    def release_queues(self) -> Sequence[BackQueue]:
        """Remove and return the back queues that wait."""
        parked, self.parked = self.parked, ()
        return parked

    def closing_error(self) -> SpiderClosing:
        """Return the error for waiting requests when the spider closes."""
        return SpiderClosing(
            f"The spider closed before {self.origin.robotstxt_url} was fetched"
        )

    def release_waiters(self, error: SpiderClosing | None = None) -> int:
        """Let the requests in the downloader continue, or fail them with *error*. Return
        their number.
        """
        waiters, self.waiters = self.waiters, ()
        for waiter in waiters:
            if waiter.called:  # It was cancelled.
                continue
            if error is None:
                waiter.callback(None)
            else:
                waiter.errback(error)
        return len(waiters)


class GivenUpHosts:
    """The hosts that were given up. Beyond a limit the oldest ones are forgotten, as if their
    outage were over.
    """

    def __init__(self) -> None:
        self._hosts: dict[Host, None] = {}

    def add(self, host: Host) -> Host | None:
        """Add *host*. Beyond the limit, remove the oldest one, end its outage, return it."""
        self._hosts.pop(host, None)
        self._hosts[host] = None
        if len(self._hosts) <= _MAX_GIVEN_UP:
            return None
        oldest = next(iter(self._hosts))
        del self._hosts[oldest]
        if oldest.outage is not None:
            oldest.outage.is_over = True
            oldest.outage = None
        return oldest

    def discard(self, host: Host) -> None:
        self._hosts.pop(host, None)


class WantedHosts:
    """The hosts whose robots.txt is to be fetched, in order. Hosts for which a request in
    the downloader waits are urgent, and come first.
    """

    def __init__(self) -> None:
        # A host that has become urgent is in both, and is taken from _urgent.
        self._urgent: deque[Host] = deque()
        self._hosts: deque[Host] = deque()

    def add(self, host: Host, *, is_urgent: bool) -> None:
        if is_urgent:
            self._urgent.append(host)
        elif not host.is_wanted:
            self._hosts.append(host)
        host.is_wanted = True

    def next(self, *, is_needed: bool) -> Host | None:
        """Remove and return the next host: any host if the queues need more ready hosts
        (*is_needed*), otherwise only an urgent one.
        """
        for hosts in (self._urgent, self._hosts) if is_needed else (self._urgent,):
            while hosts:
                host = hosts.popleft()
                if host.is_wanted:
                    host.is_wanted = False
                    return host
        return None
