"""Tests of the hosts and the permits that the script ``shared.lua`` gives to workers. A host has one owner at a time,
which gets the host's requests in their order. Other workers that want to send a request to the host request a permit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("scrapy_redis")

from tests.redis.workers import LEASE, SEEN

if TYPE_CHECKING:
    from tests.redis.workers import SharedQueue

pytestmark = pytest.mark.newest


def test_a_host_has_one_owner(queue: SharedQueue) -> None:
    """The owner gets a batch of the host's requests, and can get more. Other workers get none of them."""
    worker, other = queue.worker(), queue.worker()
    worker.push(*"12345")
    assert worker.take() == ["1", "2", "3"]
    assert worker.on_server == {"a": 2}
    assert other.take() == []
    assert other.take_more("a") == []
    assert worker.take_more("a") == ["4", "5"]
    worker.finish(*"12345")
    worker.call()
    assert queue.count == 0


def test_requests_that_were_given_back_precede_the_lowest_score(
    queue: SharedQueue,
) -> None:
    """Requests are taken by score, the lowest first. Of several requests with the same score, the oldest is first, or
    the newest, if ``is_last_first`` is set. Requests that were given back come before all others.
    """
    worker = queue.worker()
    worker.push("low", score=7)
    worker.push("1", "2")
    worker.push("4", "3", score=3, is_last_first=True)
    worker.push("high", score=-5)
    assert worker.take(batch=9) == ["high", "1", "2", "3", "4", "low"]
    worker.give_back("low", "4")
    worker.push("higher", score=-99)
    assert worker.take() == ["4", "low", "higher"]


def test_requests_for_a_host_of_another_worker_reach_its_owner(
    queue: SharedQueue,
) -> None:
    """If the host has no other requests on the server, the next answer to the owner contains the new requests.
    Otherwise, the owner already knows that there are requests on the server. It gets the new requests when it asks for
    more.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push("1")
    assert worker.take() == ["1"]
    other.push(*"23456")
    other.call()
    assert worker.take(0) == ["2", "3", "4"]
    other.push("7")
    other.call()
    assert worker.take(0) == []
    assert worker.take_more("a") == ["5", "6", "7"]


def test_a_worker_gets_at_most_its_share_of_the_free_hosts(queue: SharedQueue) -> None:
    """A worker that asks for three requests gets two hosts, because only two requests at a time may be in flight to
    each host. A worker that asks for nine requests gets at most half of the hosts without an owner (rounded up),
    because there are two workers.
    """
    worker, other = queue.worker(), queue.worker()
    for host in "abcd":
        worker.push(*(f"{host}{number}" for number in range(9)), host=host)
        queue.advance_clock(1)
        worker.call()
    worker.take(3)
    assert worker.owned == {"a", "b"}
    worker.take(0)
    other.take(9)
    assert other.owned == {"c"}
    other.take(9)
    assert other.owned == {"c", "d"}


def test_a_request_that_any_worker_has_pushed_before_is_not_kept(
    queue: SharedQueue,
) -> None:
    """Without a fingerprint, a request is kept even if it is a duplicate."""
    worker, other = queue.worker(), queue.worker()
    worker.push("1", "2", "1")
    assert worker.call().seen == [2]
    other.push("2", "3")
    other.push("2", fingerprint="")
    assert other.call().seen == [0]
    assert queue.count == 4
    assert queue.client.scard(SEEN) == 3


def test_the_next_owner_gets_requests_delay_and_back_off_of_a_host(
    queue: SharedQueue,
) -> None:
    """No worker can take the host before its delay has passed. The next owner continues the back-off. It gets all
    requests of the host, first of all those that the last owner gave back.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push(*"12345")
    worker.take()
    worker.finish("1")
    worker.give_back_host("a", next_in=20, back_off=(4.0, 2, 30.0))
    worker.call()
    assert other.take() == []
    queue.advance_clock(21)
    assert other.take() == ["2", "3", "4"]
    [host] = other.last_answer.hosts
    assert host == ("a", 4.0, 2, 51.0)
    assert queue.count == 4


