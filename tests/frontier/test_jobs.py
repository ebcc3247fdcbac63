"""Tests of crawls with a ``JOBDIR``: which requests and pauses the next run gets, even after a kill of the process."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.core.scheduler import Scheduler as ScrapysScheduler
from scrapy.spiders import Spider
from scrapy.utils.test import get_crawler

from scrapy_rep.exceptions import JobError
from tests.fakes import coroutine_test
from tests.frontier.engine import Engine, Run

if TYPE_CHECKING:
    from pathlib import Path

SITE = "http://a.example"


def page(number: int, host: str = "a.example", **arguments: Any) -> Request:
    return Request(f"http://{host}/{number}", **arguments)


def urls(requests: list[Request]) -> list[str]:
    """Return the sorted URLs of *requests* without their scheme."""
    return sorted(request.url.removeprefix("http://") for request in requests)


def write_changes(run: Run) -> None:
    """Write the pending changes to the file now. In a crawl, a timer does this 0.05 seconds after a change."""
    assert run.scheduler._job is not None
    run.scheduler._job._on_alarm()


def kill(run: Run) -> None:
    """End *run* as a kill of the process does: the file is closed, and pending changes are lost."""
    job: Any = run.scheduler._job
    job._file._opened.close()
    job._file = None
    run.frontier.alarms.stop()


def execute(folder: Path, statement: str, *values: object) -> list[Any]:
    """Execute *statement* in the file of the JOBDIR *folder* from another connection, and return the rows."""
    path = folder / "rep.queue" / "requests.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement, values).fetchall()


def logged_errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage() for record in caplog.records if record.levelname == "ERROR"
    ]


@coroutine_test
async def test_the_next_run_continues_with_the_requests_that_were_not_done(
    tmp_path: Path,
) -> None:
    """The next run has these requests, and drops duplicates of all requests that an earlier run has seen."""
    run = Run(JOBDIR=str(tmp_path))
    run.push(
        page(1, priority=1, headers={"X": "1"}, meta={"key": ["value"]}),
        page(2),
        page(3, "b.example", meta={"download_slot": "slot"}),
    )
    request = run.next()
    assert request is not None
    run.finish(request)
    run.close()
    again = Run(JOBDIR=str(tmp_path))
    assert len(again.scheduler) == 2
    assert again.push(page(1), page(2), page(3, "b.example"), page(4)) == [
        False
    ] * 3 + [True]
    requests = again.finish_all()
    assert len(requests) == 3
    assert request.url not in {sent.url for sent in requests}
    again.close()
    last = Run(JOBDIR=str(tmp_path))
    assert (len(last.scheduler), last.finish_all()) == (0, [])
    last.close()


@coroutine_test
async def test_a_request_stays_until_its_callback_has_ended(tmp_path: Path) -> None:
    """A request in flight when the process is killed is sent again. A request that is done is not."""
    run = Run(JOBDIR=str(tmp_path))
    run.push(page(1), page(2), page(3))
    first, second = run.next(), run.next()
    assert first is not None
    assert second is not None
    run.finish(first)
    write_changes(run)
    kill(run)
    again = Run(JOBDIR=str(tmp_path))
    assert urls(again.finish_all()) == sorted(
        ["a.example/1", second.url.removeprefix("http://")]
    )
    again.close()


@coroutine_test
async def test_after_a_kill_requests_that_were_not_written_are_neither_queued_nor_seen(
    tmp_path: Path,
) -> None:
    """The callback of page 1 has yielded pages 2 and 3, and has ended. When the process is killed, the file contains
    neither the two requests nor the end of the callback. So the next run requests page 1 again, and its callback yields
    pages 2 and 3 again. They must not be dropped as duplicates.
    """
    run = Run(JOBDIR=str(tmp_path))
    run.push(page(1))
    write_changes(run)
    first = run.next()
    assert first is not None
    run.push(page(2), page(3))
    run.finish(first)
    kill(run)
    again = Run(JOBDIR=str(tmp_path))
    assert [request.url for request in again.finish_all()] == [first.url]
    assert again.push(page(2), page(3)) == [True, True]
    again.close()


@coroutine_test
async def test_a_returned_request_keeps_its_row_in_the_file(tmp_path: Path) -> None:
    run = Run(JOBDIR=str(tmp_path))
    run.push(page(1), page(2))
    for _ in range(3):
        request = run.next()
        assert request is not None
        run.return_to_scheduler(request)
        assert len(run.scheduler) == 2
    write_changes(run)
    assert execute(tmp_path, "SELECT count(*) FROM requests") == [(2,)]
    again = run.next()
    assert again is request
    kill(run)
    last = Run(JOBDIR=str(tmp_path))
    assert urls(last.finish_all()) == ["a.example/1", "a.example/2"]
    last.close()


@coroutine_test
async def test_a_returned_request_that_a_component_has_changed_stays_in_the_file(
    tmp_path: Path,
) -> None:
    """A component has given request 1 another download slot, so request 1 returns to the queue of this slot. If the
    process is killed, the next run still has request 1, and request 2 of the same slot.
    """
    run = Run(JOBDIR=str(tmp_path))
    run.push(page(1))
    request = run.next()
    assert request is not None
    request.meta["download_slot"] = "other"
    run.return_to_scheduler(request)
    run.push(page(2, meta={"download_slot": "other"}))
    write_changes(run)
    write_changes(run)
    assert execute(tmp_path, "SELECT count(*) FROM requests") == [(2,)]
    assert run.next() is request
    kill(run)
    last = Run(JOBDIR=str(tmp_path))
    assert urls(last.finish_all()) == ["a.example/1", "a.example/2"]
    last.close()


@coroutine_test
async def test_the_next_run_has_a_request_that_was_returned_when_the_crawl_ended(
    tmp_path: Path,
) -> None:
    run = Run(JOBDIR=str(tmp_path))
    run.push(page(1))
    request = run.next()
    assert request is not None
    run.return_to_scheduler(request)
    run.close()
    again = Run(JOBDIR=str(tmp_path))
    assert urls(again.finish_all()) == ["a.example/1"]
    again.close()


@coroutine_test
async def test_a_new_request_after_the_file_is_closed_is_neither_queued_nor_seen(
    tmp_path: Path,
) -> None:
    """The file is closed when the crawl has ended, or when the file is damaged. From then on, the scheduler rejects new
    requests, and the next run does not drop them as duplicates. Requests in flight return to the scheduler, and the
    next run has them.
    """
    for is_damaged in False, True:
        folder = tmp_path / str(is_damaged)
        run = Run(JOBDIR=str(folder))
        run.push(page(1), page(2))
        first, second = run.next(), run.next()
        assert first is not None
        assert second is not None
        write_changes(run)
        if is_damaged:
            assert run.scheduler._job is not None
            run.scheduler._job.stop(JobError.unusable(folder, "damaged"))
            assert run.frontier.closes_for == "jobdir_unusable"
        else:
            run.close()
        assert run.push(page(3), page(3, "b.example")) == [False, False]
        second.meta["download_slot"] = "other"
        run.return_to_scheduler(first)
        run.return_to_scheduler(second)
        assert run.next() is None
        run.close()
        again = Run(JOBDIR=str(folder))
        assert urls(again.finish_all()) == ["a.example/1", "a.example/2"]
        assert again.push(page(3), page(3, "b.example")) == [True, True]
        again.close()


@coroutine_test
async def test_unreadable_requests_stay_in_the_file_and_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The error of the first unreadable request is logged. At the end, the number of unreadable requests is logged. All
    other requests are sent.
    """
    run = Run(JOBDIR=str(tmp_path))
    run.push(*map(page, range(4)))
    run.close()
    execute(tmp_path, "UPDATE requests SET data = x'00' WHERE rowid <= 2")
    for readable in 2, 0:
        caplog.clear()
        again = Run(JOBDIR=str(tmp_path))
        sent = again.finish_all()
        again.close()
        first, last = logged_errors(caplog)
        assert "cannot be read" in first
        assert last.startswith("2 requests in the queue could not be read")
        assert len(sent) == readable
    assert execute(tmp_path, "SELECT count(*) FROM requests") == [(2,)]


