"""A worker process that pushes requests to a queue in Redis and pops requests from it, without a crawl.

    python -m benchmarks.queue_worker

The worker reads commands from standard input, and executes them. Each line is a JSON object with these keys:

- ``what``: the operation: ``push``, ``pop``, or ``fill``, which pushes many requests at once
- ``url``: the URL of a Redis server
- ``queue``: a key of ``KINDS``
- ``hosts``: the number of hosts
- ``count``: the number of requests

For each command, the worker writes a JSON list with three numbers: the start and the end of the operation, in seconds
on the monotonic clock, and the processor seconds between them.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from contextlib import suppress
from time import monotonic, process_time
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from redis import Redis
from scrapy import Request, Spider
from scrapy.core.downloader import Downloader
from scrapy.utils.test import get_crawler
from scrapy_redis.queue import PriorityQueue

from scrapy_rep.base.clock import Clock
from scrapy_rep.crawl.frontier import frontier
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.redis import SharedScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

KEY = "crawl:requests"

IN_FLIGHT = 16
"""The value of Scrapy's ``CONCURRENT_REQUESTS``. When this number of requests is in flight, the benchmark ends the
oldest one before it pops the next request."""

_AT_ONCE = 500


class CrawlSpider(Spider):
    """A spider that provides the callback and the errback of the requests."""

    name = "crawl"

    def parse_page(self, response: object) -> None: ...

    def refused(self, failure: object) -> None: ...


def requests(
    spider: Spider, hosts: int, count: int, **arguments: Any
) -> Iterator[Request]:
    """Yield *count* requests, distributed evenly over *hosts* hosts. As in a crawl that follows links, each request has
    a callback, an errback, a Referer header and meta keys. *arguments* are further arguments of ``Request``, such as
    ``dont_filter=True``.
    """
    for number in range(count):
        host, page = number % hosts, number // hosts
        yield Request(
            f"http://www.host-{host:07}.example/section/some-title-{page}.html",
            callback=spider.parse_page,
            errback=spider.refused,
            headers={"Referer": f"http://www.host-{host:07}.example/section/"},
            meta={"depth": 3, "link_text": "Some title"},
            **arguments,
        )


class SkippingClock(Clock):
    """A clock for a process without an event loop. Its timers never run. They are not needed, because the benchmark
    itself makes the scheduler call the server.
    """

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        return SimpleNamespace(cancel=lambda: None)


class Direct:
    """Replaces the thread in which the scheduler calls the Redis server. The calls run in the thread of the caller,
    because the benchmark has no event loop that a call could block.
    """

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()


def _crawler(url: str, serializer: Any) -> Any:
    settings = {
        "REDIS_URL": url,
        "ROBOTSTXT_OBEY": False,
        "SCHEDULER_QUEUE_KEY": KEY,
        "SCHEDULER_DUPEFILTER_KEY": f"{{{KEY}}}:dupefilter",
        "SCHEDULER_SERIALIZER": serializer,
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "CONCURRENT_REQUESTS": IN_FLIGHT,
    }
    crawler = get_crawler(CrawlSpider, settings)
    crawler.spider = CrawlSpider.from_crawler(crawler)
    crawler.engine = _engine()
    return crawler


def _engine() -> Any:
    downloader = SimpleNamespace(
        active=set(), total_concurrency=IN_FLIGHT, domain_concurrency=8, slots={},
        per_slot_settings={}, _delay=0.0, needs_backout=lambda: True, ip_concurrency=0,
        DOWNLOAD_SLOT=Downloader.DOWNLOAD_SLOT,
    )  # fmt: skip
    downloader.get_slot_key = MethodType(Downloader.get_slot_key, downloader)
    nextcall = SimpleNamespace(schedule=lambda: None)
    slot = SimpleNamespace(inprogress=set(), closing=None, nextcall=nextcall)
    return SimpleNamespace(downloader=downloader, _slot=slot)


def frontier_of(crawler: Crawler, clock: Clock) -> Frontier:
    """Return the frontier of *crawler*. If it does not exist yet, create it with *clock*."""
    with mock.patch.object(frontier, "Clock", return_value=clock):
        return Frontier.of(crawler)


class OfScrapyRedis:
    """Pushes and pops requests with the priority queue of scrapy-redis, as the scheduler of scrapy-redis does."""

    def __init__(self, url: str, serializer: Any = None) -> None:
        self.crawler = _crawler(url, serializer)
        self.queue = PriorityQueue(
            Redis.from_url(url), self.crawler.spider, KEY, serializer
        )
        self.push, self.pop = self.queue.push, self.queue.pop
        self.encode = self.queue._encode_request

    def begin(self) -> None: ...

    def end(self, request: Request) -> None: ...

    def flush(self) -> None: ...

    def fill(self, made: Iterator[Request]) -> None:
        """Push the requests that *made* yields, in Redis pipelines."""
        server = self.queue.server
        pipeline = self.queue.server = server.pipeline(transaction=False)
        for request in made:
            self.queue.push(request)
            if len(pipeline) >= _AT_ONCE:
                pipeline.execute()
        pipeline.execute()
        self.queue.server = server


class OfScrapyRep:
    """Pushes and pops requests with this package's shared scheduler. As in a crawl, pushed requests are sent to the
    Redis server in batches.
    """

    def __init__(self, url: str, serializer: Any = None) -> None:
        self.crawler = _crawler(url, serializer)
        self.frontier = frontier_of(self.crawler, SkippingClock())
        self.scheduler = SharedScheduler.from_crawler(self.crawler)
        self.scheduler._thread = Direct()
        self._call()

    def _call(self) -> None:
        """Call the Redis server once: send the changes that have not been sent yet, and receive requests to pop."""
        with suppress(StopIteration):
            self.scheduler._call().send(None)

    def encode(self, request: Request) -> bytes:
        fields = self.scheduler._dicts.to_dict(request)
        data: bytes = self.scheduler._serializer.dumps(fields)
        return data

    def begin(self) -> None:
        """Renew this worker's lease on the server, so that the lease is valid when the measured operation begins. No
        requests are taken from the server, because the time to take them belongs to the measured operation.
        """
        # While _has_begun is False, as at the start of a crawl, the scheduler takes no requests in a call to the
        # server. The next pop sets _has_begun to True.
        self.scheduler._has_begun = False
        self._call()

    def push(self, request: Request) -> None:
        self.scheduler.enqueue_request(request)
        if len(self.scheduler._exchange.unsent) >= _AT_ONCE:
            self._call()

    def pop(self) -> Request | None:
        request = self.scheduler.next_request()
        if request is None:
            self._call()
            request = self.scheduler.next_request()
        return request

    def end(self, request: Request) -> None:
        """Report the end of *request* to the frontier. In a crawl, a downloader middleware does this."""
        self.frontier.end(request, self.frontier.in_flight[request])

    def flush(self) -> None:
        """Send everything that the Redis server does not know yet: the pushed requests, and which popped requests have
        ended.
        """
        while self.scheduler._exchange.unsent:
            self._call()
        self._call()

    def fill(self, made: Iterator[Request]) -> None:
        for request in made:
            self.push(request)
        self.flush()


KINDS = {"PriorityQueue": OfScrapyRedis, "SharedScheduler": OfScrapyRep}


class Side:
    """A queue, and the requests that this worker has popped from the queue and that count as in flight."""

    def __init__(self, kind: str, url: str, hosts: int) -> None:
        self.queue = KINDS[kind](url)
        self._hosts = hosts
        self._flying: deque[Request] = deque()
        engine = self.queue.crawler.engine
        self._active = engine.downloader.active
        self._in_progress = engine._slot.inprogress

    def do(self, what: str, count: int) -> tuple[float, float, float]:
        spider = self.queue.crawler.spider
        # With dont_filter, no fingerprints are stored. The queue of scrapy-redis does not store fingerprints either.
        made = requests(spider, self._hosts, count, dont_filter=True)
        if what == "push":
            made = iter(list(made))
        self.queue.begin()
        start, before = monotonic(), process_time()
        if what == "fill":
            self.queue.fill(made)
        elif what == "push":
            for request in made:
                self.queue.push(request)
        else:
            self._pop(count)
        self.queue.flush()
        return start, monotonic(), process_time() - before

    def _pop(self, count: int) -> None:
        misses = 0
        while count:
            request = self.queue.pop()
            if request is None:
                misses += 1
                assert misses < 100_000, "the queue returns no requests"
                # The hosts of all queued requests have reached their limits, so a request in flight must end first.
                if self._flying:
                    self._end()
                continue
            count -= 1
            self._flying.append(request)
            self._active.add(request)
            self._in_progress.add(request)
            if len(self._flying) == IN_FLIGHT:
                self._end()

    def _end(self) -> None:
        """End the request that has been in flight for the longest time."""
        request = self._flying.popleft()
        self._active.remove(request)
        self._in_progress.remove(request)
        self.queue.end(request)


def main() -> None:
    sides: dict[str, Side] = {}
    for line in sys.stdin:
        order = json.loads(line)
        url, count = order["url"], order["count"]
        if url not in sides:
            sides[url] = Side(order["queue"], url, order["hosts"])
        print(json.dumps(sides[url].do(order["what"], count)), flush=True)


if __name__ == "__main__":
    main()
