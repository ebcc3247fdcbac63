"""The queue as scrapy-redis' scheduler and Scrapy's engine use it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider

from scrapy_rep.exceptions import RobotsDenied
from tests.frontier.fakes import is_robotstxt
from tests.frontier.redis.crawls import SEEN, WorkerCrawl, keys_of
from tests.frontier.redis.shared import LEASE, renew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.frontier.redis.shared import Shared

A = "http://a.example"
AS_JSON = SimpleNamespace(
    dumps=lambda found: json.dumps(found, default=bytes.decode), loads=json.loads
)


def serve(crawl: WorkerCrawl, robotstxt: str = "", seconds: float = 0.0) -> list[str]:
    """Answer each request under way, so many *seconds* after the one before. Return their URLs."""
    requests = list(crawl.network.requests)
    for request in requests:
        crawl.clock.advance(seconds)
        crawl.answer(request, robotstxt if is_robotstxt(request) else "", runs=False)
    return [request.url for request in requests]


# Requests on their way through the queue.


@pytest.mark.parametrize("serializer", [None, AS_JSON])
def test_request_comes_back_as_it_was(shared: Shared, serializer: Any) -> None:
    """A request is unchanged after the queue, whether the serializer is pickle or JSON."""
    crawl = WorkerCrawl(shared, obey=False, serializer=serializer)
    crawl.push(Request(f"{A}/1", meta={"n": [1, "é"]}, priority=3, cb_kwargs={"x": 1}))
    found = crawl.pop()
    assert (found.url, found.meta["n"], found.priority) == (f"{A}/1", [1, "é"], 3)
    assert found.cb_kwargs == {"x": 1}


def test_request_that_cant_be_written(shared: Shared) -> None:
    """If a request can't be serialized, the queue raises to the scheduler, as scrapy-redis'
    queues do, and stays empty.
    """
    crawl = WorkerCrawl(shared, obey=False, serializer=json)
    with pytest.raises(TypeError, match="JSON"):
        crawl.push(Request(A, meta={"x": object()}))
    assert len(crawl.queue) == 0


@pytest.mark.parametrize("is_known", [False, True])
def test_what_cant_be_read_keeps_the_delay(
    shared: Shared, caplog: pytest.LogCaptureFixture, *, is_known: bool
) -> None:
    """A request that can't be deserialized is removed with one error at once. All workers
    keep the delay of its host as before, whether its robots.txt is known or not.
    """
    other = WorkerCrawl(shared, serializer=AS_JSON)
    other.die()  # It only pushes.
    crawls = [WorkerCrawl(shared, CONCURRENT_REQUESTS=1) for _ in range(3)]
    starts: list[float] = []

    def work(times: int) -> None:
        for _ in range(times):
            for crawl in crawls:
                serve(crawl, "User-agent: *\nCrawl-delay: 5")
                crawl.settle(0.25)

    for crawl in crawls:
        crawl.network.on_send.append(lambda _: starts.append(shared.clock.monotonic()))
    if is_known:
        crawls[0].push(f"{A}/0")
        work(8)
    for number in range(3):
        other.push(f"{A}/bad{number}").meta.clear()
    for number in range(3):
        crawls[0].push(f"{A}/{number + 1}")
    work(40)
    gaps = [after - before for before, after in pairwise(starts)]
    assert len(gaps) == 3 + is_known
    assert all(5 <= gap <= 8 for gap in gaps), gaps
    assert len(crawls[0].queue) == 0
    check_errors(caplog, 3)


def check_errors(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """Check that there are so many errors, each of a request that can't be read."""
    errors = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
    assert [text[:23] for text in errors] == ["Cannot decode a request"] * count


