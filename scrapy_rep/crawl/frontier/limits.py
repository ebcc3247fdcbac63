"""Limits: decide when each request may be sent. This module uses no Scrapy, no timers, no clock and no I/O. All
times are seconds of a monotonic clock.

A :class:`Limiter` stands for one resource whose use is limited: a host name, the host's crawl delay, its IP address,
a download slot whose name is not the host's, or the crawler's own network. A limiter has *room* for a request if the
limiter allows the request to be sent now. A request needs room in all of its limiters.

A :class:`Site` stands for an origin (scheme, host and port) and the state of its robots.txt. Requests for pages of the
origin wait until its rules are known.

First the scheduler *plans* a request: it hands the request to Scrapy's engine, and the limiters reserve room for the
request. Later the wire, the downloader middleware nearest to the network, *sends* the request. Planned and sent
requests both take room, so the scheduler never plans more requests than may be sent.

Requests wait in one of two ways:

=================  =======================================================================
a :class:`Queue`   contains requests that the scheduler stores. A queue is *ready* if its next
                   request may be sent now, or will be refused by the gate (the downloader
                   middleware that judges requests by robots.txt). Otherwise, a queue that has
                   requests is *parked*: it waits at its site until the rules are known, or at
                   the first limiter that has no room
a :class:`Waiter`  is one request outside the scheduler, such as a media download. The waiter waits
                   at the first limiter that has no room, or at the site whose rules it needs
=================  =======================================================================

Two examples:

- *A host answers 429.* ``Politeness.answered`` reads the duration of the pause from ``Retry-After`` (without this
  header, 1, 2, 4, ... seconds). :meth:`Limits.back_off` pauses the host's limiter for this time, and the host's queue
  waits there (is parked). When the pause ends, :meth:`Limits.tick` makes the queue ready again, and the limiter has
  room for one request at a time. Each success (:meth:`Limits.succeeded`) adds room for one more request. If a pause, or
  a series of pauses without a success in between, is longer than ``REP_WAIT_TIMEOUT`` seconds, the queue becomes ready
  immediately, and the gate refuses its requests until the host is no longer paused. Scrapy's retry middleware retries
  the request that was answered with 429.
- *A robots.txt is unreachable.* ``Rules`` reports this to :meth:`Limits.unreachable`. The site's queues stay parked at
  the site, and robots.txt is fetched again from time to time. When a fetch succeeds, the queues become ready, and
  their requests are judged and sent (:meth:`Limits.learned`). If no fetch succeeds within ``REP_WAIT_TIMEOUT``
  seconds, the queues become ready, too, but the gate refuses their requests.

After a change that gives a limiter room, :meth:`Limits.reconcile` makes parked queues ready and lets waiters continue,
in turns, while the limiter has room. :class:`Limits` calls no other component. Its owner, the frontier, reads the
results from :attr:`Limits.decided` (waiters that may continue or are refused), :attr:`Limits.urgent` and
:attr:`Limits.wanted` (sites whose robots.txt should be fetched) and :attr:`Limits.has_news` (whether a queue became
ready). The owner calls :meth:`Limits.tick` at the time ``Limits.alarms.first_at``.
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
from scrapy_rep.crawl.frontier.sites import Event, FetchStage, Outage, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.origins import Origin

# The duration, in seconds, of a host's first pause if the host states no duration. It is also the time after which
# robots.txt is fetched again if a fetch ended without a result, for example because it was cancelled.
_FIRST_PAUSE = 1.0

# The maximum time, in seconds, for which requests that wait outside the scheduler (waiters) let requests of the
# scheduler go first. Without a maximum, the crawl could deadlock: the waiter waits for the scheduler's request, and the
# scheduler's request waits for the waiter. Example 1: a component delays the request for a page (the scheduler's)
# until a media download (the waiter) has ended. Example 2: waiters fill the downloader, so the scheduler can hand out no request.
_WAITERS_YIELD = 0.2

# A site whose robots.txt is unreachable is kept in memory until its robots.txt may be fetched again. While more than
# _MAX_SITES sites are known, such a site is forgotten earlier, as soon as it has no requests.
_MAX_SITES = 20_000

# The maximum number of hosts in Limits.slowdowns. If there are more, the hosts whose requests waited for the shortest
# time are removed.
_MAX_SLOWDOWNS = 1_000


class Requests(Protocol):
    """Stores the requests of one queue, in memory, in a file or on a server."""

    medium: str
    """Where the requests are stored, as named in Scrapy's stats, such as ``"memory"`` or ``"disk"``. A request that
    cannot be stored there is kept in memory."""

    @property
    def count(self) -> int:
        """The number of requests."""

    def push(self, request: Any) -> Exception | None:
        """Add *request*, a new request, and return None. If *request* cannot be stored in :attr:`medium`, keep it in
        memory, and return the error.
        """

    def pop(self) -> Any:
        """Remove the request with the highest priority, and return it. Return None if the stored data of this request
        cannot be read or deserialized.
        """

    def back(self, request: Any) -> None:
        """Put *request*, which was popped, back into the queue. Requests that were put back are popped before all other
        requests, in the order in which they were put back.
        """

    def medium_of(self, request: Any) -> str:
        """Return the name of the storage from which *request* was popped: :attr:`medium` or ``"memory"``."""

    def peek(self) -> Any:
        """Return the next request without removing it. Return None if the queue is empty, or if the request cannot be
        read. The caller copies the proxy and the User-Agent of the returned request to the request for robots.txt.
        """


class Queue:
    """Those requests of the scheduler that share a site (the origin whose robots.txt applies), a download slot, and
    their limiters (objects that limit the number and the rate of requests to a host or another resource).
    """

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

        *key* identifies the queue in :attr:`Limits.queues`. *site* is None if no robots.txt applies to the requests.
        *host* is the limiter of the host. *slot* is the limiter of the download slot, and defaults to *host*.
        *network* is None if the requests do not use the network. *keeps_delay* is False if the host's crawl delay
        does not apply to the requests.
        """
        self.key = key
        self.site = site
        self.host = host
        self.slot = slot or host
        self.network = network
        self.keeps_delay = keeps_delay
        self.requests: Any = None
        """The storage of the queue's requests, a :class:`Requests`; None before the first request is pushed."""

        self.place: object = None
        """READY if the scheduler may hand out the queue's next request. If the requests have to wait (the queue is
        *parked*), the site or limiter for which they wait. None if the queue is empty, or if a first request was added
        but :meth:`Limits.filled` was not called yet."""

    def __repr__(self) -> str:
        place = "ready" if self.place is READY else f"at {self.place!r}"
        return f"<Queue {self.key}: {self.count} requests, {place if self.place else 'idle'}>"

    @property
    def count(self) -> int:
        """The number of requests."""
        return 0 if self.requests is None else self.requests.count

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """The limiters that apply to the requests of this queue. A request may be sent only if each of them allows it.
        The first limiter is the host's.
        """
        network, host = self.network, self.host
        is_usual = host is self.slot and host.crawl_delay is host.address is None
        if is_usual and network is not None:
            return host, network.pages
        return self._with(None if network is None else network.pages)

    @property
    def robotstxt_limiters(self) -> tuple[Limiter, ...]:
        """The limiters that apply to a request for the robots.txt of this queue's site. This request may be sent only
        if each of them allows it. The first limiter is the host's.
        """
        return self._with(None if self.network is None else self.network.robotstxt)

    def refusing_limiter(self, now: float) -> Limiter | None:
        """Return the limiter whose pauses exceed ``REP_WAIT_TIMEOUT``, so that all requests of this queue are refused
        at *now*. If the pauses of the host's limiter and of the download slot's limiter exceed it, return the host's.
        Return None if requests are not refused.
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
    """How long the requests to one host waited for the host's crawl delay."""

    seconds: float
    """The total time, in seconds, in which requests to the host waited only for the delay. Times in which a request to
    the host was in flight, or in which the download slot or a pause blocked the requests, are not included."""

    key: str
    """The key of the host's limiter."""

    requests: int
    """The number of sent requests to which the delay applied."""

    delay: float
    """The current crawl delay in seconds."""


