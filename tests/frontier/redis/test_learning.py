"""Queues whose robots.txt is not known: one worker finds out, for all."""

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
    pop,
    pop_all,
    push,
    take,
)

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest


def test_unknown_until_it_is_learned(shared: Shared) -> None:
    """Nothing of a host is handed out before its robots.txt is known; it is given to one
    worker to find out, with a request of its own, and then all may ask the host.
    """
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1", "2")
    push(one, PAGES, "first", priority=1)
    assert pop(one) is None
    assert one.learn(8, 8) == [(PAGES, 0.0, b"first")]
    assert learn(two) == []
    assert learn(one) == []
    assert pop(two) is None
    know(one, PAGES)
    assert pop(two) == "first"
    assert shared.unknown() == {}


def test_requests_without_robotstxt_need_not_wait(shared: Shared) -> None:
    """Those that no robots.txt has a say in go at once."""
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    assert learn(worker) == []
    assert pop(worker) == "1"


def test_crawl_that_does_not_obey(shared: Shared) -> None:
    """Where robots.txt has no say in the crawl, queues that a crawl before has left need
    not be learned.
    """
    worker = shared.worker(obeys=False)
    push(worker, PAGES, "1")
    assert worker.learn(8, 8) == []
    assert pop(worker) == "1"


def test_learning_has_bounds(shared: Shared) -> None:
    """A worker gets as many as it wants, oldest first, and none while enough are ready."""
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
    """Requests wait again when what was known holds no more, those that come later and
    those that were ready.
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
    """A request to a host that was learned for another one goes at once."""
    worker = shared.worker()
    push(worker, PAGES, "1")
    learn(worker)
    know(worker, PAGES)
    end(worker, take(worker))
    push(worker, PAGES, "2")
    assert pop(worker) == "2"


def test_not_learned(shared: Shared) -> None:
    """What a worker won't find out (its spider closes) is given to another at once."""
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1")
    assert learn(one) == [PAGES]
    one.learned(PAGES, None)
    assert learn(two) == [PAGES]


@pytest.mark.parametrize("says", [True, False])
def test_learning_of_a_worker_that_ends(shared: Shared, says: bool) -> None:
    """What it was to find out is given to another: at once where it says so, else when
    its lease has run out.
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
    # Its own.
    assert sum(key.startswith("learning:") for key in shared.names()) == 1


def test_visiting_hours(shared: Shared) -> None:
    """Nothing is handed out before the host opens for visits; then it is, at once."""
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
    """Where another origin of the host asks for a delay, the worker that is to get the
    robots.txt is told, to take a turn for it like for any request: queues with any number
    of requests leave it one, and the delay passes before and after it.
    """
    worker = shared.worker()
    know(worker, PAGES, delay=2.0, ago=9.0)
    push(worker, PAGES, "1", "2", "3")
    push(worker, SECURE, "s")
    found = take(worker, at_once=8)
    assert worker.learn(8, 8) == [(SECURE, 2.0, b"s")]
    assert not worker.acquire("x", "a.example")
    end(worker, found)
    worker.report()
    shared.advance(1.999)
    assert not worker.acquire("x", "a.example")
    shared.advance(0.001)
    assert pop(worker) is None
    assert worker.acquire("x", "a.example")
    assert pop(worker) is None
    worker.release("x", "a.example", 2.0)
    shared.advance(1.999)
    assert pop(worker) is None
    shared.advance(0.001)
    assert pop(worker) == "2"


def test_turn_that_is_asked_for_and_not_taken(shared: Shared) -> None:
    """A place that is kept for a request from outside is kept for seconds, no longer."""
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
    """A queue whose requests were refused while its robots.txt was on its way is nowhere."""
    worker = shared.worker()
    push(worker, PAGES, "1")
    learn(worker)
    popped, left = worker.take(PAGES)
    assert (popped.data, left) == (b"1", 0)
    know(worker, PAGES)
    assert shared.ready() == shared.unknown() == {}
    worker.done(popped.number)
    worker.report()
    assert shared.count() == 0


def test_refused_while_it_is_unknown(shared: Shared) -> None:
    """Requests of a host that was given up are handed out best first, to be refused, and
    leave nothing.
    """
    worker = shared.worker()
    push(worker, PAGES, "1", "2")
    push(worker, PAGES, "0", priority=1)
    learn(worker)
    for name, left in (("0", 2), ("1", 1), ("2", 0)):
        assert worker.count_queue(PAGES) == left + 1
        popped, rest = worker.take(PAGES)
        assert (popped.data.decode(), rest) == (name, left)
        worker.done(popped.number)
    assert worker.take(PAGES) == (None, 0)
    worker.report()
    assert shared.names() == {"number", "ended", "workers"}


def test_refused_and_not_done(shared: Shared) -> None:
    """One that was taken to be refused, by a worker that then dies, comes back."""
    one, two = shared.worker(), shared.worker(lease=1000.0)
    push(one, PAGES, "1", "2")
    learn(one)
    one.take(PAGES)
    shared.advance(LEASE)
    assert two.beat() == 1
    assert learn(two) == [PAGES]
    know(two, PAGES)
    assert pop_all(two, at_once=8) == ["1", "2"]


def test_what_holds_for_ever_is_kept_for_a_day(shared: Shared) -> None:
    """What the user decides about a host holds for ever, but not on the server: of
    millions of hosts that were met once, nothing stays.
    """
    worker = shared.worker()
    know(worker, OTHER, holds=float("inf"))
    assert shared.ends_in("host:b.example") <= 25 * HOUR


def test_delay_of_an_origin_that_is_gone(shared: Shared) -> None:
    """Of a host that is asked for one origin after the other, only what is known is kept."""
    worker = shared.worker()
    for port in range(1, 30):
        know(worker, f"a.example\thttp://a.example:{port}", holds=10.0, delay=1.0)
        shared.advance(HOUR / 2)
    fields = [field for field in shared.host("a.example") if field[1] == " "]
    assert len(fields) <= 2 * 3
