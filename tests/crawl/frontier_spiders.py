"""Spiders and components for crawls whose requests wait in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later

from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier import frontier
from scrapy_rep.signals import robotstxt_known
from tests.crawl.waiting_spiders import HurriedSpider

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class CountingSpider(HurriedSpider):
    """Records the highest number of pages under way at once, in the stat ``pages_at_once``."""

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
    """Requests the URLs of ``follow`` after ``known`` robots.txt files were fetched."""

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
            # The entries are used only after all receivers of the signal were called.
            call_later(0.1, self.ask)

    def ask(self) -> None:
        for url in self.follow:
            self.crawler.engine.crawl(self.request({"url": url}))


class TellingSpider(HurriedSpider):
    """Logs what it waits for every 0.2 seconds instead of every minute."""

    name = "telling"
    retries = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> TellingSpider:
        frontier._LOG_EVERY = 0.2
        return super().from_crawler(crawler, *args, **kwargs)


class DropRobotsTxt:
    """A downloader middleware of a project, which drops the requests for robots.txt."""

    async def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            raise IgnoreRequest("The firm does not read the small print")
