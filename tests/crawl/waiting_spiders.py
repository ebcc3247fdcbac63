"""Spiders and components for crawls that wait for robots.txt, and with changed clocks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response


class Clock:
    """Replaces ``time.time`` by a clock that the test can set."""

    def __init__(self, offset: float) -> None:
        self.offset = offset
        self._time = time.time
        time.time = self

    def __call__(self) -> float:
        return self._time() + self.offset


class ClockSpider(PlanSpider):
    """A spider that sets its clock forward.

    It does so by ``offset`` seconds at the start, by those in ``moves`` after the page at
    each path, and by those in ``later`` each time that all requests are answered; after
    that it requests ``again``, in order. It records the number of steps before each
    response.
    """

    offset: float = 0
    moves: dict[str, float] = {}
    later: list[float] = []
    again: list[str] = []
    asked = step = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> ClockSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.clock = Clock(spider.offset)
        # This signal is sent before the downloader has room for the next request.
        crawler.signals.connect(spider.move, signals.response_downloaded)
        return spider

    def move(self, request: Request) -> None:
        for path, seconds in self.moves.items():
            if request.url.endswith(path):
                self.clock.offset += seconds

    def note_response(self, response: Response) -> None:
        super().note_response(response)
        self.seen["responses"][-1]["step"] = self.step

    def request(self, arguments: dict[str, Any]) -> Request:
        self.asked += 1
        return super().request(arguments)

    def next_step(self) -> None:
        answered = len(self.seen["responses"]) + len(self.seen["errors"])
        if not self.later or answered < self.asked:
            return
        self.clock.offset += self.later.pop(0)
        self.step += 1
        for number, url in enumerate(self.again):
            arguments = {"url": url, "priority": -number, "dont_filter": True}
            self.crawler.engine.crawl(self.request(arguments))
        raise DontCloseSpider


class DownloadingSpider(PlanSpider):
    """Downloads ``more`` itself, in parallel, in the callback of each page."""

    more: list[str]

    async def note_response(self, response: Response) -> AsyncIterator[dict[str, Any]]:
        PlanSpider.note_response(self, response)
        # Deferreds exist in every mode, and run in parallel.
        downloads = [deferred_from_coro(self.download(url)) for url in self.more]
        for download in downloads:
            yield await maybe_deferred_to_future(download)

    async def download(self, url: str) -> dict[str, Any]:
        request = Request(url, callback=NO_CALLBACK)
        try:
            response = await self.crawler.engine.download_async(request)
        except IgnoreRequest as error:
            return {"url": url, "error": type(error).__name__}
        return {"url": url, "status": response.status, "meta": list(response.meta)}


class CountPasses:
    """A downloader middleware that counts the requests that pass it, in the stat ``passes``."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> CountPasses:
        middleware = cls()
        middleware.crawler = crawler
        return middleware

    async def process_request(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            self.crawler.stats.inc_value("passes")


class PassOnce:
    """A downloader middleware of a project, which drops the second request for each URL."""

    def __init__(self) -> None:
        self.passed: set[str] = set()

    async def process_request(self, request: Request) -> None:
        if request.url in self.passed:
            raise IgnoreRequest("Once is enough")
        self.passed.add(request.url)


class DayGoesBy:
    """A downloader middleware of a project, which sets the clock of :class:`ClockSpider`
    forward by more than a day while it handles some pages.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DayGoesBy:
        middleware = cls()
        middleware.crawler = crawler
        return middleware

    async def process_request(self, request: Request) -> None:
        if request.url.endswith("/2"):
            self.crawler.spider.clock.offset += 25 * 3600


class DropRobotsTxt:
    """A downloader middleware of a project, which drops the requests for robots.txt."""

    async def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            raise IgnoreRequest("The firm does not read the small print")
