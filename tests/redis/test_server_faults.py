"""Tests of faults of the Redis server: lost answers, lost or older data, a changed clock, no memory, and requests that
a worker cannot read. No request that the server still has is lost, and none is recorded as done by mistake.
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

    from tests.redis.workers import SharedQueue

pytestmark = pytest.mark.newest


@pytest.mark.parametrize("failure", ["before", "after"])
def test_a_call_without_an_answer_is_executed_once(
    queue: SharedQueue, failure: str
) -> None:
    """The connection fails before or after the server has executed the call. When the call is repeated, nothing is
    pushed, taken or done twice.
    """
    worker = queue.worker()
    worker.push("1", "2", "3", fingerprint="")
    worker.take()
    worker.finish("1")
    worker.push("4", fingerprint="")
    worker.client.failure = failure
    for _ in range(3):
        assert worker.call(room=9, more=[("a", 9)]) is None
    assert [taken.data for taken in worker.taken.values()] == [b"2", b"3"]
    worker.client.failure = ""
    assert worker.take(0) == ["4"]
    assert queue.count == 3
    worker.finish(*"234")
    worker.call()
    assert queue.count == 0


def test_hosts_and_permits_of_a_lost_answer_are_free_again(queue: SharedQueue) -> None:
    """The worker does not know that it got the host, its request and a permit. In the next call, the server takes them
    back.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push("1")
    worker.call()
    worker.client.failure = "after"
    worker.call(room=9, permits=[("1", "b", 1, 5.0)])
    worker.client.failure = ""
    worker.call()
    assert other.take() == ["1"]
    queue.advance_clock(5)
    assert other.request_permit("2", host="b", delay=5.0).wait == 0


def test_a_pause_of_a_lost_answer_reaches_the_owner_with_the_next_answer(
    queue: SharedQueue,
) -> None:
    """Another worker reports a pause of the host. The first answer that contains the pause does not arrive at the
    owner.
    """
    owner, other = queue.worker(), queue.worker()
    owner.push("1")
    owner.take()
    other.reports["paused"].append(("a", 60.0))
    other.call()
    owner.client.failure = "after"
    for _ in range(3):
        assert owner.call() is None
    owner.client.failure = ""
    answer = owner.call()
    assert answer is not None
    assert answer.pauses == {"a": pytest.approx(60)}
    answer = owner.call()
    assert answer is not None
    assert answer.pauses == {}


def test_the_owner_learns_after_a_lost_answer_that_its_host_has_requests(
    queue: SharedQueue,
) -> None:
    """The host has five requests on the server. The lost answer contained three of them, so these three return to the
    server. Normally, the server tells the owner about new requests only if the host had no requests on the server.
    After a lost answer, the server tells the owner how many requests each of its hosts has.
    """
    owner, other = queue.worker(), queue.worker()
    owner.push("1")
    owner.take()
    other.push(*"23456")
    other.call()
    owner.client.failure = "after"
    assert owner.call() is None
    owner.client.failure = ""
    owner.call()
    assert owner.on_server == {"a": 5}
    assert owner.take_more("a") == ["2", "3", "4"]


def test_a_late_call_changes_nothing(queue: SharedQueue) -> None:
    """A server that was suspended executes a call after a later call of the same worker."""
    worker = queue.worker()
    worker.push("1")
    worker.call()
    # The late call has the identity of the worker and the number 1. The worker has made its calls 1 and 2 by then.
    late_sender = queue.worker()
    late_sender.exchange._worker, late_sender.exchange._mark = (
        worker.exchange._worker,
        worker.exchange._mark,
    )
    late_sender.push("2")
    worker.call()
    with pytest.raises(QueueLost):
        late_sender.call(room=9)
    assert queue.count == 1
    assert worker.take() == ["1"]


