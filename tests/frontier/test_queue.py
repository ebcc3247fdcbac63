"""What the queue returns to a scheduler, and what it saves for the next run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock
from zlib import crc32

import pytest
from scrapy import Request
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.squeues import (
    FifoMemoryQueue,
    LifoMemoryQueue,
    MarshalFifoDiskQueue,
    PickleFifoDiskQueue,
    PickleLifoDiskQueue,
)

from scrapy_rep.crawl.frontier import jobdir
from scrapy_rep.crawl.frontier import queue as host_queue
from scrapy_rep.crawl.frontier.jobdir import DupeFilter
from scrapy_rep.crawl.frontier.queue import HostQueue
from scrapy_rep.exceptions import SpiderClosing
from tests.crawl.disks import full_disk
from tests.frontier.fakes import Crawl, page

if TYPE_CHECKING:
    from pathlib import Path

# Without the middleware, all hosts are ready.
PAGE = "http://a.example/"


def in_memory(kind: Any = LifoMemoryQueue, *, obey: bool = False) -> Any:
    crawler = Crawl(obey=obey).crawler
    return HostQueue.from_crawler(crawler, kind, "", start_queue_cls=FifoMemoryQueue)


def on_disk(
    folder: Path,
    state: Any = (),
    crawl: Crawl | None = None,
    kind: Any = HostQueue,
    disk_queue: Any = PickleLifoDiskQueue,
) -> Any:
    key = folder / "requests.queue"
    key.mkdir(exist_ok=True)
    return kind.from_crawler(
        (crawl or Crawl(obey=False)).crawler,
        disk_queue,
        str(key),
        # The scheduler saves the state as JSON.
        json.loads(json.dumps(state)),
        start_queue_cls=PickleFifoDiskQueue,
    )


def requests() -> list[Request]:
    """Requests to several hosts, with different priorities, headers and meta keys."""
    urls = [f"http://{host}.example/{number}" for host in "ab" for number in range(3)]
    return [
        Request(url, priority=number % 2, meta=meta, headers=headers)
        for number, url in enumerate([*urls, "https://a.example/3", "data:,4"])
        for headers in ({}, {"Host": "v.example"})
        for meta in (
            {},
            {"is_start_request": True},
            {"download_slot": "slot", "redirect_urls": ["http://c.example/"]},
            {"dont_obey_robotstxt": True},
        )
    ]


def said(found: list[Request]) -> list[str]:
    return sorted(f"{one.url} {one.headers} {one.priority} {one.meta}" for one in found)


def contents(queue: Any) -> list[Request]:
    found = list(iter(queue.pop, None))
    assert len(queue) == 0
    return found


def kill(queue: Any) -> None:
    """Do what the operating system does with the files of a process that is killed."""
    queue._job.file._opened.close()


def change(folder: Path, statement: str, *values: object) -> list[Any]:
    """Execute a *statement* in the file, as another program."""
    path = folder / "rep.queue" / "requests.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute(statement, values).fetchall()


def rows(folder: Path, table: str = "requests") -> int:
    return int(change(folder, f"SELECT count(*) FROM {table}")[0][0])


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]


# What is resumed.


@pytest.mark.parametrize(
    ("obey", "disk_queue"),
    [(True, PickleLifoDiskQueue), (False, MarshalFifoDiskQueue)],
)
def test_resumed(tmp_path: Path, obey: bool, disk_queue: Any) -> None:
    """The next run has all requests that were left, by virtual host too, and no others: also if it
    is killed meanwhile.
    """
    queue = on_disk(tmp_path, (), Crawl(obey=obey), disk_queue=disk_queue)
    for request in requests():
        queue.push(request)
    state = queue.close()
    # The scheduler still has the old state after that.
    kill(on_disk(tmp_path, state, disk_queue=disk_queue))
    again = on_disk(tmp_path, state, disk_queue=disk_queue)
    assert len(again) == len(requests())
    hosts = {str(key.origin) for key in again._queues}
    assert ("http://a.example#Host:v.example" in hosts) == obey
    assert said(contents(again)) == said(requests())
    assert again.close() == []
    assert rows(tmp_path) == 0


def test_resumed_in_order(tmp_path: Path) -> None:
    """Priorities and the order of start requests survive a restart."""
    queue = on_disk(tmp_path)
    for number in range(4):
        for is_start in (True, False):
            meta = {"is_start_request": is_start}
            queue.push(Request(f"{PAGE}{number}", priority=number // 2, meta=meta))
    popped = contents(on_disk(tmp_path, queue.close()))
    assert [(one.url[-1], one.meta["is_start_request"]) for one in popped] == [
        *[("3", False), ("2", False), ("2", True), ("3", True)],
        *[("1", False), ("0", False), ("0", True), ("1", True)],
    ]


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    """After a process was killed, the next run has the requests that had waited, and first those that
    were in flight.
    """
    crawl = Crawl(obey=False)
    queue = on_disk(tmp_path, (), crawl)
    for number in range(250):
        queue.push(Request(f"{PAGE}{number}"))
        if number in {149, 150}:
            crawl.engine.in_progress.add(queue.pop())
        if number == 199:
            crawl.pass_time(0.1)
    kill(queue)
    assert rows(tmp_path, "requests WHERE in_flight") == 2
    again = on_disk(tmp_path)
    assert len(again) >= 200
    assert {again.pop().url for _ in range(2)} == {f"{PAGE}149", f"{PAGE}150"}
    kill(again)


def test_a_request_that_waits_when_the_spider_closes(tmp_path: Path) -> None:
    """A request that waits in the downloader when the spider closes is not sent. The next run has
    it.
    """
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    queue = on_disk(tmp_path, (), crawl)
    crawl.queues = [queue]
    for number in range(2):
        crawl.push(Request(f"http://a.example/{number}"))
    crawl.run()
    crawl.pass_time(1)
    (asking,) = crawl.sent
    (waiting,) = crawl.downloader.active - {asking}
    crawl.answer(asking, status=429, Retry_After="100")
    crawl.close()
    assert isinstance(crawl.ended[waiting], SpiderClosing)
    assert len(on_disk(tmp_path, queue.close())) == 1


def test_a_slot_whose_name_no_file_can_have(tmp_path: Path) -> None:
    """The name of a download slot may be anything: its requests and pauses are written too."""
    crawl = Crawl(obey=False)
    queue = on_disk(tmp_path, (), crawl)
    crawl.queues = [queue]
    crawl.push(Request(f"{PAGE}1", meta={"download_slot": "\udc80"}))
    (asking,) = crawl.run()
    crawl.answer(asking, status=429, Retry_After="100")
    crawl.push(Request(f"{PAGE}2", meta={"download_slot": "\udc80"}))
    again = on_disk(tmp_path, queue.close())
    assert len(again) == 1
    assert again.pop() is None


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the disk is full, requests stay in memory and are popped from there, with one
    warning. When there is room, they are written.
    """
    caplog.set_level("INFO")
    queue = on_disk(tmp_path, (), crawl := Crawl(obey=False))
    with full_disk():
        for number in range(300):
            queue.push(Request(f"{PAGE}{number}", body=b"x" * 20_000))
        crawl.pass_time(3)
        assert len(queue) == 300
        assert queue.pop().url == f"{PAGE}299"
        queue.push(Request(PAGE, body=b"x" * 4_000_000))
        assert queue.pop() is None  # Too much waits.
        crawl.pass_time(3)
        assert rows(tmp_path) == 0
    crawl.pass_time(3)
    assert rows(tmp_path) >= 299
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "cannot be written" in warning.getMessage()
    assert "can be written again" in caplog.records[-1].getMessage()
    queue.close()


