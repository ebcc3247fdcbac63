"""When a request may be sent: each test is a crawl in steps, with what the limits say after each.

``test_limits_machine.py`` has the same for any order of steps.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.frontier.limits import READY, InFlight, Waiter
from tests.frontier.steps import Crawl

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limits import Queue

pytestmark = pytest.mark.newest


def test_planned_then_sent_then_ended() -> None:
    """A request counts from the moment at which the scheduler hands it out, in each of its limiters."""
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3")
    assert repr(a) == "<Queue ('a', '', False, True): 3 requests, ready>"
    assert (
        repr(a.host) == "<Limiter a: 0 planned, 0 sent of 2; 0 wait, 0 queues parked>"
    )

    assert crawl.plan() == "a1"
    assert (
        repr(a.host) == "<Limiter a: 1 planned, 0 sent of 2; 0 wait, 0 queues parked>"
    )
    assert repr(crawl.entries["a1"]).endswith(": PLANNED>")

    assert crawl.send("a1")
    assert (
        repr(a.host) == "<Limiter a: 0 planned, 1 sent of 2; 0 wait, 0 queues parked>"
    )
    assert repr(crawl.limits.network.pages).startswith(
        "<Limiter network: 0 planned, 1 sent;"
    )
    assert repr(crawl.entries["a1"]).endswith(": SENT>")

    assert crawl.plan() == "a2"
    assert crawl.plan() is None
    assert (
        repr(a.host) == "<Limiter a: 1 planned, 1 sent of 2; 0 wait, 1 queues parked>"
    )
    assert a.place is a.host

    crawl.end("a1")
    assert (
        repr(a.host) == "<Limiter a: 1 planned, 0 sent of 2; 0 wait, 0 queues parked>"
    )
    assert a.place is READY
    assert crawl.plan() == "a3"
    assert repr(a) == "<Queue ('a', '', False, True): 0 requests, idle>"
    assert repr(crawl.limits) == (
        "<Limits: 1 limiters, 2 requests planned, 0 sent, 0 queues ready>"
    )


def test_what_was_planned_may_end_without_being_sent() -> None:
    """Another component may drop or answer what was planned: no delay begins, and the next request
    has its room.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.delay("a", 10)
    crawl.at(10)
    crawl.push(a, "a1", "a2")
    assert crawl.plan() == "a1"
    assert crawl.plan() is None
    crawl.end("a1")
    assert crawl.plan() == "a2"


def test_a_request_that_is_returned_is_the_next_one() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2")
    assert crawl.plan() == "a1"
    crawl.returns("a1")
    assert crawl.plan_all() == ["a1"]
    crawl.end("a1")
    assert crawl.plan_all() == ["a2"]


# Addresses.


def on_one_address(crawl: Crawl, *hosts: str, places: int = 2) -> list[Queue]:
    queues = [crawl.queue(host) for host in hosts]
    for queue in queues:
        crawl.limits.set_address(queue.host, "192.0.2.1", places, crawl.now)
    return queues


def test_hosts_on_one_address_share_its_places() -> None:
    """Hosts on one address take turns; what is planned, and a robots.txt, has a place too."""
    crawl = Crawl()
    a, b = on_one_address(crawl, "a", "b")
    other = crawl.queue("other")
    address = a.host.address
    assert address is b.host.address
    assert address is not None
    crawl.push(a, "a1", "a2", "a3")
    crawl.push(b, "b1", "b2", "b3")
    crawl.push(other, "other1")
    assert crawl.plan_all() == ["a1", "b1", "other1"]
    assert repr(address).startswith(
        "<Limiter address 192.0.2.1: 2 planned, 0 sent of 2"
    )
    assert [crawl.send(name) for name in ("a1", "b1")] == [True, True]
    assert crawl.plan() is None
    assert a.place is b.place is address
    crawl.wait("robots.txt of b", b, is_for_robotstxt=True)
    crawl.end("a1")
    assert crawl.decided() + crawl.go_all() == ["robots.txt of b"]
    crawl.end("b1")
    assert crawl.go_all() == ["a2"]
    crawl.end("a2")
    assert crawl.go_all() == ["b2"]
    for name in ("robots.txt of b", "b2"):
        crawl.end(name)
    assert crawl.go_all() == ["a3", "b3"]


def test_a_delay_or_a_pause_is_that_of_its_host_alone() -> None:
    crawl = Crawl()
    a, b = on_one_address(crawl, "a", "b", places=1)
    crawl.delay("a", 10)
    crawl.push(a, "a1")
    crawl.push(b, "b1", "b2")
    for name in ("b1", "b2"):
        assert crawl.go_all() == [name]
        crawl.end(name)
    crawl.at(10)
    assert crawl.go_all() == ["a1"]


