"""What the queue returns to a scheduler, and what it saves for the next run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
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

from scrapy_rep.frontier.dupefilter import DupeFilter
from scrapy_rep.frontier.queue import HostQueue
from tests.frontier.fakes import Crawl, page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_slot_is_remembered_while_its_last_request_is_under_way() -> None:
    """The last request of a host counts in its slot until it has ended."""
    crawl = Crawl(obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    first = crawl.push(page("http://a.example/1", fate="lingers"))
    assert crawl.run() == [first]
    second = crawl.push("http://a.example/2")
    assert crawl.run() == []
    crawl.lingering[first].callback(None)
    assert crawl.answer(first) == [second]


def test_a_request_that_cant_be_read() -> None:
    """A request that can't be read is skipped, and does not count."""
    crawl = Crawl(obey=False)
    queue = crawl.queues[0]
    last = crawl.push("http://a.example/1")
    crawl.push("http://a.example/2")
    (back_queue,) = queue._queues.values()
    ((_, memory_queue),) = back_queue.requests._levels
    memory_queue.q[-1] = None
    assert crawl.run() == [last]
    assert len(queue) == 0


def test_a_queue_class_that_fails() -> None:
    """If a queue class raises while it reads a request, only that request is
    lost, and the order stays.
    """
    crawl = Crawl(obey=False)
    queue = crawl.queues[0]
    last = crawl.push("http://a.example/1")
    crawl.push("http://a.example/2")
    (back_queue,) = queue._queues.values()
    ((_, memory_queue),) = back_queue.requests._levels
    loses_one = mock.patch.object(memory_queue, "pop", _lose_one(memory_queue))
    with loses_one, pytest.raises(OSError, match="damaged"):
        queue.pop()
    assert len(queue) == 1
    assert crawl.run() == [last]


def _lose_one(queue: Any) -> Callable[[], None]:
    def pop() -> None:
        queue.q.pop()
        raise OSError("damaged")

    return pop


# What a scheduler does with a JOBDIR. Without the middleware, all hosts are ready.

URLS = [f"http://{host}.example/{number}" for host in "ab" for number in range(3)]
URLS += ["https://a.example/3", "data:,4"]


def on_disk(
    crawl: Crawl,
    folder: Path,
    state: Any = (),
    kind: Any = HostQueue,
    disk_queue: Any = PickleLifoDiskQueue,
) -> Any:
    return kind.from_crawler(
        crawl.crawler,
        disk_queue,
        str(folder),
        # The scheduler saves the state as JSON.
        json.loads(json.dumps(state)),
        start_queue_cls=PickleFifoDiskQueue,
    )


def requests() -> list[Request]:
    """Requests to several hosts, with different priorities and meta keys."""
    return [
        Request(url, priority=number % 2, meta=meta)
        for number, url in enumerate(URLS)
        for meta in (
            {},
            {"is_start_request": True},
            {"download_slot": "slot", "redirect_urls": ["http://c.example/"]},
            {"dont_obey_robotstxt": True},
        )
    ]


def contents(queue: Any) -> list[str]:
    """Pop everything. Return it sorted."""
    found = []
    while (request := queue.pop()) is not None:
        found.append(f"{request.url} {request.priority} {request.meta}")
    assert len(queue) == 0
    return sorted(found)


def expected() -> list[str]:
    return sorted(
        f"{request.url} {request.priority} {request.meta}" for request in requests()
    )


def test_resumed_by_virtual_host(tmp_path: Path) -> None:
    """Requests to a virtual host are in a queue of their own, also in the next run."""
    url, name = "http://a.example/1", {"Host": "v.example"}
    queue = on_disk(Crawl(), tmp_path)
    for headers in ({}, name):
        queue.push(Request(url, headers=headers))
    again = on_disk(Crawl(), tmp_path, queue.close())
    assert {str(key.origin): len(each) for key, each in again._queues.items()} == {
        "http://a.example": 1,
        "http://a.example#Host:v.example": 1,
    }


