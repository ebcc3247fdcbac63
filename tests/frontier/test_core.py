"""The state machine of the frontier: the phases of a host, scopes, back-off and order."""

from __future__ import annotations

from collections import deque
from math import inf
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.frontier.core import Core, Phase, Scopes, Ticket, Where
from scrapy_rep.protocol.origins import Origin

if TYPE_CHECKING:
    from scrapy_rep.frontier.core import Host, Line, Scope

pytestmark = pytest.mark.newest

A = Origin("http", "a.example", 80)
SECURE = Origin("https", "a.example", 443)
B = Origin("http", "b.example", 80)
WAIT_MAX = 600.0


class World:
    """A crawl with one line of queues and a clock. Each download slot has *places*."""

    def __init__(
        self,
        places: float = 8,
        wait_max: float = WAIT_MAX,
        scopes: Scopes | None = None,
    ) -> None:
        self.now = 0.0
        self.scopes = Scopes() if scopes is None else scopes
        self.known: dict[Origin, float] = {}
        self.wakes = 0
        self.places = places
        self.looks = 0
        """How often a download slot was looked at."""

        self.core = Core(
            self.scopes,
            slot=self._slot,
            wait_max=wait_max,
            look_up=self._look_up,
            changed=self._wake,
        )
        self.ready = self.core.ready()

    def _look_up(self, host: Host) -> None:
        expires = self.known.get(host.origin)
        if expires is not None:
            self.core.known(host, self.now, expires)

    def _slot(self, _: Scope) -> tuple[float, float]:
        self.looks += 1
        return self.places, -inf

    def _wake(self) -> None:
        self.wakes += 1

    @property
    def a(self) -> Scope:
        return self.scopes.get("a.example")

    def queue(
        self, origin: Origin | None = None, *names: str, obeys: bool = True
    ) -> Ticket:
        """Add a queue that waits for the robots.txt of *origin*."""
        host = None if origin is None else self.core.host(origin)
        return self.add(self.ready, host, *names, obeys=obeys)

    def direct(self, *names: str, obeys: bool = True) -> Ticket:
        """Add a request in the downloader that needs places."""
        return self.add(self.core.direct, None, *names, obeys=obeys)

    def asks(self, origin: Origin, *, is_patient: bool = True) -> Ticket:
        """Add a request in the downloader that waits for robots.txt of *origin*."""
        host = self.core.host(origin)
        ticket = Ticket(self.core.direct, host, (), is_patient=is_patient)
        self.core.add(ticket, self.now)
        return ticket

    def add(
        self, line: Line, host: Host | None, *names: str, obeys: bool = True
    ) -> Ticket:
        scopes = tuple(self.scopes.get(name) for name in names or ("a.example",))
        ticket = Ticket(line, host, scopes, obeys=obeys)
        self.core.add(ticket, self.now)
        return ticket

    def next(self) -> Ticket | None:
        return self.core.next(self.ready, self.now)

    def leave(self, ticket: Ticket) -> None:
        self.core.leave(ticket, self.now, fetched=True)

    def end(self, ticket: Ticket) -> None:
        self.core.end(ticket, self.now)

    def wanted(self, *, is_needed: bool = True) -> Host | None:
        return self.core.next_wanted(is_needed=is_needed)

    def learn(self, origin: Origin = A, holds: float = inf) -> None:
        """Have robots.txt of *origin* fetched, if it is wanted, and known."""
        while self.wanted() is not None:
            pass
        self.core.known(self.core.host(origin), self.now, self.now + holds)

    def fail(
        self,
        origin: Origin,
        retry: float,
        wait: float = 300.0,
        *,
        is_asked: bool = False,
    ) -> Host:
        """Fetch robots.txt of *origin*, which is wanted, and find it unreachable."""
        host = self.wanted()
        assert host is not None
        assert host.origin == origin
        retry_at = self.now + retry
        self.core.unreachable(host, self.now, retry_at, wait=wait, is_asked=is_asked)
        return host

    def delay(self, seconds: float, origin: Origin = A) -> None:
        since = self.now - seconds
        self.core.set_delay(self.a, origin, seconds, self.now, since=since)

    def pause(
        self, asked: float | None = None, *, cap: float = 60, sent: float
    ) -> bool:
        """Have a.example ask for a pause in its answer to a request sent at the time *sent*."""
        return self.core.back_off(self.a, self.now, delay=asked, cap=cap, sent_at=sent)

    def pass_time(self, seconds: float) -> None:
        """Let *seconds* pass, with each wake-up that is announced."""
        until = self.now + seconds
        while (at := self.core.wake_at()) <= until:
            self.now = max(at, self.now)
            self.core.tick(self.now)
        self.now = until

    def granted(self) -> list[Ticket]:
        found = list(self.core.granted)
        self.core.granted.clear()
        for ticket in found:
            self.end(ticket)
        return found

    def refused(self) -> list[Ticket]:
        found = list(self.core.refused)
        self.core.refused.clear()
        while (ticket := self.next()) is not None:
            assert ticket.where is Where.REFUSED
            found.append(ticket)
        return found