def test_a_restart_with_older_data_puts_all_taken_requests_back(
    queue: SharedQueue,
) -> None:
    """The server is restored from older data, in which the worker has request 1. Request 1 returns to the queue.
    Requests that are taken after the restart get new numbers, so a report about a request from before the restart does
    not delete one of them.
    """
    worker = queue.worker()
    worker.push("1", "2")
    worker.take(batch=1)
    older_data = {
        key: queue.client.dump(key) for key in queue.client.keys(f"{{{KEY}}}*")
    }
    worker.finish("1")
    worker.push("3")
    assert worker.take_more("a") == ["2", "3"]
    queue.client.delete(*queue.client.keys(f"{{{KEY}}}*"))
    for key, value in older_data.items():
        queue.client.restore(key, 0, value)
    queue.advance_clock(0.001)
    other = queue.worker()
    other.push("5", "6", host="b")
    assert other.take() == ["5", "6"]
    assert not {*other.taken} & {*worker.taken}
    worker.finish("2", "3")
    assert worker.call().has_lost
    assert queue.count == 4
    assert worker.take() == ["1", "2"]


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_changed_server_clock_loses_no_request_and_keeps_their_order(
    queue: SharedQueue, seconds: float
) -> None:
    """The clock of the server is set back or forward by an hour. New requests still come after older ones."""
    first, second = queue.worker(), queue.worker()
    first.push("1", "2", "3", host="b")
    first.push("4")
    first.take()
    second.call()
    queue.advance_clock(seconds)
    first.finish("1")
    first.push("5", "6", host="b")
    second.push("7", host="c")
    second.call(room=9)
    first.call(room=9)
    first.take()
    second.take()
    # If the clock is set forward, the leases of both workers are over. The second worker calls first, so the server
    # takes the first worker for dead, and ignores its report that request 1 is done.
    assert queue.count == 6 + (seconds > 0)
    for worker in (first, second):
        worker.retire()
    queue.advance_clock(3601)
    last = queue.worker()
    names = last.take(batch=9)
    assert {*names} == {*"1234567"} - ({"1"} if seconds < 0 else set())
    assert names.index("5") > names.index("3")


def test_fingerprints_of_another_type_raise_an_error_before_any_change(
    queue: SharedQueue,
) -> None:
    """The key of the fingerprints belongs to another program. The first call raises the error."""
    queue.client.set(SEEN, "a string, not a set")
    worker = queue.worker()
    worker.push("1")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        worker.call()
    assert queue.stored_keys() == []


def test_sweep_deletes_no_key_of_a_queue_that_begins_meanwhile(
    queue: SharedQueue,
) -> None:
    """Another worker begins a new queue while ``sweep`` deletes the keys of the old one."""
    worker, other = queue.worker(), queue.worker()
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


def test_a_lost_queue_is_noticed_before_any_change(queue: SharedQueue) -> None:
    """The queue of the worker was deleted, and another worker has begun a new queue. The worker's next call changes
    nothing in the new queue, and raises QueueLost. Only the call after that uses the new queue.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push("1")
    worker.call()
    queue.client.delete(f"{{{KEY}}}:state")
    other.push("2")
    other.call()
    worker.push("3")
    with pytest.raises(QueueLost):
        worker.call(room=9)
    assert queue.count == 1
    assert worker.take() == ["2", "3"]


def test_clear_deletes_all_keys_and_sweep_keeps_the_current_queue(
    queue: SharedQueue,
) -> None:
    """``sweep`` deletes the keys of a queue whose clearing was interrupted, and keeps the current queue. ``clear``
    deletes the keys of the current queue too.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push(*"123")
    worker.take()
    # A process that clears the queue is killed just after it has deleted the first key.
    queue.client.delete(f"{{{KEY}}}:state")
    other.push("4")
    other.call()
    other.exchange.sweep()
    assert other.take() == ["4"]
    other.exchange.clear()
    assert queue.client.keys() == [b"now"]


def test_a_worker_that_ends_keeps_an_empty_queue_that_other_workers_use(
    queue: SharedQueue,
) -> None:
    """With ``SCHEDULER_PERSIST = False``, a worker that ends clears the queue. It keeps the queue if the queue is empty
    and other workers use it: their callbacks may still yield requests, and the server must find the duplicates.
    """
    first, second, third = (queue.worker() for _ in range(3))
    first.push("1")
    for worker in (first, second, third):
        worker.take()
    first.finish("1")
    first.retire(clears=True)
    second.push("1", "2")
    assert second.call().seen == [0]
    second.retire(clears=True)
    with pytest.raises(QueueLost):
        third.call()
    assert not queue.client.exists(SEEN)


