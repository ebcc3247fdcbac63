"""What waits for one robots.txt, and what is under way to get it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.causes import Causes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from scrapy_rep.frontier.backqueue import BackQueue
    from scrapy_rep.frontier.outages import Outage
    from scrapy_rep.protocol.origins import Origin

_MAX_GIVEN_UP = 20_000


class Host:
    """An origin whose robots.txt is not known, or is unreachable."""

    __slots__ = (
        "causes", "is_anew", "is_learning", "is_wanted", "origin", "outage", "parked", "waiters",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin

        # An empty tuple takes no memory; nearly always there is one back queue, and no
        # waiter.
        self.parked: list[BackQueue] | tuple[()] = ()
        """Back queues that wait for it."""

        self.waiters: list[Deferred[None]] | tuple[()] = ()
        """Requests in the downloader that wait for it, each with a Deferred of its own:
        one that many await gives its result to the first alone."""

        self.causes: Causes | None = None
        """Requests that need it, reduced to what the request for robots.txt takes over."""

        self.is_anew = False
        """Whether it is to be fetched although it is known to be unreachable: there is
        another proxy to try."""

        self.is_wanted = False
        """Whether it is to be got, and is not under way yet."""

        self.is_learning = False
        """Whether it is under way."""

        self.outage: Outage | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to remember."""
        return not (
            self.parked
            or self.waiters
            or self.is_wanted
            or self.is_learning
            or self.outage
        )

    @property
    def queued(self) -> int:
        """How many requests wait for it in queues."""
        return sum(map(len, self.parked))

    def add_cause(self, cause: Request) -> bool:
        """Remember a request that needs it. Returns whether it has a proxy of its own."""
        if self.causes is None:
            self.causes = Causes()
        return self.causes.add(cause)

    def wait(self) -> Deferred[None]:
        """What a request in the downloader awaits."""
        waiter: Deferred[None] = Deferred()
        self.waiters = self.waiters or []
        self.waiters.append(waiter)
        return waiter

    def park(self, queue: BackQueue) -> None:
        """Have *queue* wait for it."""
        if self.parked:
            self.parked.append(queue)
        else:
            self.parked = [queue]

    def release_queues(self) -> Sequence[BackQueue]:
        """The back queues that have waited, and no longer do."""
        parked, self.parked = self.parked, ()
        return parked

    def closing(self) -> SpiderClosing:
        """What its waiters get where the spider closes."""
        return SpiderClosing(f"{self.origin.robotstxt_url} is not waited for")

    def release_waiters(self, error: SpiderClosing | None = None) -> int:
        """Let the requests in the downloader go on, or fail. Returns how many these are."""
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
    """Hosts that were given up: those that were not met for longest are forgotten, and
    asked again when they are met again.
    """

    def __init__(self) -> None:
        self._hosts: dict[Host, None] = {}

    def add(self, host: Host) -> Host | None:
        """Remember *host*. Returns one whose outage is forgotten for it, if there is."""
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
    """Hosts whose robots.txt is to be got, in the order in which they were wanted. Those
    that a request in the downloader waits for go first.
    """

    def __init__(self) -> None:
        # One that has become urgent is in both, and counts where it is met first.
        self._urgent: deque[Host] = deque()
        self._hosts: deque[Host] = deque()

    def add(self, host: Host, *, is_urgent: bool) -> None:
        if is_urgent:
            self._urgent.append(host)
        elif not host.is_wanted:
            self._hosts.append(host)
        host.is_wanted = True

    def next(self, *, is_needed: bool) -> Host | None:
        """The next one, which then is no longer here; where none *is needed* for the
        queues, only one that a request in the downloader waits for.
        """
        for hosts in (self._urgent, self._hosts) if is_needed else (self._urgent,):
            while hosts:
                host = hosts.popleft()
                if host.is_wanted:
                    host.is_wanted = False
                    return host
        return None