# The phases of a host.


def test_one_fetch_for_all_tickets_of_a_host() -> None:
    """UNKNOWN to WANTED to OPEN: the first ticket has robots.txt fetched, once; when it is known,
    all of them continue, in order.
    """
    world = World()
    tickets = [world.queue(A) for _ in range(3)]
    host = world.wanted()
    assert host is not None
    assert (host.origin, host.phase) == (A, Phase.WANTED)
    assert world.wanted() is None
    assert world.next() is None
    world.core.known(host, 0, inf)
    assert host.phase is Phase.OPEN
    assert [world.next() for _ in range(4)] == [*tickets, None]


def test_fetched_ahead_only_if_more_hosts_are_needed() -> None:
    """Hosts are fetched in order while more ready ones are needed. One that a request in the
    downloader waits for goes first, and in any case: such requests can fill the downloader.
    """
    world = World()
    world.queue(A)
    world.queue(B)
    assert world.wanted(is_needed=False) is None
    world.asks(B)
    urgent = world.wanted(is_needed=False)
    assert urgent is not None
    assert urgent.origin == B
    assert world.wanted(is_needed=False) is None
    other = world.wanted()
    assert other is not None
    assert other.origin == A
    assert world.wanted() is None


def test_rules_that_are_stale() -> None:
    """OPEN to UNKNOWN: a ticket that is ready when the rules expire waits for a new robots.txt,
    unless another crawl has fetched it meanwhile.
    """
    world = World()
    ticket = world.queue(A)
    world.learn(A, holds=10)
    world.pass_time(10)
    assert world.next() is None
    assert ticket.where is Where.AT_HOST
    world.learn(A, holds=10)
    world.core.host(A).expires = 0
    world.known[A] = 100
    assert world.next() is ticket


def test_down_and_back() -> None:
    """DOWN: tickets wait, robots.txt is fetched again when it is due, and then they go."""
    world = World()
    ticket = world.queue(A)
    host = world.fail(A, 100)
    assert host.phase is Phase.DOWN
    late = world.queue(A)
    world.pass_time(99.9)
    assert world.wanted() is None
    assert not world.refused()
    world.pass_time(0.1)
    assert world.wanted() is host
    world.core.known(host, world.now, inf)
    assert [world.next(), world.next()] == [ticket, late]


def test_down_for_too_long() -> None:
    """DOWN to REFUSED: robots.txt is fetched once more when the wait is over, earlier than planned;
    if that fails too, all tickets are refused.
    """
    world = World()
    tickets = [world.queue(A), world.queue(A)]
    world.fail(A, 200)
    world.pass_time(200)
    host = world.fail(A, 200)
    world.pass_time(99.9)
    assert world.wanted() is None
    world.pass_time(0.1)
    assert world.now == 300
    assert world.fail(A, 200) is host
    assert host.phase is Phase.REFUSED
    assert world.refused() == tickets
    world.core.add(tickets[0], world.now)
    assert world.refused() == tickets[:1]


@pytest.mark.parametrize(("wait", "is_asked"), [(0.0, False), (300.0, True)])
def test_refused_at_once(wait: float, is_asked: bool) -> None:
    """WANTED to REFUSED: tickets do not wait if they may not, or if the host itself asks for a
    longer time than they may: it is not asked earlier.
    """
    world = World()
    ticket = world.queue(A)
    host = world.fail(A, 301, wait=wait, is_asked=is_asked)
    assert world.refused() == [ticket]
    assert host.retry_at == 301


