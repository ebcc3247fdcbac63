"""A crawler whose engine asks the scheduler for requests when the test says so."""

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
    """What the scheduler needs of Scrapy's engine and downloader."""

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
        self.wakes = 0

    def wake(self) -> None:
        self.wakes += 1

    def slot_of(self, request: Request) -> str:
        slot: str = request.meta.get(
            "download_slot", urlparse_cached(request).hostname or ""
        )
        return slot

    async def close_spider_async(self, *, reason: str) -> None:
        self.closed_for.append(reason)


class Run:
    """A run of a crawl that ignores robots.txt, up to the scheduler."""

    def __init__(self, **settings: Any) -> None:
        self.crawler: Crawler = get_crawler(Spider, settings)
        self.crawler.spider = Spider.from_crawler(self.crawler, "fake")
        self.engine: Any = Engine()
        self.crawler.engine = self.engine
        self.scheduler = Scheduler.from_crawler(self.crawler)
        self.frontier = Frontier.of(self.crawler)
        self.scheduler.open(self.crawler.spider)

    def push(self, *requests: Request) -> list[bool]:
        return [self.scheduler.enqueue_request(request) for request in requests]

    def next(self) -> Request | None:
        """Return the next request, which is in the downloader then."""
        request = self.scheduler.next_request()
        if request is not None:
            self.engine.downloader.active.add(request)
            self.engine._slot.inprogress.add(request)
        return request

    def done(self, request: Request) -> None:
        """The callback of *request* has ended, with all that it yielded."""
        self.engine.downloader.active.discard(request)
        self.engine._slot.inprogress.discard(request)

    def all(self) -> list[Request]:
        """Return all requests, each of which ends before the next one."""
        requests = []
        while (request := self.next()) is not None:
            requests.append(request)
            self.done(request)
        return requests

    def give_back(self, request: Request) -> None:
        """Gate or wire return *request*, and Scrapy gives it to the scheduler."""
        entry = self.frontier.in_flight[request]
        returned = self.frontier.return_to_scheduler(request, entry)
        self.done(request)
        assert self.scheduler.enqueue_request(returned)

    def stat(self, name: str) -> Any:
        return self.crawler.stats.get_value(f"scheduler/{name}")

    def close(self, reason: str = "finished") -> None:
        self.scheduler.close(reason)
        self.frontier.alarms.stop()