def test_host_that_is_given_up(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """The requests of an unreachable host are refused, whichever worker has pushed them, and the
    queue is empty after that. One that can't be deserialized is removed with an error.
    """
    one, two = (WorkerCrawl(shared, REP_WAIT_MAX=10) for _ in range(2))
    for number in range(10):
        two.push(f"{A}/{number}")
    unreadable = WorkerCrawl(shared, serializer=AS_JSON)
    unreadable.push(f"{A}/10")
    unreadable.die()
    for _ in range(8):
        for crawl in (one, two):
            for url in crawl.on_network:
                crawl.fail(url, OSError("broken"), runs=False)
            crawl.settle(2)
    results = [*one.ended.values(), *two.ended.values()]
    assert [type(each) for each in results] == [RobotsDenied] * 10
    assert len(one.queue) == 0
    check_errors(caplog, 1)


def test_duplicates(shared: Shared) -> None:
    """A request that any worker has pushed is dropped as a duplicate, with the signal
    of Scrapy, unless it has dont_filter.
    """
    one, two = (WorkerCrawl(shared, obey=False) for _ in range(2))
    dropped: list[tuple[WorkerCrawl, str]] = []
    for crawl in (one, two):
        crawl.crawler.signals.connect(
            lambda request, crawl=crawl: dropped.append((crawl, request.url)),
            signals.request_dropped,
            weak=False,
        )
    for crawl in (one, one, two):
        crawl.enqueue(Request(f"{A}/1"))
    two.enqueue(Request(f"{A}/1", dont_filter=True))
    assert dropped == [(one, f"{A}/1"), (two, f"{A}/1")]
    assert len(one.queue) == 2
    assert shared.redis.scard(SEEN) == 1


def test_seen_only_when_it_is_in_the_queue(shared: Shared) -> None:
    """A request counts as seen only once it is in the queue, so a worker killed
    before that loses nothing.
    """
    dead, other = (WorkerCrawl(shared, obey=False) for _ in range(2))
    assert not dead.df.request_seen(Request(f"{A}/1"))
    dead.die()
    assert other.enqueue(Request(f"{A}/1"))


def test_done_when_its_callback_is(shared: Shared) -> None:
    """Until its callback has ended, a request counts, and comes back if the worker dies."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push(f"{A}/1", callback_takes_long=True)
    (popped,) = crawl.run()
    crawl.answer(popped)
    crawl.settle()
    assert len(crawl.queue) == 1
    crawl.engine.in_progress.remove(popped)
    crawl.settle()
    assert len(crawl.queue) == 0


def test_spider_that_closes(shared: Shared) -> None:
    """When the spider closes, unsent requests stay in the queue, and finished
    ones are not sent again.
    """
    crawl = WorkerCrawl(
        shared, CONCURRENT_REQUESTS=8, DOWNLOAD_DELAY=0.1, DOWNLOAD_SLOTS={}
    )
    crawl.push(f"{A}/1")
    crawl.settle()
    crawl.answer(f"{A}/robots.txt")
    crawl.settle()
    for number in (2, 3):
        crawl.push(f"{A}/{number}", fate="lingers" if number == 2 else None)
        crawl.settle()
    assert crawl.on_network == [f"{A}/1", f"{A}/3"]
    crawl.close()
    crawl.lingering.popitem()[1].errback(OSError("closing"))
    serve(crawl)
    crawl.closed()
    assert len(crawl.queue) == 1
    other = WorkerCrawl(shared)
    other.settle()
    assert [request.url for request in other.lingering] == [f"{A}/2"]


def test_clear(shared: Shared) -> None:
    """``clear`` deletes all keys of this spider and no others, also if a name contains glob
    characters, and forgets what was not sent yet.
    """
    queues = {}
    for name in ("[ab]*?", "a", "*", "b\\"):
        crawl = WorkerCrawl(shared, obey=False)
        queue = type(crawl.queue)(shared.redis, crawl.crawler.spider, name)
        for number in range(2):
            queue.push(Request(f"{A}/{number}"))
        assert queue.pop() is not None
        queue.push(Request(f"{A}/2"))
        queues[f"{{{name}}}"] = queue
    for name, queue in list(queues.items()):
        queue.clear()
        del queues[name]
        prefixes = {key.split("}")[0] + "}" for key in keys_of(shared.redis)}
        assert queues.keys() <= prefixes
        assert name not in prefixes
        queue._worker.exchange()
        assert len(queue) == 0
        assert queue.pop() is None


# The delays and places of a host.


def test_delay_over_workers(shared: Shared) -> None:
    """The Crawl-delay passes between the end of one request and the start of the next, over all
    workers, also if there is no store and each worker fetches robots.txt itself.
    """
    crawls = without_store(shared, 3)
    clock = shared.clock
    spans: list[list[float]] = []
    for crawl in crawls:
        crawl.network.on_send.append(lambda _: spans.append([clock.monotonic()]))
        crawl.network.on_end.append(lambda _: spans[-1].append(clock.monotonic()))
    for number in range(6):
        crawls[number % 3].push(f"{A}/{number}")
    for _ in range(60):
        for crawl in crawls:
            serve(crawl, "User-agent: *\nCrawl-delay: 2", 0.3)
            crawl.settle(0.25)
    assert len(crawls[0].queue) == 0
    assert len(spans) == 6 + 3
    for (_, end), (start, _) in pairwise(spans):
        assert 2 <= start - end < 4


def without_store(shared: Shared, count: int) -> list[WorkerCrawl]:
    """Return workers that each fetch robots.txt themselves."""
    found = []
    for _ in range(count):
        shared.store_client = None
        found.append(WorkerCrawl(shared))
    return found


def test_download_delay_over_workers(shared: Shared) -> None:
    """``DOWNLOAD_DELAY``, and the delays in ``DOWNLOAD_SLOTS``, hold over all workers."""
    settings = {
        "DOWNLOAD_DELAY": 1.0,
        "DOWNLOAD_SLOTS": {"b.example": {"concurrency": 8, "delay": 0}},
    }
    one, two = (WorkerCrawl(shared, obey=False, **settings) for _ in range(2))
    for number in range(4):
        one.push(f"{A}/{number}")
        one.push(f"http://b.example/{number}")
    for seconds, sent in ((0.0, 5), (0.99, 5), (0.01, 6)):
        shared.advance(seconds)
        for crawl in (one, two):
            crawl.engine.wake()
            crawl.run()
        assert len(one.sent + two.sent) == sent


@pytest.mark.parametrize("late", ["https://a.example/robots.txt", f"{A}/image"])
def test_late_one_of_a_host_with_a_delay(shared: Shared, late: str) -> None:
    """On a host with a Crawl-delay, the robots.txt of a second origin gets its turn, and so does an
    image, although the first origin always has requests. Failed attempts are repeated.
    """
    crawl = WorkerCrawl(shared, CONCURRENT_REQUESTS=4)
    failures, sent = 0, []
    for step in range(60):
        crawl.push(f"{A}/{step}")
        if step == 10 and late.endswith("txt"):
            crawl.push("https://a.example/secure")
        elif step == 10:
            crawl.outside(late)
        assert len(crawl.on_network) <= 1
        sent += crawl.on_network
        if crawl.on_network == ["https://a.example/robots.txt"] and failures < 2:
            failures += 1
            crawl.fail(late, OSError("broken"), runs=False)
        serve(crawl, "User-agent: *\nCrawl-delay: 1")
        crawl.settle(1)
    assert late in sent[4:40]
    assert len(sent) > 20


def test_a_place_is_not_shared(shared: Shared) -> None:
    """A request that is not from the queue does not use the place of one that is in flight, or has
    ended a moment ago.
    """
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push(f"{A}/1")
    (popped,) = crawl.run()
    places, image = crawl.frontier.leases, Request(f"{A}/image")
    assert not places.acquire(image, "a.example")
    crawl.answer(popped, runs=False)
    assert places.acquire(image, "a.example")
    assert places.places != places.requests


# Workers that stand still.


@contextmanager
def standing_still(shared: Shared) -> Iterator[None]:
    """Stop the timers of all workers meanwhile."""
    timers, shared.clock._timers = shared.clock._timers, []
    yield
    shared.clock._timers = timers


@pytest.mark.parametrize("is_missed", [True, False])
def test_worker_that_stood_still(shared: Shared, *, is_missed: bool) -> None:
    """A worker that stood still for longer than its lease may not send what it was about to, also
    when it renews its lease. If no other worker has noticed, it may.
    """
    crawl, other = WorkerCrawl(shared, obey=False), shared.worker(lease=1000.0)
    crawl.push(f"{A}/1")
    crawl.run()
    (request,) = crawl.sent
    with standing_still(shared):
        shared.advance(LEASE + 1)
        assert not crawl.queue._leased.has_turn(request)
        if is_missed:
            renew(other)
        renew(crawl.queue._worker)
        assert crawl.queue._leased.has_turn(request) is not is_missed


def test_turn_that_was_lost_while_a_request_waits(shared: Shared) -> None:
    """A request that loses its turn while it waits in the downloader waits again for a turn."""
    stopped, other = without_store(shared, 2)
    text = "User-agent: *\nCrawl-delay: 3"
    other.push(f"{A}/1")
    for _ in range(3):
        other.settle(4)
        serve(other, text)
    other.settle(4)
    stopped.push(f"{A}/2")
    stopped.run()
    assert stopped.on_network == [f"{A}/robots.txt"]
    stopped.answer(f"{A}/robots.txt", text)  # The delay begins.
    with standing_still(shared):
        shared.advance(LEASE)
        renew(other.queue._worker)
        shared.advance(4)
        other.engine.wake()
        other.run()
        assert other.on_network == [f"{A}/2"]
    stopped.settle(0.1)
    assert stopped.on_network == []


# Idle workers.


def test_idle_before_close(shared: Shared) -> None:
    """``SCHEDULER_IDLE_BEFORE_CLOSE`` keeps an idle spider open for that many seconds."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push(f"{A}/1")
    assert crawl.queue.pop(30) is not None
    shared.advance(29.9)
    with pytest.raises(DontCloseSpider):
        crawl.queue._spider_idle()
    shared.advance(0.1)
    crawl.queue._spider_idle()


def test_idle_worker_asks_seldom(shared: Shared) -> None:
    """An idle worker calls the server a few times a second, not in
    each turn of the event loop.
    """
    crawl = WorkerCrawl(shared)
    crawl.settle(2)
    shared.redis.config_resetstat()
    wakes = crawl.engine.wakes
    crawl.settle(10)
    assert crawl.engine.wakes - wakes <= 200
    stats = shared.redis.info("commandstats")
    assert 10 <= stats["cmdstat_evalsha"]["calls"] <= 400
