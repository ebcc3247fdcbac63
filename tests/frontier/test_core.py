"""When a request may go: the rules of hosts, delays and pauses, by example.

``test_core_machine.py`` proves them for any order of events.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.frontier.core import (
    Core,
    Decided,
    Paused,
    Probe,
    Ticket,
    Wake,
    Where,
)
from scrapy_rep.crawl.frontier.network import NetworkBack, NetworkGone
from scrapy_rep.protocol.origins import Origin

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.core import Host, Ready, Said

pytestmark = pytest.mark.newest

WAIT_MAX = 600.0


class World:
    """A crawl, with two places in each download slot at first. The methods are the events of a case.
    Tickets have numbers, hosts have letters.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.in_slot = 2
        self.core = Core(WAIT_MAX)
        self.queues = self.core.ready()
        self.tickets: dict[str, Ticket] = {}
        self.heard: list[str] = []

    def play(self, events: str) -> None:
        """Have each of the *events* happen. ``event -> answer`` has what it returns, or what the
        core says then; nothing is ``-``, or left out.
        """
        for event in filter(
            None, map(str.strip, events.replace(";", "\n").split("\n"))
        ):
            call, _, expected = event.partition(" -> ")
            verb, *words = call.split()
            found = getattr(self, verb)(*words)
            self.hear()
            answer = ", ".join([*filter(None, [found]), *self.heard]) or "-"
            self.heard.clear()
            assert answer == (expected or "-"), event

    def hear(self) -> None:
        """Note what the core says."""
        for said in self.core.drain():
            self.hear_one(said)

    def hear_one(self, said: Said) -> None:
        match said:
            case Decided(ticket, is_granted):
                verb = "grants" if is_granted else "refuses"
                self.heard.append(f"{verb} {self.name(ticket)}")
            case Probe(host):
                self.heard.append(f"probes {host} at {self.now:g}")
                self.robots(host, host)
            case NetworkGone(is_certain):
                self.heard.append(f"gone{' for certain' if is_certain else ''}")
            case NetworkBack(since, until, _):
                self.heard.append(f"back after {until - since:g}")
            case Wake() | Paused(_):
                pass

    def host_of(self, name: str) -> Host:
        return self.core.host(Origin("http", name, 80))

    def name(self, ticket: Ticket) -> str:
        return next(name for name, each in self.tickets.items() if each is ticket)

    def add(
        self,
        name: str,
        host: Host | None,
        *scopes: str,
        kind: type[Ticket] = Ticket,
        ready: Ready | None = None,
    ) -> None:
        places = tuple(map(self.core.scope, scopes))
        for scope in places:
            scope.places = self.in_slot
        self.tickets[name] = kind(host, places, ready=ready)
        self.again(name)

    # Tickets.

    def queue(self, name: str, host: str) -> None:
        """A queue waits for the robots.txt of *host*."""
        self.add(name, self.host_of(host), host, kind=Queue, ready=self.queues)

    def page(self, name: str, *scopes: str) -> None:
        """A queue whose robots.txt is known has a request to a host, in a download slot."""
        self.add(name, None, *scopes, kind=Queue, ready=self.queues)

    def file(self, name: str, *scopes: str) -> None:
        """The same for a request in the downloader, such as that of a media pipeline."""
        self.add(name, None, *scopes)

    def returns(self, name: str, *scopes: str) -> None:
        """A request that came from a queue needs places again, after its robots.txt."""
        self.add(name, None, *scopes, kind=Returned)

    def robots(self, name: str, host: str) -> None:
        """The robots.txt of *host* is to be sent."""
        self.add(name, None, host, kind=RobotsTxt)

    def asks(self, name: str, host: str) -> None:
        """A request in the downloader waits for the robots.txt of *host*."""
        self.add(name, self.host_of(host))

    def redirected(self, name: str, host: str) -> None:
        """The robots.txt of another host, which has redirected it to *host*."""
        self.add(name, None, host, kind=Redirected)

    def again(self, name: str) -> None:
        """The queue has another request."""
        self.core.add(self.tickets[name], self.now)

    def end(self, name: str) -> None:
        self.core.end(self.tickets[name], self.now)

    def next(self) -> str:
        """Return the ticket that the scheduler pops."""
        while (found := self.queues.first()) is not None and self.core.network.is_up:
            if self.core.go(found, self.now):
                is_refused = found.where is Where.REFUSED
                return ("refused " if is_refused else "") + self.name(found)
        return ""

    def sent(self, name: str) -> None:
        """A request of the ticket has passed all components."""
        self.core.sent(self.tickets[name])

    def free(self, name: str) -> None:
        """A request of the ticket has its answer."""
        self.core.free(self.tickets[name], self.now, sent=True)

    def give_back(self, name: str) -> None:
        """A request of the ticket is not sent after all: it waits for its robots.txt first."""
        self.core.free(self.tickets[name], self.now, sent=False)

    # Hosts.

    def fetch(self, *urgent: str) -> str:
        """Return the host whose robots.txt is to be fetched; with ``urgent``, while enough hosts
        are ready.
        """
        host = self.core.next_wanted(is_needed=not urgent)
        return "" if host is None else host.origin.host

    def known(self, host: str, holds: str = "inf") -> None:
        self.core.end_fetch(self.host_of(host))
        self.core.known(self.host_of(host), self.now, self.now + float(holds))

    def told(self, host: str, holds: str) -> None:
        """Its rules are known from elsewhere, perhaps while they are fetched."""
        self.core.known(self.host_of(host), self.now, self.now + float(holds))

    def down(self, host: str, retry: str, wait: str = "300") -> None:
        at = self.now + float(retry)
        found, wait_for = self.host_of(host), float(wait)
        self.core.end_fetch(found)
        self.core.unreachable(found, self.now, at, wait=wait_for, is_asked=False)

    def lose(self, host: str) -> None:
        """The fetch is cancelled, or fails in a component."""
        self.core.end_fetch(self.host_of(host))
        self.core.unknown(self.host_of(host), self.now)

    # What a person sees.

    def core_is(self) -> str:
        return repr(self.core)

    def host(self, name: str) -> str:
        return repr(self.host_of(name))

    def scope(self, name: str) -> str:
        return repr(self.core.scope(name))

    # Scopes and time.

    def delay(self, host: str, seconds: str, ago: str = "inf") -> None:
        """The robots.txt of *host*, fetched *ago* seconds ago, asks for a delay."""
        scope, origin = self.core.scope(host), Origin("http", host, 80)
        since = self.now - float(ago)
        self.core.set_delay(scope, origin, float(seconds), self.now, since=since)

    def pause(self, host: str, seconds: str = "-", sent: str = "inf") -> None:
        """The host answers 429, perhaps with a Retry-After, to what was *sent* at this time."""
        scope, delay = self.core.scope(host), float(seconds) if seconds > "-" else None
        at, now = min(float(sent), self.now), self.now
        self.core.back_off(scope, now, delay=delay, cap=8, sent_at=at)

    def warned(self, host: str, until: str, since: str) -> None:
        """Another worker says until when *host* wants a pause, and since when it does nothing else."""
        at, began = float(until), float(since)
        scope = self.core.scope(host)
        self.core.paused_elsewhere(scope, self.now, until=at, own=0, since=began)

    def places(self, number: str) -> None:
        self.in_slot = int(number)

    def succeed(self, host: str) -> None:
        scope = self.core.scope(host)
        self.core.succeeded(scope, self.now, sent_at=self.now)

    def wait(self, seconds: str) -> None:
        """Let time pass, with each wake-up that is announced."""
        until = self.now + float(seconds)
        while (at := self.core.wake_at()) <= until:
            self.now = max(at, self.now)
            self.core.tick(self.now)
            self.hear()
        self.now = until

    def until_granted(self) -> str:
        """Let time pass until a request in the downloader may go. Return the seconds."""
        began = self.now
        while not self.heard:
            self.wait(str(self.core.wake_at() - self.now))
        return f"{self.now - began:g}"

    # The network of the crawler itself.

    def fail(self, host: str, also: str = "") -> None:
        """A request to *host* fails at the level of the network, and to those up to *also*."""
        for each in range(ord(host), ord(also or host) + 1):
            self.core.failed(chr(each), chr(each), self.now)

    def answer(self, host: str) -> None:
        """A host answers, with anything."""
        self.core.answered(host, host, self.now)

    def exhaust(self) -> None:
        """The machine has no more files."""
        self.core.network.exhausted(self.now)

    def probed(self, host: str) -> None:
        """The probe of *host* fails."""
        self.sent(host)
        self.free(host)

    def network(self) -> str:
        return "up" if self.core.network.gone_since is None else "gone"