def test_requests_in_flight_count_at_an_address_that_becomes_known() -> None:
    """Requests in flight count at an address that becomes known, whether they are planned or sent,
    even if they are more than its places.
    """
    crawl = Crawl()
    a, b = crawl.queue("a"), crawl.queue("b")
    crawl.push(a, "a1", "a2", "a3", "a4")
    crawl.push(b, "b1")
    assert [crawl.plan(), crawl.plan(), crawl.plan()] == ["a1", "b1", "a2"]
    crawl.send("a1")
    on_one_address(crawl, "a", "b", places=2)
    address = a.host.address
    assert address is not None
    assert (address.planned, address.sent) == (2, 1)
    assert crawl.plan() is None
    assert crawl.send("a2")
    assert not crawl.send("b1")
    crawl.end("a1")
    assert crawl.send("b1")
    assert crawl.plan() is None
    crawl.end("b1")
    assert crawl.go_all() == ["a3"]
    crawl.end("a2")
    crawl.end("a3")
    assert crawl.go_all() == ["a4"]
    crawl.end("a4")
    assert (address.planned, address.sent) == (0, 0)


def test_a_host_that_moves_waits_at_its_new_address() -> None:
    """What waits for a place at the old one goes on; what is in flight counts at both. It may come back."""
    crawl = Crawl()
    a, b = on_one_address(crawl, "a", "b", places=1)
    crawl.push(b, "b1")
    crawl.push(a, "a1", "a2", "a3")
    crawl.wait("robots.txt of a", a, is_for_robotstxt=True)
    assert crawl.decided() == ["robots.txt of a"]
    assert crawl.go_all() == []
    crawl.wait("file", a)
    crawl.limits.set_address(a.host, "192.0.2.2", 2, crawl.now)
    old, new = (crawl.limits.addresses[f"192.0.2.{n}"] for n in (1, 2))
    assert (a.host.address, b.host.address) == (new, old)
    assert crawl.decided() == ["file"]
    assert crawl.go_all() == []
    crawl.end("robots.txt of a")
    assert crawl.go_all() == ["b1", "a1"]
    crawl.limits.set_address(a.host, "192.0.2.1", 2, crawl.now)
    crawl.limits.set_address(a.host, "192.0.2.2", 2, crawl.now)
    for name in ("file", "b1", "a1"):
        crawl.end(name)
    assert [(address.planned, address.sent) for address in (old, new)] == [(0, 0)] * 2
    assert crawl.go_all() == ["a2", "a3"]


def test_addresses_that_no_host_has_are_forgotten() -> None:
    """A host keeps its address for half a minute: it may be asked again, with the robots.txt that is known."""
    crawl = Crawl()
    a, _ = on_one_address(crawl, "a", "b")
    crawl.push(a, "a1")
    assert crawl.go() == "a1"
    crawl.limits.set_address(a.host, "192.0.2.2", 2, crawl.now)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.addresses.keys() == {"192.0.2.1", "192.0.2.2"}
    crawl.end("a1")
    crawl.at(29.9)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.limiters.keys() == {"a"}
    assert crawl.limits.addresses.keys() == {"192.0.2.2"}
    crawl.at(30)
    crawl.limits.sweep(crawl.now)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.limiters == {}
    assert crawl.limits.addresses == {}


# Delays.


def test_a_delay_is_from_the_end_to_the_start() -> None:
    """A delay begins again with the end of each request, and with the robots.txt that asks for it."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.push(a, "a1", "a2")
    limiter = a.host.crawl_delay
    assert repr(limiter) == (
        "<Limiter a delay: 0 planned, 0 sent of 1; delay 5; next at 5; 0 wait, 1 queues parked>"
    )
    assert crawl.go() is None
    assert crawl.limits.alarms.first_at == 5
    crawl.at(4.9)
    assert crawl.go() is None
    crawl.at(5)
    assert crawl.go_all() == ["a1"]
    crawl.at(8)
    crawl.end("a1")
    assert repr(limiter) == (
        "<Limiter a delay: 0 planned, 0 sent of 1; delay 5; next at 13; 0 wait, 1 queues parked>"
    )
    crawl.at(12.9)
    assert crawl.go() is None
    crawl.at(13)
    assert crawl.go_all() == ["a2"]


def test_two_origins_of_a_host_have_one_delay() -> None:
    """The longest delay of the origins of a host counts. That of one origin goes when its
    robots.txt asks for none any more.
    """
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.delay("a", 3, "https")
    limiter = a.host.crawl_delay
    assert limiter is not None
    assert limiter.delay == 5
    crawl.delay("a", 0)
    assert limiter.delay == 3
    crawl.delay("a", 0, "https")
    assert (limiter.delay, limiter.concurrency_now, limiter.next_at) == (0, inf, -inf)
    crawl.push(a, "a1", "a2")
    assert crawl.go_all() == ["a1", "a2"]


def test_a_new_delay_begins_after_the_requests_in_flight() -> None:
    """A delay that comes while requests are in flight begins with the end of the last one."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3")
    assert [crawl.go(), crawl.go()] == ["a1", "a2"]
    crawl.delay("a", 5)
    assert crawl.go() is None
    crawl.at(10)
    crawl.end("a1")
    crawl.at(16)
    assert crawl.go() is None
    crawl.end("a2")
    crawl.at(20.9)
    assert crawl.go() is None
    crawl.at(21)
    assert crawl.go() == "a3"


