"""Workers that die, stop, come back or lose answers: no request is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.frontier.redis.shared import (
    EXEMPT,
    HOUR,
    LATE,
    LEASE,
    OTHER,
    PAGES,
    SEEN,
    end,
    know,
    learn,
    pop,
    pop_all,
    push,
    refuse,
    release,
    take,
)

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest


def test_requests_of_a_dead_worker_come_back(shared: Shared) -> None:
    """The requests of a dead worker return to their old positions in the queue, its places
    at hosts are free, and the heartbeat returns the number of requests.
    """
    dead, worker = shared.worker(), shared.worker(lease=1000.0)
    know(worker, PAGES)
    push(worker, PAGES, "1", "2", "3")
    push(worker, PAGES, "0", priority=1)
    push(worker, EXEMPT, "e")
    assert pop_all(dead, at_once=2) == ["e", "0"]
    shared.advance(LEASE - 0.001)
    assert worker.beat() == 0
    assert pop(worker, at_once=2) is None
    shared.advance(0.001)
    assert worker.beat() == 2
    assert worker.count_all() == 5
    assert sorted(pop_all(worker, at_once=9)) == ["0", "1", "2", "3", "e"]
    assert worker.beat() == 0


def test_order_after_a_worker_has_died(shared: Shared) -> None:
    dead, worker = shared.worker(), shared.worker(lease=1000.0)
    know(worker, PAGES)
    push(worker, PAGES, "1", "2", "3", "4")
    pop_all(dead, at_once=2)
    shared.advance(LEASE)
    worker.beat()
    assert pop_all(worker, at_once=9) == ["1", "2", "3", "4"]


def test_worker_that_lives_keeps_what_it_has(shared: Shared) -> None:
    """A worker keeps its requests as long as it sends heartbeats, however long they take."""
    one, two = shared.worker(), shared.worker()
    know(one, PAGES, holds=9 * HOUR)
    push(one, PAGES, "1")
    take(one)
    for _ in range(100):
        shared.advance(one.beat_every)
        assert one.beat() == two.beat() == 0
        assert one.is_alive


def test_delay_after_a_worker_has_died(shared: Shared) -> None:
    """After a worker has died, the delay begins anew, as it may have sent
    its request just before.
    """
    dead, worker = shared.worker(), shared.worker(lease=1000.0)
    know(worker, PAGES, delay=5.0, ago=9.0)
    push(worker, PAGES, "1")
    take(dead)
    shared.advance(LEASE)
    worker.beat()
    assert pop(worker) is None
    shared.advance(5)
    assert pop(worker) == "1"


def test_worker_that_ends(shared: Shared) -> None:
    """When a worker signs off, others get its unfinished requests at once,
    and its keys are deleted.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, "1", "2")
    take(one)
    assert one.acquire("x", "c.example")
    one.retire()
    assert pop_all(two, at_once=2) == ["1", "2"]
    assert two.acquire("x", "c.example")
    assert len([key for key in shared.names() if "leases" in key]) == 1
    assert shared.redis.zcard(shared.key("workers")) == 1


def test_worker_that_was_taken_for_dead_comes_back(shared: Shared) -> None:
    """Late reports of a worker that was taken for dead change nothing: the request is not
    done, and the place not free.
    """
    stopped, worker = shared.worker(), shared.worker(lease=1000.0)
    know(worker, PAGES)
    push(worker, PAGES, "1", "2")
    had = take(stopped)
    shared.advance(LEASE)
    worker.beat()
    assert not stopped.is_alive
    found = take(worker)
    assert found.data == had.data
    end(stopped, had)
    stopped.beat()
    stopped.report()
    assert shared.count() == 2
    assert shared.host("a.example")["in_flight"] == 1
    assert pop(worker) is None
    end(worker, found)
    assert pop(worker) == "2"
    assert shared.count() == 1


def test_nothing_for_those_that_are_taken_for_dead(shared: Shared) -> None:
    """A worker that was taken for dead gets nothing from its first call. If it died then,
    no other worker would return its requests.
    """
    stopped, worker = shared.worker(), shared.worker(lease=1000.0)
    push(worker, EXEMPT, "1")
    push(worker, PAGES, "2")
    shared.advance(LEASE)
    worker.beat()
    assert pop(stopped) is None
    # The first call was a heartbeat as well.
    assert pop(stopped) == "1"
    shared.advance(LEASE)
    assert worker.beat() == 1
    assert learn(stopped) == []
    assert learn(stopped) == [PAGES]
    shared.advance(LEASE)
    worker.beat()
    assert not stopped.acquire("x", "c.example")
    assert stopped.acquire("x", "c.example")
    shared.advance(LEASE)
    worker.beat()
    assert refuse(stopped, PAGES) == (None, 1)
    assert refuse(stopped, PAGES)[0].data == b"2"
    shared.advance(LEASE)
    assert worker.beat() == 1


def test_dead_worker_without_requests(shared: Shared) -> None:
    """Dead workers leave no keys, however many there were."""
    for number in range(5):
        assert shared.worker().acquire("x", f"{number}.example")
    shared.advance(LEASE)
    worker = shared.worker()
    for _ in range(5):
        worker.beat()
    shared.advance(LEASE / 2)
    assert shared.names() == {"workers"}


