"""When a request may be sent: a state machine without Scrapy, timers, I/O or a clock.

Events come in as calls, with the time ``now`` in seconds on any clock that only goes forward. Answers
are which ticket may go (:meth:`Core.next`, :attr:`Core.granted`), which requests are refused
(:meth:`Core.next`, :attr:`Core.refused`), which robots.txt to fetch (:meth:`Core.next_wanted`), and
when to call :meth:`Core.tick` (:meth:`Core.wake_at`).

A *scope* is what requests share: a host name, or a download slot of another name. A request may go
when each of its scopes has a place for it and the time is past its ``next_at``. Whatever holds a host
back is this one number, with the reason beside it.

A *ticket* is what waits: the queue of a host in the scheduler, or one request that is in the
downloader already.

A *host* is an origin whose robots.txt decides about tickets. Its phases:

========= ================================= ==================================================
phase     meaning                           what comes next
========= ================================= ==================================================
UNKNOWN   no rules, or stale ones           a ticket comes: WANTED
WANTED    robots.txt is (to be) fetched     known: OPEN; unreachable: DOWN, or REFUSED
OPEN      the rules are known               stale: UNKNOWN; meanwhile its tickets go as their
                                            scopes allow
DOWN      unreachable; its tickets wait     known: OPEN; at ``retry_at``: fetched again;
                                            unreachable after ``until``: REFUSED
REFUSED   unreachable for too long; its     a ticket comes after ``retry_at``: fetched again;
          tickets are refused               known: OPEN
========= ================================= ==================================================

Above the hosts stands the *network* of the crawler itself (:mod:`scrapy_rep.crawl.frontier.network`).
While it is gone, nothing is sent but one probe at a time, and no time runs out.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from scrapy_rep.crawl.frontier.network import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from scrapy_rep.protocol.origins import Origin

# REFUSED hosts beyond this number are forgotten, the oldest first.
_MAX_REFUSED = 20_000

# A robots.txt that another host redirects to a host with a delay waits for this many delays
# after the one before it, while pages wait. Else redirects could take all of its time.
_DELAYS_PER_STRANGER = 4

# The first pause, in seconds, of a host that does not say how long it wants, and the pause after
# a fetch of robots.txt that has ended without a result.
_FIRST_PAUSE = 1.0

# By how many seconds the ends of one pause may differ for two workers.
_SAME_PAUSE = 0.05

# For how many seconds after a pause the crawl remembers that a host has asked for it, and after a
# delay, for the ledger, when the host has answered.
_REMEMBERED = 600.0
_ANSWER_REMEMBERED = 30.0

# Beyond this number, the hosts that have held up the crawl least are forgotten.
_MAX_HELD_UP = 1_000


class Hold(Enum):
    """Why nothing is sent in a scope before its ``next_at``."""

    DELAY = "delay"
    BACK_OFF = "back-off"
    OTHER_WORKER = "another worker"


class Phase(Enum):
    """The phase of a host: see the table above."""

    UNKNOWN = auto()
    WANTED = auto()
    OPEN = auto()
    DOWN = auto()
    REFUSED = auto()


class Where(Enum):
    """Where a ticket is. It is in one place at a time."""

    NOWHERE = auto()
    """It has nothing to send, or is done."""

    AT_HOST = auto()
    """It waits for robots.txt."""

    AT_SCOPE = auto()
    """It waits for a place, or for the ``next_at`` of a scope."""

    AT_NETWORK = auto()
    """A request in the downloader that waits until the crawler's own network is back."""

    READY = auto()
    """A queue whose next request may go, or is refused."""

    REFUSED = auto()


@dataclass(slots=True, eq=False)
class BackOff:
    """What a scope remembers of the answers 429 and 503 until all of its places are back."""

    since: float
    """The first such answer since the last success."""

    until: float = -inf
    """The end of the current pause, or of the last one."""

    pauses: int = 0

    own: float = 0.0
    """The seconds of the last pause that the crawl chose itself."""

    places: int = 1
    """The requests that may be in flight now."""

    # For the log.
    is_long: bool = False
    """Whether requests were refused for it."""

    was_over: bool = False
    """Whether a request has succeeded since the first pause."""

    asked_at: float = -inf
    """When the last pause was asked for, or when this process learned of it."""

    # For the ledger.
    asked: float = 0.0
    """The seconds of the pause after which no request was sent yet; 0 if there is none."""

    @property
    def is_over(self) -> bool:
        """Whether a request has succeeded since the last pause."""
        return self.places > 1


