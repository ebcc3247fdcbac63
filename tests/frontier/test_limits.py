"""Tests of :class:`Limits`, which decide when each request may be sent. Each test runs a crawl step by step, with the
class :class:`Crawl`. ``test_limits_machine.py`` tests the limits with random steps.

A request is *planned* from the time when the scheduler hands it out until it is sent. A *waiter* is a request from
outside the scheduler, such as the download of a file (``f1``), that waits until the limits allow it. A limiter has
*room* if it allows another request now.
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


def test_a_request_is_planned_then_sent_then_ended() -> None:
    """A request counts in all of its limiters from the time when the scheduler hands it out."""
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


def test_a_planned_request_that_ends_unsent_frees_its_room_and_begins_no_delay() -> (
    None
):
    """After the scheduler has handed out a request, another component may drop it, or answer it without the network."""
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.set_delay("a", 10)
    crawl.advance_to(10)
    crawl.push(a, "a1", "a2")
    assert crawl.plan() == "a1"
    assert crawl.plan() is None
    crawl.end("a1")
    assert crawl.plan() == "a2"


def test_a_returned_request_is_the_next_one() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2")
    assert crawl.plan() == "a1"
    crawl.return_to_scheduler("a1")
    assert crawl.plan_all() == ["a1"]
    crawl.end("a1")
    assert crawl.plan_all() == ["a2"]


# Addresses.


def queues_on_one_address(
    crawl: Crawl, *hosts: str, concurrency: int = 2
) -> list[Queue]:
    """Return a queue for each of *hosts*, which have one IP address. There may be *concurrency* requests in flight to
    this address.
    """
    queues = [crawl.queue(host) for host in hosts]
    for queue in queues:
        crawl.limits.set_address(queue.host, "192.0.2.1", concurrency, crawl.now)
    return queues


def test_hosts_on_one_address_share_its_concurrency() -> None:
    """Hosts on one address take turns. Requests that the scheduler has handed out count towards the concurrency before
    they are sent. Requests for robots.txt count, too.
    """
    crawl = Crawl()
    a, b = queues_on_one_address(crawl, "a", "b")
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
    crawl.send_or_wait("robots.txt of b", b, is_for_robotstxt=True)
    crawl.end("a1")
    assert crawl.decided() + crawl.plan_and_send_all() == ["robots.txt of b"]
    crawl.end("b1")
    assert crawl.plan_and_send_all() == ["a2"]
    crawl.end("a2")
    assert crawl.plan_and_send_all() == ["b2"]
    for name in ("robots.txt of b", "b2"):
        crawl.end(name)
    assert crawl.plan_and_send_all() == ["a3", "b3"]


def test_a_delay_of_a_host_does_not_slow_other_hosts_on_its_address() -> None:
    crawl = Crawl()
    a, b = queues_on_one_address(crawl, "a", "b", concurrency=1)
    crawl.set_delay("a", 10)
    crawl.push(a, "a1")
    crawl.push(b, "b1", "b2")
    for name in ("b1", "b2"):
        assert crawl.plan_and_send_all() == [name]
        crawl.end(name)
    crawl.advance_to(10)
    assert crawl.plan_and_send_all() == ["a1"]


def test_requests_in_flight_count_at_an_address_that_becomes_known() -> None:
    """Requests count whether they are already sent or not, even if there are more of them than the address allows."""
    crawl = Crawl()
    a, b = crawl.queue("a"), crawl.queue("b")
    crawl.push(a, "a1", "a2", "a3", "a4")
    crawl.push(b, "b1")
    assert [crawl.plan(), crawl.plan(), crawl.plan()] == ["a1", "b1", "a2"]
    crawl.send("a1")
    queues_on_one_address(crawl, "a", "b", concurrency=2)
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
    assert crawl.plan_and_send_all() == ["a3"]
    crawl.end("a2")
    crawl.end("a3")
    assert crawl.plan_and_send_all() == ["a4"]
    crawl.end("a4")
    assert (address.planned, address.sent) == (0, 0)


def test_a_host_that_moves_waits_at_its_new_address() -> None:
    """When a host gets a new address, its waiting requests no longer wait for the old address, but only for the new
    one. Requests in flight count at both addresses. Later, the host moves back and forth.
    """
    crawl = Crawl()
    a, b = queues_on_one_address(crawl, "a", "b", concurrency=1)
    crawl.push(b, "b1")
    crawl.push(a, "a1", "a2", "a3")
    crawl.send_or_wait("robots.txt of a", a, is_for_robotstxt=True)
    assert crawl.decided() == ["robots.txt of a"]
    assert crawl.plan_and_send_all() == []
    crawl.send_or_wait("file", a)
    crawl.limits.set_address(a.host, "192.0.2.2", 2, crawl.now)
    old, new = (crawl.limits.addresses[f"192.0.2.{n}"] for n in (1, 2))
    assert (a.host.address, b.host.address) == (new, old)
    assert crawl.decided() == ["file"]
    assert crawl.plan_and_send_all() == []
    crawl.end("robots.txt of a")
    assert crawl.plan_and_send_all() == ["b1", "a1"]
    crawl.limits.set_address(a.host, "192.0.2.1", 2, crawl.now)
    crawl.limits.set_address(a.host, "192.0.2.2", 2, crawl.now)
    for name in ("file", "b1", "a1"):
        crawl.end(name)
    assert [(address.planned, address.sent) for address in (old, new)] == [(0, 0)] * 2
    assert crawl.plan_and_send_all() == ["a2", "a3"]


def test_addresses_without_a_host_are_forgotten() -> None:
    """A host without requests is kept for half a minute, together with its address. So the limit of the address applies
    to the next request within this time. Otherwise, the address would be unknown, because robots.txt is not fetched
    again before the request.
    """
    crawl = Crawl()
    a, _ = queues_on_one_address(crawl, "a", "b")
    crawl.push(a, "a1")
    assert crawl.plan_and_send() == "a1"
    crawl.limits.set_address(a.host, "192.0.2.2", 2, crawl.now)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.addresses.keys() == {"192.0.2.1", "192.0.2.2"}
    crawl.end("a1")
    crawl.advance_to(29.9)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.limiters.keys() == {"a"}
    assert crawl.limits.addresses.keys() == {"192.0.2.2"}
    crawl.advance_to(30)
    crawl.limits.sweep(crawl.now)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.limiters == {}
    assert crawl.limits.addresses == {}


# Delays.


def test_a_delay_is_kept_between_the_end_of_a_request_and_the_start_of_the_next() -> (
    None
):
    """The first delay begins when the fetch of robots.txt has ended."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.push(a, "a1", "a2")
    limiter = a.host.crawl_delay
    assert repr(limiter) == (
        "<Limiter a delay: 0 planned, 0 sent of 1; delay 5; next at 5; 0 wait, 1 queues parked>"
    )
    assert crawl.plan_and_send() is None
    assert crawl.limits.alarms.first_at == 5
    crawl.advance_to(4.9)
    assert crawl.plan_and_send() is None
    crawl.advance_to(5)
    assert crawl.plan_and_send_all() == ["a1"]
    crawl.advance_to(8)
    crawl.end("a1")
    assert repr(limiter) == (
        "<Limiter a delay: 0 planned, 0 sent of 1; delay 5; next at 13; 0 wait, 1 queues parked>"
    )
    crawl.advance_to(12.9)
    assert crawl.plan_and_send() is None
    crawl.advance_to(13)
    assert crawl.plan_and_send_all() == ["a2"]


