"""Hosts that ask for a delay: whose requests share it, and when the next one may go."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from scrapy_rep.frontier.backqueue import BackQueue
from scrapy_rep.frontier.hostkeys import host_of
from scrapy_rep.log import get_logger

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

    from scrapy_rep.protocol.origins import Origin

    Waiter = tuple[Request, Deferred[None]]

logger = get_logger(__name__)

# Seconds, and requests: from then on the log says how long a host will take.
_LONG_DELAY = 10
_MANY = 20

# Where pages wait too, one robots.txt that strangers redirect here goes after so many of
# them.
_PAGES_FOR_A_STRANGER = 3


class DelayGroup:
    """Hosts and download slots whose requests go one at a time, a delay apart.

    The delay is counted from the end of the last request, not from its beginning: so it
    passes between the two at the server too, however long each takes to get there.
    Moments are those of the monotonic clock, in seconds.
    """

    __slots__ = (
        "alarm_at", "delays", "holder", "host", "keys", "last", "merged_into", "name",
        "not_before", "pages_in_a_row", "queues", "requests", "strangers", "told",
        "waited", "waiters", "waiting_since",
    )  # fmt: skip

    name: str
    """Of the host, or of the download slot, that came first."""

    keys: set[str]
    """All the hosts and download slots of the group."""

    merged_into: DelayGroup | None

    delays: dict[Origin, float]
    """What each origin asks for, in seconds."""

    holder: Request | BackQueue | object | None
    """What has the turn: the request that is on its way, the back queue whose next request
    it is, or a mark while other workers are asked."""

    host: str
    """Whose turn it is, by the name that workers share."""

    last: float
    """The end of the last request."""

    not_before: float
    """Until this moment other workers are not asked again for the turn."""

    queues: deque[BackQueue]
    """Back queues that wait for their turn."""

    waiters: deque[Waiter]
    """Requests that were not popped from a queue, and wait for their turn."""

    strangers: deque[Waiter]
    """Requests for robots.txt that other hosts have redirected here."""

    pages_in_a_row: int
    """How often strangers have waited while another went."""

    alarm_at: float | None
    """When it is next looked who may go, if that is set."""

    requests: int
    waiting_since: float | None

    waited: float
    """Seconds in which requests waited, and none was on its way."""

    told: bool
    """Whether the log says how long this takes."""

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
        """Seconds: the longest that is asked for."""
        return max(self.delays.values(), default=0.0)

    @property
    def free_at(self) -> float:
        return max(self.last + self.delay, self.not_before)

    @property
    def is_waited_for(self) -> bool:
        return bool(self.queues or self.waiters or self.strangers)

    def is_free(self, now: float) -> bool:
        return self.holder is None and self.free_at <= now

    def next(self) -> BackQueue | Waiter | None:
        """Who goes next of those that wait, and then waits no more."""
        is_strangers_turn = self.pages_in_a_row >= _PAGES_FOR_A_STRANGER
        if self.strangers and (is_strangers_turn or not (self.waiters or self.queues)):
            self.pages_in_a_row = 0
            return self.strangers.popleft()
        self.pages_in_a_row = self.pages_in_a_row + 1 if self.strangers else 0
        if self.waiters:
            return self.waiters.popleft()
        return self.queues.popleft() if self.queues else None

    def put_back(self, waiter: BackQueue | Waiter) -> None:
        """Let *waiter* be the next one after all."""
        if isinstance(waiter, BackQueue):
            self.queues.appendleft(waiter)
        else:
            self.waiters.appendleft(waiter)

    def take(self, holder: Request | BackQueue, now: float) -> float:
        """Give the turn to *holder*. Returns for how many seconds requests were held up
        by the delay alone.
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
        """The request is done; if it was answered from a cache, it does not count."""
        self.holder = None
        if fetched:
            self.last = now


class DelayGroups:
    """The groups by the names of their hosts and download slots."""

    def __init__(self) -> None:
        self._groups: dict[str, DelayGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, host: str, slot: str) -> DelayGroup | None:
        """The group of a request, if it has one."""
        group = self._groups.get(host)
        return group if group is not None or slot == host else self._groups.get(slot)

    def join(self, host: str, slot: str) -> DelayGroup:
        """The group of a host and a download slot, made if there is none; where each has
        one of its own until now, they become one.
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
        """The group that *group* has become a part of, if it has."""
        while group.merged_into is not None:
            group = group.merged_into
        return group

    def all(self) -> list[DelayGroup]:
        """Each once."""
        return list(dict.fromkeys(self._groups.values()))

    @property
    def have_waiters(self) -> bool:
        """Whether a request in the downloader waits for its turn."""
        return any(group.waiters or group.strangers for group in self.all())

    def drop(self, group: DelayGroup) -> None:
        for key in group.keys:
            del self._groups[key]


def host_of_waiter(waiter: BackQueue | Waiter) -> str:
    return waiter.key.host if isinstance(waiter, BackQueue) else host_of(waiter[0])


def log_delay(crawler: Crawler, group: DelayGroup) -> None:
    """Say how long a host will take, where that is long."""
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