def test_a_server_without_memory_refuses_only_new_requests(queue: SharedQueue) -> None:
    """The server refuses a whole call if the call has more new requests than reports of finished requests. The server
    accepts all other calls: finished requests free memory, and permits keep the crawl delays.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push(*"1234")
    worker.take()
    clock = queue.client.get("now")
    queue.client.config_set("maxmemory-policy", "noeviction")
    queue.client.config_set("maxmemory", 1)
    try:
        worker.push("5", "6")
        worker.finish("1")
        with pytest.raises(ResponseError) as refused:
            worker.call()
        assert is_full(refused.value)
        assert not worker.exchange.is_uncertain
        # Request 1 is not recorded as done before the server has the requests that its callback may have yielded. So
        # these are not lost if the worker dies now.
        assert worker.take_more("a") == ["4"]
        assert queue.count == 4
        worker.finish("2")
        worker.call()
        assert queue.count == 4
        assert not worker.exchange.unsent
        assert worker.request_permit("1", delay=5.0).wait == 0
        worker.give_back_host("a")
        worker.call()
        assert other.take(batch=9) == [*"3456"]
        other.retire()
    finally:
        queue.client.config_set("maxmemory", 0)
    assert queue.client.get("now") == clock
    assert queue.count == 4


def test_a_request_is_done_when_all_new_requests_are_on_the_server(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The callback of request 1 has yielded three requests, but one call can contain only two. So the worker reports
    request 1 as done in its second call, together with the third of the new requests.
    """
    monkeypatch.setattr(exchange, "MAX_PUSHES", 2)
    worker = queue.worker()
    worker.push("1")
    worker.take()
    worker.finish("1")
    worker.push(*"234")
    worker.call()
    assert queue.count == 3
    worker.call()
    assert queue.count == 3
    assert not worker.reports["done"]


def test_a_server_without_memory_pushes_nothing_twice_after_a_lost_answer(
    queue: SharedQueue,
) -> None:
    """The server executes a call with a new request, but the answer is lost. When the call is repeated, the server has
    no memory left. The worker must not treat the request as refused, because it would push the request again.
    """
    worker = queue.worker()
    worker.push("1", fingerprint="")
    worker.client.failure = "after"
    worker.call()
    worker.client.failure = "full"
    with pytest.raises(ResponseError):
        worker.call()
    assert worker.exchange.is_uncertain
    worker.client.failure = ""
    worker.call()
    assert queue.count == 1


def test_a_request_that_a_worker_cannot_read_goes_to_a_worker_that_can_read_it(
    queue: SharedQueue,
) -> None:
    """All other workers try to read the request. The first worker that can read it gets it, even if another worker owns
    the host. Until then, the request does not count as remaining for workers that have tried to read it.
    """
    first, second, third = (queue.worker() for _ in range(3))
    first.push("1", "2")
    first.take()
    first.reports["unreadable"] = list(first.numbers_of("1"))
    answer = first.call()
    [(unread_request, place)] = answer.unread
    assert (unread_request.host, unread_request.data) == ("a", b"1")
    assert answer.remaining == 2
    assert first.call(last_aside=place).remaining == 1
    assert first.call(last_aside=place).unread == []
    [(_, place_for_second)] = second.call().unread
    assert place_for_second == place
    assert second.take(0, readable=[place], last_aside=place) == ["1"]
    assert third.take(0, readable=[place], last_aside=place) == []
    assert third.call(last_aside=place).set_aside == 0
    second.finish("1")
    first.finish("2")
    for worker in (first, second):
        worker.call(last_aside=place)
    assert queue.count == 0


def test_requests_of_scrapy_redis_itself_are_counted_in_the_first_answer(
    queue: SharedQueue,
) -> None:
    """A queue class of scrapy-redis has written two requests under the key of the queue. Only the first answer contains
    their number.
    """
    queue.client.zadd(KEY, {"a": 1, "b": 2})
    worker = queue.worker()
    assert worker.call().strange == 2
    assert worker.call().strange == 0


def test_all_keys_have_one_hash_tag(queue: SharedQueue) -> None:
    """The hash tag is for Redis Cluster: it keeps all keys on one node."""
    worker = queue.worker()
    worker.push("1", fingerprint="")
    worker.take()
    worker.request_permit("1", delay=1.0)
    keys = {*queue.client.keys()} - {b"now"}
    assert all(key.startswith(f"{{{KEY}}}:".encode()) for key in keys)
