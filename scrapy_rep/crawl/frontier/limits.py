"""When a request may be sent: limiters, queues and waiters. No Scrapy, no timers, no clock, no I/O.

Whatever limits requests is a :class:`Limiter`: a host name, its crawl delay, its address, a download slot of
another name, the network of the crawler. A request needs room in all of its limiters. The scheduler *plans* a
request, and the wire *sends* it; both count, so that no more is planned than could be sent.

Whatever waits is in one place:

=================  =======================================================================
a :class:`Queue`   of requests in the scheduler is empty, ready (to be sent, or handed out so that
                   the gate refuses it), parked at its site while its rules are not known, or
                   parked at one limiter that has no room
a :class:`Waiter`  for a request that is past the scheduler is in the line of one limiter
=================  =======================================================================

Each change of a limiter ends in :meth:`Limits.reconcile`, which lets go on what waits there, as far as
it may. Queues and waiters take turns. Nobody is called: what follows is in :attr:`Limits.decided` (waiters
that may go, or are refused), :attr:`Limits.urgent` and :attr:`Limits.wanted` (sites whose robots.txt is to
be fetched) and :attr:`Limits.has_news` (the scheduler has a request again). When to call
:meth:`Limits.tick` is one number, ``Limits.alarms.first_at``. All times are in seconds, on any clock that only
goes forward.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scrapy_rep.crawl.frontier.limiter import BackOff, Limiter
from scrapy_rep.crawl.frontier.network import Network
from scrapy_rep.crawl.frontier.sites import Event, Outage, Phase, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.origins import Origin

# The first pause of a host that does not say how long it wants, and the pause after a fetch of
# robots.txt that has ended without a result. In seconds.
_FIRST_PAUSE = 1.0

# The seconds for which those that wait at the wire let a queue, and what is planned, go first. Not longer: it
# may be that the downloader is full of those that wait, or that a component holds what is planned until one
# of them has ended.
_LINE_WAITS = 0.2

# The number of refused sites that are remembered without any requests that wait.
_MAX_REFUSED = 20_000

# Beyond this number, the hosts that have slowed down the crawl least are forgotten.
_MAX_SLOWDOWNS = 1_000


class Requests(Protocol):
    """The requests of a queue, in memory or elsewhere."""

    medium: str
    """Where they are, for the stats of Scrapy."""

    @property
    def count(self) -> int:
        """How many there are."""

    def push(self, request: Any) -> None:
        """Add a new request. Raises ValueError if it cannot be kept."""

    def pop(self) -> Any:
        """Remove and return the best request; None if it cannot be read."""

    def back(self, request: Any) -> None:
        """Add *request*, which was popped, again: it is the next one."""

    def peek(self) -> Any:
        """Return a request that waits, from which a request for robots.txt takes over proxy and headers;
        None if there is none.
        """


class Queue:
    """The requests of the scheduler that share site, limiters and download slot."""

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
        """*site* is None if no robots.txt decides. *slot* is the limiter of the download slot, by default
        that of the *host*. Without a *network*, requests do not need it.
        """
        self.key = key
        self.site = site
        self.host = host
        self.slot = slot or host
        self.network = network
        self.keeps_delay = keeps_delay
        self.requests: Any = None
        """Its :class:`Requests`; None before the first one is pushed."""

        self.place: object = None
        """READY, the site or the limiter where it is parked, or None while it is empty."""

    def __repr__(self) -> str:
        place = "ready" if self.place is READY else f"at {self.place!r}"
        return f"<Queue {self.key}: {self.count} requests, {place if self.place else 'idle'}>"

    @property
    def count(self) -> int:
        """The number of its requests."""
        return 0 if self.requests is None else self.requests.count

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """What a request needs room in. The first is that of the host."""
        network, host = self.network, self.host
        is_usual = host is self.slot and host.crawl_delay is host.address is None
        if is_usual and network is not None:
            return host, network.pages
        return self._with(None if network is None else network.pages)

    @property
    def robotstxt_limiters(self) -> tuple[Limiter, ...]:
        """What a request for robots.txt needs room in. The first is that of the host."""
        return self._with(None if self.network is None else self.network.robotstxt)

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
    """How long the delay of a host has held up the crawl."""

    seconds: float
    """The time in which requests waited for the delay, and none was in flight."""

    key: str
    requests: int
    delay: float


class InFlight:
    """A request on its way: planned by the scheduler, or past it, until its download has ended."""

    __slots__ = (
        "is_at_wire", "is_for_robotstxt", "is_of_scheduler", "is_planned", "is_sent", "judged", "judged_until",
        "limiters", "may_use_stale", "page_of", "queue", "report", "sent_at",
    )  # fmt: skip

    def __init__(
        self,
        queue: Queue,
        *,
        is_of_scheduler: bool = False,
        is_for_robotstxt: bool = False,
    ) -> None:
        self.queue = queue
        self.is_for_robotstxt = is_for_robotstxt
        self.limiters: tuple[Limiter, ...] = ()
        """Where it counts, planned or sent; the first one is that of its host."""

        self.is_of_scheduler = is_of_scheduler
        """Whether it waits in the scheduler, and so may be returned to it."""

        self.is_planned = False
        self.is_sent = False
        self.sent_at = -inf
        self.may_use_stale = False
        """Whether it may go by rules that have become stale: they hold for the next request of its site, which
        it is."""

        self.is_at_wire = False
        """Whether it has come to the wire."""

        self.judged: Any = None
        """For the gate: as what it was judged; None before."""

        self.judged_until = inf
        """When the rules by which it was judged become stale, by the wall clock."""

        self.page_of = ""
        """The host in whose budget it counts as a page; empty if it counts in none."""

        self.report: Any = None
        """For the gate: the decision that is to be reported when it is sent; None if there is none."""

    @property
    def needs(self) -> tuple[Limiter, ...]:
        """What it needs room in."""
        queue = self.queue
        return queue.robotstxt_limiters if self.is_for_robotstxt else queue.limiters

    def __repr__(self) -> str:
        state = "sent" if self.is_sent else "planned" if self.is_planned else "waits"
        return f"<InFlight {self.queue.key}: {state}>"


class Waiter:
    """A request past the scheduler that waits for room in its limiters, or for the rules of its site."""

    __slots__ = (
        "call",
        "entry",
        "is_first",
        "is_granted",
        "plans",
        "site",
    )

    def __init__(
        self,
        entry: InFlight,
        *,
        plans: bool = False,
        is_first: bool = False,
    ) -> None:
        """It *plans* if it is not at the wire yet, and *is_first* if it goes before all others."""
        self.entry = entry
        self.plans = plans
        self.is_first = is_first
        self.call: Any = None
        """For the owner: what is called when it is decided."""

        self.site: Site | None = None
        """The site for whose rules it waits; None if it waits for room."""

        self.is_granted = False
        """Once it is decided: whether it may go. Else it is refused."""

    def has_room(self, limiter: Limiter, now: float) -> bool:
        """Whether *limiter* has room for it."""
        if not limiter.can_send(now):
            return False
        is_free = limiter.planned + limiter.sent < limiter.limit
        return is_free or now >= limiter.line_goes_at


class _ReadyQueues:
    """The queues that are ready. The download slot with the fewest requests in flight comes first; of
    several, the one that has waited longest. Each operation takes O(1).
    """

    def __init__(self) -> None:
        self._rows: list[OrderedDict[Limiter, None]] = []
        """The slots by the number of their requests in flight."""

        self.count = 0
        """How many queues there are."""

    def add(self, queue: Queue) -> None:
        slot = queue.slot
        if not slot.ready:
            slot.ready = OrderedDict()
            self.moved(slot)
        slot.ready[queue] = None
        self.count += 1

    def discard(self, queue: Queue) -> None:
        """Remove *queue*, which is here."""
        slot = queue.slot
        assert slot.ready is not None
        del slot.ready[queue]
        self.count -= 1
        if not slot.ready:
            slot.ready = None
            del self._rows[slot.planned + slot.sent][slot]

    def first(self) -> Queue | None:
        """Return the queue whose turn it is; None if there is none."""
        for row in self._rows:
            if row:
                ready = next(iter(row)).ready
                assert ready is not None
                queue: Queue = next(iter(ready))
                return queue
        return None

    def put_last(self, queue: Queue) -> None:
        """Put *queue*, and its slot, behind the others."""
        slot = queue.slot
        assert slot.ready is not None
        slot.ready.move_to_end(queue)
        self._rows[slot.planned + slot.sent].move_to_end(slot)

    def moved(self, slot: Limiter, before: int | None = None) -> None:
        """Note that *slot*, which has ready queues, had another number *before* of requests in flight; None if
        it was not here.
        """
        if before is not None:
            del self._rows[before][slot]
        number = slot.planned + slot.sent
        while len(self._rows) <= number:
            self._rows.append(OrderedDict())
        self._rows[number][slot] = None


class _AlarmHeap:
    """The limiters and sites that are to be looked at, each at its ``alarm_at``."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Limiter | Site]] = []
        """An entry whose time is not the ``alarm_at`` of its owner is outdated."""

        self._number = count()
        self.first_at = inf
        """The time of the first alarm; ``inf`` if there is none."""

    def set(self, owner: Limiter | Site, at: float) -> None:
        """Look at *owner* at this time at the latest."""
        if at < owner.alarm_at:
            owner.alarm_at = at
            heappush(self._heap, (at, next(self._number), owner))
            self.first_at = min(self.first_at, at)

    def due(self, now: float) -> Iterator[Limiter | Site]:
        """Yield each owner whose time has come. Its alarm is over."""
        while self._heap and self._heap[0][0] <= now:
            at, _, owner = heappop(self._heap)
            if at == owner.alarm_at:
                owner.alarm_at = inf
                yield owner
        self.first_at = self._heap[0][0] if self._heap else inf


