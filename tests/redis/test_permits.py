"""Tests of the wire and of :class:`SharedPermits` in a worker: how a request gets, loses and releases its permit, and
which requests are not sent.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Request
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.limits import Stage
from scrapy_rep.exceptions import SpiderClosing
from tests.fakes import coroutine_test
from tests.redis.scheduling import CrawlWorker
from tests.redis.workers import LEASE, fake_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.crawl.frontier.limits import InFlight
    from tests.redis.workers import SharedQueue

pytestmark = pytest.mark.newest
URL = "http://a.example/1"


@pytest.fixture
def queue() -> Iterator[SharedQueue]:
    with fake_queue() as queue:
        yield queue


@coroutine_test
async def test_a_request_that_another_worker_has_taken_is_not_sent(
    queue: SharedQueue,
) -> None:
    """The scheduler hands out a request. Then the worker is silent for longer than its lease, and another worker owns
    the host for a while. The first worker owns the host again when the request reaches the wire.
    """
    worker, other = CrawlWorker(queue), queue.worker()
    worker.scheduler.enqueue_request(Request(URL))
    worker.call()
    request = worker.next_request()
    assert request is not None
    queue.advance_clock(LEASE + 1)
    other.call(room=9)
    assert len(other.taken) == 1
    worker.call()
    other.give_back_host("a.example")
    other.call()
    worker.call()
    assert worker.scheduler._lease.owns("a.example")

    result: Any = worker.wire.process_request(request)
    assert await result is request
    worker.engine.downloader.active.discard(request)
    assert worker.scheduler.enqueue_request(request)
    second_copy = worker.next_request()
    assert second_copy is not None
    assert second_copy is not request
    assert worker.next_request() is None
    assert worker.wire.process_request(second_copy) is None
    worker.close()


class Gate:
    """A gate for requests whose rules have become stale. To judge a request again, it fetches the host's robots.txt."""

    def __init__(self, worker: CrawlWorker) -> None:
        self._worker = worker
        self.has_judged = False
        self.returns_requests = False
        """Whether the gate returns each request to the scheduler, as if the rules were unknown."""

    def is_unchanged(self, request: Request, entry: InFlight) -> bool:
        return True

    async def judge_again(self, request: Request, entry: InFlight) -> Request | None:
        if self.returns_requests:
            return self._worker.frontier.return_to_scheduler(request, entry)
        robots = RobotsTxtRequest("http://a.example/robots.txt")
        self._worker.engine.downloader.active.add(robots)
        result: Any = self._worker.wire.process_request(robots)
        assert await result is None
        self._worker.frontier.end(robots, self._worker.frontier.in_flight[robots])
        self.has_judged = True
        return None

    def report(self, entry: InFlight) -> None:
        """There is no ledger."""


@coroutine_test
async def test_a_permit_is_released_while_robotstxt_is_fetched_again(
    queue: SharedQueue,
) -> None:
    """While a request from outside the scheduler waits for its permit (the server's permission to send it), its rules
    become stale. So robots.txt must be fetched before the request is sent. All workers together may have only one
    request in flight to the host. So the request releases its permit, and the request for robots.txt gets one.
    """
    worker = CrawlWorker(queue)
    frontier, request = worker.frontier, Request(URL)
    gate = Gate(worker)
    worker.wire.__dict__["_gate"] = gate
    frontier.may_use_rules = lambda entry: gate.has_judged  # type: ignore[method-assign]
    host, now = frontier.queues.of(request).host, frontier.clock.monotonic()
    frontier.queues.look_at_slot(host)
    frontier.limits.resume_back_off(host, now, concurrency=1, own_pause=1.0, since=now)

    worker.engine.downloader.active.add(request)
    sending = deferred_from_coro(worker.wire.process_request(request))
    for _ in range(10):
        worker.call()
        await tick()
    assert gate.has_judged
    assert sending.called
    assert frontier.in_flight[request].stage is Stage.SENT
    worker.close()