def test_the_same_delay_again_begins_nothing() -> None:
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.at(4)
    crawl.delay("a", 5)
    crawl.push(a, "a1")
    crawl.at(5)
    assert crawl.go() == "a1"


def test_exempt_requests_keep_no_delay_but_pauses() -> None:
    crawl = Crawl()
    exempt = crawl.queue("a", keeps_delay=False)
    crawl.delay("a", 5)
    crawl.push(exempt, "x1", "x2", "x3")
    assert [crawl.go(), crawl.go()] == ["x1", "x2"]
    crawl.pause("a", 7)
    assert crawl.go() is None
    crawl.end("x1")
    crawl.end("x2")
    assert crawl.go() is None
    crawl.at(7)
    assert crawl.go() == "x3"


def test_a_request_that_was_withdrawn_begins_no_delay() -> None:
    """A request that was withdrawn has waited in its download slot, and has not come to the network."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.at(5)
    crawl.push(a, "a1", "a2")
    assert crawl.go() == "a1"
    crawl.at(6)
    crawl.end("a1", is_withdrawn=True)
    assert a.host.ended_at == -inf
    assert crawl.go() == "a2"


# Pauses.


def test_after_a_pause_one_request_more_with_each_success() -> None:
    """After the pause one request, then one more with each success, until all concurrency is back."""
    crawl = Crawl(concurrency=3)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3", "a4", "a5", "a6", "a7")
    assert crawl.go_all() == ["a1", "a2", "a3"]
    assert crawl.pause("a", 10)
    for name in "a1", "a2", "a3":
        crawl.end(name)
    assert repr(a.host) == (
        "<Limiter a: 0 planned, 0 sent of 1; next at 10; 0 wait, 1 queues parked>"
    )
    assert crawl.go() is None
    crawl.at(10)
    assert crawl.go_all() == ["a4"]
    crawl.end("a4")
    assert crawl.succeed("a")
    assert a.host.concurrency_now == 2
    assert crawl.go_all() == ["a5", "a6"]
    crawl.end("a5")
    assert not crawl.succeed("a")
    assert (a.host.concurrency_now, a.host.back_off) == (3, None)
    assert crawl.go_all() == ["a7"]


def test_an_answer_to_what_was_sent_before_the_pause_ends_nothing() -> None:
    crawl = Crawl(concurrency=3)
    a = crawl.queue("a")
    crawl.pause("a", 10)
    crawl.at(11)
    assert not crawl.limits.succeeded(
        a.host, crawl.now, sent_at=9.9, normal_concurrency=3
    )
    assert a.host.concurrency_now == 1
    assert crawl.succeed("a")


def test_own_pauses_double_up_to_the_cap() -> None:
    """Without Retry-After: 1, 2, 4, ... seconds. Answers to what was sent before are the same pause."""
    crawl = Crawl()
    a = crawl.queue("a")
    pauses = []
    for _ in range(5):
        assert crawl.pause("a", cap=6)
        assert not crawl.pause("a", cap=6, sent_at=crawl.now - 0.1)
        pauses.append(a.host.next_at - crawl.now)
        crawl.at(a.host.next_at)
    assert pauses == [1, 2, 4, 6, 6]
    crawl.succeed("a")
    crawl.pause("a", cap=6)
    assert a.host.next_at - crawl.now == 1


def test_a_slow_answer_from_before_a_success_begins_the_first_pause() -> None:
    """It says nothing of the time after the success, so the pauses do not double; but it asks for a pause."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.pause("a", cap=60)
    crawl.at(2)
    crawl.succeed("a")
    assert not crawl.pause("a", cap=60, sent_at=0.5)
    assert a.host.next_at == crawl.now + 1


