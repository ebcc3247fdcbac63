"""Tests of ``REP_PAGES_PER_HOST`` with several workers: the server counts the pages of a host for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import Request
from scrapy.http import Response

from scrapy_rep.exceptions import RobotsDenied
from tests.redis.scheduling import CrawlWorker

if TYPE_CHECKING:
    from tests.redis.workers import SharedQueue

pytestmark = pytest.mark.newest

SITE = "http://a.example"
BUDGET = {"REP_PAGES_PER_HOST": 3, "REP_QUEUE_LEASE": 60}
"""Settings of a worker."""


def send_next(worker: CrawlWorker) -> tuple[Request, bool]:
    """Pass the next request of *worker* to the wire, which sends it if the host has pages left. Return the request, and
    whether it was sent.
    """
    request = worker.next_request()
    assert request is not None
    denied: RobotsDenied | None = None
    try:
        assert worker.wire.process_request(request) is None
    except RobotsDenied as error:
        denied = error
    if denied is not None:
        assert denied.record.reason == "budget"
        worker.wire.process_exception(request, denied)
    return request, denied is None


def finish(worker: CrawlWorker, request: Request) -> None:
    """Let the page arrive and its callback end."""
    worker.wire.process_response(request, Response(request.url))
    worker.engine.downloader.active.discard(request)
    worker.engine._slot.inprogress.discard(request)


def test_pages_that_a_dead_worker_has_done_count_for_the_next_owner(
    queue: SharedQueue,
) -> None:
    """The host may have three pages. The dead worker has done one page, and a second one was in flight. The next owner
    sends the second request again, and then only one more.
    """
    worker = CrawlWorker(queue, **BUDGET)
    for number in range(6):
        worker.scheduler.enqueue_request(Request(f"{SITE}/{number}"))
    worker.call()
    first, is_sent = send_next(worker)
    assert is_sent
    finish(worker, first)
    worker.call()
    second, is_sent = send_next(worker)
    assert is_sent
    worker.close()

    queue.advance_clock(61)
    other = CrawlWorker(queue, **BUDGET)
    other.call()
    results = [send_next(other) for _ in range(4)]
    assert [is_sent for _, is_sent in results] == [True, True, False, False]
    assert results[0][0].url == second.url
    other.close()


def test_owners_of_several_slots_of_a_host_count_its_pages_together(
    queue: SharedQueue,
) -> None:
    """Each worker owns one download slot of the host. When a worker reports a page of the host, the server answers with
    the number of pages that all workers have reported.
    """
    workers = [CrawlWorker(queue, **BUDGET) for _ in range(2)]
    for slot, worker in enumerate(workers):
        for number in range(3):
            request = Request(f"{SITE}/{slot}/{number}", meta={"download_slot": slot})
            worker.scheduler.enqueue_request(request)
        worker.call()
        worker.call()
    first, second = workers
    for _ in range(2):
        request, is_sent = send_next(first)
        assert is_sent
        finish(first, request)
    first.call()
    request, is_sent = send_next(second)
    assert is_sent
    finish(second, request)
    second.call()
    assert not send_next(second)[1]
    first.close()
    second.close()


def test_a_page_that_was_not_sent_does_not_count(queue: SharedQueue) -> None:
    """Another component drops the request after the page was counted, and before it is sent."""
    worker = CrawlWorker(queue, **BUDGET)
    worker.scheduler.enqueue_request(Request(f"{SITE}/0"))
    worker.call()
    request = worker.next_request()
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
    queue: SharedQueue,
) -> None:
    """The request waits in the memory of the worker. The server learns of the page when the page is done."""
    worker = CrawlWorker(queue, **BUDGET)
    worker.scheduler.enqueue_request(Request(f"{SITE}/0", callback=lambda _: None))
    # Request /1 is stored on the server, so the worker becomes the owner of the host. An owner may send /0 without a
    # permit from the server.
    worker.scheduler.enqueue_request(Request(f"{SITE}/1"))
    worker.call()
    for _ in range(2):
        request, is_sent = send_next(worker)
        assert is_sent
        finish(worker, request)
    worker.call()
    [key] = queue.client.scan_iter("*:pages")
    assert queue.client.hgetall(key) == {b"a.example": b"2"}
    assert worker.frontier.budget is not None
    assert worker.frontier.budget.pages["a.example"] == 2
    assert not worker.scheduler._pages
    worker.close()