class Queue(Ticket):
    """A queue of a host."""

    is_direct = False


class Returned(Ticket):
    """A request in the downloader that came from a queue."""

    is_from_queue = True


class RobotsTxt(Ticket):
    """One request for a robots.txt."""

    is_for_robotstxt = True


class Redirected(RobotsTxt):
    """That of another host."""

    is_redirected = True


CASES = {
    "one fetch of robots.txt for all requests": """
        queue 1 a; queue 2 a
        host a -> <Host http://a: WANTED, is wanted, 2 of 2 tickets wait>
        fetch -> a; fetch -> -; next -> -
        known a; host a -> <Host http://a: OPEN, 0 of 2 tickets wait>
        next -> 1; next -> 2; next -> -
    """,
    "hosts in order, and first those that a request in the downloader waits for": """
        queue 1 a; queue 2 b; queue 3 c; fetch urgent -> -
        asks 4 b; fetch urgent -> b; fetch urgent -> -
        fetch -> a; fetch -> c; fetch -> -
    """,
    "a robots.txt that is stale when its request is ready": """
        queue 1 a; fetch -> a; known a 10; wait 10
        next -> -; fetch -> a; known a; next -> 1
    """,
    "an unreachable robots.txt: fetched again, and then its requests go": """
        queue 1 a; fetch -> a; down a 100
        host a -> <Host http://a: DOWN, again at 100, 1 of 1 tickets wait>
        queue 2 a; wait 99.9; fetch -> -; next -> -
        wait 0.1; fetch -> a; known a; next -> 1; next -> 2
    """,
    "unreachable for REP_WAIT_TIMEOUT: fetched once more, and then its requests are refused": """
        queue 1 a; fetch -> a; down a 200; wait 200; fetch -> a; down a 200
        wait 99.9; fetch -> -; wait 0.1; fetch -> a; down a 200
        host a -> <Host http://a: REFUSED, again at 500, 0 of 1 tickets wait>
        next -> refused 1; queue 2 a; next -> refused 2
    """,
    "a host that seemed to have no server, and then is unreachable: its requests wait on": """
        queue 1 a; fetch -> a; down a 9 10; wait 9; fetch -> a; down a 100
        host a -> <Host http://a: DOWN, again at 109, 1 of 1 tickets wait>
        wait 100; fetch -> a; known a; next -> 1
    """,
    "a refused host: fetched again if a request comes when that is due": """
        queue 1 a; fetch -> a; down a 100 0; next -> refused 1
        end 1; wait 1000; fetch -> -
        queue 2 a; next -> refused 2; fetch -> a; known a; again 2; next -> 2
    """,
    "one fetch at once, also if its host is known from elsewhere meanwhile": """
        queue 1 a; fetch -> a; down a 1 0; next -> refused 1; wait 1
        again 1; next -> refused 1; fetch -> a; told a 10; wait 10
        again 1; fetch -> -; known a; next -> 1
    """,
    "a fetch without a result is repeated while a request waits": """
        asks 1 a; fetch urgent -> a; lose a; fetch -> -
        wait 1; fetch urgent -> a; known a -> grants 1
    """,
    "the first page waits for what is left of the delay since robots.txt came": """
        delay a 5 3; page 1 a; next -> -; wait 1.9; next -> -; wait 0.1; next -> 1
    """,
    "a delay counts from the last answer": """
        page 1 a; page 2 a; next -> 1; wait 10; free 1
        delay a 5; next -> -; wait 4.9; next -> -; wait 0.1; next -> 2
    """,
    "a request needs a place of its host and of its download slot": """
        delay a 5; page 1 a s; page 2 a s; page 3 b s; page 4 b s
        next -> 1; next -> 3; next -> -
        scope a -> <Scope a: 1 in flight, delay 5, 1 of 2 tickets wait>
        core_is -> <Core: 3 scopes, 4 places taken, 2 requests wait, 0 queues ready>
        free 3; next -> 4; free 1; free 4; next -> -; wait 5; next -> 2
    """,
    "a delay is remembered while its only request waits for robots.txt": """
        delay a 5; page 1 a; next -> 1; end 1; give_back 1; robots 2 a -> grants 2
        sent 2; free 2; redirected 3 a; wait 4.9; wait 0.1 -> grants 3
    """,
    "a delay that is taken back: requests go in parallel": """
        delay a 5; page 1 a; page 2 a; next -> 1; next -> -; delay a 0; next -> 2
    """,
    "a request that a component holds back leaves its place to one in the downloader": """
        places 1; page 1 a; next -> 1; file 2 a -> grants 2; free 2
        sent 1; file 3 a
    """,
    "one of four requests to a slow host is for the robots.txt of another, at most": """
        delay a 1; page 1 a; redirected 2 a -> grants 2; free 2; end 2
        redirected 3 a; wait 1; next -> 1; again 1; sent 1; free 1
        wait 2.9; wait 0.1 -> grants 3; free 3; end 3
        end 1; redirected 4 a; wait 1 -> grants 4
    """,
    "requests in the downloader go before the queue, in order": """
        delay a 1; page 1 a; next -> 1; again 1; file 2 a; file 3 a; free 1
        wait 1 -> grants 2; next -> -; free 2; wait 1 -> grants 3
        next -> -; free 3; wait 1; next -> 1
    """,
    "a file passes a page that was not sent yet, and may wait for it; another page does not": """
        places 1; page 1 a; next -> 1; returns 2 a; file 3 a -> grants 3
        sent 1; free 1; free 3 -> grants 2
    """,
    "the download slot with the fewest requests in flight, and of equals in turn": """
        page 1 a; page 2 b; page 3 a; page 4 b; file 5 c -> grants 5; page 6 c
        next -> 1; next -> 2; next -> 6; next -> 3; next -> 4; next -> -
    """,
    "many 429 at once are one pause": """
        pause a; wait 0.5; pause a - 0; pause a - 0; file 1 a; until_granted -> 1, grants 1
    """,
    "a pause without Retry-After is twice as long as the last, up to REP_BACKOFF_MAX": """
        pause a; file 1 a; until_granted -> 1, grants 1; pause a; free 1
        file 2 a; until_granted -> 2, grants 2; pause a; free 2
        file 3 a; until_granted -> 4, grants 3; pause a; free 3
        file 4 a; until_granted -> 8, grants 4; pause a; free 4
        file 5 a; until_granted -> 8, grants 5; places 3; succeed a; free 5
        pause a; file 6 a; until_granted -> 1, grants 6
    """,
    "a pause is as long as Retry-After says, and no shorter than the delay": """
        pause a 100; pause a 5; file 1 a; until_granted -> 100, grants 1
        delay b 3; pause b; file 2 b; until_granted -> 3, grants 2
    """,
    "after a pause, one request is in flight, and one more after each success": """
        places 3; pause a 10; page 1 a; page 2 a; page 3 a; page 4 a; wait 10
        next -> 1; next -> -
        scope a -> <Scope a: 1 in flight, 1 after a pause, next at 10 (back-off), 3 of 4 tickets wait>
        succeed a; next -> 2; next -> -; succeed a; next -> 3
        next -> -; free 1; next -> 4
    """,
    "a pause longer than REP_WAIT_TIMEOUT: what waits and what comes is refused": """
        pause a 10; file 1 a; page 2 a; pause a 601 -> refuses 1; page 3 a
        next -> refused 2; next -> refused 3
        wait 601; again 3; next -> 3
    """,
    "only 429 for REP_WAIT_TIMEOUT: refused, but for one request after each pause": """
        places 3; pause a 600; page 1 a; wait 600; next -> 1
        page 2 a; next -> -; succeed a; next -> 2; free 1; free 2
        pause a 600; page 3 a; wait 600; next -> 3; free 3; pause a 1; page 4 a
        next -> refused 4; wait 1; succeed a; pause a 1; again 4
        next -> -; wait 1; next -> 4
    """,
    "only 429 here, but another worker has seen a success": """
        pause a 600; page 1 a; wait 600; next -> 1; pause a 10; free 1
        page 2 a; next -> refused 2; warned a 610 590; again 2; next -> -
        wait 10; next -> 2
    """,
    "five hosts in a row fail: the network is gone; an answer brings it back": """
        fail a d; answer x; fail a d; page 1 y
        file 2 y -> grants 2
        free 2; fail e -> gone; next -> -; file 3 z
        core_is -> <Core: 2 scopes, 0 places taken, 1 requests wait, 1 queues ready, network gone>
        queue 4 w; fetch -> -; answer y -> back after 0, grants 3; next -> 1
        fetch -> w
    """,
    "a host that fails again and again is one host": """
        fail a; fail a; fail a; fail a; fail a; fail a
    """,
    "one probe at a time, at those that have answered and those that have failed": """
        answer y; answer z; fail a e -> gone; wait 0.9; wait 0.1 -> probes z at 1, grants z
        wait 60; probed z -> gone for certain; wait 2 -> probes y at 63, grants y; probed y
        wait 4 -> probes a at 67, grants a
        probed a; wait 8 -> probes b at 75, grants b; probed b
        wait 16 -> probes c at 91, grants c; probed c; wait 30 -> probes d at 121, grants d
        probed d; wait 30 -> probes e at 151, grants e; probed e
        wait 30 -> probes z at 181, grants z
    """,
    "a robots.txt that waits for the network is its probe, and its answer is no other's": """
        fail a e -> gone; robots 1 a; robots 2 b; file 3 b; wait 1 -> grants 1; sent 1
        free 1 -> gone for certain; wait 2 -> grants 2; sent 2
        answer b -> back after 3, grants 3; free 2
    """,
    "a probe keeps to delays and pauses": """
        answer y; answer z; delay z 50 0; pause y 20; fail a e -> gone
        wait 1 -> probes a at 1, grants a; probed a -> gone for certain
        wait 2 -> probes b at 3, grants b
    """,
    "an outage of the crawler counts for no host": """
        queue 1 a; fetch -> a; down a 10 10
        host a -> <Host http://a: DOWN, again at 10, 1 of 1 tickets wait>
        fail b f -> gone
        queue 2 c; wait 100 -> probes b at 1, grants b; fetch -> -
        answer z -> back after 100; wait 0; fetch -> c; fetch -> a
        down a 10 10
        host a -> <Host http://a: DOWN, again at 110, 1 of 1 tickets wait>; wait 9
        fetch -> -; wait 1; fetch -> a; down a 10 10
        host a -> <Host http://a: REFUSED, again at 120, 0 of 1 tickets wait>
        next -> refused 1
    """,
    "an outage of the crawler counts for no pause": """
        pause a 1; wait 599; fail b f -> gone; wait 100 -> probes b at 600, grants b
        answer z -> back after 100; pause a 1; page 1 a; next -> -
        wait 1; next -> 1
    """,
    "after wrong alarms, ten requests to five hosts, then twenty, but no more": """
        fail a e -> gone; answer z -> back after 0; fail a i
        fail i -> gone
        answer z -> back after 0; fail a s; fail t -> gone
        answer z -> back after 0; fail a d; fail a d; fail a d; fail a d; fail a d
        fail e -> gone
        wait 1 -> probes z at 1, grants z; probed z -> gone for certain
        answer z -> back after 1; fail a e -> gone
    """,
    "where nothing has ever answered, only for REP_WAIT_TIMEOUT": """
        fail a e -> gone; wait 1 -> probes a at 1, grants a; wait 598
        probed a -> gone for certain; wait 2 -> probes b at 601, grants b
        probed b -> back after 601; fail a z; answer a
        fail a e -> gone
    """,
    "a machine without files sends nothing for a second": """
        queue 1 a; page 2 b; file 3 b -> grants 3; exhaust; file 4 c; fetch -> -; next -> -
        core_is -> <Core: 1 hosts WANTED, 3 scopes, 1 places taken, 2 requests wait, 1 queues ready, no connections left>
        wait 0.9; wait 0.1 -> grants 4; next -> 2; fetch -> a
    """,
    "what waits for the network may end": """
        fail a e -> gone; file 1 x; end 1; answer z -> back after 0
    """,
}


