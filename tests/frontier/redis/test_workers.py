"""Workers that die, stop, come back or lose answers: no request is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from scrapy_rep.frontier.redis.worker import leases_of
from tests.frontier.redis.shared import (
    EXEMPT,
    HOUR,
    LATE,
    LEASE,
    OTHER,
    PAGES,
    SEEN,
    acquire,
    end,
    know,
    lose_an_answer,
    pop,
    pop_all,
    push,
    release,
    renew,
    retire,
    take,
    wanted,
)

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest


def test_requests_of_a_dead_worker_come_back(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """The requests of a dead worker return to their old positions in the queue, and its places
    at hosts are free. Whichever call finds it logs the number of requests.
    """
    dead, worker = shared.worker(), shared.worker(lease=1000.0)
    know(worker, PAGES)
    push(worker, PAGES, "1", "2", "3")
    push(worker, PAGES, "0", priority=1)
    push(worker, EXEMPT, "e")
    assert pop_all(dead, at_once=2) == ["e", "0"]
    shared.advance(LEASE - 0.001)
    assert renew(worker) == 0
    assert pop(worker, at_once=2) is None
    shared.advance(0.001)
    assert worker.count_all() == 5
    assert "the 2 requests that it had taken are in the queue again" in caplog.text
    assert sorted(pop_all(worker, at_once=9)) == ["0", "1", "2", "3", "e"]
    assert renew(worker) == 0


def test_worker_that_lives_keeps_what_it_has(shared: Shared) -> None:
    """A worker keeps its requests as long as it renews its lease, however long they take."""
    one, two = shared.worker(), shared.worker()
    know(one, PAGES, holds=9 * HOUR)
    push(one, PAGES, "1")
    take(one)
    for _ in range(100):
        shared.advance(one.renews_every)
        assert renew(one) == renew(two) == 0
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
    renew(worker)
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
    assert acquire(one, "x", "c.example")
    retire(one)
    assert pop_all(two, at_once=2) == ["1", "2"]
    assert acquire(two, "x", "c.example")
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
    renew(worker)
    assert not stopped.is_alive
    found = take(worker)
    assert found.data == had.data
    end(stopped, had)
    renew(stopped)
    stopped.exchange()
    assert shared.count() == 2
    assert shared.host("a.example")["in_flight"] == 1
    assert pop(worker) is None
    end(worker, found)
    assert pop(worker) == "2"
    assert shared.count() == 1


def test_dead_workers_leave_no_keys(shared: Shared) -> None:
    """Dead workers leave no keys but those of hosts, however many there were."""
    for number in range(5):
        assert acquire(shared.worker(), "x", f"{number}.example")
    shared.advance(LEASE)
    worker = shared.worker()
    for _ in range(5):
        renew(worker)
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
    fetches = wanted(one, quota=1)
    assert take(one, at_once=2).data == b"2"  # The answers to this,
    (lost,) = wanted(one)  # to this,
    assert acquire(one, "x", "d.example")  # and to this are lost.
    lose_an_answer(one, *leases_of([first.number], [first.number]), *fetches)
    assert pop_all(two, at_once=2) == ["2"]
    assert wanted(two) == [lost]
    assert acquire(two, "y", "d.example")
    end(one, first)
    one.exchange()
    assert shared.count() == 4


def test_done_but_not_told(shared: Shared) -> None:
    """A request that is done but not reported yet does not go to another worker."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    end(worker, take(worker))
    lose_an_answer(worker)
    assert pop(worker) is None
    assert shared.count() == 0


def test_late_call(shared: Shared) -> None:
    """If a server that hung executes a call after the worker's time-out, the call does
    nothing: it gives nothing, adds no request, and marks none as seen. If only the clock of the
    server was set, the worker repeats the call at once.
    """
    worker = shared.worker(lease=2 * HOUR)
    push(worker, EXEMPT, "1")
    real = worker._link._run
    answers = []

    def run(*args: Any) -> Any:
        answers.append(real(*args))
        return answers[-1] if len(answers) > 1 else None

    shared.advance_server(LATE)
    worker.push(EXEMPT, 0, b"2", (SEEN, "2"))
    with mock.patch.object(worker._link, "_run", run):
        assert take(worker) is None
        assert answers == [[round(1000 * (shared.clock.monotonic() + LATE))]]
        assert (worker.unsent, shared.count()) == (1, 1)
        assert pop(worker) == "1"
    assert len(answers) == 3
    assert (worker.unsent, shared.count()) == (0, 2)


# Requests from outside the queue.


def test_places_of_requests_from_outside(shared: Shared) -> None:
    """A request from outside the queue has the host for itself, and the queue keeps the
    delay after it. It also waits for the requests of the queue and their delay.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES, delay=2.0, ago=9.0)
    push(one, PAGES, "1", "2")
    assert acquire(two, "x", "a.example")
    assert not acquire(one, "y", "a.example")
    assert pop(one) is None
    release(two, "x", "a.example", 2.0, fetched=True)
    shared.advance(1.999)
    assert pop(one) is None
    shared.advance(2)
    end(one, take(one))
    one.exchange()
    assert not acquire(two, "x", "a.example")
    shared.advance(2)
    assert acquire(two, "x", "a.example")
    release(two, "x", "a.example", 0.0, fetched=False)
    assert pop(one) == "2"


def test_delay_that_one_worker_alone_knows(shared: Shared) -> None:
    """For a host without known terms, the server keeps only the delay after a request from
    outside, until it has passed.
    """
    one, two = shared.worker(), shared.worker()
    assert acquire(one, "x", "a.example")
    release(one, "x", "a.example", 2.0, fetched=True)
    shared.advance(1.999)
    assert not acquire(two, "y", "a.example")
    shared.advance(0.001)
    assert shared.names() == {"workers"}
    assert acquire(two, "y", "a.example")
    shared.advance(LEASE / 2)
    assert not acquire(one, "x", "a.example")
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