@pytest.mark.parametrize("obey", [True, False])
@pytest.mark.parametrize("disk_queue", [PickleLifoDiskQueue, MarshalFifoDiskQueue])
def test_resumed(tmp_path: Path, obey: bool, disk_queue: Any) -> None:
    """The next run has all requests that were left, and no others."""
    queue = on_disk(Crawl(obey=obey), tmp_path, disk_queue=disk_queue)
    for request in requests():
        queue.push(request)
    crawl = Crawl(obey=False)
    state = queue.close()
    again = on_disk(crawl, tmp_path, state, disk_queue=disk_queue)
    assert len(again) == len(requests())
    assert contents(again) == expected()
    again.close()
    assert rows(tmp_path, "requests") == rows(tmp_path, "in_flight") == 0


def kill(queue: Any) -> None:
    """Do what the operating system does with the files of a process that is killed."""
    queue._file._close()


def rows(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(folder / "requests.sqlite")) as database:
        (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    """After a process was killed, the next run has the requests that had waited, and those that
    were in flight. These are the first of their host.
    """
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path)
    for number in range(150):
        queue.push(Request(f"http://a.example/{number}"))
    in_flight = []
    for _ in range(2):
        in_flight.append(queue.pop())
        crawl.crawler.engine._slot.inprogress.add(in_flight[-1])
    for number in range(150, 250):
        queue.push(Request(f"http://a.example/{number}"))
    kill(queue)
    assert rows(tmp_path, "in_flight") == 2
    again = on_disk(Crawl(obey=False), tmp_path)
    popped = [again.pop() for _ in range(8)]
    assert [one.url for one in popped[:2]] == [one.url for one in in_flight]
    kill(again)


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the disk is full, requests stay in memory and are popped from there, with one
    warning. When there is room, they are written.
    """
    caplog.set_level("INFO")
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path)
    (pages,) = queue._file._db.execute("PRAGMA page_count").fetchone()
    queue._file._db.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(300):
        queue.push(Request(f"http://a.example/{number}"))
    crawl.pass_time(3)
    assert len(queue) == 300
    assert queue.pop().url == "http://a.example/299"
    assert rows(tmp_path, "requests") == 0
    queue._file._db.execute("PRAGMA max_page_count = 100000")
    crawl.pass_time(3)
    assert rows(tmp_path, "requests") >= 299
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "cannot be written" in warning.getMessage()
    assert "can be written again" in caplog.records[-1].getMessage()
    queue.close()


def test_requests_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that cannot be read are not sent, and stay in the file. The log has an error for
    the first, and their number at the end.
    """
    queue = on_disk(Crawl(obey=False), tmp_path)
    for number in range(4):
        queue.push(Request(f"http://{number}.example/"))
    queue.close()
    with closing(sqlite3.connect(tmp_path / "requests.sqlite")) as database:
        database.execute("UPDATE requests SET data = 'x' WHERE number = 1")
        junk = crc32(b"junk").to_bytes(4, "big") + b"junk"
        database.execute("UPDATE requests SET data = ? WHERE number = 2", (junk,))
        database.commit()
    again = on_disk(Crawl(obey=False), tmp_path)
    assert len(contents(again)) == 2
    again.close()
    assert rows(tmp_path, "requests") == 2
    first, last = [
        one.getMessage() for one in caplog.records if one.levelname == "ERROR"
    ]
    assert "cannot be read: ValueError('its checksum is wrong')" in first
    assert "2 requests in the queue could not be read" in last