def test_requests_that_do_not_wait_for_an_unreachable_host() -> None:
    """While robots.txt is unreachable, some requests in the downloader are refused, and the others
    wait. One that comes when robots.txt is due has it fetched again, in any case.
    """
    world = World()
    patient, hasty = world.asks(A), world.asks(A, is_patient=False)
    host = world.fail(A, 100)
    late = world.asks(A, is_patient=False)
    assert world.refused() == [hasty, late]
    world.end(patient)
    world.pass_time(100)
    world.asks(A, is_patient=False)
    assert world.wanted(is_needed=False) is host


def test_a_fetch_without_a_result_is_repeated() -> None:
    """Requests that come while the fetch of their robots.txt is being cancelled, or fails with an
    error in a component, do not wait for ever, nor for other hosts: neither in the first fetch nor
    in one of a robots.txt that is unreachable.
    """
    world = World()
    ticket = world.asks(A)
    host = world.wanted(is_needed=False)
    assert host is not None
    world.core.unknown(host, world.now)
    world.pass_time(60)
    assert world.fail(A, 30) is host
    for seconds in (30, 60):
        world.pass_time(seconds)
        assert host.phase is Phase.DOWN
        assert world.wanted(is_needed=False) is host
        world.core.unknown(host, world.now)
    world.learn()
    assert world.granted() == [ticket]


def test_a_fetch_without_a_result_while_nothing_waits() -> None:
    """A request that comes after a fetch without a result has robots.txt fetched again, also if the
    host is down and nothing waited for it meanwhile.
    """
    world = World()
    first = world.queue(A)
    host = world.fail(A, 100)
    world.pass_time(100)
    assert world.wanted() is host
    world.end(first)
    world.core.unknown(host, world.now)
    world.queue(A)
    assert world.wanted() is host


def test_a_refused_host_that_is_back() -> None:
    """REFUSED: a ticket is refused at once. Only if one comes, robots.txt is fetched again, when
    that is due; if it is known then, tickets go.
    """
    world = World()
    world.end(world.queue(A))
    first = world.queue(A)
    host = world.fail(A, 100, wait=0)
    assert world.refused() == [first]
    world.end(first)
    world.pass_time(1000)
    assert world.wanted() is None
    second = world.queue(A)
    assert world.refused() == [second]
    assert world.fail(A, 100) is host
    third = world.queue(A)
    assert world.refused() == [third]
    world.pass_time(99.9)
    assert world.wanted() is None
    world.pass_time(0.1)
    assert world.wanted() is host
    world.core.known(host, world.now, inf)
    world.core.add(second, world.now)
    assert world.next() is second


def test_refused_hosts_that_are_forgotten() -> None:
    """Of refused hosts, 20,000 are remembered; the oldest are forgotten first."""
    world = World()
    for number in range(20_010):
        origin = Origin("http", str(number), 80)
        ticket = world.queue(origin, str(number))
        world.fail(origin, 1000, wait=0)
        world.refused()
        world.end(ticket)
    assert len(world.core.hosts) == 20_000
    assert Origin("http", "9", 80) not in world.core.hosts
    assert Origin("http", "10", 80) in world.core.hosts


# Places and delays.


@pytest.mark.parametrize(("ago", "expected"), [(0, 5), (3, 2), (6, 0)])
def test_a_delay_counts_from_the_fetch_of_robotstxt(
    ago: float, expected: float
) -> None:
    """The first page waits for what is left of the delay since robots.txt was fetched."""
    world = World()
    world.core.set_delay(world.a, A, 5, 0, since=-ago)
    world.core.set_delay(world.a, A, 5, 0, since=0)
    world.queue()
    assert (world.next() is None) == bool(expected)
    world.pass_time(expected)
    assert expected == 0 or world.next() is not None


def test_a_delay_counts_from_the_last_answer() -> None:
    """If the host has answered a request since robots.txt was fetched, the next one waits for the
    whole delay after that answer.
    """
    world = World()
    world.queue()
    world.queue()
    first = world.next()
    world.pass_time(10)
    world.leave(first)
    world.core.set_delay(world.a, A, 5, world.now, since=0)
    assert world.next() is None
    world.pass_time(5)
    assert world.next() is not None