def test_a_back_off_ends_at_the_concurrency_of_the_download_slot() -> None:
    """The limiter of a host whose requests are in a slot of another name has no concurrency of its own."""
    crawl = Crawl()
    host = crawl.limiter("a")
    assert host.concurrency == inf
    crawl.pause("a", 5)
    crawl.at(6)
    assert crawl.limits.succeeded(host, 6, sent_at=6, normal_concurrency=2)
    assert host.back_off is None


def test_a_longer_delay_holds_from_the_last_answer_on() -> None:
    """The robots.txt of a host may be fetched again, and ask for a longer delay."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 1)
    crawl.push(a, "a1", "a2")
    crawl.at(1)
    assert crawl.go() == "a1"
    crawl.end("a1")
    crawl.delay("a", 60)
    crawl.at(3)
    assert crawl.go() is None
    crawl.at(61)
    assert crawl.go() == "a2"


def test_a_pause_is_never_shortened_nor_under_the_delay() -> None:
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.pause("a", 30)
    crawl.at(1)
    crawl.pause("a", 2, sent_at=0)
    assert a.host.next_at == 30
    b = crawl.queue("b")
    crawl.delay("b", 20)
    crawl.pause("b")
    assert b.host.next_at == 21


def test_failures_of_the_network_do_not_end_a_back_off_for_which_the_host_asked() -> (
    None
):
    """The host has not answered since its pause, so it gets one request at a time."""
    crawl = Crawl(concurrency=8)
    a = crawl.queue("a")
    crawl.pause("a", 10)
    crawl.at(20)
    crawl.pause("a", has_failed=True)
    crawl.limits.forget_failures(a.host, crawl.now)
    assert a.host.next_at <= crawl.now
    assert a.host.concurrency_now == 1


def test_failures_pause_as_a_503_does_and_can_be_forgotten() -> None:
    """Failures that were those of the network of the crawler are forgotten: only what the host has
    asked for goes on.
    """
    crawl = Crawl()
    a, b = crawl.queue("a"), crawl.queue("b")
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    crawl.pause("a", has_failed=True)
    crawl.pause("b", 5)
    crawl.pause("b", 9, has_failed=True)
    assert crawl.go() is None
    assert (a.host.next_at, b.host.next_at) == (1, 9)
    for queue in a, b:
        crawl.limits.forget_failures(queue.host, crawl.now)
    assert (a.host.next_at, b.host.next_at) == (-inf, 5)
    assert a.host.back_off is None
    assert crawl.go_all() == ["a1"]
    crawl.at(5)
    assert crawl.go_all() == ["b1"]


def test_during_too_long_a_pause_requests_are_refused() -> None:
    """Until the end of too long a pause, requests are handed out to be refused, and need no room;
    then one asks again.
    """
    crawl = Crawl(wait_timeout=60, concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3", "a4")
    crawl.wait("f1", a)
    crawl.wait("f2", a)
    assert crawl.decided() == ["f1"]
    assert crawl.plan() is None
    crawl.pause("a", 61)
    assert crawl.decided() == ["F2"]
    assert [crawl.plan(), crawl.plan()] == ["A1", "A2"]
    crawl.wait("f3", a)
    assert crawl.decided() == ["F3"]
    assert a.host.planned == 0
    crawl.end("f1")
    crawl.at(61)
    assert crawl.go_all() == ["a3"]


def test_many_pauses_refuse_once_they_have_lasted_too_long() -> None:
    crawl = Crawl(wait_timeout=10)
    a = crawl.queue("a")
    crawl.push(a, "a1")
    for number in range(4):
        crawl.pause("a", 3)
        assert crawl.plan() is None
        crawl.at(3 * (number + 1))
        assert crawl.go() == "a1"
        crawl.end("a1")
        crawl.push(a, "a1")
    crawl.pause("a", 3)
    assert crawl.plan() == "A1"


def test_a_pause_of_an_earlier_run_goes_on() -> None:
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.limits.resume_pause(a.host, crawl.now, until=-1)
    assert a.host.back_off is None
    crawl.limits.resume_pause(a.host, crawl.now, until=8)
    crawl.push(a, "a1", "a2")
    assert crawl.go() is None
    crawl.at(8)
    assert crawl.go_all() == ["a1"]


# Queues and waiters at one limiter.


def test_queues_and_waiters_take_turns() -> None:
    """A host with a place for one request: of the pages of the scheduler and the files past it, none
    starves.
    """
    crawl = Crawl(concurrency=1)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    crawl.push(a, "a1", "a2", "a3")
    crawl.push(b, "b1", "b2", "b3")
    order = [crawl.go()]
    for name in "f1", "f2", "f3", "f4":
        crawl.wait(name, a)
    while len(order) < 8:
        crawl.end(str(order[-1]))
        order += crawl.decided()
        name = crawl.go()  # The engine asks whenever a request has ended.
        order += [name] if name else []
    assert order == ["a1", "f1", "b1", "f2", "a2", "f3", "b2", "f4"]


def test_the_next_waiter_goes_where_the_turn_of_a_queue_finds_none() -> None:
    """Where it was the turn of a queue that has to wait elsewhere by now, the room is for who waits
    next.
    """
    crawl = Crawl(concurrency=1)
    a, c = crawl.queue("a", slot="s"), crawl.queue("c", slot="s")
    crawl.wait("f1", c)
    assert crawl.decided() == ["f1"]
    crawl.push(a, "a1")
    crawl.wait("f2", c)
    crawl.end("f1")
    assert crawl.decided() == ["f2"]
    crawl.wait("f3", c)
    crawl.pause("a", 10)
    crawl.end("f2")
    assert (crawl.decided(), crawl.plan()) == (["f3"], None)
    assert a.place is a.host


def test_a_parked_queue_that_waits_elsewhere_blocks_no_other() -> None:
    """In a slot of several hosts, the first one to wait may have a pause of its own."""
    crawl = Crawl(concurrency=1)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    c = crawl.queue("c", slot="s")
    crawl.push(c, "c1")
    assert crawl.go() == "c1"
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    assert crawl.plan() is None
    assert (
        repr(a.slot) == "<Limiter s: 0 planned, 1 sent of 1; 0 wait, 2 queues parked>"
    )
    crawl.pause("a", 10)
    crawl.end("c1")
    assert crawl.go_all() == ["b1"]
    assert (a.place, b.place) == (a.host, None)


def test_a_ready_queue_whose_turn_passes_gives_it_on() -> None:
    """The host of a queue may be paused between its turn and the next call of the scheduler."""
    crawl = Crawl(concurrency=1)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    c = crawl.queue("c", slot="s")
    crawl.push(c, "c1")
    assert crawl.go() == "c1"
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    assert crawl.plan() is None
    crawl.end("c1")
    assert a.place is READY
    crawl.pause("a", 10)
    assert crawl.go_all() == ["b1"]


def test_a_waiter_that_leaves_blocks_no_other() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    for name in "f1", "f2", "f3":
        crawl.wait(name, a)
    assert crawl.decided() == ["f1"]
    crawl.leave("f2")
    crawl.end("f1")
    assert crawl.decided() == ["f3"]


def test_robotstxt_that_was_chosen_goes_before_others() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    for name in "r1", "r2":
        crawl.wait(name, a, is_for_robotstxt=True)
    crawl.wait("r3", a, is_for_robotstxt=True, is_first=True)
    assert crawl.decided() == ["r1"]
    crawl.end("r1")
    assert crawl.decided() == ["r3"]


# The order.


def test_the_slot_with_the_fewest_in_flight_goes_first() -> None:
    crawl = Crawl(concurrency=4)
    a, b = crawl.queue("a"), crawl.queue("b")
    crawl.push(a, "a1", "a2", "a3")
    assert [crawl.go(), crawl.go()] == ["a1", "a2"]
    crawl.push(b, "b1", "b2", "b3")
    assert [crawl.go(), crawl.go()] == ["b1", "b2"]
    assert crawl.go_all() == ["a3", "b3"]


def test_of_slots_with_as_many_in_flight_the_longest_waiting_goes_first() -> None:
    """Of slots with as many in flight, and of the queues of one slot, the one that has waited
    longest goes first.
    """
    crawl = Crawl()
    for host in "abc":
        crawl.push(crawl.queue(host), f"{host}1", f"{host}2")
    order = []
    for _ in range(6):
        name = crawl.go()
        assert name is not None
        order.append(name)
        crawl.end(name)
    assert order == ["a1", "b1", "c1", "a2", "b2", "c2"]
    for host in "def":
        crawl.push(crawl.queue(host, slot="s"), f"{host}1", f"{host}2")
    assert crawl.go_all() == ["d1", "e1", "f1", "d2", "e2", "f2"]


# Download slots.


def test_a_slot_of_another_name_limits_several_hosts() -> None:
    crawl = Crawl(concurrency=2)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    crawl.push(a, "a1", "a2")
    crawl.push(b, "b1", "b2")
    assert crawl.go_all() == ["a1", "b1"]
    assert [limiter.key for limiter in a.limiters] == ["a", "s", "network"]
    assert (
        repr(a.slot) == "<Limiter s: 0 planned, 2 sent of 2; 0 wait, 2 queues parked>"
    )
    crawl.end("b1")
    assert crawl.go_all() == ["a2"]
    crawl.end("a1")
    assert crawl.go_all() == ["b2"]


def test_a_slot_in_which_a_request_waits_gets_no_other() -> None:
    """Scrapy's download slot has a delay, and a request waits there: the next one may follow later."""
    crawl = Crawl()
    a = crawl.queue("a")
    a.slot.slot_free_at = 3.0
    crawl.push(a, "a1")
    assert (crawl.plan(), crawl.limits.alarms.first_at) == (None, 3)
    crawl.at(3)
    assert crawl.plan() == "a1"


