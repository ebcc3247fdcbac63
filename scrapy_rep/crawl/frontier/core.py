"""When a request may be sent: a state machine without Scrapy, timers, I/O or a clock.

Two rules:

1. The core decides, and calls nobody. Events come in as calls, with the time ``now`` in seconds on any
   clock that only goes forward. What follows from them is a list of small values (:data:`Said`) that
   its owner takes with :meth:`Core.drain` and acts on. When to call :meth:`Core.tick` is one number,
   :meth:`Core.wake_at`. Two things the owner asks for when it has room: the next request of its
   queues (:meth:`Core.go`), and the next robots.txt to fetch (:meth:`Core.next_wanted`). And of a
   request in the downloader, it asks first whether that need not wait (:meth:`Core.take_free`).
2. The core knows what it was told, and asks nobody. What is known of a host (:meth:`Core.known`,
   :meth:`Core.unreachable`) or of a download slot (:attr:`Scope.places`) is told before a ticket is
   added that depends on it.

A *scope* is what requests share: a host name, or a download slot of another name. A request may go
when each of its scopes has a place for it and the time is past its ``next_at``. Whatever holds a host
back is this one number, with the reason beside it.

A *ticket* is what waits: the queue of a host in the scheduler, or one request that is in the
downloader already.

A *host* is an origin whose robots.txt decides about tickets. Its phases are those of :class:`Phase`;
:data:`PHASES` says what leads from one to another.

Above the hosts stands the *network* of the crawler itself (:mod:`scrapy_rep.crawl.frontier.network`).
While it is gone, nothing is sent but one probe at a time, and no time runs out.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from enum import Enum, auto
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scrapy_rep.crawl.frontier.network import Network, NetworkBack, NetworkGone

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from scrapy_rep.protocol.origins import Origin

# REFUSED hosts beyond this number are forgotten, the oldest first.
_MAX_REFUSED = 20_000

# A robots.txt that another host redirects to a host with a delay waits for this many delays
# after the one before it, while pages wait. Else other hosts could take all of its time.
_DELAYS_PER_REDIRECTED = 4

# The first pause, in seconds, of a host that does not say how long it wants, and the pause after
# a fetch of robots.txt that has ended without a result.
_FIRST_PAUSE = 1.0

# By how many seconds the ends of one pause may differ for two workers.
_SAME_PAUSE = 0.05

# For how many seconds after a pause the crawl remembers that a host has asked for it; and after an
# answer that was a 503, or that begins a delay, that and when it was.
_REMEMBERED = 600.0
_ANSWER_REMEMBERED = 30.0

# Beyond this number, the hosts that have slowed down the crawl least are forgotten.
_MAX_SLOWDOWNS = 1_000


# The phases of a host.


class Phase(Enum):
    """The phase of a host."""

    UNKNOWN = "nobody has asked yet, or its rules are stale"
    WANTED = "its robots.txt is to be fetched, or is being fetched; its tickets wait"
    OPEN = "its rules are known; its tickets go as their scopes allow"
    DOWN = "unreachable; its tickets wait, and robots.txt is fetched again at retry_at"
    REFUSED = "unreachable for too long; its tickets are refused; after retry_at, one has it fetched"


class Event(Enum):
    """What happens to a host."""

    TICKET = "a ticket comes, and the rules are not known, or stale"
    KNOWN = "the rules are known"
    UNREACHABLE = "robots.txt is unreachable, and its tickets may wait longer"
    GIVEN_UP = "robots.txt is unreachable, and its tickets may not wait longer"
    NO_RESULT = "a fetch has ended without a result, and no ticket waits for it"
    FORGOTTEN = "too many other hosts are refused"


_Row: TypeAlias = "tuple[Phase | None, ...]"
UNKNOWN, WANTED, OPEN, DOWN, REFUSED = Phase

# fmt: off
PHASES: dict[Event, _Row] = {
    #                  UNKNOWN  WANTED   OPEN     DOWN     REFUSED
    Event.TICKET:      (WANTED,  WANTED,  WANTED,  DOWN,    REFUSED),
    Event.KNOWN:       (OPEN,    OPEN,    OPEN,    OPEN,    OPEN),
    Event.UNREACHABLE: (DOWN,    DOWN,    DOWN,    DOWN,    REFUSED),
    Event.GIVEN_UP:    (REFUSED, REFUSED, REFUSED, REFUSED, REFUSED),
    Event.NO_RESULT:   (UNKNOWN, UNKNOWN, OPEN,    DOWN,    REFUSED),
    Event.FORGOTTEN:   (None,    None,    None,    None,    UNKNOWN),
}
# fmt: on
"""What each event makes of a host in each phase. None is an error of this package."""

_NEXT_PHASE = {
    event: dict(zip(Phase, row, strict=True)) for event, row in PHASES.items()
}


class Outage:
    """What is known of a host whose robots.txt is unreachable."""

    __slots__ = ("known", "retry_at", "since", "until")

    def __init__(self, since: float, until: float) -> None:
        self.since = since
        self.until = until
        """How long its tickets wait."""

        self.retry_at = -inf
        """The time from which robots.txt may be fetched again."""

        self.known: Any = None
        """For the owner of the core: the last result."""


class Host:
    """An origin whose robots.txt decides."""

    __slots__ = (
        "alarm_at", "expires", "is_fetching", "is_wanted", "origin", "outage", "phase",
        "templates", "tickets", "waiting",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.phase = Phase.UNKNOWN

        self.waiting: dict[Ticket, None] | tuple[Ticket, ...] = ()
        """The tickets that wait for robots.txt; for one or none, a tuple takes less memory."""

        self.tickets = 0
        """How many tickets belong to it, waiting or not."""

        self.expires = -inf
        """When the rules are stale; ``-inf`` while they are not known."""

        self.is_wanted = False
        self.is_fetching = False

        self.outage: Outage | None = None
        """While DOWN or REFUSED."""

        self.alarm_at = inf
        """The time of its entry in the heap of alarms."""

        self.templates: Any = None
        """For the owner of the core: what a fetch of robots.txt takes over from the tickets."""

    def __repr__(self) -> str:
        again = f", again at {self.outage.retry_at:g}" if self.outage else ""
        fetch = f"{', is fetched' * self.is_fetching}{', is wanted' * self.is_wanted}"
        waiting = f"{len(self.waiting)} of {self.tickets} tickets wait"
        return f"<Host {self.origin}: {self.phase.name}{again}{fetch}, {waiting}>"

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


# Scopes.


class WaitReason(Enum):
    """Why nothing is sent in a scope before its ``next_at``."""

    DELAY = "delay"
    BACK_OFF = "back-off"
    OTHER_WORKER = "another worker"


class BackOff:
    """What a scope remembers of the answers 429 and 503 until all of its places are back."""

    __slots__ = (
        "asked", "asked_at", "has_answered", "is_long", "own", "places",
        "since", "until",
    )  # fmt: skip

    def __init__(self, since: float) -> None:
        self.since = since
        """The first such answer since the last success."""

        self.until = -inf
        """The end of the current pause, or of the last one."""

        self.own = 0.0
        """The seconds of the last pause that the crawl chose itself."""

        self.places = 1
        """The requests that may be in flight now."""

        self.asked_at = -inf
        """When the last pause was asked for, or when this process learned of it."""

        # For the log.
        self.is_long = False
        """Whether requests were refused for it."""

        self.has_answered = False
        """Whether a request has succeeded since the first pause."""

        # For the ledger.
        self.asked = 0.0
        """The seconds of the pause after which no request was sent yet; 0 if there is none."""

    @property
    def has_recovered(self) -> bool:
        """Whether a request has succeeded since the last pause."""
        return self.places > 1


class Scope:
    """What requests share: places, a delay, and a time before which nothing is sent."""

    __slots__ = (
        "alarm_at", "answered_at", "back_off", "delays", "had_503", "held_since", "in_flight", "key",
        "next_at", "parked", "paused_until", "places", "ready", "reason", "redirected",
        "redirected_at", "sent", "slot_free_at", "slot_pause", "taken_at", "tickets", "unsent",
        "waiting_since",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        """A host name or the key of a download slot."""

        # The download slot of this name, as the owner of the core has last seen it.
        self.places = inf
        """How many requests it takes; no limit while no request goes through it."""

        self.slot_pause = 0.0
        """The seconds from the time at which a place is taken to the next."""

        self.slot_free_at = -inf
        """Before this time, the last request waits in the slot."""

        self.in_flight = 0
        self.unsent = 0
        """How many of those came from a queue, and have not reached the downloader."""

        # Of those to its host, not of others that only share its download slot:
        self.sent = 0
        """How many have reached the downloader."""

        self.answered_at = -inf
        """When the last one that was sent has ended."""

        self.next_at = -inf
        self.reason = WaitReason.DELAY
        """Why ``next_at`` is what it is."""

        self.paused_until = -inf
        """The end of the last pause: until then, nothing would be sent without a delay either."""

        self.taken_at = -inf
        """When a place was last taken."""

        self.tickets = 0
        """How many tickets belong to it."""

        self.ready = 0
        """How many of them are queues whose next request may go."""

        self.redirected = 0
        """How many of them are for the robots.txt of another host."""

        self.alarm_at = inf
        """The time of its entry in the heap of alarms."""

        # Most scopes have none of these.
        self.delays: dict[Origin, float] | None = None
        """The crawl delay of each origin that has one, in seconds."""

        self.back_off: BackOff | None = None
        self.had_503 = False
        """Whether its last answer was a 503."""

        self.parked: dict[Lane, OrderedDict[Ticket, None]] | None = None
        """The tickets that wait here, the first of each lane first."""

        self.redirected_at = -inf
        """When the next robots.txt of another host may be sent while pages wait."""

        self.waiting_since: float | None = None
        """Since when tickets wait while nothing is in flight; None if they do not."""

        self.held_since: float | None = None
        """Since when the request that has its places has waited for them. If it is not sent after
        all, the next request goes on with it; None if nobody has waited."""

    def __repr__(self) -> str:
        words = [f"{self.in_flight} in flight"]
        if self.delays:
            words.append(f"delay {self.delay:g}")
        if self.back_off is not None:
            words.append(f"{self.back_off.places} after a pause")
        if self.next_at > -inf:
            words.append(f"next at {self.next_at:g} ({self.reason.value})")
        waiting = sum(map(len, (self.parked or {}).values()))
        words.append(f"{waiting} of {self.tickets} tickets wait")
        return f"<Scope {self.key}: {', '.join(words)}>"

    @property
    def delay(self) -> float:
        """The longest delay of its origins, in seconds."""
        return max(self.delays.values()) if self.delays else 0.0

    def wait_until(self, moment: float, reason: WaitReason) -> None:
        """Send nothing before this *moment*."""
        if reason is WaitReason.BACK_OFF:
            self.paused_until = max(self.paused_until, moment)
        if moment > self.next_at:
            self.next_at, self.reason = moment, reason


# Tickets.


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

    GRANTED = auto()
    """It may go, as the owner is about to hear."""

    REFUSED = auto()


class Ticket:
    """A host's queue, or one request already in the downloader, that waits to be sent.

    :meth:`__len__` is the number of its requests; a queue may be empty.
    """

    __slots__ = ("host", "obeys", "ready", "scopes", "where")

    is_direct = True
    """Whether it is a request in the downloader, which needs its places."""

    is_from_queue = False
    """Whether it is a request in the downloader that came from a queue: nothing waits for it."""

    is_patient = True
    """Whether it waits while robots.txt is unreachable. Else, it is refused."""

    is_for_robotstxt = False
    """Whether it is one request for a robots.txt."""

    is_redirected = False
    """Whether that is the robots.txt of another host, which has redirected it."""

    def __init__(
        self,
        host: Host | None,
        scopes: tuple[Scope, ...],
        *,
        obeys: bool = True,
        ready: Ready | None = None,
    ) -> None:
        """*host* is None if no robots.txt decides. The last of *scopes* is its download slot. A ticket
        that does not obey robots.txt (*obeys*) keeps to places and to back-off only, and to delays
        until all places are back after a pause. A queue is in *ready* when its next request may go;
        what any other ticket is granted or refused is said.
        """
        self.host = host
        self.scopes = scopes
        self.obeys = obeys
        self.ready = ready
        self.where = Where.NOWHERE
        if host is not None:
            host.tickets += 1
        for scope in scopes:
            scope.tickets += 1
            scope.redirected += self.is_redirected

    @property
    def lane(self) -> Lane:
        """What it has in common with other tickets that may go at the same time."""
        return self.ready, self.obeys, self.is_redirected

    def __len__(self) -> int:
        return 1

    def peek(self) -> Any:
        """Return a request that waits here, from which a fetch of robots.txt takes over proxy and
        headers; None if there is none.
        """


Lane: TypeAlias = "tuple[Ready | None, bool, bool]"


class Ready:
    """The queues whose next request may go. The download slot with the fewest requests in flight
    comes first; of several, the one that has waited longest. Each operation costs O(1).
    """

    def __init__(self) -> None:
        self._by_slot: dict[Scope, OrderedDict[Ticket, None]] = {}
        self._rows: list[OrderedDict[Scope, None]] = []
        """These slots by the number of requests in flight."""

        self.count = 0
        """How many there are."""

    def __len__(self) -> int:
        return self.count

    def add(self, ticket: Ticket) -> None:
        ticket.where = Where.READY
        slot = ticket.scopes[-1]
        tickets = self._by_slot.get(slot)
        if tickets is None:
            tickets = self._by_slot[slot] = OrderedDict()
            self._enter(slot)
        tickets[ticket] = None
        self.count += 1
        for scope in ticket.scopes:
            scope.ready += 1

    def moved(self, scope: Scope, before: int) -> None:
        """Note that the number of requests of *scope* in flight has changed, or that it had its
        turn without that.
        """
        if scope in self._by_slot:
            del self._rows[before][scope]
            self._enter(scope)

    def turn(self, ticket: Ticket) -> None:
        """Put *ticket*, the first of its slot, behind the others: it had its turn."""
        self._by_slot[ticket.scopes[-1]].move_to_end(ticket)

    def discard(self, ticket: Ticket) -> None:
        """Remove *ticket*, which is here."""
        ticket.where = Where.NOWHERE
        slot = ticket.scopes[-1]
        tickets = self._by_slot[slot]
        del tickets[ticket]
        self.count -= 1
        for scope in ticket.scopes:
            scope.ready -= 1
        if not tickets:
            del self._by_slot[slot]
            del self._rows[slot.in_flight][slot]

    def first(self) -> Ticket | None:
        """Return the next ticket, if there is one."""
        row = next(filter(None, self._rows), None)
        return None if row is None else next(iter(self._by_slot[next(iter(row))]))

    def _enter(self, slot: Scope) -> None:
        number = slot.in_flight
        while len(self._rows) <= number:
            self._rows.append(OrderedDict())
        self._rows[number][slot] = None


# What the core says.


class Decided(NamedTuple):
    """A request in the downloader has its places, and may go, or the rules of a host are known; or
    it is refused.
    """

    ticket: Ticket
    is_granted: bool


class Wake:
    """A queue that has waited has a request that may go, or is refused."""


class Paused(NamedTuple):
    """Requests of a scope that wait in their download slots are to wait for a pause."""

    scope: Scope


class Probe(NamedTuple):
    """The robots.txt of the host of a request is to be fetched, to find out whether the network is
    back.
    """

    request: Any


Said: TypeAlias = "Decided | Wake | Paused | Probe | NetworkGone | NetworkBack"
"""What the core may say."""


class Slowdown(NamedTuple):
    """How long a scope has held up the crawl."""

    seconds: float
    """The time in which requests waited only for its delay, and none was in flight."""

    key: str
    requests: int
    delay: float


# Alarms.


class _AlarmHeap:
    """The scopes or hosts that are to be looked at, each at its ``alarm_at``."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Scope | Host]] = []
        """An entry whose time is not the ``alarm_at`` of its owner is outdated."""

        self._number = count()
        self.first_at = inf
        """The time of the first alarm; ``inf`` if there is none."""

    def set(self, owner: Scope | Host, at: float) -> None:
        """Look at *owner* at this time at the latest; ``inf`` for never."""
        if at < owner.alarm_at:
            owner.alarm_at = at
            heappush(self._heap, (at, next(self._number), owner))
            self.first_at = min(self.first_at, at)

    def due(self, now: float) -> Iterator[Scope | Host]:
        """Yield each owner whose time has come. Its alarm is over."""
        while self._heap and self._heap[0][0] <= now:
            at, _, owner = heappop(self._heap)
            if at == owner.alarm_at:
                owner.alarm_at = inf
                yield owner
        self.first_at = self._heap[0][0] if self._heap else inf


