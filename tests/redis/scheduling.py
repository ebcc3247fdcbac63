"""A worker with the scheduler and the wire (the middleware that sends requests) of a crawl, and with a fake engine. It
calls the Redis server only when a test says so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scrapy.spiders import Spider
from scrapy.utils.test import get_crawler

from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.wire import WireMiddleware
from scrapy_rep.redis import SharedScheduler
from tests.frontier.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from tests.redis.workers import SharedQueue


class InlineThread:
    """Replaces the thread for calls to the server: makes each call at once, on the current thread."""

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()

    def stop(self) -> None:
        """There is no thread to end."""


class CrawlWorker:
    """A worker that ignores robots.txt: its scheduler, its frontier and its wire. *settings* are added to the
    settings of its crawler.
    """

    def __init__(self, queue: SharedQueue, **settings: Any) -> None:
        redis = {"REDIS_PARAMS": {"redis_cls": lambda **_: queue.client}}
        fixed = {
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
            "ROBOTSTXT_OBEY": False,
            "SCHEDULER_PERSIST": True,
        }
        self.crawler = get_crawler(Spider, {**fixed, **redis, **settings})
        self.crawler.spider = Spider.from_crawler(self.crawler, "spider")
        self.engine: Any = Engine()
        self.crawler.engine = self.engine
        self.scheduler = SharedScheduler.from_crawler(self.crawler)
        self.frontier = Frontier.of(self.crawler)
        self.wire = WireMiddleware.from_crawler(self.crawler)
        self.wire.__dict__["_gate"] = None  # The fake engine has no middlewares.
        self.scheduler._thread = InlineThread()  # type: ignore[assignment]
        self.call()
        # The spider is still being opened, so the engine cannot ask for requests yet, and must not be woken.
        assert self.engine.wakes == 0
        assert self.scheduler.next_request() is None

    def call(self) -> None:
        """Make one call to the Redis server: report which requests are done, and get new requests."""
        with suppress(StopIteration):
            self.scheduler._call().send(None)

    def next_request(self) -> Request | None:
        """Return the next request, and count it as being in the downloader. Return None if there is none to send."""
        request = self.scheduler.next_request()
        if request is not None:
            self.engine.downloader.active.add(request)
            self.engine._slot.inprogress.add(request)
        return request

    def close(self) -> None:
        """Cancel the timers. The scheduler is not closed."""
        self.frontier.alarms.stop()
