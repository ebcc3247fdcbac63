"""When a request may go: the rules of hosts, delays and pauses, by example.

``test_core_machine.py`` proves them for any order of events.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.frontier.core import Core, Ticket, Where
from scrapy_rep.protocol.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.crawl.frontier.core import Host, Line

pytestmark = pytest.mark.newest

WAIT_MAX = 600.0


class World:
    """A crawl, with two places in each download slot at first. The methods are the events of a case; what
    one returns is its answer. Tickets have numbers, hosts have letters.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.in_slot = 2
        self.core = Core(slot=lambda _: (self.in_slot, -inf), wait_max=WAIT_MAX)
        self.line = self.core.ready()
        self.tickets: dict[str, Ticket] = {}
        self.probes: list[str] = []

    def play(self, events: str) -> None:
        """Have each of the *events* happen, and compare its answer: ``event -> answer``."""
        for event in filter(
            None, map(str.strip, events.replace(";", "\n").split("\n"))
        ):
            call, _, expected = event.partition(" -> ")
            verb, *words = call.split()
            found = getattr(self, verb)(*words)
            assert (found or "-") == (expected or found or "-"), event

    def host(self, name: str) -> Host:
        return self.core.host(Origin("http", name, 80))

    def names(self, tickets: Iterable[Ticket]) -> str:
        names = {each: name for name, each in self.tickets.items()}
        return " ".join(names[each] for each in tickets)

    def add(self, name: str, line: Line, host: Host | None, *scopes: str) -> None:
        places = tuple(map(self.core.scope, scopes))
        self.tickets[name] = Ticket(line, host, places)
        self.again(name)

    # Tickets.

    def queue(self, name: str, host: str) -> None:
        """A queue waits for the robots.txt of *host*."""
        self.add(name, self.line, self.host(host), host)

    def page(self, name: str, *scopes: str) -> None:
        """A queue whose robots.txt is known has a request to a host, in a download slot."""
        self.add(name, self.line, None, *scopes)

    def file(self, name: str, *scopes: str) -> None:
        """The same for a request in the downloader, such as that of a media pipeline."""
        self.add(name, self.core.direct, None, *scopes)

    def asks(self, name: str, host: str) -> None:
        """A request in the downloader waits for the robots.txt of *host*."""
        self.add(name, self.core.direct, self.host(host))

    def stranger(self, name: str, host: str) -> None:
        """The robots.txt of another host, which has redirected it to *host*."""
        self.add(name, self.core.redirected, None, host)

    def again(self, name: str) -> None:
        """The queue has another request."""
        self.core.add(self.tickets[name], self.now)

    def end(self, name: str) -> None:
        self.core.end(self.tickets[name], self.now)

    def next(self) -> str:
        """Return the ticket that the scheduler pops."""
        found = self.core.next(self.line, self.now)
        is_refused = found is not None and found.where is Where.REFUSED
        return ("refused " if is_refused else "") + self.names([found] if found else [])

    def granted(self) -> str:
        names = self.names(self.core.granted)
        self.core.granted.clear()
        return names

    def refused(self) -> str:
        names = self.names(self.core.refused)
        self.core.refused.clear()
        return names

    def sent(self, name: str) -> None:
        """A request of the ticket has passed all components."""
        self.core.sent(self.tickets[name])

    def leave(self, name: str) -> None:
        """A request of the ticket has its answer."""
        self.core.leave(self.tickets[name], self.now, fetched=True)

    # Hosts.

    def fetch(self, *urgent: str) -> str:
        """Return the host whose robots.txt is to be fetched; with ``urgent``, while enough hosts
        are ready.
        """
        host = self.core.next_wanted(is_needed=not urgent)
        return "" if host is None else host.origin.host

    def known(self, host: str, holds: str = "inf") -> None:
        self.core.known(self.host(host), self.now, self.now + float(holds))

    def down(self, host: str, retry: str, wait: str = "300") -> None:
        at = self.now + float(retry)
        found, wait_for = self.host(host), float(wait)
        self.core.unreachable(found, self.now, at, wait=wait_for, is_asked=False)

    def lose(self, host: str) -> None:
        """The fetch is cancelled, or fails in a component."""
        self.core.unknown(self.host(host), self.now)

    def phase(self, host: str) -> str:
        return self.host(host).phase.name

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
            if (host := self.core.next_probe(self.now)) is not None:
                self.probes.append(f"{host} {self.now:g}")
                self.core.network.asks()
        self.now = until

    # The network of the crawler itself.

    def fail(self, host: str, also: str = "") -> None:
        """A request to *host* fails at the level of the network, and to those up to *also*."""
        for each in range(ord(host), ord(also or host) + 1):
            self.core.network.failed(chr(each), chr(each), self.now)

    def answer(self, host: str) -> None:
        """A host answers, with anything."""
        gone = self.core.network.answered(host, host)
        if gone is not None:
            self.core.network_is_back(self.now, gone)

    def exhaust(self) -> None:
        """The machine has no more files."""
        self.core.network.exhausted(self.now)

    def probe(self) -> str:
        """Return the host that is asked whether the network is back, and when."""
        return self.probes.pop(0) if self.probes else ""

    def probed(self) -> None:
        """The probe fails."""
        gone = self.core.network.probed(self.now)
        if gone is not None:
            self.core.network_is_back(self.now, gone)

    def network(self) -> str:
        return "up" if self.core.network.gone_since is None else "gone"

    def until_granted(self) -> str:
        """Let time pass until a request in the downloader may go. Return the seconds."""
        began = self.now
        while not self.core.granted:
            self.wait(str(self.core.wake_at() - self.now))
        return f"{self.now - began:g}"