# The core.


class Core:
    """The hosts, scopes and tickets of a crawl."""

    def __init__(self, wait_timeout: float) -> None:
        """Tickets wait for a host that asks for a pause for at most *wait_timeout* seconds."""
        self._wait_timeout = wait_timeout
        self.said: deque[Said] = deque()
        """What the core has to say: see :meth:`drain`."""

        self.network = Network(wait_timeout)
        self.hosts: dict[Origin, Host] = {}
        self.scopes: dict[str, Scope] = {}
        self.queues: list[Ready] = []
        """Those of the queues of a scheduler that are ready."""

        self.urgent: deque[Host] = deque()
        self.wanted: deque[Host] = deque()
        """The hosts whose robots.txt is to be fetched: at once, since a request in the downloader waits
        for it; and when more ready hosts are needed. Some may not need it any more."""

        self._refused: dict[Host, None] = {}
        """The hosts that are REFUSED."""

        self._alarms = _AlarmHeap()
        self._slowdowns: dict[str, Slowdown] = {}
        self._at_network: dict[Ticket, None] = {}
        self._probe: Ticket | None = None
        """That of the request which finds out whether the network is back."""

    def __repr__(self) -> str:
        phases = Counter(host.phase.name for host in self.hosts.values())
        words = [f"{number} hosts {name}" for name, number in sorted(phases.items())]
        words += [
            f"{len(self.scopes)} scopes",
            f"{sum(each.in_flight for each in self.scopes.values())} places taken",
            f"{self.waiting()[0] + len(self._at_network)} requests wait",
            f"{sum(map(len, self.queues))} queues ready",
        ]
        if not self.network.is_up:
            is_gone = self.network.gone_since is not None
            words.append("network gone" if is_gone else "no connections left")
        return f"<Core: {', '.join(words)}>"

    def host(self, origin: Origin) -> Host:
        """Return the host of *origin*, a new one if it is not known."""
        host = self.hosts.get(origin)
        if host is None:
            host = self.hosts[origin] = Host(origin)
        return host

    def scope(self, key: str) -> Scope:
        """Return the scope of *key*, a new one if it is not known."""
        scope = self.scopes.get(key)
        if scope is None:
            scope = self.scopes[key] = Scope(key)
        return scope

    def ready(self) -> Ready:
        """Return a new place for the queues of a scheduler that are ready."""
        ready = Ready()
        self.queues.append(ready)
        return ready

    def drain(self) -> Iterator[Said]:
        """Yield what the core has to say, in order, and forget it. Only when a thing is yielded is it
        certain: acting on the one before may end a ticket. Call :meth:`end` for each ticket that is
        granted or refused.
        """
        while self.said:
            each = self.said.popleft()
            if isinstance(each, Decided):
                if each.ticket.where not in {Where.GRANTED, Where.REFUSED}:
                    continue  # It has ended since.
                each.ticket.where = Where.NOWHERE
            yield each

    # Tickets.

    def add(self, ticket: Ticket, now: float) -> None:
        """Note that *ticket*, which is nowhere, has something to send."""
        host = ticket.host
        if host is None or now < host.expires:
            self._seek_places(ticket, now)
            return
        self._happens(host, Event.TICKET)
        is_refused = host.phase is Phase.REFUSED
        if is_refused or (host.phase is Phase.DOWN and not ticket.is_patient):
            self._let_out(ticket, is_granted=False)
        else:
            ticket.where = Where.AT_HOST
            host.add(ticket)
        retry_at = -inf if host.outage is None else host.outage.retry_at
        if now >= retry_at:
            self._want(host, is_urgent=ticket.is_direct)
        else:
            self._alarms.set(host, retry_at)

    def go(self, ticket: Ticket, now: float) -> bool:
        """Return whether the next request of *ticket*, the first that is ready, goes now, with its
        places, or is refused, without places, if the ticket is at ``Where.REFUSED``. If it has more
        requests and is nowhere, it must be added again. If it does not go, it waits elsewhere.
        """
        ready, host = ticket.ready, ticket.host
        assert ready is not None
        is_free = host is None or now < host.expires
        for scope in ticket.scopes:
            is_free = is_free and self.free_at(scope, ticket) <= now
        is_refused = not is_free and (
            (host is not None and host.phase is Phase.REFUSED)
            or self.refusing(ticket, now) is not None
        )
        if is_free:
            self.take(ticket, now)
            stays = len(ticket) > 1
            for scope in ticket.scopes:
                is_next = scope.parked is None and self.free_at(scope, ticket) <= now
                stays = stays and is_next
            if stays:
                ready.turn(ticket)
                return True
        ready.discard(ticket)
        if is_refused:
            ticket.where, slot = Where.REFUSED, ticket.scopes[-1]
            ready.moved(slot, slot.in_flight)
        elif not is_free:
            self.add(ticket, now)
        for scope in ticket.scopes:
            if scope.parked is not None:
                self._admit(scope, now)
        return is_free or is_refused

    def take_free(self, ticket: Ticket, now: float) -> bool:
        """Take a place of each scope of *ticket*, a request in the downloader that waits for no
        robots.txt, if all are free now. Else it must be added.
        """
        if not self.network.is_up:
            return False
        for scope in ticket.scopes:
            if self.free_at(scope, ticket) > now:
                return False
        self.take(ticket, now)
        return True

    def take(self, ticket: Ticket, now: float) -> None:
        """Take a place of each scope of *ticket*, even if there is none."""
        for scope in ticket.scopes:
            if scope.held_since is None:
                scope.held_since = scope.waiting_since
            scope.waiting_since = None
            scope.in_flight += 1
            if scope.ready:
                for ready in self.queues:
                    ready.moved(scope, scope.in_flight - 1)
            scope.unsent += not ticket.is_direct
            scope.taken_at = now

    def sent(self, ticket: Ticket, *, paced_until: float = -inf) -> None:
        """Note that a request of *ticket*, with its places, has reached the downloader. The project's
        own delay would have held it back until *paced_until*.
        """
        for scope in ticket.scopes:
            scope.unsent -= not ticket.is_direct
            if scope.delays and ticket.obeys:
                self._note_slowdown(scope, paced_until)
            scope.held_since = None
        ticket.scopes[0].sent += 1

    def free(self, ticket: Ticket, now: float, *, sent: bool) -> None:
        """Free the places of a request of *ticket*. Delays begin if it was *sent*."""
        for scope in ticket.scopes:
            scope.in_flight -= 1
            if scope.ready:
                for ready in self.queues:
                    ready.moved(scope, scope.in_flight + 1)
            if ticket.is_redirected:
                scope.redirected_at = now + _DELAYS_PER_REDIRECTED * scope.delay
            if not sent:
                scope.unsent -= not ticket.is_direct
                continue
            if scope is ticket.scopes[0]:
                scope.sent -= 1
                scope.answered_at = now
            if scope.delays:
                scope.wait_until(now + scope.delay, WaitReason.DELAY)
        # Only now: a ticket may need a place of each.
        for scope in ticket.scopes:
            if scope.parked is not None:
                self._admit(scope, now)
            if not (scope.in_flight or scope.tickets):
                self._forget_scope(scope, now)
        if ticket is self._probe:
            self._probe = None
            self._say_network(self.network.probed(now, sent=sent), now)

    def end(self, ticket: Ticket, now: float) -> None:
        """Note that *ticket* will send nothing more, wherever it is."""
        host, was = ticket.host, ticket.where
        ticket.where = Where.NOWHERE
        if was is Where.READY:
            assert ticket.ready is not None
            ticket.ready.discard(ticket)
        elif was is Where.AT_SCOPE:
            for parked in [each.parked for each in ticket.scopes if each.parked]:
                if ticket.lane in parked:
                    parked[ticket.lane].pop(ticket, None)
        elif was is Where.AT_NETWORK:
            del self._at_network[ticket]
        elif was is Where.GRANTED and ticket.scopes:
            self.free(ticket, now, sent=False)
        if host is not None:
            host.tickets -= 1
            if was is Where.AT_HOST:
                host.discard(ticket)
            self._forget(host)
        for scope in ticket.scopes:
            scope.tickets -= 1
            scope.redirected -= ticket.is_redirected
            if not scope.tickets:
                scope.waiting_since = None
            if scope.parked is not None:
                # What another host has redirected here may have waited for it.
                self._admit(scope, now)
            if not (scope.in_flight or scope.tickets):
                self._forget_scope(scope, now)

    def _seek_places(self, ticket: Ticket, now: float) -> None:
        """Put *ticket*, whose host is known, where it belongs now."""
        is_up = not ticket.is_direct or self.network.is_up
        if not is_up and not self._is_next_probe(ticket):
            ticket.where = Where.AT_NETWORK
            self._at_network[ticket] = None
            return
        for scope in ticket.scopes:
            at = self.free_at(scope, ticket)
            if at <= now:
                continue
            if self.refusing(ticket, now) is not None:
                self._let_out(ticket, is_granted=False)
            else:
                self._park(ticket, scope, now)
                self._alarms.set(scope, at)
            return
        if ticket.is_direct:
            self.take(ticket, now)
        if not is_up:
            self._probe = ticket
            self.network.probing()
        self._let_out(ticket, is_granted=True)

    def free_at(self, scope: Scope, ticket: Ticket) -> float:
        """Return from when *ticket* may take a place of *scope*; ``inf`` while all are taken."""
        places, at = inf, -inf
        if scope is ticket.scopes[-1]:
            places, at = scope.places, scope.slot_free_at
            if scope.slot_pause:
                at = max(at, scope.taken_at + scope.slot_pause)
            if ticket.is_direct and not ticket.is_from_queue:
                # A component that holds a request back may wait for this one.
                places += scope.unsent
        if scope.back_off is not None:
            places = min(places, scope.back_off.places)
            at = max(at, scope.back_off.until)
        if ticket.obeys and scope.delays:
            places = 1
        if scope.in_flight >= places:
            return inf
        if scope.next_at > at and (ticket.obeys or scope.back_off is not None):
            at = scope.next_at
        if ticket.is_redirected and scope.tickets > scope.redirected:
            at = max(at, scope.redirected_at)
        return at

    def _let_out(self, ticket: Ticket, *, is_granted: bool) -> None:
        """Say that *ticket* is granted or refused; a queue is ready."""
        if ticket.ready is not None:
            ticket.ready.add(ticket)
        else:
            ticket.where = Where.GRANTED if is_granted else Where.REFUSED
            self.said.append(Decided(ticket, is_granted))

    def _say_wake(self) -> None:
        if not self.said or not isinstance(self.said[-1], Wake):
            self.said.append(Wake())

    # Scopes.

    def _park(self, ticket: Ticket, scope: Scope, now: float) -> None:
        """Have *ticket* wait for *scope*."""
        ticket.where = Where.AT_SCOPE
        if scope.parked is None:
            scope.parked = {}
        scope.parked.setdefault(ticket.lane, OrderedDict())[ticket] = None
        if not scope.in_flight and scope.waiting_since is None:
            scope.waiting_since = now

    def _admit(self, scope: Scope, now: float) -> None:
        """Let tickets that wait for *scope* continue, as far as it is free or they are refused: those
        that go at once, and one queue, since :meth:`go` admits the next one.
        """
        if scope.parked is None:
            return
        is_refused = self.refuses(scope, now)
        for lane, waiting in list(scope.parked.items()):
            is_of_queues = lane[0] is not None
            while waiting and not (is_of_queues and scope.ready):
                ticket = next(iter(waiting))
                at = self.free_at(scope, ticket)
                if at > now and not is_refused:
                    self._alarms.set(scope, at)
                    break
                del waiting[ticket]
                self._seek_places(ticket, now)
                self._say_wake()
            if not waiting and scope.parked is not None:
                scope.parked.pop(lane, None)
        if not scope.parked:
            scope.parked = None
        elif not scope.in_flight and scope.waiting_since is None:
            scope.waiting_since = now

    def _changed(self, scope: Scope, now: float) -> None:
        """Note that a delay or a pause of *scope* has changed."""
        self._admit(scope, now)
        if not (scope.tickets or scope.in_flight):
            # It is forgotten soon, unless a ticket comes first.
            self._alarms.set(scope, max(scope.next_at, now))

    def _forget_scope(self, scope: Scope, now: float) -> None:
        """Forget *scope* if nothing uses it and nothing holds it back, now or when it is due."""
        if scope.tickets or scope.in_flight:
            return
        scope.held_since = None
        until = scope.next_at
        if scope.had_503:
            until = max(until, scope.answered_at + _ANSWER_REMEMBERED)
        if scope.delays:
            # A request may give its places back, and wait for the robots.txt of its host.
            until = max(until, scope.taken_at) + _ANSWER_REMEMBERED
        if scope.back_off is not None:
            until = max(until, scope.back_off.until + _REMEMBERED)
        if until > now:
            self._alarms.set(scope, until)
        elif self.scopes.get(scope.key) is scope:
            del self.scopes[scope.key]

    # Hosts.

    def next_wanted(self, *, is_needed: bool) -> Host | None:
        """Return a host whose robots.txt is to be fetched now; None if there is none. Unless more
        ready hosts are needed (*is_needed*), only one for which a request in the downloader waits.
        """
        if not self.network.is_up:
            return None
        for hosts in (self.urgent, self.wanted) if is_needed else (self.urgent,):
            while hosts:
                host = hosts.popleft()
                if host.is_wanted:
                    self.begin_fetch(host)
                    return host
        return None

    def begin_fetch(self, host: Host) -> None:
        """Note that the robots.txt of *host* is being fetched."""
        host.is_wanted, host.is_fetching = False, True

    def end_fetch(self, host: Host) -> None:
        """Note that the fetch of the robots.txt of *host* has ended. Its result is told next."""
        host.is_fetching = False

    def known(self, host: Host, now: float, expires: float) -> None:
        """Note that the rules of *host* are known until the time *expires*."""
        self._happens(host, Event.KNOWN)
        host.expires, host.outage, host.templates = expires, None, None
        self._refused.pop(host, None)
        self._empty(host, now)

    def unreachable(
        self,
        host: Host,
        now: float,
        retry_at: float,
        *,
        wait: float,
        is_asked: bool,
        known: Any = None,
    ) -> None:
        """Note that robots.txt of *host* is unreachable, and is fetched again at *retry_at*, or,
        unless the host has asked for that time (*is_asked*), earlier, once more before its tickets
        are refused. From the first time on, they wait for *wait* seconds. *known* is for the owner.
        """
        if self.hosts.get(host.origin) is not host:
            return  # Nothing waits for it any more.
        if host.outage is None:
            host.outage = Outage(now, now + wait)
        outage = host.outage
        # A host that had no server before may have one now, and be asked for longer.
        outage.until = max(outage.until, outage.since + wait)
        if not is_asked and now < outage.until:
            retry_at = min(retry_at, outage.until)
        outage.retry_at, outage.known = retry_at, known
        is_too_long = now >= outage.until or retry_at > outage.until
        self._happens(host, Event.GIVEN_UP if is_too_long else Event.UNREACHABLE)
        if host.phase is Phase.REFUSED:
            self._refused.pop(host, None)
            self._refused[host] = None
            if len(self._refused) > _MAX_REFUSED:
                oldest = next(iter(self._refused))
                del self._refused[oldest]
                self._happens(oldest, Event.FORGOTTEN)
                oldest.outage = None
                self._forget(oldest)
            self._empty(host, now)
        else:
            self._alarms.set(host, retry_at)
            for ticket in [each for each in host.waiting if not each.is_patient]:
                host.discard(ticket)
                self._let_out(ticket, is_granted=False)

    def unknown(self, host: Host, now: float) -> None:
        """Note that the fetch of robots.txt of *host* has ended without a result. If tickets wait
        for it, it is repeated after a pause.
        """
        if host.waiting:
            self._alarms.set(host, now + _FIRST_PAUSE)
        else:
            self._happens(host, Event.NO_RESULT)
        self._forget(host)

    def _happens(self, host: Host, event: Event) -> None:
        following = _NEXT_PHASE[event][host.phase]
        assert following is not None, (host, event)
        host.phase = following
        if host.phase is not Phase.OPEN:
            host.expires = -inf

    def _empty(self, host: Host, now: float) -> None:
        """Let the tickets that wait for robots.txt of *host* continue."""
        waiting, host.waiting = host.waiting, ()
        for ticket in waiting:
            ticket.where = Where.NOWHERE
            if host.phase is Phase.REFUSED:
                self._let_out(ticket, is_granted=False)
            else:
                self._seek_places(ticket, now)
        if waiting:
            self._say_wake()
        self._forget(host)

    def _want(self, host: Host, *, is_urgent: bool) -> None:
        if host.is_fetching:
            return
        if is_urgent:
            self.urgent.append(host)
        elif not host.is_wanted:
            self.wanted.append(host)
        host.is_wanted = True

    def _forget(self, host: Host) -> None:
        if host.tickets or host.outage is not None:
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
                begins = max(since, scope.answered_at)
                scope.wait_until(begins + delay, WaitReason.DELAY)
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
        elif found.has_recovered:
            found.since = now
        is_new = sent_at >= found.until
        if is_new:
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
            if until <= now and not own:
                return  # There was a success since.
            found = scope.back_off = BackOff(since)
        elif until <= found.until + _SAME_PAUSE:
            # Another worker may have seen a success that this one has not.
            found.since = max(found.since, since)
            return
        found.since, found.own = since, own
        self._pause(scope, found, until, now)

    def _pause(self, scope: Scope, found: BackOff, until: float, now: float) -> None:
        if until > found.until:
            found.asked, found.asked_at = round(max(until - now, 0.0), 3), now
            found.until = until
        found.places = 1
        scope.wait_until(found.until, WaitReason.BACK_OFF)
        self.said.append(Paused(scope))
        self._changed(scope, now)

    def succeeded(self, scope: Scope, now: float, *, sent_at: float) -> bool:
        """Note that a host of *scope* has answered a request, sent at *sent_at*, without asking
        for a pause. After enough successes, ``scope.back_off`` is None again. Return whether this is
        the first since the host began to ask for pauses.
        """
        found = scope.back_off
        if found is None or sent_at < found.until:
            return False
        is_first, found.has_answered = not found.has_answered, True
        found.own = 0.0
        found.places += 1
        if found.places >= scope.places:
            scope.back_off = None
        self._admit(scope, now)
        return is_first

    def refusing(self, ticket: Ticket, now: float) -> Scope | None:
        """Return the scope for whose back-off the requests of *ticket* are refused, if any."""
        for scope in ticket.scopes:
            if self.refuses(scope, now):
                return scope
        return None

    def refuses(self, scope: Scope, now: float) -> bool:
        """Whether requests are refused for the back-off of *scope*."""
        found = scope.back_off
        if found is None or found.until <= now:
            return False  # One request finds out whether the host is back, others wait for it.
        is_long = found.until - now > self._wait_timeout
        has_lasted = now - found.since >= self._wait_timeout
        return is_long or (has_lasted and not found.has_recovered)

    # The network of the crawler itself.

    def answered(self, key: str, request: Any, now: float) -> None:
        """Note that the host of the scope *key* has answered a *request*, with anything."""
        network = self.network
        if network.failed_hosts:
            self._say_network(network.answered(key, request, now), now)
        elif key not in network.answered_hosts and now >= network.notes_at:
            # The usual case: the network was up, and is.
            network.answered(key, request, now)

    def failed(self, key: str, request: Any, now: float) -> None:
        """Note that a *request* to the host of the scope *key* has failed at the level of the
        network.
        """
        self._say_network(self.network.failed(key, request, now), now)

    def _say_network(
        self, change: NetworkGone | NetworkBack | None, now: float
    ) -> None:
        """Say what has changed. When the network is back, all continue, and the time in which it was
        gone counts for no host.
        """
        if change is not None:
            self.said.append(change)
        if not isinstance(change, NetworkBack):
            return
        gone = now - change.since
        for host in self.hosts.values():
            if host.outage is not None:
                if host.outage.since >= change.since:
                    host.outage.retry_at = now
                    self._alarms.set(host, now)
                host.outage.since += gone
                host.outage.until += gone
        for scope in self.scopes.values():
            if scope.back_off is not None:
                scope.back_off.since += gone
        self._resume(now)

    def _resume(self, now: float) -> None:
        waiting, self._at_network = self._at_network, {}
        for ticket in waiting:
            ticket.where = Where.NOWHERE
            self.add(ticket, now)  # Its rules may be stale by now.
        self._say_wake()

    def _ask(self, now: float) -> None:
        """Let a robots.txt be sent that finds out whether the network is back, if it is time."""
        request = self.network.next_probe(now, lambda key: self._has_turn(key, now))
        if request is None:
            return
        for ticket in self._at_network:
            if self._is_next_probe(ticket):
                del self._at_network[ticket]
                self._seek_places(ticket, now)
                return
        self.said.append(Probe(request))

    def _is_next_probe(self, ticket: Ticket) -> bool:
        return (
            ticket.is_for_robotstxt
            and self._probe is None
            and ticket.scopes[0].key == self.network.probed_host
        )

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
            self._alarms.first_at,
            self.network.probe_at,
            self.network.resumes_at,
        )

    def tick(self, now: float) -> None:
        """Do what is due."""
        if now >= self.network.resumes_at:
            self.network.resume()
            self._resume(now)
        self._ask(now)
        for owner in self._alarms.due(now):
            if isinstance(owner, Scope):
                self._admit(owner, now)
                self._forget_scope(owner, now)
            elif owner.outage is not None and now < owner.outage.retry_at:
                self._alarms.set(owner, owner.outage.retry_at)
            elif owner.waiting or owner.outage is not None:
                is_urgent = any(each.is_direct for each in owner.waiting)
                self._want(owner, is_urgent=is_urgent)

    # What the log says.

    def waiting(self) -> tuple[int, int, Scope | None]:
        """Return how many requests, to how many hosts, wait for robots.txt, a delay or a pause; and
        the scope of those that may be sent first, if a scope holds them back.
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

    def slowdowns(self) -> list[Slowdown]:
        """Return what has held up the crawl, the longest first."""
        return sorted(self._slowdowns.values(), reverse=True)

    def _note_slowdown(self, scope: Scope, paced_until: float) -> None:
        """Note for how long *scope* has held back the request that is sent now, beyond the pauses
        of the host and the delay of the project.
        """
        seconds = 0.0
        if scope.held_since is not None:
            begins = max(scope.held_since, scope.paused_until, paced_until)
            seconds = max(min(scope.taken_at, scope.next_at) - begins, 0.0)
        before = self._slowdowns.get(scope.key, Slowdown(0.0, scope.key, 0, 0.0))
        self._slowdowns[scope.key] = Slowdown(
            before.seconds + seconds, scope.key, before.requests + 1, scope.delay
        )
        if len(self._slowdowns) > _MAX_SLOWDOWNS:
            self._slowdowns = {
                each.key: each for each in self.slowdowns()[: _MAX_SLOWDOWNS // 2]
            }
