"""Tests of :class:`scrapy_rep.Scheduler`, called as Scrapy's engine calls it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.dupefilters import BaseDupeFilter
from scrapy.settings import default_settings
from scrapy.spiders import Spider
from scrapy.utils.test import get_crawler

from tests.fakes import coroutine_test
from tests.frontier.engine import Engine, Run

if TYPE_CHECKING:
    from pathlib import Path

SITE = "http://a.example"
QUEUES = "scrapy.squeues"
HAS_START_QUEUES = hasattr(default_settings, "SCHEDULER_START_MEMORY_QUEUE")


def page(number: int, **arguments: Any) -> Request:
    return Request(f"{SITE}/{number}", **arguments)


def numbers(requests: list[Request]) -> list[int]:
    """Return the numbers of pages in the URLs of *requests*."""
    return [int(request.url.rpartition("/")[2]) for request in requests]


class OddFilter(BaseDupeFilter):
    """A duplicate filter of a project, which drops pages with odd numbers."""

    def request_seen(self, request: Request) -> bool:
        return int(request.url.rpartition("/")[2]) % 2 == 1


@coroutine_test
async def test_the_scheduler_keeps_scrapys_contract() -> None:
    run = Run()
    scheduler = run.scheduler
    assert (len(scheduler), scheduler.has_pending_requests(), run.next()) == (
        0,
        False,
        None,
    )
    assert run.push(page(1), page(2), page(1)) == [True, True, False]
    assert (len(scheduler), scheduler.has_pending_requests()) == (2, True)
    assert run.stat("enqueued") == run.stat("enqueued/memory") == 2
    assert run.crawler.stats.get_value("dupefilter/filtered") == 1
    assert numbers(run.finish_all()) == [2, 1]
    assert run.stat("dequeued") == run.stat("dequeued/memory") == 2
    assert not scheduler.has_pending_requests()
    assert run.push(page(1, dont_filter=True)) == [True]
    run.close()


@pytest.mark.parametrize("medium", ["memory", "disk"])
@coroutine_test
async def test_a_request_that_returns_to_the_scheduler_counts_once(
    tmp_path: Path, medium: str
) -> None:
    run = Run(JOBDIR=str(tmp_path) if medium == "disk" else None)
    run.push(page(1))
    request = run.next()
    assert request is not None
    run.return_to_scheduler(request)
    assert numbers(run.finish_all()) == [1]
    for stat in "enqueued", f"enqueued/{medium}", "dequeued", f"dequeued/{medium}":
        assert run.stat(stat) == 1, stat
    run.close()


@pytest.mark.parametrize("start", [None, "Lifo", "Fifo"])
@pytest.mark.parametrize("usual", ["Lifo", "Fifo"])
@coroutine_test
async def test_the_order_of_requests_is_that_of_scrapys_scheduler(
    usual: str, start: str | None
) -> None:
    """The requests of a host are sent by priority. For requests with the same priority, queue classes set the order:
    *usual* for most requests, *start* for start requests.
    """
    settings: dict[str, Any] = {
        "SCHEDULER_MEMORY_QUEUE": f"{QUEUES}.{usual}MemoryQueue",
        "SCHEDULER_START_MEMORY_QUEUE": start and f"{QUEUES}.{start}MemoryQueue",
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    }
    crawler = get_crawler(Spider, settings)
    crawler.spider = Spider.from_crawler(crawler, "fake")
    crawler.engine = Engine()
    scrapys = ScrapysScheduler.from_crawler(crawler)
    scrapys.open(crawler.spider)
    run = Run(**settings)
    random, number = Random(start or "none"), 0
    popped: list[list[int]] = [[], []]
    for _ in range(300):
        if random.random() < 0.6:
            number += 1
            meta = {"is_start_request": True} if random.random() < 0.4 else {}
            request = page(number, priority=random.randrange(-2, 3), meta=meta)
            assert scrapys.enqueue_request(request)
            assert run.push(request.copy()) == [True]
        else:
            of_scrapy, of_run = scrapys.next_request(), run.next()
            assert (of_scrapy is None) == (of_run is None)
            if of_scrapy is not None and of_run is not None:
                run.finish(of_run)
                popped[0] += numbers([of_scrapy])
                popped[1] += numbers([of_run])
    popped[0] += numbers(list(iter(scrapys.next_request, None)))
    popped[1] += numbers(run.finish_all())
    assert popped[0] == popped[1]
    assert len(popped[0]) == number
    run.close()


@pytest.mark.filterwarnings("ignore:Calling BaseDupeFilter.log")
@coroutine_test
async def test_the_duplicate_filter_of_a_project_is_used(tmp_path: Path) -> None:
    """DUPEFILTER_CLASS is used both without and with a JOBDIR."""
    for folder in None, str(tmp_path):
        run = Run(DUPEFILTER_CLASS=OddFilter, JOBDIR=folder)
        assert run.push(page(1), page(2), page(3), page(4)) == [
            False,
            True,
            False,
            True,
        ]
        run.close()


@coroutine_test
async def test_a_returned_request_is_the_next_one_of_its_host() -> None:
    """The scheduler has handed out a request, and a middleware returns it to the scheduler. It is sent before all other
    requests of its host, whatever their priorities are. It counts neither as a new request nor as a duplicate.
    """
    run = Run()
    run.push(page(1), page(2), page(3, priority=1))
    request = run.next()
    assert request is not None
    assert numbers([request]) == [3]
    run.push(page(4, priority=9))
    run.return_to_scheduler(request)
    assert run.frontier._returned == set()
    assert run.stat("enqueued") == 4
    assert len(run.scheduler) == 4
    again = run.next()
    assert again is request
    run.finish(request)
    assert numbers(run.finish_all()) == [4, 2, 1]
    run.close()


@coroutine_test
async def test_a_request_object_that_is_yielded_twice_is_sent_twice() -> None:
    """A spider may yield a Request object again while it is in flight. Each of the two requests is counted."""
    run = Run()
    request = page(1, dont_filter=True)
    run.push(request, request)
    first, second = run.next(), run.next()
    assert first is request
    assert second is not None
    assert second is not request
    assert second.url == request.url
    assert len(run.frontier.in_flight) == 2
    run.close()


@coroutine_test
async def test_a_request_whose_end_was_hidden_frees_its_room() -> None:
    """A component may end a request without telling this package. The request no longer counts as in flight once it has
    left the downloader.
    """
    run = Run()
    run.push(*map(page, range(20)))
    for _ in range(2):
        in_flight = list(iter(run.next, None))
        assert len(in_flight) == 8  # The concurrency of the download slot.
        for request in in_flight:
            run.finish(request)
    run.close()


@coroutine_test
async def test_a_request_that_cannot_be_written_waits_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that cannot be written are counted in a stat. With SCHEDULER_DEBUG, the first of them is logged."""
    for is_logged in False, True:
        caplog.clear()
        run = Run(JOBDIR=str(tmp_path / str(is_logged)), SCHEDULER_DEBUG=is_logged)
        unwritable = [page(number, meta={"lambda": lambda: 0}) for number in (1, 2)]
        assert run.push(*unwritable, page(3)) == [True] * 3
        assert run.stat("unserializable") == 2
        assert (run.stat("enqueued/memory"), run.stat("enqueued/disk")) == (2, 1)
        lines = [
            line for line in caplog.messages if "Unable to serialize request" in line
        ]
        assert len(lines) == is_logged
        assert sorted(numbers(run.finish_all())) == [1, 2, 3]
        assert (run.stat("dequeued/memory"), run.stat("dequeued/disk")) == (2, 1)
        run.close()


