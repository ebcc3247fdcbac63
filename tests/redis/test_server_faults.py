"""A Redis server that loses data or answers, is full, or has what no worker can read: no request is lost, none is freed
by a stale number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("scrapy_redis")

from redis.exceptions import ResponseError

from scrapy_rep.redis import exchange
from scrapy_rep.redis.exchange import QueueLost, is_full
from tests.redis.workers import KEY, SEEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis.workers import Shared

pytestmark = pytest.mark.newest


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_call_without_an_answer_is_executed_once(shared: Shared, fails: str) -> None:
    """Whether the server has executed a call or not, nothing is pushed, taken or done twice."""
    worker = shared.worker()
    worker.push("1", "2", "3", fingerprint="")
    worker.take()
    worker.done("1")
    worker.push("4", fingerprint="")
    worker.client.fails = fails
    for _ in range(3):
        assert worker.call(room=9, more=[("a", 9)]) is None
    assert [taken.data for taken in worker.taken.values()] == [b"2", b"3"]
    worker.client.fails = ""
    assert worker.take(0) == ["4"]
    assert shared.count == 3
    worker.done(*"234")
    worker.call()
    assert shared.count == 0


def test_hosts_and_permits_of_a_lost_answer_are_free_again(shared: Shared) -> None:
    """Hosts, requests and permits that a worker does not know of are free again."""
    worker, other = shared.worker(), shared.worker()
    worker.push("1")
    worker.call()
    worker.client.fails = "after"
    worker.call(room=9, permits=[("1", "b", 1, 5.0)])
    worker.client.fails = ""
    worker.call()
    assert other.take() == ["1"]
    shared.advance(5)
    assert other.ask("2", host="b", delay=5.0).wait == 0


def test_a_pause_of_a_lost_answer_reaches_the_owner_with_the_next_answer(
    shared: Shared,
) -> None:
    """The owner sends nothing in a pause that another worker was asked for, although the first answer with the pause
    did not arrive.
    """
    owner, other = shared.worker(), shared.worker()
    owner.push("1")
    owner.take()
    other.reports["paused"].append(("a", 60.0))
    other.call()
    owner.client.fails = "after"
    for _ in range(3):
        assert owner.call() is None
    owner.client.fails = ""
    answer = owner.call()
    assert answer is not None
    assert answer.pauses == {"a": pytest.approx(60)}
    answer = owner.call()
    assert answer is not None
    assert answer.pauses == {}


def test_the_owner_learns_after_a_lost_answer_that_its_host_has_requests(
    shared: Shared,
) -> None:
    """The requests are more than one batch, so the queue of their host was not empty when a batch returned to it."""
    owner, other = shared.worker(), shared.worker()
    owner.push("1")
    owner.take()
    other.push(*"23456")
    other.call()
    owner.client.fails = "after"
    assert owner.call() is None
    owner.client.fails = ""
    owner.call()
    assert owner.on_server == {"a": 5}
    assert owner.more("a") == ["2", "3", "4"]


def test_a_late_call_changes_nothing(shared: Shared) -> None:
    """A call that a suspended server executes after the worker has given it up changes nothing."""
    worker = shared.worker()
    worker.push("1")
    worker.call()
    late = shared.worker()
    late.exchange._worker, late.exchange._mark = (
        worker.exchange._worker,
        worker.exchange._mark,
    )
    late.push("2")
    worker.call()
    with pytest.raises(QueueLost):
        late.call(room=9)
    assert shared.count == 1
    assert worker.take() == ["1"]


def test_a_restart_with_older_data_returns_what_was_taken_since(shared: Shared) -> None:
    """If the server is as it was some time ago, what a worker has taken since returns to the queue, and what it tells of
    its old requests does not free new ones.
    """
    worker = shared.worker()
    worker.push("1", "2")
    worker.take(batch=1)
    before = {key: shared.client.dump(key) for key in shared.client.keys(f"{{{KEY}}}*")}
    worker.done("1")
    worker.push("3")
    assert worker.more("a") == ["2", "3"]
    shared.client.delete(*shared.client.keys(f"{{{KEY}}}*"))
    for key, value in before.items():
        shared.client.restore(key, 0, value)
    shared.advance(0.001)
    other = shared.worker()
    other.push("5", "6", host="b")
    assert other.take() == ["5", "6"]
    assert not {*other.taken} & {*worker.taken}
    worker.done("2", "3")
    assert worker.call().has_lost
    assert shared.count == 4
    assert worker.take() == ["1", "2"]


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_changed_server_clock_loses_no_request_and_keeps_their_order(
    shared: Shared, seconds: float
) -> None:
    """The clock of the server is set back or forward: nothing is lost, and new requests come after older ones."""
    first, second = shared.worker(), shared.worker()
    first.push("1", "2", "3", host="b")
    first.push("4")
    first.take()
    second.call()
    shared.advance(seconds)
    first.done("1")
    first.push("5", "6", host="b")
    second.push("7", host="c")
    second.call(room=9)
    first.call(room=9)
    first.take()
    second.take()
    # Whoever comes first after a leap takes the other one for dead.
    assert shared.count == 6 + (seconds > 0)
    for worker in (first, second):
        worker.retire()
    shared.advance(3601)
    last = shared.worker()
    names = last.take(batch=9)
    assert {*names} == {*"1234567"} - ({"1"} if seconds < 0 else set())
    assert names.index("5") > names.index("3")


def test_fingerprints_of_another_type_raise_an_error_before_any_change(
    shared: Shared,
) -> None:
    """A key of another type in place of the fingerprints is an error of the first call, before anything changes."""
    shared.client.set(SEEN, "of another filter")
    worker = shared.worker()
    worker.push("1")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        worker.call()
    assert shared.names() == []


def test_sweep_takes_nothing_of_a_new_queue(shared: Shared) -> None:
    """A worker that cleans up while another one begins a new queue takes nothing of that."""
    worker, other = shared.worker(), shared.worker()
    worker.push("1")
    worker.call()
    worker.retire(clears=True)
    scan = worker.client.scan_iter

    def push_and_scan(*args: object, **kwargs: object) -> Iterator[bytes]:
        other.push("2")
        other.call()
        yield from scan(*args, **kwargs)

    worker.client.scan_iter = push_and_scan
    worker.exchange.sweep()
    assert other.take() == ["2"]


def test_a_lost_queue_is_noticed_before_any_change(shared: Shared) -> None:
    """A worker that knew the queue notices before anything changes, and joins another one only then."""
    worker, other = shared.worker(), shared.worker()
    worker.push("1")
    worker.call()
    shared.client.delete(f"{{{KEY}}}:state")
    other.push("2")
    other.call()
    worker.push("3")
    with pytest.raises(QueueLost):
        worker.call(room=9)
    assert shared.count == 1
    assert worker.take() == ["2", "3"]


def test_clear_leaves_nothing_of_a_queue_and_keeps_others(shared: Shared) -> None:
    """Nothing is left of a queue that is cleared, nor of one whose clearing was interrupted. Another one is kept."""
    worker, other = shared.worker(), shared.worker()
    worker.push(*"123")
    worker.take()
    shared.client.delete(f"{{{KEY}}}:state")  # Killed just after that.
    other.push("4")
    other.call()
    other.exchange.sweep()
    assert other.take() == ["4"]
    other.exchange.clear()
    assert shared.client.keys() == [b"now"]


def test_a_worker_that_ends_keeps_an_empty_queue_that_others_use(
    shared: Shared,
) -> None:
    """With SCHEDULER_PERSIST = False, a worker that ends clears the queue, unless that is empty and others use it."""
    first, second, three = (shared.worker() for _ in range(3))
    first.push("1")
    for worker in (first, second, three):
        worker.take()
    first.done("1")
    first.retire(clears=True)
    second.push("1", "2")
    assert second.call().seen == [0]
    second.retire(clears=True)
    with pytest.raises(QueueLost):
        three.call()
    assert not shared.client.exists(SEEN)


def test_a_server_without_memory_refuses_only_new_requests(shared: Shared) -> None:
    """Calls with more new requests than requests that are done are refused as a whole, until as many are done. All
    other calls, which free memory or keep delays, still work.
    """
    worker, other = shared.worker(), shared.worker()
    worker.push(*"1234")
    worker.take()
    clock = shared.client.get("now")
    shared.client.config_set("maxmemory-policy", "noeviction")
    shared.client.config_set("maxmemory", 1)
    try:
        worker.push("5", "6")
        worker.done("1")
        with pytest.raises(ResponseError) as refused:
            worker.call()
        assert is_full(refused.value)
        assert not worker.exchange.is_uncertain
        # The requests that the callback of a page has yielded are not lost if the worker dies now.
        assert worker.more("a") == ["4"]
        assert shared.count == 4
        worker.done("2")
        worker.call()
        assert shared.count == 4
        assert not worker.exchange.unsent
        assert worker.ask("1", delay=5.0).wait == 0
        worker.leave("a")
        worker.call()
        assert other.take(batch=9) == [*"3456"]
        other.retire()
    finally:
        shared.client.config_set("maxmemory", 0)
    assert shared.client.get("now") == clock
    assert shared.count == 4


def test_a_request_is_done_when_all_new_requests_are_on_the_server(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more new requests than one call sends. The callback of the request may have yielded the last of them."""
    monkeypatch.setattr(exchange, "MAX_PUSHES", 2)
    worker = shared.worker()
    worker.push("1")
    worker.take()
    worker.done("1")
    worker.push(*"234")
    worker.call()
    assert shared.count == 3
    worker.call()
    assert shared.count == 3
    assert not worker.reports["done"]


