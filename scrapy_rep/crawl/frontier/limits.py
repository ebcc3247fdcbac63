"""Limits: decide when each request may be sent. This module has no Scrapy, no timers, no clock and no I/O.

A :class:`Limiter` stands for anything that limits requests: a host name, its crawl delay, its address, a download
slot of another name, the network of the crawler. A request needs room in all of its limiters. The scheduler
*plans* a request, and later the wire *sends* it. Planned and sent requests both count, so the scheduler never
plans more requests than may be sent.

Requests wait in one of two ways:

=================  =======================================================================
a :class:`Queue`   holds requests of the scheduler. It is empty; ready; parked at its site until
                   the rules are known; or parked at the first limiter that has no room. A ready
                   queue hands out a request that may be sent now, or one that the gate will refuse
a :class:`Waiter`  stands for one request outside the scheduler. It waits at the first limiter that
                   has no room, or at the site whose rules it needs
=================  =======================================================================

Each change of a limiter ends in :meth:`Limits.reconcile`, which lets queues and waiters go on in turns while
the limiter has room. The limits call nobody. Their owner reads the consequences from :attr:`Limits.decided`
(waiters that may go, or are refused), :attr:`Limits.urgent` and :attr:`Limits.wanted` (sites whose robots.txt is
to be fetched) and :attr:`Limits.has_news` (the scheduler has a request again), and calls :meth:`Limits.tick` at
the time ``Limits.alarms.first_at``. All times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy_rep.crawl.frontier.limiter import BackOff, DelayLimiter, Limiter
from scrapy_rep.crawl.frontier.network import Network
from scrapy_rep.crawl.frontier.sites import Event, FetchStage, Outage, Phase, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.origins import Origin

# In seconds: the first pause of a host that asks for a pause without saying how long; and the time before
# robots.txt is fetched again after a fetch without a result.
_FIRST_PAUSE = 1.0

# The seconds for which waiters let parked queues and planned requests go first. They cannot wait longer: a
# planned request may itself depend on a waiter, if the downloader is full of waiters, or if a component holds
# planned requests back until one of the waiters has ended.
_WAITERS_YIELD = 0.2

# The maximum number of sites without requests that are remembered because their robots.txt is unreachable.
_MAX_REFUSED = 20_000

# The maximum number of hosts in the statistics of slow hosts. Beyond that, the hosts that held up the crawl least
# are dropped.
_MAX_SLOWDOWNS = 1_000


class Requests(Protocol):
    """Stores the requests of a queue, in memory or elsewhere."""

    medium: str
    """Where the requests are, as Scrapy's stats name it: ``"memory"`` or ``"disk"``."""

    @property
    def count(self) -> int:
        """The number of requests."""

    def push(self, request: Any) -> None:
        """Add a new request. Raises ValueError if it cannot be kept."""

    def pop(self) -> Any:
        """Remove and return the request with the highest priority; None if it cannot be read."""

    def back(self, request: Any) -> None:
        """Put *request*, which was popped, back to the front of the queue, but behind those that were put back
        earlier.
        """

    def peek(self) -> Any:
        """Return one of the requests, from which the request for robots.txt takes over proxy and headers; None
        if the queue is empty.
        """


class Queue:
    """The requests of the scheduler that share a site, a download slot and all limiters."""

    __slots__ = (
        "host",
        "keeps_delay",
        "key",
        "network",
        "place",
        "requests",
        "site",
        "slot",
    )

    def __init__(
        self,
        key: Any,
        site: Site | None,
        host: Limiter,
        *,
        slot: Limiter | None = None,
        network: Network | None = None,
        keeps_delay: bool = True,
    ) -> None:
        """Create an empty queue.

        *site* is None if no robots.txt decides about the requests. *slot* is the limiter of the download slot; it
        defaults to *host*, the limiter of the host. *network* is None if the requests do not use the network.
        """
        self.key = key
        self.site = site
        self.host = host
        self.slot = slot or host
        self.network = network
        self.keeps_delay = keeps_delay
        self.requests: Any = None
        """The stored :class:`Requests`; None before the first request is pushed."""

        self.place: object = None
        """READY, the site or limiter where the queue is parked, or None while the queue is empty or not yet
        :meth:`Limits.filled`."""

    def __repr__(self) -> str:
        place = "ready" if self.place is READY else f"at {self.place!r}"
        return f"<Queue {self.key}: {self.count} requests, {place if self.place else 'idle'}>"

    @property
    def count(self) -> int:
        """The number of requests."""
        return 0 if self.requests is None else self.requests.count

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """The limiters in which a request needs room. The first one is that of the host."""
        network, host = self.network, self.host
        is_usual = host is self.slot and host.crawl_delay is host.address is None
        if is_usual and network is not None:
            return host, network.pages
        return self._with(None if network is None else network.pages)

    @property
    def robotstxt_limiters(self) -> tuple[Limiter, ...]:
        """The limiters in which a request for robots.txt needs room. The first one is that of the host."""
        return self._with(None if self.network is None else self.network.robotstxt)

    def refusing_limiter(self, now: float) -> Limiter | None:
        """Return the limiter, of host or download slot, that refuses all requests at *now* because its pauses are
        too long; None if neither does.
        """
        for limiter in (self.host, self.slot):
            if now < limiter.refuses_until:
                return limiter
        return None

    def _with(self, network: Limiter | None) -> tuple[Limiter, ...]:
        limiters = []
        for limiter in (
            (self.host,) if self.host is self.slot else (self.host, self.slot)
        ):
            limiters.append(limiter)
            if limiter.crawl_delay is not None and self.keeps_delay:
                limiters.append(limiter.crawl_delay)
        if self.host.address is not None:
            limiters.append(self.host.address)
        if network is not None:
            limiters.append(network)
        return tuple(limiters)


