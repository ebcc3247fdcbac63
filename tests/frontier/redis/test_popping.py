"""Which request is handed out, and when: the limits of a host hold over all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.frontier.redis.shared import (
    EXEMPT,
    HOUR,
    OTHER,
    PAGES,
    SECURE,
    end,
    know,
    pop,
    pop_all,
    push,
    retire,
    take,
)

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest


def test_best_first_then_oldest(shared: Shared) -> None:
    """Of one host, the request of the highest priority goes first, then the oldest."""
    worker = shared.worker()
    know(worker, PAGES)
    push(worker, PAGES, "1", "2")
    push(worker, PAGES, "3", "4", priority=1)
    push(worker, PAGES, "5", priority=-1)
    assert pop_all(worker, at_once=8) == ["3", "4", "1", "2", "5"]


def test_oldest_first_among_thousands(shared: Shared) -> None:
    """Requests are ordered by number, not by the digits of the number."""
    worker = shared.worker()
    know(worker, PAGES)
    shared.redis.set(shared.key("number"), 0xFFE)
    names = [str(number) for number in range(20)]
    push(worker, PAGES, *names)
    assert pop_all(worker, at_once=20) == names


def test_what_the_request_holds_comes_back_as_it_is(shared: Shared) -> None:
    """The data of a request may be any bytes, also none, and comes back unchanged, once."""
    worker = shared.worker()
    know(worker, PAGES)
    data = [bytes(range(256)) * 100, b"", b"\r\n\0"]
    for each in data:
        worker.push(PAGES, 0, each)
    assert [take(worker, 9).data for _ in data] == data
    assert take(worker, 9) is None


def test_limits_of_some_hosts(shared: Shared) -> None:
    """``DOWNLOAD_SLOTS`` gives a host its own limit and gap."""
    worker = shared.worker()
    of_hosts = {"a.example": (2, 500)}
    know(worker, PAGES)
    know(worker, OTHER)
    push(worker, PAGES, "a1", "a2", "a3")
    push(worker, OTHER, "b1", "b2")

    def found() -> list[str]:
        ask = lambda: pop(worker, at_once=1, of_hosts=of_hosts)
        return list(iter(ask, None))

    assert found() == ["a1", "b1"]
    shared.advance(0.499)
    assert found() == []
    shared.advance(0.001)
    assert found() == ["a2"]
    shared.advance(HOUR / 2)
    assert found() == []


def test_gap_between_starts(shared: Shared) -> None:
    """The gap passes between the starts of two requests to a host, whichever workers send
    them. Other hosts have their own.
    """
    one, two = shared.worker(), shared.worker()
    for queue in (PAGES, OTHER):
        know(one, queue)
        push(one, queue, f"{queue[0]}1", f"{queue[0]}2")
    assert pop_all(one, at_once=8, gap=1000) == ["a1", "b1"]
    assert one.again == 1.0
    shared.advance(0.999)
    assert pop_all(two, at_once=8, gap=1000) == []
    assert two.again == 0.001
    shared.advance(0.001)
    assert pop_all(two, at_once=8, gap=1000) == ["a2", "b2"]


def test_gap_of_a_slot_that_changes(shared: Shared) -> None:
    """If AutoThrottle makes the gap longer in one worker, all workers keep to it
    from the next report on.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, "1", "2", "3")
    end(one, take(one, at_once=8, gap=100), gap=2000)
    shared.advance(0.1)
    one.exchange()
    assert pop(two, at_once=8, gap=100) == "2"
    shared.advance(1.999)
    assert pop(two, at_once=8, gap=100) is None
    shared.advance(0.001)
    assert pop(two, at_once=8, gap=100) == "3"


