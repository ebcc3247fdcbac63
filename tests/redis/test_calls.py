"""Tests of the calls of :class:`SharedScheduler` to the Redis server: when a worker calls, what a worker does while its
lease is over, and what happens after an error.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Request
from twisted.internet.defer import succeed

from tests.fakes import coroutine_test
from tests.redis.scheduling import CrawlWorker
from tests.redis.workers import LEASE, FailingClient, fake_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis.workers import SharedQueue

pytestmark = pytest.mark.newest
URL = "http://a.example/{}"


@pytest.fixture
def queue() -> Iterator[SharedQueue]:
    with fake_queue() as queue:
        yield queue


@coroutine_test
async def test_a_worker_sends_nothing_after_its_machine_slept_until_the_server_answers(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still while the machine sleeps. So only the system clock shows that the lease has
    ended.
    """
    worker = CrawlWorker(queue)
    worker.scheduler.enqueue_request(Request(URL.format(1)))
    worker.call()
    monkeypatch.setattr(
        worker.scheduler._clock, "time", lambda: time.time() + LEASE, raising=True
    )
    assert worker.next_request() is None
    wakes = worker.engine.wakes
    worker.call()
    assert worker.engine.wakes > wakes
    assert worker.next_request() is not None
    worker.close()


@coroutine_test
async def test_pauses_and_back_off_survive_clocks_that_differ(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the first worker is an hour fast, and the clock of the host's next owner is an hour slow. The pause
    still lasts as long as the host requested, and the next owner continues the back-off.
    """
    first, second = CrawlWorker(queue), CrawlWorker(queue)
    for worker, offset in ((first, 3600.0), (second, -3600.0)):
        clock = worker.scheduler._clock
        monkeypatch.setattr(clock, "time", lambda offset=offset: time.time() + offset)
        worker.call()
    first.scheduler.enqueue_request(Request(URL.format(1)))
    first.call()
    first.frontier.pause("a.example", 40.0, None, "asks for a pause")
    first.call()
    queue.advance_clock(39)
    second.call()
    assert second.next_request() is None
    queue.advance_clock(2)
    second.call()
    assert second.next_request() is not None
    back_off = second.frontier.limits.limiters["a.example"].back_off
    assert back_off is not None
    back_off_seconds = second.frontier.clock.monotonic() - back_off.since
    assert back_off_seconds == pytest.approx(41, abs=2)
    first.close()
    second.close()


@coroutine_test
async def test_a_clock_that_is_set_back_does_not_prolong_a_lease(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker sends requests until the lease has ended on the monotonic clock."""
    worker = CrawlWorker(queue)
    for number in range(2):
        worker.scheduler.enqueue_request(Request(URL.format(number)))
    worker.call()
    clock = worker.scheduler._clock
    monkeypatch.setattr(clock, "time", lambda: time.time() - 3600)
    assert worker.next_request() is not None
    monkeypatch.setattr(clock, "monotonic", lambda: time.monotonic() + LEASE)
    assert worker.next_request() is None
    worker.close()


@coroutine_test
async def test_a_worker_calls_less_often_when_all_requests_are_done(
    queue: SharedQueue,
) -> None:
    """While another worker has a request in flight, the callback of this request can yield new requests. Meanwhile, a
    worker without requests calls the server again within 0.2 seconds. When all requests are done, it calls within a
    second.
    """
    worker, other = CrawlWorker(queue), queue.worker()
    other.push("a")
    other.take()
    worker.call()
    assert 0.05 < _next_in(worker) <= 0.2
    other.finish("a")
    other.call()
    worker.call()
    assert 0.2 < _next_in(worker) <= 1
    worker.scheduler.enqueue_request(Request(URL.format(1)))
    assert _next_in(worker) < 0.03
    worker.close()


def _next_in(worker: CrawlWorker) -> float:
    """Return the seconds until the next call of *worker*."""
    return worker.scheduler._next_at - worker.frontier.clock.monotonic()


@coroutine_test
async def test_requests_to_a_host_that_pauses_for_too_long_are_refused(
    queue: SharedQueue,
) -> None:
    """The requests do not wait for the end of the pause. The scheduler hands all of them out, and the wire refuses
    them.
    """
    worker = CrawlWorker(queue, REP_WAIT_TIMEOUT=100)
    for number in range(300):
        worker.scheduler.enqueue_request(Request(URL.format(number)))
    worker.call()
    worker.frontier.pause("a.example", 7200.0, None, "asks for a pause")
    assert _refuse_all(worker) == 300
    assert len(worker.scheduler) == 0
    worker.close()


@coroutine_test
async def test_the_next_owner_refuses_requests_in_a_pause_that_is_too_long(
    queue: SharedQueue,
) -> None:
    """The worker that reports the pauses does not own the hosts. Any worker may take the host with the long pause at
    once, to refuse its requests. No worker may take the host with the short pause before the pause ends.
    """
    first, second = (CrawlWorker(queue, REP_WAIT_TIMEOUT=100) for _ in range(2))
    first.scheduler._has_begun = False  # So the first worker takes no hosts.
    for host, pause in (("a", 7200.0), ("b", 90.0)):
        first.frontier.pause(f"{host}.example", pause, None, "asks for a pause")
        first.call()
        first.scheduler.enqueue_request(Request(f"http://{host}.example/1"))
    first.call()
    assert _refuse_all(second) == 1
    assert list(second.scheduler._lease.hosts) == ["a.example"]
    queue.advance_clock(91)
    second.call()
    assert second.next_request() is not None
    first.close()
    second.close()


def _refuse_all(worker: CrawlWorker) -> int:
    """Let *worker* take requests from the server. Check that all are refused, and return their number."""
    count = 0
    for _ in range(5):
        worker.call()
        while (request := worker.next_request()) is not None:
            entry = worker.frontier.in_flight[request]
            assert worker.frontier.refusal(entry)
            worker.engine.downloader.active.discard(request)
            worker.engine._slot.inprogress.discard(request)
            worker.frontier.end(request, entry)
            count += 1
    return count


@coroutine_test
async def test_requests_of_an_answer_whose_processing_fails_are_delivered_again(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the worker fails to process an answer of the Redis server, its next call gives the requests of the answer back
    to the server. A later call delivers them again.
    """
    worker = CrawlWorker(queue)
    monkeypatch.setattr(worker.scheduler, "_take", _fail)
    worker.scheduler.enqueue_request(Request(URL.format(1)))
    worker.call()
    assert worker.next_request() is None
    monkeypatch.undo()
    worker.call()
    worker.call()
    assert worker.next_request() is not None
    assert queue.count == 1
    worker.close()


def _fail(*_: Any) -> None:
    raise RuntimeError("A bug in the worker")


@coroutine_test
async def test_requests_in_memory_are_counted_when_they_are_queued(
    queue: SharedQueue,
) -> None:
    """Scrapy's stats count a request that cannot be written to Redis as enqueued in memory."""
    worker = CrawlWorker(queue)
    worker.scheduler.enqueue_request(Request(URL.format(1), callback=lambda _: None))
    assert worker.next_request() is not None
    stats = worker.crawler.stats
    for name in ("enqueued", "enqueued/memory", "dequeued", "dequeued/memory"):
        assert stats.get_value(f"scheduler/{name}") == 1
    worker.close()


@coroutine_test
async def test_a_fingerprint_may_be_bytes(queue: SharedQueue) -> None:
    """The project's duplicate filter may return bytes, as Scrapy's fingerprinters do."""
    worker = CrawlWorker(queue)
    fingerprinter = worker.scheduler._fingerprinter
    fingerprinter.request_fingerprint = lambda request: request.url.encode() + b"\xff"
    for path in "aab":
        worker.scheduler.enqueue_request(Request(URL.format(path)))
    worker.call()
    assert len(worker.scheduler) == queue.count == 2
    worker.close()


@coroutine_test
async def test_a_worker_that_ends_repeats_the_reports_of_failed_calls(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last regular calls fail, and so does the first call at the end of the worker. The second call at the end
    repeats the reports of the failed calls. The third call contains the reports that were added in the meantime.
    """
    client = FailingClient(queue.client)
    worker = CrawlWorker(queue, REDIS_PARAMS={"redis_cls": lambda **_: client})
    for number in range(3):
        worker.scheduler.enqueue_request(Request(URL.format(number)))
    worker.call()
    requests = [worker.next_request() for _ in range(2)]
    worker.frontier.pause("a.example", 5.0, None, "asks for a pause")
    client.failure = "before"
    for request in requests:
        worker.engine.downloader.active.discard(request)
        worker.engine._slot.inprogress.discard(request)
        worker.call()
    call, failures = worker.scheduler._call, iter(["before", "", ""])

    async def call_next(**wants: Any) -> Exception | None:
        client.failure = next(failures)
        return await call(**wants)

    monkeypatch.setattr(worker.scheduler, "_call", call_next)
    await worker.scheduler._end(succeed(None))
    assert queue.count == 1
    [key] = queue.client.scan_iter("*:host:a.example")
    assert float(queue.client.hget(key, "own_pause")) == 1
    worker.close()


@coroutine_test
async def test_calls_continue_after_an_error_while_the_next_call_is_scheduled(
    queue: SharedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = CrawlWorker(queue)
    monkeypatch.setattr(worker.scheduler, "_seconds_to_next_call", _fail)
    worker.call()
    assert 0.9 < _next_in(worker) < 1.1
    worker.close()