@dataclass(slots=True, eq=False)
class Scope:
    """What requests share: places, a delay, and a time before which nothing is sent."""

    key: str
    """A host name or the key of a download slot."""

    in_flight: int = 0
    unsent: int = 0
    """How many of those came from a queue, and have not reached the downloader."""

    sent: int = 0
    """How many of those have reached the downloader."""

    answered_at: float = -inf
    """When the last one that was sent has ended."""

    next_at: float = -inf
    reason: Hold = Hold.DELAY
    """Why ``next_at`` is what it is."""

    taken_at: float = -inf
    """When a place was last taken."""

    # Most scopes have none of these.
    delays: dict[Origin, float] | None = None
    """The crawl delay of each origin that has one, in seconds."""

    back_off: BackOff | None = None
    parked: dict[Lane, OrderedDict[Ticket, None]] | None = None
    """The tickets that wait here, the first of each lane first."""

    stranger_at: float = -inf
    """When the next robots.txt of another host may be sent while pages wait."""

    waiting_since: float | None = None
    """Since when tickets wait while nothing is in flight; None if they do not."""

    alarm_at: float = inf
    """The time of its entry in the heap of alarms."""

    tickets: int = 0
    """How many tickets belong to it."""

    redirected: int = 0
    """How many of them are for the robots.txt of another host."""

    @property
    def delay(self) -> float:
        """The longest delay of its origins, in seconds."""
        return max(self.delays.values()) if self.delays else 0.0

    def hold(self, until: float, reason: Hold) -> None:
        """Send nothing before *until*."""
        if until > self.next_at:
            self.next_at, self.reason = until, reason


@dataclass(slots=True, eq=False)
class Host:
    """An origin whose robots.txt decides."""

    origin: Origin
    phase: Phase = Phase.UNKNOWN

    waiting: dict[Ticket, None] | tuple[Ticket, ...] = ()
    """The tickets that wait for robots.txt; for one or none, a tuple takes less memory."""

    tickets: int = 0
    """How many tickets belong to it, waiting or not."""

    expires: float = -inf
    """When the rules are stale."""

    is_wanted: bool = False
    is_fetching: bool = False

    # DOWN and REFUSED.
    since: float = -inf
    until: float = -inf
    retry_at: float = -inf
    """The time from which robots.txt may be fetched."""

    alarm_at: float = inf
    """The time of its entry in the heap of alarms."""

    # For the owner of the core.
    templates: Any = None
    """What a fetch of robots.txt needs."""

    known: Any = None
    """The last result, while DOWN or REFUSED."""

    @property
    def is_down(self) -> bool:
        return self.phase is Phase.DOWN or self.phase is Phase.REFUSED

    def add(self, ticket: Ticket) -> None:
        """Have *ticket* wait for robots.txt."""
        if not self.waiting:
            self.waiting = (ticket,)
            return
        if isinstance(self.waiting, tuple):
            self.waiting = dict.fromkeys(self.waiting)
        self.waiting[ticket] = None

    def discard(self, ticket: Ticket) -> None:
        """Note that *ticket*, which waits, does so no more."""
        if isinstance(self.waiting, tuple):
            self.waiting = ()
        else:
            del self.waiting[ticket]

    def is_open(self, now: float) -> bool:
        """Whether its rules are known, and not stale."""
        return self.phase is Phase.OPEN and now < self.expires


class Ticket:
    """What waits. :meth:`__len__` is the number of its requests; a queue may be empty."""

    __slots__ = ("host", "is_patient", "line", "obeys", "scopes", "where")

    is_for_robotstxt = False
    """Whether it is one request for a robots.txt."""

    def __init__(
        self,
        line: Line,
        host: Host | None,
        scopes: tuple[Scope, ...],
        *,
        obeys: bool = True,
        is_patient: bool = True,
    ) -> None:
        """*line* is where it stands when it may go. *host* is None if no robots.txt decides. The
        last of *scopes* is its download slot. A ticket that does not obey robots.txt (*obeys*)
        keeps to places and to back-off only. One that is not *is_patient* is refused while
        robots.txt is unreachable.
        """
        self.line = line
        self.host = host
        self.scopes = scopes
        self.obeys = obeys
        self.is_patient = is_patient
        self.where = Where.NOWHERE
        if host is not None:
            host.tickets += 1
        for scope in scopes:
            scope.tickets += 1
            if line is line.core.redirected:
                scope.redirected += 1

    def __len__(self) -> int:
        return 1