@pytest.mark.parametrize("events", CASES.values(), ids=CASES)
def test_rule(events: str) -> None:
    """The rule that the case is named after."""
    World().play(events)


@pytest.mark.parametrize("is_refused", [False, True])
def test_cancelled_before_its_crawl_has_heard_the_answer(is_refused: bool) -> None:
    """A request that is cancelled after it may go, or is refused, is neither sent nor refused, and
    keeps no place.
    """
    world = World()
    world.pause("a", "10")
    world.file("1", "a")
    if is_refused:
        world.pause("a", "601")
    else:
        world.core.tick(10)
    world.end("1")
    assert not any(isinstance(said, Decided) for said in world.core.drain())
    assert not world.core.scope("a").in_flight
    assert not world.core.scope("a").tickets


def test_ended_while_its_crawl_acts_on_what_was_said_before() -> None:
    """Without asyncio, the errback of a request that is refused runs at once, and may cancel others:
    they end once.
    """
    world = World()
    world.pause("a", "10")
    world.file("1", "a")
    world.file("2", "a")
    world.pause("a", "601")
    refused = []
    for said in world.core.drain():
        if isinstance(said, Decided) and not said.is_granted:
            refused.append(said.ticket)
            world.core.end(said.ticket, world.now)
            world.end("2")
    assert refused == [world.tickets["1"]]
    assert not world.core.scope("a").tickets


