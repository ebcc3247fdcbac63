"""A worker of a queue in Redis, without a crawl: it pushes and pops on command.

    python -m benchmarks.queue_worker

It reads one order, as JSON, from each line of its standard input: the operation, the
address of a Redis server, the queue there, a number of hosts and one of requests. For
each order it writes one line: start and end, in seconds of the monotonic clock.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections import deque
from contextlib import contextmanager
from time import monotonic, process_time, sleep
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from redis import Redis
from scrapy import Request, Spider
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.test import get_crawler
from scrapy_redis import picklecompat
from scrapy_redis.queue import PriorityQueue

from scrapy_rep.base.clock import Clock
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.frontier import frontier
from scrapy_rep.crawl.frontier.backlog import Terms
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.redis import RedisHostQueue
from scrapy_rep.redis.queue import name_of
from scrapy_rep.redis.worker import Link, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

QUEUES = {"PriorityQueue": PriorityQueue, "HostQueue": RedisHostQueue}
KEY = "crawl:requests"

IN_FLIGHT = 16
"""The requests for which a downloader has room: Scrapy's ``CONCURRENT_REQUESTS``. When it is full,
one of them has ended before the next is popped."""

DAY = 86400.0
_AT_ONCE = 500

_A_WHILE = 20.0
"""Seconds after which each timer of a queue is due, but its lease has not expired."""


class CrawlSpider(Spider):
    """A spider with a callback and an errback, as most requests have."""

    name = "crawl"

    def parse_page(self, response: object) -> None: ...

    def refused(self, failure: object) -> None: ...


def requests(spider: CrawlSpider, hosts: int, count: int) -> Iterator[Request]:
    """Return *count* requests spread over hosts, like those of ``response.follow_all``."""
    for number in range(count):
        host, page = number % hosts, number // hosts
        yield Request(
            f"http://www.host-{host:07}.example/section/some-title-{page}.html",
            callback=spider.parse_page,
            errback=spider.refused,
            headers={"Referer": f"http://www.host-{host:07}.example/section/"},
            meta={"depth": 3, "link_text": "Some title"},
        )


class SkippingClock(Clock):
    """The clock of a process without an event loop: its timer is due when a benchmark skips some time."""

    def __init__(self) -> None:
        self._skipped = 0.0
        self._timer: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return monotonic() + self._skipped

    def call_later(self, seconds: float, function: Callable[[], None]) -> Any:
        self._timer = function
        return SimpleNamespace(cancel=lambda: None)

    def skip(self, seconds: float) -> None:
        self._skipped += seconds
        self._timer()


async def _until_turn(trip: object) -> None:
    """Nothing is sent here."""


def open_queue(
    kind: str, url: str, serializer: Any = picklecompat
) -> RedisHostQueue | PriorityQueue:
    """Return a queue opened as by scrapy-redis' scheduler, without a running engine.

    The queue fetches no robots.txt: ``learn`` tells the server about them.
    """
    crawler = get_crawler(CrawlSpider, {"ROBOTSTXT_OBEY": True})
    crawler.spider = spider = CrawlSpider.from_crawler(crawler)
    crawler.engine = _engine()
    frontier_of(crawler, SkippingClock()).obey(_until_turn)
    return QUEUES[kind](Redis.from_url(url), spider, KEY, serializer)


def frontier_of(crawler: Crawler, clock: Clock) -> Frontier:
    """Return the frontier of *crawler*, with this *clock*."""
    with mock.patch.object(frontier, "Clock", return_value=clock):
        return Frontier.of(crawler)


def _engine() -> Any:
    downloader = SimpleNamespace(
        active=set(), total_concurrency=IN_FLIGHT, domain_concurrency=8, slots={},
        per_slot_settings={}, _delay=0.0,
        get_slot_key=lambda request: urlparse_cached(request).hostname,
    )  # fmt: skip
    nextcall = SimpleNamespace(schedule=lambda: None)
    slot = SimpleNamespace(inprogress=set(), closing=None, nextcall=nextcall)
    scraper = SimpleNamespace(slot=SimpleNamespace(needs_backout=lambda: False))
    return SimpleNamespace(downloader=downloader, scraper=scraper, _slot=slot)


@contextmanager
def in_bulk(queue: RedisHostQueue | PriorityQueue) -> Iterator[None]:
    """Fill a queue quickly: send pushes of scrapy-redis in pipelines, and serialize requests
    without looking up their callbacks each time.
    """
    server = queue.server
    pipeline = server.pipeline(transaction=False)
    execute = pipeline.execute_command

    def execute_command(*args: Any) -> None:
        execute(*args)
        if len(pipeline) >= _AT_ONCE:
            pipeline.execute()

    pipeline.execute_command = execute_command
    (one,) = requests(queue.spider, 1, 1)
    # Pickled, because pickle stores repeated values of a request once.
    found = pickle.dumps(one.to_dict(spider=queue.spider))

    def encode(request: Request) -> Any:
        own = {"url": request.url, "headers": dict(request.headers)}
        return queue.serializer.dumps({**pickle.loads(found), **own})

    if isinstance(queue, PriorityQueue):
        queue.server = pipeline
    queue._encode_request = encode
    try:
        yield
        pipeline.execute()
        flush(queue)
    finally:
        queue.server = server
        del queue._encode_request


def flush(queue: RedisHostQueue | PriorityQueue) -> None:
    """Have the timers of a queue send what it has collected, and give back what it has not used; they
    ask for nothing, since the spider is busy.
    """
    if isinstance(queue, RedisHostQueue):
        crawler = queue.spider.crawler
        crawler.engine.scraper.slot.needs_backout = lambda: True
        _skip(queue, _A_WHILE)
        crawler.engine.scraper.slot.needs_backout = lambda: False


def _skip(queue: RedisHostQueue, seconds: float) -> None:
    clock = Frontier.of(queue.spider.crawler).clock
    assert isinstance(clock, SkippingClock)
    clock.skip(seconds)


def learn(queue: RedisHostQueue, hosts: int) -> None:
    """Mark every robots.txt as known for a day, without a delay, as another worker would."""
    crawler, clock = queue.spider.crawler, Clock()
    link = Link(queue.server, clock, CrawlLog(__name__, crawler))
    worker = Worker(link, clock, f"{{{queue.key}}}", DAY)
    for number, request in enumerate(requests(queue.spider, hosts, hosts), 1):
        key = Frontier.of(crawler).key_of(request)
        worker.report_rules(name_of(key), Terms(DAY))
        if number % _AT_ONCE == 0:
            worker.exchange()
    worker.exchange(retires=True)
    link.close()


class Side:
    """One queue, and the requests that this worker has taken from it."""

    def __init__(self, kind: str, url: str, hosts: int) -> None:
        self.queue = open_queue(kind, url)
        self._hosts = hosts
        self._flying: deque[Request] = deque()
        engine = self.queue.spider.crawler.engine
        self._active = engine.downloader.active
        self._in_progress = engine._slot.inprogress

    def do(self, what: str, count: int) -> tuple[float, float, float]:
        made = []
        if what == "push":
            made = list(requests(self.queue.spider, self._hosts, count))
        if isinstance(self.queue, RedisHostQueue):
            flush(self.queue)  # Renew the lease.
        start, before = monotonic(), process_time()
        if what == "fill":
            self._fill(count)
        elif what == "push":
            for request in made:
                self.queue.push(request)
        else:
            self._pop(count)
        flush(self.queue)
        return start, monotonic(), process_time() - before

    def _fill(self, count: int) -> None:
        with in_bulk(self.queue):
            for request in requests(self.queue.spider, self._hosts, count):
                self.queue.push(request)
            if isinstance(self.queue, RedisHostQueue):
                learn(self.queue, self._hosts)

    def _pop(self, count: int) -> None:
        misses = 0
        while count:
            request = self.queue.pop()
            if request is None:
                misses += 1
                assert misses < 10_000, "the queue hands out nothing"
                sleep(0.001)
                if isinstance(self.queue, RedisHostQueue):
                    _skip(self.queue, 1.0)  # Then it asks again.
                continue
            count -= 1
            self._flying.append(request)
            self._active.add(request)
            self._in_progress.add(request)
            if len(self._flying) == IN_FLIGHT:
                gone = self._flying.popleft()
                self._active.remove(gone)
                self._in_progress.remove(gone)


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