def test_the_longest_delay_of_the_origins_of_a_host_applies() -> None:
    """The delay for an origin ends when its robots.txt no longer asks for a delay."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.set_delay("a", 3, "https")
    limiter = a.host.crawl_delay
    assert limiter is not None
    assert limiter.delay == 5
    crawl.set_delay("a", 0)
    assert limiter.delay == 3
    crawl.set_delay("a", 0, "https")
    assert (limiter.delay, limiter.concurrency_now, limiter.next_at) == (0, inf, -inf)
    crawl.push(a, "a1", "a2")
    assert crawl.plan_and_send_all() == ["a1", "a2"]


def test_a_new_delay_begins_when_the_last_request_in_flight_ends() -> None:
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3")
    assert [crawl.plan_and_send(), crawl.plan_and_send()] == ["a1", "a2"]
    crawl.set_delay("a", 5)
    assert crawl.plan_and_send() is None
    crawl.advance_to(10)
    crawl.end("a1")
    crawl.advance_to(16)
    assert crawl.plan_and_send() is None
    crawl.end("a2")
    crawl.advance_to(20.9)
    assert crawl.plan_and_send() is None
    crawl.advance_to(21)
    assert crawl.plan_and_send() == "a3"


def test_a_second_fetch_with_the_same_delay_does_not_restart_the_delay() -> None:
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.advance_to(4)
    crawl.set_delay("a", 5)
    crawl.push(a, "a1")
    crawl.advance_to(5)
    assert crawl.plan_and_send() == "a1"


def test_requests_that_are_exempt_from_delays_still_keep_pauses() -> None:
    crawl = Crawl()
    exempt = crawl.queue("a", keeps_delay=False)
    crawl.set_delay("a", 5)
    crawl.push(exempt, "x1", "x2", "x3")
    assert [crawl.plan_and_send(), crawl.plan_and_send()] == ["x1", "x2"]
    crawl.pause("a", 7)
    assert crawl.plan_and_send() is None
    crawl.end("x1")
    crawl.end("x2")
    assert crawl.plan_and_send() is None
    crawl.advance_to(7)
    assert crawl.plan_and_send() == "x3"


def test_requests_that_are_exempt_from_delays_begin_none_if_it_becomes_known_later() -> (
    None
):
    """The delay becomes known while an exempt request is in flight: the end of this request begins no delay."""
    crawl = Crawl()
    exempt, a = crawl.queue("a", keeps_delay=False), crawl.queue("a")
    crawl.push(exempt, "x1")
    assert crawl.plan_and_send() == "x1"
    crawl.set_delay("a", 5)
    crawl.push(a, "a1")
    crawl.advance_to(5)
    crawl.end("x1")
    assert crawl.plan_and_send() == "a1"


def test_a_request_that_was_withdrawn_begins_no_delay() -> None:
    """A withdrawn request was removed from its download slot before it reached the network."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.advance_to(5)
    crawl.push(a, "a1", "a2")
    assert crawl.plan_and_send() == "a1"
    crawl.advance_to(6)
    crawl.end("a1", is_withdrawn=True)
    assert a.host.ended_at == -inf
    assert crawl.plan_and_send() == "a2"


