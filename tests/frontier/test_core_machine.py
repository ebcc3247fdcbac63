"""A state machine that drives two crawls on the same scopes with random events."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

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

from scrapy_rep.frontier.core import Core, Hold, Phase, Ready, Scopes, Ticket, Where
from scrapy_rep.protocol.origins import Origin
from tests import effort
from tests.frontier.model import HostModel, ScopeModel, Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_rep.frontier.core import Host, Line, Scope

pytestmark = pytest.mark.newest

WAIT_MAX = 100.0
NAMES = "abc"
ORIGINS = [
    Origin(scheme, name, port)
    for scheme, name, port in [
        ("http", "a", 80),
        ("https", "a", 443),
        ("http", "b", 80),
        ("http", "c", 80),
    ]
]
origins = st.sampled_from([ORIGINS[0], *ORIGINS])
which = st.integers(0, 30)
crawls = st.integers(0, 1)
slots = st.builds(
    Slot, st.sampled_from([1, 2, 3, inf]), st.sampled_from([0.0, 0.0, 0.5])
)


class Item(Ticket):
    """A ticket of a crawl in the test, with a number of requests."""

    __slots__ = ("crawl", "is_over", "size")

    def __init__(
        self, crawl: Crawl, line: Line, host: Host | None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(line, host, *args, **kwargs)
        self.crawl = crawl
        self.size = 1
        self.is_over = False

    def __len__(self) -> int:
        return self.size

    @property
    def is_stranger(self) -> bool:
        return self.line is self.crawl.core.strangers


@dataclass(eq=False)
class InFlight:
    item: Item
    since: float
    is_sent: bool = False


class Granted(OrderedDict[Ticket, None]):
    """The tickets that may go, with numbers that count those of all crawls."""

    def __init__(self, numbers: Iterator[int]) -> None:
        super().__init__()
        self._next = numbers
        self._numbers: dict[Ticket, int] = {}

    def __setitem__(self, ticket: Ticket, value: None) -> None:
        super().__setitem__(ticket, value)
        self._numbers[ticket] = next(self._next)

    @property
    def first_number(self) -> int:
        return self._numbers[next(iter(self))]


class Crawl:
    def __init__(self, machine: CoreMachine) -> None:
        self.machine = machine
        self.core = Core(
            machine.scopes,
            slot=machine.slot,
            wait_max=WAIT_MAX,
            look_up=self.look_up,
            changed=self.wake,
        )
        self.granted = self.core.granted = Granted(machine.grants)
        self.lines = [self.core.ready(), self.core.ready()]
        self.cached: dict[Origin, float] = {}
        """Until when another worker knows the rules of an origin."""

        self.hosts: dict[Host, HostModel] = {}
        self.fetching: list[Host] = []
        self.tickets: list[Item] = []
        self.in_flight: list[InFlight] = []
        self.needed: set[Host] = set()
        self.is_woken = False
        self.passed: dict[tuple[Ready, Scope, Scope], int] = {}
        for ready in self.lines:
            vars(ready)["pop"] = self.watch(ready)

    def watch(self, ready: Ready) -> Callable[[], Ticket | None]:
        """Begin to count again for a scope that gets its turn, even if its ticket cannot go."""
        pop = ready.pop

        def watched() -> Ticket | None:
            ticket = pop()
            for key in list(self.passed):
                if ticket is not None and key[:2] == (ready, ticket.scopes[-1]):
                    del self.passed[key]
            return ticket

        return watched

    def wake(self) -> None:
        self.is_woken = True

    def model(self, host: Host) -> HostModel:
        return self.hosts.setdefault(host, HostModel())

    def look_up(self, host: Host) -> None:
        assert host.phase in {Phase.UNKNOWN, Phase.REFUSED}
        expires, now = self.cached.get(host.origin, -inf), self.machine.now
        if expires > now:
            self.machine.keep_delay(self, host.origin)
            self.model(host).known(expires)
            self.core.known(host, now, expires)


class CoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.scopes = Scopes()
        self.grants = count()
        self.crawls = [Crawl(self), Crawl(self)]
        self.models: dict[str, ScopeModel] = {}
        self.slots: dict[str, Slot] = {}
        self.delays: dict[Origin, float] = {}
        """What each robots.txt asks for."""

    @initialize(
        found=st.lists(slots, min_size=3, max_size=3),
        delays=st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=4, max_size=4),
        are_known=st.booleans(),
    )
    def begin(self, found: list[Slot], delays: list[float], are_known: bool) -> None:
        self.slots = dict(zip(NAMES, found, strict=True))
        self.delays = dict(zip(ORIGINS, delays, strict=True))
        for crawl in self.crawls if are_known else ():
            crawl.cached = dict.fromkeys(ORIGINS, self.now + 1000)

    def slot(self, scope: Scope) -> tuple[float, float]:
        slot = self.slots[scope.key]
        return slot.places, scope.taken_at + slot.pause if slot.pause else -inf

    def model(self, key: str) -> ScopeModel:
        return self.models.setdefault(key, ScopeModel(self.slots[key]))

    def pick(self, found: list[Any], number: int) -> Any:
        return found[number % len(found)]

    # Tickets.

    def add(
        self,
        crawl: Crawl,
        line: Line,
        origin: Origin | None,
        names: str,
        *,
        obeys: bool,
        is_patient: bool = True,
        size: int = 1,
    ) -> None:
        host = crawl.core.host(origin) if origin is not None else None
        is_fetching = host in crawl.fetching
        if host is not None and crawl.model(host).is_down and not is_fetching:
            crawl.needed.add(host)
        scopes = tuple(map(self.scopes.get, names))
        item = Item(crawl, line, host, scopes, obeys=obeys, is_patient=is_patient)
        item.size = size
        for name in names:
            model = self.model(name)
            model.strangers += item.is_stranger
            model.pages += not item.is_stranger
        crawl.tickets.append(item)
        crawl.core.add(item, self.now)
        self.settle(crawl)

    @rule(
        number=crawls,
        line=crawls,
        origin=origins,
        slot=st.sampled_from(["", "", "", *NAMES]),
        kind=st.sampled_from(["obeys", "obeys", "obeys", "ignores delays", "exempt"]),
        size=st.integers(1, 4),
    )
    def push(
        self,
        *,
        number: int,
        line: int,
        origin: Origin,
        slot: str,
        kind: str,
        size: int,
    ) -> None:
        """A queue of a host gets requests."""
        crawl = self.crawls[number]
        names = origin.host
        if kind == "exempt":
            names = slot or names
        elif slot and slot != names:
            names += slot
        host = None if kind == "exempt" else origin
        obeys = kind == "obeys"
        self.add(crawl, crawl.lines[line], host, names, obeys=obeys, size=size)

    @rule(
        number=crawls,
        names=st.sampled_from(["a", "a", "b", "ab", "ca"]),
        obeys=st.booleans(),
        is_stranger=st.booleans(),
    )
    def send(self, number: int, names: str, obeys: bool, is_stranger: bool) -> None:
        """A request in the downloader needs places."""
        core = self.crawls[number].core
        line = core.strangers if is_stranger else core.direct
        obeys = obeys or is_stranger
        self.add(self.crawls[number], line, None, names, obeys=obeys)

    @rule(number=crawls, origin=origins, is_patient=st.booleans())
    def ask(self, number: int, origin: Origin, is_patient: bool) -> None:
        """A request in the downloader waits for robots.txt."""
        crawl = self.crawls[number]
        direct = crawl.core.direct
        self.add(crawl, direct, origin, "", obeys=True, is_patient=is_patient)

    @rule(number=crawls, line=crawls, times=st.integers(1, 5))
    def pop(self, number: int, line: int, times: int) -> None:
        crawl = self.crawls[number]
        for _ in range(times):
            if not self.pop_one(crawl, crawl.lines[line]):
                break

    def pop_one(self, crawl: Crawl, ready: Ready) -> bool:
        before = {name: self.model(name).in_flight for name in NAMES}
        was_ready = set(ready._by_slot)
        item = crawl.core.next(ready, self.now)
        if item is None:
            assert not len(ready)
            self.settle(crawl)
            return False
        assert isinstance(item, Item)
        assert not item.is_over
        if item.where is Where.REFUSED:
            assert self.is_refused(item), "A ticket is refused that need not be"
        else:
            assert item.where is Where.NOWHERE
            self.check_goes(item)
            self.take(item)
        self.check_fair(crawl, ready, item, before, was_ready)
        item.size -= 1
        if item.size:
            crawl.core.add(item, self.now)
        else:
            self.end_ticket(item)
        self.settle(crawl)
        return True

    def check_fair(
        self,
        crawl: Crawl,
        ready: Ready,
        item: Item,
        before: dict[str, int],
        was_ready: set[Scope],
    ) -> None:
        """The fewest requests in flight go first; no scope goes twice before one that has had as
        few in flight for as long. After a request that is refused, a scope may be ready again that
        was not free.
        """
        served = item.scopes[-1]
        is_refused = item.where is Where.REFUSED
        for scope in was_ready - {served}:
            if scope not in ready._by_slot:
                continue
            if is_refused and before[scope.key] < before[served.key]:
                continue
            assert before[scope.key] >= before[served.key], "Another has fewer"
            if before[scope.key] == before[served.key]:
                key = (ready, scope, served)
                crawl.passed[key] = crawl.passed.get(key, 0) + 1
                assert crawl.passed[key] <= 1, f"{served.key} goes before {scope.key}"

    def check_goes(self, item: Item) -> None:
        for scope in item.scopes:
            at = self.free_at(scope.key, item)
            assert at <= self.now, f"{item.scopes} is not free before {at}"
        if item.host is not None:
            assert item.crawl.model(item.host).is_open(self.now)

    def free_at(self, key: str, item: Item) -> float:
        return self.model(key).free_at(
            obeys=item.obeys,
            is_slot=key == item.scopes[-1].key,
            is_direct=item.line.is_direct,
            is_stranger=item.is_stranger,
        )

    def take(self, item: Item) -> None:
        for scope in item.scopes:
            self.model(scope.key).take(self.now, is_direct=item.line.is_direct)
            self.count_again(scope)
        item.crawl.in_flight.append(InFlight(item, self.now))

    def count_again(self, scope: Scope) -> None:
        for crawl in self.crawls:
            for key in [one for one in crawl.passed if one[1] is scope]:
                del crawl.passed[key]

    def end_ticket(self, item: Item) -> None:
        assert not item.is_over
        item.is_over = True
        if item.where is Where.READY:
            item.crawl.passed.clear()
        item.crawl.tickets.remove(item)
        for scope in item.scopes:
            self.model(scope.key).strangers -= item.is_stranger
            self.model(scope.key).pages -= not item.is_stranger
        item.crawl.core.end(item, self.now)

    @precondition(lambda self: any(each.tickets for each in self.crawls))
    @rule(number=which)
    def cancel(self, number: int) -> None:
        item = self.pick([one for each in self.crawls for one in each.tickets], number)
        self.end_ticket(item)
        self.settle(item.crawl)

    @precondition(lambda self: any(each.in_flight for each in self.crawls))
    @rule(number=which)
    def reach_the_downloader(self, number: int) -> None:
        self.send_one(self.pick(self.in_flight, number))

    @precondition(lambda self: any(each.in_flight for each in self.crawls))
    @rule(number=which, is_sent=st.sampled_from([True, True, False]))
    def leave(self, number: int, is_sent: bool) -> None:
        found = self.pick(self.in_flight, number)
        if is_sent:
            self.send_one(found)
        self.leave_one(found)

    @rule()
    def leave_all(self) -> None:
        for found in self.in_flight:
            self.send_one(found)
            self.leave_one(found)

    @property
    def in_flight(self) -> list[InFlight]:
        return [one for each in self.crawls for one in each.in_flight]

    def send_one(self, found: InFlight) -> None:
        if not found.is_sent:
            found.is_sent = True
            for scope in found.item.scopes:
                self.model(scope.key).unsent -= not found.item.line.is_direct
            found.item.crawl.core.sent(found.item)

    def leave_one(self, found: InFlight) -> None:
        item = found.item
        item.crawl.in_flight.remove(found)
        for scope in item.scopes:
            model, is_stranger = self.model(scope.key), item.is_stranger
            if not found.is_sent:
                model.unsent -= not item.line.is_direct
            model.leave(self.now, fetched=found.is_sent, is_stranger=is_stranger)
            self.count_again(scope)
        item.crawl.core.leave(item, self.now, fetched=found.is_sent)
        self.settle(item.crawl)

    def is_refused(self, item: Item) -> bool:
        models = [self.model(scope.key) for scope in item.scopes]
        is_too_long = any(each.is_too_long(self.now, WAIT_MAX) for each in models)
        if item.host is None:
            return is_too_long
        host = item.crawl.model(item.host)
        return is_too_long or host.is_refused or (host.is_down and not item.is_patient)

    def settle(self, crawl: Crawl) -> None:
        """Do what the cores have decided in an event of *crawl*."""
        for each in self.crawls:
            core = each.core
            is_left_alone = each is crawl or not (core.granted or core.refused)
            assert is_left_alone or each.is_woken, (
                "A crawl is not told of another's event"
            )
            each.is_woken = False
        # In the order in which they were granted: a place may be free until another one goes.
        while granted := [each for each in self.crawls if each.core.granted]:
            each = min(granted, key=lambda one: one.granted.first_number)
            item, _ = each.core.granted.popitem(last=False)
            assert isinstance(item, Item)
            if item.scopes:
                self.check_goes(item)
                self.take(item)
            else:
                assert item.host is not None
                assert each.model(item.host).is_open(self.now)
            self.end_ticket(item)
        for each in self.crawls:
            core = each.core
            while core.refused:
                item, _ = core.refused.popitem(last=False)
                assert isinstance(item, Item)
                assert not item.is_over, "A cancelled ticket is refused"
                assert self.is_refused(item), "A ticket is refused that need not be"
                assert item.where is Where.REFUSED
                assert item.line.is_direct
                self.end_ticket(item)
        for each in self.crawls:
            if each.core.wake_at() <= self.now:
                each.core.tick(self.now)
                assert each.core.wake_at() > self.now
                self.settle(each)
        # The end of a ticket may let one of a crawl go that was settled before it.
        if any(each.core.granted or each.core.refused for each in self.crawls):
            self.settle(crawl)

    # Hosts.

    @rule(number=crawls, is_needed=st.sampled_from([True, True, False]))
    def fetch(self, number: int, is_needed: bool) -> None:
        crawl = self.crawls[number]
        while (host := crawl.core.next_wanted(is_needed=is_needed)) is not None:
            assert host not in crawl.fetching, "Two fetches at once"
            assert self.now >= crawl.model(host).retry_at, "Asked sooner than it said"
            crawl.fetching.append(host)
            crawl.needed.discard(host)

    @precondition(lambda self: any(each.fetching for each in self.crawls))
    @rule(
        number=which,
        holds=st.sampled_from([5.0, 100.0, 1000.0, 1000.0]),
        retry=st.sampled_from([0.0, 0.0, 0.0, 10.0, 30.0, 150.0]),
        wait=st.sampled_from([0.0, WAIT_MAX, WAIT_MAX]),
        is_asked=st.booleans(),
    )
    def answer(
        self, number: int, holds: float, retry: float, wait: float, is_asked: bool
    ) -> None:
        found = [(each, host) for each in self.crawls for host in each.fetching]
        crawl, host = self.pick(found, number)
        crawl.fetching.remove(host)
        if retry:
            at = self.now + retry
            crawl.model(host).unreachable(self.now, at, wait, is_asked=is_asked)
            crawl.core.unreachable(host, self.now, at, wait=wait, is_asked=is_asked)
        else:
            self.keep_delay(crawl, host.origin)
            crawl.model(host).known(self.now + holds)
            crawl.core.known(host, self.now, self.now + holds)
        self.settle(crawl)

    @precondition(lambda self: any(each.fetching for each in self.crawls))
    @rule(number=which)
    def lose_fetch(self, number: int) -> None:
        """A fetch is cancelled, or fails in a component."""
        found = [(each, host) for each in self.crawls for host in each.fetching]
        crawl, host = self.pick(found, number)
        crawl.fetching.remove(host)
        crawl.core.unknown(host, self.now)
        self.settle(crawl)

    @rule(number=crawls, origin=origins, holds=st.sampled_from([5.0, 200.0]))
    def learn_elsewhere(self, number: int, origin: Origin, holds: float) -> None:
        self.crawls[number].cached[origin] = self.now + holds

    @rule(number=crawls, origin=origins)
    def stale(self, number: int, origin: Origin) -> None:
        crawl = self.crawls[number]
        host = crawl.core.hosts.get(origin)
        if host is not None and host.phase is Phase.OPEN:
            crawl.model(host).expires = -inf
            host.expires = -inf

    # Scopes.

    def keep_delay(self, crawl: Crawl, origin: Origin) -> None:
        if self.scopes.find(origin.host) is not None:
            self.change_delay(crawl, origin, self.delays[origin], ago=0)

    @rule(
        number=crawls,
        origin=origins,
        delay=st.sampled_from([0.0, 1.0, 2.5, 7.0]),
        ago=st.sampled_from([0.0, 2.0, 100.0, inf]),
    )
    def set_delay(self, number: int, origin: Origin, delay: float, ago: float) -> None:
        self.change_delay(self.crawls[number], origin, delay, ago)
        self.settle(self.crawls[number])

    def change_delay(
        self, crawl: Crawl, origin: Origin, delay: float, ago: float
    ) -> None:
        model = self.model(origin.host)
        scope = self.scopes.get(origin.host)
        since = self.now - ago
        if not delay:
            model.delays.pop((crawl, origin), None)
        else:
            if (crawl, origin) not in model.delays:
                begins = max(since, scope.answered_at)
                model.not_before = max(model.not_before, begins + delay)
            model.delays[crawl, origin] = delay
        crawl.core.set_delay(scope, origin, delay, self.now, since=since)

    @rule(name=st.sampled_from(NAMES), seconds=st.sampled_from([5.0, 50.0]))
    def close_for_visits(self, name: str, seconds: float) -> None:
        scope = self.scopes.find(name)
        if scope is not None:
            model = self.model(name)
            model.not_before = max(model.not_before, self.now + seconds)
            scope.hold(self.now + seconds, Hold.VISITING_HOURS)

    @precondition(lambda self: any(each.in_flight for each in self.crawls))
    @rule(
        number=which,
        asked=st.sampled_from([None, None, 1.0, 20.0, 150.0]),
        is_late=st.booleans(),
    )
    def back_off(self, number: int, asked: float | None, is_late: bool) -> None:
        """A host answers 429."""
        found = self.pick(self.in_flight, number)
        self.send_one(found)
        scope, crawl = found.item.scopes[0], found.item.crawl
        sent_at = found.since - 60 if is_late else found.since
        self.model(scope.key).back_off(self.now, asked, 8.0, sent_at)
        crawl.core.back_off(scope, self.now, delay=asked, cap=8.0, sent_at=sent_at)
        self.settle(crawl)
        self.leave_one(found)

    @precondition(lambda self: any(each.in_flight for each in self.crawls))
    @rule(number=which)
    def succeed(self, number: int) -> None:
        found = self.pick(self.in_flight, number)
        self.send_one(found)
        scope, crawl = found.item.scopes[0], found.item.crawl
        self.model(scope.key).succeeded(found.since)
        crawl.core.succeeded(scope, self.now, sent_at=found.since)
        self.settle(crawl)
        self.leave_one(found)

    @rule(name=st.sampled_from(NAMES), seconds=st.sampled_from([1.0, 30.0]))
    def slow_down(self, name: str, seconds: float) -> None:
        """A spider asks for a pause of any host."""
        self.model(name).back_off(self.now, seconds, 8.0, self.now)
        core = self.crawls[0].core
        scope = self.scopes.get(name)
        core.back_off(scope, self.now, delay=seconds, cap=8.0, sent_at=self.now)
        self.settle(self.crawls[0])

    # Crawls and time.

    @precondition(lambda self: len(self.crawls) == 2)
    @rule(number=crawls, dice=st.integers(0, 9))
    def close(self, number: int, dice: int) -> None:
        """A crawl ends, and another one begins."""
        if dice:
            return
        crawl = self.crawls[number]
        for item in list(crawl.tickets):
            self.end_ticket(item)
        for found in list(crawl.in_flight):
            self.leave_one(found)
        self.crawls[number] = Crawl(self)
        for model in self.models.values():
            for key in [one for one in model.delays if one[0] is crawl]:
                del model.delays[key]
        self.scopes.drop(crawl.core, self.now)
        self.settle(crawl)

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 2.5, 10.0, 61.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        for _ in range(1000):
            crawl = min(self.crawls, key=lambda each: each.core.wake_at())
            at = crawl.core.wake_at()
            if at > until:
                break
            self.now = at
            crawl.core.tick(self.now)
            self.settle(crawl)
        else:
            raise AssertionError("It wakes up for ever")
        self.now = until

    # Invariants.

    @invariant()
    def every_ticket_is_where_it_waits_for_something(self) -> None:
        parked: list[Ticket] = []
        for scope in self.scopes.all():
            parked += self.check_parked(scope)
        for crawl in self.crawls:
            self.check_tickets(crawl, parked)

    def check_parked(self, scope: Scope) -> list[Ticket]:
        """The first of each kind waits for something that comes by itself, and is announced."""
        found: list[Ticket] = []
        for lane in (scope.parked or {}).values():
            found += lane
            for item in list(lane)[:1]:
                assert isinstance(item, Item)
                if item.line.has(scope):
                    continue
                at = self.free_at(scope.key, item)
                assert at > self.now, f"It waits for {scope.key}, which is free"
                assert self.scopes.alarms.first() <= at, "It is not announced"
        return found

    def check_tickets(self, crawl: Crawl, parked: list[Ticket]) -> None:
        counts = {id(item): 0 for item in crawl.tickets}
        for item in parked:
            if id(item) in counts:
                counts[id(item)] += 1
        for item in crawl.tickets:
            host = item.host
            if item.where is Where.AT_HOST:
                assert host is not None
                assert [each for each in host.waiting if each is item] == [item]
                is_announced = host.is_wanted or host in crawl.fetching
                again = max(crawl.model(host).retry_at, self.now + 1)
                is_announced |= crawl.core.wake_at() <= again
                assert is_announced, "Nobody fetches its robots.txt"
                assert not host.is_wanted or crawl.core.has_wanted
            elif item.where is Where.AT_SCOPE:
                assert counts[id(item)] == 1
            else:
                assert item.where is Where.READY, f"{item.where}: it is lost"
                assert item.line in crawl.lines
        for host in crawl.needed & set(crawl.core.hosts.values()):
            model = crawl.model(host)
            if model.is_down and not host.is_wanted and host not in crawl.fetching:
                assert crawl.core.wake_at() <= model.retry_at

    @invariant()
    def what_is_not_used_is_forgotten(self) -> None:
        for name, model in list(self.models.items()):
            if model.is_forgotten(self.now):
                del self.models[name]
                assert self.scopes.find(name) is None

    def teardown(self) -> None:
        """Everything that waits goes in the end, and nothing is left."""
        for _ in range(2000):
            if not any(each.tickets or each.in_flight for each in self.crawls):
                break
            for crawl in self.crawls:
                self.fetch_all(crawl)
                for ready in crawl.lines:
                    while self.pop_one(crawl, ready):
                        pass
            self.leave_all()
            self.every_ticket_is_where_it_waits_for_something()
            at = min(each.core.wake_at() for each in self.crawls)
            if at < inf:
                self.pass_time(max(at - self.now, 0.0))
        left = [item for each in self.crawls for item in each.tickets]
        assert not left, f"{left} are never sent"
        self.pass_time(10_000)
        assert not len(self.scopes)

    def fetch_all(self, crawl: Crawl) -> None:
        while (host := crawl.core.next_wanted(is_needed=True)) is not None:
            crawl.fetching.append(host)
        while crawl.fetching:
            host = crawl.fetching.pop()
            crawl.model(host).known(inf)
            crawl.core.known(host, self.now, inf)
            self.settle(crawl)


def test_any_crawl() -> None:
    """Whatever happens in two crawls of one process: places, delays and pauses of every scope
    are kept, nothing is lost or refused without need, every wake-up is announced, and hosts take
    turns.
    """
    run_state_machine_as_test(
        CoreMachine,
        settings=settings(
            stateful_step_count=200 if effort.is_long else 50,
            suppress_health_check=list(HealthCheck),
        ),
    )
