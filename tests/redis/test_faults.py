"""A Redis server that hangs, restarts or is out of memory: no request is lost, and the log warns
once. ``tests/crawl/test_many_workers.py`` lets a server restart under whole crawls.
"""

from __future__ import annotations

import logging
import re
from contextlib import ExitStack, contextmanager
from math import inf
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from redis.exceptions import ResponseError
from scrapy import Request

from scrapy_rep.redis import worker as worker_module
from tests.redis.crawls import A, WorkerCrawl, decode_errors
from tests.redis.shared import (
    EXEMPT,
    HOUR,
    LEASE,
    PAGES,
    Shared,
    acquire,
    end,
    know,
    lose_all,
    pop,
    push,
    release,
    renew,
    retire,
    take,
    take_some,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.redis.worker import Link
    from tests.fetching.redis_server import RedisServer

pytestmark = pytest.mark.newest


@contextmanager
def no_memory(shared: Shared) -> Iterator[None]:
    """Set the server's memory limit so low that it accepts no new data, not even the time."""
    shared.redis.config_set("maxmemory-policy", "noeviction")
    with shared.without_server():
        shared.redis.config_set("maxmemory", 1)
        try:
            yield
        finally:
            shared.redis.config_set("maxmemory", 0)


@contextmanager
def failing(
    link: Link, error: Exception, *, done: bool = False, after: int = 0
) -> Iterator[list[Any]]:
    """Let calls raise *error*, except for the first *after* ones. If *done*, the server has run them
    before. Yields a list of all calls.
    """
    real, calls = link._script, []

    def run(*args: Any) -> Any:
        calls.append(args)
        if len(calls) <= after:
            return real(*args)
        if done:
            real(*args)
        raise error

    with mock.patch.object(link, "_script", run):
        yield calls


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == level]


def test_no_memory(shared: Shared) -> None:
    """A server that is out of memory refuses new requests, and the worker keeps them. All else,
    which frees memory or keeps delays, still works: pops, reports, leases, places, pauses.
    """
    one, two = shared.worker(), shared.worker()
    push(one, PAGES, "1", "2", "3")
    push(one, EXEMPT, "e")
    with no_memory(shared):
        push(one, PAGES, "4", seen=True)
        push(one, PAGES, "5")
        assert one.unsent == 2
        assert wanted(two) == [PAGES]
        know(two, PAGES)
        found = take(two, at_once=2)
        assert pop(two, at_once=2) is not None
        assert pop(two, at_once=2) is None
        end(two, found)
        two.exchange()
        assert shared.count() == 3
        assert pop(one, at_once=2) is not None
        assert acquire(two, "x", "c.example")
        release(two, "x", "c.example", 1.0, fetched=True)
        retire(two)
        one.report_pause("a.example", 7.0, 1.0)
        assert pop(one, at_once=9) is None
        assert one.count_all() == 3 + 2
    shared.advance(7)
    assert pop(one, at_once=9) is None  # One is in flight, after a pause.
    assert one.unsent == 0
    assert shared.count() == 5


def test_no_memory_as_redis_6_says_it(shared: Shared) -> None:
    """Redis 6 wraps the out-of-memory error in an error of the script. The worker
    recognises it, and keeps using the server.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1")
    error = ResponseError(
        "Error running script (call to f_1): @user_script:1: -OOM command not allowed "
        "when used memory > 'maxmemory'."
    )
    with failing(worker._link, error):
        push(worker, EXEMPT, "2")
    assert worker.unsent == 1
    assert pop(worker) == "1"
    assert worker.unsent == 0


@pytest.mark.parametrize("dies", [True, False])
def test_done_after_what_its_callback_has_made(shared: Shared, *, dies: bool) -> None:
    """A request is done only after the requests of its callback are in the queue: if the worker
    dies before that, another worker sends it again. One whose callback has made none is done at
    once, and so frees memory, although those of other callbacks wait.
    """
    worker, other = shared.worker(), shared.worker(lease=1000.0)
    push(worker, EXEMPT, "1", "2", "3")
    one, two, three = (take(worker, at_once=9) for _ in range(3))
    with no_memory(shared):
        end(worker, two, pushed=worker.pushed)
        before = worker.pushed
        push(worker, EXEMPT, "made by 1")
        end(worker, one, pushed=before)
        end(worker, three, pushed=worker.pushed)
        lose_all(worker)  # What is to be reported does not return.
        assert shared.count() == 1
    if dies:
        shared.advance(LEASE)
        assert renew(other) == 1
        assert pop(other) == "1"
    else:
        worker.exchange()
        assert shared.count() == 1
        assert pop(worker) == "made by 1"


def test_done_before_what_others_have_made(shared: Shared) -> None:
    """A request is done once the requests of its callback are in the queue, although the call with
    those that other callbacks made after them fails.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1", "2")
    found = [take(worker, at_once=9) for _ in range(2)]
    with no_memory(shared):
        for popped in found:
            push(worker, EXEMPT, "made by it")
            end(worker, popped)
    with (
        mock.patch.object(worker_module, "MAX_UNSENT", 1),
        failing(worker._link, TimeoutError(), after=1),
    ):
        worker.exchange()
    assert worker.unsent == 1
    assert shared.count() == 2
    shared.advance(2)
    worker.exchange()
    assert worker.unsent == 0
    assert shared.count() == 2


