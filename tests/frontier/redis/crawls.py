"""Crawls with their queue on a real Redis server, without network or event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("scrapy_redis")

from scrapy import Request, Spider

from scrapy_rep.compat.versions import shared_component
from scrapy_rep.frontier.redis import HostQueue
from scrapy_rep.frontier.redis.dupefilter import DupeFilter
from scrapy_rep.frontier.redis.worker import Link
from tests.frontier.fakes import Crawl, FakeClock, FakeStoreClient

if TYPE_CHECKING:
    from redis import Redis
    from twisted.python.failure import Failure

    from tests.frontier.redis.shared import Shared

KEY = "spider:requests"
SEEN = f"{{{KEY}}}:seen"


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
    """One of the crawls that share a queue, a clock and a store of robots.txt files."""

    spider_class = ErrbackSpider

    def __init__(self, shared: Shared, *, opens: bool = True, **settings: Any) -> None:
        self._shared = shared
        self._client = shared.server.client()
        self._serializer = settings.pop("serializer", None)
        settings = {
            "REDIS_URL": shared.server.url,
            "SCHEDULER_DUPEFILTER_KEY": SEEN,
            **settings,
        }
        if not hasattr(shared, "store_client"):
            shared.store_client = FakeStoreClient()
        super().__init__(
            clock=OwnClock(shared.clock), store_client=shared.store_client, **settings
        )
        self.df = DupeFilter.from_spider(self.crawler.spider)
        if opens:
            self.opened()
            self.engine.wake()

    def _open_queues(self) -> list[HostQueue]:
        spider = self.crawler.spider
        return [HostQueue(self._client, spider, KEY, self._serializer)]

    @property
    def queue(self) -> HostQueue:
        found: HostQueue = self.queues[0]
        return found

    @property
    def link(self) -> Link:
        return shared_component(self.crawler, Link)

    def push(self, request: Request | str, queue: int = 0, **meta: Any) -> Request:
        if isinstance(request, str):
            errback = self.crawler.spider.failed
            request = Request(request, errback=errback, meta=meta)
        found = super().push(request, queue)
        self.send()
        return found

    def send(self) -> None:
        """Send what the worker has collected, before it would do so itself."""
        self.queue._worker.exchange()

    def enqueue(self, request: Request) -> bool:
        """Push *request* unless it is a duplicate, as scrapy-redis' scheduler does."""
        if not request.dont_filter and self.df.request_seen(request):
            return False
        self.push(request)
        return True

    def die(self) -> None:
        """Stop all timers of this crawl, as if the process was killed."""
        self.frontier.alarms.stop()

    def settle(self, seconds: float = 1.0) -> None:
        """Let *seconds* pass, timer by timer, so that the worker sends what it has collected."""
        end = self.clock.monotonic() + seconds
        while (wait := self.clock.next_timer) is not None:
            if self.clock.monotonic() + wait > end:
                break
            self.pass_time(wait)
        self.pass_time(max(end - self.clock.monotonic(), 0.0))


def keys_of(client: Redis) -> set[str]:
    return {key.decode() for key in client.scan_iter() if not key.startswith(b"test:")}
