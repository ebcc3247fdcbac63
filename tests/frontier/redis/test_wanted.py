"""Queues whose robots.txt is unknown: one worker fetches it, for all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.frontier.redis.shared import (
    EXEMPT,
    HOUR,
    LEASE,
    OTHER,
    PAGES,
    SECURE,
    acquire,
    end,
    know,
    pop,
    pop_all,
    push,
    refuse,
    release,
    renew,
    retire,
    take,
    wanted,
)

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest


def test_unknown_until_it_is_learned(shared: Shared) -> None:
    """No request of a host is handed out before its robots.txt is known. One
    worker is asked to fetch it, on behalf of one of the requests; after that, all
    workers may ask the host.
    """
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1", "2")
    push(one, PAGES, "first", priority=1)
    assert pop(one) is None
    ((popped, delay),) = one.exchange(quota=8, enough=8).wanted
    assert (popped.queue, popped.data, delay) == (PAGES, b"first", 0.0)
    assert wanted(two) == []
    assert wanted(one) == []
    assert pop(two) is None
    know(one, PAGES)
    assert pop(two) == "first"
    assert shared.wanted() == {}


def test_requests_without_robotstxt_need_not_wait(shared: Shared) -> None:
    """Requests that robots.txt does not apply to go at once."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    assert wanted(worker) == []
    assert pop(worker) == "1"


def test_crawl_that_does_not_obey(shared: Shared) -> None:
    """A crawl with ROBOTSTXT_OBEY = False does not wait for robots.txt, even for queues
    that an earlier crawl left unknown.
    """
    worker = shared.worker(obeys=False)
    push(worker, PAGES, "1")
    assert wanted(worker) == []
    assert pop(worker) == "1"


def test_learning_has_bounds(shared: Shared) -> None:
    """A worker gets as many unknown queues as it asks for, oldest first, and none while
    enough queues are ready.
    """
    worker = shared.worker()
    queues = [f"h{number}\thttp://h{number}" for number in range(5)]
    for queue in queues:
        push(worker, queue, "1")
        shared.advance(0.001)
    assert wanted(worker, quota=2) == queues[:2]
    for queue in queues[:2]:
        know(worker, queue)
    assert wanted(worker, enough=2) == []
    assert wanted(worker, enough=3) == queues[2:]


def test_learned_again_when_it_has_run_out(shared: Shared) -> None:
    """When robots.txt becomes stale, requests wait until it is known again, both those that
    were ready and new ones.
    """
    worker = shared.worker()
    push(worker, PAGES, "1", "2")
    wanted(worker)
    know(worker, PAGES, holds=10.0)
    shared.advance(9.999)
    assert pop(worker, at_once=8) == "1"
    shared.advance(0.001)
    assert pop(worker, at_once=8) is None
    assert wanted(worker) == [PAGES]
    know(worker, PAGES, holds=10.0)
    assert pop(worker, at_once=8) == "2"
    shared.advance(10)
    push(worker, PAGES, "3")
    assert pop(worker, at_once=8) is None
    assert wanted(worker) == [PAGES]


def test_not_learned(shared: Shared) -> None:
    """If a worker gives up on a robots.txt because its spider closes, another
    worker gets the queue at once.
    """
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1")
    assert wanted(one) == [PAGES]
    one.unknown(PAGES)
    one.exchange()
    assert wanted(two) == [PAGES]


@pytest.mark.parametrize("says", [True, False])
def test_learning_of_a_worker_that_ends(shared: Shared, says: bool) -> None:
    """The unknown queues of a worker that ends pass to another worker: at once if it signs
    off, otherwise when its lease expires.
    """
    one, two = shared.worker(), shared.worker(lease=1000.0)
    push(one, PAGES, "1")
    wanted(one)
    if says:
        retire(one)
    else:
        shared.advance(LEASE - 0.001)
        renew(two)
        assert wanted(two) == []
        shared.advance(0.001)
        renew(two)
    assert wanted(two) == [PAGES]
    # That of the second worker.
    assert sum(key.startswith("fetching:") for key in shared.names()) == 1


