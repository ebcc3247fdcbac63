"""What the queue returns to a scheduler, and what it saves for the next run."""

from __future__ import annotations

import json
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from unittest import mock

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

from scrapy_rep.exceptions import QueueStateError
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
    crawl.downloader.lingering[first].callback(None)
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
    assert not any(again.close()[1:])


def test_files_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """The queue removes the files of a killed process, which cannot be resumed, and no other
    files in the folder.
    """
    (tmp_path / "notes").mkdir()
    killed = on_disk(Crawl(obey=False), tmp_path)
    for request in requests():
        killed.push(request)
    assert len(list(tmp_path.iterdir())) > 1
    queue = on_disk(Crawl(obey=False), tmp_path)
    assert contents(queue) == []
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
    queue.push(requests()[0])
    assert len(contents(queue)) == 1


def test_files_that_are_gone(tmp_path: Path) -> None:
    """A host queue whose files were deleted between two runs is dropped; the other host queues
    are resumed.
    """
    queue = on_disk(Crawl(obey=False), tmp_path)
    queue.push(Request("http://a.example/1"))
    (lost,) = tmp_path.iterdir()
    queue.push(Request("http://b.example/1"))
    state = queue.close()
    rmtree(lost)
    crawl = Crawl(obey=False)
    again = on_disk(crawl, tmp_path, state)
    assert len(again) == 1
    assert [text.split()[0] for text in contents(again)] == ["http://b.example/1"]
    assert not len(crawl.frontier.core.scopes)


def test_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    """The folder of a host is deleted with its last request."""
    queue = on_disk(Crawl(obey=False), tmp_path)
    for request in requests():
        queue.push(request)
    assert any(tmp_path.iterdir())
    assert contents(queue) == expected()
    assert not any(tmp_path.iterdir())


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
    """The queue resumes one that Scrapy's own class wrote, also over several runs, if a run
    in between sorted only a part of it by host.
    """
    crawl = Crawl(obey=False)
    theirs = on_disk(crawl, tmp_path, kind=kind)
    for number in range(3):
        for request in requests():
            theirs.push(request.replace(url=f"{request.url}-{number}"))
    count = len(theirs)
    queue = on_disk(crawl, tmp_path, theirs.close())
    assert len(queue) == count
    first = queue.pop()
    assert len(queue) == count - 1
    state = queue.close()
    assert state[2]
    again = on_disk(Crawl(obey=False), tmp_path, state)
    found = contents(again)
    assert len(found) == len(queue) == count - 1
    found.append(f"{first.url} {first.priority} {first.meta}")
    once = [line for line in found if "-1 " in line]
    assert sorted(line.replace("-1 ", " ", 1) for line in once) == expected()
    assert not any(again.close()[1:])


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
        ["scrapy_rep.HostQueue", [["slot", 7, False, [0]]], None],
        ["scrapy_rep.HostQueue", [["slot", None, False, 7]], None],
        ["scrapy_rep.HostQueue", [], {"slot": 5}],
        {"slot": 5},
        ["a", "b"],
        "text",
        5,
    ],
    ids=str,
)
def test_a_state_of_something_else(tmp_path: Path, state: Any) -> None:
    """For a state of another class, the error names the folder and says what to do."""
    with pytest.raises(QueueStateError, match=f"{tmp_path}.*wrote it"):
        on_disk(Crawl(obey=False), tmp_path, state)


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


def test_no_text_of_a_stranger_in_a_path(tmp_path: Path) -> None:
    """Whatever the name of a download slot, its folder is inside that of the queue."""
    crawl = Crawl(obey=False)
    queue = on_disk(crawl, tmp_path / "queue")
    for slot in ("../..", "/etc", "a" * 1000, "a\0b", ""):
        queue.push(Request("http://a.example/", meta={"download_slot": slot}))
    assert [path.name for path in tmp_path.iterdir()] == ["queue"]
    assert len(list((tmp_path / "queue").iterdir())) == 5
    assert len(contents(queue)) == 5


def test_peek(tmp_path: Path) -> None:
    """``peek`` returns the request that is popped next, and leaves it in the queue."""
    for queue in (Crawl(obey=False).queues[0], on_disk(Crawl(obey=False), tmp_path)):
        assert queue.peek() is None
        for request in requests():
            queue.push(request)
        while len(queue):
            peeked, popped = queue.peek(), queue.pop()
            assert (peeked.url, peeked.meta) == (popped.url, popped.meta)


def test_peek_and_push(tmp_path: Path) -> None:
    """``peek`` does not damage requests on disk, nor those pushed after it."""
    queue = on_disk(Crawl(obey=False), tmp_path)
    for number in range(3):
        queue.push(Request(f"http://a.example/{number}"))
        assert queue.peek().url[-1] == str(number)
    assert [queue.pop().url[-1] for _ in range(3)] == ["2", "1", "0"]


def test_peek_after_the_last_of_a_priority() -> None:
    """After the last request of a priority, ``peek`` returns start requests of the next one."""
    crawl = Crawl(obey=False, starts_apart=True)
    crawl.push(page("http://a.example/start", is_start_request=True))
    first = crawl.push(page("http://a.example/", priority=1))
    queue = crawl.queues[0]
    assert queue.pop() is first
    assert queue.peek().url == "http://a.example/start"


def test_in_turn() -> None:
    """Hosts without requests under way take turns; after that, the one
    with the fewest goes first.
    """
    crawl = Crawl(obey=False, CONCURRENT_REQUESTS=100, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    for host in "abc":
        for number in range(3):
            crawl.push(f"http://{host}.example/{number}")
    popped = [request.url[7] for request in crawl.run()]
    assert "".join(popped) == "abcabc"
    crawl.answer("http://b.example/1")
    assert [request.url[7] for request in crawl.run()] == []
    assert crawl.on_network[-1] == "http://b.example/0"


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