READY = object()


class Slowdown(NamedTuple):
    """How long the crawl delay of a host has held up the crawl."""

    seconds: float
    """The time in which requests waited for the delay while no request to the host was in flight."""

    key: str
    requests: int
    delay: float


class Stage(Enum):
    """Whether the limiters of a request in flight count it."""

    UNCOUNTED = "no limiter counts the request: it waits, or its way has ended"
    PLANNED = "its limiters keep room for the request, which is on its way to the wire"
    SENT = "the request is on the network, or waits in its download slot"


class Judgement(NamedTuple):
    """What the gate judged a request by when it allowed the request. If any of this has changed at the wire, the
    request is judged again.
    """

    url: str
    tokens: tuple[str, ...]
    """The product tokens of the crawler."""

    origin: Origin | None
    fresh_until: float
    """The wall-clock time at which the rules become stale; ``inf`` if no rules decided."""


class InFlight:
    """The state of one request, from when the scheduler plans it, a middleware first sees it or it waits for room,
    until its download has ended.

    These methods of :class:`Limits` change its stage:

    ===================  =========================================  =================
    method               when                                       stage afterwards
    ===================  =========================================  =================
    ``plan``             the scheduler takes it from its queue      PLANNED
    ``wait``             it has room; a robots.txt is planned,      PLANNED or SENT
                         any other request is at the wire
    ``unplan``           it gives up its room to wait               UNCOUNTED
    ``try_send, send``   the wire sends it                          SENT
    ``end``              it has ended, or was taken out of its      UNCOUNTED
                         download slot
    ===================  =========================================  =================
    """

    __slots__ = (
        "came_from_scheduler", "is_at_wire", "is_for_robotstxt", "judgement", "limiters", "may_return",
        "may_use_stale", "page_of", "queue", "report", "sent_at", "stage",
    )  # fmt: skip

    def __init__(
        self,
        queue: Queue,
        *,
        came_from_scheduler: bool = False,
        is_for_robotstxt: bool = False,
    ) -> None:
        self.queue = queue
        self.is_for_robotstxt = is_for_robotstxt
        self.limiters: tuple[Limiter, ...] = ()
        """The limiters that count the request as planned or sent. The first one is that of its host."""

        self.came_from_scheduler = came_from_scheduler
        """Whether the scheduler of this package has planned the request."""

        self.may_return = came_from_scheduler
        """Whether the request may go back to that scheduler to wait there. A request that a component has
        changed may not: on its second way, the component would change it once more."""

        self.stage = Stage.UNCOUNTED
        self.sent_at = -inf
        """When the request was sent; ``-inf`` if it has not reached the network."""

        self.may_use_stale = False
        """Whether the request may go by stale rules. One request may, the first after robots.txt was fetched:
        see :attr:`Site.holds_for_next`."""

        self.is_at_wire = False
        """Whether the request has reached the wire."""

        self.judgement: Judgement | None = None
        """None before the gate has allowed the request."""

        self.page_of = ""
        """The host whose budget counts the request as a page; empty if the request is not counted."""

        self.report: Any = None
        """What the gate reports when the request is sent; None if it reports nothing."""

    @property
    def needs(self) -> tuple[Limiter, ...]:
        """The limiters in which the request needs room."""
        queue = self.queue
        return queue.robotstxt_limiters if self.is_for_robotstxt else queue.limiters

    def __repr__(self) -> str:
        return f"<InFlight {self.queue.key}: {self.stage.name}>"


class Waiter:
    """A request outside the scheduler that waits for room in its limiters or for the rules of its site."""

    __slots__ = (
        "call",
        "counts_as_planned",
        "entry",
        "is_first",
        "may_continue",
        "site",
    )

    def __init__(
        self,
        entry: InFlight,
        *,
        counts_as_planned: bool = False,
        is_first: bool = False,
    ) -> None:
        """With *counts_as_planned*, the request is planned when it gets room; else it is at the wire, and counts
        as sent. With *is_first*, it goes before all other waiters.
        """
        self.entry = entry
        self.counts_as_planned = counts_as_planned
        self.is_first = is_first
        self.call: Any = None
        """The Deferred that the owner of the limits calls back when the waiter is decided."""

        self.site: Site | None = None
        """The site whose rules the request waits for; None if it waits for room."""

        self.may_continue = False
        """Whether the request goes on, once the waiter is decided: it has got room, or the fetch of robots.txt
        has ended, with whatever result. Otherwise it is refused, or has waited for too long."""

    def has_room(self, limiter: Limiter, now: float) -> bool:
        """Whether *limiter* has room for the request now."""
        if not limiter.can_send(now):
            return False
        is_free = limiter.planned + limiter.sent < limiter.concurrency_now
        return is_free or now >= limiter.waiters_go_at