CASES = {
    "one fetch of robots.txt for all requests": """
        queue 1 a; queue 2 a; phase a -> WANTED
        fetch -> a; fetch -> -; next -> -
        known a; phase a -> OPEN
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
        queue 1 a; fetch -> a; down a 100; phase a -> DOWN
        queue 2 a; wait 99.9; fetch -> -; next -> -
        wait 0.1; fetch -> a; known a; next -> 1; next -> 2
    """,
    "unreachable for REP_WAIT_MAX: fetched once more, and then its requests are refused": """
        queue 1 a; fetch -> a; down a 200; wait 200; fetch -> a; down a 200
        wait 99.9; fetch -> -; wait 0.1; fetch -> a; down a 200
        phase a -> REFUSED; next -> refused 1; queue 2 a; next -> refused 2
    """,
    "a refused host: fetched again if a request comes when that is due": """
        queue 1 a; fetch -> a; down a 100 0; next -> refused 1
        end 1; wait 1000; fetch -> -
        queue 2 a; next -> refused 2; fetch -> a; known a; again 2; next -> 2
    """,
    "a fetch without a result is repeated while a request waits": """
        asks 1 a; fetch urgent -> a; lose a; fetch -> -
        wait 1; fetch urgent -> a; known a; granted -> 1
    """,
    "the first page waits for what is left of the delay since robots.txt came": """
        delay a 5 3; page 1 a; next -> -; wait 1.9; next -> -; wait 0.1; next -> 1
    """,
    "a delay counts from the last answer": """
        page 1 a; page 2 a; next -> 1; wait 10; leave 1
        delay a 5; next -> -; wait 4.9; next -> -; wait 0.1; next -> 2
    """,
    "a request needs a place of its host and of its download slot": """
        delay a 5; page 1 a s; page 2 a s; page 3 b s; page 4 b s
        next -> 1; next -> 3; next -> -
        leave 3; next -> 4; leave 1; leave 4; next -> -; wait 5; next -> 2
    """,
    "a delay that is taken back: requests go in parallel": """
        delay a 5; page 1 a; page 2 a; next -> 1; next -> -; delay a 0; next -> 2
    """,
    "a request that a component holds back leaves its place to one in the downloader": """
        places 1; page 1 a; next -> 1; file 2 a; granted -> 2; leave 2
        sent 1; file 3 a; granted -> -
    """,
    "one of four requests to a slow host is for the robots.txt of another, at most": """
        delay a 1; page 1 a; stranger 2 a; granted -> 2; leave 2; end 2
        stranger 3 a; wait 1; next -> 1; again 1; sent 1; leave 1
        wait 2.9; granted -> -; wait 0.1; granted -> 3; leave 3; end 3
        end 1; stranger 4 a; wait 1; granted -> 4
    """,
    "requests in the downloader go before the queue, in order": """
        delay a 1; page 1 a; next -> 1; again 1; file 2 a; file 3 a; leave 1
        wait 1; granted -> 2; next -> -; leave 2; wait 1; granted -> 3
        next -> -; leave 3; wait 1; next -> 1
    """,
    "the download slot with the fewest requests in flight, and of equals in turn": """
        page 1 a; page 2 b; page 3 a; page 4 b; file 5 c; page 6 c
        next -> 1; next -> 2; next -> 6; next -> 3; next -> 4; next -> -
    """,
    "many 429 at once are one pause": """
        pause a; wait 0.5; pause a - 0; pause a - 0; file 1 a; until_granted -> 1
    """,
    "a pause without Retry-After is twice as long as the last, up to REP_BACKOFF_MAX": """
        pause a; file 1 a; until_granted -> 1; granted -> 1; pause a; leave 1
        file 2 a; until_granted -> 2; granted -> 2; pause a; leave 2
        file 3 a; until_granted -> 4; granted -> 3; pause a; leave 3
        file 4 a; until_granted -> 8; granted -> 4; pause a; leave 4
        file 5 a; until_granted -> 8; granted -> 5; places 3; succeed a; leave 5
        pause a; file 6 a; until_granted -> 1
    """,
    "a pause is as long as Retry-After says, and no shorter than the delay": """
        pause a 100; pause a 5; file 1 a; until_granted -> 100
        delay b 3; pause b; file 2 b; granted -> 1; until_granted -> 3
    """,
    "after a pause, one request is in flight, and one more after each success": """
        places 3; pause a 10; page 1 a; page 2 a; page 3 a; page 4 a; wait 10
        next -> 1; next -> -; succeed a; next -> 2; next -> -; succeed a; next -> 3
        next -> -; leave 1; next -> 4
    """,
    "a pause longer than REP_WAIT_MAX: what waits and what comes is refused": """
        pause a 10; file 1 a; page 2 a; pause a 601; page 3 a
        refused -> 1; next -> refused 2; next -> refused 3
        wait 601; again 3; next -> 3
    """,
    "only 429 for REP_WAIT_MAX: refused, but for one request after each pause": """
        places 3; pause a 600; page 1 a; wait 600; next -> 1
        page 2 a; next -> -; succeed a; next -> 2; leave 1; leave 2
        pause a 600; page 3 a; wait 600; next -> 3; leave 3; pause a 1; page 4 a
        next -> refused 4; wait 1; succeed a; pause a 1; again 4
        next -> -; wait 1; next -> 4
    """,
    "five hosts in a row fail: the network is gone; an answer brings it back": """
        fail a d; network -> up; answer x; fail a d; network -> up; page 1 y; file 2 y
        granted -> 2; leave 2; fail e; network -> gone; next -> -; file 3 z; granted -> -
        queue 4 w; fetch -> -; answer y; network -> up; next -> 1; granted -> 3; fetch -> w
    """,
    "a host that fails again and again is one host": """
        fail a; fail a; fail a; fail a; fail a; fail a; network -> up
    """,
    "one probe at a time, at those that have answered and those that have failed": """
        answer y; answer z; fail a e; wait 0.9; probe -> -; wait 0.1; probe -> z 1
        wait 60; probe -> -; probed; wait 2; probe -> y 63; probed; wait 4; probe -> a 67
        probed; wait 8; probe -> b 75; probed; wait 16; probe -> c 91; probed; wait 30
        probe -> d 121; probed; wait 30; probe -> e 151; probed; wait 30; probe -> z 181
    """,
    "a probe keeps to delays and pauses": """
        answer y; answer z; delay z 50 0; pause y 20; fail a e; wait 1; probe -> a 1; probed
        wait 2; probe -> b 3
    """,
    "an outage of the crawler counts for no host": """
        queue 1 a; fetch -> a; down a 10 10; phase a -> DOWN; fail b f; network -> gone
        queue 2 c; wait 100; fetch -> -; answer z; wait 0; fetch -> c; fetch -> a
        down a 10 10; phase a -> DOWN; wait 9; fetch -> -; wait 1; fetch -> a; down a 10 10
        phase a -> REFUSED; next -> refused 1
    """,
    "an outage of the crawler counts for no pause": """
        pause a 1; wait 599; fail b f; wait 100; answer z; pause a 1; page 1 a; next -> -
        wait 1; next -> 1
    """,
    "after wrong alarms, ten requests to five hosts, then twenty, but no more": """
        fail a e; network -> gone; answer z; fail a i; network -> up; fail i; network -> gone
        answer z; fail a s; network -> up; fail t; network -> gone
        answer z; fail a d; fail a d; fail a d; fail a d; fail a d; network -> up; fail e
        network -> gone; wait 1; probe -> z 1; probed; answer z; fail a e; network -> gone
    """,
    "where nothing has ever answered, only for REP_WAIT_MAX": """
        fail a e; wait 1; probe -> a 1; wait 598; probed; network -> gone; wait 2
        probe -> b 601; probed; network -> up; fail a z; network -> up; answer a
        fail a e; network -> gone
    """,
    "a machine without files sends nothing for a second": """
        queue 1 a; page 2 b; file 3 b; granted -> 3; exhaust; file 4 c; fetch -> -; next -> -
        granted -> -; wait 0.9; granted -> -; wait 0.1; granted -> 4; next -> 2; fetch -> a
    """,
    "what waits for the network may end": """
        fail a e; file 1 x; end 1; answer z; granted -> -
    """,
}


