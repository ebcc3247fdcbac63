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

# The delay in seconds, and the number of requests, from which on the log says how long a
# host will take.
_LONG_DELAY = 10
_MANY = 20

# Where pages wait too, one robots.txt request that was redirected from another host goes
# after so many of them.
_PAGES_PER_REDIRECTED = 3


@dataclass(slots=True, eq=False)
class DelayGroup:
    """Hosts and download slots whose requests are sent one at a time, a delay apart.

    The delay begins at the end of the last request, so the server sees it between two
    requests however long each takes to arrive. Moments are those of the monotonic clock, in
    seconds.
    """

    name: str
    """The name of its first host or download slot."""

    keys: set[str] = field(default_factory=set)
    """All hosts and download slots of the group."""

    merged_into: DelayGroup | None = None

    delays: dict[Origin, float] = field(default_factory=dict)
    """The delay of each origin, in seconds."""

    holder: Request | BackQueue | object | None = None
    """The holder of the turn: the request that is under way, the back queue whose next
    request may go, or a placeholder while the lease is acquired."""

    host: str = ""
    """The host that has the turn, by the name that all workers use."""

    last: float = float("-inf")
    """The moment of the end of the last request."""

    not_before: float = float("-inf")
    """The moment from which on the lease may be asked for again."""

    queues: deque[BackQueue] = field(default_factory=deque)
    """The back queues that wait for their turn."""

    waiters: deque[Waiter] = field(default_factory=deque)
    """The requests in the downloader that wait for their turn."""

    redirected: deque[Waiter] = field(default_factory=deque)
    """The requests for the robots.txt of other hosts, which were redirected here."""

    pages_in_a_row: int = 0
    """The number of other requests that were sent since the last redirected one, while
    some waited."""

    alarm_at: float = float("-inf")
    """The moment of the next alarm, or of the last one if none is set."""

    requests: int = 0
    waiting_since: float | None = None

    waited: float = 0.0
    """The seconds in which requests waited and none was under way."""

    is_logged: bool = False
    """Whether the log has said how long the group will take."""

    @property
    def delay(self) -> float:
        """The longest delay that an origin asks for, in seconds."""
        return max(self.delays.values(), default=0.0)

    @property
    def free_at(self) -> float:
        """The moment from which on the next request may go."""
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
        """Whether a page is loaded in a browser, which may wait for another robots.txt."""
        return isinstance(self.holder, Request) and is_for_browser(self.holder)

    def is_free(self, now: float) -> bool:
        """Whether a request may go at the moment *now*."""
        return self.holder is None and self.free_at <= now

    def is_idle(self, now: float) -> bool:
        """Whether the group may be forgotten."""
        return not self.is_waited_for and self.is_free(now)

    def name_of(self, host: str) -> str:
        """The name by which workers share the turn of *host*, which may be a service that
        makes requests for others.
        """
        return host if host in self.keys else self.name

    def next(self) -> BackQueue | Waiter | None:
        """Remove and return the next one of those that wait."""
        is_due = self.pages_in_a_row >= _PAGES_PER_REDIRECTED
        if self.redirected and (is_due or not (self.waiters or self.queues)):
            self.pages_in_a_row = 0
            return self.redirected.popleft()
        self.pages_in_a_row = self.pages_in_a_row + 1 if self.redirected else 0
        if self.waiters:
            return self.waiters.popleft()
        return self.queues.popleft() if self.queues else None

    def put_back(self, waiter: BackQueue | Waiter) -> None:
        """Put *waiter* back as the next one."""
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
        """End the turn. A request that was not *fetched*, such as one answered from a
        cache, begins no delay."""
        self.holder = None
        if fetched:
            self.last = now


class DelayGroups:
    """Delay groups, by the names of their hosts and download slots."""

    def __init__(self) -> None:
        self._groups: dict[str, DelayGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def of_site_served(self, host: str, slot: str) -> DelayGroup | None:
        """The group of the site that *host* serves, if it is a service that renders pages
        or fetches them for others: its requests have the download slot of the site, which
        asks for a delay, and it asks for none itself.
        """
        group = None if host == slot else self._groups.get(slot)
        if group is None or not _asks(group, slot):
            return None
        own = self._groups.get(host)
        return None if own is not None and _asks(own, host) else group

    def find(self, host: str, slot: str) -> DelayGroup | None:
        """The group of a host and a download slot, if they have one."""
        served = self.of_site_served(host, slot)
        return served or self._groups.get(host) or self._groups.get(slot)

    def update(
        self, keys: tuple[str, str], origin: Origin, delay: float, fetched_at: float
    ) -> DelayGroup | None:
        """The group of the requests with *keys*, if they have one, where *origin* asks for
        *delay* seconds, in a robots.txt that was fetched at the moment *fetched_at*.
        """
        must_join = delay or self._are_apart(*keys)
        group = self.join(*keys) if must_join else self.find(*keys)
        if group is None:
            return None
        if not delay:
            group.delays.pop(origin, None)
            return group
        if origin not in group.delays:
            # The robots.txt was a request too, of this worker or another.
            group.last = max(group.last, fetched_at)
        group.delays[origin] = delay
        return group

    def _are_apart(self, host: str, slot: str) -> bool:
        """Whether the host and the download slot of a request are in two groups, both of
        which hold for it.
        """
        own, other = self._groups.get(host), self._groups.get(slot)
        if own is None or other is None or own is other:
            return False
        return self.of_site_served(host, slot) is None

    def join(self, host: str, slot: str) -> DelayGroup:
        """The group of a host and a download slot, made if there is none. If each has its
        own, the two are merged.
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
        """The group that *group* was merged into, or *group* itself."""
        while group.merged_into is not None:
            group = group.merged_into
        return group

    def all(self) -> list[DelayGroup]:
        """All groups, each once."""
        return list(dict.fromkeys(self._groups.values()))

    @property
    def have_waiters(self) -> bool:
        """Whether a request in the downloader waits for its turn."""
        return any(group.has_waiters for group in self.all())

    def drop(self, group: DelayGroup) -> None:
        """Forget a group."""
        for key in group.keys:
            del self._groups[key]


def _asks(group: DelayGroup, host: str) -> bool:
    """Whether *host*, one of the hosts of *group*, asks for a delay."""
    return any(bare_host(origin) == host for origin in group.delays)


def log_delay(crawler: Crawler, group: DelayGroup) -> None:
    """Log how long a host will take, if that is long."""
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