# Pauses.


def test_after_a_pause_each_success_raises_the_concurrency_by_one() -> None:
    """One request at a time is sent after a pause. The back-off ends when the normal concurrency is reached."""
    crawl = Crawl(concurrency=3)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3", "a4", "a5", "a6", "a7")
    assert crawl.plan_and_send_all() == ["a1", "a2", "a3"]
    assert crawl.pause("a", 10)
    for name in "a1", "a2", "a3":
        crawl.end(name)
    assert repr(a.host) == (
        "<Limiter a: 0 planned, 0 sent of 1; next at 10; 0 wait, 1 queues parked>"
    )
    assert crawl.plan_and_send() is None
    crawl.advance_to(10)
    assert crawl.plan_and_send_all() == ["a4"]
    crawl.end("a4")
    assert crawl.succeed("a")
    assert a.host.concurrency_now == 2
    assert crawl.plan_and_send_all() == ["a5", "a6"]
    crawl.end("a5")
    assert not crawl.succeed("a")
    assert (a.host.concurrency_now, a.host.back_off) == (3, None)
    assert crawl.plan_and_send_all() == ["a7"]


def test_an_answer_to_a_request_from_before_the_pause_is_no_success() -> None:
    crawl = Crawl(concurrency=3)
    a = crawl.queue("a")
    crawl.pause("a", 10)
    crawl.advance_to(11)
    assert not crawl.limits.succeeded(
        a.host, crawl.now, sent_at=9.9, normal_concurrency=3
    )
    assert a.host.concurrency_now == 1
    assert crawl.succeed("a")


def test_pauses_without_retry_after_double_up_to_the_cap() -> None:
    """The pauses last 1, 2, 4, ... seconds. A 429 begins no new pause if it answers a request that was sent before the
    last pause ended.
    """
    crawl = Crawl()
    a = crawl.queue("a")
    pauses = []
    for _ in range(5):
        assert crawl.pause("a", cap=6)
        assert not crawl.pause("a", cap=6, sent_at=crawl.now - 0.1)
        pauses.append(a.host.next_at - crawl.now)
        crawl.advance_to(a.host.next_at)
    assert pauses == [1, 2, 4, 6, 6]
    crawl.succeed("a")
    crawl.pause("a", cap=6)
    assert a.host.next_at - crawl.now == 1


def test_a_slow_answer_from_before_a_success_begins_the_first_pause() -> None:
    """The host is paused, answers a request, and then answers an older request with 429. This begins a pause that is as
    short as the first one, because the 429 says nothing about the time after the success.
    """
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.pause("a", cap=60)
    crawl.advance_to(2)
    crawl.succeed("a")
    assert not crawl.pause("a", cap=60, sent_at=0.5)
    assert a.host.next_at == crawl.now + 1


def test_a_back_off_ends_at_the_concurrency_of_the_download_slot() -> None:
    """The host's requests use a download slot with another name. Only the slot limits their number, to two at a time.
    So the host's back-off ends when the host allows two requests at a time.
    """
    crawl = Crawl()
    host = crawl.limiter("a")
    assert host.concurrency == inf
    crawl.pause("a", 5)
    crawl.advance_to(6)
    assert crawl.limits.succeeded(host, 6, sent_at=6, normal_concurrency=2)
    assert host.back_off is None