@pytest.mark.parametrize("events", CASES.values(), ids=CASES)
def test_rule(events: str) -> None:
    """The rule that the case is named after."""
    World().play(events)


@pytest.mark.parametrize("seconds", ["10", "601"])
def test_cancelled_before_its_crawl_has_seen_the_answer(seconds: str) -> None:
    """A request that is cancelled after it may go, or is refused, is neither sent nor refused, and
    keeps no place.
    """
    world = World()
    world.pause("a", "10")
    world.file("1", "a")
    if seconds == "601":
        world.pause("a", seconds)
    else:
        world.wait(seconds)
    assert [*world.core.granted, *world.core.refused] == [world.tickets["1"]]
    world.end("1")
    assert not world.core.granted
    assert not world.core.refused
    assert not world.core.scope("a").in_flight
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


def test_what_has_held_up_the_crawl() -> None:
    """A host holds up the crawl while requests wait for it and none is in flight. The hosts that
    did so least are forgotten.
    """
    world = World()
    world.play("""
        delay a 10; page 1 a; next -> 1; again 1; wait 3; leave 1; wait 10
        next -> 1; again 1; wait 3; leave 1; wait 10; next -> 1
    """)
    (found,) = world.core.held_up()
    assert found == (20, "a", 3, 10)
    for number in range(3000):
        world.play(f"delay {number} 1; page {number} {number}; next -> {number}")
    assert len(world.core.held_up()) <= 1000
    assert world.core.held_up()[0] == found


def test_refused_hosts_that_are_forgotten() -> None:
    """Of refused hosts, 20,000 are remembered; the oldest are forgotten first."""
    world = World()
    for number in range(20_010):
        world.play(f"queue 1 {number}; fetch -> {number}; down {number} 1000 0; end 1")
    hosts = [origin.host for origin in world.core.hosts]
    assert (len(hosts), hosts[0]) == (20_000, "10")
