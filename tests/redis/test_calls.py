"""When a worker calls the server, and what it does when an answer is of no use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Request
from twisted.internet.defer import succeed

from tests.fakes import coroutine_test
from tests.redis.scheduling import Scheduling
from tests.redis.workers import LEASE, Client, fake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis.workers import Shared

pytestmark = pytest.mark.newest
URL = "http://a.example/{}"


@pytest.fixture
def shared() -> Iterator[Shared]:
    with fake() as shared:
        yield shared


@coroutine_test
async def test_a_worker_sends_nothing_after_its_machine_slept_until_the_server_answers(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock stands still while the machine sleeps, so only the system clock shows that the lease
    has ended.
    """
    worker = Scheduling(shared)
    worker.scheduler.enqueue_request(Request(URL.format(1)))
    worker.call()
    monkeypatch.setattr(
        worker.scheduler._clock, "time", lambda: time.time() + LEASE, raising=True
    )
    assert worker.next() is None
    wakes = worker.engine.wakes
    worker.call()
    assert worker.engine.wakes > wakes
    assert worker.next() is not None
    worker.close()


@coroutine_test
async def test_pauses_and_back_off_survive_clocks_that_differ(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of one worker is fast by an hour, and that of the next owner of its host slow: the pause of the host
    lasts as long as the host has asked for, and the back-off goes on.
    """
    first, second = Scheduling(shared), Scheduling(shared)
    for worker, ahead in ((first, 3600.0), (second, -3600.0)):
        clock = worker.scheduler._clock
        monkeypatch.setattr(clock, "time", lambda ahead=ahead: time.time() + ahead)
        worker.call()
    first.scheduler.enqueue_request(Request(URL.format(1)))
    first.call()
    first.frontier.pause("a.example", 40.0, None, "asks for a pause")
    first.call()
    shared.advance(39)
    second.call()
    assert second.next() is None
    shared.advance(2)
    second.call()
    assert second.next() is not None
    back_off = second.frontier.limits.limiters["a.example"].back_off
    assert back_off is not None
    since = second.frontier.clock.monotonic() - back_off.since
    assert since == pytest.approx(41, abs=2)
    first.close()
    second.close()


@coroutine_test
async def test_a_clock_that_is_set_back_does_not_prolong_a_lease(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker goes on, until its lease has ended by the monotonic clock."""
    worker = Scheduling(shared)
    for number in range(2):
        worker.scheduler.enqueue_request(Request(URL.format(number)))
    worker.call()
    clock = worker.scheduler._clock
    monkeypatch.setattr(clock, "time", lambda: time.time() - 3600)
    assert worker.next() is not None
    monkeypatch.setattr(clock, "monotonic", lambda: time.monotonic() + LEASE)
    assert worker.next() is None
    worker.close()


@coroutine_test
async def test_a_worker_calls_less_often_when_all_requests_are_done(
    shared: Shared,
) -> None:
    """While another worker has a request, whose callback may yield new ones, it calls after 0.2 s."""
    worker, other = Scheduling(shared), shared.worker()
    other.push("a")
    other.take()
    worker.call()
    assert 0.05 < _next_in(worker) <= 0.2
    other.done("a")
    other.call()
    worker.call()
    assert 0.2 < _next_in(worker) <= 1
    worker.scheduler.enqueue_request(Request(URL.format(1)))
    assert _next_in(worker) < 0.03
    worker.close()


def _next_in(worker: Scheduling) -> float:
    return worker.scheduler._next_at - worker.frontier.clock.monotonic()


@coroutine_test
async def test_requests_to_a_host_that_pauses_for_too_long_are_refused(
    shared: Shared,
) -> None:
    """They do not wait for the end of the pause: all are handed out, so that the wire refuses them."""
    worker = Scheduling(shared, REP_WAIT_TIMEOUT=100)
    for number in range(300):
        worker.scheduler.enqueue_request(Request(URL.format(number)))
    worker.call()
    worker.frontier.pause("a.example", 7200.0, None, "asks for a pause")
    assert _refused(worker) == 300
    assert len(worker.scheduler) == 0
    worker.close()


@coroutine_test
async def test_the_next_owner_refuses_requests_in_a_pause_that_is_too_long(
    shared: Shared,
) -> None:
    """The worker that was asked for the pause does not own the host any more. A pause that is not too long is waited
    out.
    """
    first, second = (Scheduling(shared, REP_WAIT_TIMEOUT=100) for _ in range(2))
    first.scheduler._has_begun = False  # It takes no hosts.
    for host, pause in (("a", 7200.0), ("b", 90.0)):
        first.frontier.pause(f"{host}.example", pause, None, "asks for a pause")
        first.call()
        first.scheduler.enqueue_request(Request(f"http://{host}.example/1"))
    first.call()
    assert _refused(second) == 1
    assert list(second.scheduler._lease.hosts) == ["a.example"]
    shared.advance(91)
    second.call()
    assert second.next() is not None
    first.close()
    second.close()


def _refused(worker: Scheduling) -> int:
    """Return the number of requests that *worker* takes from the server and refuses."""
    count = 0
    for _ in range(5):
        worker.call()
        while (request := worker.next()) is not None:
            entry = worker.frontier.in_flight[request]
            assert worker.frontier.refusal(entry)
            worker.engine.downloader.active.discard(request)
            worker.engine._slot.inprogress.discard(request)
            worker.frontier.end(request, entry)
            count += 1
    return count


@coroutine_test
async def test_an_answer_that_raises_is_given_out_again(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests in the answer return to the server with the next call, which delivers them again."""
    worker = Scheduling(shared)
    monkeypatch.setattr(worker.scheduler, "_take", _fail)
    worker.scheduler.enqueue_request(Request(URL.format(1)))
    worker.call()
    assert worker.next() is None
    monkeypatch.undo()
    worker.call()
    worker.call()
    assert worker.next() is not None
    assert shared.count == 1
    worker.close()


def _fail(*_: Any) -> None:
    raise RuntimeError("a mistake")


@coroutine_test
async def test_requests_in_memory_are_counted_when_they_are_queued(
    shared: Shared,
) -> None:
    """Scrapy's stats count a request that cannot be written to Redis as queued in memory."""
    worker = Scheduling(shared)
    worker.scheduler.enqueue_request(Request(URL.format(1), callback=lambda _: None))
    assert worker.next() is not None
    stats = worker.crawler.stats
    for name in ("enqueued", "enqueued/memory", "dequeued", "dequeued/memory"):
        assert stats.get_value(f"scheduler/{name}") == 1
    worker.close()


@coroutine_test
async def test_a_fingerprint_may_be_bytes(shared: Shared) -> None:
    """A duplicate filter of the project may return the fingerprint as Scrapy's fingerprinters do."""
    worker = Scheduling(shared)
    fingerprinter = worker.scheduler._fingerprinter
    fingerprinter.request_fingerprint = lambda request: request.url.encode() + b"\xff"
    for path in "aab":
        worker.scheduler.enqueue_request(Request(URL.format(path)))
    worker.call()
    assert len(worker.scheduler) == shared.count == 2
    worker.close()


@coroutine_test
async def test_a_worker_that_ends_reports_what_was_done_while_calls_failed(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last regular call fails, and so does the first call at the end. The next one repeats the reports of both. Only
    then is there a call with what has happened since.
    """
    client = Client(shared.client)
    worker = Scheduling(shared, REDIS_PARAMS={"redis_cls": lambda **_: client})
    for number in range(3):
        worker.scheduler.enqueue_request(Request(URL.format(number)))
    worker.call()
    requests = [worker.next() for _ in range(2)]
    worker.frontier.pause("a.example", 5.0, None, "asks for a pause")
    client.fails = "before"
    for request in requests:
        worker.engine.downloader.active.discard(request)
        worker.engine._slot.inprogress.discard(request)
        worker.call()
    call, fails = worker.scheduler._call, iter(["before", "", ""])

    async def call_next(**order: Any) -> Exception | None:
        client.fails = next(fails)
        return await call(**order)

    monkeypatch.setattr(worker.scheduler, "_call", call_next)
    await worker.scheduler._end(succeed(None))
    assert shared.count == 1
    [key] = shared.client.scan_iter("*:host:a.example")
    assert float(shared.client.hget(key, "own_pause")) == 1
    worker.close()


@coroutine_test
async def test_an_error_after_an_answer_does_not_end_the_calls(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Scheduling(shared)
    monkeypatch.setattr(worker.scheduler, "_next_in", _fail)
    worker.call()
    assert 0.9 < _next_in(worker) < 1.1
    worker.close()