@coroutine_test
async def test_a_request_whose_rules_become_stale_returns_to_the_scheduler(
    queue: SharedQueue,
) -> None:
    """The request's permit is released."""
    worker = CrawlWorker(queue)
    worker.scheduler.enqueue_request(Request(URL))
    worker.call()
    request = worker.next_request()
    assert request is not None
    frontier, now = worker.frontier, worker.frontier.clock.monotonic()
    host = frontier.queues.of(request).host
    frontier.limits.resume_back_off(host, now, concurrency=1, own_pause=1.0, since=now)
    frontier.may_use_rules = lambda entry: False  # type: ignore[method-assign]
    gate = Gate(worker)
    gate.returns_requests = True
    worker.wire.__dict__["_gate"] = gate
    sending = deferred_from_coro(worker.wire.process_request(request))
    await tick()
    worker.call()
    assert await maybe_deferred_to_future(sending) is request
    worker.call()
    assert not worker.scheduler._permits.held
    worker.close()


@coroutine_test
@pytest.mark.parametrize("fault", ["older data", "lease", "pause"])
async def test_a_request_that_loses_its_permit_requests_it_again(
    queue: SharedQueue, fault: str
) -> None:
    """The request holds a permit, and waits for the delay of its host. Then the server is restarted with older data,
    the lease of the worker ends, or the host asks for a pause. Meanwhile, another worker can have sent a request, or
    can be about to send one. So the request needs a new permit.
    """
    worker = CrawlWorker(queue)
    frontier, request = worker.frontier, Request(URL)
    host, now = frontier.queues.of(request).host, frontier.clock.monotonic()
    frontier.queues.look_at_slot(host)
    frontier.limits.hold(host, now + 0.2, now)
    worker.engine.downloader.active.add(request)
    client = queue.client
    older_data = {key: client.dump(key) for key in client.scan_iter()}

    sending = deferred_from_coro(worker.wire.process_request(request))
    await tick()
    worker.call()
    await tick()
    assert worker.scheduler._permits.held
    if fault == "lease":
        queue.advance_clock(LEASE + 1)
        worker.scheduler._lease.renew((-inf, -inf))
    elif fault == "pause":
        frontier.limits.resume_pause(host, now, until=now + 0.2)
    else:
        client.flushall()
        for key, value in older_data.items():
            client.restore(key, 0, value)
        worker.call()
    for _ in range(15):
        await tick()
    assert frontier.clock.monotonic() > now + 0.2
    assert not sending.called
    for _ in range(3):
        worker.call()
        await tick()
    assert sending.called
    assert frontier.in_flight[request].stage is Stage.SENT
    assert [permit.request for permit in worker.scheduler._permits.held.values()] == [
        request
    ]
    worker.close()


@coroutine_test
async def test_a_page_is_not_done_if_a_download_of_its_callback_fails_at_the_end(
    queue: SharedQueue,
) -> None:
    """The callback awaits a download, which waits for a permit when the spider closes. The download fails. The request
    for the page stays on the server, so that the page is fetched again.
    """
    worker = CrawlWorker(queue)
    worker.scheduler.enqueue_request(Request(URL))
    worker.call()
    page = worker.next_request()
    assert page is not None
    worker.engine.downloader.active.discard(page)  # Its callback runs.
    result = worker.wire.process_request(Request("http://other.example/1"))
    download = deferred_from_coro(result)
    await tick()

    worker.engine._slot.closing = Deferred()
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(download)
    worker.engine._slot.inprogress.discard(page)
    worker.call()
    assert len(worker.scheduler) == 1
    worker.close()


@coroutine_test
async def test_a_download_whose_permit_was_refused_ends_when_the_spider_closes(
    queue: SharedQueue,
) -> None:
    """The host is paused for a minute. The download waits until it may request its permit again."""
    worker, other = CrawlWorker(queue), queue.worker()
    other.reports["paused"].append(("a.example", 60.0))
    other.call()
    download = deferred_from_coro(worker.wire.process_request(Request(URL)))
    await tick()
    worker.call()
    await tick()
    assert worker.frontier.limits.limiters["a.example"].back_off is not None

    worker.engine._slot.closing = Deferred()
    for _ in range(50):
        await tick()
        if download.called:
            break
    assert download.called
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(download)
    assert not worker.scheduler._permits.wanted
    worker.close()


async def tick() -> None:
    """Let the event loop run for 0.02 seconds."""
    soon: Deferred[None] = Deferred()
    call_later(0.02, soon.callback, None)
    await maybe_deferred_to_future(soon)
