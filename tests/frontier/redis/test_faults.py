"""A Redis server that hangs, restarts or is out of memory loses no
request; the log warns once.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from redis.exceptions import ResponseError
from scrapy import Request

from scrapy_rep.frontier.redis import worker as worker_module
from tests.frontier.redis.crawls import WorkerCrawl
from tests.frontier.redis.shared import (
    EXEMPT,
    PAGES,
    Shared,
    acquire,
    end,
    know,
    pop,
    push,
    release,
    renew,
    retire,
    take,
    wanted,
)
from tests.stores.redis_server import BINARY, RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_rep.frontier.redis.worker import Link

pytestmark = pytest.mark.newest

A = "http://a.example"


@pytest.fixture
def impatient(server: RedisServer) -> Iterator[Shared]:
    """A queue whose workers wait half a second for a server that hangs."""
    with Shared(server, timeout=0.5) as found:
        yield found


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
def failing(link: Link, error: Exception, *, done: bool) -> Iterator[None]:
    """Let calls raise *error*, after the server ran them if *done*."""
    real = link._script

    def run(*args: Any) -> Any:
        if done:
            real(*args)
        raise error

    with mock.patch.object(link, "_script", run):
        yield


def fails_after(real: Callable[..., Any], times: int) -> Callable[..., Any]:
    """Return a function that does what *real* does, and after some calls returns None."""
    left = count(times, -1)
    return lambda *args: real(*args) if next(left) > 0 else None


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == level]


def test_no_memory(shared: Shared) -> None:
    """A server that is out of memory refuses pushes, and the worker keeps them. Pops,
    reports and renewals, which free memory, still work.
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
        assert renew(two) == 0
        assert pop(one, at_once=2) is not None
        assert acquire(two, "x", "c.example")
        release(two, "x", "c.example", 1.0, fetched=True)
        retire(two)
        assert one.count_all() == 3 + 2
    assert pop(one, at_once=9) is not None
    assert one.unsent == 0
    assert shared.count() == 5