def test_a_server_without_memory_pushes_nothing_twice_after_a_lost_answer(
    shared: Shared,
) -> None:
    """What the server may have executed before it was full is not pushed twice."""
    worker = shared.worker()
    worker.push("1", fingerprint="")
    worker.client.fails = "after"
    worker.call()
    worker.client.fails = "full"
    with pytest.raises(ResponseError):
        worker.call()
    assert worker.exchange.is_uncertain
    worker.client.fails = ""
    worker.call()
    assert shared.count == 1


def test_a_request_that_a_worker_cannot_read_goes_to_one_that_can(
    shared: Shared,
) -> None:
    """Each other worker tries it, and the first that can has it, although the host is that of another one. For those
    that have tried it, it does not count.
    """
    first, second, three = (shared.worker() for _ in range(3))
    first.push("1", "2")
    first.take()
    first.reports["unreadable"] = list(first.numbers("1"))
    answer = first.call()
    [(unread, place)] = answer.unread
    assert (unread.host, unread.data) == ("a", b"1")
    assert answer.remaining == 2
    assert first.call(last_aside=place).remaining == 1
    assert first.call(last_aside=place).unread == []
    [(_, seen)] = second.call().unread
    assert seen == place
    assert second.take(0, readable=[place], last_aside=place) == ["1"]
    assert three.take(0, readable=[place], last_aside=place) == []
    assert three.call(last_aside=place).set_aside == 0
    second.done("1")
    first.done("2")
    for worker in (first, second):
        worker.call(last_aside=place)
    assert shared.count == 0


def test_requests_of_scrapy_redis_itself_are_counted_in_the_first_answer(
    shared: Shared,
) -> None:
    """The first answer says how many requests a queue of scrapy-redis itself has under the same key."""
    shared.client.zadd(KEY, {"a": 1, "b": 2})
    worker = shared.worker()
    assert worker.call().strange == 2
    assert worker.call().strange == 0


def test_all_keys_have_one_hash_tag(shared: Shared) -> None:
    """All keys have one hash tag, so that they are on one node of a cluster."""
    worker = shared.worker()
    worker.push("1", fingerprint="")
    worker.take()
    worker.ask("1", delay=1.0)
    keys = {*shared.client.keys()} - {b"now"}
    assert all(key.startswith(f"{{{KEY}}}:".encode()) for key in keys)