class Line:
    """Where tickets of one kind come that may go now."""

    is_direct = False
    """Whether its tickets go at once: each is one request, which is in the downloader."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def add(self, ticket: Ticket) -> None:
        raise NotImplementedError

    def has(self, scope: Scope) -> bool:
        """Whether a ticket of *scope* is here."""
        return False


Lane: TypeAlias = "tuple[Line, bool]"
"""A line, and whether its tickets obey robots.txt: the others need not wait for a delay."""


class Direct(Line):
    """The line of requests that are in the downloader already: they go at once."""

    is_direct = True

    def add(self, ticket: Ticket) -> None:
        ticket.where = Where.NOWHERE
        self.core.granted[ticket] = None


class Ready(Line):
    """The queues whose next request may go. The download slot with the fewest requests in flight
    comes first; of several, the one that has waited longest. Each operation costs O(1).
    """

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._by_slot: dict[Scope, deque[Ticket]] = {}
        self._rows: list[OrderedDict[Scope, None]] = []
        """These slots by the number of requests in flight."""

        self._others: Counter[Scope] = Counter()
        """How many tickets here have a scope that is not their download slot."""

        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, ticket: Ticket) -> None:
        ticket.where = Where.READY
        slot = ticket.scopes[-1]
        tickets = self._by_slot.get(slot)
        if tickets is None:
            tickets = self._by_slot[slot] = deque()
            self._enter(slot)
        tickets.append(ticket)
        self._size += 1
        for other in ticket.scopes[:-1]:
            self._others[other] += 1

    def has(self, scope: Scope) -> bool:
        return scope in self._by_slot or scope in self._others

    def moved(self, scope: Scope, before: int) -> None:
        """Note that the number of requests of *scope* in flight has changed, or that it had its
        turn without that.
        """
        if scope in self._by_slot:
            del self._rows[before][scope]
            self._enter(scope)

    def discard(self, ticket: Ticket) -> None:
        """Remove *ticket*, which is here."""
        slot = ticket.scopes[-1]
        tickets = self._by_slot[slot]
        tickets.remove(ticket)
        self._size -= 1
        for other in ticket.scopes[:-1]:
            self._others[other] -= 1
            if not self._others[other]:
                del self._others[other]
        if not tickets:
            del self._by_slot[slot]
            del self._rows[slot.in_flight][slot]

    def first(self) -> Ticket | None:
        row = next(filter(None, self._rows), None)
        return None if row is None else self._by_slot[next(iter(row))][0]

    def pop(self) -> Ticket | None:
        """Remove and return the next ticket, if there is one."""
        ticket = self.first()
        if ticket is not None:
            self.discard(ticket)
        return ticket

    def _enter(self, slot: Scope) -> None:
        number = slot.in_flight
        while len(self._rows) <= number:
            self._rows.append(OrderedDict())
        self._rows[number][slot] = None


_T = TypeVar("_T", Scope, Host)


class _Alarms(Generic[_T]):
    """The scopes or hosts that are to be looked at, each at its ``alarm_at``."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _T]] = []
        """An entry whose time is not the ``alarm_at`` of its owner is outdated."""

        self._number = count()

    def set(self, owner: _T, at: float) -> None:
        if at < owner.alarm_at:
            owner.alarm_at = at
            heappush(self._heap, (at, next(self._number), owner))

    def first(self) -> float:
        """Return the time of the first alarm; ``inf`` if there is none."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].alarm_at:
            heappop(heap)
        return heap[0][0] if heap else inf

    def due(self, now: float) -> Iterator[_T]:
        """Yield each owner whose time has come. Its alarm is over."""
        while self.first() <= now:
            _, _, owner = heappop(self._heap)
            owner.alarm_at = inf
            yield owner


class HeldUp(NamedTuple):
    """How long a scope has held up the crawl."""

    seconds: float
    """The time in which requests waited and none was in flight."""

    key: str
    requests: int
    delay: float


class Core:
    """The hosts, scopes and tickets of a crawl."""

    def __init__(
        self,
        *,
        slot: Callable[[Scope], tuple[float, float]],
        wait_max: float,
        look_up: Callable[[Host], None] = lambda _: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """*slot* returns the places of a download slot and the time before which none may be
        taken. Tickets wait for a host that asks for a pause for at most *wait_max* seconds.
        *look_up* may call :meth:`known` or :meth:`unreachable` at once for a host whose phase is
        UNKNOWN or REFUSED. *changed* is called when a ticket that has waited for a scope may go
        or is refused.
        """
        self._slot = slot
        self._wait_max = wait_max
        self._look_up = look_up
        self.changed = changed
        self.network = Network(wait_max)
        self.hosts: dict[Origin, Host] = {}
        self.direct = Direct(self)
        self.redirected = Direct(self)
        """For a robots.txt of another host, which has redirected it."""

        self.granted: OrderedDict[Ticket, None] = OrderedDict()
        """The tickets of requests in the downloader that may go now, with their places."""

        self.refused: OrderedDict[Ticket, None] = OrderedDict()
        """The tickets of requests in the downloader that are refused."""

        self._urgent: deque[Host] = deque()
        self._wanted: deque[Host] = deque()
        self._refused_hosts: dict[Host, None] = {}
        self._host_alarms: _Alarms[Host] = _Alarms()
        self.scopes: dict[str, Scope] = {}
        self._scope_alarms: _Alarms[Scope] = _Alarms()
        self._ready: list[Ready] = []
        self._held_up: dict[str, HeldUp] = {}
        self._at_network: dict[Ticket, None] = {}
        self._probe: Ticket | None = None
        """That of the request which finds out whether the network is back."""

    def host(self, origin: Origin) -> Host:
        host = self.hosts.get(origin)
        if host is None:
            host = self.hosts[origin] = Host(origin)
        return host

    def scope(self, key: str) -> Scope:
        scope = self.scopes.get(key)
        if scope is None:
            scope = self.scopes[key] = Scope(key)
        return scope

    def ready(self) -> Ready:
        """Return a new line for the queues of a scheduler."""
        ready = Ready(self)
        self._ready.append(ready)
        return ready

    # Tickets.

    def add(self, ticket: Ticket, now: float) -> None:
        """Note that *ticket*, which is nowhere, has something to send."""
        host = ticket.host
        if host is None or host.is_open(now):
            self.place(ticket, now)
            return
        if host.phase is Phase.OPEN:
            host.phase = Phase.UNKNOWN
        if host.phase in {Phase.UNKNOWN, Phase.REFUSED}:
            self._look_up(host)
        if host.phase is Phase.OPEN:
            self.place(ticket, now)
            return
        if host.phase is Phase.UNKNOWN:
            host.phase = Phase.WANTED
        if host.phase is Phase.REFUSED or (host.is_down and not ticket.is_patient):
            self._refuse(ticket)
        else:
            ticket.where = Where.AT_HOST
            host.add(ticket)
        if now >= host.retry_at:
            self._want(host, is_urgent=ticket.line.is_direct)
        else:
            self._host_alarms.set(host, host.retry_at)

    def next(self, ready: Ready, now: float) -> Ticket | None:
        """Return a ticket of *ready* whose next request may go, with its places, or is refused, without
        places, if the ticket is at ``Where.REFUSED``; None if there is none. If it has more requests,
        it must be added again.
        """
        if not self.network.is_up:
            return None
        while (ticket := ready.pop()) is not None:
            ticket.where = Where.NOWHERE
            host = ticket.host
            is_open = host is None or host.is_open(now)
            if is_open and self._is_free(ticket, now):
                self.take(ticket, now)
            elif self._is_refused(ticket, now):
                ticket.where, slot = Where.REFUSED, ticket.scopes[-1]
                ready.moved(slot, slot.in_flight)
            else:
                self.add(ticket, now)
            for scope in ticket.scopes:
                if scope.parked is not None:
                    self._release(scope, now)
            if ticket.where is Where.NOWHERE or ticket.where is Where.REFUSED:
                return ticket
        return None

    def take(self, ticket: Ticket, now: float) -> None:
        """Take a place of each scope of *ticket*, even if there is none."""
        for scope in ticket.scopes:
            if scope.delays:
                self._note_held_up(scope, now)
            scope.waiting_since = None
            self._count(scope, 1)
            scope.unsent += not ticket.line.is_direct
            scope.taken_at = now

    def sent(self, ticket: Ticket) -> None:
        """Note that a request of *ticket*, with its places, has reached the downloader."""
        for scope in ticket.scopes:
            scope.unsent -= not ticket.line.is_direct
            scope.sent += 1

    def leave(self, ticket: Ticket, now: float, *, fetched: bool) -> bool:
        """Free the places of a request of *ticket*. Delays begin if it was sent (*fetched*). Return
        whether it was the probe of the network.
        """
        for scope in ticket.scopes:
            if not fetched:
                scope.unsent -= not ticket.line.is_direct
            if ticket.line is self.redirected:
                scope.stranger_at = now + _DELAYS_PER_STRANGER * scope.delay
            self._leave(scope, now, fetched=fetched)
        # Only now: a ticket may need a place of each.
        for scope in ticket.scopes:
            if scope.parked is not None:
                self._release(scope, now)
            if not (scope.in_flight or scope.tickets):
                self._forget_scope(scope, now)
        was_probe = ticket is self._probe
        if was_probe:
            self._probe = None
            if not fetched:
                self.network.not_asked(now)
        return was_probe and fetched

    def end(self, ticket: Ticket, now: float) -> None:
        """Note that *ticket* will send nothing more, wherever it is."""
        host, was = ticket.host, ticket.where
        ticket.where = Where.NOWHERE
        self._at_network.pop(ticket, None)
        if was is Where.READY:
            assert isinstance(ticket.line, Ready)
            ticket.line.discard(ticket)
        elif was is Where.AT_SCOPE:
            lane = ticket.line, ticket.obeys
            for parked in [each.parked for each in ticket.scopes if each.parked]:
                if lane in parked:
                    parked[lane].pop(ticket, None)
        elif ticket in self.refused:
            del self.refused[ticket]
        elif ticket in self.granted:
            del self.granted[ticket]
            self.leave(ticket, now, fetched=False)
        if host is not None:
            host.tickets -= 1
            if was is Where.AT_HOST:
                host.discard(ticket)
            self._forget(host)
        for scope in ticket.scopes:
            scope.tickets -= 1
            if ticket.line is self.redirected:
                scope.redirected -= 1
            if not scope.tickets:
                scope.waiting_since = None
            if scope.parked is not None:
                self._release(scope, now)  # Strangers may have waited for it.
            self._forget_scope(scope, now)

    def place(self, ticket: Ticket, now: float) -> None:
        """Put *ticket*, whose host is known, where it belongs now."""
        line = ticket.line
        is_up = not line.is_direct or self.network.is_up
        if not is_up and not self._is_next_probe(ticket):
            ticket.where = Where.AT_NETWORK
            self._at_network[ticket] = None
            return
        for scope in ticket.scopes:
            if scope.back_off is not None and self.is_backing_off_too_long(scope, now):
                self._refuse(ticket)
                return
            at = self.free_at(scope, ticket)
            if at > now:
                self._park(ticket, scope, now)
                if at < inf:
                    self._scope_alarms.set(scope, at)
                return
        if line.is_direct:
            self.take(ticket, now)
        if not is_up:
            self._probe = ticket
            self.network.asks()
        line.add(ticket)

    def _is_free(self, ticket: Ticket, now: float) -> bool:
        """Whether *ticket* may take its places now."""
        for scope in ticket.scopes:  # noqa: SIM110  faster than all()
            if self.free_at(scope, ticket) > now:
                return False
        return True

    def free_at(self, scope: Scope, ticket: Ticket) -> float:
        """Return from when *ticket* may take a place of *scope*; ``inf`` while all are taken."""
        places, at = inf, -inf
        line = ticket.line
        if scope is ticket.scopes[-1]:
            places, at = self._slot(scope)
            if line.is_direct:
                # A component that holds a request back may wait for this one.
                places += scope.unsent
        if scope.back_off is not None:
            places = min(places, scope.back_off.places)
            at = max(at, scope.back_off.until)
        if ticket.obeys and scope.delays:
            places = 1
        if scope.in_flight >= places:
            return inf
        if ticket.obeys and scope.next_at > at:
            at = scope.next_at
        if line is self.redirected and scope.tickets > scope.redirected:
            at = max(at, scope.stranger_at)
        return at

    # Scopes.

    def _count(self, scope: Scope, number: int) -> None:
        """Take a *number* of places of *scope*, which may be negative."""
        scope.in_flight += number
        for ready in self._ready:
            ready.moved(scope, scope.in_flight - number)

    def _leave(self, scope: Scope, now: float, *, fetched: bool) -> None:
        self._count(scope, -1)
        if fetched:
            scope.sent -= 1
            scope.answered_at = now
            if scope.delays:
                scope.hold(now + scope.delay, Hold.DELAY)

    def _park(self, ticket: Ticket, scope: Scope, now: float) -> None:
        """Have *ticket* wait for *scope*."""
        ticket.where = Where.AT_SCOPE
        if scope.parked is None:
            scope.parked = {}
        lane = (ticket.line, ticket.obeys)
        scope.parked.setdefault(lane, OrderedDict())[ticket] = None
        if not scope.in_flight and scope.waiting_since is None:
            scope.waiting_since = now

    def _release(self, scope: Scope, now: float) -> None:
        """Let tickets that wait for *scope* continue, as far as it is free: those that go at
        once, and one of each other line, since :meth:`Core.next` releases the next one.
        """
        if scope.parked is None:
            return
        for lane, waiting in list(scope.parked.items()):
            line = lane[0]
            while waiting and not line.has(scope):
                ticket = next(iter(waiting))
                at = self.free_at(scope, ticket)
                if at > now:
                    if at < inf:
                        self._scope_alarms.set(scope, at)
                    break
                del waiting[ticket]
                self.place(ticket, now)
                self.changed()
            if not waiting and scope.parked is not None:
                scope.parked.pop(lane, None)
        if not scope.parked:
            scope.parked = None
        elif not scope.in_flight and scope.waiting_since is None:
            scope.waiting_since = now

    def _changed(self, scope: Scope, now: float) -> None:
        """Note that a delay or a pause of *scope* has changed."""
        self._release(scope, now)
        if not (scope.tickets or scope.in_flight):
            # It is forgotten soon, unless a ticket comes first.
            self._scope_alarms.set(scope, max(scope.next_at, now))

    def _forget_scope(self, scope: Scope, now: float) -> None:
        """Forget *scope* if nothing uses it and nothing holds it back, now or when it is due."""
        if scope.tickets or scope.in_flight:
            return
        until = scope.next_at
        if scope.delays:
            until += _ANSWER_REMEMBERED
        if scope.back_off is not None:
            until = max(until, scope.back_off.until + _REMEMBERED)
        if until > now:
            self._scope_alarms.set(scope, until)
        elif self.scopes.get(scope.key) is scope:
            del self.scopes[scope.key]

    # Hosts.

    @property
    def has_wanted(self) -> bool:
        """Whether :meth:`next_wanted` may return a host."""
        return bool(self._urgent or self._wanted)

    def next_wanted(self, *, is_needed: bool) -> Host | None:
        """Return a host whose robots.txt is to be fetched now; None if there is none. Unless more
        ready hosts are needed (*is_needed*), only one for which a request in the downloader waits.
        """
        if not self.network.is_up:
            return None
        for hosts in (self._urgent, self._wanted) if is_needed else (self._urgent,):
            while hosts:
                host = hosts.popleft()
                if host.is_wanted:
                    self.begin_fetch(host)
                    return host
        return None

    def begin_fetch(self, host: Host) -> None:
        """Note that the robots.txt of *host* is being fetched."""
        host.is_wanted, host.is_fetching = False, True

    def known(self, host: Host, now: float, expires: float) -> None:
        """Note that the rules of *host* are known until the time *expires*."""
        host.is_fetching = False
        host.phase, host.expires, host.retry_at = Phase.OPEN, expires, -inf
        self._refused_hosts.pop(host, None)
        self._empty(host, now)

    def unreachable(
        self, host: Host, now: float, retry_at: float, *, wait: float, is_asked: bool
    ) -> None:
        """Note that robots.txt of *host* is unreachable, and is fetched again at *retry_at*, or,
        unless the host has asked for that time (*is_asked*), earlier, once more before its tickets
        are refused. From the first time on, they wait for *wait* seconds.
        """
        host.is_fetching = False
        if self.hosts.get(host.origin) is not host:
            return  # Nothing waits for it any more.
        if not host.is_down:
            host.since, host.until = now, now + wait
        if not is_asked and now < host.until:
            retry_at = min(retry_at, host.until)
        host.retry_at = retry_at
        if host.phase is Phase.REFUSED or now >= host.until or retry_at > host.until:
            host.phase = Phase.REFUSED
            self._refused_hosts.pop(host, None)
            self._refused_hosts[host] = None
            if len(self._refused_hosts) > _MAX_REFUSED:
                oldest = next(iter(self._refused_hosts))
                del self._refused_hosts[oldest]
                oldest.phase = Phase.UNKNOWN
                self._forget(oldest)
            self._empty(host, now)
        else:
            host.phase = Phase.DOWN
            self._host_alarms.set(host, retry_at)
            for ticket in [each for each in host.waiting if not each.is_patient]:
                host.discard(ticket)
                self._refuse(ticket)

    def unknown(self, host: Host, now: float) -> None:
        """Note that the fetch of robots.txt of *host* has ended without a result. If tickets wait
        for it, it is repeated after a pause.
        """
        host.is_fetching = False
        if host.waiting:
            self._host_alarms.set(host, now + _FIRST_PAUSE)
        elif host.phase is Phase.WANTED:
            host.phase = Phase.UNKNOWN
        self._forget(host)

    def _is_refused(self, ticket: Ticket, now: float) -> bool:
        """Whether the requests of *ticket* are refused."""
        if ticket.host is not None and ticket.host.phase is Phase.REFUSED:
            return True
        return self.backs_off_too_long(ticket, now) is not None

    def _empty(self, host: Host, now: float) -> None:
        """Let the tickets that wait for robots.txt of *host* continue."""
        waiting, host.waiting = host.waiting, ()
        for ticket in waiting:
            ticket.where = Where.NOWHERE
            if host.phase is Phase.REFUSED:
                self._refuse(ticket)
            else:
                self.place(ticket, now)
        self._forget(host)

    def _refuse(self, ticket: Ticket) -> None:
        if ticket.line.is_direct:
            ticket.where = Where.REFUSED
            self.refused[ticket] = None
        else:
            ticket.line.add(ticket)

    def _want(self, host: Host, *, is_urgent: bool) -> None:
        if host.is_fetching:
            return
        if is_urgent:
            self._urgent.append(host)
        elif not host.is_wanted:
            self._wanted.append(host)
        host.is_wanted = True

    def _forget(self, host: Host) -> None:
        if host.tickets or host.is_down:
            return
        # Also while it is fetched: that may be cancelled, so the next ticket needs a new fetch.
        host.is_wanted = False
        if self.hosts.get(host.origin) is host:
            del self.hosts[host.origin]

    # Delays and pauses.

    def set_delay(
        self, scope: Scope, origin: Origin, delay: float, now: float, *, since: float
    ) -> None:
        """Set the *delay* of *origin*, a host of *scope*, in seconds; 0 removes it. A new delay
        begins at the time *since*, when robots.txt was fetched, or with the last answer.
        """
        delays = scope.delays or {}
        if delay:
            if origin not in delays:
                scope.hold(max(since, scope.answered_at) + delay, Hold.DELAY)
            delays[origin] = delay
        else:
            delays.pop(origin, None)
        scope.delays = delays or None
        self._changed(scope, now)

    def back_off(
        self,
        scope: Scope,
        now: float,
        *,
        delay: float | None,
        cap: float,
        sent_at: float,
    ) -> bool:
        """Pause *scope* for *delay* seconds; without one for 1, 2, 4, ... up to *cap* seconds.

        Only the answer to a request that was sent after the last pause (*sent_at*) doubles the
        pause. After it, one request is in flight, and one more after each success. Return whether
        a pause begins that is not part of the last one.
        """
        found = scope.back_off
        if found is None:
            found = scope.back_off = BackOff(since=now)
        elif found.is_over:
            found.since = now
        is_new = sent_at >= found.until
        if is_new:
            found.pauses += 1
            found.own = min(max(2 * found.own, _FIRST_PAUSE), cap)
        pause = max(found.own if delay is None else delay, scope.delay)
        self._pause(scope, found, now + pause, now)
        return is_new

    def paused_elsewhere(
        self, scope: Scope, now: float, *, until: float, own: float, since: float
    ) -> None:
        """Note that another worker has seen a host of *scope* ask for a pause until the time
        *until*. The arguments are as in :class:`BackOff`.
        """
        found = scope.back_off
        if found is None:
            found = scope.back_off = BackOff(since)
        elif until <= found.until + _SAME_PAUSE:
            return
        found.since, found.own = since, own
        found.pauses += 1
        self._pause(scope, found, until, now)

    def _pause(self, scope: Scope, found: BackOff, until: float, now: float) -> None:
        if until > found.until:
            found.asked, found.asked_at = round(max(until - now, 0.0), 3), now
            found.until = until
        found.places = 1
        scope.hold(found.until, Hold.BACK_OFF)
        if self.is_backing_off_too_long(scope, now):
            for waiting in (scope.parked or {}).values():
                for ticket in waiting:
                    self._refuse(ticket)
                waiting.clear()
                self.changed()
        self._changed(scope, now)

    def succeeded(self, scope: Scope, now: float, *, sent_at: float) -> None:
        """Note that a host of *scope* has answered a request, sent at *sent_at*, without asking
        for a pause. After enough successes, ``scope.back_off`` is None again.
        """
        found = scope.back_off
        if found is None or sent_at < found.until:
            return
        found.own = 0.0
        found.places += 1
        places, _ = self._slot(scope)
        if found.places >= places:
            scope.back_off = None
        self._release(scope, now)

    def backs_off_too_long(self, ticket: Ticket, now: float) -> Scope | None:
        """Return the scope for whose back-off the requests of *ticket* are refused, if any."""
        for scope in ticket.scopes:
            if self.is_backing_off_too_long(scope, now):
                return scope
        return None

    def is_backing_off_too_long(self, scope: Scope, now: float) -> bool:
        """Whether requests are refused for the back-off of *scope*."""
        found = scope.back_off
        if found is None or found.until <= now:
            return False  # One request finds out whether the host is back, others wait for it.
        is_long = found.until - now > self._wait_max
        return is_long or (not found.is_over and now - found.since >= self._wait_max)

    # The network of the crawler itself.

    def next_probe(self, now: float) -> Any:
        """Return a request to a host whose robots.txt is to be fetched now, to find out whether
        the network is back; None if there is none, or if a request for it waits already: that may go.
        """
        request = self.network.next_probe(now, lambda key: self._has_turn(key, now))
        if request is None:
            return None
        for ticket in self._at_network:
            if self._is_next_probe(ticket):
                del self._at_network[ticket]
                self.place(ticket, now)
                self.changed()
                return None
        return request

    def _is_next_probe(self, ticket: Ticket) -> bool:
        return (
            ticket.is_for_robotstxt
            and self._probe is None
            and ticket.scopes[0].key == self.network.probed_host
        )

    def network_is_back(self, now: float, gone_since: float) -> None:
        """Let all continue after the network was gone since then, which counts for no host."""
        gone = now - gone_since
        for host in self.hosts.values():
            if host.is_down:
                if host.since >= gone_since:
                    host.retry_at = now
                    self._host_alarms.set(host, now)
                host.since += gone
                host.until += gone
        for scope in self.scopes.values():
            if scope.back_off is not None:
                scope.back_off.since += gone
        self._resume(now)

    def _resume(self, now: float) -> None:
        waiting, self._at_network = self._at_network, {}
        for ticket in waiting:
            ticket.where = Where.NOWHERE
            self.add(ticket, now)  # Its rules may be stale by now.
        self.changed()

    def _has_turn(self, key: str, now: float) -> bool:
        scope = self.scopes.get(key)
        if scope is None:
            return True
        is_taken = scope.delays or scope.back_off is not None
        return now >= scope.next_at and not (is_taken and scope.in_flight)

    # Time.

    def wake_at(self) -> float:
        """Return when :meth:`tick` has something to do; ``inf`` for never."""
        return min(
            self._host_alarms.first(),
            self._scope_alarms.first(),
            self.network.wake_at(),
        )

    def tick(self, now: float) -> None:
        """Do what is due."""
        was_up = self.network.is_up
        self.network.tick(now)
        if self.network.is_up and not was_up:
            self._resume(now)
        for scope in self._scope_alarms.due(now):
            self._release(scope, now)
            self._forget_scope(scope, now)
        for host in self._host_alarms.due(now):
            if now < host.retry_at:
                self._host_alarms.set(host, host.retry_at)
            elif host.waiting or host.is_down:
                self._want(
                    host, is_urgent=any(each.line.is_direct for each in host.waiting)
                )

    # What the log says.

    def waiting(self) -> tuple[int, int, Scope | None]:
        """Return how many requests wait, for how many hosts, and the scope of those that may be
        sent first.
        """
        lists: list[Collection[Ticket]] = [
            host.waiting for host in self.hosts.values() if host.waiting
        ]
        first = None
        for scope in self.scopes.values():
            for parked in (scope.parked or {}).values():
                lists.append(parked)
                if first is None or scope.next_at < first.next_at:
                    first = scope
        requests = sum(len(ticket) for tickets in lists for ticket in tickets)
        return requests, len(lists), first

    def held_up(self) -> list[HeldUp]:
        """Return what has held up the crawl, the longest first."""
        return sorted(self._held_up.values(), reverse=True)

    def _note_held_up(self, scope: Scope, now: float) -> None:
        since = scope.waiting_since
        seconds = 0.0 if since is None else now - since
        before = self._held_up.get(scope.key, HeldUp(0.0, scope.key, 0, 0.0))
        self._held_up[scope.key] = HeldUp(
            before.seconds + seconds, scope.key, before.requests + 1, scope.delay
        )
        if len(self._held_up) > _MAX_HELD_UP:
            self._held_up = {
                each.key: each for each in self.held_up()[: _MAX_HELD_UP // 2]
            }