@mock.patch.object(worker_module, "MAX_UNSENT", 20)
def test_no_more_is_popped_while_much_is_unsent(shared: Shared) -> None:
    """A worker with too many unsent requests pops no more, so its memory is bounded. It
    still reports finished requests, and does not call the server constantly.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    crawl.push_pages(0, 1, 2, 3)
    crawl.run()
    with no_memory(shared):
        crawl.enqueue(Request(f"{A}/made/0"))
        crawl.answer(f"{A}/0")
        crawl.settle(1)
        assert len(crawl.on_network) == 2
        for number in range(1, 20):
            crawl.enqueue(Request(f"{A}/made/{number}"))
        before = crawl.engine.wakes
        crawl.serve()
        crawl.settle(20)
        assert crawl.on_network == []
        assert crawl.engine.wakes - before < 100
        assert crawl.queue._worker.unsent == 20
    crawl.settle(2)
    assert len(crawl.on_network) == 2
    assert crawl.queue._worker.unsent == 0
    assert shared.count() == 1 + 20


@pytest.mark.parametrize("is_back", [True, False])
def test_unsent_at_the_end(
    shared: Shared, caplog: pytest.LogCaptureFixture, *, is_back: bool
) -> None:
    """Requests that the server accepts while the spider closes are not lost. Those that it never
    accepts are, and the log says how many.
    """
    crawl = WorkerCrawl(shared, obey=False)
    with ExitStack() as stack:
        with no_memory(shared):
            crawl.push_pages(1, 2)
        if not is_back:
            stack.enter_context(no_memory(shared))
        crawl.close(0)
        crawl.closed()
    lost = messages(caplog, logging.ERROR)
    assert [text[:22] for text in lost] == ["2 requests are lost: t"] * (not is_back)
    assert shared.count() == 2 * is_back


def test_failing_server_is_left_alone(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """A crawl tries a server that fails every few seconds, with one warning, and does not spin. Later
    it goes on, and sends each request once.
    """
    caplog.set_level(logging.INFO)
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push_pages(1)
    crawl.run()
    with failing(crawl.link, TimeoutError()) as calls:
        crawl.answer(f"{A}/1")
        crawl.enqueue(Request(f"{A}/2"))
        wakes = crawl.engine.wakes
        crawl.settle(10)
        assert crawl.on_network == []
    assert 2 <= len(calls) <= 10
    assert crawl.engine.wakes - wakes <= 150
    crawl.settle(5)
    assert crawl.on_network == [f"{A}/2"]
    assert len(messages(caplog, logging.WARNING)) == 1
    assert messages(caplog, logging.INFO).count("The queue in Redis works again") == 1


def test_server_that_hangs(server: RedisServer) -> None:
    """A worker does not wait for ever for a server that hangs. While the length of the queue is
    unknown, the crawl does not end.
    """
    with Shared(server, timeout=0.5) as shared:
        crawl = WorkerCrawl(shared, obey=False)
        assert len(crawl.queue) == 0
        shared.advance(0.1)
        with server.suspended():
            assert len(crawl.queue) == 1


@pytest.mark.parametrize("lost", ["push", "pop"])
def test_answer_that_does_not_come(shared: Shared, lost: str) -> None:
    """No request is lost or sent twice if the server has taken it or handed it out, and its answer
    was lost.
    """
    crawl = WorkerCrawl(shared, obey=False)
    urls = [f"{A}/{number}" for number in range(3)]
    with ExitStack() as stack:
        if lost == "push":
            stack.enter_context(failing(crawl.link, ConnectionResetError(), done=True))
        for url in urls:
            crawl.enqueue(Request(url))
    if lost == "pop":
        with failing(crawl.link, ConnectionResetError(), done=True):
            assert crawl.run() == []
    crawl.settle(5)
    assert sorted(crawl.on_network) == urls
    crawl.serve()
    crawl.settle()
    assert len(crawl.queue) == 0


def test_answer_that_does_not_come_to_who_has_a_batch(shared: Shared) -> None:
    """After a lost answer, a worker keeps the requests that it was handed out and has not popped."""
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=4)
    other = shared.worker(lease=1000.0)
    crawl.push_pages(0, 1, 2)
    crawl.start(crawl.queue.pop())
    crawl.die()
    crawl.queue._kept_until = inf  # The server was distant.
    with failing(crawl.link, ConnectionResetError(), done=True):
        crawl.send()
    shared.advance(5)
    crawl.send()
    assert not crawl.link.has_lost_answer
    assert not take_some(other, 8, at_once=8)
    assert crawl.queue.pop() is not None


def test_server_that_restarts_with_older_data(shared: Shared) -> None:
    """If the server is as it was some time ago, all of a sudden, what a worker has done since returns to
    the queue, although no call has failed.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1", "2")
    (lease,) = take_some(worker, 1, at_once=1)
    keys = shared.redis.keys(shared.key("*"))
    before = {key: shared.redis.dump(key) for key in keys}
    end(worker, lease)
    worker.exchange()
    assert shared.count() == 1
    for key, value in before.items():
        shared.redis.restore(key, 0, value, replace=True)
    shared.redis.client_kill_filter(_type="normal", skipme=True)
    for _ in range(2):
        worker.exchange()
    assert [each.data for each in take_some(worker, 9, at_once=9)] == [b"1", b"2"]