def test_longest_delay_of_a_host(shared: Shared) -> None:
    """All origins of a host share the longest of their delays, until the origin
    that asks for it drops it.
    """
    worker = shared.worker()
    know(worker, PAGES, delay=1.0, ago=9.0)
    know(worker, SECURE, delay=5.0, ago=9.0)
    push(worker, PAGES, "1", "2", "3")
    push(worker, SECURE, "s")
    for _ in range(3):
        end(worker, take(worker, at_once=8))
        worker.exchange()
        shared.advance(4.999)
        assert pop(worker) is None
        shared.advance(0.001)
    know(worker, SECURE)
    end(worker, take(worker, at_once=8))
    push(worker, PAGES, "4")
    worker.exchange()
    shared.advance(0.999)
    assert pop(worker) is None
    shared.advance(0.001)
    end(worker, take(worker, at_once=8))
    know(worker, PAGES)
    worker.exchange()
    shared.advance(1)
    push(worker, PAGES, "5", "6")
    assert pop_all(worker, at_once=8) == ["5", "6"]


def test_queues_of_a_host_take_turns(shared: Shared) -> None:
    """If a host gets one request at a time, its queues take turns."""
    worker = shared.worker()
    for queue, name in ((PAGES, "p"), (SECURE, "s"), (EXEMPT, "e")):
        if queue != EXEMPT:
            know(worker, queue)
        push(worker, queue, *(f"{name}{number}" for number in range(3)))
    order = []
    while found := take(worker):
        assert pop(worker) is None
        order.append(found.data.decode())
        end(worker, found)
    assert len(order) == 9
    # Before the first turn, one queue was alone.
    for start in range(1, 5):
        assert len({name[0] for name in order[start : start + 3]}) == 3


def test_a_place_that_is_not_used_is_passed_on(shared: Shared) -> None:
    """A queue that gets the turn but is empty, or whose robots.txt is stale,
    passes it to the next queue.
    """
    worker = shared.worker()
    know(worker, PAGES)
    know(worker, SECURE, holds=10.0)
    push(worker, PAGES, "1")
    first = take(worker)
    for queue in (SECURE, EXEMPT):
        push(worker, queue, queue)
        assert pop(worker) is None
    shared.advance(10)
    end(worker, first)
    assert pop(worker) == EXEMPT
    assert list(shared.wanted()) == [SECURE]


def test_hosts_that_wait_are_not_looked_at(shared: Shared) -> None:
    """A host that is not ready is checked once, not in each call. A ready host behind many
    of them is found within a few calls.
    """
    worker = shared.worker()
    for number in range(100):
        queue = f"h{number}\thttp://h{number}"
        know(worker, queue, delay=100.0)
        push(worker, queue, "waits")
    know(worker, PAGES)
    shared.advance(0.001)
    push(worker, PAGES, "goes")
    calls = 0
    while pop(worker) is None:
        calls += 1
        assert calls < 5
    assert all(wait > 0 for wait in shared.ready().values())


def test_host_that_is_ready_for_longest_goes_first(shared: Shared) -> None:
    """The host that is ready for longest goes first, so that no host starves."""
    worker = shared.worker()
    for number in range(50):
        queue = f"h{number:02}\thttp://h{number:02}"
        know(worker, queue)
        push(worker, queue, *[f"h{number:02}"] * 3)
        shared.advance(0.001)
    found = []
    while popped := take(worker):
        found.append(popped.data.decode())
        shared.advance(0.001)
        end(worker, popped)
    assert found == sorted(found[:50]) * 3


def test_nothing_is_left_when_all_is_done(shared: Shared) -> None:
    """When all requests are done, a host leaves one key, with what is known
    of it, and that expires.
    """
    worker = shared.worker()
    for queue in (PAGES, SECURE, EXEMPT, OTHER, "c.example\t"):
        if not queue.endswith("\t"):
            know(worker, queue, holds=100.0)
        push(worker, queue, "1", "2", "3")
    for _ in range(20):
        while found := take(worker, gap=50):
            end(worker, found)
        shared.advance(0.05)
    worker.exchange()
    shared.advance(0.05)
    known = {"host:a.example", "host:b.example"}
    assert shared.names() == {"number", "count", "workers", *known}
    assert shared.count() == 0
    for name in known:
        assert 100 < shared.ends_in(name) <= 100 + HOUR
    retire(worker)
    shared.advance(100 + HOUR)
    assert shared.names() == {"number", "count"}