# What is kept, and what is said.


def test_sweep_forgets_what_nothing_needs_and_keeps_the_rest() -> None:
    crawl = Crawl()
    for host in "abcd":
        crawl.push(crawl.queue(host, obeys=True), f"{host}1")
        crawl.know(host)
    crawl.delay("b", 5)
    crawl.pause("c", 7)
    crawl.at(10)
    assert sorted(crawl.go_all()) == ["a1", "b1", "c1", "d1"]
    for name in "a1", "b1", "c1":
        crawl.end(name)
    assert crawl.limits.sweep(crawl.now)
    # A request of d is in flight; c has asked for a pause; the delay of b has not passed.
    assert sorted(crawl.limits.limiters) == ["b", "c", "d"]
    assert sorted(origin.host for origin in crawl.limits.sites) == ["b", "c", "d"]
    assert not crawl.limits.sweep(crawl.now)
    crawl.at(46)
    assert crawl.limits.sweep(crawl.now)
    assert sorted(crawl.limits.limiters) == ["c", "d"]
    crawl.at(608)
    crawl.end("d1")
    assert crawl.limits.sweep(crawl.now)
    assert (crawl.limits.limiters, crawl.limits.sites, crawl.limits.queues) == (
        {},
        {},
        {},
    )


def test_sweep_keeps_a_host_whose_robotstxt_waits_for_the_network() -> None:
    """Else its next request would have another limiter, beside that of the robots.txt."""
    crawl = Crawl()
    queue = crawl.queue("a")
    crawl.limits.network.robotstxt.set_concurrency(0)
    waiter = Waiter(InFlight(queue, is_for_robotstxt=True), counts_as_planned=True)
    crawl.limits.wait(waiter, crawl.now)
    crawl.limits.sweep(crawl.now + 700)
    assert crawl.limits.limiters["a"] is queue.host
    assert crawl.limits.queues[queue.key] is queue


