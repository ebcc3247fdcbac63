"""A worker of a queue in Redis, without a crawl: it pushes and pops on command.

    python -m benchmarks.queue_worker

It reads one order, as JSON, from each line of its standard input: the operation, the
address of a Redis server, the queue there, a number of hosts and one of requests. For
each order it writes one line: start and end, in seconds of the monotonic clock.
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
"""The requests for which a downloader has room: Scrapy's ``CONCURRENT_REQUESTS``. When it is full,
one of them has ended before the next is popped."""

_AT_ONCE = 500


class CrawlSpider(Spider):
    """A spider with a callback and an errback, as most requests have."""

    name = "crawl"

    def parse_page(self, response: object) -> None: ...

    def refused(self, failure: object) -> None: ...


def requests(spider: Spider, hosts: int, count: int, **how: Any) -> Iterator[Request]:
    """Return *count* requests spread over hosts, like those of ``response.follow_all``."""
    for number in range(count):
        host, page = number % hosts, number // hosts
        yield Request(
            f"http://www.host-{host:07}.example/section/some-title-{page}.html",
            callback=spider.parse_page,
            errback=spider.refused,
            headers={"Referer": f"http://www.host-{host:07}.example/section/"},
            meta={"depth": 3, "link_text": "Some title"},
            **how,
        )


class SkippingClock(Clock):
    """The clock of a process without an event loop: a benchmark calls the server itself."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        return SimpleNamespace(cancel=lambda: None)


class Direct:
    """Runs each call of the server at once: there is no event loop that could go on meanwhile."""

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
    """Return the frontier of *crawler*, with this *clock*."""
    with mock.patch.object(frontier, "Clock", return_value=clock):
        return Frontier.of(crawler)


class OfScrapyRedis:
    """The queue of scrapy-redis, as its scheduler calls it."""

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
        """Push in pipelines."""
        server = self.queue.server
        pipeline = self.queue.server = server.pipeline(transaction=False)
        for request in made:
            self.queue.push(request)
            if len(pipeline) >= _AT_ONCE:
                pipeline.execute()
        pipeline.execute()
        self.queue.server = server


class OfScrapyRep:
    """The scheduler of this package. It sends what it has in the same batches as in a crawl."""

    def __init__(self, url: str, serializer: Any = None) -> None:
        self.crawler = _crawler(url, serializer)
        self.frontier = frontier_of(self.crawler, SkippingClock())
        self.scheduler = SharedScheduler.from_crawler(self.crawler)
        self.scheduler._thread = Direct()
        self._call()

    def _call(self) -> None:
        """Exchange with the server, which waits for nothing but the answer."""
        with suppress(StopIteration):
            self.scheduler._call().send(None)

    def encode(self, request: Request) -> bytes:
        fields = self.scheduler._dicts.to_dict(request)
        data: bytes = self.scheduler._serializer.dumps(fields)
        return data

    def begin(self) -> None:
        """Renew the lease. As before the spider has begun, no requests are taken until one is popped."""
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
        """End *request*, as the wire does."""
        self.frontier.end(request, self.frontier.in_flight[request])

    def flush(self) -> None:
        """Tell the server which requests have ended, and take no more requests."""
        while self.scheduler._exchange.unsent:
            self._call()
        self._call()

    def fill(self, made: Iterator[Request]) -> None:
        for request in made:
            self.push(request)
        self.flush()


KINDS = {"PriorityQueue": OfScrapyRedis, "SharedScheduler": OfScrapyRep}


class Side:
    """One queue, and the requests that this worker has taken from it."""

    def __init__(self, kind: str, url: str, hosts: int) -> None:
        self.queue = KINDS[kind](url)
        self._hosts = hosts
        self._flying: deque[Request] = deque()
        engine = self.queue.crawler.engine
        self._active = engine.downloader.active
        self._in_progress = engine._slot.inprogress

    def do(self, what: str, count: int) -> tuple[float, float, float]:
        spider = self.queue.crawler.spider
        # Without fingerprints, as the queue of scrapy-redis.
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
                assert misses < 100_000, "the queue hands out nothing"
                if self._flying:  # Its hosts have as many in flight as they may.
                    self._end()
                continue
            count -= 1
            self._flying.append(request)
            self._active.add(request)
            self._in_progress.add(request)
            if len(self._flying) == IN_FLIGHT:
                self._end()

    def _end(self) -> None:
        """End the request that is in flight for the longest time."""
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
