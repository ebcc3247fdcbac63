"""Groups of hosts and download slots that share a delay."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy import Request

from scrapy_rep.compat.browsers import is_for_browser
from scrapy_rep.frontier.backqueue import BackQueue
from scrapy_rep.frontier.hostkeys import bare_host
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.protocol.origins import Origin

    Waiter = tuple[Request, Deferred[None]]

logger = get_logger(__name__)

# The log says how long a host will take if its delay in seconds is longer than
# _LONG_DELAY and at least _MANY requests wait.
_LONG_DELAY = 10
_MANY = 20

# While pages wait, one robots.txt request that another host redirected here is sent after
# this number of pages.
_PAGES_PER_REDIRECTED = 3


@dataclass(slots=True, eq=False)
class DelayGroup:
    """Hosts and download slots whose requests are sent one at a time, a delay apart.

    The delay begins when the last request ends. So at least the delay passes between two
    requests at the server, whatever the network latency. All times are seconds on the
    monotonic clock.
    """

    name: str
    """The name of its first host or download slot."""

    keys: set[str] = field(default_factory=set)
    """All hosts and download slots of the group."""

    merged_into: DelayGroup | None = None

    delays: dict[Origin, float] = field(default_factory=dict)
    """The delay of each origin, in seconds."""

    holder: Request | BackQueue | object | None = None
    """The holder of the turn: the request in flight, the back queue whose next request may
    be sent, or a placeholder while this worker acquires the lease."""

    host: str = ""
    """The host that has the turn, by the name that all workers use."""

    last: float = float("-inf")
    """The end of the last request."""

    not_before: float = float("-inf")
    """The time before which nothing may be sent: another worker or crawl has the turn."""

    queues: deque[BackQueue] = field(default_factory=deque)
    """The back queues that wait for their turn."""

    waiters: deque[Waiter] = field(default_factory=deque)
    """The requests in the downloader that wait for their turn."""

    redirected: deque[Waiter] = field(default_factory=deque)
    """The waiting requests for the robots.txt of other hosts, which redirected them here."""

    pages_in_a_row: int = 0
    """The number of other requests sent since the last redirected one, while some waited."""

    alarm_at: float = float("-inf")
    """The time of the next alarm, or of the last one if none is set."""

    requests: int = 0
    waiting_since: float | None = None  # None if no request waits.

    waited: float = 0.0
    """The seconds in which requests waited and none was in flight."""

    is_logged: bool = False
    """Whether log_delay() has logged how long the group will take."""

    @property
    def delay(self) -> float:
        """The longest delay of the origins, in seconds."""
        return max(self.delays.values(), default=0.0)

    @property
    def free_at(self) -> float:
        """The time from which the next request may be sent."""
        return max(self.last + self.delay, self.not_before)

    @property
    def is_waited_for(self) -> bool:
        return bool(self.queues or self.has_waiters)

    @property
    def has_waiters(self) -> bool:
        """Whether a request in the downloader waits for its turn."""
        return bool(self.waiters or self.redirected)

    @property
    def is_held_by_browser(self) -> bool:
        """Whether a browser has the turn: its page may wait for a robots.txt of this group."""
        return isinstance(self.holder, Request) and is_for_browser(self.holder)

    def is_free(self, now: float) -> bool:
        """Whether a request may be sent at the time *now*."""
        return self.holder is None and self.free_at <= now

    def is_idle(self, now: float) -> bool:
        """Whether the group may be forgotten."""
        return not self.is_waited_for and self.is_free(now)

    def name_of(self, host: str) -> str:
        """The name by which workers share the turn of *host*: the name of the group if
        *host* is a service that fetches pages of this group.
        """
        return host if host in self.keys else self.name

    def next(self) -> BackQueue | Waiter | None:
        """Remove and return the back queue or request that gets the turn next."""
        is_due = self.pages_in_a_row >= _PAGES_PER_REDIRECTED
        if self.redirected and (is_due or not (self.waiters or self.queues)):
            self.pages_in_a_row = 0
            return self.redirected.popleft()
        self.pages_in_a_row = self.pages_in_a_row + 1 if self.redirected else 0
        if self.waiters:
            return self.waiters.popleft()
        return self.queues.popleft() if self.queues else None

    def put_back(self, waiter: BackQueue | Waiter) -> None:
        """Put *waiter* back at the front of its queue."""
        if isinstance(waiter, BackQueue):
            self.queues.appendleft(waiter)
        else:
            self.waiters.appendleft(waiter)

    def take(self, request: Request, now: float) -> None:
        """Give the turn to *request*."""
        if self.waiting_since is not None:
            self.waited += max(now - max(self.waiting_since, self.last), 0.0)
        self.waiting_since = now if self.is_waited_for else None
        self.requests += 1
        self.holder = request

    def leave(self, now: float, *, fetched: bool) -> None:
        """End the turn. The delay begins only if the request was *fetched*, not, for
        example, answered from a cache."""
        self.holder = None
        if fetched:
            self.last = now


class DelayGroups:
    """Delay groups, by the names of their hosts and download slots."""

    def __init__(self) -> None:
        self._groups: dict[str, DelayGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def served_by(self, host: str, slot: str) -> DelayGroup | None:
        """Return the group whose pages *host* renders or fetches; None if *host* is no service.

        A host counts as a service if its requests are in the download slot of another host,
        which has a delay, and it has no delay itself.
        """
        group = None if host == slot else self._groups.get(slot)
        if group is None or not _has_delay(group, slot):
            return None
        own = self._groups.get(host)
        return None if own is not None and _has_delay(own, host) else group

    def find(self, host: str, slot: str) -> DelayGroup | None:
        """Return the group of the requests to *host* in *slot*, if they have one."""
        served = self.served_by(host, slot)
        return served or self._groups.get(host) or self._groups.get(slot)

    def set_delay(
        self, keys: tuple[str, str], origin: Origin, delay: float, fetched_at: float
    ) -> DelayGroup | None:
        """Set the *delay* of *origin* in seconds (0 removes it), by a robots.txt that was
        fetched at the time *fetched_at*. Return the group of the requests with *keys* (a
        host and a slot), if they have one.
        """
        must_join = delay or self._are_apart(*keys)
        group = self.join(*keys) if must_join else self.find(*keys)
        if group is None:
            return None
        if not delay:
            group.delays.pop(origin, None)
            return group
        if origin not in group.delays:
            # The delay also applies after the request for robots.txt.
            group.last = max(group.last, fetched_at)
        group.delays[origin] = delay
        return group

    def _are_apart(self, host: str, slot: str) -> bool:
        """Whether *host* and *slot* are in two groups whose delays both apply to a request."""
        own, other = self._groups.get(host), self._groups.get(slot)
        if own is None or other is None or own is other:
            return False
        return self.served_by(host, slot) is None

    def join(self, host: str, slot: str) -> DelayGroup:
        """Return the group of *host* and *slot*. Create it if there is none, and merge the
        two groups if each has its own.
        """
        other = self._groups.get(slot)
        group = self._groups.get(host) or other or DelayGroup(host)
        for key in (host, slot):
            group.keys.add(key)
            self._groups[key] = group
        if other is not None and other is not group:
            self._merge(group, other)
        return group

    def _merge(self, group: DelayGroup, other: DelayGroup) -> None:
        other.merged_into = group
        for key in other.keys:
            self._groups[key] = group
        group.keys |= other.keys
        group.delays.update(other.delays)
        group.last = max(group.last, other.last)
        group.not_before = max(group.not_before, other.not_before)
        group.queues.extend(other.queues)
        group.waiters.extend(other.waiters)
        group.redirected.extend(other.redirected)
        group.waited += other.waited
        group.requests += other.requests
        if group.holder is None:
            group.holder, group.host = other.holder, other.host

    def current(self, group: DelayGroup) -> DelayGroup:
        """Return the group that *group* was merged into, or *group* itself."""
        while group.merged_into is not None:
            group = group.merged_into
        return group

    def all(self) -> list[DelayGroup]:
        """Return all groups, each once."""
        return list(dict.fromkeys(self._groups.values()))

    @property
    def have_waiters(self) -> bool:
        """Whether a request in the downloader waits for its turn."""
        return any(group.has_waiters for group in self.all())

    def drop(self, group: DelayGroup) -> None:
        for key in group.keys:
            del self._groups[key]


def _has_delay(group: DelayGroup, host: str) -> bool:
    """Whether an origin of *host* has a delay in *group*."""
    return any(bare_host(origin) == host for origin in group.delays)


def log_delay(crawler: Crawler, group: DelayGroup) -> None:
    """Log once how long the waiting requests of *group* will take, if that is long."""
    count = sum(map(len, group.queues))
    if isinstance(group.holder, BackQueue):
        count += len(group.holder)
    if group.is_logged or group.delay <= _LONG_DELAY or count < _MANY:
        return
    group.is_logged = True
    logger.info(
        "%(host)s asks for %(delay)g s between requests: the %(count)d requests that wait "
        "for it will take %(time)s",
        {
            "host": group.name,
            "delay": group.delay,
            "count": count,
            "time": timedelta(seconds=round(count * group.delay)),
        },
        extra={"spider": crawler.spider},
    )