def test_a_later_pause_of_another_worker_is_no_part_of_the_first_one() -> None:
    """The host may have answered the other worker in between: nothing is refused as if it had not."""
    crawl = Crawl(wait_timeout=30)
    host = crawl.limiter("a")
    crawl.limits.resume_pause(host, crawl.now, until=crawl.now + 5)
    crawl.limits.resume_pause(host, crawl.now + 40, until=crawl.now + 45)
    assert host.next_at == crawl.now + 45
    assert host.refuses_until < crawl.now


def test_a_success_does_not_end_a_hold_for_another_worker() -> None:
    crawl = Crawl()
    host = crawl.limiter("a")
    crawl.pause("a", 5)
    crawl.limits.hold(host, crawl.now + 60, crawl.now)
    assert crawl.limits.succeeded(
        host, crawl.now + 6, sent_at=crawl.now + 5, normal_concurrency=9
    )
    assert host.next_at == crawl.now + 60


def test_sweep_forgets_a_pause_of_a_host_without_a_queue() -> None:
    """A spider, or an earlier run, may have asked for the pause of a host without a queue."""
    crawl = Crawl()
    crawl.pause("a", 7)
    crawl.at(606)
    assert not crawl.limits.sweep(crawl.now)
    crawl.at(608)
    assert crawl.limits.sweep(crawl.now)
    assert not crawl.limits.limiters


def test_sweep_keeps_a_slot_while_any_queue_needs_it() -> None:
    crawl = Crawl()
    crawl.queue("a", slot="s")
    crawl.push(crawl.queue("b", slot="s"), "b1")
    assert crawl.limits.sweep(crawl.now)
    assert list(crawl.limits.limiters) == ["s", "b"]
    assert crawl.go() == "b1"
    assert not crawl.limits.sweep(crawl.now)
    crawl.end("b1")
    assert crawl.limits.sweep(crawl.now)
    assert not crawl.limits.limiters


