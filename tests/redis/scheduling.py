"""The scheduler of a worker, with an engine that does what the test says, and calls of the server when it says so."""

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

    from tests.redis.workers import Shared


class Direct:
    """Asks the server at once."""

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()

    def stop(self) -> None:
        """There is no thread."""


class Scheduling:
    """A worker that ignores robots.txt, from its scheduler to its wire."""

    def __init__(self, shared: Shared, **settings: Any) -> None:
        redis = {"REDIS_PARAMS": {"redis_cls": lambda **_: shared.client}}
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
        self.wire.__dict__["_gate"] = None  # The engine has no middlewares.
        self.scheduler._thread = Direct()  # type: ignore[assignment]
        self.call()
        assert (
            self.engine.wakes == 0
        )  # While the spider opens, the engine cannot ask for requests.
        assert self.scheduler.next_request() is None

    def call(self) -> None:
        """Exchange with the server."""
        with suppress(StopIteration):
            self.scheduler._call().send(None)

    def next(self) -> Request | None:
        """Return the next request, which is in the downloader then."""
        request = self.scheduler.next_request()
        if request is not None:
            self.engine.downloader.active.add(request)
            self.engine._slot.inprogress.add(request)
        return request

    def close(self) -> None:
        self.frontier.alarms.stop()
