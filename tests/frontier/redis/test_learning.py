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
    end,
    know,
    learn,
    learned,
    pop,
    pop_all,
    push,
    refuse,
    release,
    take,
    unknown_to,
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
    (unknown,) = unknown_to(one, 8, 8)
    assert (unknown.queue, unknown.delay, unknown.data) == (PAGES, 0.0, b"first")
    assert learn(two) == []
    assert learn(one) == []
    assert pop(two) is None
    know(one, PAGES)
    assert pop(two) == "first"
    assert shared.unknown() == {}


def test_requests_without_robotstxt_need_not_wait(shared: Shared) -> None:
    """Requests that robots.txt does not apply to go at once."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    assert learn(worker) == []
    assert pop(worker) == "1"


def test_crawl_that_does_not_obey(shared: Shared) -> None:
    """A crawl with ROBOTSTXT_OBEY = False does not wait for robots.txt, even for queues
    that an earlier crawl left unknown.
    """
    worker = shared.worker(obeys=False)
    push(worker, PAGES, "1")
    assert unknown_to(worker, 8, 8) == []
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
    assert learn(worker, quota=2) == queues[:2]
    for queue in queues[:2]:
        know(worker, queue)
    assert learn(worker, enough=2) == []
    assert learn(worker, enough=3) == queues[2:]


def test_learned_again_when_it_has_run_out(shared: Shared) -> None:
    """When robots.txt becomes stale, requests wait until it is known again, both those that
    were ready and new ones.
    """
    worker = shared.worker()
    push(worker, PAGES, "1", "2")
    learn(worker)
    know(worker, PAGES, holds=10.0)
    shared.advance(9.999)
    assert pop(worker, at_once=8) == "1"
    shared.advance(0.001)
    assert pop(worker, at_once=8) is None
    assert learn(worker) == [PAGES]
    know(worker, PAGES, holds=10.0)
    assert pop(worker, at_once=8) == "2"
    shared.advance(10)
    push(worker, PAGES, "3")
    assert pop(worker, at_once=8) is None
    assert learn(worker) == [PAGES]


def test_known_when_the_request_comes(shared: Shared) -> None:
    """A request to a host whose robots.txt is already known goes at once."""
    worker = shared.worker()
    push(worker, PAGES, "1")
    learn(worker)
    know(worker, PAGES)
    end(worker, take(worker))
    push(worker, PAGES, "2")
    assert pop(worker) == "2"


def test_not_learned(shared: Shared) -> None:
    """If a worker gives up on a robots.txt because its spider closes, another
    worker gets the queue at once.
    """
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1")
    assert learn(one) == [PAGES]
    learned(one, PAGES, None)
    assert learn(two) == [PAGES]


@pytest.mark.parametrize("says", [True, False])
def test_learning_of_a_worker_that_ends(shared: Shared, says: bool) -> None:
    """The unknown queues of a worker that ends pass to another worker: at once if it signs
    off, otherwise when its lease expires.
    """
    one, two = shared.worker(), shared.worker(lease=1000.0)
    push(one, PAGES, "1")
    learn(one)
    if says:
        one.retire()
    else:
        shared.advance(LEASE - 0.001)
        two.beat()
        assert learn(two) == []
        shared.advance(0.001)
        two.beat()
    assert learn(two) == [PAGES]
    # That of the second worker.
    assert sum(key.startswith("fetching:") for key in shared.names()) == 1


def test_visiting_hours(shared: Shared) -> None:
    """No request is handed out before the Visit-time of the host
    begins; then they go at once.
    """
    worker = shared.worker()
    push(worker, PAGES, "1")
    learn(worker)
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
    (unknown,) = unknown_to(worker, 8, 8)
    assert (unknown.queue, unknown.delay, unknown.data) == (SECURE, 2.0, b"s")
    assert not worker.acquire("x", "a.example")
    end(worker, found)
    worker.report()
    shared.advance(1.999)
    assert not worker.acquire("x", "a.example")
    shared.advance(0.001)
    assert pop(worker) is None
    assert worker.acquire("x", "a.example")
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
    worker.report()
    assert not worker.acquire("x", "a.example")
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
    learn(worker)
    popped, left = refuse(worker, PAGES)
    assert (popped.data, left) == (b"1", 0)
    know(worker, PAGES)
    assert shared.ready() == shared.unknown() == {}
    worker.done(popped.number)
    worker.report()
    assert shared.count() == 0


def test_refused_while_it_is_unknown(shared: Shared) -> None:
    """The requests of a host that was given up are handed out best first, to be
    refused, and leave no keys.
    """
    worker = shared.worker()
    push(worker, PAGES, "1", "2")
    push(worker, PAGES, "0", priority=1)
    learn(worker)
    for name, left in (("0", 2), ("1", 1), ("2", 0)):
        popped, rest = refuse(worker, PAGES)
        assert (popped.data.decode(), rest) == (name, left)
        worker.done(popped.number)
    assert refuse(worker, PAGES) == (None, 0)
    worker.report()
    assert shared.names() == {"number", "ended", "workers"}


def test_refused_and_not_done(shared: Shared) -> None:
    """A request that a worker took in order to refuse it comes back if that worker dies."""
    one, two = shared.worker(), shared.worker(lease=1000.0)
    push(one, PAGES, "1", "2")
    learn(one)
    refuse(one, PAGES)
    shared.advance(LEASE)
    assert two.beat() == 1
    assert learn(two) == [PAGES]
    know(two, PAGES)
    assert pop_all(two, at_once=8) == ["1", "2"]


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