class Stage(Enum):
    """How the limiters of a request count the request: not at all, as planned (room is reserved for it), or as sent."""

    UNCOUNTED = "no limiter counts the request, because it waits or has ended"
    PLANNED = "the limiters reserve room for the request until it is sent"
    SENT = "the request is on the network, or waits in its download slot"


class Judgement(NamedTuple):
    """The inputs of the decision to allow a request. The gate, the downloader middleware that judges requests by
    robots.txt, makes this decision. If any input has changed when the request reaches the wire (the downloader
    middleware nearest to the network), the request is judged again.
    """

    url: str
    tokens: tuple[str, ...]
    """The product tokens of the crawler, which select its groups in robots.txt."""

    origin: Origin | None
    fresh_until: float
    """The wall-clock time when the rules behind the decision become stale; ``inf`` if no rules were applied."""


class InFlight:
    """The state of one request until its download ends. Its stage (:class:`Stage`) says how its limiters count it:

    - UNCOUNTED: the request waits, will be refused, or has ended. Its limiters do not count it.
    - PLANNED: the request is not sent yet, but its limiters already count it, to reserve room for it.
    - SENT: the request is on the network, or waits in its download slot. Its limiters count it.

    These methods of :class:`Limits` change the stage:

    =======================  ======================================================  =========================
    method                   event                                                   new stage
    =======================  ======================================================  =========================
    ``plan``                 the scheduler hands out the request                     PLANNED, or UNCOUNTED if
                                                                                     it will be refused
    ``wait``, ``admit``      a request outside the scheduler may continue            SENT, or PLANNED if it is
                                                                                     not at the wire yet
    ``try_send``, ``send``   the wire (the downloader middleware nearest to the      SENT
                             network) sends the request
    ``unplan``               the request is not sent now, and its room is freed      UNCOUNTED
    ``end``                  the request ended, or left its download slot unsent     UNCOUNTED
    =======================  ======================================================  =========================

    When the state is created depends on the request:

    - A request from the scheduler: when the scheduler hands it out.
    - A request for robots.txt: usually before it begins to wait for its limiters.
    - Any other request, such as a media download: when a downloader middleware of this package first sees it.
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
        """The limiters that count the request towards their concurrency, the host's limiter first. Empty while no
        limiter counts the request, for example because it still waits, or has ended."""

        self.came_from_scheduler = came_from_scheduler
        """Whether a scheduler of this package handed out the request."""

        self.may_return = came_from_scheduler
        """Whether the request can go back to ``scrapy_rep.Scheduler`` and wait there. Only a request that came from
        this scheduler can. The value becomes False when another component changes the request: if the request went
        back, it would pass the component again, and the component would change the request a second time."""

        self.stage = Stage.UNCOUNTED
        self.sent_at = -inf
        """The time when the request was sent; ``-inf`` if it was not sent yet."""

        self.may_use_stale = False
        """Whether the rules of the site apply to the request even if they have become stale. True for the first
        request after robots.txt was fetched (see :attr:`Site.holds_for_next`)."""

        self.is_at_wire = False
        """Whether the request has reached the wire, the downloader middleware nearest to the network."""

        self.judgement: Judgement | None = None
        """The inputs of the decision to allow the request; None as long as the request has not been allowed by the gate
        (the downloader middleware that judges requests by robots.txt)."""

        self.page_of = ""
        """The host whose number of pages (``REP_PAGES_PER_HOST``) includes this request. Empty if the request is not
        counted, for example because it is a retry of a page that was counted before."""

        self.report: Any = None
        """What the gate (the downloader middleware that judges requests) reports to the ledger and the stats when the
        request is sent: a tuple of a ``Check`` (the request, and the rules that apply to it) and the decision to allow
        the request. None if there is nothing to report, or if the report was already made."""

    @property
    def needs(self) -> tuple[Limiter, ...]:
        """The limiters that apply to the request. The request may be sent only if each of them allows it."""
        queue = self.queue
        return queue.robotstxt_limiters if self.is_for_robotstxt else queue.limiters

    def __repr__(self) -> str:
        return f"<InFlight {self.queue.key}: {self.stage.name}>"


class Waiter:
    """A request outside the scheduler that waits until its limiters allow it, or until the rules of its site are known.
    When the wait ends (the waiter is *decided*), :attr:`may_continue` says whether the request may continue.
    """

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
        """Create a waiter for the request of *entry*.

        When its limiters allow the request, they count it as sent. If *counts_as_planned* is True, they count it as
        planned (not sent yet) instead, because the request has not yet reached the wire, the downloader middleware
        nearest to the network.

        If *is_first* is True, the request goes before the other waiters at each limiter where it has to wait.
        """
        self.entry = entry
        self.counts_as_planned = counts_as_planned
        self.is_first = is_first
        self.call: Any = None
        """The Deferred on which the request waits. The frontier fires it when the wait ends, because the request may
        continue or is refused."""

        self.site: Site | None = None
        """The site for whose rules the request waits; None if the request waits for its limiters (concurrency, delays,
        pauses)."""

        self.may_continue = False
        """Whether the wait has ended, and the request may continue. A request that waits for its limiters may continue
        when they allow it. A request that waits for a robots.txt may continue when the fetch ended with any result,
        and is then judged. False if the request still waits, is refused, or has waited too long."""


class _ReadyQueues:
    """The ready queues (those whose next request the scheduler may hand out), in the order in which the scheduler takes
    requests from them. The first queue belongs to the download slot with the fewest requests in flight. If several
    slots have equally few requests in flight, the slot that has waited longest comes first. The cost of an operation
    does not depend on the number of queues.
    """

    def __init__(self) -> None:
        self._rows: list[OrderedDict[Limiter, None]] = []
        """The download slots that have ready queues, grouped by their number of requests in flight: the item at index
        *n* contains the slots with *n* requests in flight."""

        self.count = 0
        """The number of ready queues."""

    def add(self, queue: Queue) -> None:
        """Add *queue* behind the other ready queues of its slot."""
        slot = queue.slot
        if not slot.ready:
            slot.ready = OrderedDict()
            self.reorder(slot)
        slot.ready[queue] = None
        self.count += 1

    def discard(self, queue: Queue) -> None:
        """Remove *queue*, which must be one of the ready queues."""
        slot = queue.slot
        assert slot.ready is not None
        del slot.ready[queue]
        self.count -= 1
        if not slot.ready:
            slot.ready = None
            del self._rows[slot.planned + slot.sent][slot]

    def first(self) -> Queue | None:
        """Return the queue from which the scheduler should take the next request; None if no queue is ready."""
        for row in self._rows:
            if row:
                ready = next(iter(row)).ready
                assert ready is not None
                queue: Queue = next(iter(ready))
                return queue
        return None

    def put_last(self, queue: Queue) -> None:
        """Move *queue* behind the other ready queues of its slot, and the slot behind all slots with the same number
        of requests in flight.
        """
        slot = queue.slot
        assert slot.ready is not None
        slot.ready.move_to_end(queue)
        self._rows[slot.planned + slot.sent].move_to_end(slot)

    def reorder(self, slot: Limiter, before: int | None = None) -> None:
        """Put *slot* behind all download slots with the same number of requests in flight. *slot* is the limiter of a
        download slot that has ready queues. Call this method in two cases:

        - The number of requests in flight in *slot* changed. *before* is the number before the change.
        - *slot* has just got its first ready queue. *before* is None.
        """
        if before is not None:
            del self._rows[before][slot]
        number = slot.planned + slot.sent
        while len(self._rows) <= number:
            self._rows.append(OrderedDict())
        self._rows[number][slot] = None


class _AlarmHeap:
    """The limiters and sites for which an alarm is set, ordered by the time of the alarm (``alarm_at``). At this time,
    :meth:`Limits.tick` checks whether requests that wait for the limiter may continue, or whether the robots.txt of the
    site should be fetched again.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Limiter | Site]] = []
        """The time, a unique number, and the limiter or site (owner) of each alarm. An alarm in the heap is outdated if
        its time differs from the owner's ``alarm_at``."""

        self._number = count()
        self.first_at = inf
        """The time of the first alarm; ``inf`` if no alarm is set."""

    def set(self, owner: Limiter | Site, at: float) -> None:
        """Set an alarm for *owner* at the time *at*, unless *owner* already has an earlier alarm."""
        if at < owner.alarm_at:
            owner.alarm_at = at
            heappush(self._heap, (at, next(self._number), owner))
            self.first_at = min(self.first_at, at)

    def due(self, now: float) -> Iterator[Limiter | Site]:
        """Yield each limiter or site whose alarm is due at *now*, and clear this alarm."""
        while self._heap and self._heap[0][0] <= now:
            at, _, owner = heappop(self._heap)
            if at == owner.alarm_at:
                owner.alarm_at = inf
                yield owner
        self.first_at = self._heap[0][0] if self._heap else inf