def test_a_host_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file in which a host cannot be read stops the crawl."""
    queue = on_disk(Crawl(obey=False), tmp_path)
    queue.push(requests()[0])
    queue.close()
    with closing(sqlite3.connect(tmp_path / "requests.sqlite")) as database:
        database.execute("UPDATE requests SET host = '[7'")
        database.commit()
    on_disk(crawl := Crawl(obey=False), tmp_path)
    assert crawl.frontier.is_stopped
    assert "it names no host" in caplog.text


def test_a_class_of_the_project(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk queue of the project's own is named in a warning as not used."""

    class OwnQueue(PickleLifoDiskQueue):
        pass

    queue = on_disk(Crawl(obey=False), tmp_path, disk_queue=OwnQueue)
    assert "OwnQueue is not used" in caplog.text
    queue.close()


def test_damaged_while_it_is_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If another program damages the file while a crawl runs, the crawl stops with one error."""
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path)
    for request in requests():
        queue.push(request)
    queue._commit()
    with closing(sqlite3.connect(tmp_path / "requests.sqlite")) as database:
        database.execute("DELETE FROM requests")
        database.commit()
    assert queue.pop() is None
    assert queue.pop() is None
    assert crawl.frontier.is_stopped
    (error,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert "The crawl stops" in error
    queue.close()


def test_one_crawl_at_a_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second crawl with the same JOBDIR stops with a message, and sends nothing."""
    queue = on_disk(Crawl(obey=False), tmp_path)
    crawl = Crawl(obey=False, JOBDIR=str(tmp_path))
    second = on_disk(crawl, tmp_path)
    assert "Another crawl uses the queue" in caplog.text
    with pytest.raises(ValueError, match="cannot be used"):
        second.push(requests()[0])
    memory_queue = crawl.queues[0]
    memory_queue.push(requests()[0])
    assert memory_queue.pop() is None
    dupefilter = DupeFilter.from_crawler(crawl.crawler)
    dupefilter.open()
    assert dupefilter.request_seen(requests()[0])
    dupefilter.close("finished")
    assert (tmp_path / "requests.seen").read_bytes() == b""
    queue.close()


