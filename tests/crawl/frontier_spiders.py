"""Spiders and components for crawls in which requests wait in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.utils.asyncio import call_later

from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier import frontier
from scrapy_rep.signals import robotstxt_known
from scrapy_rep.stores import sqlite
from scrapy_rep.stores.memory import MemoryStore
from tests.crawl.spiders import PlanSpider
from tests.crawl.waiting_spiders import HurriedSpider

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class CountingSpider(HurriedSpider):
    """Notes in stats the most pages that were under way at once, as ``pages_at_once``."""

    name = "counting"
    under_way = 0

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> CountingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.reached, signals.request_reached_downloader)
        crawler.signals.connect(spider.left, signals.request_left_downloader)
        return spider

    def reached(self, request: Request) -> None:
        if not isinstance(request, RobotsTxtRequest):
            self.under_way += 1
            self.crawler.stats.max_value("pages_at_once", self.under_way)

    def left(self, request: Request) -> None:
        if not isinstance(request, RobotsTxtRequest):
            self.under_way -= 1


class KnowingSpider(HurriedSpider):
    """Asks for the URLs of ``follow`` when so many robots.txt files have come to be known."""

    name = "knowing"
    retries = None
    known: int
    follow: list[str]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> KnowingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.count, robotstxt_known)
        return spider

    def count(self) -> None:
        self.known -= 1
        if not self.known:
            # They are in use when the receivers of the signal have been called.
            call_later(0.1, self.ask)

    def ask(self) -> None:
        for url in self.follow:
            self.crawler.engine.crawl(self.request({"url": url}))


class TellingSpider(HurriedSpider):
    """Says what it waits for every fifth of a second, not every minute."""

    name = "telling"
    retries = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> TellingSpider:
        frontier._LOG_EVERY = 0.2
        return super().from_crawler(crawler, *args, **kwargs)


class BrokenStoreSpider(PlanSpider):
    """Has a store that fails as no store should."""

    name = "broken-store"

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> BrokenStoreSpider:
        def put(*_: object) -> None:
            raise RuntimeError("No store should do this")

        MemoryStore.put = put
        return super().from_crawler(crawler, *args, **kwargs)


class DropRobotsTxt:
    """A downloader middleware of somebody's, which lets no robots.txt be asked for."""

    async def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            raise IgnoreRequest("The firm does not read the small print")


class AgainSpider(HurriedSpider):
    """Asks for ``early`` when all is done, and for each URL of ``again``, one after the other,
    when the robots.txt has come to be known another time.
    """

    name = "again"
    retries = None
    early: str
    again: list[str]
    known = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> AgainSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.count, robotstxt_known)
        return spider

    def count(self) -> None:
        self.known += 1

    def next_step(self) -> None:
        if self.early:
            self.ask(self.early)
            self.early = ""
        elif self.again and self.known > 1:
            self.ask(self.again.pop(0))
        if self.again:
            raise DontCloseSpider

    def ask(self, url: str) -> None:
        self.crawler.engine.crawl(self.request({"url": url}))


class ShortOfTimeSpider(PlanSpider):
    """Waits two seconds for a lock of its SQLite store, not five."""

    name = "short-of-time"

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> ShortOfTimeSpider:
        connect = sqlite._connect
        sqlite._connect = lambda path, _: connect(path, 2.0)
        return super().from_crawler(crawler, *args, **kwargs)