def test_a_delay_that_is_taken_back() -> None:
    """When a host drops its delay, its requests go in parallel."""
    world = World()
    world.delay(5)
    for _ in range(3):
        world.queue()
    assert world.next() is not None
    world.delay(0)
    assert [world.next() is None for _ in range(3)] == [False, False, True]


def test_a_request_needs_a_place_of_its_host_and_of_its_slot() -> None:
    """A request in a custom download slot keeps to the delay of its host, and to the places of
    the slot. Other hosts in that slot keep their own delays.
    """
    world = World(places=2)
    world.delay(5)
    first, same = (world.queue(None, "a.example", "slot") for _ in range(2))
    other, full = (world.queue(None, "b.example", "slot") for _ in range(2))
    assert [world.next() for _ in range(3)] == [first, other, None]
    world.leave(other)
    assert [world.next(), world.next()] == [full, None]
    world.leave(full)
    world.leave(first)
    world.pass_time(5)
    assert world.next() is same


def test_a_host_in_many_slots_is_looked_at_once() -> None:
    """A delay of a host whose requests are spread over many download slots costs the same for
    each request, however many slots there are.
    """
    world, count, sent = World(), 500, 0
    world.delay(1)
    for number in range(count):
        world.queue(None, "a.example", f"slot {number}")
    while sent < count:
        while (ticket := world.next()) is not None:
            sent += 1
            world.leave(ticket)
            world.end(ticket)
        world.pass_time(1)
    assert world.looks < 10 * count


def test_requests_in_the_downloader_go_first() -> None:
    """At a host with a delay, requests that are in the downloader already go before the queue, in
    order of arrival: they take places there.
    """
    world = World()
    world.delay(1)
    busy = world.queue()
    assert world.next() is busy
    world.core.add(busy, 0)
    waiting = [world.direct() for _ in range(3)]
    world.end(waiting[1])
    world.leave(busy)
    for ticket in (waiting[0], waiting[2]):
        world.pass_time(1)
        assert world.granted() == [ticket]
        assert world.next() is None
        world.leave(ticket)
    world.pass_time(1)
    assert world.next() is busy


def test_a_request_that_a_component_holds_back() -> None:
    """While a request from a queue has not reached the downloader, its place of the slot is free
    for one that is there already: a component may hold the first one back until it has the second.
    """
    world = World(places=1)
    held = world.queue()
    assert world.next() is held
    waited_for = world.direct()
    assert world.granted() == [waited_for]
    world.core.leave(waited_for, world.now, fetched=False)
    world.core.sent(held)
    assert world.direct().where is Where.AT_SCOPE


def test_what_has_held_up_the_crawl() -> None:
    """A host holds up the crawl while requests wait for it and none is in flight. The hosts that
    did so least are forgotten.
    """
    world = World()
    world.delay(10)
    ticket = world.queue()
    for _ in range(2):
        assert world.next() is ticket
        world.core.add(ticket, world.now)
        world.pass_time(3)
        world.leave(ticket)
        world.pass_time(10)
    assert world.next() is ticket
    (found,) = world.core.held_up()
    assert (found.key, found.requests, found.delay) == ("a.example", 3, 10)
    assert found.seconds == 20
    world.leave(ticket)
    for number in range(3000):
        scope = world.scopes.get(str(number))
        world.core.set_delay(scope, B, 1, world.now, since=-inf)
        world.queue(None, str(number))
        world.next()
    assert len(world.core.held_up()) <= 1000
    assert world.core.held_up()[0] == found


# Back-off.


def test_a_burst_is_one_pause() -> None:
    """Requests in flight that all answer 429 are one pause, not one for each."""
    world = World()
    assert world.pause(sent=0)
    world.now = 0.5
    for _ in range(5):
        assert not world.pause(sent=0)
    world.pass_time(0.9)
    assert world.direct().where is Where.AT_SCOPE
    world.pass_time(0.2)
    assert len(world.granted()) == 1