@pytest.mark.parametrize("step", [1, -1])
def test_many_that_end_while_they_wait_for_robotstxt(step: int) -> None:
    """When a crawl closes, the cost of each request that waits does not grow with their number."""
    world = World()
    names = [str(number) for number in range(60_000)]
    for name in names:
        world.asks(name, "a")
    began = time.process_time()
    for name in names[::step]:
        world.end(name)
    assert not world.core.hosts
    assert time.process_time() - began < 5


@pytest.mark.parametrize("step", [1, -1])
def test_many_ready_queues_of_one_slot_that_end(step: int) -> None:
    """When a crawl closes, the cost of each queue of a slot does not grow with their number."""
    world = World()
    names = [str(number) for number in range(30_000)]
    for name in names:
        world.page(name, name, "slot")
    began = time.process_time()
    for name in names[::step]:
        world.end(name)
    assert not world.queues
    assert time.process_time() - began < 2


def test_what_has_slowed_down_the_crawl() -> None:
    """A host holds up the crawl while requests wait only for its delay, none is in flight, and the one
    that had to wait is sent. The hosts that did so least are forgotten.
    """
    world = World()
    world.play("""
        delay a 10; page 1 a; next -> 1; sent 1; again 1; wait 3; free 1; wait 10
        next -> 1; sent 1; again 1; wait 3; free 1; wait 15; next -> 1; sent 1
        again 1; pause a 20; free 1; wait 20; next -> 1; sent 1
        again 1; free 1; wait 10; next -> 1; give_back 1
    """)
    (found,) = world.core.slowdowns()
    assert found == (20, "a", 4, 10)
    for number in range(3000):
        name = str(number)
        world.play(f"delay {name} 1; page {name} {name}; next -> {name}; sent {name}")
    assert len(world.core.slowdowns()) <= 1000
    assert world.core.slowdowns()[0] == found