@mock.patch.object(jobdir, "_MAX_WAITING", 20_000)
def test_much_on_a_full_disk(tmp_path: Path) -> None:
    """The more waits, the more rarely it is tried to be written."""
    queue = on_disk(tmp_path, (), crawl := Crawl(obey=False))
    file = queue._job.file
    with full_disk(), mock.patch.object(file, "commit", wraps=file.commit) as commit:
        for _ in range(100):
            queue.push(Request(PAGE))
        tries = commit.call_count
        for _ in range(20):
            crawl.pass_time(1)
        assert 2 <= commit.call_count - tries <= 5
    crawl.pass_time(10)
    assert rows(tmp_path) == 100
    queue.close()


@mock.patch.object(jobdir, "_MAX_WAITING", 100_000)
def test_many_requests_at_once(tmp_path: Path) -> None:
    """What a callback makes in one go does not wait in memory until it has ended."""
    queue = on_disk(tmp_path)
    for number in range(250):
        queue.push(Request(f"{PAGE}{number}"))
    assert rows(tmp_path) > 150
    queue.close()


def test_a_file_that_is_locked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While another program has locked the file, nothing is popped, and what is pushed waits. After
    that, it is popped and written.
    """
    caplog.set_level("INFO")
    queue = on_disk(tmp_path, (), crawl := Crawl(obey=False))
    queue._job.file._db.execute("PRAGMA busy_timeout = 0")
    path = tmp_path / "rep.queue" / "requests.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for number in range(2):
            queue.push(Request(f"{PAGE}{number}"))
        assert queue.pop() is None
        crawl.pass_time(3)
        assert queue.pop() is None
        assert len(queue) == 2
    crawl.pass_time(3)
    assert rows(tmp_path) == 2
    assert queue.pop().url == f"{PAGE}1"
    assert "database is locked" in caplog.text
    assert "can be written again" in caplog.records[-1].getMessage()
    queue.close()


def test_a_short_lock(tmp_path: Path) -> None:
    """If nothing could be popped, the engine asks again as soon as the file is written."""
    queue = on_disk(tmp_path, (), crawl := Crawl(obey=False))
    queue._job.file._db.execute("PRAGMA busy_timeout = 0")
    path = tmp_path / "rep.queue" / "requests.sqlite"
    queue.push(Request(PAGE))
    with mock.patch.object(jobdir, "wake") as wake:
        crawl.pass_time(3)
        queue.push(Request(PAGE))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert queue.pop() is None
        assert not wake.called
        crawl.pass_time(3)
        wake.assert_called_once_with(crawl.crawler)
        assert queue.pop() is not None
        crawl.pass_time(3)
        assert wake.call_count == 1
    queue.close()


def test_an_unreadable_request_in_a_locked_file(tmp_path: Path) -> None:
    """Requests after one that cannot be read wait for the end of the lock, as others do."""
    queue = on_disk(tmp_path, (), crawl := Crawl(obey=False))
    for number in range(3):
        queue.push(Request(f"{PAGE}{number}"))
    crawl.pass_time(3)
    change(tmp_path, "UPDATE requests SET data = x'00' WHERE number = 3")
    queue._job.file._db.execute("PRAGMA busy_timeout = 0")
    path = tmp_path / "rep.queue" / "requests.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert queue.pop() is None
        assert queue.peek() is None
        assert len(queue) == 2
    crawl.pass_time(3)
    assert queue.peek().url == f"{PAGE}1"
    assert [found.url for found in contents(queue)] == [f"{PAGE}1", f"{PAGE}0"]
    queue.close()


def test_a_request_that_cant_be_written(tmp_path: Path) -> None:
    """A request that can't be serialized leaves nothing behind, so that the scheduler can keep it in
    memory.
    """
    crawl = Crawl(obey=False)
    queue = on_disk(tmp_path, (), crawl)
    request = Request(PAGE, callback=lambda response: None)
    for count in range(2):
        with pytest.raises(ValueError, match="not an instance method"):
            queue.push(request)
        assert len(queue) == count
        assert bool(len(crawl.frontier.core.scopes)) == bool(count)
        queue.push(Request(PAGE))
    assert len(on_disk(tmp_path, queue.close())) == 2


def test_requests_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that cannot be read are not sent, and stay in the file. The log has an error for
    the first, and their number at the end.
    """
    queue = on_disk(tmp_path)
    for number in range(4):
        queue.push(Request(f"http://{number}.example/"))
    queue.close()
    junk = crc32(b"junk").to_bytes(4, "big") + b"junk"
    for number, data in ((1, "x"), (2, junk)):
        change(tmp_path, "UPDATE requests SET data = ? WHERE number = ?", data, number)
    again = on_disk(tmp_path)
    assert len(contents(again)) == 2
    again.close()
    assert rows(tmp_path) == 2
    first, last = errors(caplog)
    assert "cannot be read: ValueError('its checksum is wrong')" in first
    assert "2 requests in the queue could not be read" in last