def test_visiting_hours(shared: Shared) -> None:
    """No request is handed out before the Visit-time of the host
    begins; then they go at once.
    """
    worker = shared.worker()
    push(worker, PAGES, "1")
    wanted(worker)
    know(worker, PAGES, opens=600.0)
    push(worker, PAGES, "2")
    shared.advance(599.999)
    assert pop(worker) is None
    assert worker.again == 0.001
    shared.advance(0.001)
    assert pop_all(worker, at_once=2) == ["1", "2"]


def test_robotstxt_of_a_host_with_a_delay(shared: Shared) -> None:
    """If another origin of the host has a delay, the fetch of robots.txt takes a turn like
    any request. It gets one however many requests wait, with the delay before and after it.
    """
    worker = shared.worker()
    know(worker, PAGES, delay=2.0, ago=9.0)
    push(worker, PAGES, "1", "2", "3")
    push(worker, SECURE, "s")
    found = take(worker, at_once=8)
    ((popped, delay),) = worker.exchange(quota=8, enough=8).wanted
    assert (popped.queue, popped.data, delay) == (SECURE, b"s", 2.0)
    assert not acquire(worker, "x", "a.example")
    end(worker, found)
    worker.exchange()
    shared.advance(1.999)
    assert not acquire(worker, "x", "a.example")
    shared.advance(0.001)
    assert pop(worker) is None
    assert acquire(worker, "x", "a.example")
    assert pop(worker) is None
    release(worker, "x", "a.example", 2.0, fetched=True)
    shared.advance(1.999)
    assert pop(worker) is None
    shared.advance(0.001)
    assert pop(worker) == "2"


def test_turn_that_is_asked_for_and_not_taken(shared: Shared) -> None:
    """A place that is reserved for a request from outside is passed on after a few
    seconds if it is not used.
    """
    worker = shared.worker()
    know(worker, PAGES, delay=2.0, ago=9.0)
    push(worker, PAGES, "1", "2")
    end(worker, take(worker))
    worker.exchange()
    assert not acquire(worker, "x", "a.example")
    shared.advance(2)
    assert pop(worker) is None
    assert 0 < worker.again <= 1
    shared.advance(1)
    assert pop(worker) == "2"


def test_learned_and_empty_meanwhile(shared: Shared) -> None:
    """A queue whose requests were all refused while its robots.txt was fetched is
    neither ready nor unknown.
    """
    worker = shared.worker()
    push(worker, PAGES, "1")
    wanted(worker)
    (popped,) = refuse(worker, PAGES)
    know(worker, PAGES)
    assert shared.ready() == shared.wanted() == {}
    worker.done(popped.number)
    worker.exchange()
    assert shared.count() == 0


def test_refused_while_it_is_unknown(shared: Shared) -> None:
    """The requests of a host that was given up are handed out best first, to be
    refused, and leave no keys.
    """
    worker = shared.worker()
    push(worker, PAGES, "1", "2")
    push(worker, PAGES, "0", priority=1)
    wanted(worker)
    found = refuse(worker, PAGES)
    assert [popped.data for popped in found] == [b"0", b"1", b"2"]
    for popped in found:
        worker.done(popped.number)
    assert refuse(worker, PAGES) == []
    assert shared.names() == {"number", "count", "workers"}


def test_what_holds_for_ever_is_kept_for_a_day(shared: Shared) -> None:
    """A permanent decision of the user about a host is kept on the server for a day only,
    so that keys do not pile up.
    """
    worker = shared.worker()
    know(worker, OTHER, holds=float("inf"))
    assert shared.ends_in("host:b.example") <= 25 * HOUR


def test_delay_of_an_origin_that_is_gone(shared: Shared) -> None:
    """For a host with many origins, one after the other, only the delays
    of known origins are kept.
    """
    worker = shared.worker()
    for port in range(1, 30):
        know(worker, f"a.example\thttp://a.example:{port}", holds=10.0, delay=1.0)
        shared.advance(HOUR / 2)
    fields = [field for field in shared.host("a.example") if field[1] == " "]
    assert len(fields) <= 2 * 3