@pytest.mark.parametrize(
    ("delay", "expected"), [(0, [1, 2, 4, 8, 8]), (3, [3, 3, 4, 8, 8])]
)
def test_longer_from_pause_to_pause(delay: float, expected: list[float]) -> None:
    """Without a Retry-After, each pause is twice as long as the last, up to REP_BACKOFF_MAX, and
    none is shorter than the site's own delay.
    """
    world = World()
    if delay:
        world.delay(delay)
    pauses = []
    for _ in expected:
        began = world.now
        assert world.pause(cap=8, sent=began)
        world.direct()
        while not world.core.granted:
            world.pass_time(world.core.wake_at() - world.now)
        pauses.append(world.now - began)
        (probe,) = world.granted()
        world.core.leave(probe, world.now, fetched=False)
    assert pauses == expected


def test_as_long_as_the_host_says() -> None:
    """A pause is as long as Retry-After says, also beyond REP_BACKOFF_MAX; a shorter one does not
    end it.
    """
    world = World()
    world.pause(100, cap=60, sent=0)
    world.pause(5, cap=60, sent=0)
    waiting = [world.direct(obeys=False)]
    world.pass_time(99.9)
    assert not world.core.granted
    world.pass_time(0.1)
    assert world.granted() == waiting


def test_a_slow_start_after_a_pause() -> None:
    """After a pause one request is in flight, and one more after each success, up to the places of
    the slot. Answers to requests from before the pause do not count.
    """
    world = World(places=3)
    world.pause(10, sent=0)
    for _ in range(6):
        world.queue()
    world.pass_time(10)
    in_flight = []
    for expected in (1, 2, 3):
        while (ticket := world.next()) is not None:
            in_flight.append(ticket)
        assert len(in_flight) == expected
        world.core.succeeded(world.a, world.now, sent_at=0)
        assert world.next() is None
        world.core.succeeded(world.a, world.now, sent_at=world.now)
        world.leave(in_flight.pop())
    assert world.a.back_off is None


def test_each_pause_has_its_slow_start() -> None:
    """After a second pause, one request is in flight, however many were before it."""
    world = World(places=4)
    world.pause(10, sent=0)
    world.pass_time(10)
    for _ in range(2):
        world.core.succeeded(world.a, world.now, sent_at=world.now)
    for _ in range(5):
        world.queue()
    in_flight = [world.next() for _ in range(3)]
    assert None not in in_flight
    world.pause(10, sent=world.now)
    world.pass_time(10)
    for ticket in in_flight:
        world.leave(ticket)
    assert world.next() is not None
    assert world.next() is None


def test_the_first_pause_is_short_again_after_a_success() -> None:
    """After a success, the next pause that the crawl chooses is the shortest one again."""
    world = World()
    for _ in range(4):
        world.pause(sent=world.now)
        world.pass_time(8)
    world.core.succeeded(world.a, world.now, sent_at=world.now)
    began = world.now
    world.pause(sent=began)
    assert world.a.back_off is not None
    assert world.a.back_off.until == began + 1


def test_a_pause_that_is_too_long() -> None:
    """If a host asks for a pause longer than REP_WAIT_MAX, its requests are refused, waiting ones
    and new ones; after the pause they go.
    """
    world = World()
    world.pause(10, sent=0)
    waiting, ready = world.direct(), world.queue()
    world.pause(WAIT_MAX + 1, sent=0)
    new = world.queue()
    assert set(world.refused()) == {waiting, ready, new}
    world.pass_time(WAIT_MAX + 1)
    world.core.add(new, world.now)
    assert world.next() is new


def test_a_host_that_answers_429_for_ever() -> None:
    """A host that has answered nothing else for REP_WAIT_MAX has its requests refused, except one
    at the end of each pause, which finds out whether it is back. Then they go again, and the time
    counts from the next pause.
    """
    world = World()
    first = world.queue()
    while world.now < WAIT_MAX:
        probe = world.next()
        assert probe is first
        world.pause(sent=world.now)
        world.leave(probe)
        world.core.add(probe, world.now)
        assert not world.refused()
        world.pass_time(64)
    probe = world.next()
    assert probe is first
    other = world.queue()
    assert world.refused() == [other]
    world.pause(sent=world.now)
    world.leave(probe)
    world.core.add(probe, world.now)
    assert world.refused() == [probe]
    world.pass_time(64)
    world.core.add(other, world.now)
    assert world.next() is other
    world.core.succeeded(world.a, world.now, sent_at=world.now)
    world.core.add(first, world.now)
    assert world.next() is first
    world.pause(sent=world.now)
    world.leave(first)
    world.core.add(first, world.now)
    assert not world.refused()