@coroutine_test
async def test_pauses_continue_in_the_next_run(tmp_path: Path) -> None:
    run = Run(JOBDIR=str(tmp_path), REP_WAIT_TIMEOUT=600)
    run.frontier.pause("a.example", 300, None, "asks for it")
    run.push(page(1), page(2, "b.example"))
    assert urls(run.finish_all()) == ["b.example/2"]
    run.close()
    again = Run(JOBDIR=str(tmp_path), REP_WAIT_TIMEOUT=600)
    assert again.finish_all() == []
    limiter = again.frontier.limits.limiter("a.example")
    assert 290 < limiter.next_at - again.frontier.clock.monotonic() <= 300
    again.close()


@pytest.mark.parametrize("is_empty", [False, True])
@coroutine_test
async def test_a_jobdir_of_scrapys_own_queue_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_empty: bool
) -> None:
    """If Scrapy's own scheduler has left requests in the JOBDIR, the folder is not changed, the crawl stops, and one
    logged error says why. If Scrapy's queue is empty, the JOBDIR is used.
    """
    crawler = get_crawler(Spider, {"JOBDIR": str(tmp_path)})
    crawler.spider = Spider.from_crawler(crawler, "fake")
    crawler.engine = Engine()
    scrapys = ScrapysScheduler.from_crawler(crawler)
    scrapys.open(crawler.spider)
    for request in () if is_empty else (page(1), page(2)):
        scrapys.enqueue_request(request)
    scrapys.close("shutdown")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run = Run(JOBDIR=str(tmp_path))
    if is_empty:
        assert logged_errors(caplog) == []
        assert run.push(page(3)) == [True]
    else:
        (line,) = logged_errors(caplog)
        assert str(tmp_path) in line
        assert run.frontier.closes_for == "jobdir_unusable"
        assert run.push(page(3)) == [False]
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    run.close()


@coroutine_test
async def test_a_second_crawl_with_the_same_jobdir_stops(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first crawl continues."""
    run = Run(JOBDIR=str(tmp_path))
    run.push(page(1))
    write_changes(run)
    other = Run(JOBDIR=str(tmp_path))
    (line,) = logged_errors(caplog)
    assert "The crawl stops" in line
    assert other.frontier.closes_for == "jobdir_unusable"
    assert (other.next(), other.push(page(2))) == (None, [False])
    other.close()
    run.push(page(3))
    assert urls(run.finish_all()) == ["a.example/1", "a.example/3"]
    run.close()