def test_requests_of_a_dead_worker_come_before_all_others(queue: SharedQueue) -> None:
    """When the lease of the dead worker has ended, other workers can take its hosts. The requests that it had taken
    come first, and each of them is counted once.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push(*"12345")
    worker.take()
    queue.advance_clock(LEASE - 1)
    assert other.take() == []
    queue.advance_clock(2)
    other.push("6", score=-9)
    assert other.take(batch=9) == [*"123645"]
    assert other.last_answer.returned == 3
    assert queue.count == 6


def test_a_worker_that_was_suspended_loses_its_hosts_and_requests(
    queue: SharedQueue,
) -> None:
    """The next answer to the worker reports the loss. Its reports about the lost requests have no effect. Its new
    requests are kept.
    """
    worker, other = queue.worker(), queue.worker()
    worker.push(*"123")
    worker.take()
    queue.advance_clock(LEASE + 1)
    assert sorted(other.take()) == [*"123"]
    worker.finish(*"123")
    worker.push("4", host="b")
    assert worker.call(room=9).has_lost
    assert not worker.owned | worker.taken.keys()
    assert queue.count == 4
    assert worker.take() == ["4"]
    other.finish(*"123")
    other.call()
    assert queue.count == 1


def test_a_suspended_worker_keeps_its_requests_if_no_other_worker_has_called(
    queue: SharedQueue,
) -> None:
    """The server takes hosts and requests from a dead worker only when another worker calls."""
    worker = queue.worker()
    worker.push(*"123")
    worker.take()
    queue.advance_clock(10 * LEASE)
    assert not worker.call().has_lost
    worker.finish(*"123")
    worker.call()
    assert queue.count == 0


def test_a_worker_that_ends_gives_back_its_requests_and_leaves_no_keys(
    queue: SharedQueue,
) -> None:
    worker, other = queue.worker(), queue.worker()
    worker.push(*"123")
    worker.take()
    worker.retire()
    assert other.take() == [*"123"]
    assert not [key for key in queue.stored_keys() if worker.exchange._worker in key]


# Permits.


def test_all_workers_together_keep_a_delay(queue: SharedQueue) -> None:
    """All workers together have one request in flight to a host with a delay. The delay starts at the end of that
    request.
    """
    first, second = queue.worker(), queue.worker()
    assert first.request_permit("1", delay=5.0).wait == 0
    assert second.request_permit("2", delay=5.0).wait == 5
    queue.advance_clock(3)
    first.release_permit("1", seconds_ago=1.0)
    first.call()
    assert second.request_permit("3", delay=5.0).wait == pytest.approx(4)
    queue.advance_clock(4)
    assert second.request_permit("4", delay=5.0).wait == 0


def test_a_worker_keeps_a_delay_that_only_another_worker_knows(
    queue: SharedQueue,
) -> None:
    """The worker that does not know the delay may not have fetched the host's robots.txt yet."""
    first, second = queue.worker(), queue.worker()
    first.request_permit("1", delay=5.0)
    assert second.request_permit("2", limit=0).wait == 5
    first.release_permit("1")
    first.call()
    queue.advance_clock(5)
    assert second.request_permit("3", limit=0).wait == 0
    assert first.request_permit("4", delay=5.0).wait == 5


def test_a_worker_whose_permit_was_refused_gets_the_next_permit(
    queue: SharedQueue,
) -> None:
    """A worker that requests permits again and again does not prevent another worker from getting one."""
    first, second = queue.worker(), queue.worker()
    first.request_permit("1", delay=5.0)
    second.request_permit("2", delay=5.0)
    first.release_permit("1")
    first.call()
    queue.advance_clock(5)
    assert first.request_permit("3", delay=5.0).wait > 0
    assert second.request_permit("4", delay=5.0).wait == 0
    assert first.request_permit("5", delay=5.0).wait > 0
    second.release_permit("4")
    second.call()
    queue.advance_clock(5)
    assert second.request_permit("6", delay=5.0).wait > 0
    assert first.request_permit("7", delay=5.0).wait == 0


def test_a_reserved_permit_expires_after_a_few_seconds(queue: SharedQueue) -> None:
    """The worker for which the permit is reserved does not request it again, so another worker gets it."""
    first, second = queue.worker(), queue.worker()
    first.request_permit("1", delay=5.0)
    second.request_permit("2", delay=5.0)
    first.release_permit("1")
    first.call()
    queue.advance_clock(9)
    assert first.request_permit("3", delay=5.0).wait == 0


