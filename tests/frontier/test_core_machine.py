"""A state machine drives a crawl with random events, beside a plain model of
scopes and hosts: what may go when, without heaps, queues and alarms.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scrapy_rep.crawl.frontier.core import (
    Core,
    Decided,
    Phase,
    Probe,
    Ticket,
    WaitReason,
    Where,
)
from scrapy_rep.crawl.frontier.network import NetworkBack
from scrapy_rep.protocol.origins import Origin
from tests import effort

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.crawl.frontier.core import Host, Ready, Said, Scope

pytestmark = pytest.mark.newest

WAIT_MAX = 100.0
MAX_OWN_PAUSE = 8.0
DELAYS_PER_REDIRECTED = 4
REMEMBERED = 600.0
ANSWER_REMEMBERED = 30.0

NAMES = "abc"
ORIGINS = [Origin("http", name, 80) for name in NAMES] + [Origin("https", "a", 443)]


class Slot(NamedTuple):
    """A download slot."""

    places: float
    pause: float


origins = st.sampled_from([ORIGINS[0], *ORIGINS])
which = st.integers(0, 30)
lines = st.integers(0, 1)
slots = st.builds(
    Slot,
    st.sampled_from([1, 2, 3, inf]),
    st.sampled_from([0.0, 0.0, 0.5]),
)


# The model.


@dataclass
class Pause:
    """What a host that has asked for pauses is owed."""

    since: float
    until: float = -inf
    own: float = 0.0
    places: int = 1
    """More than one after a success."""


@dataclass
class ScopeModel:
    slot: Slot
    in_flight: int = 0
    unsent: int = 0
    """The requests of queues among them that have not reached the downloader."""

    delays: dict[Any, float] = field(default_factory=dict)
    not_before: float = -inf
    """The end of a delay, or of what another worker waits for."""

    pause: Pause | None = None
    taken_at: float = -inf
    redirected_at: float = -inf
    pages: int = 0
    """The tickets that belong to it, except those for the robots.txt of another host."""

    redirected: int = 0

    @property
    def delay(self) -> float:
        return max(self.delays.values(), default=0.0)

    def free_at(self, item: Item, *, is_slot: bool) -> float:
        """The time from which *item* may go if nothing else happens; never: ``inf``."""
        limits, times = [inf], [-inf]
        if is_slot:
            limits.append(self.slot.places + item.is_direct * self.unsent)
            times.append(self.taken_at + self.slot.pause)
        if item.obeys:
            limits.append(1 if self.delay else inf)
        if item.obeys or self.pause:
            times.append(self.not_before)
        if self.pause:
            limits.append(self.pause.places)
            times.append(self.pause.until)
        if item.is_redirected and self.pages:
            times.append(self.redirected_at)
        return inf if self.in_flight >= min(limits) else max(times)

    def is_too_long(self, now: float) -> bool:
        if self.pause is None or self.pause.until <= now:
            return False
        nothing_else = self.pause.places == 1 and now - self.pause.since >= WAIT_MAX
        return nothing_else or self.pause.until - now > WAIT_MAX

    def take(self, now: float, *, is_direct: bool) -> None:
        self.in_flight += 1
        self.unsent += not is_direct
        self.taken_at = now

    def leave(self, now: float, *, fetched: bool, is_redirected: bool) -> None:
        self.in_flight -= 1
        assert self.in_flight >= 0
        if is_redirected:
            self.redirected_at = now + DELAYS_PER_REDIRECTED * self.delay
        if fetched and self.delay:
            self.not_before = max(self.not_before, now + self.delay)

    def back_off(self, now: float, asked: float | None, sent_at: float) -> None:
        if self.pause is None:
            self.pause = Pause(since=now)
        elif self.pause.places > 1:
            self.pause.since = now
        pause = self.pause
        if sent_at >= pause.until:
            pause.own = min(max(1.0, 2 * pause.own), MAX_OWN_PAUSE)
        seconds = max(pause.own if asked is None else asked, self.delay)
        pause.until, pause.places = max(pause.until, now + seconds), 1

    def succeeded(self, sent_at: float) -> None:
        if self.pause is not None and sent_at >= self.pause.until:
            self.pause.own = 0.0
            self.pause.places += 1
            if self.pause.places >= self.slot.places:
                self.pause = None

    def is_forgotten(self, now: float) -> bool:
        if self.in_flight or self.pages or self.redirected:
            return False
        paused_until = self.pause.until if self.pause else -inf
        until = max(self.not_before, paused_until)
        if self.delay:
            # A place that was given back unsent counts, too.
            until = max(until, self.taken_at) + ANSWER_REMEMBERED
        return now >= max(until, paused_until + REMEMBERED)


@dataclass
class HostModel:
    """What is known of a host's robots.txt."""

    expires: float = -inf
    is_down: bool = False
    is_refused: bool = False
    since: float = -inf
    until: float = -inf
    retry_at: float = -inf

    def known(self, expires: float) -> None:
        self.expires, self.is_down, self.is_refused = expires, False, False
        self.retry_at = -inf

    def unreachable(
        self, now: float, retry_at: float, wait: float, *, is_asked: bool
    ) -> None:
        if not self.is_down:
            self.is_down, self.since, self.until = True, now, now
        self.until = max(self.until, self.since + wait)
        # Once more before it is given up, unless the host has named its time.
        if not is_asked and now < self.until:
            retry_at = min(retry_at, self.until)
        self.retry_at, self.expires = retry_at, -inf
        self.is_refused |= now >= self.until or retry_at > self.until

    def network_was_gone(self, since: float, now: float) -> None:
        if self.is_down:
            if self.since >= since:
                self.retry_at = now
            self.since += now - since
            self.until += now - since

    def is_open(self, now: float) -> bool:
        return not self.is_down and now < self.expires