def test_no_memory_in_a_crawl(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """A crawl warns once about a server that is out of memory, however many requests it
    refuses. When memory is free again, the requests are sent in order, and the log says so.
    """
    caplog.set_level(logging.INFO)
    crawl = WorkerCrawl(shared, obey=False)
    with no_memory(shared):
        for number in range(5):
            crawl.enqueue(Request(f"{A}/{number}"))
            crawl.settle(1)
        assert len(crawl.queue) == 5
        assert crawl.on_network == []
    crawl.settle(1)
    assert crawl.on_network == [f"{A}/{number}" for number in range(5)]
    said = [text for text in caplog.messages if text.startswith("The queue in Redis")]
    assert [text.split("(")[0] for text in said] == [
        "The queue in Redis fails ",
        "The queue in Redis works again",
    ]


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
    with failing(worker._link, error, done=False):
        push(worker, EXEMPT, "2")
    assert not worker._link.has_lost_answer
    assert worker._link.is_full
    assert worker.unsent == 1
    assert pop(worker) == "1"
    assert worker.unsent == 0


def test_done_after_what_it_has_made(shared: Shared) -> None:
    """A request is done only after the requests of its callback are in the queue. If the
    worker dies before that, another worker sends it again.
    """
    dead, other = shared.worker(), shared.worker(lease=1000.0)
    push(dead, EXEMPT, "1")
    found = take(dead)
    with no_memory(shared):
        push(dead, EXEMPT, "made by 1")
        end(dead, found)
        dead.exchange()
    shared.advance(60)
    assert renew(other) == 1
    assert pop(other) == "1"


def test_done_with_nothing_unsent(shared: Shared) -> None:
    """A request whose callback made no requests is done, although those of other callbacks
    are not in the queue yet: finished requests free memory.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1", "2", "3", "4")
    one, two = take(worker, at_once=9), take(worker, at_once=9)
    with no_memory(shared):
        end(worker, two, pushed=worker.pushed)
        worker.exchange()
        assert shared.count() == 3
        before = worker.pushed
        push(worker, EXEMPT, "made by 1")
        end(worker, one, pushed=before)
        worker.exchange()
        assert shared.count() == 3
        for _ in range(2):
            found = take(worker, at_once=9)
            end(worker, found, pushed=worker.pushed)
        worker.exchange()
        assert shared.count() == 1
    worker.exchange()
    assert shared.count() == 1
    assert pop(worker) == "made by 1"


def test_done_when_what_it_has_made_is_sent(shared: Shared) -> None:
    """A request is done once the requests of its callback are in the queue, whatever other
    callbacks made after them.
    """
    worker = shared.worker()
    push(worker, EXEMPT, "1", "2")
    one, two = take(worker, at_once=9), take(worker, at_once=9)
    with no_memory(shared):
        push(worker, EXEMPT, "made by 1")
        end(worker, one)
        push(worker, EXEMPT, "made by 2")
        end(worker, two)
    # The call with the first of them has an answer, and the next one does not arrive.
    with (
        mock.patch.object(worker_module, "MAX_UNSENT", 1),
        mock.patch.object(worker, "_send", side_effect=fails_after(worker._send, 1)),
    ):
        worker.exchange()
    assert worker.unsent == 1
    assert shared.count() == 2
    worker.exchange()
    assert shared.count() == 2


@mock.patch.object(worker_module, "MAX_UNSENT", 20)
def test_no_more_is_popped_where_much_is_unsent(shared: Shared) -> None:
    """A worker with too many unsent requests pops no more, so its memory is bounded. It
    still reports finished requests, and does not call the server constantly.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    for number in range(4):
        crawl.push(f"{A}/{number}")
    crawl.run()
    with no_memory(shared):
        crawl.enqueue(Request(f"{A}/made/0"))
        crawl.answer(f"{A}/0")
        crawl.settle(1)
        assert len(crawl.on_network) == 2
        for number in range(1, 20):
            crawl.enqueue(Request(f"{A}/made/{number}"))
        before = crawl.engine.wakes
        for url in crawl.on_network:
            crawl.answer(url)
        crawl.settle(20)
        assert crawl.on_network == []
        assert crawl.engine.wakes - before < 100
        assert crawl.queue._worker.unsent == 20
    crawl.settle(2)
    assert len(crawl.on_network) == 2
    assert crawl.queue._worker.unsent == 0
    assert shared.count() == 1 + 20


def test_server_that_hangs(impatient: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """A crawl does not block on a server that hangs. It keeps the pushed requests, and lost
    answers make no request go twice or get lost.
    """
    caplog.set_level(logging.INFO)
    crawl = WorkerCrawl(impatient, obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=3)
    for number in range(4):
        crawl.push(f"{A}/{number}")
    crawl.run()
    assert len(crawl.on_network) == 3
    with impatient.suspended():
        for url in crawl.on_network:
            crawl.answer(url)
        crawl.enqueue(Request(f"{A}/new"))
        crawl.settle(10)
        assert crawl.on_network == []
        assert len(crawl.queue) >= 1
    for _ in range(5):
        crawl.settle(5)
        for url in crawl.on_network:
            crawl.answer(url)
    urls = [request.url for request in crawl.sent]
    assert sorted(urls) == sorted(
        {f"{A}/{number}" for number in range(4)} | {f"{A}/new"}
    )
    assert len(crawl.queue) == 0
    assert len(messages(caplog, logging.WARNING)) == 1
    assert messages(caplog, logging.INFO)[-1] == "The queue in Redis works again"


def test_failing_server_is_left_alone(impatient: Shared) -> None:
    """A failing server is tried again every few seconds, and the event loop
    does not spin meanwhile.
    """
    crawl = WorkerCrawl(impatient, obey=False)
    crawl.push(f"{A}/1")
    crawl.run()
    calls = []
    crawl.link.connect(None)
    with impatient.suspended():
        crawl.answer(f"{A}/1")
        real = crawl.link._failed
        crawl.link._failed = lambda error: (calls.append(error), real(error))
        wakes = crawl.engine.wakes
        crawl.settle(10)
    assert 2 <= len(calls) <= 10
    assert crawl.engine.wakes - wakes <= 150


def test_answer_that_does_not_come(shared: Shared) -> None:
    """A request is not lost if the server has handed it out but its answer was lost."""
    crawl = WorkerCrawl(shared, obey=False)
    for number in range(3):
        crawl.push(f"{A}/{number}")
    with failing(crawl.link, ConnectionResetError(), done=True):
        assert crawl.run() == []
    crawl.settle(5)
    assert sorted(crawl.on_network) == [f"{A}/{number}" for number in range(3)]
    for url in crawl.on_network:
        crawl.answer(url)
    crawl.settle()
    assert len(crawl.queue) == 0


def test_push_whose_answer_does_not_come(shared: Shared) -> None:
    """A push without an answer is sent again. With a fingerprint, the request
    is in the queue only once.
    """
    crawl = WorkerCrawl(shared, obey=False)
    with failing(crawl.link, ConnectionResetError(), done=True):
        crawl.enqueue(Request(f"{A}/1"))
    crawl.settle(5)
    assert crawl.on_network == [f"{A}/1"]
    assert len(crawl.queue) == 1


def test_unsent_at_the_end(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """Requests that the server never accepted are lost at the end of the worker,
    and the log says how many.
    """
    crawl = WorkerCrawl(shared, obey=False)
    with no_memory(shared):
        crawl.push(f"{A}/1")
        crawl.push(f"{A}/2")
        crawl.close()
        crawl.closed()
    (lost,) = messages(caplog, logging.ERROR)
    assert lost.startswith("2 requests are lost: they were in the memory of this")


def test_sent_at_the_end(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    """Requests that the server accepts while the spider closes are not lost."""
    crawl = WorkerCrawl(shared, obey=False)
    with no_memory(shared):
        crawl.push(f"{A}/1")
        crawl.push(f"{A}/2")
    crawl.close(0)
    crawl.closed()
    assert messages(caplog, logging.ERROR) == []
    assert shared.count() == 2


def test_length_while_it_fails(impatient: Shared) -> None:
    """While the length of the queue is unknown, the crawl does not end."""
    crawl = WorkerCrawl(impatient, obey=False)
    assert len(crawl.queue) == 0
    with impatient.suspended():
        assert len(crawl.queue) == 1
        crawl.push(f"{A}/1")
        assert len(crawl.queue) >= 1


@pytest.mark.skipif(BINARY is None, reason="There is no redis-server on the PATH")
def test_restart(caplog: pytest.LogCaptureFixture) -> None:
    """A server that persists its data has all of it after a restart: requests that wait and
    requests that were handed out. Workers then go on.
    """
    with RedisServer(appendonly=True) as server, Shared(server) as shared:
        crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=1)
        for number in range(3):
            crawl.push(f"{A}/{number}")
        crawl.run()
        with shared.without_server():
            server.stop()
            crawl.answer(f"{A}/0")
            crawl.push(f"{A}/3")
            crawl.settle(5)
            server.start()
        for _ in range(6):
            crawl.settle(3)
            for url in crawl.on_network:
                crawl.answer(url)
        assert [one.url for one in crawl.sent] == [f"{A}/{n}" for n in range(4)]
        assert len(crawl.queue) == 0
        assert len(messages(caplog, logging.WARNING)) == 1
        crawl.closed()


@pytest.mark.parametrize("counter", ["number", "count"])
@pytest.mark.parametrize("value", ["lost", "text", "list"])
def test_counter_that_is_lost_or_garbled(
    shared: Shared, caplog: pytest.LogCaptureFixture, counter: str, value: str
) -> None:
    """If a counter of the queue is lost or garbled, the requests are counted again, with
    one warning. The crawl loses no request, sends none twice, and ends.
    """
    caplog.set_level(logging.INFO)
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    other = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    for number in range(6):
        crawl.push(f"{A}/{number}")
    crawl.settle()
    crawl.answer(f"{A}/0")
    crawl.settle()
    key = shared.key(counter)
    shared.redis.delete(key)
    if value == "text":
        shared.redis.set(key, "spam")
    elif value == "list":
        shared.redis.rpush(key, "spam")
    assert len(other.queue) == 5
    for number in range(6, 9):
        crawl.push(f"{A}/{number}")
    crawl.settle()
    assert len(crawl.queue) == 8
    for _ in range(8):
        for each in (crawl, other):
            for url in each.on_network:
                each.answer(url)
            each.settle()
    assert len(crawl.queue) == len(other.queue) == 0
    crawl.settle(20)
    sent = [request.url for request in crawl.sent + other.sent]
    assert sorted(sent) == [f"{A}/{number}" for number in range(9)]
    warnings = messages(caplog, logging.WARNING)
    assert [text[:30] for text in warnings] == ["A counter of the queue in Redi"]