def test_a_longer_delay_is_measured_from_the_last_answer() -> None:
    """When robots.txt is fetched again, it may ask for a longer delay."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 1)
    crawl.push(a, "a1", "a2")
    crawl.advance_to(1)
    assert crawl.plan_and_send() == "a1"
    crawl.end("a1")
    crawl.set_delay("a", 60)
    crawl.advance_to(3)
    assert crawl.plan_and_send() is None
    crawl.advance_to(61)
    assert crawl.plan_and_send() == "a2"


def test_a_pause_is_never_shortened_and_never_shorter_than_the_delay() -> None:
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.pause("a", 30)
    crawl.advance_to(1)
    crawl.pause("a", 2, sent_at=0)
    assert a.host.next_at == 30
    b = crawl.queue("b")
    crawl.set_delay("b", 20)
    crawl.pause("b")
    assert b.host.next_at == 21


def test_forgotten_failures_do_not_end_a_back_off_that_the_host_requested() -> None:
    """The host has asked for a pause, and has answered no request since. Then a connection to the host fails, but only
    because the crawler's own network is gone, so the failure is forgotten. The pause for which the host asked is not
    forgotten: after it, one request at a time is sent.
    """
    crawl = Crawl(concurrency=8)
    a = crawl.queue("a")
    crawl.pause("a", 10)
    crawl.advance_to(20)
    crawl.pause("a", has_failed=True)
    crawl.limits.forget_failures(a.host, crawl.now)
    assert a.host.next_at <= crawl.now
    assert a.host.concurrency_now == 1


def test_failures_pause_a_host_until_they_are_forgotten() -> None:
    """A failed connection pauses the host as a 503 does. If the network of the crawler was the cause, the failure is
    forgotten. Then only a pause for which the host asked continues.
    """
    crawl = Crawl()
    a, b = crawl.queue("a"), crawl.queue("b")
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    crawl.pause("a", has_failed=True)
    crawl.pause("b", 5)
    crawl.pause("b", 9, has_failed=True)
    assert crawl.plan_and_send() is None
    assert (a.host.next_at, b.host.next_at) == (1, 9)
    for queue in a, b:
        crawl.limits.forget_failures(queue.host, crawl.now)
    assert (a.host.next_at, b.host.next_at) == (-inf, 5)
    assert a.host.back_off is None
    assert crawl.plan_and_send_all() == ["a1"]
    crawl.advance_to(5)
    assert crawl.plan_and_send_all() == ["b1"]


def test_requests_are_refused_during_a_pause_that_is_too_long() -> None:
    """The scheduler hands the requests out to be refused, even if the host has as many requests in flight as it may
    have. After the pause, one request is sent.
    """
    crawl = Crawl(wait_timeout=60, concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3", "a4")
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("f2", a)
    assert crawl.decided() == ["f1"]
    assert crawl.plan() is None
    crawl.pause("a", 61)
    assert crawl.decided() == ["F2"]
    assert [crawl.plan(), crawl.plan()] == ["A1", "A2"]
    crawl.send_or_wait("f3", a)
    assert crawl.decided() == ["F3"]
    assert a.host.planned == 0
    crawl.end("f1")
    crawl.advance_to(61)
    assert crawl.plan_and_send_all() == ["a3"]


def test_requests_are_refused_when_several_pauses_together_are_too_long() -> None:
    crawl = Crawl(wait_timeout=10)
    a = crawl.queue("a")
    crawl.push(a, "a1")
    for number in range(4):
        crawl.pause("a", 3)
        assert crawl.plan() is None
        crawl.advance_to(3 * (number + 1))
        assert crawl.plan_and_send() == "a1"
        crawl.end("a1")
        crawl.push(a, "a1")
    crawl.pause("a", 3)
    assert crawl.plan() == "A1"


def test_a_pause_of_an_earlier_run_continues() -> None:
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.limits.resume_pause(a.host, crawl.now, until=-1)
    assert a.host.back_off is None
    crawl.limits.resume_pause(a.host, crawl.now, until=8)
    crawl.push(a, "a1", "a2")
    assert crawl.plan_and_send() is None
    crawl.advance_to(8)
    assert crawl.plan_and_send_all() == ["a1"]


# Queues and waiters (requests outside the scheduler) at one limiter.


def test_queues_and_waiters_take_turns() -> None:
    """In a download slot with concurrency 1, neither requests of the scheduler (``a1``) nor requests from outside the
    scheduler (``f1``) have to wait forever.
    """
    crawl = Crawl(concurrency=1)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    crawl.push(a, "a1", "a2", "a3")
    crawl.push(b, "b1", "b2", "b3")
    order = [crawl.plan_and_send()]
    for name in "f1", "f2", "f3", "f4":
        crawl.send_or_wait(name, a)
    while len(order) < 8:
        crawl.end(str(order[-1]))
        order += crawl.decided()
        name = (
            crawl.plan_and_send()
        )  # The engine asks the scheduler when a request has ended.
        order += [name] if name else []
    assert order == ["a1", "f1", "b1", "f2", "a2", "f3", "b2", "f4"]


def test_the_next_waiter_takes_the_turn_of_a_queue_that_waits_elsewhere() -> None:
    """Queues and files take turns in a download slot. After the file ``f2``, it is the turn of the queue of the host
    ``a``, but this host is paused. So the file ``f3`` is sent instead.
    """
    crawl = Crawl(concurrency=1)
    a, c = crawl.queue("a", slot="s"), crawl.queue("c", slot="s")
    crawl.send_or_wait("f1", c)
    assert crawl.decided() == ["f1"]
    crawl.push(a, "a1")
    crawl.send_or_wait("f2", c)
    crawl.end("f1")
    assert crawl.decided() == ["f2"]
    crawl.send_or_wait("f3", c)
    crawl.pause("a", 10)
    crawl.end("f2")
    assert (crawl.decided(), crawl.plan()) == (["f3"], None)
    assert a.place is a.host


def test_a_parked_queue_of_a_paused_host_does_not_block_other_queues_of_its_slot() -> (
    None
):
    crawl = Crawl(concurrency=1)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    c = crawl.queue("c", slot="s")
    crawl.push(c, "c1")
    assert crawl.plan_and_send() == "c1"
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    assert crawl.plan() is None
    assert (
        repr(a.slot) == "<Limiter s: 0 planned, 1 sent of 1; 0 wait, 2 queues parked>"
    )
    crawl.pause("a", 10)
    crawl.end("c1")
    assert crawl.plan_and_send_all() == ["b1"]
    assert (a.place, b.place) == (a.host, None)


def test_a_ready_queue_whose_host_is_paused_leaves_its_turn_to_the_next_queue() -> None:
    """The host may be paused after the queue became ready, and before the scheduler is called."""
    crawl = Crawl(concurrency=1)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    c = crawl.queue("c", slot="s")
    crawl.push(c, "c1")
    assert crawl.plan_and_send() == "c1"
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    assert crawl.plan() is None
    crawl.end("c1")
    assert a.place is READY
    crawl.pause("a", 10)
    assert crawl.plan_and_send_all() == ["b1"]


def test_a_cancelled_waiter_does_not_block_other_waiters() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    for name in "f1", "f2", "f3":
        crawl.send_or_wait(name, a)
    assert crawl.decided() == ["f1"]
    crawl.cancel_waiter("f2")
    crawl.end("f1")
    assert crawl.decided() == ["f3"]


def test_a_robotstxt_with_is_first_goes_before_other_waiters() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    for name in "r1", "r2":
        crawl.send_or_wait(name, a, is_for_robotstxt=True)
    crawl.send_or_wait("r3", a, is_for_robotstxt=True, is_first=True)
    assert crawl.decided() == ["r1"]
    crawl.end("r1")
    assert crawl.decided() == ["r3"]


# Order of download slots and queues.


def test_the_slot_with_the_fewest_requests_in_flight_is_next() -> None:
    crawl = Crawl(concurrency=4)
    a, b = crawl.queue("a"), crawl.queue("b")
    crawl.push(a, "a1", "a2", "a3")
    assert [crawl.plan_and_send(), crawl.plan_and_send()] == ["a1", "a2"]
    crawl.push(b, "b1", "b2", "b3")
    assert [crawl.plan_and_send(), crawl.plan_and_send()] == ["b1", "b2"]
    assert crawl.plan_and_send_all() == ["a3", "b3"]


def test_the_slot_that_has_waited_longest_is_next_among_equally_busy_slots() -> None:
    """Among the queues of one slot, the queue that has waited longest is next, too."""
    crawl = Crawl()
    for host in "abc":
        crawl.push(crawl.queue(host), f"{host}1", f"{host}2")
    order = []
    for _ in range(6):
        name = crawl.plan_and_send()
        assert name is not None
        order.append(name)
        crawl.end(name)
    assert order == ["a1", "b1", "c1", "a2", "b2", "c2"]
    for host in "def":
        crawl.push(crawl.queue(host, slot="s"), f"{host}1", f"{host}2")
    assert crawl.plan_and_send_all() == ["d1", "e1", "f1", "d2", "e2", "f2"]


# Download slots.


def test_a_download_slot_with_another_name_limits_several_hosts() -> None:
    crawl = Crawl(concurrency=2)
    a, b = crawl.queue("a", slot="s"), crawl.queue("b", slot="s")
    crawl.push(a, "a1", "a2")
    crawl.push(b, "b1", "b2")
    assert crawl.plan_and_send_all() == ["a1", "b1"]
    assert [limiter.key for limiter in a.limiters] == ["a", "s", "network"]
    assert (
        repr(a.slot) == "<Limiter s: 0 planned, 2 sent of 2; 0 wait, 2 queues parked>"
    )
    crawl.end("b1")
    assert crawl.plan_and_send_all() == ["a2"]
    crawl.end("a1")
    assert crawl.plan_and_send_all() == ["b2"]


def test_no_request_is_planned_while_another_one_waits_in_its_download_slot() -> None:
    """DOWNLOAD_DELAY is a delay of Scrapy's download slot, in which a request waits until the delay has passed."""
    crawl = Crawl()
    a = crawl.queue("a")
    a.slot.slot_free_at = 3.0
    crawl.push(a, "a1")
    assert (crawl.plan(), crawl.limits.alarms.first_at) == (None, 3)
    crawl.advance_to(3)
    assert crawl.plan() == "a1"