def test_a_request_that_a_worker_gets_twice(shared: Shared) -> None:
    """If the lease of a worker has expired, and it gets the same request again, the end of the first one
    does not free the place of the second one.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1", "2")
    (first,) = take_some(worker, 1, at_once=1)
    other = shared.worker(lease=1000.0)
    shared.advance(LEASE)
    assert renew(other) == 1
    (second,) = take_some(worker, 1, at_once=1)
    assert second.data == first.data == b"1"
    for lease, left in (first, 2), (second, 1):
        end(worker, lease)
        worker.exchange()
        assert shared.count() == left
        assert (take(other) is None) == (left == 2)


def test_state_that_is_lost_alone(shared: Shared) -> None:
    """If the mark of the queue is gone, and the counters with it, a worker that had seen it gets nothing
    more. A new worker counts what is there, and its own requests come after those.
    """
    worker = shared.worker()
    push(worker, EXEMPT, *"1234")
    found = take_some(worker, 2, at_once=9)
    shared.redis.delete(shared.key("state"))
    shared.advance(0.001)
    other = shared.worker()
    assert other.count_all() == 4
    push(other, EXEMPT, *"567")
    assert take(worker) is None
    assert worker.is_lost
    assert other.count_all() == 7
    names = [each.data.decode() for each in take_some(other, 9, at_once=9)]
    assert names == [*"34567"]
    shared.advance(LEASE)
    assert renew(other) == len(found)


@pytest.mark.parametrize("key", ["ready", "wanted", "host:a.example"])
def test_a_key_that_is_lost_alone(shared: Shared, key: str) -> None:
    """The next request of a host brings it back."""
    worker = shared.worker()
    know(worker, PAGES)
    push(worker, PAGES, "1", "2")
    shared.redis.delete(shared.key(key))
    push(worker, PAGES, "3")
    shared.advance(1)
    for queue in wanted(worker):
        know(worker, queue)
    found = take_some(worker, 4, at_once=8)
    assert [each.data for each in found] == [b"1", b"2", b"3"]


def test_worker_that_ends_after_a_lost_answer(shared: Shared) -> None:
    """A worker that ends returns all it has, also if it has missed an answer just before."""
    worker, other = shared.worker(), shared.worker(lease=1000.0)
    push(worker, EXEMPT, "1", "2")
    take_some(worker, 2, at_once=9)
    worker._link.has_lost_answer = True
    retire(worker)
    assert [each.data for each in take_some(other, 9, at_once=9)] == [b"1", b"2"]


def test_queue_that_is_lost(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """Workers whose queue is gone push again what they have, once each, with an error, and get
    nothing more. A worker that starts later gets that, and notices nothing.
    """
    one, two = (WorkerCrawl(shared, obey=False) for _ in range(2))
    one.push_pages(1, 2)
    one.run()
    one.collect(3)
    two.push_pages(4)
    two.run()
    shared.redis.flushall()
    shared.advance(0)
    for crawl in (one, two):
        crawl.settle(2)
        assert crawl.queue.pop() is None
        assert len(crawl.queue) > 0
    texts = messages(caplog, logging.ERROR)
    assert [re.findall(r"The (\d) requests", text) for text in texts] == [["3"], ["1"]]
    assert shared.count() == 4
    found = take_some(shared.worker(), 9, at_once=9)
    assert len(found) == 4
    assert len(messages(caplog, logging.ERROR)) == 2


def test_another_worker_clears_an_empty_queue(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """With SCHEDULER_PERSIST = False, the first worker to end clears the queue. If that was empty,
    the others have lost nothing, and go on. The last one leaves no key.
    """
    one, two = (WorkerCrawl(shared, obey=False) for _ in range(2))
    assert len(one.queue) == len(two.queue) == 0
    for crawl in (one, two):
        crawl.queue.clear()
        crawl.close()
        crawl.closed()
        assert not messages(caplog, logging.ERROR)
        if crawl is one:
            two.push_pages(1)
            two.run()
            assert two.serve() == [f"{A}/1"]
            two.settle()
            assert len(two.queue) == 0
    assert not shared.content()


def test_another_worker_clears_a_queue_that_has_just_become_empty(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """The same if the last call of another worker was before the last request was done."""
    one, two = (WorkerCrawl(shared, obey=False) for _ in range(2))
    one.push_pages(1)
    one.run()
    two.send()
    assert one.serve() == [f"{A}/1"]
    one.settle(0.1)
    assert len(one.queue) == 0
    assert two.queue._worker.last_count == 1
    one.queue.clear()
    one.close()
    one.closed()
    two.settle(9)
    assert not two.frontier.closes_for
    two.push_pages(2)
    two.run()
    assert two.serve() == [f"{A}/2"]
    two.settle()
    assert len(two.queue) == 0
    assert not messages(caplog, logging.ERROR)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_requests_while_the_queue_is_cleared(shared: Shared, moment: str) -> None:
    """What workers push while another one clears the queue, before or after it has deleted keys, is
    counted exactly as often as it is in the queue afterwards, and each can be sent.
    """
    one, two = (WorkerCrawl(shared, obey=False) for _ in range(2))
    two.push_pages(1, 2)
    new = shared.worker()

    def scan(*args: Any, **how: Any) -> Iterator[bytes]:
        if moment == "after":
            yield from found(*args, **how)
        two.push_pages(3)
        push(new, EXEMPT, "4")
        if moment == "before":
            yield from found(*args, **how)

    found = one.queue.server.scan_iter
    with mock.patch.object(one.queue.server, "scan_iter", scan):
        one.queue.clear()
    assert not shared.content()
    one.die()
    for worker in (two.queue._worker, new):
        worker.exchange()
    other = shared.worker()
    assert other.count_all() == len(take_some(other, 9, at_once=9)) > 0


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_worker_that_is_killed_while_it_clears_the_queue(
    shared: Shared, deleted: int
) -> None:
    """Nobody can use the queue for a minute. Then, what is left of it is counted, and can be sent."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push_pages(1, 2, 3)
    crawl.enqueue(Request("http://b.example/1"))
    assert len(crawl.queue) == 4
    found = crawl.queue.server.scan_iter

    def scan(*args: Any, **how: Any) -> Iterator[bytes]:
        yield from [*found(*args, **how)][:deleted]
        raise KeyboardInterrupt

    killed = pytest.raises(KeyboardInterrupt)
    with mock.patch.object(crawl.queue.server, "scan_iter", scan), killed:
        crawl.queue.clear()
    crawl.die()
    other, state = shared.worker(), shared.key("state")
    push(other, EXEMPT, "5")
    assert take(other) is None
    assert 50 < shared.redis.ttl(state) <= 60
    shared.redis.delete(state)
    assert other.count_all() == len(take_some(other, 9, at_once=9)) > 1