def test_sweep_keeps_a_site_for_whose_rules_a_request_waits() -> None:
    """A site stays although each of its queues could be forgotten, were it not the last one."""
    crawl = Crawl()
    a = crawl.queue("a", obeys=True)
    crawl.queue("a", slot="s", obeys=True)
    crawl.wait_for_rules("f1", a)
    crawl.limits.sweep(crawl.now)
    assert crawl.site("a") is a.site
    crawl.know("a")
    assert crawl.decided() == ["f1"]


def test_sweep_keeps_the_delay_of_requests_on_their_way_to_the_wire() -> None:
    """Another component may hold a request on its way to the wire for as long as it likes."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 5)
    entry = crawl.limits.in_flight["f1"] = InFlight(a)
    crawl.at(1000)
    assert not crawl.limits.sweep(crawl.now)
    assert crawl.limits.limiters["a"] is a.host
    crawl.limits.end(entry, crawl.now)
    del crawl.limits.in_flight["f1"]
    assert crawl.limits.sweep(crawl.now)
    assert not crawl.limits.limiters


def test_the_turn_of_a_queue_ends_if_the_scheduler_is_not_asked() -> None:
    """The downloader may be full of the requests that wait at the wire."""
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.push(a, "a1")
    for name in "f1", "f2", "f3":
        crawl.wait(name, a)
    crawl.at(5)
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    crawl.at(10)
    assert (a.place, crawl.decided()) == (READY, [])
    crawl.at(10.3)
    assert crawl.decided() == ["f2"]
    crawl.end("f2")
    crawl.at(20)
    assert crawl.decided() == ["f3"]
    crawl.end("f3")
    crawl.at(30)
    assert crawl.go() == "a1"


def test_the_next_turn_begins_when_a_request_has_ended() -> None:
    """A turn that was not used takes none from another queue."""
    crawl = Crawl(concurrency=1)
    a, b, c = (crawl.queue(host, slot="s") for host in "abc")
    crawl.push(c, "c1")
    assert crawl.go() == "c1"
    for queue, name in (a, "a1"), (b, "b1"):
        crawl.push(queue, name)
        assert crawl.plan() is None
    for name in "f1", "f2", "f3":
        crawl.wait(name, c)
    crawl.end("c1")
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    assert (crawl.decided(), a.place) == ([], READY)
    crawl.at(1)
    assert crawl.decided() == ["f2"]
    crawl.end("f2")
    assert (crawl.decided(), b.place) == ([], READY)
    assert crawl.go() in {"a1", "b1"}


def test_what_is_planned_gives_way_if_it_does_not_come_to_the_wire() -> None:
    """A component may hold it until another request, which waits at the wire, has ended."""
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1")
    assert crawl.plan() == "a1"
    crawl.wait("f1", a)
    crawl.wait("f2", a)
    crawl.at(0.1)
    assert crawl.decided() == []
    crawl.at(0.3)
    assert crawl.decided() == ["f1"]
    assert not crawl.send("a1")
    crawl.end("f1")
    crawl.at(0.6)
    assert crawl.decided() == ["f2"]


def test_one_waiter_at_a_time_takes_the_room_of_what_is_planned() -> None:
    """A driver may fetch what is planned, which then never comes to the wire: there is one request too many, not two."""
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2")
    assert crawl.plan_all() == ["a1", "a2"]
    crawl.wait("robots.txt", a, is_for_robotstxt=True)
    crawl.wait("f1", a)
    crawl.wait("f2", a)
    crawl.at(0.3)
    assert crawl.decided() == ["robots.txt"]
    assert crawl.send("robots.txt")
    crawl.at(5)
    assert crawl.decided() == []
    crawl.end("robots.txt")
    crawl.at(5.3)
    assert crawl.decided() == ["f1"]
    crawl.at(10)
    assert crawl.decided() == []
    crawl.end("f1")
    crawl.at(10.3)
    assert crawl.decided() == ["f2"]


def test_what_waits_is_counted_with_who_is_next() -> None:
    """Each request that waits for a robots.txt, a delay or a pause is counted once."""
    crawl = Crawl()
    assert crawl.limits.waiting() == (0, 0, None)
    crawl.push(crawl.queue("a", obeys=True), "a1", "a2")
    assert crawl.limits.waiting() == (2, 1, None)
    crawl.delay("b", 9)
    crawl.pause("c", 4)
    crawl.push(crawl.queue("b"), "b1")
    crawl.push(crawl.queue("c"), "c1", "c2")
    crawl.wait("f1", crawl.queue("c"))
    requests, hosts, first = crawl.limits.waiting()
    assert (requests, hosts, first) == (6, 3, crawl.limiter("c"))


def test_a_delay_holds_up_the_crawl_while_nothing_is_in_flight() -> None:
    """A delay has held up the crawl for the time in which requests wait for it and none is in
    flight, without what a pause takes.
    """
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.push(a, "a1", "a2", "a3")
    crawl.at(5)
    assert crawl.go() == "a1"
    crawl.at(7)
    crawl.end("a1")
    assert crawl.plan() is None
    crawl.at(12)
    assert crawl.go() == "a2"
    crawl.pause("a", 8)
    crawl.end("a2")
    crawl.at(20)
    assert crawl.go() == "a3"
    assert list(crawl.limits.slowdowns.values()) == [(10.0, "a", 3, 5.0)]


def test_a_newcomer_waits_behind_those_that_wait() -> None:
    """A request past the scheduler that comes when the limiter opens does not overtake: neither one that waits, nor the
    queue that has its turn.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.wait("f1", a)
    crawl.wait("f2", a)
    crawl.push(a, "a1", "a2")
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    assert crawl.decided() == ["f2"]
    crawl.wait("f3", a)
    crawl.end("f2")  # It is the turn of the queue.
    crawl.wait("f4", a)
    assert (crawl.decided(), crawl.go()) == ([], "a1")
    crawl.end("a1")
    assert crawl.decided() == ["f3"]

    crawl = Crawl()
    b = crawl.queue("b")
    crawl.delay("b", 10)
    crawl.at(10)
    crawl.wait("f1", b)
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    crawl.wait("f2", b)
    crawl.now = 20  # The alarm is due, and is still to come.
    crawl.wait("f3", b)
    assert crawl.decided() == []
    crawl.at(20)
    assert crawl.decided() == ["f2"]