class _ReadyQueues:
    """The queues that are ready, in the order of their turns: the download slot with the fewest requests in
    flight is next, and among equals the slot that has waited longest. Each operation takes O(1).
    """

    def __init__(self) -> None:
        self._rows: list[OrderedDict[Limiter, None]] = []
        """At index *n*: the slots with *n* requests in flight."""

        self.count = 0
        """The number of ready queues."""

    def add(self, queue: Queue) -> None:
        slot = queue.slot
        if not slot.ready:
            slot.ready = OrderedDict()
            self.moved(slot)
        slot.ready[queue] = None
        self.count += 1

    def discard(self, queue: Queue) -> None:
        """Remove *queue*, which is ready."""
        slot = queue.slot
        assert slot.ready is not None
        del slot.ready[queue]
        self.count -= 1
        if not slot.ready:
            slot.ready = None
            del self._rows[slot.planned + slot.sent][slot]

    def first(self) -> Queue | None:
        """Return the queue whose turn it is; None if no queue is ready."""
        for row in self._rows:
            if row:
                ready = next(iter(row)).ready
                assert ready is not None
                queue: Queue = next(iter(ready))
                return queue
        return None

    def put_last(self, queue: Queue) -> None:
        """Move *queue* behind the other queues of its slot, and the slot behind its equals."""
        slot = queue.slot
        assert slot.ready is not None
        slot.ready.move_to_end(queue)
        self._rows[slot.planned + slot.sent].move_to_end(slot)

    def moved(self, slot: Limiter, before: int | None = None) -> None:
        """Put *slot*, which has ready queues, where its number of requests in flight belongs. *before* is the
        number until now; None if the slot is new here.
        """
        if before is not None:
            del self._rows[before][slot]
        number = slot.planned + slot.sent
        while len(self._rows) <= number:
            self._rows.append(OrderedDict())
        self._rows[number][slot] = None


