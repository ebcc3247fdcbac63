"""Groups of hosts and download slots that share a delay."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy import Request

from scrapy_rep.compat.browsers import is_for_browser
from scrapy_rep.frontier.backqueue import BackQueue
from scrapy_rep.frontier.hostkeys import bare_host, host_of
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
_PAGES_FOR_A_STRANGER = 3


class DelayGroup:
    """Hosts and download slots whose requests are sent one at a time, a delay apart.

    The delay begins at the end of the last request, so the server sees it between two
    requests however long each takes to arrive. Moments are those of the monotonic clock, in
    seconds.
    """

    __slots__ = (
        "alarm_at", "delays", "holder", "host", "keys", "last", "merged_into", "name",
        "not_before", "pages_in_a_row", "queues", "requests", "strangers", "told",
        "waited", "waiters", "waiting_since",
    )  # fmt: skip

    name: str
    """The name of its first host or download slot."""

    keys: set[str]
    """All hosts and download slots of the group."""

    merged_into: DelayGroup | None

    delays: dict[Origin, float]
    """The delay of each origin, in seconds."""

    holder: Request | BackQueue | object | None
    """The holder of the turn: the request that is under way, the back queue whose next
    request may go, or a mark while the lease is acquired."""

    host: str
    """The host that has the turn, by the name that all workers use."""

    last: float
    """The moment of the end of the last request."""

    not_before: float
    """The moment from which on the lease may be asked for again."""

    queues: deque[BackQueue]
    """The back queues that wait for their turn."""

    waiters: deque[Waiter]
    """The requests in the downloader that wait for their turn."""

    strangers: deque[Waiter]
    """The requests for the robots.txt of other hosts, which were redirected here."""

    pages_in_a_row: int
    """The number of other requests that were sent since the last one of strangers, while
    some waited."""

    alarm_at: float | None
    """The moment of the next alarm, if one is set."""

    requests: int
    waiting_since: float | None

    waited: float
    """The seconds in which requests waited and none was under way."""

    told: bool
    """Whether the log has said how long the group will take."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys = {name}
        self.merged_into = None
        self.delays = {}
        self.holder = None
        self.host = ""
        self.last = self.not_before = float("-inf")
        self.queues = deque()
        self.waiters = deque()
        self.strangers = deque()
        self.pages_in_a_row = 0
        self.alarm_at = None
        self.requests = 0
        self.waiting_since = None
        self.waited = 0.0
        self.told = False

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
        return bool(self.queues or self.waiters or self.strangers)

    @property
    def is_held_by_browser(self) -> bool:
        """Whether a page is loaded in a browser, which may wait for another robots.txt."""
        return isinstance(self.holder, Request) and is_for_browser(self.holder)

    def is_free(self, now: float) -> bool:
        """Whether a request may go at the moment *now*."""
        return self.holder is None and self.free_at <= now

    def name_of(self, host: str) -> str:
        """By which name workers share the turn of *host*, which may stand in for a site."""
        return host if host in self.keys else self.name

    def next(self) -> BackQueue | Waiter | None:
        """Remove and return the next one of those that wait."""
        is_strangers_turn = self.pages_in_a_row >= _PAGES_FOR_A_STRANGER
        if self.strangers and (is_strangers_turn or not (self.waiters or self.queues)):
            self.pages_in_a_row = 0
            return self.strangers.popleft()
        self.pages_in_a_row = self.pages_in_a_row + 1 if self.strangers else 0
        if self.waiters:
            return self.waiters.popleft()
        return self.queues.popleft() if self.queues else None

    def put_back(self, waiter: BackQueue | Waiter) -> None:
        """Put *waiter* back as the next one."""
        if isinstance(waiter, BackQueue):
            self.queues.appendleft(waiter)
        else:
            self.waiters.appendleft(waiter)

    def take(self, holder: Request | BackQueue, now: float) -> float:
        """Give the turn to *holder*. Return the seconds for which the delay alone made
        requests wait.
        """
        held_up = 0.0
        if self.waiting_since is not None:
            held_up = max(now - max(self.waiting_since, self.last), 0.0)
        self.waited += held_up
        self.waiting_since = now if self.is_waited_for else None
        self.requests += 1
        self.holder = holder
        return held_up

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

    def is_lent(self, host: str, slot: str) -> bool:
        """Whether *host* has the download slot of another, which asks for a delay: so it is
        with services that render pages or fetch them for others.
        """
        if host == slot or not self._groups:
            return False
        group = self._groups.get(slot)
        return group is not None and any(
            bare_host(origin) == slot for origin in group.delays
        )

    def lent(self, host: str, slot: str) -> DelayGroup | None:
        """The group of the site that *host* stands in for, if it does."""
        return self._groups[slot] if self.is_lent(host, slot) else None

    def find(self, host: str, slot: str) -> DelayGroup | None:
        """The group of a host and a download slot, if they have one."""
        if self.is_lent(host, slot):
            return self._groups[slot]
        group = self._groups.get(host)
        return group if group is not None or slot == host else self._groups.get(slot)

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
        group.strangers.extend(other.strangers)
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
        return any(group.waiters or group.strangers for group in self.all())

    def drop(self, group: DelayGroup) -> None:
        """Forget a group."""
        for key in group.keys:
            del self._groups[key]


def host_of_waiter(waiter: BackQueue | Waiter) -> str:
    """The host of a back queue, or of a request that waits."""
    return waiter.key.host if isinstance(waiter, BackQueue) else host_of(waiter[0])


def log_delay(crawler: Crawler, group: DelayGroup) -> None:
    """Log how long a host will take, if that is long."""
    count = sum(map(len, group.queues))
    if isinstance(group.holder, BackQueue):
        count += len(group.holder)
    if group.told or group.delay <= _LONG_DELAY or count < _MANY:
        return
    group.told = True
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