# Deletion of unused limiters and sites (sweep), pauses and requests of other workers, and the order of queues, waiters
# and planned requests.


def test_sweep_forgets_only_unused_limiters_sites_and_queues() -> None:
    crawl = Crawl()
    for host in "abcd":
        crawl.push(crawl.queue(host, obeys=True), f"{host}1")
        crawl.learn_rules(host)
    crawl.set_delay("b", 5)
    crawl.pause("c", 7)
    crawl.advance_to(10)
    assert sorted(crawl.plan_and_send_all()) == ["a1", "b1", "c1", "d1"]
    for name in "a1", "b1", "c1":
        crawl.end(name)
    assert crawl.limits.sweep(crawl.now)
    # A request of d is in flight, c has requested a pause, and the delay of b has not passed.
    assert sorted(crawl.limits.limiters) == ["b", "c", "d"]
    assert sorted(origin.host for origin in crawl.limits.sites) == ["b", "c", "d"]
    assert not crawl.limits.sweep(crawl.now)
    crawl.advance_to(46)
    assert crawl.limits.sweep(crawl.now)
    assert sorted(crawl.limits.limiters) == ["c", "d"]
    crawl.advance_to(608)
    crawl.end("d1")
    assert crawl.limits.sweep(crawl.now)
    assert (crawl.limits.limiters, crawl.limits.sites, crawl.limits.queues) == (
        {},
        {},
        {},
    )


