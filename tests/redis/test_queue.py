"""The queue as scrapy-redis' scheduler and Scrapy's engine use it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider

from scrapy_rep.crawl.frontier.backlog import HostKey
from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.redis.queue import name_of
from tests.redis.crawls import AS_JSON, A, WorkerCrawl, begun, decode_errors
from tests.redis.shared import OTHER, SEEN, push, take_some, wanted

if TYPE_CHECKING:
    from tests.redis.shared import Shared


def calls(shared: Shared) -> int:
    """Return how many scripts the server has run since the last call of this function."""
    found = shared.redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})
    shared.redis.config_resetstat()
    return int(found["calls"])


# Requests on their way through the queue.


@pytest.mark.parametrize("serializer", [None, AS_JSON])
def test_request_comes_back_as_it_was(shared: Shared, serializer: Any) -> None:
    """A request is unchanged after the queue, whether the serializer is pickle or JSON."""
    crawl = WorkerCrawl(shared, obey=False, serializer=serializer)
    crawl.push(Request(f"{A}/1", meta={"n": [1, "é"]}, priority=3, cb_kwargs={"x": 1}))
    found = crawl.pop()
    assert (found.url, found.meta["n"], found.priority) == (f"{A}/1", [1, "é"], 3)
    assert found.cb_kwargs == {"x": 1}


@pytest.mark.parametrize("meta", [{}, {"dont_obey_robotstxt": True}])
def test_a_slot_whose_name_redis_cannot_have(
    shared: Shared, meta: dict[str, Any]
) -> None:
    """The name of a download slot may be anything: its requests and pauses go to the server too."""
    crawl = WorkerCrawl(shared, obey=bool(meta))
    for number in range(2):
        crawl.push(f"{A}/{number}", download_slot="\udc80\t\n-", **meta)
    crawl.run()
    crawl.answer(f"{A}/0", status=429, Retry_After="10")
    crawl.answer(f"{A}/1")
    crawl.settle()
    assert len(crawl.queue) == 0


def test_the_name_of_a_slot_is_one_line() -> None:
    """It has no tab and no newline, which are between the parts of a name and of a lease."""
    assert name_of(HostKey("a\n\tb", None)) == "a b\t"


def test_without_a_limit_of_requests(shared: Shared) -> None:
    """CONCURRENT_REQUESTS = 0 stands for no limit."""
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=0)
    crawl.push_pages(1, 2)
    found = [crawl.queue.pop() for _ in range(2)]
    assert [each and each.url for each in found] == [f"{A}/1", f"{A}/2"]


def test_request_that_cant_be_written(shared: Shared) -> None:
    """If a request can't be serialized, the queue raises to the scheduler, as scrapy-redis'
    queues do, and stays empty.
    """
    crawl = WorkerCrawl(shared, obey=False, serializer=json)
    with pytest.raises(TypeError, match="JSON"):
        crawl.push(Request(A, meta={"x": object()}))
    assert len(crawl.queue) == 0


def test_host_that_is_given_up(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """The requests of an unreachable host are refused, whichever worker has pushed them, and the
    queue is empty after that. One that can't be deserialized is set aside with an error.
    """
    one, two = (WorkerCrawl(shared, REP_WAIT_TIMEOUT=10) for _ in range(2))
    two.push_pages(*range(10))
    unreadable = WorkerCrawl(shared, serializer=AS_JSON)
    unreadable.push_pages(10)
    unreadable.die()
    for _ in range(8):
        for crawl in (one, two):
            for url in crawl.on_network:
                crawl.fail(url, OSError("broken"), runs=False)
            crawl.settle(2)
    results = [*one.ended.values(), *two.ended.values()]
    assert [type(each) for each in results] == [RobotsDenied] * 10
    assert len(one.queue) == 0
    assert 1 <= decode_errors(caplog) <= 2


def test_host_that_is_given_up_beside_busy_ones(shared: Shared) -> None:
    """Its requests are refused while others fill the downloader, and few of them come in vain."""
    crawl = WorkerCrawl(shared, REP_WAIT_TIMEOUT=10, CONCURRENT_REQUESTS=4)
    crawl.push_pages(*range(40))
    for number in range(400):
        crawl.push(f"http://b{number % 4}.example/{number}")
    shared.redis.config_resetstat()
    for _ in range(60):
        crawl.settle(0.5)
        for request in list(crawl.network.requests):
            if request.url.startswith(A):
                crawl.fail(request.url, OSError("broken"), runs=False)
            else:
                crawl.answer(request, runs=False)
        crawl.engine.wake()
    refused = [each for each in crawl.ended.values() if isinstance(each, RobotsDenied)]
    assert len(refused) == 40
    moved = shared.redis.info("commandstats")["cmdstat_zpopmin"]["calls"]
    assert moved < 3 * len(crawl.ended)


def test_requests_of_a_crawl_that_obeys(shared: Shared) -> None:
    """A crawl with ``ROBOTSTXT_OBEY = False`` also sends what an earlier crawl has left, without
    robots.txt.
    """
    WorkerCrawl(shared).push_pages(1, 2)
    crawl = WorkerCrawl(shared, obey=False)
    crawl.settle(1)
    assert sorted(each.url for each in crawl.sent) == [f"{A}/1", f"{A}/2"]


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
    assert shared.count() == 2
    assert shared.redis.scard(SEEN) == 1


def test_seen_only_when_it_is_in_the_queue(shared: Shared) -> None:
    """A request counts as seen only once it is in the queue, so a worker killed
    before that loses nothing.
    """
    dead, other = (WorkerCrawl(shared, obey=False) for _ in range(2))
    dead.collect(1)
    dead.die()
    assert other.enqueue(Request(f"{A}/1"))
    assert len(other.queue) == 1


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
    crawl = begun(shared, CONCURRENT_REQUESTS=8, DOWNLOAD_DELAY=0.1, DOWNLOAD_SLOTS={})
    crawl.settle()
    for number in (2, 3):
        crawl.push(f"{A}/{number}", fate="lingers" if number == 2 else None)
        crawl.settle()
    assert crawl.on_network == [f"{A}/1", f"{A}/3"]
    crawl.close()
    crawl.lingering.popitem()[1].errback(OSError("closing"))
    crawl.serve()
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
        keys = {key.decode() for key in shared.redis.scan_iter()}
        prefixes = {key.split("}")[0] + "}" for key in keys}
        assert queues.keys() <= prefixes
        assert name not in prefixes
        queue._worker.exchange()
        assert len(queue) == 0
        assert queue.pop() is None


# When the server is called.


def test_few_calls(shared: Shared) -> None:
    """One call is for a hundred new requests, or for what was collected in 20 ms; one for the end of
    pages, their links, and as many requests as the downloader has room for.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=3)
    crawl.send()
    calls(shared)
    crawl.collect(*range(99))
    assert (shared.count(), calls(shared)) == (0, 0)
    crawl.collect(99)
    assert (shared.count(), calls(shared)) == (100, 1)
    crawl.run()
    assert (len(crawl.on_network), calls(shared)) == (3, 1)
    crawl.serve()
    crawl.collect("link")
    assert shared.count() == 100
    crawl.engine.wake()
    crawl.run()
    assert (len(crawl.on_network), shared.count(), calls(shared)) == (3, 98, 1)
    crawl.collect("another link")
    crawl.clock.advance(0.019)
    assert calls(shared) == 0
    crawl.clock.advance(0.002)
    assert (shared.count(), calls(shared)) == (99, 1)


