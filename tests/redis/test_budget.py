"""The pages of a host that several workers own one after the other are counted together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import Request
from scrapy.http import Response

from scrapy_rep.exceptions import RobotsDenied
from tests.redis.scheduling import Scheduling

if TYPE_CHECKING:
    from tests.redis.workers import Shared

pytestmark = pytest.mark.newest

SITE = "http://a.example"
BUDGET = {"REP_PAGES_PER_HOST": 3, "REP_QUEUE_LEASE": 60}


def send(worker: Scheduling) -> tuple[Request, bool]:
    """Return the next request, and whether it was sent."""
    request = worker.next()
    assert request is not None
    try:
        assert worker.wire.process_request(request) is None
    except RobotsDenied as denied:
        worker.wire.process_exception(request, denied)
        return request, denied.record.reason != "budget"
    return request, True


def answer(worker: Scheduling, request: Request) -> None:
    """The page has come, and its callback has ended."""
    worker.wire.process_response(request, Response(request.url))
    worker.engine.downloader.active.discard(request)
    worker.engine._slot.inprogress.discard(request)


def test_pages_that_a_dead_worker_has_done_count_for_the_next_owner(
    shared: Shared,
) -> None:
    """The page that the worker had in flight is sent again, and counts then."""
    worker = Scheduling(shared, **BUDGET)
    for number in range(6):
        worker.scheduler.enqueue_request(Request(f"{SITE}/{number}"))
    worker.call()
    first, is_sent = send(worker)
    assert is_sent
    answer(worker, first)
    worker.call()
    second, is_sent = send(worker)
    assert is_sent
    worker.frontier.alarms.stop()

    shared.advance(61)
    other = Scheduling(shared, **BUDGET)
    other.call()
    sent = [send(other) for _ in range(4)]
    assert [is_sent for _, is_sent in sent] == [True, True, False, False]
    assert sent[0][0].url == second.url
    worker.close()
    other.close()


def test_owners_of_several_slots_of_a_host_count_its_pages_together(
    shared: Shared,
) -> None:
    """Each download slot of a host has its own worker. With each page, a worker gets the number of pages of all workers."""
    workers = [Scheduling(shared, **BUDGET) for _ in range(2)]
    for slot, worker in enumerate(workers):
        for number in range(3):
            request = Request(f"{SITE}/{slot}/{number}", meta={"download_slot": slot})
            worker.scheduler.enqueue_request(request)
        worker.call()
        worker.call()
    first, second = workers
    for _ in range(2):
        request, is_sent = send(first)
        assert is_sent
        answer(first, request)
    first.call()
    request, is_sent = send(second)
    assert is_sent
    answer(second, request)
    second.call()
    assert not send(second)[1]
    first.close()
    second.close()


def test_a_page_that_was_not_sent_does_not_count(shared: Shared) -> None:
    """Another component drops the page before it is sent."""
    worker = Scheduling(shared, **BUDGET)
    worker.scheduler.enqueue_request(Request(f"{SITE}/0"))
    worker.call()
    request = worker.next()
    assert request is not None
    entry = worker.frontier.in_flight[request]
    assert worker.frontier.admits_page(request, entry)
    assert worker.scheduler._pages
    worker.frontier.end(request, entry)
    assert not worker.scheduler._pages
    assert worker.frontier.budget is not None
    assert not worker.frontier.budget.pages["a.example"]
    worker.close()


def test_a_page_whose_request_cannot_be_written_counts_for_all_workers(
    shared: Shared,
) -> None:
    """The request waits in the memory of the worker, and the page counts on the server when it is done."""
    worker = Scheduling(shared, **BUDGET)
    worker.scheduler.enqueue_request(Request(f"{SITE}/0", callback=lambda _: None))
    # The worker owns the host, so that it needs no permit.
    worker.scheduler.enqueue_request(Request(f"{SITE}/1"))
    worker.call()
    for _ in range(2):
        request, is_sent = send(worker)
        assert is_sent
        answer(worker, request)
    worker.call()
    [key] = shared.client.scan_iter("*:pages")
    assert shared.client.hgetall(key) == {b"a.example": b"2"}
    assert worker.frontier.budget is not None
    assert worker.frontier.budget.pages["a.example"] == 2
    assert not worker.scheduler._pages
    worker.close()