def test_sweep_keeps_a_host_whose_robotstxt_waits_for_the_network() -> None:
    """Otherwise, the next request to the host would get a second limiter, which would not count the request for
    robots.txt.
    """
    crawl = Crawl()
    queue = crawl.queue("a")
    crawl.limits.network.robotstxt.set_concurrency(0)
    waiter = Waiter(InFlight(queue, is_for_robotstxt=True), counts_as_planned=True)
    crawl.limits.wait(waiter, crawl.now)
    crawl.limits.sweep(crawl.now + 700)
    assert crawl.limits.limiters["a"] is queue.host
    assert crawl.limits.queues[queue.key] is queue


def test_two_pauses_by_other_workers_do_not_add_up() -> None:
    """Between the two pauses, the host may have answered another worker. So the second pause counts as a first pause,
    and requests wait for its end. If both counted as one pause since second 0, requests would be refused.
    """
    crawl = Crawl(wait_timeout=30)
    host = crawl.limiter("a")
    crawl.limits.resume_pause(host, crawl.now, until=crawl.now + 5)
    crawl.limits.resume_pause(host, crawl.now + 40, until=crawl.now + 45)
    assert host.next_at == crawl.now + 45
    assert host.refuses_until < crawl.now


def test_a_success_does_not_end_a_hold_for_another_worker() -> None:
    """A hold is the time in which a worker sends nothing to a host, because another worker sends requests to it."""
    crawl = Crawl()
    host = crawl.limiter("a")
    crawl.pause("a", 5)
    crawl.limits.hold(host, crawl.now + 60, crawl.now)
    assert crawl.limits.succeeded(
        host, crawl.now + 6, sent_at=crawl.now + 5, normal_concurrency=9
    )
    assert host.next_at == crawl.now + 60


def test_sweep_forgets_a_pause_of_a_host_without_a_queue() -> None:
    """A spider, or an earlier run, may have paused a host that has no queue."""
    crawl = Crawl()
    crawl.pause("a", 7)
    crawl.advance_to(606)
    assert not crawl.limits.sweep(crawl.now)
    crawl.advance_to(608)
    assert crawl.limits.sweep(crawl.now)
    assert not crawl.limits.limiters


def test_sweep_keeps_a_slot_while_any_queue_needs_it() -> None:
    crawl = Crawl()
    crawl.queue("a", slot="s")
    crawl.push(crawl.queue("b", slot="s"), "b1")
    assert crawl.limits.sweep(crawl.now)
    assert list(crawl.limits.limiters) == ["s", "b"]
    assert crawl.plan_and_send() == "b1"
    assert not crawl.limits.sweep(crawl.now)
    crawl.end("b1")
    assert crawl.limits.sweep(crawl.now)
    assert not crawl.limits.limiters


def test_sweep_keeps_a_site_while_a_request_waits_for_its_rules() -> None:
    """The site has two empty queues. A sweep may delete one of them, but not both: the site would be deleted with the
    last queue, although a request waits for its rules.
    """
    crawl = Crawl()
    a = crawl.queue("a", obeys=True)
    crawl.queue("a", slot="s", obeys=True)
    crawl.wait_for_rules("f1", a)
    crawl.limits.sweep(crawl.now)
    assert crawl.site("a") is a.site
    crawl.learn_rules("a")
    assert crawl.decided() == ["f1"]


def test_sweep_keeps_the_delay_of_requests_on_their_way_to_the_wire() -> None:
    """Another component may delay a request on its way to the wire for any length of time."""
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    entry = crawl.limits.in_flight["f1"] = InFlight(a)
    crawl.advance_to(1000)
    assert not crawl.limits.sweep(crawl.now)
    assert crawl.limits.limiters["a"] is a.host
    crawl.limits.end(entry, crawl.now)
    del crawl.limits.in_flight["f1"]
    assert crawl.limits.sweep(crawl.now)
    assert not crawl.limits.limiters