def test_what_is_not_used_is_given_back(shared: Shared) -> None:
    """Requests that were handed out and are not popped, since the spider is busy, return to the
    queue without a delay for their host.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=4)
    other = shared.worker()
    crawl.push_pages(1, 2, 3)
    assert crawl.queue.pop() is not None
    assert len(crawl.queue._worker.buffer) == 2
    crawl.engine.scraper.is_full = True
    crawl.clock.advance(0.2)
    assert not crawl.queue._worker.buffer
    assert len(take_some(other, 8, at_once=3)) == 2


def test_idle_before_close(shared: Shared) -> None:
    """``SCHEDULER_IDLE_BEFORE_CLOSE`` keeps an idle spider open for that many seconds."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push_pages(1)
    assert crawl.queue.pop(30) is not None
    shared.advance(29.9)
    with pytest.raises(DontCloseSpider):
        crawl.queue._spider_idle()
    shared.advance(0.1)
    crawl.queue._spider_idle()


def test_idle_worker_asks_seldom(shared: Shared) -> None:
    """A worker that has nothing to send calls the server twice a second, and with the heartbeat of
    the engine if the queue is empty, since another worker may have pushed requests.
    """
    crawl, other = WorkerCrawl(shared), shared.worker(lease=1000.0)
    crawl.settle(2)
    calls(shared)
    wakes = crawl.engine.wakes
    crawl.settle(10)
    assert crawl.engine.wakes - wakes == calls(shared) == 2
    push(other, OTHER, "1")
    assert wanted(other) == [OTHER]
    crawl.settle(5)
    calls(shared)
    crawl.settle(10)
    assert 10 <= calls(shared) <= 30
