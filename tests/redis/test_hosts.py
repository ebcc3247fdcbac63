"""A host belongs to one worker, which gets its requests in their order, and gives it back with what it knows of it.
The others ask for permits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("scrapy_redis")

from tests.redis.workers import LEASE, SEEN

if TYPE_CHECKING:
    from tests.redis.workers import Shared

pytestmark = pytest.mark.newest


def test_a_host_has_one_owner(shared: Shared) -> None:
    """A worker that takes a host gets a batch of its requests, and more when it wants more; others get none."""
    worker, other = shared.worker(), shared.worker()
    worker.push(*"12345")
    assert worker.take() == ["1", "2", "3"]
    assert worker.on_server == {"a": 2}
    assert other.take() == []
    assert other.more("a") == []
    assert worker.more("a") == ["4", "5"]
    worker.done(*"12345")
    worker.call()
    assert shared.count == 0


def test_the_lowest_score_is_sent_first_and_before_it_what_was_given_back(
    shared: Shared,
) -> None:
    """The lowest score is first; of several, the first or the last one, as the crawl wants; and before all, what was
    given back.
    """
    worker = shared.worker()
    worker.push("low", score=7)
    worker.push("1", "2")
    worker.push("4", "3", score=3, is_last_first=True)
    worker.push("high", score=-5)
    assert worker.take(batch=9) == ["high", "1", "2", "3", "4", "low"]
    worker.give_back("low", "4")
    worker.push("higher", score=-99)
    assert worker.take() == ["4", "low", "higher"]


def test_requests_for_a_host_of_another_worker_reach_its_owner(shared: Shared) -> None:
    """What a worker pushes for a host of another one comes to that, once its queue was empty; until then, the owner
    knows that there is more.
    """
    worker, other = shared.worker(), shared.worker()
    worker.push("1")
    assert worker.take() == ["1"]
    other.push(*"23456")
    other.call()
    assert worker.take(0) == ["2", "3", "4"]
    other.push("7")
    other.call()
    assert worker.take(0) == []
    assert worker.more("a") == ["5", "6", "7"]


def test_a_worker_gets_at_most_its_share_of_the_free_hosts(shared: Shared) -> None:
    """A worker gets hosts for as many requests as it has room for, but no more than its share. A host with many requests
    counts for as many as may be in flight.
    """
    worker, other = shared.worker(), shared.worker()
    for host in "abcd":
        worker.push(*(f"{host}{number}" for number in range(9)), host=host)
        shared.advance(1)
        worker.call()
    worker.take(3)
    assert worker.owned == {"a", "b"}
    worker.take(0)
    other.take(9)
    assert other.owned == {"c"}
    other.take(9)
    assert other.owned == {"c", "d"}


def test_a_duplicate_of_any_worker_is_not_kept(shared: Shared) -> None:
    """A fingerprint that any worker has pushed is known, and its request is not kept."""
    worker, other = shared.worker(), shared.worker()
    worker.push("1", "2", "1")
    assert worker.call().seen == [2]
    other.push("2", "3")
    other.push("2", fingerprint="")
    assert other.call().seen == [0]
    assert shared.count == 4
    assert shared.client.scard(SEEN) == 3


def test_the_next_owner_gets_requests_delay_and_back_off_of_a_host(
    shared: Shared,
) -> None:
    """The next owner gets the requests that were not sent, first; not before its delay has passed; and the back-off."""
    worker, other = shared.worker(), shared.worker()
    worker.push(*"12345")
    worker.take()
    worker.done("1")
    worker.leave("a", next_in=20, back_off=(4.0, 2, 30.0))
    worker.call()
    assert other.take() == []
    shared.advance(21)
    assert other.take() == ["2", "3", "4"]
    [host] = other.last.hosts
    assert host == ("a", 4.0, 2, 51.0)
    assert shared.count == 4


def test_requests_of_a_dead_worker_come_first_for_others(shared: Shared) -> None:
    """When its lease has ended, its hosts are free, and what it had taken comes first. It counts once."""
    worker, other = shared.worker(), shared.worker()
    worker.push(*"12345")
    worker.take()
    shared.advance(LEASE - 1)
    assert other.take() == []
    shared.advance(2)
    other.push("6", score=-9)
    assert other.take(batch=9) == [*"12365", "4"] or other.last.returned == 3
    assert [
        taken.data
        for taken in sorted(other.taken.values(), key=lambda taken: taken.score)
    ][:3] == [b"1", b"2", b"3"]
    assert shared.count == 6


def test_a_worker_that_was_suspended_loses_what_it_had(shared: Shared) -> None:
    """The next answer reports the loss. Reports about the lost requests change nothing. New requests are kept."""
    worker, other = shared.worker(), shared.worker()
    worker.push(*"123")
    worker.take()
    shared.advance(LEASE + 1)
    assert sorted(other.take()) == [*"123"]
    worker.done(*"123")
    worker.push("4", host="b")
    assert worker.call(room=9).has_lost
    assert not worker.owned | worker.taken.keys()
    assert shared.count == 4
    assert worker.take() == ["4"]
    other.done(*"123")
    other.call()
    assert shared.count == 1


def test_a_worker_that_nobody_missed_keeps_what_it_has(shared: Shared) -> None:
    """If no other worker has called since its lease ended, it keeps all that it has."""
    worker = shared.worker()
    worker.push(*"123")
    worker.take()
    shared.advance(10 * LEASE)
    assert not worker.call().has_lost
    worker.done(*"123")
    worker.call()
    assert shared.count == 0


def test_a_worker_that_ends_gives_everything_back(shared: Shared) -> None:
    worker, other = shared.worker(), shared.worker()
    worker.push(*"123")
    worker.take()
    worker.retire()
    assert other.take() == [*"123"]
    assert not [key for key in shared.names() if worker.exchange._worker in key]


# Permits.


def test_a_delay_holds_for_all_workers_together(shared: Shared) -> None:
    """Of all workers, one request to a host with a delay is in flight, and the next goes a delay after its end."""
    owner, other = shared.worker(), shared.worker()
    assert owner.ask("1", delay=5.0).wait == 0
    assert other.ask("2", delay=5.0).wait == 5
    shared.advance(3)
    owner.end("1", ago=1.0)
    owner.call()
    assert other.ask("3", delay=5.0).wait == pytest.approx(4)
    shared.advance(4)
    assert other.ask("4", delay=5.0).wait == 0


def test_a_worker_keeps_a_delay_that_only_others_know(shared: Shared) -> None:
    """The worker may not have fetched the robots.txt of the host yet."""
    owner, other = shared.worker(), shared.worker()
    owner.ask("1", delay=5.0)
    assert other.ask("2", limit=0).wait == 5
    owner.end("1")
    owner.call()
    shared.advance(5)
    assert other.ask("3", limit=0).wait == 0
    assert owner.ask("4", delay=5.0).wait == 5


def test_the_worker_that_was_refused_gets_the_next_permit(shared: Shared) -> None:
    """An owner that asks again and again does not keep the others from their permits, nor they it."""
    owner, other = shared.worker(), shared.worker()
    owner.ask("1", delay=5.0)
    other.ask("2", delay=5.0)
    owner.end("1")
    owner.call()
    shared.advance(5)
    assert owner.ask("3", delay=5.0).wait > 0
    assert other.ask("4", delay=5.0).wait == 0
    assert owner.ask("5", delay=5.0).wait > 0
    other.end("4")
    other.call()
    shared.advance(5)
    assert other.ask("6", delay=5.0).wait > 0
    assert owner.ask("7", delay=5.0).wait == 0


def test_a_reserved_permit_expires_after_a_few_seconds(shared: Shared) -> None:
    """A permit is reserved for a few seconds only."""
    owner, other = shared.worker(), shared.worker()
    owner.ask("1", delay=5.0)
    other.ask("2", delay=5.0)
    owner.end("1")
    owner.call()
    shared.advance(9)
    assert owner.ask("3", delay=5.0).wait == 0


def test_a_permit_of_a_dead_worker_ends_and_its_delay_begins(shared: Shared) -> None:
    """The request may have been sent just before the lease ended."""
    worker, other = shared.worker(), shared.worker()
    worker.ask("1", delay=5.0)
    shared.advance(LEASE + 1)
    assert other.ask("2", delay=5.0).wait == 5
    shared.advance(5)
    assert other.ask("3", delay=5.0).wait == 0


def test_a_request_that_was_not_sent_begins_no_delay(shared: Shared) -> None:
    worker = shared.worker()
    worker.ask("1", delay=5.0)
    worker.end("1", was_sent=False)
    assert worker.ask("2", delay=5.0).wait == 0


def test_a_pause_reaches_all_workers(shared: Shared) -> None:
    """The owner learns of a pause that another worker was asked for with its next call, others when they ask."""
    owner, other, third = (shared.worker() for _ in range(3))
    owner.push("1")
    owner.take()
    other.reports["paused"].append(("a", 30.0))
    other.call()
    assert owner.call().pauses == {"a": pytest.approx(30)}
    assert owner.call().pauses == {}
    assert third.ask("1", limit=0).paused == pytest.approx(30)
    shared.advance(34)
    assert third.ask("2", limit=0).wait == 0
    # It is the one request after the pause.
    assert owner.ask("3", limit=1).wait > 0
    third.end("2")
    third.call()
    assert owner.ask("4", limit=1).wait == 0


def test_a_back_off_limits_all_workers_together(shared: Shared) -> None:
    """While a host has asked for pauses, all together have as many in flight as who asks would have."""
    worker, other = shared.worker(), shared.worker()
    assert worker.ask("1", limit=1).wait == 0
    assert other.ask("2", limit=1).wait > 0
    shared.advance(5)
    assert other.ask("3", limit=2).wait == 0


def test_a_worker_keeps_a_back_off_that_only_others_know(shared: Shared) -> None:
    """The worker sends nothing while others have a request in flight to a host in back-off."""
    worker, other = shared.worker(), shared.worker()
    assert worker.ask("1", limit=1).wait == 0
    assert other.ask("2", limit=0).wait > 0
    worker.end("1")
    worker.call()
    assert other.ask("3", limit=0).wait == 0


def test_a_worker_that_does_not_know_of_a_pause_sends_one_request_at_a_time(
    shared: Shared,
) -> None:
    """For a while, it sends one request at a time, and others count that; as the next owner, too."""
    worker, other, three = (shared.worker() for _ in range(3))
    worker.reports["paused"].append(("a", 5.0))
    worker.call()
    shared.advance(6)
    assert other.ask("1", limit=0).wait == 0
    assert worker.ask("2", limit=1).wait > 0
    assert three.ask("3", limit=0).wait > 0
    other.end("1")
    shared.advance(40)
    other.call()
    assert other.ask("4", limit=0).wait == 0
    assert three.ask("5", limit=0).wait == 0
    other.push("1")
    answer = other.call(room=1)
    assert answer is not None
    [leased] = answer.hosts
    assert (leased.host, leased.concurrency, leased.lasted) == ("a", 1, 0)


def test_the_key_of_a_host_without_requests_expires(shared: Shared) -> None:
    """The key of a host without requests expires; that of one with requests does not."""
    worker = shared.worker()
    worker.ask("1", host="b", delay=5.0)
    worker.end("1")
    worker.push("1")
    worker.call()
    worker.reports["paused"].append(("c", 30.0))
    worker.call()
    worker.push("2", host="c")
    worker.call()
    assert shared.client.ttl(shared_key(shared, "host:b")) > 0
    assert shared.client.ttl(shared_key(shared, "host:c")) == -1
    worker.take()
    worker.done("1")
    worker.leave("a")
    worker.call()
    assert "queue:a" not in shared.names()


def shared_key(shared: Shared, name: str) -> str:
    [key] = shared.client.scan_iter(f"*:{name}")
    return str(key.decode())