# Lost answers, and late calls.


def test_answer_that_was_lost(shared: Shared) -> None:
    """After a lost answer, the worker tells the server what it has. Requests and places
    that it never got go to others; the rest stays with it.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, "1", "2", "3")
    push(one, OTHER, "o")
    push(one, "c.example\thttp://c.example", "c")
    first = take(one, at_once=2)
    has_learned = learn(one, quota=1)
    assert take(one, at_once=2).data == b"2"  # The answers to this,
    learn(one)  # to this,
    one.acquire("x", "d.example")  # and to this are lost.
    one._link.has_lost_answer = True
    one.resync([first.number], [first.number], has_learned)
    assert not one._link.has_lost_answer
    assert pop_all(two, at_once=2) == ["2"]
    assert learn(two) == [
        name
        for name in (OTHER, "c.example\thttp://c.example")
        if name not in has_learned
    ]
    assert two.acquire("y", "d.example")
    end(one, first)
    one.report()
    assert shared.count() == 4


def test_resync_without_need(shared: Shared) -> None:
    """If no answer was lost, ``resync`` does not call the server."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    take(worker)
    worker.resync([], [], [])
    shared.advance(LEASE)
    assert shared.worker(lives=False).beat() == 1


def test_done_but_not_told(shared: Shared) -> None:
    """A request that is done but not reported yet does not go to another worker."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    end(worker, take(worker))
    worker._link.has_lost_answer = True
    worker.resync([], [], [])
    assert pop(worker) is None
    assert shared.count() == 0


@pytest.mark.parametrize("seconds", [LATE, HOUR])
def test_late_calls(shared: Shared, seconds: float) -> None:
    """If a server that hung executes a call after the worker's time-out, the call does
    nothing. The next call works.
    """
    worker = shared.worker(lease=2 * HOUR)
    know(worker, PAGES, holds=9 * HOUR)
    push(worker, PAGES, "1")
    push(worker, OTHER, "o", seen=True)
    shared.advance_server(seconds)
    assert pop(worker) is None
    assert pop(worker) == "1"
    for call, asked in (
        (lambda: learn(worker), [OTHER]),
        (lambda: refuse(worker, OTHER)[0] is not None, True),
        (lambda: worker.acquire("x", "c.example"), True),
    ):
        seconds += seconds
        shared.advance_server(seconds)
        assert not call()
        assert call() == asked


def test_late_push(shared: Shared) -> None:
    """A push that comes too late adds nothing, and does not mark the request as seen.
    The worker sends it again.
    """
    worker = shared.worker()
    shared.advance_server(LATE)
    worker.push(EXEMPT, 0, b"1", (SEEN, "1"))
    worker.exchange()
    assert (worker.unsent, shared.count()) == (1, 0)
    worker.report()
    assert worker.unsent == 0
    assert shared.count() == 1


def test_late_resync(shared: Shared) -> None:
    """A resync that comes too late does nothing, as the worker may
    have other requests by then.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    found = take(worker)
    shared.advance_server(LATE)
    worker._link.has_lost_answer = True
    worker.resync([], [], [])
    assert worker._link.has_lost_answer
    worker.resync([found.number], [found.number], [])
    assert not worker._link.has_lost_answer
    assert pop(worker, at_once=2) is None


# Requests from outside the queue.


def test_places_of_requests_from_outside(shared: Shared) -> None:
    """A request from outside the queue has the host for itself, and the queue keeps the
    delay after it. It also waits for the requests of the queue and their delay.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES, delay=2.0, ago=9.0)
    push(one, PAGES, "1", "2")
    assert two.acquire("x", "a.example")
    assert not one.acquire("y", "a.example")
    assert pop(one) is None
    release(two, "x", "a.example", 2.0, fetched=True)
    shared.advance(1.999)
    assert pop(one) is None
    shared.advance(2)
    end(one, take(one))
    one.report()
    assert not two.acquire("x", "a.example")
    shared.advance(2)
    assert two.acquire("x", "a.example")
    release(two, "x", "a.example", 0.0, fetched=False)
    assert pop(one) == "2"


def test_delay_that_one_worker_alone_knows(shared: Shared) -> None:
    """For a host without known terms, the server keeps only the delay after a request from
    outside, until it has passed.
    """
    one, two = shared.worker(), shared.worker()
    assert one.acquire("x", "a.example")
    release(one, "x", "a.example", 2.0, fetched=True)
    shared.advance(1.999)
    assert not two.acquire("y", "a.example")
    shared.advance(0.001)
    assert shared.names() == {"workers"}
    assert two.acquire("y", "a.example")
    shared.advance(LEASE / 2)
    assert not one.acquire("x", "a.example")
    release(two, "y", "a.example", 0.0, fetched=False)
    assert shared.names() == {"workers"}


# Duplicates.


def test_seen_before(shared: Shared) -> None:
    """The queue drops a request whose fingerprint any worker has
    pushed, and does not count it.
    """
    one, two = shared.worker(), shared.worker()
    push(one, EXEMPT, "1", seen=True)
    push(two, EXEMPT, "1", seen=True)
    push(two, EXEMPT, "2", seen=True)
    push(two, EXEMPT, "2")
    assert pop_all(one, at_once=9) == ["1", "2", "2"]
    assert shared.count() == 3
