"""The queue as scrapy-redis' scheduler and Scrapy's engine use it."""

from __future__ import annotations

import json
import logging
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
from tests.frontier.redis.shared import HOUR, LEASE, renew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.frontier.redis.shared import Shared

A = "http://a.example"
AS_JSON = SimpleNamespace(
    dumps=lambda found: json.dumps(found, default=bytes.decode), loads=json.loads
)


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
    text = "User-agent: *\nCrawl-delay: 5"
    other = WorkerCrawl(shared, serializer=AS_JSON)
    other.die()  # It only pushes.
    crawls = [WorkerCrawl(shared, CONCURRENT_REQUESTS=1) for _ in range(3)]
    starts: list[float] = []

    def work(times: int) -> None:
        for _ in range(times):
            for crawl in crawls:
                for request in list(crawl.network.requests):
                    body = text if is_robotstxt(request) else ""
                    crawl.answer(request, body, runs=False)
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
    errors = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert [one.getMessage()[:23] for one in errors] == ["Cannot decode a request"] * 3


def test_refused_and_cant_be_read(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that can't be deserialized is removed with an error also
    if its host is given up.
    """
    crawl = WorkerCrawl(shared, REP_WAIT_MAX=1)
    crawl.push(f"{A}/1")
    WorkerCrawl(shared, serializer=AS_JSON).push(f"{A}/2")
    for _ in range(8):
        crawl.settle(1)
        for url in crawl.on_network:
            crawl.fail(url, OSError("broken"), runs=False)
    assert len(denied(crawl)) == 1
    assert len(crawl.queue) == 0
    errors = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert [one.getMessage()[:23] for one in errors] == ["Cannot decode a request"]


def test_robotstxt_is_fetched_once_for_all(shared: Shared) -> None:
    """One worker fetches robots.txt, and then all workers send requests to the host."""
    one, two = WorkerCrawl(shared), WorkerCrawl(shared)
    for number in range(20):
        one.push(f"{A}/{number}")
    for crawl in (one, two):
        crawl.settle()
    assert one.on_network + two.on_network == [f"{A}/robots.txt"]
    (owner,) = [crawl for crawl in (one, two) if crawl.on_network]
    owner.answer(f"{A}/robots.txt", "User-agent: *\nDisallow: /0")
    for crawl in (one, two):
        crawl.settle()
    assert len(one.on_network + two.on_network) == 8
    done = 0
    while len(one.queue):
        for crawl in (one, two):
            for url in crawl.on_network:
                assert not url.endswith("robots.txt")
                crawl.answer(url, runs=False)
                done += 1
            crawl.settle(0.5)
    assert done == 19


@pytest.mark.parametrize("has_store", [True, False])
def test_delay_over_workers(shared: Shared, *, has_store: bool) -> None:
    """The Crawl-delay passes between the end of one request and the start of the
    next, over all workers. That holds also without a store, when each worker
    fetches robots.txt itself.
    """
    crawls = []
    for _ in range(3):
        if not has_store:
            shared.store_client = None
        crawls.append(WorkerCrawl(shared, CONCURRENT_REQUESTS=4))
    clock = shared.clock
    spans: list[list[float]] = []
    for crawl in crawls:
        crawl.network.on_send.append(lambda _: spans.append([clock.monotonic()]))
        crawl.network.on_end.append(lambda _: spans[-1].append(clock.monotonic()))
    for number in range(6):
        crawls[number % 3].push(f"{A}/{number}")
    for _ in range(60):
        for crawl in crawls:
            for request in list(crawl.network.requests):
                shared.advance(0.3)
                text = "User-agent: *\nCrawl-delay: 2" if is_robotstxt(request) else ""
                crawl.answer(request, text, runs=False)
            crawl.settle(0.25)
    assert len(crawls[0].queue) == 0
    assert len(spans) == 6 + (1 if has_store else 3)
    for (_, end), (start, _) in pairwise(spans):
        assert 2 <= start - end < 4


def test_second_origin_of_a_host_with_a_delay(shared: Shared) -> None:
    """On a host with a Crawl-delay, the robots.txt of a second origin gets its turn,
    although the first origin always has requests; failed attempts are repeated.
    """
    crawl = WorkerCrawl(shared, CONCURRENT_REQUESTS=4)
    text = "User-agent: *\nCrawl-delay: 1"
    number, sent = 0, []
    for step in range(80):
        crawl.push(f"{A}/{step}")
        if step == 10:
            crawl.push("https://a.example/secure")
        for request in list(crawl.network.requests):
            assert len(crawl.network.requests) == 1
            sent.append(request.url)
            if request.url == "https://a.example/robots.txt" and number < 2:
                number += 1
                crawl.fail(request, OSError("broken"), runs=False)
            else:
                body = text if is_robotstxt(request) else ""
                crawl.answer(request, body, runs=False)
        crawl.settle(1)
    assert "https://a.example/robots.txt" in sent[:40]
    assert sent.index("https://a.example/robots.txt") > 5


def test_requests_from_outside_have_their_turn(shared: Shared) -> None:
    """A media request to a host with a Crawl-delay gets its turn before the queue is empty."""
    crawl = WorkerCrawl(shared)
    text = "User-agent: *\nCrawl-delay: 1"
    sent = []
    for step in range(40):
        crawl.push(f"{A}/{step}")
        if step == 20:
            crawl.outside(f"{A}/image")
        for request in list(crawl.network.requests):
            assert len(crawl.network.requests) == 1
            sent.append(request.url)
            crawl.answer(request, text if is_robotstxt(request) else "", runs=False)
        crawl.settle(1)
    assert f"{A}/image" in sent
    assert len(sent) > 15


def test_unreachable_host_is_given_up(shared: Shared) -> None:
    """The requests of an unreachable host are refused in all workers, and the
    queue is empty after that.
    """
    one, two = (WorkerCrawl(shared, REP_WAIT_MAX=10) for _ in range(2))
    for number in range(10):
        two.push(f"{A}/{number}")
    for _ in range(8):
        for crawl in (one, two):
            for url in crawl.on_network:
                crawl.fail(url, OSError("broken"), runs=False)
            crawl.settle(2)
    assert len(denied(one) + denied(two)) == 10
    assert len(one.queue) == 0


def denied(crawl: WorkerCrawl) -> list[Request]:
    """The requests that were refused."""
    return [one for one, each in crawl.ended.items() if isinstance(each, RobotsDenied)]


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


def test_clear_forgets_what_was_not_sent(shared: Shared) -> None:
    """A queue that was cleared has no request, in Redis or in memory, and sends none later."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push(f"{A}/1")
    assert len(crawl.queue) == 1
    crawl.queue.push(Request(f"{A}/2"))
    crawl.queue.clear()
    assert len(crawl.queue) == 0
    crawl.send()
    assert crawl.pop() is None


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
    one.run()
    two.run()
    assert len(one.sent + two.sent) == 5
    shared.advance(0.99)
    for crawl in (one, two):
        crawl.run()
    assert len(one.sent + two.sent) == 5
    shared.advance(0.01)
    for crawl in (one, two):
        crawl.engine.wake()
        crawl.run()
    assert len(one.sent + two.sent) == 6


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
    crawl.engine.wake()
    crawl.run()
    assert len(crawl.queue) == 0


def test_worker_that_was_killed(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """If a worker is killed, another one sends its requests again, and logs how many."""
    dead, other = (WorkerCrawl(shared, obey=False) for _ in range(2))
    for number in range(3):
        dead.push(f"{A}/{number}")
    dead.run()
    dead.die()
    other.settle(LEASE + LEASE / 4 + 1)
    assert sorted(other.on_network) == [f"{A}/{number}" for number in range(3)]
    assert "3 requests that it had taken are in the queue again" in caplog.text


def test_turn_of_a_worker_that_was_taken_for_dead(shared: Shared) -> None:
    """A worker that was taken for dead loses its turns, also when it renews its lease."""
    crawl, other = WorkerCrawl(shared, obey=False), shared.worker(lease=1000.0)
    crawl.push(f"{A}/1")
    crawl.run()
    turns = crawl.queue._leased
    (request,) = crawl.sent
    with standing_still(shared):
        shared.advance(LEASE - 1)
        renew(crawl.queue._worker)
        assert turns.has_turn(request)
        shared.advance(LEASE)
        renew(other)
        renew(crawl.queue._worker)
        assert not turns.has_turn(request)


def test_turn_that_was_lost_while_a_request_waits(shared: Shared) -> None:
    """A request that loses its turn while it waits in the downloader waits again for a turn."""
    crawls = []
    for _ in range(2):
        # Without a shared store, each worker fetches robots.txt itself.
        shared.store_client = None
        crawls.append(WorkerCrawl(shared))
    stopped, other = crawls
    text = "User-agent: *\nCrawl-delay: 3"
    other.push(f"{A}/1")
    for _ in range(3):
        other.settle(4)
        for url in other.on_network:
            other.answer(url, text if url.endswith(".txt") else "")
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


@contextmanager
def standing_still(shared: Shared) -> Iterator[None]:
    """Stop the timers of all workers meanwhile."""
    timers, shared.clock._timers = shared.clock._timers, []
    yield
    shared.clock._timers = timers


def test_turn_of_a_worker_that_nobody_has_missed(shared: Shared) -> None:
    """A worker that stood still for longer than its lease keeps its turns if
    no other worker noticed.
    """
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push(f"{A}/1")
    crawl.run()
    with standing_still(shared):
        shared.advance(2 * LEASE)
        renew(crawl.queue._worker)
    assert crawl.queue._leased.has_turn(crawl.sent[0])


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
    for url in crawl.on_network:
        crawl.answer(url, runs=False)
    crawl.closed()
    assert len(crawl.queue) == 1
    other = WorkerCrawl(shared)
    other.settle()
    assert [request.url for request in other.lingering] == [f"{A}/2"]


def test_idle_before_close(shared: Shared) -> None:
    """``SCHEDULER_IDLE_BEFORE_CLOSE`` keeps an idle spider open for that many seconds."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push(f"{A}/1")
    request = crawl.queue.pop(30)
    assert request.url == f"{A}/1"
    shared.advance(29.9)
    with pytest.raises(DontCloseSpider):
        crawl.queue._spider_idle()
    shared.advance(0.1)
    crawl.queue._spider_idle()


def test_clear(shared: Shared) -> None:
    """``clear`` deletes all keys of this spider and no others, also if a name
    contains glob characters.
    """
    client = shared.redis
    crawls = []
    for name in ("[ab]*?", "a", "*", "b\\"):
        crawl = WorkerCrawl(shared, obey=False)
        queue = type(crawl.queue)(client, crawl.crawler.spider, name)
        queue.push(Request(f"{A}/1"))
        queue.push(Request(f"{A}/2"))
        assert queue.pop() is not None
        crawls.append((name, queue))
    others = {f"{{{name}}}" for name, _ in crawls}
    for name, queue in crawls:
        queue.clear()
        others.remove(f"{{{name}}}")
        prefixes = {
            key.rpartition(":")[0].split("}")[0] + "}" for key in keys_of(client)
        }
        assert others <= prefixes
        assert f"{{{name}}}" not in prefixes
        assert len(queue) == 0


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


def test_keys_that_stay(shared: Shared) -> None:
    """After a crawl, only keys with what is known of hosts are left, and they expire."""
    crawl = WorkerCrawl(shared)
    for host in "abc":
        for number in range(3):
            crawl.push(f"http://{host}.example/{number}")
    while len(crawl.queue):
        for request in list(crawl.network.requests):
            text = "User-agent: *\nCrawl-delay: 1" if "//b" in request.url else ""
            crawl.answer(request, text if is_robotstxt(request) else "", runs=False)
        crawl.settle(0.5)
    crawl.settle()
    crawl.closed()
    names = shared.names()
    assert {name for name in names if not name.startswith("host:")} <= {
        "number",
        "count",
    }
    assert all(shared.ends_in(name) <= 26 * HOUR for name in names if "host" in name)