def test_resumed_in_order(tmp_path: Path) -> None:
    """Priorities and the order of start requests survive a restart."""
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path)
    for number in range(4):
        for is_start in (True, False):
            meta = {"is_start_request": is_start}
            url = f"http://a.example/{number}"
            queue.push(Request(url, priority=number // 2, meta=meta))
    again = on_disk(Crawl(obey=False), tmp_path, queue.close())
    popped = [again.pop() for _ in range(8)]
    order = [(one.url[-1], one.meta["is_start_request"]) for one in popped]
    assert order == [
        *[("3", False), ("2", False), ("2", True), ("3", True)],
        *[("1", False), ("0", False), ("0", True), ("1", True)],
    ]


@pytest.mark.parametrize("kind", [DownloaderAwarePriorityQueue, ScrapyPriorityQueue])
def test_resumed_from_scrapys_own(tmp_path: Path, kind: Any) -> None:
    """The queue resumes one that Scrapy's own class wrote, in the same order for each host."""
    crawl = Crawl(obey=False)
    theirs = on_disk(crawl, tmp_path, kind=kind)
    for number in range(3):
        for request in requests():
            theirs.push(request.replace(url=f"{request.url}-{number}"))
    state = theirs.close()
    queue = on_disk(Crawl(obey=False), tmp_path, state)
    assert len(queue) == 3 * len(requests())
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    kill(queue)
    # The scheduler still has the old state, since the process was killed.
    found = contents(again := on_disk(Crawl(obey=False), tmp_path, state))
    for number in range(3):
        some = [line for line in found if f"-{number} " in line]
        assert (
            sorted(line.replace(f"-{number} ", " ", 1) for line in some) == expected()
        )
    again.close()


def test_scrapys_own_does_not_go_on_with_ours(tmp_path: Path) -> None:
    """Scrapy's own class refuses to resume a queue of this package, with its own error."""
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path)
    queue.push(Request("http://a.example/"))
    with pytest.raises(ValueError, match="same priority queue class can be resumed"):
        on_disk(crawl, tmp_path, queue.close(), DownloaderAwarePriorityQueue)


@pytest.mark.parametrize(
    "state",
    [
        ["redis", [], None],
        ["scrapy_rep.HostQueue", [["slot"]], None],
        ["scrapy_rep.HostQueue", 5, None],
        ["scrapy_rep.HostQueue", [["slot", None, False, 7]], None],
        ["scrapy_rep.HostQueue", [], {"slot": 5}],
        {"slot": 5},
        ["a", "b"],
        "text",
        5,
    ],
    ids=str,
)
def test_a_state_of_something_else(
    tmp_path: Path, state: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """For a state of another class, the crawl stops. The error names the folder, and says what to
    do.
    """
    queue = on_disk(crawl := Crawl(obey=False), tmp_path, state)
    assert crawl.frontier.is_stopped
    assert queue.pop() is None
    (error,) = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert str(tmp_path) in error
    assert "another SCHEDULER_PRIORITY_QUEUE wrote it" in error


def test_a_request_that_cant_be_written(tmp_path: Path) -> None:
    """A request that can't be serialized leaves nothing behind, so that the
    scheduler can keep it in memory.
    """
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path)
    request = Request("http://a.example/", callback=lambda response: None)
    for _ in range(2):
        with pytest.raises(ValueError, match="not an instance method"):
            queue.push(request)
        assert len(queue) == 0
        assert queue.pop() is None
    assert not len(crawl.frontier.core.scopes)
    queue.push(Request("http://a.example/"))
    with pytest.raises(ValueError, match="not an instance method"):
        queue.push(request)
    assert len(queue) == 1
    state = queue.close()
    assert len(on_disk(crawl, tmp_path, state)) == 1


def test_peek(tmp_path: Path) -> None:
    """``peek`` returns the request that is popped next, and leaves it in the queue."""
    for queue in (Crawl(obey=False).queues[0], on_disk(Crawl(obey=False), tmp_path)):
        assert queue.peek() is None
        for request in requests():
            queue.push(request)
        while len(queue):
            peeked, popped = queue.peek(), queue.pop()
            assert (peeked.url, peeked.meta) == (popped.url, popped.meta)


def test_peek_after_the_last_of_a_priority() -> None:
    """After the last request of a priority, ``peek`` returns start requests of the next one."""
    crawl = Crawl(obey=False, starts_apart=True)
    crawl.push(page("http://a.example/start", is_start_request=True))
    first = crawl.push(page("http://a.example/", priority=1))
    queue = crawl.queues[0]
    assert queue.pop() is first
    assert queue.peek().url == "http://a.example/start"


def test_a_queue_that_costs_little(tmp_path: Path) -> None:
    """The state of a host is freed with its last request."""
    crawl = Crawl(obey=False, CONCURRENT_REQUESTS=100_000)
    queue = HostQueue.from_crawler(
        crawl.crawler, LifoMemoryQueue, "", start_queue_cls=FifoMemoryQueue
    )
    for number in range(1000):
        queue.push(page(f"http://{number}.example/"))
    while queue.pop() is not None:
        pass
    queue.pop()
    assert not queue._queues
    assert not len(crawl.frontier.core.scopes)


@pytest.mark.parametrize("error", [None, OSError("damaged")])
def test_a_queue_class_that_cant_peek(error: Exception | None) -> None:
    """With a queue class that can't peek, robots.txt is still fetched."""

    class Queue(LifoMemoryQueue):
        @property
        def peek(self) -> None:
            raise error or AttributeError

    crawl = Crawl()
    queue = HostQueue.from_crawler(crawl.crawler, Queue, "")
    queue.push(page("http://a.example/"))
    assert crawl.on_network == ["http://a.example/robots.txt"]
    crawl.answer("http://a.example/robots.txt")
    with pytest.raises(type(error or NotImplementedError())):
        queue.peek()
    assert queue.pop() is not None