class Unpicklable:
    """A value that raises an error of its own class when it is pickled."""

    def __reduce__(self) -> str:
        raise RuntimeError("has a lock")


@coroutine_test
async def test_a_request_whose_meta_cannot_be_pickled_waits_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(JOBDIR=str(tmp_path), SCHEDULER_DEBUG=True)
    assert run.push(page(1, meta={"value": Unpicklable()})) == [True]
    assert "has a lock" in caplog.text
    assert numbers(run.finish_all()) == [1]
    assert run.stat("unserializable") == run.stat("dequeued/memory") == 1
    run.close()


@coroutine_test
async def test_requests_that_cannot_be_written_go_first_as_in_scrapys_scheduler(
    tmp_path: Path,
) -> None:
    """Requests that cannot be written to the JOBDIR are kept in memory. They are sent before the requests of their host
    in the JOBDIR, in the order of their priority. Requests that have returned to the scheduler are sent first of all.
    """
    settings = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    crawler = get_crawler(Spider, {**settings, "JOBDIR": str(tmp_path / "scrapys")})
    crawler.spider = Spider.from_crawler(crawler, "fake")
    crawler.engine = Engine()
    scrapys = ScrapysScheduler.from_crawler(crawler)
    scrapys.open(crawler.spider)
    run = Run(**settings, JOBDIR=str(tmp_path / "of_run"))
    requests = [
        page(1, priority=9),
        page(2, meta={"lambda": lambda: 0}),
        page(3, meta={"lambda": lambda: 0}, priority=-1),
        page(4),
        page(5, meta={"lambda": lambda: 0}),
    ]
    for request in requests:
        assert scrapys.enqueue_request(request.copy())
        assert run.push(request) == [True]
    of_scrapy = [scrapys.next_request() for _ in requests]
    scrapys.close("finished")
    in_flight = list(iter(run.next, None))
    order = [5, 2, 3, 1, 4]
    assert (
        numbers(in_flight)
        == numbers([request for request in of_scrapy if request])
        == order
    )
    assert [request.priority for request in in_flight] == [0, 0, -1, 9, 0]
    for request in in_flight[::-1]:
        run.return_to_scheduler(request)
    assert run.push(page(6, meta={"lambda": lambda: 0}), page(7)) == [True] * 2
    assert len(run.scheduler) == 7
    assert len(run.frontier.limits.queues) == 1
    assert numbers(run.finish_all()) == [*order[::-1], 6, 7]
    assert (run.stat("dequeued/memory"), run.stat("dequeued/disk")) == (4, 3)
    assert (run.stat("enqueued/memory"), run.stat("enqueued/disk")) == (4, 3)
    run.close()


@coroutine_test
async def test_a_queue_class_of_a_project_is_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One warning names the class and the setting. The requests are sent in the default order."""
    run = Run(SCHEDULER_MEMORY_QUEUE="tests.frontier.test_scheduler.OwnQueue")
    (line,) = [line for line in caplog.messages if "is not used" in line]
    assert "tests.frontier.test_scheduler.OwnQueue" in line
    assert "SCHEDULER_MEMORY_QUEUE" in line
    run.push(page(1), page(2))
    assert numbers(run.finish_all()) == [2, 1]
    run.close()


class OwnQueue:
    """A queue class of a project."""