def test_garbled_members(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """Members that this package has not written are set aside, or ignored, with one error. The
    crawl goes on.
    """
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push_pages(1)
    garbage = b"\xff\x00\n"
    for name in (f"queue:{EXEMPT}", "ready", "wanted", "pauses", "aside", "workers"):
        shared.redis.zadd(shared.key(name), {garbage: 1})
    for name in (f"leases:{garbage!r}", "host:a.example"):
        shared.redis.hset(shared.key(name), "=1", garbage)
    shared.redis.zadd(shared.key("workers"), {repr(garbage): 1})
    crawl.run()
    crawl.settle(2)
    assert crawl.on_network == [f"{A}/1"]
    assert decode_errors(caplog) == 1


def test_pauses_that_are_over(shared: Shared) -> None:
    """Hosts that have answered well after a pause, or are forgotten, are removed from the list of
    pauses. A later, shorter pause does not end the list.
    """
    worker = shared.worker()
    worker.report_pause("long.example", 30 * 24 * HOUR, 1.0)
    for number in range(50):
        worker.report_pause(f"{number}.example", 7.0, 1.0)
        assert acquire(worker, f"{number}", f"{number}.example") is False
        shared.advance(11)
        assert acquire(worker, f"{number}", f"{number}.example")
        lease = worker.acquired.pop(f"{number}")
        lease.succeeded_after = worker.last_pause
        worker.report_left(lease)
        worker.exchange()
    members = shared.content()["pauses"]
    assert "long.example" in members
    assert len(members) <= 9
    assert shared.ends_in("pauses") > 29 * 24 * HOUR