def test_a_first_request_after_a_pause_that_is_not_sent() -> None:
    """If the request that was to find out whether a host is back is not sent, the next one of its
    host and slot is, and is not refused.
    """
    world = World()
    world.delay(1)
    slot = world.scopes.get("slot")
    world.core.back_off(slot, 0, delay=WAIT_MAX, cap=60, sent_at=0)
    probe = world.queue(None, "a.example", "slot")
    world.pass_time(WAIT_MAX)
    assert world.next() is probe
    other = world.queue(None, "a.example", "slot")
    assert world.next() is None
    world.core.leave(probe, world.now, fetched=False)
    assert not world.core.refused
    assert world.next() is other


def test_a_pause_is_remembered_for_a_while() -> None:
    """For ten minutes after a pause, a host without requests keeps its slow start; then it is
    forgotten.
    """
    world = World()
    world.end(world.queue())
    world.pause(10, sent=0)
    world.pass_time(609)
    assert world.a.back_off is not None
    world.pass_time(1)
    assert not len(world.scopes)


# Tickets that are cancelled.


def test_a_ready_queue_that_is_closed_is_not_returned() -> None:
    """A queue that is closed while it is ready is not returned; the next one of its slot is."""
    world = World()
    closed, other = world.queue(), world.queue(None, "b.example", "a.example")
    world.end(closed)
    assert world.next() is other
    assert world.next() is None


def test_a_cancelled_request_is_not_refused() -> None:
    """A request that was cancelled while it waited is not refused when its host asks for too
    long a pause.
    """
    world = World()
    world.pause(10, sent=0)
    cancelled, waiting = world.direct(), world.direct()
    world.end(cancelled)
    world.pause(WAIT_MAX + 1, sent=0)
    assert world.refused() == [waiting]


@pytest.mark.parametrize("seconds", [10, WAIT_MAX + 1])
def test_cancelled_before_its_crawl_has_seen_the_answer(seconds: float) -> None:
    """A request that is cancelled after another crawl let it go, or had it refused, is neither
    sent nor refused, and keeps no place.
    """
    first = World(places=1)
    second = World(places=1, scopes=first.scopes)
    first.pause(10, sent=0)
    waiting = second.direct()
    if seconds > WAIT_MAX:
        first.pause(seconds, sent=0)
        assert list(second.core.refused) == [waiting]
    else:
        first.pass_time(seconds)
        assert list(second.core.granted) == [waiting]
    second.end(waiting)
    assert not second.core.granted
    assert not second.core.refused
    assert not first.a.in_flight
    assert not first.a.tickets


def test_a_fetch_that_nothing_waits_for_any_more() -> None:
    """If the last request that waits for a robots.txt is cancelled while it is fetched, the next
    request to the host needs a new fetch: the old one may be cancelled at any moment.
    """
    world = World()
    first = world.asks(A)
    host = world.wanted()
    assert host is not None
    world.end(first)
    second = world.asks(A)
    fresh = world.wanted()
    assert fresh is not None
    world.core.unknown(host, 0)
    world.core.known(fresh, 0, inf)
    assert world.granted() == [second]
    assert not world.core.hosts


# What holds a host back.


def test_a_long_delay_holds_up_only_those_that_keep_to_it() -> None:
    """Behind a queue that waits for the delay, one that obeys no delay goes as soon as its slot
    has a place.
    """
    world = World(places=1)
    world.delay(30)
    first = world.queue()
    assert world.next() is first
    world.core.add(first, world.now)
    exempt = world.queue(obeys=False)
    assert world.next() is None
    world.leave(first)
    assert world.next() is exempt