# What stops a crawl.


@pytest.mark.parametrize(
    "state", [["redis", [], None], {"slot": 5}, "text", 5], ids=str
)
def test_a_state_of_something_else(
    tmp_path: Path, state: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """For a state of another class, the crawl stops, and leaves the state as it is. The error names
    the JOBDIR, and says what to do.
    """
    queue = on_disk(tmp_path, state, crawl := Crawl(obey=False))
    assert crawl.frontier.closes_for
    assert queue.pop() is None
    (error,) = errors(caplog)
    assert f"Another queue wrote the JOBDIR {tmp_path}" in error
    assert queue.close() == state


def test_a_damaged_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If another program changes the file, while a crawl runs or between two, the crawl stops with
    one error.
    """
    queue = on_disk(tmp_path, (), crawl := Crawl(obey=False))
    for request in requests():
        queue.push(request)
    queue._job._write(queue._job.file)
    change(tmp_path, "UPDATE requests SET host = '[7'")
    assert queue.pop() is None
    assert queue.pop() is None
    assert crawl.frontier.closes_for
    (error,) = errors(caplog)
    assert "The crawl stops" in error
    queue.close()
    on_disk(tmp_path, (), crawl := Crawl(obey=False))
    assert crawl.frontier.closes_for
    assert "it names no host" in caplog.text


def test_one_crawl_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second crawl with the same JOBDIR stops with a message, and sends nothing."""
    queue = on_disk(tmp_path)
    crawl = Crawl(obey=False, JOBDIR=str(tmp_path))
    second = on_disk(tmp_path, (), crawl)
    assert "Another crawl uses the queue" in caplog.text
    with pytest.raises(ValueError, match="cannot be used"):
        second.push(Request(PAGE))
    crawl.queues[0].push(Request(PAGE))
    assert crawl.pop() is None
    dupefilter = DupeFilter.from_crawler(crawl.crawler)
    dupefilter.open()
    assert dupefilter.request_seen(Request(PAGE))
    dupefilter.close("finished")
    assert (tmp_path / "requests.seen").read_bytes() == b""
    queue.close()


def test_classes_of_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A disk queue of the project's own is named in a warning as not used. Scrapy's own priority
    queue refuses to resume a queue of this package, with its own error.
    """

    class OwnQueue(PickleLifoDiskQueue):
        pass

    queue = on_disk(tmp_path, disk_queue=OwnQueue)
    assert "OwnQueue is not used" in caplog.text
    queue.push(Request(PAGE))
    with pytest.raises(ValueError, match="same priority queue class can be resumed"):
        on_disk(tmp_path, queue.close(), kind=DownloaderAwarePriorityQueue)


# Queue classes.


def test_peek(tmp_path: Path) -> None:
    """``peek`` returns the request that is popped next, and leaves it in the queue."""
    for queue in (in_memory(), on_disk(tmp_path)):
        assert queue.peek() is None
        for request in requests():
            queue.push(request)
        while len(queue):
            peeked, popped = queue.peek(), queue.pop()
            assert said([peeked]) == said([popped])


@pytest.mark.parametrize("kind", [LifoMemoryQueue, FifoMemoryQueue])
def test_order_in_memory(kind: Any) -> None:
    """The requests of one host have the order of Scrapy's own queue, and are counted."""
    crawler = Crawl(obey=False).crawler
    ours = HostQueue.from_crawler(crawler, kind, "", start_queue_cls=FifoMemoryQueue)
    scrapys = ScrapyPriorityQueue.from_crawler(
        crawler, kind, "", start_queue_cls=FifoMemoryQueue
    )
    random = Random(1)
    for number in range(500):
        if random.random() < 0.5:
            meta = {"is_start_request": True} if random.random() < 0.3 else {}
            request = Request(
                f"{PAGE}{number}", priority=random.randrange(3), meta=meta
            )
            ours.push(request)
            scrapys.push(request)
        else:
            assert ours.pop() is scrapys.pop()
        assert len(ours) == len(scrapys)


class Failing(LifoMemoryQueue):
    """A queue class that loses its last request, and cannot peek."""

    error: Exception | None = None

    @property
    def peek(self) -> None:
        raise self.error or AttributeError

    def pop(self) -> Request | None:
        error, self.error = self.error, None
        request = super().pop()
        if error is not None:
            raise error
        return None if request and request.meta.get("is_lost") else request


def test_a_queue_class_that_fails() -> None:
    """With a queue class that can't peek, robots.txt is still fetched. If it raises while it reads a
    request, or returns none, only that request is lost.
    """
    queue = in_memory(Failing, obey=True)
    crawl = Crawl._all[-1]
    queue.push(page(f"{PAGE}3"))
    for number in (2, 1):
        queue.push(page(f"{PAGE}{number}", is_lost=number == 2))
    assert crawl.on_network == [f"{PAGE}robots.txt"]
    crawl.answer(f"{PAGE}robots.txt")
    with pytest.raises(NotImplementedError):
        queue.peek()
    (back_queue,) = queue._queues.values()
    ((_, memory_queue),) = back_queue.requests._levels
    memory_queue.error = OSError("damaged")
    with pytest.raises(OSError, match="damaged"):
        queue.peek()
    with pytest.raises(OSError, match="damaged"):
        queue.pop()
    assert len(queue) == 2
    assert [one.url for one in contents(queue)] == [f"{PAGE}3"]
    assert queue.pop() is None


def test_a_queue_class_that_fails_while_another_request_waits() -> None:
    """The turn of a request that is lost goes at once to another that waits for it."""
    crawl = Crawl()
    crawl.queues = [queue] = [HostQueue.from_crawler(crawl.crawler, Failing, "")]
    for number in range(2):
        crawl.push(page(f"{PAGE}{number}"))
    crawl.run()
    crawl.answer(f"{PAGE}robots.txt", "User-agent: *\nCrawl-delay: 4")
    crawl.clock.advance(4)
    (back_queue,) = queue._queues.values()
    ((_, memory_queue),) = back_queue.requests._levels
    memory_queue.error = OSError("damaged")
    pop = memory_queue.pop

    def pop_later() -> Request | None:
        crawl.outside(f"{PAGE}image")
        found: Request | None = pop()
        return found

    memory_queue.pop = pop_later
    with pytest.raises(OSError, match="damaged"):
        queue.pop()
    assert crawl.on_network == [f"{PAGE}image"]


def test_hosts_without_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the last ones stay, so that their next requests find them; not those with a delay."""
    monkeypatch.setattr(host_queue, "_MAX_IDLE", 2)
    crawl = Crawl()
    queue = crawl.queues[0]
    for host in "abcd":
        crawl.push(f"http://{host}.example/")
    crawl.run()
    for host in "abcd":
        delay = "Crawl-delay: 1" if host == "d" else ""
        crawl.answer(f"http://{host}.example/robots.txt", f"User-agent: *\n{delay}")
    crawl.pass_time(1)
    for host in "abcd":
        crawl.answer(f"http://{host}.example/")
    crawl.pass_time(60)
    assert not len(queue)
    kept = {key.slot: each for key, each in queue._queues.items()}
    assert kept.keys() == set(crawl.frontier.core.scopes) == {"b.example", "c.example"}
    assert "b.example" not in queue
    crawl.push("http://b.example/again")
    assert "b.example" in queue
    crawl.run()
    crawl.push("http://a.example/again")
    crawl.run()
    assert crawl.on_network == ["http://b.example/again", "http://a.example/again"]
    found = {key.slot: each for key, each in queue._queues.items()}
    assert found["b.example"] is kept["b.example"]
    assert found.keys() == {"a.example", "b.example"}


def test_hosts_of_long_urls() -> None:
    """The host of a URL is kept for other requests, but not that of a long URL without a path, such as
    a ``data:`` URL, which would be kept as a whole.
    """
    frontier = Crawl(obey=False).frontier
    for start in ("data:,", "http://a.example?b=", "http://a.example/"):
        frontier.key_of(Request(start + "b" * 10_000))
    assert frontier._keys.keys() == {"http://a.example"}