def test_the_turn_of_a_queue_ends_if_the_scheduler_is_not_called() -> None:
    """While the downloader is full, Scrapy does not call the scheduler, so the queue does not use its turn. If the
    downloader is full of waiting files, none of them would be sent until the queue has had its turn. So the turn ends
    after 0.2 seconds, and the next file is sent.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.push(a, "a1")
    for name in "f1", "f2", "f3":
        crawl.send_or_wait(name, a)
    crawl.advance_to(5)
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    crawl.advance_to(10)
    assert (a.place, crawl.decided()) == (READY, [])
    crawl.advance_to(10.3)
    assert crawl.decided() == ["f2"]
    crawl.end("f2")
    crawl.advance_to(20)
    assert crawl.decided() == ["f3"]
    crawl.end("f3")
    crawl.advance_to(30)
    assert crawl.plan_and_send() == "a1"


def test_the_next_queue_has_its_turn_after_an_unused_turn_of_another_queue() -> None:
    """Queues and waiters take turns in one download slot. The queue of ``a`` does not use its turn, because the
    scheduler is not called. After the next waiter, it is the turn of the queue of ``b``.
    """
    crawl = Crawl(concurrency=1)
    a, b, c = (crawl.queue(host, slot="s") for host in "abc")
    crawl.push(c, "c1")
    assert crawl.plan_and_send() == "c1"
    for queue, name in (a, "a1"), (b, "b1"):
        crawl.push(queue, name)
        assert crawl.plan() is None
    for name in "f1", "f2", "f3":
        crawl.send_or_wait(name, c)
    crawl.end("c1")
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    assert (crawl.decided(), a.place) == ([], READY)
    crawl.advance_to(1)
    assert crawl.decided() == ["f2"]
    crawl.end("f2")
    assert (crawl.decided(), b.place) == ([], READY)
    assert crawl.plan_and_send() in {"a1", "b1"}


def test_a_planned_request_that_does_not_reach_the_wire_lets_waiters_go_first() -> None:
    """The scheduler has handed out ``a1``, but a component may hold ``a1`` back until the file ``f1`` has been
    downloaded. So ``f1`` waits for ``a1`` only 0.2 seconds, and is then sent first. Otherwise, both would wait forever.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1")
    assert crawl.plan() == "a1"
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("f2", a)
    crawl.advance_to(0.1)
    assert crawl.decided() == []
    crawl.advance_to(0.3)
    assert crawl.decided() == ["f1"]
    assert not crawl.send("a1")
    crawl.end("f1")
    crawl.advance_to(0.6)
    assert crawl.decided() == ["f2"]


def test_one_waiter_at_a_time_takes_the_room_of_planned_requests() -> None:
    """The scheduler has handed out two requests, but they are never sent: a browser driver may have fetched them
    itself. Waiters are sent all the same, but one at a time. So at most one request too many is on the network.
    """
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2")
    assert crawl.plan_all() == ["a1", "a2"]
    crawl.send_or_wait("robots.txt", a, is_for_robotstxt=True)
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("f2", a)
    crawl.advance_to(0.3)
    assert crawl.decided() == ["robots.txt"]
    assert crawl.send("robots.txt")
    crawl.advance_to(5)
    assert crawl.decided() == []
    crawl.end("robots.txt")
    crawl.advance_to(5.3)
    assert crawl.decided() == ["f1"]
    crawl.advance_to(10)
    assert crawl.decided() == []
    crawl.end("f1")
    crawl.advance_to(10.3)
    assert crawl.decided() == ["f2"]


def test_one_robotstxt_at_a_time_takes_the_room_of_planned_requests() -> None:
    """A component may hold back a request for robots.txt before the wire. It is only planned then, but already takes the
    room of another planned request.
    """
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2")
    assert crawl.plan_all() == ["a1", "a2"]
    for name in ("r1", "r2"):
        crawl.send_or_wait(name, a, is_for_robotstxt=True)
    crawl.advance_to(5)
    assert crawl.decided() == ["r1"]
    assert crawl.send("r1")
    crawl.end("r1")
    crawl.advance_to(5.3)
    assert crawl.decided() == ["r2"]
    crawl.end("r2")  # It was cancelled before it was sent.
    crawl.send_or_wait("f1", a)
    crawl.advance_to(5.6)
    assert crawl.decided() == ["f1"]


def test_the_scheduler_goes_first_again_after_a_waiter_took_reserved_room() -> None:
    crawl = Crawl(concurrency=2)
    a = crawl.queue("a")
    crawl.push(a, "a1", "a2", "a3")
    assert crawl.plan_all() == ["a1", "a2"]
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("f2", a)
    crawl.advance_to(0.3)
    assert crawl.decided() == ["f1"]
    crawl.advance_to(5)
    crawl.end("a1")  # A component dropped this request before it was sent.
    assert crawl.decided() == []
    crawl.end("f1")
    assert crawl.decided() == []
    assert crawl.plan() == "a3"


def test_waiting_requests_are_counted_with_the_limiter_that_opens_first() -> None:
    """For the log, each request that waits for a robots.txt, a delay or a pause is counted once."""
    crawl = Crawl()
    assert crawl.limits.waiting() == (0, 0, None)
    crawl.push(crawl.queue("a", obeys=True), "a1", "a2")
    assert crawl.limits.waiting() == (2, 1, None)
    crawl.set_delay("b", 9)
    crawl.pause("c", 4)
    crawl.push(crawl.queue("b"), "b1")
    crawl.push(crawl.queue("c"), "c1", "c2")
    crawl.send_or_wait("f1", crawl.queue("c"))
    requests, hosts, first = crawl.limits.waiting()
    assert (requests, hosts, first) == (6, 3, crawl.limiter("c"))