def test_the_pages_of_a_host_go_before_robotstxt_of_other_hosts() -> None:
    """While pages wait at a host with a delay, one of four requests at most is for the robots.txt
    that another host redirects there, also if they come one at a time; without pages, each is.
    """
    world = World()
    world.delay(1)
    page, went = world.queue(), ""
    world.add(world.core.strangers, None)
    for number in range(44):
        if number == 40:
            world.end(page)
        for ticket in world.granted() or [world.next()]:
            assert ticket is not None
            world.leave(ticket)
            if ticket is page:
                went += "P"
                world.core.add(page, world.now)
            else:
                went += "S"
                world.add(world.core.strangers, None)
        world.pass_time(1)
    assert went[:40].count("S") == 10
    assert "SS" not in went[:40]
    assert went[40:] == "SSSS"


def test_a_retry_that_was_planned_before_the_host_was_back() -> None:
    """A host that is down a second time is not asked at the time that it named the first time."""
    world = World()
    world.queue(A)
    host = world.fail(A, 100, wait=0)
    world.queue(A)
    world.refused()
    world.pass_time(50)
    world.core.known(host, world.now, 51)
    world.pass_time(10)
    world.queue(A)
    world.fail(A, 100)
    world.pass_time(99)
    assert world.wanted() is None
    world.pass_time(1)
    assert world.wanted() is host


# Order.


def test_the_fewest_in_flight_first_and_then_in_turn() -> None:
    """The download slot with the fewest requests in flight goes first; of equals, the one that has
    waited longest. The queues of one slot take turns.
    """
    world = World()
    a1, b1, a2, b2 = (world.queue(None, name) for name in "abab")
    assert [world.next(), world.next()] == [a1, b1]
    world.add(world.core.direct, None, "a")
    world.core.add(a1, 0)
    assert len(world.ready) == 3
    assert world.ready.first() is b2
    assert [world.next() for _ in range(4)] == [b2, a2, a1, None]


def test_crawls_take_turns() -> None:
    """Of several crawls that wait for one host with a delay, the one that went last is told
    last that it may go.
    """
    first = World()
    worlds = [first, *(World(scopes=first.scopes) for _ in range(2))]
    first.delay(1)
    told: list[World] = []
    for world in worlds:
        world.core.changed = lambda world=world: told.append(world)
        world.queue()
    went = []
    for now in range(9):
        told = told or worlds.copy()
        for world in worlds:
            world.now = now
        order, told = told, []
        for world in order:
            ticket = world.next()
            if ticket is not None:
                went.append(worlds.index(world))
                world.core.add(ticket, now)
                taken = world, ticket
        taken[0].leave(taken[1])
        first.now = now
        first.core.tick(now + 1)
    assert went == [0, 1, 2] * 3


# What is remembered.


def test_a_crawl_that_ends_takes_its_delays_with_it() -> None:
    """When a crawl ends, the others keep to its delays no longer, and are told."""
    first = World()
    second = World(scopes=first.scopes)
    first.delay(5)
    took = second.queue()
    assert second.next() is took
    second.queue()
    assert second.next() is None
    wakes = second.wakes
    first.scopes.drop(first.core, first.now)
    assert second.wakes > wakes
    assert second.next() is not None


def test_a_scope_that_no_request_comes_to_is_forgotten() -> None:
    """A pause, or a delay, of a host to which no request comes takes no memory for ever."""
    world = World()
    world.pause(10, sent=0)
    world.core.set_delay(world.scopes.get("b.example"), B, 5, 0, since=0)
    world.pass_time(10_000)
    assert not len(world.scopes)


def test_the_cost_does_not_grow_with_the_hosts() -> None:
    """A page costs about as much with 10,000 hosts as with 200."""
    few, many = seconds_for_pages(200), seconds_for_pages(10_000)
    assert many < 5 * few + 0.1


def seconds_for_pages(hosts: int, pages: int = 2_000) -> float:
    world = World()
    for number in range(hosts):
        origin = Origin("http", str(number), 80)
        world.known[origin] = inf
        world.queue(origin, str(number))
    in_flight: deque[Ticket] = deque()
    began = process_time()
    for _ in range(pages):
        ticket = world.next()
        assert ticket is not None
        world.core.add(ticket, 0)
        in_flight.append(ticket)
        if len(in_flight) > 16:
            world.leave(in_flight.popleft())
    return process_time() - began