class Limits:
    """The limiters, sites, queues and requests in flight of a crawl."""

    def __init__(self, wait_timeout: float) -> None:
        """Requests wait for a host that asks for pauses for at most *wait_timeout* seconds."""
        self.wait_timeout = wait_timeout
        self.network = Network(Limiter("network"), Limiter("robots.txt"), wait_timeout)
        self.limiters: dict[str, Limiter] = {}
        """Those of hosts and of download slots, by key."""

        self.addresses: dict[str, Limiter] = {}
        self.sites: dict[Origin, Site] = {}
        self.queues: dict[Any, Queue] = {}
        self.in_flight: dict[Any, InFlight] = {}
        """The requests that are in flight, past the scheduler or planned by it."""

        self.ready = _ReadyQueues()
        self.decided: deque[Waiter] = deque()
        """The waiters that may go, or are refused. They wait no more."""

        self.urgent: deque[Site] = deque()
        self.wanted: deque[Site] = deque()
        """The sites whose robots.txt is to be fetched: at once, since a request in the downloader waits for
        it; and when more queues are needed that are ready. Some may not need it any more."""

        self.has_news = False
        """Whether a queue has become ready since the owner has last set this to False."""

        self.slowdowns: dict[str, Slowdown] = {}
        """What has held up the crawl, by host."""

        self._idle: dict[Queue, None] = {}
        """The queues without requests, the first one first."""

        self.alarms = _AlarmHeap()

    def __repr__(self) -> str:
        phases = Counter(site.phase.name for site in self.sites.values())
        words = [f"{number} sites {name}" for name, number in sorted(phases.items())]
        entries = self.in_flight.values()
        words += [
            f"{len(self.limiters)} limiters",
            f"{sum(entry.is_planned for entry in entries)} requests planned",
            f"{sum(entry.is_sent for entry in entries)} sent",
            f"{self.ready.count} queues ready",
        ]
        if self.network.is_gone:
            words.append("network gone")
        return f"<Limits: {', '.join(words)}>"

    # What there is.

    def limiter(self, key: str) -> Limiter:
        """Return the limiter of the host or download slot *key*, a new one if it is not known."""
        limiter = self.limiters.get(key)
        if limiter is None:
            limiter = self.limiters[key] = Limiter(key)
        return limiter

    def site(self, origin: Origin) -> Site:
        """Return the site of *origin*, a new one if it is not known."""
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
        """Forget the queues without requests, limiters and sites that nothing needs any more. Return whether
        there were any.
        """
        before = len(self._idle), len(self.limiters)
        in_flight = {entry.queue for entry in self.in_flight.values()}
        for queue in list(self._idle):
            if queue in in_flight or not self._is_over(queue, now):
                continue  # The last queue of a site may be needed for that.
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
        in_use = {limiter.address for limiter in self.limiters.values()}
        for address, limiter in list(self.addresses.items()):
            if limiter not in in_use and limiter.is_quiet(now):
                del self.addresses[address]
        return (len(self._idle), len(self.limiters)) != before

    def _is_over(self, queue: Queue, now: float) -> bool:
        if not (queue.host.is_quiet(now) and queue.slot.is_quiet(now)):
            return False
        site = queue.site
        if site is None or site.users > 1:
            return True
        if site.is_fetching or site.has_waiting:
            return False
        return (
            site.outage is None
            or now >= site.outage.retry_at
            or len(self.sites) > _MAX_REFUSED
        )

    # The scheduler plans.

    def filled(self, queue: Queue, now: float) -> None:
        """Note that *queue* has requests, maybe its first ones."""
        if queue.place is None and queue.count:
            self._idle.pop(queue, None)
            self._place(queue, now)

    def may_plan(self, queue: Queue, now: float) -> bool:
        """Whether the next request of *queue*, the first one that is ready, may be sent now, or is to be
        refused. If not, the queue waits where it belongs.
        """
        limiters = queue.limiters
        obstacle = self._obstacle(queue, limiters, now)
        if obstacle is None or self._is_refused(queue, now):
            return True
        self.ready.discard(queue)
        self._place(queue, now)
        self._reconcile_all(limiters, now)
        return False

    def plan(self, queue: Queue, now: float) -> InFlight:
        """Plan a request that was taken out of *queue*, and return it. If it is to be refused, it needs no
        room. The queue is ready for its next request, for which that may have to wait; unless others
        wait in a line: they go first.
        """
        limiters = queue.limiters
        entry = InFlight(queue, is_of_scheduler=True)
        site = queue.site
        if site is not None and site.holds_for_next:
            self._claim_rules(entry, site)
        if not self._is_refused(queue, now):
            self._count_planned(entry, limiters)
            for limiter in limiters:
                limiter.is_queue_next = False
        if not queue.requests.count:
            self.ready.discard(queue)
            queue.place = None
            self._idle[queue] = None
        else:
            for limiter in limiters:
                if limiter.line:
                    self.ready.discard(queue)
                    self._place(queue, now)
                    break
            else:
                self.ready.put_last(queue)
        self._reconcile_all(limiters, now)  # The next one may go.
        return entry

    def _place(self, queue: Queue, now: float) -> None:
        """Put *queue*, which has requests, where it belongs now."""
        site = queue.site
        obstacle = self._obstacle(queue, queue.limiters, now)
        if obstacle is not None and self._is_refused(queue, now):
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
        """Return what *queue*, with its *limiters*, has to wait for; None for nothing."""
        site = queue.site
        if site is not None and now >= site.expires and not site.holds_for_next:
            return site
        for limiter in limiters:
            if not limiter.can_plan(now):
                return limiter
        return None

    def _is_refused(self, queue: Queue, now: float) -> bool:
        """Whether the requests of *queue* are handed out only to be refused, and so need no room."""
        site = queue.site
        if site is not None and site.phase is Phase.REFUSED:
            return True
        return now < queue.host.refuses_until or now < queue.slot.refuses_until

    def refusing(self, limiters: tuple[Limiter, ...], now: float) -> Limiter | None:
        """Return that of *limiters* whose requests are refused for its back-off, if there is one."""
        for limiter in limiters:
            if now < limiter.refuses_until:
                return limiter
        return None

    def _claim_rules(self, entry: InFlight, site: Site) -> None:
        """Note that the request of *entry*, unless it is for robots.txt, is the next one of *site*, for which the
        rules hold however long it has waited.
        """
        if not entry.is_for_robotstxt:
            entry.may_use_stale, site.holds_for_next = True, False

    # The wire sends.

    def take(self, entry: InFlight, now: float) -> bool:
        """Return whether the request of *entry* may be sent now. Then it counts as sent."""
        limiters = entry.needs
        for limiter in limiters:
            is_full = limiter.planned + limiter.sent >= limiter.limit
            if not limiter.can_send(now) or (is_full and not entry.is_planned):
                return False
        self._send(entry, limiters, now)
        return True

    def send(self, entry: InFlight, now: float) -> None:
        """Count the request of *entry* as sent, even if there is no room."""
        self._send(entry, entry.needs, now)

    def _send(self, entry: InFlight, limiters: tuple[Limiter, ...], now: float) -> None:
        before, site = entry.limiters, entry.queue.site
        if site is not None and site.holds_for_next:
            self._claim_rules(entry, site)
        is_moved = limiters != before  # It was not planned, or was changed since.
        if is_moved:
            self._count_planned(entry, before, -1)
            self._count_planned(entry, limiters)
        for limiter in limiters:
            limiter.planned -= 1
            limiter.sent += 1
        entry.is_planned, entry.is_sent, entry.sent_at = False, True, now
        if limiters[0].crawl_delay in limiters:
            self._note_slowdown(limiters[0], now)
        if is_moved:
            self._reconcile_all(before, now)

    def wait(self, waiter: Waiter, now: float) -> None:
        """Have *waiter* go as soon as it may, and be refused if its host asks for too long a pause."""
        limiters = waiter.entry.needs
        if self.refusing(limiters, now) is not None:
            self.decided.append(waiter)
            return
        for limiter in limiters:
            if not waiter.has_room(limiter, now):
                if limiter.line is None:
                    limiter.line = deque()
                (limiter.line.appendleft if waiter.is_first else limiter.line.append)(
                    waiter
                )
                self._note_waiting(limiter, now)
                self._set_alarm(limiter, now)
                return
        waiter.is_granted = True
        if waiter.plans:
            self._count_planned(waiter.entry, limiters)
        else:
            self._send(waiter.entry, limiters, now)
        self.decided.append(waiter)

    def leave(self, waiter: Waiter, now: float) -> None:
        """Note that *waiter*, which may be in a line, waits no more."""
        for limiter in waiter.entry.needs:
            if limiter.line is not None and waiter in limiter.line:
                limiter.line.remove(waiter)
                self.reconcile(limiter, now)
        site = waiter.site
        if site is not None and site.waiters and waiter in site.waiters:
            site.waiters.remove(waiter)

    def unplan(self, entry: InFlight, now: float) -> None:
        """Note that the request of *entry* is planned no more."""
        if not entry.is_planned:
            return
        limiters = entry.limiters
        self._count_planned(entry, limiters, -1)
        self._reconcile_all(limiters, now)

    def end(self, entry: InFlight, now: float, *, is_withdrawn: bool = False) -> None:
        """Note that the request of *entry* is on its way no more. A delay begins if it was sent, unless it
        *is_withdrawn*: then it has not come to the network.
        """
        if not entry.is_sent:
            self.unplan(entry, now)
            return
        entry.is_sent, limiters, entry.limiters = False, entry.limiters, ()
        for limiter in limiters:
            before = limiter.planned + limiter.sent
            limiter.sent -= 1
            limiter.line_goes_at = inf
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
        """Count the request of *entry* as planned in *limiters*; no more if the *change* is -1."""
        entry.is_planned, entry.limiters = change > 0, limiters if change > 0 else ()
        for limiter in limiters:
            before = limiter.planned + limiter.sent
            limiter.planned += change
            if limiter.ready:
                self.ready.moved(limiter, before)

    # What each change ends in.

    def reconcile(self, limiter: Limiter, now: float) -> None:
        """Let what waits at *limiter* go on, as far as it may: waiters and queues in turns, or all of them
        if they are refused.
        """
        if now < limiter.refuses_until:
            self._release(limiter, now)
            return
        while True:
            is_line_next = limiter.line and now >= limiter.line_goes_at
            if limiter.parked and limiter.can_plan(now) and not is_line_next:
                queue, _ = limiter.parked.popitem(last=False)
                self._place(queue, now)
                if queue.place is READY:
                    break  # When it is planned, the next one has its turn.
            elif limiter.line and limiter.line[0].has_room(limiter, now):
                limiter.is_queue_next = True
                self.wait(limiter.line.popleft(), now)
            else:
                break
        if limiter.line or limiter.parked:
            self._note_waiting(limiter, now)
            self._set_alarm(limiter, now)
        else:
            limiter.line = limiter.parked = None

    def _reconcile_all(self, limiters: tuple[Limiter, ...], now: float) -> None:
        for limiter in limiters:
            if limiter.line or limiter.parked:
                self.reconcile(limiter, now)

    def _release(self, limiter: Limiter, now: float) -> None:
        """Look at all that waits at *limiter* again: its next place may be another one."""
        line, limiter.line = limiter.line or (), None
        parked, limiter.parked = limiter.parked or (), None
        for waiter in line:
            self.wait(waiter, now)
        for queue in parked:
            self._place(queue, now)

    def _note_waiting(self, limiter: Limiter, now: float) -> None:
        is_in_flight = limiter.planned or limiter.sent
        if limiter.delay and limiter.waiting_since is None and not is_in_flight:
            limiter.waiting_since = now

    def _set_alarm(self, limiter: Limiter, now: float) -> None:
        at = max(limiter.next_at, limiter.slot_free_at)
        if at > now:
            self.alarms.set(limiter, at)
        if limiter.line and limiter.can_send(now):
            limiter.line_goes_at = min(limiter.line_goes_at, now + _LINE_WAITS)
            self.alarms.set(limiter, limiter.line_goes_at)

    # Delays and pauses.

    def set_delay(
        self, host: Limiter, origin: Origin, delay: float, now: float, *, since: float
    ) -> None:
        """Set the *delay* that *origin*, of *host*, asks for, in seconds; 0 for none. A new one begins at the
        time *since*, when robots.txt was fetched, or with the last answer.
        """
        limiter = host.crawl_delay
        if limiter is None:
            if not delay:
                return
            limiter = host.crawl_delay = Limiter(f"{host.key} delay")
            limiter.delays = {}
            self._count_in_flight(host, limiter)
        assert limiter.delays is not None
        if delay and origin not in limiter.delays:
            begins = max(since, host.ended_at) + delay
            limiter.next_at = max(limiter.next_at, begins)
        if delay:
            limiter.delays[origin] = delay
        else:
            limiter.delays.pop(origin, None)
        limiter.delay = max(limiter.delays.values(), default=0.0)
        limiter.set_concurrency(1 if limiter.delay else inf)
        if not limiter.delay:
            limiter.next_at = -inf
        self.reconcile(limiter, now)

    def set_address(
        self, host: Limiter, address: str, concurrency: int, now: float
    ) -> None:
        """Let *host* and the other hosts on *address* have *concurrency* requests in flight together."""
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
        """Count the requests to *host* that are in flight in *limiter*, too, which they need from now on."""
        for entry in self.in_flight.values():
            if host in entry.limiters and limiter not in entry.limiters:
                entry.limiters += (limiter,)
                limiter.planned += entry.is_planned
                limiter.sent += entry.is_sent

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
        """Pause *limiter* for as many seconds as its host has *asked*; without that for 1, 2, 4, ... up to
        *cap* seconds. Only the answer to a request that was sent after the last pause (*sent_at*) doubles
        it. Return whether a pause begins that is not part of the last one.
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
            back_off.asked, back_off.asked_at = round(seconds, 3), now
        if has_failed:
            back_off.failed_until = max(back_off.failed_until, now + seconds)
        else:
            back_off.asked_until = max(back_off.asked_until, now + seconds)
        back_off.concurrency = 1
        self._back_off_changed(limiter, now)
        return is_new

    def hold(self, limiter: Limiter, until: float, now: float) -> None:
        """Send nothing to the host of *limiter* before the time *until*: another worker is on its way to it."""
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
        """Go on with the back-off of *limiter* that another worker has begun: as in :class:`BackOff`."""
        if limiter.back_off is None:
            limiter.back_off = BackOff(since)
        back_off = limiter.back_off
        back_off.since = min(back_off.since, since)
        back_off.own_pause = max(back_off.own_pause, own_pause)
        back_off.concurrency = concurrency
        self._back_off_changed(limiter, now)

    def resume_pause(self, limiter: Limiter, now: float, *, until: float) -> None:
        """Note that the host of *limiter* has asked an earlier run, or another worker, for a pause."""
        if until > now:
            if limiter.back_off is None:
                limiter.back_off = BackOff(since=now)
            limiter.back_off.asked_until = max(limiter.back_off.asked_until, until)
            limiter.back_off.asked_at = now
            limiter.back_off.concurrency = 1
            self._back_off_changed(limiter, now)

    def succeeded(self, limiter: Limiter, now: float, *, sent_at: float) -> bool:
        """Note that the host of *limiter* has answered a request, sent at *sent_at*, without asking for a
        pause. After enough successes, its back-off is over. Return whether this is the first success since
        the host began to ask for pauses.
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
        """End the pause of *limiter* after failures: they were those of the network of the crawler. A pause
        that the host has asked for goes on.
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
        limiter.next_at = -inf if back_off is None else back_off.until
        limiter.refuses_until = -inf
        if back_off is not None and now < back_off.until:
            is_long = back_off.until - now > self.wait_timeout
            has_lasted = now - back_off.since >= self.wait_timeout
            if is_long or (has_lasted and back_off.concurrency == 1):
                limiter.refuses_until = back_off.until
        self.reconcile(limiter, now)

    # Sites.

    def want(self, site: Site, now: float, *, is_urgent: bool = False) -> None:
        """Have the robots.txt of *site* fetched, now, or when it may be asked for again."""
        site.happens(Event.REQUEST)
        retry_at = -inf if site.outage is None else site.outage.retry_at
        if now < retry_at:
            self.alarms.set(site, retry_at)
        elif site.is_fetching or site.is_urgent or (site.is_wanted and not is_urgent):
            return
        elif is_urgent:
            site.is_wanted = site.is_urgent = True
            self.urgent.append(site)
        else:
            site.is_wanted = True
            self.wanted.append(site)

    def next_wanted(self, *, is_needed: bool) -> Site | None:
        """Return a site whose robots.txt is to be fetched now; None if there is none. Unless more ready
        queues are needed (*is_needed*), only one for which a request in the downloader waits.
        """
        for sites in (self.urgent, self.wanted) if is_needed else (self.urgent,):
            while sites:
                site = sites.popleft()
                if site.is_wanted and (site.has_waiting or site.phase is Phase.REFUSED):
                    self.begin_fetch(site)
                    return site
                site.is_wanted = site.is_urgent = False
        return None

    def begin_fetch(self, site: Site) -> None:
        """Note that the robots.txt of *site* is being fetched."""
        site.is_wanted = site.is_urgent = False
        site.is_fetching = True

    def learned(self, site: Site, now: float, expires: float) -> None:
        """Note that the rules of *site* are known until the time *expires*, and hold for its next request."""
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
        """Note that robots.txt of *site* is unreachable, and is fetched again at *retry_at*, or, unless the
        host has asked for that time (*is_asked*), earlier, once more before requests are refused. From the
        first time on, they wait for *wait* seconds. *result* is for the owner.
        """
        if site.outage is None:
            site.outage = Outage(now, now + wait)
        outage = site.outage
        # A host that had no server before may have one now, and be waited for longer.
        outage.until = max(outage.until, outage.since + wait)
        if not is_asked and now < outage.until:
            retry_at = min(retry_at, outage.until)
        outage.retry_at, outage.last_result = retry_at, result
        is_too_long = now >= outage.until or retry_at > outage.until
        site.happens(Event.GIVEN_UP if is_too_long else Event.UNREACHABLE)
        self._release_site(site, now)

    def no_result(self, site: Site, now: float) -> None:
        """Note that the fetch of robots.txt of *site* has ended without a result. If anything waits for it,
        it is repeated after a pause.
        """
        if site.has_waiting:
            self.alarms.set(site, now + _FIRST_PAUSE)
        else:
            site.happens(Event.NO_RESULT)

    def wait_for_rules(self, waiter: Waiter, site: Site, now: float) -> None:
        """Have *waiter* go when the rules of *site* are known, or known to be unreachable."""
        waiter.site = site
        if site.waiters is None:
            site.waiters = []
        site.waiters.append(waiter)
        self.want(site, now, is_urgent=True)

    def _release_site(self, site: Site, now: float) -> None:
        """Look at all that waits for the rules of *site* again."""
        waiters, site.waiters = site.waiters or (), None
        for waiter in waiters:
            waiter.is_granted = True
            self.decided.append(waiter)
        parked, site.parked = site.parked or (), None
        for queue in parked:
            self._place(queue, now)

    # The network of the crawler.

    def pause_network(self, until: float, now: float) -> None:
        """Send nothing before the time *until*: the machine has no more files, ports or memory."""
        for limiter in (self.network.pages, self.network.robotstxt):
            limiter.next_at = max(limiter.next_at, until)
            self._set_alarm(limiter, now)

    def network_is_back(self, now: float, since: float) -> None:
        """Let everything go on that waits for the network, which is back. If it was gone for certain, at the time
        *since*, then what has failed since holds back nothing, and the time counts for no host.
        """
        network, seconds = self.network, now - since
        if network.is_certain:
            self._forget_outage(since, seconds, now)
        for limiter in (network.pages, network.robotstxt):
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
        """Do what is due."""
        for owner in self.alarms.due(now):
            if isinstance(owner, Limiter):
                self.reconcile(owner, now)
            elif owner.has_waiting:
                self.want(owner, now, is_urgent=bool(owner.waiters))

    # What the log says.

    def _note_slowdown(self, host: Limiter, now: float) -> None:
        """Note for how long the delay of *host* has held up the request that is sent now: longer than its
        download slot and its pauses would have.
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
        """Return how many requests, to how many hosts, wait for robots.txt, a delay or a pause; and the
        limiter that holds back those that may be sent first, if there is one.
        """
        requests, keys, first = 0, set(), None
        owners: list[Site | Limiter] = [*self.sites.values()]
        for limiter in self.limiters.values():
            owners += (
                [limiter]
                if limiter.crawl_delay is None
                else [limiter, limiter.crawl_delay]
            )
        for owner in owners:
            count_here = sum(queue.count for queue in owner.parked or ())
            if isinstance(owner, Limiter):
                count_here += len(owner.line or ())
                if count_here and (first is None or owner.next_at < first.next_at):
                    first = owner
            if count_here:
                requests += count_here
                keys.add(owner)
        return requests, len(keys), first