def test_the_time_for_which_a_waiter_yields_ends_with_it() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1")
    assert crawl.plan() == "a1"
    crawl.wait("f1", a)
    crawl.leave("f1")
    crawl.at(50)
    crawl.wait("f2", a)
    assert crawl.decided() == []
    assert crawl.send("a1")


def test_the_time_that_all_delays_took_counts_however_many_hosts_have_one() -> None:
    crawl, count = Crawl(), 1_100
    for number in range(count):
        crawl.delay(f"h{number}", 10)
        crawl.push(crawl.queue(f"h{number}"), f"page of {number}")
    crawl.at(10)
    assert len(crawl.go_all()) == count
    assert crawl.limits.slowed_seconds == 10.0 * count


def test_a_site_without_a_request_is_forgotten() -> None:
    """Also a site whose robots.txt was only fetched to try the network."""
    crawl = Crawl()
    site = crawl.site("a")
    crawl.limits.begin_fetch(site)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.sites
    crawl.limits.end_fetch(site)
    crawl.limits.sweep(crawl.now)
    assert not crawl.limits.sites


def test_a_waiter_yields_once_although_it_needs_room_in_several_limiters() -> None:
    """A planned request does not come to the wire. It has the room of the host and that of the host's delay."""
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.push(a, "a1")
    crawl.at(5)
    assert crawl.plan() == "a1"
    crawl.wait("f1", a)
    crawl.at(6)
    assert crawl.decided() == ["f1"]


def test_requests_that_wait_for_a_delay_are_refused_in_too_long_a_pause() -> None:
    """Not only those that wait for the host itself: the next one would else be sent after the pause."""
    crawl = Crawl(wait_timeout=60)
    a = crawl.queue("a")
    crawl.delay("a", 5)
    crawl.push(a, "a1", "a2", "a3")
    crawl.at(5)
    assert crawl.go() == "a1"
    crawl.wait("f1", a)
    crawl.at(6)
    crawl.pause("a", 100)
    crawl.end("a1")
    assert crawl.decided() == ["F1"]
    assert crawl.plan_all() == ["A2", "A3"]


def test_requests_that_wait_for_an_address_are_refused_in_too_long_a_pause() -> None:
    crawl = Crawl(wait_timeout=60)
    a, b = crawl.queue("a"), crawl.queue("b")
    for host in a.host, b.host:
        crawl.limits.set_address(host, "192.0.2.1", 1, crawl.now)
    crawl.push(a, "a1")
    assert crawl.go() == "a1"
    crawl.push(a, "a2")
    crawl.push(b, "b1")
    crawl.pause("a", 100)
    assert crawl.plan_all() == ["A2"]
    crawl.end("a1")
    assert crawl.plan_all() == ["b1"]
