"""What the wire of a worker sends, and when: not what others have by now, and nothing while it waits for rules."""

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
from tests.redis.scheduling import Scheduling
from tests.redis.workers import LEASE, fake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.crawl.frontier.limits import InFlight
    from tests.redis.workers import Shared

pytestmark = pytest.mark.newest
URL = "http://a.example/1"


@pytest.fixture
def shared() -> Iterator[Shared]:
    with fake() as shared:
        yield shared


@coroutine_test
async def test_a_request_that_another_worker_has_taken_is_not_sent(
    shared: Shared,
) -> None:
    """A worker was silent for longer than its lease, so another worker owned the host for a while. The first worker owns
    the host again when the request, which was handed out before, reaches the wire.
    """
    worker, other = Scheduling(shared), shared.worker()
    worker.scheduler.enqueue_request(Request(URL))
    worker.call()
    request = worker.next()
    assert request is not None
    shared.advance(LEASE + 1)
    other.call(room=9)
    assert len(other.taken) == 1
    worker.call()
    other.leave("a.example")
    other.call()
    worker.call()
    assert worker.scheduler._lease.owns("a.example")

    at_wire: Any = worker.wire.process_request(request)
    assert await at_wire is request
    worker.engine.downloader.active.discard(request)
    assert worker.scheduler.enqueue_request(request)
    again = worker.next()
    assert again is not None
    assert again is not request
    assert worker.next() is None
    assert worker.wire.process_request(again) is None
    worker.close()


class Gate:
    """A gate that fetches robots.txt at the same host when it is asked to judge again."""

    def __init__(self, worker: Scheduling) -> None:
        self._worker = worker
        self.has_judged = False
        self.returns = False
        """Whether the rules are not known, so that a request returns to the scheduler."""

    def is_unchanged(self, request: Request, entry: InFlight) -> bool:
        return True

    async def judge_again(self, request: Request, entry: InFlight) -> Request | None:
        if self.returns:
            return self._worker.frontier.return_to_scheduler(request, entry)
        robots = RobotsTxtRequest("http://a.example/robots.txt")
        self._worker.engine.downloader.active.add(robots)
        at_wire: Any = self._worker.wire.process_request(robots)
        assert await at_wire is None
        self._worker.frontier.end(robots, self._worker.frontier.in_flight[robots])
        self.has_judged = True
        return None

    def report(self, entry: InFlight) -> None:
        """There is no ledger."""


@coroutine_test
async def test_a_permit_is_released_while_robotstxt_is_fetched_again(
    shared: Shared,
) -> None:
    """The rules of a request, which does not come from the scheduler, become stale while it waits for its permit. Its
    robots.txt needs that permit first: all workers together may have one request in flight to this host.
    """
    worker = Scheduling(shared)
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
    shared: Shared,
) -> None:
    """The permit of the request is released, and begins no delay."""
    worker = Scheduling(shared)
    worker.scheduler.enqueue_request(Request(URL))
    worker.call()
    request = worker.next()
    assert request is not None
    frontier, now = worker.frontier, worker.frontier.clock.monotonic()
    host = frontier.queues.of(request).host
    frontier.limits.resume_back_off(host, now, concurrency=1, own_pause=1.0, since=now)
    frontier.may_use_rules = lambda entry: False  # type: ignore[method-assign]
    gate = Gate(worker)
    gate.returns = True
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
async def test_a_request_that_loses_its_permit_asks_for_it_again(
    shared: Shared, fault: str
) -> None:
    """The request has the permit, and waits for the delay of its host, when the server is restarted with older data,
    the lease of the worker ends, or the host asks for a pause. Another worker may have sent a request since, or be
    about to send one: this one needs its permit again.
    """
    worker = Scheduling(shared)
    frontier, request = worker.frontier, Request(URL)
    host, now = frontier.queues.of(request).host, frontier.clock.monotonic()
    frontier.queues.look_at_slot(host)
    frontier.limits.hold(host, now + 0.2, now)
    worker.engine.downloader.active.add(request)
    client = shared.client
    before = {key: client.dump(key) for key in client.scan_iter()}

    sending = deferred_from_coro(worker.wire.process_request(request))
    await tick()
    worker.call()
    await tick()
    assert worker.scheduler._permits.held
    if fault == "lease":
        shared.advance(LEASE + 1)
        worker.scheduler._lease.renew((-inf, -inf))
    elif fault == "pause":
        frontier.limits.resume_pause(host, now, until=now + 0.2)
    else:
        client.flushall()
        for key, value in before.items():
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
async def test_a_page_whose_callback_waits_for_a_permit_at_the_end_is_fetched_again(
    shared: Shared,
) -> None:
    """The download of the callback fails."""
    worker = Scheduling(shared)
    worker.scheduler.enqueue_request(Request(URL))
    worker.call()
    page = worker.next()
    assert page is not None
    worker.engine.downloader.active.discard(page)  # Its callback runs.
    own = worker.wire.process_request(Request("http://other.example/1"))
    download = deferred_from_coro(own)
    await tick()

    worker.engine._slot.closing = Deferred()
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(download)
    worker.engine._slot.inprogress.discard(page)
    worker.call()
    assert len(worker.scheduler) == 1
    worker.close()


@coroutine_test
async def test_a_download_that_waits_to_ask_again_ends_when_the_spider_closes(
    shared: Shared,
) -> None:
    """Its host asks for a pause of a minute."""
    worker, other = Scheduling(shared), shared.worker()
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
    soon: Deferred[None] = Deferred()
    call_later(0.02, soon.callback, None)
    await maybe_deferred_to_future(soon)
