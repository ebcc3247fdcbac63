"""The scheduler as Scrapy calls it."""

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


def urls(requests: list[Request]) -> list[int]:
    return [int(request.url.rpartition("/")[2]) for request in requests]


class NoOdd(BaseDupeFilter):
    """A duplicate filter of a project."""

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
    assert urls(run.finish_all()) == [2, 1]
    assert run.stat("dequeued") == run.stat("dequeued/memory") == 2
    assert not scheduler.has_pending_requests()
    assert run.push(page(1, dont_filter=True)) == [True]
    run.close()


@pytest.mark.parametrize("medium", ["memory", "disk"])
@coroutine_test
async def test_a_request_that_comes_back_counts_once(
    tmp_path: Path, medium: str
) -> None:
    run = Run(JOBDIR=str(tmp_path) if medium == "disk" else None)
    run.push(page(1))
    request = run.next()
    assert request is not None
    run.return_to_scheduler(request)
    assert urls(run.finish_all()) == [1]
    for stat in "enqueued", f"enqueued/{medium}", "dequeued", f"dequeued/{medium}":
        assert run.stat(stat) == 1, stat
    run.close()


@pytest.mark.parametrize("start", [None, "Lifo", "Fifo"])
@pytest.mark.parametrize("usual", ["Lifo", "Fifo"])
@coroutine_test
async def test_the_order_is_that_of_scrapys_scheduler(
    usual: str, start: str | None
) -> None:
    """The requests of a host are sent by priority, then by the class of the queue and its start
    variant.
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
            theirs, ours = scrapys.next_request(), run.next()
            assert (theirs is None) == (ours is None)
            if theirs is not None and ours is not None:
                run.finish(ours)
                popped[0] += urls([theirs])
                popped[1] += urls([ours])
    popped[0] += urls(list(iter(scrapys.next_request, None)))
    popped[1] += urls(run.finish_all())
    assert popped[0] == popped[1]
    assert len(popped[0]) == number
    run.close()


@pytest.mark.filterwarnings("ignore:Calling BaseDupeFilter.log")
@coroutine_test
async def test_the_duplicate_filter_of_a_project_is_used(tmp_path: Path) -> None:
    """DUPEFILTER_CLASS is used, with a JOBDIR too."""
    for job in None, str(tmp_path):
        run = Run(DUPEFILTER_CLASS=NoOdd, JOBDIR=job)
        assert run.push(page(1), page(2), page(3), page(4)) == [
            False,
            True,
            False,
            True,
        ]
        run.close()


@coroutine_test
async def test_a_returned_request_is_the_next_one_of_its_host() -> None:
    """A returned request is the next one of its host again, whatever the priorities; no new
    request, and no duplicate.
    """
    run = Run()
    run.push(page(1), page(2), page(3, priority=1))
    request = run.next()
    assert request is not None
    assert urls([request]) == [3]
    run.push(page(4, priority=9))
    run.return_to_scheduler(request)
    assert run.frontier._returned == set()
    assert run.stat("enqueued") == 4
    assert len(run.scheduler) == 4
    again = run.next()
    assert again is request
    run.finish(request)
    assert urls(run.finish_all()) == [4, 2, 1]
    run.close()


@coroutine_test
async def test_one_object_that_is_yielded_twice_is_sent_twice() -> None:
    """A spider may yield one object again while it is in flight: each is sent and counted by itself."""
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
async def test_a_hidden_end_of_a_request_frees_its_place() -> None:
    """A component may end a request without the wire: its place is free once it has left the downloader."""
    run = Run()
    run.push(*map(page, range(20)))
    for _ in range(2):
        in_flight = list(iter(run.next, None))
        assert len(in_flight) == 8  # As the download slot has it.
        for request in in_flight:
            run.finish(request)
    run.close()


@coroutine_test
async def test_what_cannot_be_written_waits_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that cannot be written waits in memory, and counts in a stat; with SCHEDULER_DEBUG,
    the log names the first one.
    """
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
        assert sorted(urls(run.finish_all())) == [1, 2, 3]
        assert (run.stat("dequeued/memory"), run.stat("dequeued/disk")) == (2, 1)
        run.close()


class Locked:
    """A value whose class does not want it to be pickled, and says so with an error of its own."""

    def __reduce__(self) -> str:
        raise RuntimeError("has a lock")


@coroutine_test
async def test_a_request_whose_value_fails_when_it_is_pickled_waits_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(JOBDIR=str(tmp_path), SCHEDULER_DEBUG=True)
    assert run.push(page(1, meta={"value": Locked()})) == [True]
    assert "has a lock" in caplog.text
    assert urls(run.finish_all()) == [1]
    assert run.stat("unserializable") == run.stat("dequeued/memory") == 1
    run.close()


@coroutine_test
async def test_what_cannot_be_written_goes_first_as_in_scrapys_scheduler(
    tmp_path: Path,
) -> None:
    """Requests that cannot be written go before those of their host in the file, by priority among themselves; those
    that were returned go before both. All of them are in one queue.
    """
    settings = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    crawler = get_crawler(Spider, {**settings, "JOBDIR": str(tmp_path / "scrapys")})
    crawler.spider = Spider.from_crawler(crawler, "fake")
    crawler.engine = Engine()
    scrapys = ScrapysScheduler.from_crawler(crawler)
    scrapys.open(crawler.spider)
    run = Run(**settings, JOBDIR=str(tmp_path / "ours"))
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
    theirs = [scrapys.next_request() for _ in requests]
    scrapys.close("finished")
    in_flight = list(iter(run.next, None))
    order = [5, 2, 3, 1, 4]
    assert urls(in_flight) == urls([request for request in theirs if request]) == order
    assert [request.priority for request in in_flight] == [0, 0, -1, 9, 0]
    for request in in_flight[::-1]:
        run.return_to_scheduler(request)
    assert run.push(page(6, meta={"lambda": lambda: 0}), page(7)) == [True] * 2
    assert len(run.scheduler) == 7
    assert len(run.frontier.limits.queues) == 1
    assert urls(run.finish_all()) == [*order[::-1], 6, 7]
    assert (run.stat("dequeued/memory"), run.stat("dequeued/disk")) == (4, 3)
    assert (run.stat("enqueued/memory"), run.stat("enqueued/disk")) == (4, 3)
    run.close()


@coroutine_test
async def test_queue_classes_of_others_are_not_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of queue classes of others, one warning says that they are not used, and what would be."""
    run = Run(SCHEDULER_MEMORY_QUEUE="tests.frontier.test_scheduler.OwnQueue")
    (line,) = [line for line in caplog.messages if "is not used" in line]
    assert "tests.frontier.test_scheduler.OwnQueue" in line
    assert "SCHEDULER_MEMORY_QUEUE" in line
    run.push(page(1), page(2))
    assert urls(run.finish_all()) == [2, 1]
    run.close()


class OwnQueue:
    """A queue of another package."""
