"""Crawls with their queue on a real Redis server, without network or event loop."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Request, Spider

from scrapy_rep.redis import RedisDupeFilter, RedisHostQueue
from tests.frontier.fakes import Crawl, FakeClock, FakeStoreClient, is_robotstxt
from tests.redis.shared import PREFIX, SEEN

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from scrapy_rep.redis.worker import Link
    from tests.redis.shared import Shared

A = "http://a.example"
AS_JSON = SimpleNamespace(
    dumps=lambda found: json.dumps(found, default=bytes.decode), loads=json.loads
)
"""A serializer whose requests a worker with pickle can't read."""


class ErrbackSpider(Spider):
    def failed(self, failure: Failure) -> None:
        """A method, since requests on disk or on a server can call
        only methods of the spider.
        """


class OwnClock:
    """The clock that all crawls share, as the clock of another process: crawls of one process
    share delays and pauses without the server.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


class WorkerCrawl(Crawl):
    """One of the crawls that share a queue, a clock and, unless one *has no store*, a store of
    robots.txt files.
    """

    spider_class = ErrbackSpider

    def __init__(
        self,
        shared: Shared,
        *,
        serializer: Any = None,
        has_store: bool = True,
        **settings: Any,
    ) -> None:
        self._client = shared.server.client()
        self._serializer = serializer
        if not hasattr(shared, "store_client"):
            shared.store_client = FakeStoreClient()
        super().__init__(
            clock=OwnClock(shared.clock),
            store_client=shared.store_client if has_store else None,
            REDIS_URL=shared.server.url,
            SCHEDULER_DUPEFILTER_KEY=SEEN,
            **settings,
        )
        self.df = RedisDupeFilter.from_spider(self.crawler.spider)
        self.opened()
        self._is_dead = False
        self._beat()

    def _open_queues(self) -> list[RedisHostQueue]:
        spider, key = self.crawler.spider, PREFIX.strip("{}")
        return [RedisHostQueue(self._client, spider, key, self._serializer)]

    @property
    def queue(self) -> RedisHostQueue:
        found: RedisHostQueue = self.queues[0]
        return found

    @property
    def link(self) -> Link:
        return self.queue._link

    def push(self, request: Request | str, queue: int = 0, **meta: Any) -> Request:
        if isinstance(request, str):
            errback = self.crawler.spider.failed
            request = Request(request, errback=errback, meta=meta)
        found = super().push(request, queue)
        self.send()
        return found

    def push_pages(self, *names: object) -> None:
        """Push a request to the host A for each name, and send it to the server."""
        for name in names:
            self.push(f"{A}/{name}")

    def send(self) -> None:
        """Send what the worker has collected, before it would do so itself."""
        self.queue._worker.exchange()

    def enqueue(self, request: Request) -> bool:
        """Push *request* unless it is a duplicate, as scrapy-redis' scheduler does."""
        if not request.dont_filter and self.df.request_seen(request):
            return False
        self.push(request)
        return True

    def collect(self, *names: object) -> None:
        """Push requests to the host A as the scheduler does, without sending them."""
        for name in names:
            request = Request(f"{A}/{name}")
            assert not self.df.request_seen(request)
            self.queue.push(request)

    def serve(
        self, robotstxt: str = "", seconds: float = 0.0, **headers: Any
    ) -> list[str]:
        """Answer each request under way, so many *seconds* after the one before: robots.txt files
        with this text, others with these headers. Return their URLs.
        """
        requests = list(self.network.requests)
        for request in requests:
            self.clock.advance(seconds)
            if is_robotstxt(request):
                self.answer(request, robotstxt, runs=False)
            else:
                self.answer(request, runs=False, **headers)
        return [request.url for request in requests]

    def die(self) -> None:
        """Stop all timers of this crawl, as if the process was killed."""
        self.frontier.alarms.stop()
        self._is_dead = True

    def _beat(self) -> None:
        """Wake the engine, as its heartbeat does."""
        if not self._is_dead:
            self.engine.wake()
            self.clock.call_later(5.0, self._beat)

    def settle(self, seconds: float = 1.0) -> None:
        """Let *seconds* pass, timer by timer, so that the worker sends what it has collected."""
        end = self.clock.monotonic() + seconds
        while (wait := self.clock.next_timer) is not None:
            if self.clock.monotonic() + wait > end:
                break
            self.pass_time(wait)
        self.pass_time(max(end - self.clock.monotonic(), 0.0))


def begun(shared: Shared, robotstxt: str = "", **settings: Any) -> WorkerCrawl:
    """Return a worker that has read this robots.txt of the host A, and has a request for its first
    page, /1.
    """
    crawl = WorkerCrawl(shared, **settings)
    crawl.push_pages(1)
    crawl.settle(0.1)
    crawl.serve(robotstxt)
    crawl.settle(0.1)
    return crawl


def decode_errors(caplog: pytest.LogCaptureFixture) -> int:
    """Return the number of errors in the log, each of a worker that can't read a request. None has a
    traceback.
    """
    errors = [one for one in caplog.records if one.levelname == "ERROR"]
    assert all("cannot be read" in one.getMessage() for one in errors)
    assert not any(one.exc_info for one in errors)
    return len(errors)
