"""A crawler without downloads, whose engine is a fake. A test itself calls the scheduler, as Scrapy's engine would."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.spiders import Spider
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.test import get_crawler

from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.scheduler import Scheduler

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class Engine:
    """A fake of Scrapy's engine and downloader, with the attributes that the scheduler uses."""

    def __init__(self) -> None:
        self._slot = SimpleNamespace(
            closing=None, inprogress=set(), nextcall=SimpleNamespace(schedule=self.wake)
        )
        self.downloader = SimpleNamespace(
            active=set(),
            domain_concurrency=8,
            get_slot_key=self.slot_of,
            needs_backout=lambda: False,
            per_slot_settings={},
            slots={},
        )
        self.closed_for: list[str] = []
        """The reasons for which the spider was closed."""

        self.wakes = 0
        """How often the engine was woken, so that it asks the scheduler for requests."""

    def wake(self) -> None:
        self.wakes += 1

    def slot_of(self, request: Request) -> str:
        """Return the key of the download slot of *request*."""
        slot: str = request.meta.get(
            "download_slot", urlparse_cached(request).hostname or ""
        )
        return slot

    async def close_spider_async(self, *, reason: str) -> None:
        self.closed_for.append(reason)


class Run:
    """A run of a crawl, with scheduler and frontier, but without downloads. The crawl ignores robots.txt."""

    def __init__(self, **settings: Any) -> None:
        self.crawler: Crawler = get_crawler(Spider, settings)
        self.crawler.spider = Spider.from_crawler(self.crawler, "fake")
        self.engine: Any = Engine()
        self.crawler.engine = self.engine
        self.scheduler = Scheduler.from_crawler(self.crawler)
        self.frontier = Frontier.of(self.crawler)
        self.scheduler.open(self.crawler.spider)

    def push(self, *requests: Request) -> list[bool]:
        """Enqueue *requests*. Return for each request whether the scheduler accepted it."""
        return [self.scheduler.enqueue_request(request) for request in requests]

    def next(self) -> Request | None:
        """Take the next request from the scheduler, and pass it to the downloader. Return None if there is no request
        to send.
        """
        request = self.scheduler.next_request()
        if request is not None:
            self.engine.downloader.active.add(request)
            self.engine._slot.inprogress.add(request)
        return request

    def finish(self, request: Request) -> None:
        """Let *request* end: its download is over, and so is its callback."""
        self.engine.downloader.active.discard(request)
        self.engine._slot.inprogress.discard(request)

    def finish_all(self) -> list[Request]:
        """Take all requests from the scheduler, and finish each of them before the next one. Return them."""
        requests = []
        while (request := self.next()) is not None:
            requests.append(request)
            self.finish(request)
        return requests

    def return_to_scheduler(self, request: Request) -> None:
        """Put *request* back into the scheduler: a downloader middleware of this package returns it, so Scrapy enqueues
        it again.
        """
        entry = self.frontier.in_flight[request]
        returned = self.frontier.return_to_scheduler(request, entry)
        self.finish(request)
        assert self.scheduler.enqueue_request(returned)

    def stat(self, name: str) -> Any:
        """Return the value of the stat ``scheduler/<name>``."""
        return self.crawler.stats.get_value(f"scheduler/{name}")

    def close(self, reason: str = "finished") -> None:
        self.scheduler.close(reason)
        self.frontier.alarms.stop()