def test_the_slowdown_by_a_delay_is_the_time_without_a_request_in_flight() -> None:
    """``a1`` and ``a2`` each wait 5 seconds for the delay while no request is in flight. ``a3`` waits for the end of a
    pause that is longer than the delay, so its wait is no slowdown by the delay.
    """
    crawl = Crawl()
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.push(a, "a1", "a2", "a3")
    crawl.advance_to(5)
    assert crawl.plan_and_send() == "a1"
    crawl.advance_to(7)
    crawl.end("a1")
    assert crawl.plan() is None
    crawl.advance_to(12)
    assert crawl.plan_and_send() == "a2"
    crawl.pause("a", 8)
    crawl.end("a2")
    crawl.advance_to(20)
    assert crawl.plan_and_send() == "a3"
    assert list(crawl.limits.slowdowns.values()) == [(10.0, "a", 3, 5.0)]


def test_a_newcomer_overtakes_neither_waiters_nor_the_queue_that_has_its_turn() -> None:
    """A newcomer is a request from outside the scheduler that arrives at the moment when the limiter allows a request
    again. Other requests have waited for this moment.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("f2", a)
    crawl.push(a, "a1", "a2")
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    assert crawl.decided() == ["f2"]
    crawl.send_or_wait("f3", a)
    crawl.end("f2")  # Now the queue has its turn.
    crawl.send_or_wait("f4", a)
    assert (crawl.decided(), crawl.plan_and_send()) == ([], "a1")
    crawl.end("a1")
    assert crawl.decided() == ["f3"]

    crawl = Crawl()
    b = crawl.queue("b")
    crawl.set_delay("b", 10)
    crawl.advance_to(10)
    crawl.send_or_wait("f1", b)
    assert crawl.decided() == ["f1"]
    crawl.end("f1")
    crawl.send_or_wait("f2", b)
    crawl.now = 20  # The alarm is due, but has not gone off yet.
    crawl.send_or_wait("f3", b)
    assert crawl.decided() == []
    crawl.advance_to(20)
    assert crawl.decided() == ["f2"]


def test_the_time_for_which_a_waiter_yields_starts_again_for_the_next_waiter() -> None:
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.push(a, "a1")
    assert crawl.plan() == "a1"
    crawl.send_or_wait("f1", a)
    crawl.cancel_waiter("f1")
    crawl.advance_to(50)
    crawl.send_or_wait("f2", a)
    assert crawl.decided() == []
    assert crawl.send("a1")


def test_the_slowdown_by_all_delays_includes_hosts_that_are_dropped_from_the_statistics() -> (
    None
):
    """The statistics keep the 1,000 slowest hosts. The total time counts all hosts."""
    crawl, count = Crawl(), 1_100
    for number in range(count):
        crawl.set_delay(f"h{number}", 10)
        crawl.push(crawl.queue(f"h{number}"), f"page of {number}")
    crawl.advance_to(10)
    assert len(crawl.plan_and_send_all()) == count
    assert crawl.limits.slowed_seconds == 10.0 * count


def test_sweep_forgets_a_site_without_requests_after_its_fetch() -> None:
    """No request ever comes to the site: its robots.txt was fetched only as a test whether the network of the crawler
    works again.
    """
    crawl = Crawl()
    site = crawl.site("a")
    crawl.limits.begin_fetch(site)
    crawl.limits.sweep(crawl.now)
    assert crawl.limits.sites
    crawl.limits.end_fetch(site)
    crawl.limits.sweep(crawl.now)
    assert not crawl.limits.sites


def test_a_waiter_yields_once_although_it_needs_room_in_several_limiters() -> None:
    """The scheduler has handed out ``a1``, which is not sent. So two limiters have no room for the file ``f1``: that of
    the host, and that of its crawl delay. ``f1`` lets ``a1`` go first for 0.2 seconds, but not again at the second
    limiter.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.push(a, "a1")
    crawl.advance_to(5)
    assert crawl.plan() == "a1"
    crawl.send_or_wait("f1", a)
    crawl.advance_to(6)
    assert crawl.decided() == ["f1"]


def test_requests_that_wait_for_a_delay_are_refused_in_a_pause_that_is_too_long() -> (
    None
):
    """The host asks for a pause that is longer than the wait timeout. Requests that already wait for the crawl delay
    are refused at once. Otherwise, they would wait until the pause is over.
    """
    crawl = Crawl(wait_timeout=60)
    a = crawl.queue("a")
    crawl.set_delay("a", 5)
    crawl.push(a, "a1", "a2", "a3")
    crawl.advance_to(5)
    assert crawl.plan_and_send() == "a1"
    crawl.send_or_wait("f1", a)
    crawl.advance_to(6)
    crawl.pause("a", 100)
    crawl.end("a1")
    assert crawl.decided() == ["F1"]
    assert crawl.plan_all() == ["A2", "A3"]


def test_requests_that_wait_for_an_address_are_refused_in_a_pause_that_is_too_long() -> (
    None
):
    crawl = Crawl(wait_timeout=60)
    a, b = crawl.queue("a"), crawl.queue("b")
    for host in a.host, b.host:
        crawl.limits.set_address(host, "192.0.2.1", 1, crawl.now)
    crawl.push(a, "a1")
    assert crawl.plan_and_send() == "a1"
    crawl.push(a, "a2")
    crawl.push(b, "b1")
    crawl.pause("a", 100)
    assert crawl.plan_all() == ["A2"]
    crawl.end("a1")
    assert crawl.plan_all() == ["b1"]