# The crawl.


class Item(Ticket):
    """A ticket with a number of requests."""

    def __init__(
        self,
        crawl: Crawl,
        host: Host | None,
        scopes: tuple[Scope, ...],
        *,
        ready: Ready | None,
        obeys: bool,
        is_patient: bool,
        is_for_robotstxt: bool,
        is_redirected: bool,
        size: int,
    ) -> None:
        self.crawl, self.is_patient, self.size = crawl, is_patient, size
        self.is_direct = ready is None
        self.is_for_robotstxt, self.is_redirected = is_for_robotstxt, is_redirected
        super().__init__(host, scopes, obeys=obeys, ready=ready)

    def __len__(self) -> int:
        return self.size


@dataclass(eq=False)
class InFlight:
    item: Item
    since: float
    is_sent: bool = False


class Crawl(Core):
    """A core that tells the machine of each place when it is taken."""

    def __init__(self, machine: CoreMachine) -> None:
        super().__init__(WAIT_MAX)
        self.machine = machine
        self.lines = [self.ready(), self.ready()]
        self.elsewhere: dict[Origin, float] = {}
        """Until when another worker knows the rules of an origin."""

        self.rules: dict[Host, HostModel] = defaultdict(HostModel)
        self.fetching: list[Host] = []
        self.items: list[Item] = []
        self.needed: set[Host] = set()
        """Those that are down, and are to be fetched when that is due."""

    def take(self, ticket: Ticket, now: float) -> None:
        assert isinstance(ticket, Item)
        self.machine.taken(ticket)
        super().take(ticket, now)

    def scope(self, key: str) -> Scope:
        scope = super().scope(key)
        scope.places, scope.slot_pause = self.machine.slots[key]
        return scope

    def tell(self, host: Host | None) -> None:
        """Give the core what is known of *host*, as it does not ask."""
        now = self.machine.now
        if (
            host is None
            or now < host.expires
            or host.phase in {Phase.WANTED, Phase.DOWN}
        ):
            return
        expires = self.elsewhere.get(host.origin, -inf)
        if expires > self.machine.now:
            self.machine.learn(host, expires)


class CoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.crawl = Crawl(self)
        self.in_flight: list[InFlight] = []
        self.models: dict[str, ScopeModel] = {}
        self.probe: InFlight | None = None
        """The last request that was sent while the network was gone."""

    @initialize(
        found=st.lists(slots, min_size=3, max_size=3),
        delays=st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=4, max_size=4),
        are_known=st.booleans(),
    )
    def begin(self, found: list[Slot], delays: list[float], are_known: bool) -> None:
        self.slots = dict(zip(NAMES, found, strict=True))
        # What each robots.txt asks for.
        self.delays = dict(zip(ORIGINS, delays, strict=True))
        if are_known:
            self.crawl.elsewhere = dict.fromkeys(ORIGINS, self.now + 1000)

    def model(self, name: str) -> ScopeModel:
        return self.models.setdefault(name, ScopeModel(self.slots[name]))

    def models_of(self, item: Item) -> list[ScopeModel]:
        return [self.model(scope.key) for scope in item.scopes]

    def pick(self, found: Iterable[Any], number: int) -> Any:
        some = list(found)
        return some[number % len(some)]

    # Tickets.

    def add(
        self,
        ready: Ready | None,
        origin: Origin | None,
        names: str,
        *,
        obeys: bool = True,
        is_patient: bool = True,
        is_for_robotstxt: bool = False,
        is_redirected: bool = False,
        size: int = 1,
    ) -> None:
        crawl, host = self.crawl, None
        if origin is not None:
            host = crawl.host(origin)
            if crawl.rules[host].is_down and host not in crawl.fetching:
                crawl.needed.add(host)
        scopes = tuple(map(crawl.scope, names))
        item = Item(
            crawl,
            host,
            scopes,
            ready=ready,
            obeys=obeys,
            is_patient=is_patient,
            is_for_robotstxt=is_for_robotstxt,
            is_redirected=is_redirected,
            size=size,
        )
        for model in self.models_of(item):
            model.redirected += item.is_redirected
            model.pages += not item.is_redirected
        crawl.items.append(item)
        crawl.tell(host)
        crawl.add(item, self.now)
        self.settle()

    @rule(data=st.data(), line=lines, origin=origins)
    def push(self, data: st.DataObject, line: int, origin: Origin) -> None:
        """A queue of a host gets requests."""
        kind = data.draw(st.sampled_from([*["obeys"] * 3, "ignores delays", "exempt"]))
        slot = data.draw(st.sampled_from(["", "", "", *NAMES]))
        names = slot or origin.host
        if kind != "exempt" and slot not in {"", origin.host}:
            names = origin.host + slot
        self.add(
            self.crawl.lines[line],
            None if kind == "exempt" else origin,
            names,
            obeys=kind == "obeys",
            size=data.draw(st.integers(1, 4)),
        )

    @rule(
        names=st.sampled_from(["a", "a", "b", "ab", "ca"]),
        obeys=st.booleans(),
        is_redirected=st.booleans(),
        is_for_robotstxt=st.booleans(),
    )
    def send(
        self, names: str, obeys: bool, is_redirected: bool, is_for_robotstxt: bool
    ) -> None:
        """A request in the downloader needs places."""
        self.add(
            None,
            None,
            names,
            obeys=obeys or is_redirected,
            is_for_robotstxt=is_for_robotstxt or is_redirected,
            is_redirected=is_redirected,
        )

    @rule(origin=origins, is_patient=st.booleans())
    def ask(self, origin: Origin, is_patient: bool) -> None:
        """A request in the downloader waits for robots.txt."""
        self.add(None, origin, "", is_patient=is_patient)

    @rule(line=lines, times=st.integers(1, 5))
    def pop(self, line: int, times: int) -> None:
        for _ in range(times):
            if not self.pop_one(line):
                break

    def pop_one(self, line: int) -> bool:
        """Have a scheduler pop a request. The slot with the fewest requests in flight goes first."""
        crawl = self.crawl
        ready = crawl.lines[line]
        before = {name: self.model(name).in_flight for name in NAMES}
        were_ready = set(ready._by_slot)
        item = None
        while item is None and crawl.network.is_up and (first := ready.first()):
            item = first if crawl.go(first, self.now) else None
        if item is None:
            assert not (len(ready) and crawl.network.is_up)
        else:
            assert isinstance(item, Item)
            assert item in crawl.items
            if item.where is Where.REFUSED:
                assert self.is_refused(item), "A ticket is refused that need not be"
            else:
                assert item.where in {Where.NOWHERE, Where.READY}
                for scope in were_ready & ready._by_slot.keys():
                    assert before[scope.key] >= before[item.scopes[-1].key]
            item.size -= 1
            if item.size and item.where is not Where.READY:
                crawl.tell(item.host)
                crawl.add(item, self.now)
            elif not item.size:
                self.end(item)
        self.settle()
        return item is not None

    def taken(self, item: Item) -> None:
        """Check that *item* may go, and note that it has its places."""
        is_probe = not self.crawl.network.is_up and item.is_direct
        if is_probe:
            assert item.is_for_robotstxt, "It is sent while the network is gone"
            is_one = self.probe is None or self.probe not in self.in_flight
            assert is_one, "Two probes at once"
        for scope in item.scopes:
            at = self.free_at(scope, item)
            assert at <= self.now, f"{scope.key} is not free before {at}"
        if item.host is not None:
            assert item.crawl.rules[item.host].is_open(self.now)
        for model in self.models_of(item):
            model.take(self.now, is_direct=item.is_direct)
        if item.scopes:
            self.in_flight.append(InFlight(item, self.now))
            if is_probe:
                self.probe = self.in_flight[-1]

    def free_at(self, scope: Scope, item: Item) -> float:
        is_slot = scope is item.scopes[-1]
        return self.model(scope.key).free_at(item, is_slot=is_slot)

    def is_refused(self, item: Item) -> bool:
        if any(model.is_too_long(self.now) for model in self.models_of(item)):
            return True
        if item.host is None:
            return False
        host = item.crawl.rules[item.host]
        return host.is_refused or (host.is_down and not item.is_patient)

    def end(self, item: Item) -> None:
        item.crawl.items.remove(item)
        for model in self.models_of(item):
            model.redirected -= item.is_redirected
            model.pages -= not item.is_redirected
        item.crawl.end(item, self.now)

    @precondition(lambda self: self.crawl.items)
    @rule(number=which)
    def cancel(self, number: int) -> None:
        item = self.pick(self.crawl.items, number)
        self.end(item)
        self.settle()

    def settle(self) -> None:
        """Do what the core says."""
        crawl = self.crawl
        while True:
            said = list(crawl.drain())
            for each in said:
                self.hear(each)
            if crawl.wake_at() <= self.now:
                crawl.tick(self.now)
                assert crawl.wake_at() > self.now
            elif not said:
                break

    def hear(self, said: Said) -> None:
        match said:
            case Decided(Item() as item, is_granted):
                if not is_granted:
                    assert self.is_refused(item), "A ticket is refused that need not be"
                self.end(item)
            case Probe(name):
                if name in NAMES:
                    self.add(None, None, name, is_for_robotstxt=True)
            case NetworkBack(since, until):
                self.network_was_gone(since, until)

    # Requests in flight.

    @precondition(lambda self: self.in_flight)
    @rule(
        number=which,
        what=st.sampled_from(["is lost", "is sent", "ends", "ends", "succeeds"]),
    )
    def send_or_leave(self, number: int, what: str) -> None:
        found = self.pick(self.in_flight, number)
        if what != "is lost":
            self.reach_the_downloader(found)
        if what == "succeeds":
            scope, crawl = found.item.scopes[0], found.item.crawl
            self.model(scope.key).succeeded(found.since)
            crawl.succeeded(scope, self.now, sent_at=found.since)
            self.settle()
        if what != "is sent":
            self.leave_one(found)

    @rule()
    def leave_all(self) -> None:
        for found in list(self.in_flight):
            self.reach_the_downloader(found)
            self.leave_one(found)

    @precondition(lambda self: self.in_flight)
    @rule(
        number=which,
        asked=st.sampled_from([None, None, 1.0, 20.0, 150.0]),
        is_late=st.booleans(),
    )
    def back_off(self, number: int, asked: float | None, is_late: bool) -> None:
        """A host answers 429."""
        found = self.pick(self.in_flight, number)
        self.reach_the_downloader(found)
        sent_at = found.since - 60 if is_late else found.since
        self.pause(found.item.scopes[0].key, asked, sent_at)
        self.leave_one(found)

    def reach_the_downloader(self, found: InFlight) -> None:
        if not found.is_sent:
            found.is_sent = True
            for model in self.models_of(found.item):
                model.unsent -= not found.item.is_direct
            found.item.crawl.sent(found.item)

    def leave_one(self, found: InFlight) -> None:
        item, is_sent = found.item, found.is_sent
        self.in_flight.remove(found)
        for model in self.models_of(item):
            model.unsent -= not (is_sent or item.is_direct)
            model.leave(self.now, fetched=is_sent, is_redirected=item.is_redirected)
        item.crawl.free(item, self.now, sent=is_sent)
        self.settle()

    # Hosts.

    def learn(self, host: Host, expires: float) -> None:
        crawl = self.crawl
        if crawl.scopes.get(host.origin.host) is not None:
            self.change_delay(host.origin, self.delays[host.origin], ago=0)
        crawl.rules[host].known(expires)
        crawl.known(host, self.now, expires)

    @rule(is_needed=st.sampled_from([True, True, False]))
    def fetch(self, is_needed: bool) -> None:
        crawl = self.crawl
        while (host := crawl.next_wanted(is_needed=is_needed)) is not None:
            assert host not in crawl.fetching, "Two fetches at once"
            assert self.now >= crawl.rules[host].retry_at, "Asked sooner than it said"
            crawl.fetching.append(host)
            crawl.needed.discard(host)

    @precondition(lambda self: self.crawl.fetching)
    @rule(
        data=st.data(),
        number=which,
        retry=st.sampled_from([0.0, 0.0, 0.0, 10.0, 30.0, 150.0]),
        is_lost=st.sampled_from([False, False, False, True]),
    )
    def answer(
        self, data: st.DataObject, number: int, retry: float, is_lost: bool
    ) -> None:
        """A fetch of robots.txt ends; one *is_lost* if it is cancelled, or fails in a component."""
        crawl = self.crawl
        host = crawl.fetching.pop(number % len(crawl.fetching))
        crawl.end_fetch(host)
        if not is_lost:
            self.crawl.answered("x", "x", self.now)
            self.settle()
        if is_lost:
            crawl.unknown(host, self.now)
        elif retry:
            at = self.now + retry
            wait = data.draw(st.sampled_from([0.0, WAIT_MAX, WAIT_MAX]))
            is_asked = data.draw(st.booleans())
            crawl.rules[host].unreachable(self.now, at, wait, is_asked=is_asked)
            crawl.unreachable(host, self.now, at, wait=wait, is_asked=is_asked)
        else:
            holds = data.draw(st.sampled_from([5.0, 100.0, 1000.0, 1000.0]))
            self.learn(host, self.now + holds)
        self.settle()

    @rule(origin=origins, holds=st.sampled_from([5.0, 200.0]))
    def learn_elsewhere(self, origin: Origin, holds: float) -> None:
        self.crawl.elsewhere[origin] = self.now + holds

    @rule(origin=origins)
    def stale(self, origin: Origin) -> None:
        crawl = self.crawl
        host = crawl.hosts.get(origin)
        if host is not None and host.phase is Phase.OPEN:
            crawl.rules[host].expires = host.expires = -inf

    # Scopes.

    @rule(
        origin=origins,
        delay=st.sampled_from([0.0, 1.0, 2.5, 7.0]),
        ago=st.sampled_from([0.0, 2.0, 100.0, inf]),
    )
    def set_delay(self, origin: Origin, delay: float, ago: float) -> None:
        self.change_delay(origin, delay, ago)
        self.settle()

    def change_delay(self, origin: Origin, delay: float, ago: float) -> None:
        model, scope = self.model(origin.host), self.crawl.scope(origin.host)
        since = self.now - ago
        if not delay:
            model.delays.pop(origin, None)
        else:
            if origin not in model.delays:
                begins = max(since, scope.answered_at)
                model.not_before = max(model.not_before, begins + delay)
            model.delays[origin] = delay
        self.crawl.set_delay(scope, origin, delay, self.now, since=since)

    @rule(name=st.sampled_from(NAMES), seconds=st.sampled_from([5.0, 50.0]))
    def wait_for_another_worker(self, name: str, seconds: float) -> None:
        scope = self.crawl.scopes.get(name)
        if scope is not None:
            model = self.model(name)
            model.not_before = max(model.not_before, self.now + seconds)
            scope.wait_until(self.now + seconds, WaitReason.OTHER_WORKER)

    @rule(name=st.sampled_from(NAMES), seconds=st.sampled_from([1.0, 30.0]))
    def slow_down(self, name: str, seconds: float) -> None:
        """A spider asks for a pause of any host."""
        self.pause(name, seconds, self.now)

    def pause(self, name: str, asked: float | None, sent_at: float) -> None:
        self.model(name).back_off(self.now, asked, sent_at)
        scope, now, cap = self.crawl.scope(name), self.now, MAX_OWN_PAUSE
        self.crawl.back_off(scope, now, delay=asked, cap=cap, sent_at=sent_at)
        self.settle()

    # The network of the crawler itself, and time.

    @rule(is_exhausted=st.booleans())
    def lose_the_network(self, is_exhausted: bool) -> None:
        if is_exhausted:
            self.crawl.network.exhausted(self.now)
        else:
            for host in [*NAMES, "x", "y"]:
                self.crawl.failed(host, host, self.now)
        self.settle()

    @rule(host=st.sampled_from(["x", *NAMES]))
    def answer_anything(self, host: str) -> None:
        self.crawl.answered(host, host, self.now)
        self.settle()

    def network_was_gone(self, since: float, until: float) -> None:
        for model in self.models.values():
            if model.pause is not None:
                model.pause.since += until - since
        for rules in self.crawl.rules.values():
            rules.network_was_gone(since, until)

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 2.5, 10.0, 61.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(1000):
            at = self.crawl.wake_at()
            if at > until:
                break
            self.now = at
            self.crawl.tick(self.now)
            self.settle()
        else:
            raise AssertionError("It wakes up for ever")
        self.now = until

    # Invariants.

    @invariant()
    def every_ticket_is_where_it_waits_for_something(self) -> None:
        """Nothing is lost, and what a ticket waits for comes by itself, and is announced."""
        parked: list[Ticket] = []
        for scope in self.crawl.scopes.values():
            for lane in (scope.parked or {}).values():
                parked += lane
                first = next(iter(lane), None)
                if first is None or (scope.ready and not first.is_direct):
                    continue
                assert isinstance(first, Item)
                at = self.free_at(scope, first)
                assert at > self.now, f"It waits for {scope.key}, which is free"
                assert self.crawl.wake_at() <= at, "It is not announced"
        crawl = self.crawl
        for item in crawl.items:
            if item.where is Where.AT_HOST:
                self.check_waits_for_robotstxt(item)
            elif item.where is Where.AT_SCOPE:
                assert parked.count(item) == 1
            elif item.where is Where.AT_NETWORK:
                assert not crawl.network.is_up
            else:
                assert item.where is Where.READY, f"{item.where}: it is lost"
        for host in crawl.needed & set(crawl.hosts.values()):
            host_model = crawl.rules[host]
            if host_model.is_down and not host.is_wanted:
                is_fetching = host in crawl.fetching
                assert is_fetching or crawl.wake_at() <= host_model.retry_at

    def check_waits_for_robotstxt(self, item: Item) -> None:
        crawl, host = self.crawl, item.host
        assert host is not None
        assert list(host.waiting).count(item) == 1
        again = max(crawl.rules[host].retry_at, self.now + 1)
        is_announced = host in crawl.fetching or crawl.wake_at() <= again
        assert host.is_wanted or is_announced, "Nobody fetches its robots.txt"
        assert not host.is_wanted or host in {*crawl.urgent, *crawl.wanted}

    @invariant()
    def what_is_not_used_is_forgotten(self) -> None:
        for name, model in list(self.models.items()):
            if model.is_forgotten(self.now):
                del self.models[name]
                assert self.crawl.scopes.get(name) is None

    def teardown(self) -> None:
        """Everything that waits goes in the end, and nothing is left."""
        self.crawl.answered("x", "x", self.now)
        self.settle()
        for _ in range(2000):
            crawl = self.crawl
            if not self.in_flight and not crawl.items:
                break
            while (host := crawl.next_wanted(is_needed=True)) is not None:
                crawl.fetching.append(host)
            while crawl.fetching:
                host = crawl.fetching.pop()
                crawl.end_fetch(host)
                self.learn(host, inf)
                self.settle()
            for line in range(2):
                while self.pop_one(line):
                    pass
            self.leave_all()
            self.every_ticket_is_where_it_waits_for_something()
            at = self.crawl.wake_at()
            if at < inf:
                self.pass_time(max(at - self.now, 0.0))
        assert not self.crawl.items, "They are never sent"
        self.pass_time(10_000)
        assert not self.crawl.scopes


def test_any_crawl() -> None:
    """Whatever happens in a crawl: places, delays and pauses of every scope
    are kept, nothing is lost or refused without need, and every wake-up is announced.
    """
    run_state_machine_as_test(
        CoreMachine,
        settings=settings(
            stateful_step_count=200 if effort.is_long else 50,
            suppress_health_check=list(HealthCheck),
        ),
    )