class _AlarmHeap:
    """The limiters and sites that :meth:`Limits.tick` has something to do for, ordered by their ``alarm_at``."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Limiter | Site]] = []
        """Entries whose time differs from the ``alarm_at`` of their owner are outdated."""

        self._number = count()
        self.first_at = inf
        """The time of the first alarm; ``inf`` if no alarm is set."""

    def set(self, owner: Limiter | Site, at: float) -> None:
        """Set an alarm for *owner* at the time *at*, unless it has an earlier one."""
        if at < owner.alarm_at:
            owner.alarm_at = at
            heappush(self._heap, (at, next(self._number), owner))
            self.first_at = min(self.first_at, at)

    def due(self, now: float) -> Iterator[Limiter | Site]:
        """Yield each owner whose alarm is due at *now*, and clear the alarm."""
        while self._heap and self._heap[0][0] <= now:
            at, _, owner = heappop(self._heap)
            if at == owner.alarm_at:
                owner.alarm_at = inf
                yield owner
        self.first_at = self._heap[0][0] if self._heap else inf


class Limits:
    """The limiters, sites, queues and requests in flight of a crawl."""

    def __init__(self, wait_timeout: float) -> None:
        """*wait_timeout* is the longest time in seconds for which requests wait for a host that asks for
        pauses.
        """
        self.wait_timeout = wait_timeout
        self.network = Network(Limiter("network"), Limiter("robots.txt"), wait_timeout)
        self.limiters: dict[str, Limiter] = {}
        """The limiters of hosts and download slots, by key."""

        self.addresses: dict[str, Limiter] = {}
        """The limiters of IP addresses."""

        self.sites: dict[Origin, Site] = {}
        self.queues: dict[Any, Queue] = {}
        self.in_flight: dict[Any, InFlight] = {}
        """The requests in flight: planned by the scheduler, or on their way from the gate to the spider."""

        self.ready = _ReadyQueues()
        self.decided: deque[Waiter] = deque()
        """The waiters that may go or are refused, for the owner to take."""

        self.urgent: deque[Site] = deque()
        """The sites whose robots.txt is to be fetched now. :meth:`next_wanted` skips those that no longer need
        it."""

        self.wanted: deque[Site] = deque()
        """The sites whose robots.txt is to be fetched when more ready queues are needed."""

        self.has_news = False
        """Whether a queue has become ready. The owner sets this to False when the engine knows."""

        self.slowdowns: dict[str, Slowdown] = {}
        """How long the delay of each host has held up the crawl."""

        self._idle: dict[Queue, None] = {}
        """The queues without requests, the longest idle first."""

        self.alarms = _AlarmHeap()

    def __repr__(self) -> str:
        phases = Counter(site.phase.name for site in self.sites.values())
        words = [f"{number} sites {name}" for name, number in sorted(phases.items())]
        entries = self.in_flight.values()
        words += [
            f"{len(self.limiters)} limiters",
            f"{sum(entry.stage is Stage.PLANNED for entry in entries)} requests planned",
            f"{sum(entry.stage is Stage.SENT for entry in entries)} sent",
            f"{self.ready.count} queues ready",
        ]
        if self.network.is_gone:
            words.append("network gone")
        return f"<Limits: {', '.join(words)}>"

    # Limiters, sites and queues.

    def limiter(self, key: str) -> Limiter:
        """Return the limiter of the host or download slot *key*, and create it if there is none."""
        limiter = self.limiters.get(key)
        if limiter is None:
            limiter = self.limiters[key] = Limiter(key)
        return limiter

    def site(self, origin: Origin) -> Site:
        """Return the site of *origin*, and create it if there is none."""
        site = self.sites.get(origin)
        if site is None:
            site = self.sites[origin] = Site(origin)
        return site

    def add(self, queue: Queue) -> None:
        """Add *queue*, which is empty."""
        self.queues[queue.key] = queue
        self._idle[queue] = None
        if queue.site is not None:
            queue.site.users += 1
        for limiter in {queue.host, queue.slot}:
            limiter.users += 1

    def sweep(self, now: float) -> bool:
        """Forget the queues, limiters and sites that no request needs and that have nothing to remember. Return
        whether any queue, or any limiter of a host or slot, was forgotten.
        """
        before = len(self._idle), len(self.limiters)
        in_use = {entry.queue for entry in self.in_flight.values()}
        for shared in (*self.addresses.values(), *self.network.limiters):
            in_use.update(waiter.entry.queue for waiter in shared.waiters or ())
        for queue in list(self._idle):
            if queue in in_use or not self._may_forget(queue, now):
                continue
            del self._idle[queue], self.queues[queue.key]
            for limiter in {queue.host, queue.slot}:
                limiter.users -= 1
            if queue.site is not None:
                queue.site.users -= 1
                if not queue.site.users:
                    del self.sites[queue.site.origin]
        for limiter in list(self.limiters.values()):
            if not limiter.users and limiter.is_quiet(now):
                del self.limiters[limiter.key]
        used_addresses = {limiter.address for limiter in self.limiters.values()}
        for address, limiter in list(self.addresses.items()):
            if limiter not in used_addresses and limiter.is_quiet(now):
                del self.addresses[address]
        return (len(self._idle), len(self.limiters)) != before

    def _may_forget(self, queue: Queue, now: float) -> bool:
        """Whether *queue*, which is empty, may be forgotten, and its site as well if it has no other queue."""
        if not (queue.host.is_quiet(now) and queue.slot.is_quiet(now)):
            return False
        site = queue.site
        if site is None or site.users > 1:
            return True
        if site.fetch_stage is FetchStage.UNDER_WAY or site.has_waiting:
            return False
        return (
            site.outage is None
            or now >= site.outage.retry_at
            or len(self.sites) > _MAX_REFUSED
        )

    # The scheduler plans.

    def filled(self, queue: Queue, now: float) -> None:
        """Note that *queue* has requests. If it was empty before, or is of an earlier run, it begins to take turns."""
        if queue.place is None and queue.count:
            self._idle.pop(queue, None)
            self._place(queue, now)

    def may_plan(self, queue: Queue, now: float) -> bool:
        """Whether *queue*, the first one that is ready, may hand out its next request: one that may be sent now,
        or one that the gate will refuse. If not, the queue is parked.
        """
        limiters = queue.limiters
        obstacle = self._obstacle(queue, limiters, now)
        if obstacle is None or self._is_to_be_refused(queue, now):
            return True
        self.ready.discard(queue)
        self._place(queue, now)
        self._reconcile_all(limiters, now)
        return False

    def plan(self, queue: Queue, now: float) -> InFlight:
        """Plan the next request of *queue*, and return the entry for it. A request that will be refused takes no
        room. Afterwards, the queue is ready again for its next request, unless waiters go first.
        """
        limiters = queue.limiters
        entry = InFlight(queue, came_from_scheduler=True)
        site = queue.site
        if site is not None and site.holds_for_next:
            self._claim_rules(entry, site)
        if not self._is_to_be_refused(queue, now):
            self._count_planned(entry, limiters)
            for limiter in limiters:
                limiter.is_queue_next = False
        if not queue.requests.count:
            self.ready.discard(queue)
            queue.place = None
            self._idle[queue] = None
        else:
            for limiter in limiters:
                if limiter.waiters:
                    self.ready.discard(queue)
                    self._place(queue, now)
                    break
            else:
                self.ready.put_last(queue)
        self._reconcile_all(limiters, now)
        return entry

    def _place(self, queue: Queue, now: float) -> None:
        """Make *queue*, which has requests, ready, or park it at what it has to wait for."""
        site = queue.site
        obstacle = self._obstacle(queue, queue.limiters, now)
        if obstacle is not None and self._is_to_be_refused(queue, now):
            if site is not None and now >= site.expires:
                self.want(site, now)
            obstacle = None
        if obstacle is None:
            queue.place = READY
            self.ready.add(queue)
            self.has_news = True
            return
        queue.place = obstacle
        if isinstance(obstacle, Limiter):
            if obstacle.parked is None:
                obstacle.parked = OrderedDict()
            obstacle.parked[queue] = None
            self._note_waiting(obstacle, now)
            self._set_alarm(obstacle, now)
        else:
            if obstacle.parked is None:
                obstacle.parked = []
            obstacle.parked.append(queue)
            self.want(obstacle, now)

    def _obstacle(
        self, queue: Queue, limiters: tuple[Limiter, ...], now: float
    ) -> Site | Limiter | None:
        """Return the site or limiter that *queue* has to wait for; None if its next request may go now.
        *limiters* are those of the queue.
        """
        site = queue.site
        if site is not None and now >= site.expires and not site.holds_for_next:
            return site
        for limiter in limiters:
            if not limiter.can_plan(now):
                return limiter
        return None

    def _is_to_be_refused(self, queue: Queue, now: float) -> bool:
        """Whether the gate will refuse the requests of *queue*, so that they are handed out without room."""
        is_unreachable = queue.site is not None and queue.site.phase is Phase.REFUSED
        return is_unreachable or queue.refusing_limiter(now) is not None

    def _claim_rules(self, entry: InFlight, site: Site) -> None:
        """Let the request of *entry*, the next one of *site*, go by the rules even if they become stale. A
        request for robots.txt does not need them, and leaves them to the next request.
        """
        if not entry.is_for_robotstxt:
            entry.may_use_stale, site.holds_for_next = True, False

    # The wire sends.

    def try_send(self, entry: InFlight, now: float) -> bool:
        """Count the request of *entry* as sent if it may be sent now. Return whether it may."""
        limiters = entry.needs
        for limiter in limiters:
            is_full = limiter.planned + limiter.sent >= limiter.concurrency_now
            is_planned = entry.stage is Stage.PLANNED
            if not limiter.can_send(now) or (is_full and not is_planned):
                return False
        self._send(entry, limiters, now)
        return True

    def send(self, entry: InFlight, now: float) -> None:
        """Count the request of *entry* as sent, whether or not there is room: it is on the network."""
        self._send(entry, entry.needs, now)

    def _send(self, entry: InFlight, limiters: tuple[Limiter, ...], now: float) -> None:
        before, site = entry.limiters, entry.queue.site
        if site is not None and site.holds_for_next:
            self._claim_rules(entry, site)
        is_moved = (
            limiters != before
        )  # The request was not planned, or needs other limiters since it was planned.
        if is_moved:
            self._count_planned(entry, before, -1)
            self._count_planned(entry, limiters)
        for limiter in limiters:
            limiter.planned -= 1
            limiter.sent += 1
        entry.stage, entry.sent_at = Stage.SENT, now
        if limiters[0].crawl_delay in limiters:
            self._note_slowdown(limiters[0], now)
        if is_moved:
            self._reconcile_all(before, now)

    def wait(self, waiter: Waiter, now: float) -> None:
        """Decide *waiter* as soon as its request has room, or at once if its host refuses requests."""
        limiters = waiter.entry.needs
        if waiter.entry.queue.refusing_limiter(now) is not None:
            self.decided.append(waiter)
            return
        for limiter in limiters:
            if not waiter.has_room(limiter, now):
                if limiter.waiters is None:
                    limiter.waiters = deque()
                (
                    limiter.waiters.appendleft
                    if waiter.is_first
                    else limiter.waiters.append
                )(waiter)
                self._note_waiting(limiter, now)
                self._set_alarm(limiter, now)
                return
        waiter.may_continue = True
        if waiter.counts_as_planned:
            self._count_planned(waiter.entry, limiters)
        else:
            self._send(waiter.entry, limiters, now)
        self.decided.append(waiter)

    def leave(self, waiter: Waiter, now: float) -> None:
        """Stop *waiter* from waiting, wherever it waits."""
        for limiter in waiter.entry.needs:
            if limiter.waiters is not None and waiter in limiter.waiters:
                limiter.waiters.remove(waiter)
                self.reconcile(limiter, now)
        site = waiter.site
        if site is not None and site.waiters and waiter in site.waiters:
            site.waiters.remove(waiter)

    def unplan(self, entry: InFlight, now: float) -> None:
        """Free the room of the request of *entry* if it is planned but not sent."""
        if entry.stage is not Stage.PLANNED:
            return
        limiters = entry.limiters
        self._count_planned(entry, limiters, -1)
        self._reconcile_all(limiters, now)

    def end(self, entry: InFlight, now: float, *, is_withdrawn: bool = False) -> None:
        """Free the room of the request of *entry*, which has ended. If it was sent, the delay of its host begins,
        unless the request *is_withdrawn*, so that it never reached the network.
        """
        if entry.stage is not Stage.SENT:
            self.unplan(entry, now)
            return
        limiters, entry.stage, entry.limiters = entry.limiters, Stage.UNCOUNTED, ()
        for limiter in limiters:
            before = limiter.planned + limiter.sent
            limiter.sent -= 1
            limiter.waiters_go_at = inf
            if limiter.ready:
                self.ready.moved(limiter, before)
            if is_withdrawn:
                continue
            limiter.ended_at = now
            if limiter.delay:
                limiter.next_at = max(limiter.next_at, now + limiter.delay)
        self._reconcile_all(limiters, now)

    def _count_planned(
        self, entry: InFlight, limiters: tuple[Limiter, ...], change: int = 1
    ) -> None:
        """Count the request of *entry* as planned in *limiters*; with a *change* of -1, stop counting it."""
        if change > 0:
            entry.stage, entry.limiters = Stage.PLANNED, limiters
        else:
            entry.stage, entry.limiters = Stage.UNCOUNTED, ()
        for limiter in limiters:
            before = limiter.planned + limiter.sent
            limiter.planned += change
            if limiter.ready:
                self.ready.moved(limiter, before)

    # Waiting requests go on.

    def reconcile(self, limiter: Limiter, now: float) -> None:
        """Let waiters and parked queues of *limiter* go on in turns while it has room. If the limiter refuses
        requests, all of them go on, to be refused.

        After a waiter, a parked queue is next (``is_queue_next``), and planned requests go before waiters, since
        they hold room already. But a waiter lets them go first only for 0.2 s (``waiters_go_at``): one of them
        may depend on the waiter.
        """
        if now < limiter.refuses_until:
            self._release(limiter, now)
            return
        while True:
            are_waiters_next = limiter.waiters and now >= limiter.waiters_go_at
            if limiter.parked and limiter.can_plan(now) and not are_waiters_next:
                queue, _ = limiter.parked.popitem(last=False)
                self._place(queue, now)
                if queue.place is READY:
                    break  # The next queue has its turn when a request of this one is planned.
            elif limiter.waiters and limiter.waiters[0].has_room(limiter, now):
                limiter.is_queue_next = True
                self.wait(limiter.waiters.popleft(), now)
            else:
                break
        if limiter.waiters or limiter.parked:
            self._note_waiting(limiter, now)
            self._set_alarm(limiter, now)
        else:
            limiter.waiters = limiter.parked = None

    def _reconcile_all(self, limiters: tuple[Limiter, ...], now: float) -> None:
        for limiter in limiters:
            if limiter.waiters or limiter.parked:
                self.reconcile(limiter, now)

    def _release(self, limiter: Limiter, now: float) -> None:
        """Place all waiters and queues of *limiter* anew: they may have to wait for another limiter now."""
        waiters, limiter.waiters = limiter.waiters or (), None
        parked, limiter.parked = limiter.parked or (), None
        for waiter in waiters:
            self.wait(waiter, now)
        for queue in parked:
            self._place(queue, now)

    def _note_waiting(self, limiter: Limiter, now: float) -> None:
        """Note since when requests wait for a crawl delay alone, for :attr:`slowdowns`."""
        if not isinstance(limiter, DelayLimiter) or not limiter.delay:
            return
        if limiter.waiting_since is None and not (limiter.planned or limiter.sent):
            limiter.waiting_since = now

    def _set_alarm(self, limiter: Limiter, now: float) -> None:
        at = max(limiter.next_at, limiter.slot_free_at)
        if at > now:
            self.alarms.set(limiter, at)
        if limiter.waiters and limiter.can_send(now):
            limiter.waiters_go_at = min(limiter.waiters_go_at, now + _WAITERS_YIELD)
            self.alarms.set(limiter, limiter.waiters_go_at)

    # Delays and pauses.

    def set_delay(
        self, host: Limiter, origin: Origin, delay: float, now: float, *, since: float
    ) -> None:
        """Keep *delay* seconds between requests to *host*, as the robots.txt of *origin* asks; 0 for no delay. The first
        delay begins with the last answer, or at the time *since* at which robots.txt was fetched, whichever is later.
        """
        limiter = host.crawl_delay
        if limiter is None:
            if not delay:
                return
            limiter = host.crawl_delay = DelayLimiter(f"{host.key} delay")
            self._count_in_flight(host, limiter)
        if delay and origin not in limiter.delays:
            limiter.next_at = max(limiter.next_at, max(since, host.ended_at) + delay)
        limiter.set_delay(origin, delay)
        self.reconcile(limiter, now)

    def set_address(
        self, host: Limiter, address: str, concurrency: int, now: float
    ) -> None:
        """Note that *host* is at *address*: all hosts there together have at most *concurrency* requests in
        flight.
        """
        before, limiter = host.address, self.addresses.get(address)
        if limiter is None:
            name = f"address {address}"
            limiter = self.addresses[address] = Limiter(name, concurrency)
        if limiter is not before:
            host.address = limiter
            self._count_in_flight(host, limiter)
            if before is not None:
                self._release(before, now)

    def _count_in_flight(self, host: Limiter, limiter: Limiter) -> None:
        """Have *limiter*, which is new for *host*, count the requests to *host* that are in flight already."""
        for entry in self.in_flight.values():
            if host in entry.limiters and limiter not in entry.limiters:
                entry.limiters += (limiter,)
                limiter.planned += entry.stage is Stage.PLANNED
                limiter.sent += entry.stage is Stage.SENT

    def back_off(
        self,
        limiter: Limiter,
        now: float,
        *,
        asked: float | None,
        cap: float,
        sent_at: float,
        has_failed: bool = False,
    ) -> bool:
        """Pause *limiter* for the *asked* seconds; if they are None, for 1, 2, 4, ... up to *cap* seconds.

        The seconds that a host has *asked* always count. A pause without them doubles only if the request that
        caused it was sent, at *sent_at*, after the last pause.
        *has_failed* says that the cause is a failed connection, not an answer. Return whether a new pause
        begins, rather than the last one continues.
        """
        back_off = limiter.back_off
        if back_off is None:
            back_off = limiter.back_off = BackOff(since=now)
        elif back_off.concurrency > 1:  # A request has succeeded since.
            back_off.since = now
        is_new = sent_at >= back_off.until
        if is_new:
            back_off.own_pause = min(max(2 * back_off.own_pause, _FIRST_PAUSE), cap)
        delay = 0.0 if limiter.crawl_delay is None else limiter.crawl_delay.delay
        seconds = max(back_off.own_pause if asked is None else asked, delay)
        if now + seconds > back_off.until:
            back_off.unmeasured_pause, back_off.paused_at = round(seconds, 3), now
        if has_failed:
            back_off.failed_until = max(back_off.failed_until, now + seconds)
        else:
            back_off.asked_until = max(back_off.asked_until, now + seconds)
        back_off.concurrency = 1
        self._back_off_changed(limiter, now)
        return is_new

    def hold(self, limiter: Limiter, until: float, now: float) -> None:
        """Send no request to the host of *limiter* before the time *until*, because another worker does."""
        limiter.held_until = until
        if until > limiter.next_at:
            limiter.next_at = until
            self._set_alarm(limiter, now)

    def resume_back_off(
        self,
        limiter: Limiter,
        now: float,
        *,
        concurrency: int,
        own_pause: float,
        since: float,
    ) -> None:
        """Continue the back-off that another worker has begun for the host of *limiter*. The other parameters are
        attributes of :class:`BackOff`.
        """
        if limiter.back_off is None:
            limiter.back_off = BackOff(since)
        back_off = limiter.back_off
        back_off.since = min(back_off.since, since)
        back_off.own_pause = max(back_off.own_pause, own_pause)
        back_off.concurrency = concurrency
        self._back_off_changed(limiter, now)

    def resume_pause(self, limiter: Limiter, now: float, *, until: float) -> None:
        """Keep the pause until *until* for which the host of *limiter* has asked an earlier run or another
        worker.
        """
        if until > now:
            if limiter.back_off is None:
                limiter.back_off = BackOff(since=now)
            elif limiter.back_off.until <= now:
                # What the host has answered others since the last pause is not known: it may have been a success.
                limiter.back_off.since = now
            limiter.back_off.asked_until = max(limiter.back_off.asked_until, until)
            limiter.back_off.paused_at = now
            limiter.back_off.concurrency = 1
            self._back_off_changed(limiter, now)

    def succeeded(self, limiter: Limiter, now: float, *, sent_at: float) -> bool:
        """Raise the concurrency of *limiter* by one, because its host has answered a request, sent at *sent_at*,
        without asking for a pause. The back-off ends when the concurrency is complete. Return whether this
        is the first success of the back-off.
        """
        back_off = limiter.back_off
        if back_off is None or sent_at < back_off.until:
            return False
        is_first, back_off.has_answered = not back_off.has_answered, True
        back_off.own_pause = 0.0
        back_off.concurrency += 1
        if back_off.concurrency >= limiter.concurrency:
            limiter.back_off = None
        self._back_off_changed(limiter, now)
        return is_first

    def forget_failures(self, limiter: Limiter, now: float) -> None:
        """Cancel the pause of *limiter* for failed connections, since the network of the crawler was their cause.
        A pause for which the host has asked goes on.
        """
        back_off = limiter.back_off
        if back_off is None or back_off.failed_until == -inf:
            return
        back_off.failed_until = -inf
        if back_off.asked_until <= now:
            limiter.back_off = None
        self._back_off_changed(limiter, now)
        self._release(limiter, now)

    def _back_off_changed(self, limiter: Limiter, now: float) -> None:
        back_off = limiter.back_off
        limiter.set_concurrency(limiter.concurrency)
        paused_until = -inf if back_off is None else back_off.until
        limiter.next_at = max(paused_until, limiter.held_until)
        limiter.refuses_until = -inf
        if back_off is not None and now < back_off.until:
            is_long = back_off.until - now > self.wait_timeout
            has_lasted = now - back_off.since >= self.wait_timeout
            if is_long or (has_lasted and back_off.concurrency == 1):
                limiter.refuses_until = back_off.until
        self.reconcile(limiter, now)

    # Sites.

    def want(self, site: Site, now: float, *, is_urgent: bool = False) -> None:
        """Have the robots.txt of *site* fetched, but not before it may be asked for again. With *is_urgent*, it is
        fetched even if enough queues are ready.
        """
        site.happens(Event.REQUEST)
        retry_at = -inf if site.outage is None else site.outage.retry_at
        fetch = FetchStage.URGENT if is_urgent else FetchStage.WANTED
        if now < retry_at:
            self.alarms.set(site, retry_at)
        elif site.fetch_stage < fetch:
            site.fetch_stage = fetch
            (self.urgent if is_urgent else self.wanted).append(site)

    def next_wanted(self, *, is_needed: bool) -> Site | None:
        """Return the next site whose robots.txt is to be fetched; None if there is none. If no more ready queues
        are needed (not *is_needed*), only urgent sites count.
        """
        for sites in (self.urgent, self.wanted) if is_needed else (self.urgent,):
            while sites:
                site = sites.popleft()
                if site.fetch_stage is FetchStage.UNDER_WAY:
                    continue  # It was urgent, too.
                is_wanted = site.fetch_stage is not FetchStage.NONE
                if is_wanted and (site.has_waiting or site.phase is Phase.REFUSED):
                    self.begin_fetch(site)
                    return site
                site.fetch_stage = FetchStage.NONE
        return None

    def begin_fetch(self, site: Site) -> None:
        """Note that the robots.txt of *site* is being fetched."""
        site.fetch_stage = FetchStage.UNDER_WAY

    def end_fetch(self, site: Site) -> None:
        """Note that the fetch for *site* has ended, with or without a result."""
        site.fetch_stage = FetchStage.NONE

    def learned(self, site: Site, now: float, expires: float) -> None:
        """Note that the rules of *site* are known. They are fresh until the time *expires*, and hold for the next
        request in any case.
        """
        site.happens(Event.KNOWN)
        site.expires, site.holds_for_next = expires, True
        site.outage = site.templates = None
        self._release_site(site, now)

    def unreachable(
        self,
        site: Site,
        now: float,
        retry_at: float,
        *,
        wait: float,
        is_asked: bool,
        result: Any = None,
    ) -> None:
        """Note that the robots.txt of *site* is unreachable. Its requests wait for *wait* seconds from the first
        time on, and are refused afterwards.

        robots.txt is fetched again at *retry_at*. Unless the host has asked for that time (*is_asked*), this
        happens earlier if requests would be refused before. *result* becomes ``Outage.last_result``.
        """
        if site.outage is None:
            site.outage = Outage(now, now + wait)
        outage = site.outage
        # Requests wait longer for a host that has a server now, and had none at first.
        outage.until = max(outage.until, outage.since + wait)
        if not is_asked and now < outage.until:
            retry_at = min(retry_at, outage.until)
        outage.retry_at, outage.last_result = retry_at, result
        is_too_long = now >= outage.until or retry_at > outage.until
        site.happens(Event.GIVEN_UP if is_too_long else Event.UNREACHABLE)
        self._release_site(site, now)

    def no_result(self, site: Site, now: float) -> None:
        """Note that the fetch for *site* has ended without a result. It is repeated after a pause if any request
        waits for the rules.
        """
        if site.has_waiting:
            self.alarms.set(site, now + _FIRST_PAUSE)
        else:
            site.happens(Event.NO_RESULT)

    def wait_for_rules(self, waiter: Waiter, site: Site, now: float) -> None:
        """Decide *waiter* when the rules of *site* are known, or known to be unreachable."""
        waiter.site = site
        if site.waiters is None:
            site.waiters = []
        site.waiters.append(waiter)
        self.want(site, now, is_urgent=True)

    def _release_site(self, site: Site, now: float) -> None:
        """Let all waiters and queues go on that wait for the rules of *site*."""
        waiters, site.waiters = site.waiters or (), None
        for waiter in waiters:
            waiter.may_continue = True
            self.decided.append(waiter)
        parked, site.parked = site.parked or (), None
        for queue in parked:
            self._place(queue, now)

    # The network of the crawler.

    def pause_network(self, until: float, now: float) -> None:
        """Send no request before the time *until*, because the machine has no more files, ports or memory."""
        for limiter in self.network.limiters:
            limiter.next_at = max(limiter.next_at, until)
            self._set_alarm(limiter, now)

    def network_is_back(self, now: float, since: float) -> None:
        """Let all requests go on that wait for the network, which was gone from *since* until *now*. If it was
        certain that the network was gone, no pause or outage is blamed on a host for that time.
        """
        network, seconds = self.network, now - since
        if network.is_certain:
            self._forget_outage(since, seconds, now)
        for limiter in network.limiters:
            self._release(limiter, now)

    def _forget_outage(self, since: float, seconds: float, now: float) -> None:
        for site in self.sites.values():
            if site.outage is not None:
                if site.outage.since >= since:
                    site.outage.retry_at = now
                    self.alarms.set(site, now)
                site.outage.since += seconds
                site.outage.until += seconds
        for limiter in list(self.limiters.values()):
            if limiter.back_off is not None:
                limiter.back_off.since += seconds
                if limiter.back_off.failed_until >= since:
                    self.forget_failures(limiter, now)

    # Time.

    def tick(self, now: float) -> None:
        """Reconcile the limiters, and have fetched the robots.txt of the sites, whose alarms are due."""
        for owner in self.alarms.due(now):
            if isinstance(owner, Limiter):
                self.reconcile(owner, now)
            elif owner.has_waiting:
                self.want(owner, now, is_urgent=bool(owner.waiters))

    # For the log.

    def _note_slowdown(self, host: Limiter, now: float) -> None:
        """Add to :attr:`slowdowns` the time for which only the delay of *host* has held up the request that is sent now.
        Time in which its download slot or a pause held it up as well is not counted.
        """
        limiter = host.crawl_delay
        assert limiter is not None
        since, limiter.waiting_since = limiter.waiting_since, None
        begins = inf if since is None else max(since, host.slot_due_at, host.next_at)
        seconds = max(min(now, limiter.next_at) - begins, 0.0)
        before = self.slowdowns.get(host.key, Slowdown(0.0, host.key, 0, 0.0))
        self.slowdowns[host.key] = Slowdown(
            before.seconds + seconds, host.key, before.requests + 1, limiter.delay
        )
        if len(self.slowdowns) > _MAX_SLOWDOWNS:
            longest = sorted(self.slowdowns.values(), reverse=True)
            self.slowdowns = {
                slowdown.key: slowdown for slowdown in longest[: _MAX_SLOWDOWNS // 2]
            }

    def waiting(self) -> tuple[int, int, Limiter | None]:
        """Return the number of requests that wait in parked queues or for room in a limiter, the number of hosts
        they go to, and the limiter of those that may be sent first; None if no request waits at a limiter.
        """
        limiters = list(self.limiters.values())
        limiters += [host.crawl_delay for host in limiters if host.crawl_delay]
        queues = [queue for site in self.sites.values() for queue in site.parked or ()]
        requests, first = 0, None
        hosts: set[Limiter] = set()
        for limiter in limiters:
            waiting = [waiter.entry.queue for waiter in limiter.waiters or ()]
            hosts.update(queue.host for queue in waiting)
            requests += len(waiting)
            queues += limiter.parked or ()
            is_first = first is None or limiter.next_at < first.next_at
            if (limiter.waiters or limiter.parked) and is_first:
                first = limiter
        hosts.update(queue.host for queue in queues)
        return requests + sum(queue.count for queue in queues), len(hosts), first