def test_refused_hosts_that_are_forgotten() -> None:
    """Of refused hosts, 20,000 are remembered; the oldest are forgotten first."""
    world = World()
    for number in range(20_010):
        world.play(f"queue 1 {number}; fetch -> {number}; down {number} 1000 0; end 1")
    hosts = [origin.host for origin in world.core.hosts]
    assert (len(hosts), hosts[0]) == (20_000, "10")


def test_places_that_are_free_are_taken_at_once() -> None:
    """A request takes its places without a wait if all are free, and else none of them."""
    world = World()
    core = world.core

    def takes(*keys: str) -> bool:
        scopes = tuple(map(core.scope, keys))
        return core.take_free(Ticket(None, scopes), world.now)

    for key in ("a", "b", "slot"):
        core.scope(key).places = 1
    assert takes("a", "slot")
    assert not takes("b", "slot")
    assert [core.scope(key).in_flight for key in ("a", "b", "slot")] == [1, 0, 1]
    world.pause("c", "10")
    assert not takes("c")
    core.network.exhausted(world.now)
    assert not takes("b")


def test_the_last_answer_of_a_host_is_its_own() -> None:
    """A request that only shares the download slot of a host, as one that it has redirected, leaves no
    answer of that host.
    """
    world = World()
    core = world.core
    own, slot = core.scope("a"), core.scope("slot")
    ticket = Ticket(None, (own, slot))
    assert core.take_free(ticket, world.now)
    core.sent(ticket)
    core.free(ticket, world.now, sent=True)
    assert (own.answered_at, slot.answered_at) == (world.now, -inf)