def test_the_delay_begins_when_a_permit_of_a_dead_worker_ends(
    queue: SharedQueue,
) -> None:
    """The dead worker may have sent the request just before its lease ended."""
    worker, other = queue.worker(), queue.worker()
    worker.request_permit("1", delay=5.0)
    queue.advance_clock(LEASE + 1)
    assert other.request_permit("2", delay=5.0).wait == 5
    queue.advance_clock(5)
    assert other.request_permit("3", delay=5.0).wait == 0


def test_a_request_that_was_not_sent_begins_no_delay(queue: SharedQueue) -> None:
    worker = queue.worker()
    worker.request_permit("1", delay=5.0)
    worker.release_permit("1", was_sent=False)
    assert worker.request_permit("2", delay=5.0).wait == 0


def test_a_pause_reaches_all_workers(queue: SharedQueue) -> None:
    """A worker reports the pause of a host that it does not own. The owner learns of the pause in its next call, other
    workers when they request a permit.
    """
    owner, other, third = (queue.worker() for _ in range(3))
    owner.push("1")
    owner.take()
    other.reports["paused"].append(("a", 30.0))
    other.call()
    assert owner.call().pauses == {"a": pytest.approx(30)}
    assert owner.call().pauses == {}
    assert third.request_permit("1", limit=0).paused == pytest.approx(30)
    queue.advance_clock(34)
    assert third.request_permit("2", limit=0).wait == 0
    # After the pause, one request at a time is sent, and the third worker sends one now.
    assert owner.request_permit("3", limit=1).wait > 0
    third.release_permit("2")
    third.call()
    assert owner.request_permit("4", limit=1).wait == 0


def test_a_back_off_limits_all_workers_together(queue: SharedQueue) -> None:
    """During a back-off, a worker that asks for a permit says how many requests may be in flight to the host (*limit*).
    It gets the permit if all workers together have fewer requests in flight to the host.
    """
    worker, other = queue.worker(), queue.worker()
    assert worker.request_permit("1", limit=1).wait == 0
    assert other.request_permit("2", limit=1).wait > 0
    queue.advance_clock(5)
    assert other.request_permit("3", limit=2).wait == 0


def test_a_worker_keeps_a_back_off_that_only_another_worker_knows(
    queue: SharedQueue,
) -> None:
    """The worker that does not know of the back-off gets no permit while the other worker has a request in flight to
    the host.
    """
    worker, other = queue.worker(), queue.worker()
    assert worker.request_permit("1", limit=1).wait == 0
    assert other.request_permit("2", limit=0).wait > 0
    worker.release_permit("1")
    worker.call()
    assert other.request_permit("3", limit=0).wait == 0


def test_a_worker_that_does_not_know_of_a_pause_sends_one_request_at_a_time(
    queue: SharedQueue,
) -> None:
    """For 30 seconds after a pause, a worker that does not know of the pause gets only one permit (for one request) at
    a time. While it has the permit, no other worker gets a permit. If a worker becomes the owner of the host later, it
    continues the back-off.
    """
    worker, other, third = (queue.worker() for _ in range(3))
    worker.reports["paused"].append(("a", 5.0))
    worker.call()
    queue.advance_clock(6)
    assert other.request_permit("1", limit=0).wait == 0
    assert worker.request_permit("2", limit=1).wait > 0
    assert third.request_permit("3", limit=0).wait > 0
    other.release_permit("1")
    queue.advance_clock(40)
    other.call()
    assert other.request_permit("4", limit=0).wait == 0
    assert third.request_permit("5", limit=0).wait == 0
    other.push("1")
    answer = other.call(room=1)
    assert answer is not None
    [leased] = answer.hosts
    assert (leased.host, leased.concurrency, leased.lasted) == ("a", 1, 0)


def test_the_key_of_a_host_expires_only_without_requests(queue: SharedQueue) -> None:
    worker = queue.worker()
    worker.request_permit("1", host="b", delay=5.0)
    worker.release_permit("1")
    worker.push("1")
    worker.call()
    worker.reports["paused"].append(("c", 30.0))
    worker.call()
    worker.push("2", host="c")
    worker.call()
    assert queue.client.ttl(full_key(queue, "host:b")) > 0
    assert queue.client.ttl(full_key(queue, "host:c")) == -1
    worker.take()
    worker.finish("1")
    worker.give_back_host("a")
    worker.call()
    assert "queue:a" not in queue.stored_keys()


def full_key(queue: SharedQueue, name: str) -> str:
    """Return the key that ends with *name*, with its prefix."""
    [key] = queue.client.scan_iter(f"*:{name}")
    return str(key.decode())