class Limits:
    """Decides when each request of a crawl may be sent. Contains the crawl's limiters, sites, queues and requests in
    flight.
    """

    def __init__(self, wait_timeout: float) -> None:
        """Create empty limits. *wait_timeout* (``REP_WAIT_TIMEOUT``) is the maximum time, in seconds, for which
        requests wait for a paused host before they are refused. It is also the maximum time for which the crawl waits
        for the crawler's own network before the frontier closes the crawl.
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
        """The state of each request in flight, by request. A request of the scheduler is in flight from the time when
        the scheduler hands it out. Any other request is in flight from the time when it reaches the gate or the wire
        (downloader middlewares of this package). When the download has ended, the request is no longer in flight."""

        self.ready = _ReadyQueues()
        self.decided: deque[Waiter] = deque()
        """The waiters whose requests may continue or are refused. The frontier takes the waiters from this deque, and
        lets their requests continue or fail."""

        self.urgent: deque[Site] = deque()
        """The sites whose robots.txt should be fetched now. :meth:`next_wanted` skips the sites that no longer need
        the fetch."""

        self.wanted: deque[Site] = deque()
        """The sites whose robots.txt should be fetched, but only when too few queues are ready (have a next request
        that may be sent now)."""

        self.has_news = False
        """Whether a queue has become ready since the frontier last reset this attribute to False. If so, the frontier
        wakes Scrapy's engine, and the engine asks the scheduler for requests."""

        self.slowdowns: dict[str, Slowdown] = {}
        """The total time for which requests to each host waited for the host's crawl delay, by the key of the host's
        limiter. Contains at most ``_MAX_SLOWDOWNS`` hosts: those with the greatest total times."""

        self.slowed_seconds = 0.0
        """The sum of :attr:`Slowdown.seconds` over all hosts, including those that are missing in
        :attr:`slowdowns`."""

        self._idle: dict[Queue, None] = {}
        """The queues without requests, in the order in which they became empty."""

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
        """Return the limiter of the host or download slot *key*. A missing limiter is created."""
        limiter = self.limiters.get(key)
        if limiter is None:
            limiter = self.limiters[key] = Limiter(key)
        return limiter

    def site(self, origin: Origin) -> Site:
        """Return the site of *origin*. A missing site is created."""
        site = self.sites.get(origin)
        if site is None:
            site = self.sites[origin] = Site(origin)
        return site

    def add(self, queue: Queue) -> None:
        """Add *queue*, which must be empty. Its site and the limiters of its host and download slot are kept at least
        as long as the queue.
        """
        self.queues[queue.key] = queue
        self._idle[queue] = None
        if queue.site is not None:
            queue.site.users += 1
        for limiter in {queue.host, queue.slot}:
            limiter.users += 1

    def sweep(self, now: float) -> bool:
        """Delete the queues, limiters and sites that no request needs, unless they contain information for later
        requests, such as a recent pause. Return True if any queue, or any limiter of a host or download slot, was
        deleted.
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
        for site in list(self.sites.values()):
            is_under_way = site.fetch_stage is FetchStage.UNDER_WAY
            if not (site.users or site.has_waiting or is_under_way):
                del self.sites[site.origin]
        for limiter in list(self.limiters.values()):
            if not limiter.users and limiter.is_quiet(now):
                del self.limiters[limiter.key]
        used_addresses = {limiter.address for limiter in self.limiters.values()}
        for address, limiter in list(self.addresses.items()):
            if limiter not in used_addresses and limiter.is_quiet(now):
                del self.addresses[address]
        return (len(self._idle), len(self.limiters)) != before

    def _may_forget(self, queue: Queue, now: float) -> bool:
        """Return whether *queue*, which is empty, may be deleted. The result is False while the host's limiter or
        the download slot's limiter is still needed, for example because of a recent pause (:meth:`Limiter.is_quiet`).

        The last queue of a site is deleted together with the site. For this queue, the result is False in three more
        cases:

        - The site's robots.txt is being fetched.
        - A request waits for the rules.
        - robots.txt is unreachable, and may not be fetched again yet. To save memory, this case counts only while at
          most ``_MAX_SITES`` sites are known.
        """
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
            or len(self.sites) > _MAX_SITES
        )

    # Methods for the scheduler. They decide from which queues it may hand out requests.

    def filled(self, queue: Queue, now: float) -> None:
        """After requests were added to *queue*, make it ready if its next request may be sent now or will be refused.
        Otherwise, let the queue wait (park it) at the site or limiter for which its requests have to wait. Do nothing
        if *queue* is already ready or parked, or if it is empty.
        """
        if queue.place is None and queue.count:
            self._idle.pop(queue, None)
            self._place(queue, now)

    def may_plan(self, queue: Queue, now: float) -> bool:
        """Return True if the scheduler may hand out the next request of *queue*: the request may be sent now, or the
        gate (the downloader middleware that judges requests) will refuse it. *queue* must be the first ready queue.

        If the request has to wait, return False, and let the queue wait (park it) at the site or limiter that blocks
        it, so that the queue is no longer ready.
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
        """Reserve room in the limiters for a request that the scheduler has just taken from *queue*, and return the new
        state of the request. If the gate (the downloader middleware that judges requests) will refuse the request, no
        room is reserved.

        Before *queue* has its next turn, others have one: each other ready queue of the same download slot, and the
        first request that waits outside the scheduler for one of the limiters.
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
                    # The next turn belongs to a request that waits outside the scheduler. So *queue* is no longer
                    # ready, and waits for its next turn, unless its requests will be refused.
                    self.ready.discard(queue)
                    self._place(queue, now)
                    break
            else:
                self.ready.put_last(queue)
        self._reconcile_all(limiters, now)
        return entry

    def _place(self, queue: Queue, now: float) -> None:
        """Make *queue*, which contains requests, ready if its next request may be sent now or will be refused.
        Otherwise, let the queue wait (park it). If there are no fresh rules of robots.txt, it waits at its site, and
        robots.txt will be fetched. If there are fresh rules, it waits at the first limiter without room.
        """
        obstacle = self._obstacle(queue, queue.limiters, now)
        if obstacle is None or self._is_to_be_refused(queue, now):
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
        """Return the site or limiter that blocks *queue*; None if the next request may be sent now. *limiters* are
        the queue's limiters.
        """
        site = queue.site
        if site is not None and now >= site.expires and not site.holds_for_next:
            return site
        for limiter in limiters:
            if now < limiter.opens_for_queue(now):
                return limiter
        return None

    def _is_to_be_refused(self, queue: Queue, now: float) -> bool:
        """Whether the requests of *queue* will be refused by the gate (the downloader middleware that judges requests).
        Such requests are handed out even if their limiters have no room.
        """
        is_unreachable = queue.site is not None and queue.site.refuses(now)
        return is_unreachable or queue.refusing_limiter(now) is not None

    def _claim_rules(self, entry: InFlight, site: Site) -> None:
        """Let the current rules of *site* apply to the request of *entry* even if the rules become stale before the
        request is sent. If the request is for robots.txt, do nothing.

        This exception is for the first request after each fetch of robots.txt. So call this method only if
        :attr:`Site.holds_for_next` is True. The method sets it to False.
        """
        if not entry.is_for_robotstxt:
            entry.may_use_stale, site.holds_for_next = True, False

    # Methods that send a request, let it wait, or record its end.

    def try_send(self, entry: InFlight, now: float) -> bool:
        """If all limiters of the request of *entry* have room now, count the request as sent, and return True.
        Otherwise, return False. If room was reserved for the request before, the request uses this room.
        """
        limiters, is_planned = entry.needs, entry.stage is Stage.PLANNED
        for limiter in limiters:
            if is_planned:
                opens_at = limiter.opens_for_planned()
            else:
                opens_at = limiter.opens_for_newcomer()
            if now < opens_at:
                return False
        self._send(entry, limiters, now)
        return True

    def send(self, entry: InFlight, now: float) -> None:
        """Count the request of *entry* as sent even if its limiters have no room, because the request is already on
        the network.
        """
        self._send(entry, entry.needs, now)

    def _send(self, entry: InFlight, limiters: tuple[Limiter, ...], now: float) -> None:
        before, site = entry.limiters, entry.queue.site
        if site is not None and site.holds_for_next:
            self._claim_rules(entry, site)
        # Usually, the limiters that apply now are those in which room was reserved for the request. They differ if no
        # room was reserved, or if other limiters have begun to apply since then.
        is_moved = limiters != before
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

    def wait(self, waiter: Waiter, now: float, *, has_waited: bool = False) -> None:
        """Let the request of *waiter* wait until all of its limiters allow it. If they allow it now, the request
        continues at once. If the pauses of its host or download slot exceed ``REP_WAIT_TIMEOUT``, the request is
        refused at once. When the request continues or is refused, *waiter* is added to :attr:`decided`.

        *has_waited* is True if *waiter* has just been taken from a limiter where it waited. Then it does not have to
        wait behind other waiters again.
        """
        limiters, is_new = waiter.entry.needs, not (has_waited or waiter.is_first)
        if waiter.entry.queue.refusing_limiter(now) is not None:
            self.decided.append(waiter)
            return
        for limiter in limiters:
            if is_new:
                opens_at = limiter.opens_for_newcomer()
            else:
                opens_at = limiter.opens_for_waiter()
            if now < opens_at:
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
        self._admit(waiter, limiters, now)

    def admit(self, waiter: Waiter, now: float) -> None:
        """Let the request of *waiter* continue now, even if the limiters for which it waits have no room."""
        self.leave(waiter, now)
        self._admit(waiter, waiter.entry.needs, now)

    def _admit(self, waiter: Waiter, limiters: tuple[Limiter, ...], now: float) -> None:
        waiter.may_continue = True
        for limiter in limiters:
            if limiter.is_full and limiter.overtaker is None:
                # The next waiter lets the scheduler go first again, when the request of this waiter has ended.
                limiter.overtaker, limiter.waiters_yield_until = waiter.entry, inf
        if waiter.counts_as_planned:
            self._count_planned(waiter.entry, limiters)
        else:
            self._send(waiter.entry, limiters, now)
        self.decided.append(waiter)

    def leave(self, waiter: Waiter, now: float) -> None:
        """Remove *waiter* from the limiter or site where it waits, for example because its request was cancelled. What
        happens to the request is left to the caller. Do nothing if *waiter* does not wait.
        """
        for limiter in waiter.entry.needs:
            if limiter.waiters is not None and waiter in limiter.waiters:
                limiter.waiters.remove(waiter)
                if not limiter.waiters:
                    limiter.waiters_yield_until = inf
                self.reconcile(limiter, now)
        site = waiter.site
        if site is not None and site.waiters and waiter in site.waiters:
            site.waiters.remove(waiter)

    def unplan(self, entry: InFlight, now: float) -> None:
        """Free the room that is reserved in the limiters for the request of *entry*. Do nothing if no room is reserved
        for the request.
        """
        if entry.stage is not Stage.PLANNED:
            return
        limiters = entry.limiters
        self._count_planned(entry, limiters, -1)
        self._reconcile_all(limiters, now)

    def end(self, entry: InFlight, now: float, *, is_withdrawn: bool = False) -> None:
        """Record that the request of *entry* ended, so that its limiters no longer count it. If the request was sent,
        the host's crawl delay begins now. *is_withdrawn* is True if the request counted as sent, but never reached the
        network. In this case, no delay begins.
        """
        if entry.stage is not Stage.SENT:
            self.unplan(entry, now)
            return
        limiters, entry.stage, entry.limiters = entry.limiters, Stage.UNCOUNTED, ()
        for limiter in limiters:
            before = limiter.planned + limiter.sent
            limiter.sent -= 1
            limiter.waiters_yield_until = inf
            if limiter.overtaker is entry:
                limiter.overtaker = None
            if limiter.ready:
                self.ready.reorder(limiter, before)
            if is_withdrawn:
                continue
            limiter.ended_at = now
            if limiter.delay:
                limiter.next_at = max(limiter.next_at, now + limiter.delay)
        self._reconcile_all(limiters, now)

    def _count_planned(
        self, entry: InFlight, limiters: tuple[Limiter, ...], change: int = 1
    ) -> None:
        """Reserve room for the request of *entry* in *limiters* (count it as planned there). If *change* is -1, free
        this room.
        """
        if change > 0:
            entry.stage, entry.limiters = Stage.PLANNED, limiters
        else:
            entry.stage, entry.limiters = Stage.UNCOUNTED, ()
        for limiter in limiters:
            before = limiter.planned + limiter.sent
            limiter.planned += change
            if change < 0 and limiter.overtaker is entry:
                limiter.overtaker = None
            if limiter.ready:
                self.ready.reorder(limiter, before)

    # Letting waiting requests continue.

    def reconcile(self, limiter: Limiter, now: float) -> None:
        """Let requests that wait for *limiter* continue while it has room. Queues of the scheduler (parked queues) and
        requests outside the scheduler (waiters) take turns:

        - On a queue's turn, the queue becomes ready: the scheduler may hand out its next request.
        - On a waiter's turn, its request is sent, or room is reserved for it.

        A queue or waiter for which another limiter has no room moves to that limiter. If the pauses of *limiter*
        exceed ``REP_WAIT_TIMEOUT``, all requests that wait for *limiter* are refused.
        """
        if now < limiter.refuses_until:
            self._release(limiter, now)
            return
        while True:
            if limiter.parked and now >= limiter.opens_for_queue(now):
                queue, _ = limiter.parked.popitem(last=False)
                self._place(queue, now)
                if queue.place is READY:
                    break  # The next queue has its turn when the scheduler has taken a request from this queue.
            elif limiter.waiters and now >= limiter.opens_for_waiter():
                limiter.is_queue_next = True
                self.wait(limiter.waiters.popleft(), now, has_waited=True)
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
        """Remove all waiters and queues from *limiter*, and check again whether they have to wait. If the request of a
        waiter may be sent or is refused, its wait ends. If the next request of a queue may be sent or will be refused,
        the queue becomes ready. All other waiters and queues are added to the site or limiter that blocks them now,
        which can be *limiter* again.
        """
        waiters, limiter.waiters = limiter.waiters or (), None
        parked, limiter.parked = limiter.parked or (), None
        for waiter in waiters:
            self.wait(waiter, now, has_waited=True)
        for queue in parked:
            self._place(queue, now)

    def _note_waiting(self, limiter: Limiter, now: float) -> None:
        """If *limiter* has a crawl delay, record *now* as the time when requests began to wait for this delay. The
        time is needed for :attr:`slowdowns`. Do nothing if *limiter* has no crawl delay, if one of its requests is in
        flight, or if an earlier time is already recorded.
        """
        if not isinstance(limiter, DelayLimiter) or not limiter.delay:
            return
        if limiter.waiting_since is None and not (limiter.planned or limiter.sent):
            limiter.waiting_since = now

    def _set_alarm(self, limiter: Limiter, now: float) -> None:
        """Set an alarm for the time when *limiter* will have room for the queues or waiters that wait at *limiter*. Set
        no alarm if there will be room only after another request has ended, because this time is not known.
        """
        times = []
        if limiter.parked:
            times.append(limiter.opens_for_queue(now))
        if limiter.waiters:
            is_overtaken = limiter.is_full and limiter.overtaker is not None
            opens_at = inf if is_overtaken else limiter.opens_for_planned()
            if opens_at <= now:
                # A waiter could be sent now, but the scheduler goes first. Either the scheduler has handed out a
                # request that is not sent yet, or the next turn belongs to a queue of the scheduler. If the scheduler
                # sends no request within _WAITERS_YIELD seconds, the first waiter is sent instead.
                go_at = min(limiter.waiters_yield_until, now + _WAITERS_YIELD)
                opens_at = limiter.waiters_yield_until = go_at
            times.append(opens_at)
        for at in times:
            if at > now:
                self.alarms.set(limiter, at)

    # Delays and pauses.

    def set_delay(
        self, host: Limiter, origin: Origin, delay: float, now: float, *, since: float
    ) -> None:
        """Keep *delay* seconds between requests to *host*, because the robots.txt of *origin* asks for this delay. A
        *delay* of 0 means that *origin* asks for no delay. If several origins of the host ask for delays, the longest
        one applies.

        A new or longer delay also applies to the next request: it is measured from the host's last answer or from
        *since*, whichever is later. *since* is usually the time when robots.txt was fetched.
        """
        limiter = host.crawl_delay
        if limiter is None:
            if not delay:
                return
            limiter = host.crawl_delay = DelayLimiter(f"{host.key} delay")
            self._count_in_flight(host, limiter)
        if delay > limiter.delay or (delay and origin not in limiter.delays):
            limiter.next_at = max(limiter.next_at, max(since, host.ended_at) + delay)
        limiter.set_delay(origin, delay)
        self.reconcile(limiter, now)

    def set_address(
        self, host: Limiter, address: str, concurrency: int, now: float
    ) -> None:
        """Record that *host* has the IP address *address*, and limit the requests in flight to all hosts at this
        address together to *concurrency*.
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
        """Let *limiter* count the requests to a host that are already in flight. *host* is the limiter of the host.
        *limiter* has just begun to apply to the host, because the host's crawl delay or IP address became known.
        Requests to which the crawl delay does not apply are not counted.
        """
        for entry in self.in_flight.values():
            is_new = host in entry.limiters and limiter not in entry.limiters
            if is_new and limiter in entry.needs:
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
        """Pause *limiter* after a request to its host, sent at *sent_at*, was answered with 429 or 503, or failed. If a
        spider asks for the pause, *sent_at* is the present time.

        Return True if a new pause begins. If the request was sent before the end of the last pause, no new pause
        begins: only the end of the last pause can move to a later time. In this case, return False.

        *asked* is the duration of the pause, in seconds, for which the host or the spider asks. If *asked* is None,
        each new pause is twice as long as the last one: 1, 2, 4, ... up to *cap* seconds. No pause is shorter than the
        host's crawl delay, and a pause that is already running is never shortened. *has_failed* is True if the cause is
        a failed connection.
        """
        back_off = limiter.back_off
        if back_off is None:
            back_off = limiter.back_off = BackOff(since=now)
        elif back_off.concurrency > 1:  # A request has succeeded since the last pause.
            back_off.since = now
        is_new = sent_at >= back_off.until
        if is_new:
            back_off.own_pause = min(max(2 * back_off.own_pause, _FIRST_PAUSE), cap)
        delay = 0.0 if limiter.crawl_delay is None else limiter.crawl_delay.delay
        # own_pause can be 0 although a pause has begun earlier (is_new is False). Either a success has set own_pause to
        # 0 since then. Or resume_pause() has continued a pause that an earlier run or another worker began, and whose
        # own_pause is not known here. In both cases, use the duration of a first pause.
        own_pause = back_off.own_pause or min(_FIRST_PAUSE, cap)
        seconds = max(own_pause if asked is None else asked, delay)
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
        """Send no request to the host of *limiter* before the time *until*, because another worker (process of the
        same crawl) sends requests to this host.
        """
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
        """Continue the back-off that another worker (process of the same crawl) began for the host of *limiter*.
        *concurrency*, *own_pause* and *since* are the attributes of the other worker's :class:`BackOff`.
        """
        if limiter.back_off is None:
            limiter.back_off = BackOff(since)
        back_off = limiter.back_off
        back_off.since = min(back_off.since, since)
        back_off.own_pause = max(back_off.own_pause, own_pause)
        back_off.concurrency = concurrency
        self._back_off_changed(limiter, now)

    def resume_pause(self, limiter: Limiter, now: float, *, until: float) -> None:
        """Continue a pause for which the host of *limiter* asked in an earlier run, or in an answer to another worker
        (process of the same crawl). The pause ends at the time *until*. Do nothing if *until* is in the past.
        """
        if until > now:
            if limiter.back_off is None:
                limiter.back_off = BackOff(since=now)
            elif limiter.back_off.until <= now:
                # The host may have answered other workers since the last pause. Assume that it did, so that
                # REP_WAIT_TIMEOUT is measured from now.
                limiter.back_off.since = now
            limiter.back_off.asked_until = max(limiter.back_off.asked_until, until)
            limiter.back_off.paused_at = now
            limiter.back_off.concurrency = 1
            self._back_off_changed(limiter, now)

    def succeeded(
        self,
        limiter: Limiter,
        now: float,
        *,
        sent_at: float,
        normal_concurrency: float,
    ) -> bool:
        """Record that the host of *limiter* answered a request, sent at *sent_at*, without asking for a pause. If the
        host is in a back-off, this success raises the number of requests at a time (the concurrency) by one. The
        back-off ends when the concurrency reaches *normal_concurrency*.

        Return True for the first success of a back-off; otherwise, return False. If the request was sent before the
        last pause of the back-off ended, the answer is ignored, and the result is False.
        """
        back_off = limiter.back_off
        if back_off is None or sent_at < back_off.until:
            return False
        is_first, back_off.has_answered = not back_off.has_answered, True
        back_off.own_pause = 0.0
        back_off.concurrency += 1
        if back_off.concurrency >= normal_concurrency:
            limiter.back_off = None
        self._back_off_changed(limiter, now)
        return is_first

    def forget_failures(self, limiter: Limiter, now: float) -> None:
        """Cancel the pause that failed connections caused for *limiter*, because the crawler's own network, and not the
        host, made the connections fail. A pause for which the host asked is not cancelled: it continues until its end,
        and then one request at a time is sent, as after any pause.
        """
        back_off = limiter.back_off
        if back_off is None or back_off.failed_until == -inf:
            return
        back_off.failed_until = -inf
        if back_off.asked_until == -inf:
            limiter.back_off = None
        self._back_off_changed(limiter, now)
        self._release(limiter, now)

    def _back_off_changed(self, limiter: Limiter, now: float) -> None:
        """Update *limiter*, the limiter of a host or download slot, after its back-off changed. Requests that wait at
        *limiter* continue if it allows them now.

        During a pause, requests are refused (:attr:`Limiter.refuses_until`) in two cases:

        - The pause ends later than ``wait_timeout`` seconds from now.
        - The first pause after the last success began at least ``wait_timeout`` seconds ago.

        In both cases, the requests that wait at *limiter* are refused at once. If *limiter* belongs to a host, the
        host's requests that wait for its crawl delay or for its IP address are refused, as well.
        """
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
                for other in (limiter.crawl_delay, limiter.address):
                    if other is not None:
                        self._release(other, now)
        self.reconcile(limiter, now)

    # Sites, and the fetches of their robots.txt.

    def want(self, site: Site, now: float, *, is_urgent: bool = False) -> None:
        """Ask the frontier to fetch the robots.txt of *site* (add *site* to :attr:`urgent` or :attr:`wanted`). If
        *is_urgent* is True, robots.txt is fetched as soon as possible; otherwise, only when too few queues are ready
        (have a next request that may be sent now). If robots.txt was unreachable and must not be fetched again yet, set
        an alarm for the time of the next fetch (:attr:`Outage.retry_at`) instead.
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
        """Return the next site whose robots.txt should be fetched, and mark its fetch as under way. Return None if no
        robots.txt should be fetched now.

        Sites for which a request in the downloader waits (:attr:`urgent`) come first. Sites for which only requests in
        the scheduler wait (:attr:`wanted`) are returned only if *is_needed* is True. The caller passes True if too few
        queues have a request that may be sent now.
        """
        for sites in (self.urgent, self.wanted) if is_needed else (self.urgent,):
            while sites:
                site = sites.popleft()
                if site.fetch_stage is FetchStage.UNDER_WAY:
                    continue  # The site was in both lists, and its fetch has begun.
                is_wanted = site.fetch_stage is not FetchStage.NONE
                if is_wanted and site.has_waiting:
                    self.begin_fetch(site)
                    return site
                site.fetch_stage = FetchStage.NONE
        return None

    def begin_fetch(self, site: Site) -> None:
        """Record that the fetch of the robots.txt of *site* begins."""
        site.fetch_stage = FetchStage.UNDER_WAY

    def end_fetch(self, site: Site) -> None:
        """Record that the fetch of the robots.txt of *site* ended, with or without a result."""
        site.fetch_stage = FetchStage.NONE

    def learned(self, site: Site, now: float, expires: float, *, is_new: bool) -> None:
        """Record that the rules of *site* are known, and fresh until the time *expires*. Let the site's requests
        continue. If the rules are new, which means that robots.txt has just been fetched, they apply to the next
        request even if this request is sent after *expires*.
        """
        site.happens(Event.KNOWN)
        site.expires = expires
        site.holds_for_next |= is_new
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
        """Record that the robots.txt of *site* is unreachable, and will be fetched again at *retry_at*. The site's
        requests wait until *wait* seconds after the first failed fetch. Afterwards they are refused.

        *is_asked* says who chose *retry_at*. It matters if *retry_at* is later than the end of the wait:

        - If the host asked for *retry_at* (True, ``Retry-After``), robots.txt is not fetched earlier. Waiting would be
          useless, so the requests are refused at once.
        - If the crawl chose *retry_at* (False), robots.txt is fetched at the end of the wait instead. The requests are
          refused only if this fetch fails.

        *result* becomes :attr:`Outage.last_result`.
        """
        if site.outage is None:
            site.outage = Outage(now, now + wait)
        outage = site.outage
        # *wait* can be longer than in the last call. The caller passes a short time if the host seems to have no server
        # (refused connection, unknown host name). A later failure, such as a 503, can show that the host has a server.
        outage.until = max(outage.until, outage.since + wait)
        if not is_asked and now < outage.until:
            retry_at = min(retry_at, outage.until)
        outage.retry_at, outage.last_result = retry_at, result
        is_too_long = now >= outage.until or retry_at > outage.until
        site.happens(Event.GIVEN_UP if is_too_long else Event.UNREACHABLE)
        self._release_site(site, now)

    def no_result(self, site: Site, now: float) -> None:
        """Record that the fetch of the robots.txt of *site* ended without a result, because it was cancelled or an
        unexpected error occurred. (If the host does not answer, the result is "unreachable".) If any request waits for
        the rules, robots.txt is fetched again after one second. Otherwise, it is fetched when a request needs the
        rules.
        """
        if site.has_waiting:
            self.alarms.set(site, now + _FIRST_PAUSE)
        else:
            site.happens(Event.NO_RESULT)

    def wait_for_rules(self, waiter: Waiter, site: Site, now: float) -> None:
        """Let *waiter* wait at *site* until the rules are known, or until robots.txt turns out to be unreachable. In
        both cases, its request continues, and is then judged. Also ask the frontier to fetch robots.txt as soon as
        possible.
        """
        waiter.site = site
        if site.waiters is None:
            site.waiters = []
        site.waiters.append(waiter)
        self.want(site, now, is_urgent=True)

    def _release_site(self, site: Site, now: float) -> None:
        """Check all requests that wait for the rules of *site*, after the rules became known or robots.txt turned out
        to be unreachable.

        Requests outside the scheduler continue, and are judged next. A queue of the scheduler becomes ready if its next
        request may be sent now or will be refused. Otherwise, the queue waits again: at *site* if robots.txt is
        unreachable, else at the first limiter that has no room.
        """
        waiters, site.waiters = site.waiters or (), None
        for waiter in waiters:
            waiter.may_continue = True
            self.decided.append(waiter)
        parked, site.parked = site.parked or (), None
        for queue in parked:
            self._place(queue, now)

    # The crawler's own network.

    def pause_network(self, until: float, now: float) -> None:
        """Send no request before the time *until*, because the machine has run out of file descriptors, ports or
        memory.
        """
        for limiter in self.network.limiters:
            limiter.next_at = max(limiter.next_at, until)
            self._set_alarm(limiter, now)

    def network_is_back(self, now: float, since: float) -> None:
        """Let all requests that wait for the network continue. The network was gone from *since* until *now*.

        If the outage was a false alarm (:attr:`Network.is_confirmed` is False), nothing else is done. Otherwise, the
        effects of the outage on hosts are undone:

        - The pauses that failed connections caused are cancelled.
        - Each robots.txt that became unreachable during the outage may be fetched again at once.
        - The time of the outage does not count towards the ``REP_WAIT_TIMEOUT`` of any host.
        """
        network = self.network
        if network.is_confirmed:
            self._forget_outage(since, now)
        for limiter in network.limiters:
            self._release(limiter, now)

    def _forget_outage(self, since: float, now: float) -> None:
        """Undo what an outage of the crawler's network, from *since* until *now*, has done to the state of the hosts.
        Cancel the pauses that failed connections caused, and let each robots.txt that became unreachable during the
        outage be fetched again.

        The time of the outage does not count towards ``REP_WAIT_TIMEOUT``. So the start of each back-off is moved later
        by the duration of the outage. If the start lies within the outage, the start is moved to *now*. The same is
        done with the start of each period in which a robots.txt is unreachable.
        """
        for site in self.sites.values():
            if site.outage is not None:
                if site.outage.since >= since:
                    site.outage.retry_at = now
                    self.alarms.set(site, now)
                seconds = now - max(since, site.outage.since)
                site.outage.since += seconds
                site.outage.until += seconds
        for limiter in list(self.limiters.values()):
            if limiter.back_off is not None:
                limiter.back_off.since += now - max(since, limiter.back_off.since)
                if limiter.back_off.failed_until >= since:
                    self.forget_failures(limiter, now)

    # Alarms.

    def tick(self, now: float) -> None:
        """Handle all alarms that are due at *now*. The alarm of a limiter lets requests that wait at the limiter
        continue if there is room (:meth:`reconcile`). The alarm of a site leads to another fetch of robots.txt if any
        request waits for the site's rules.
        """
        for owner in self.alarms.due(now):
            if isinstance(owner, Limiter):
                self.reconcile(owner, now)
            elif owner.has_waiting:
                self.want(owner, now, is_urgent=bool(owner.waiters))

    # Statistics for the log.

    def _note_slowdown(self, host: Limiter, now: float) -> None:
        """When a request to *host* is sent, add the time for which requests to *host* have just waited for the host's
        crawl delay to :attr:`slowdowns` and :attr:`slowed_seconds`. The time in which the download slot or a pause
        would have delayed the requests anyway is not included.
        """
        limiter = host.crawl_delay
        assert limiter is not None
        since, limiter.waiting_since = limiter.waiting_since, None
        begins = inf if since is None else max(since, host.slot_due_at, host.next_at)
        seconds = max(min(now, limiter.next_at) - begins, 0.0)
        before = self.slowdowns.get(host.key, Slowdown(0.0, host.key, 0, 0.0))
        self.slowed_seconds += seconds
        self.slowdowns[host.key] = Slowdown(
            before.seconds + seconds, host.key, before.requests + 1, limiter.delay
        )
        if len(self.slowdowns) > _MAX_SLOWDOWNS:
            longest = sorted(self.slowdowns.values(), reverse=True)
            self.slowdowns = {
                slowdown.key: slowdown for slowdown in longest[: _MAX_SLOWDOWNS // 2]
            }

    def waiting(self) -> tuple[int, int, Limiter | None]:
        """Return three values for the log: the number of waiting requests, the number of their hosts, and the limiter
        that will allow a request first. The limiter is None if no request waits for a limiter.

        A request is counted if it waits for the limiter of a host, of a crawl delay or of a download slot. Requests
        that wait for a robots.txt are counted only if they are in a queue of the scheduler.
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
