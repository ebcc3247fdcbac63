"""Spiders and components for crawls in which requests wait in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.utils.asyncio import call_later

from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.frontier import frontier
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


class TellingSpider(HurriedSpider):
    """Says what it waits for every half second, not every minute."""

    name = "telling"
    retries = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> TellingSpider:
        frontier._LOG_EVERY = 0.5
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
    """When all is done, waits so many seconds and asks for a URL, for each of ``again``."""

    name = "again"
    retries = None
    again: list[tuple[float, str]]
    is_waiting = False

    def next_step(self) -> None:
        if self.is_waiting:
            raise DontCloseSpider
        if self.again:
            seconds, url = self.again.pop(0)
            self.is_waiting = True
            call_later(seconds, self.ask, url)
            raise DontCloseSpider

    def ask(self, url: str) -> None:
        self.is_waiting = False
        self.crawler.engine.crawl(self.request({"url": url}))
