"""Spiders that are to keep to a pace, and what would make others lose it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.downloader import Downloader

from tests.crawl.spiders import PlanSpider
from tests.crawl.waiting_spiders import Clock, DownloadingSpider

if TYPE_CHECKING:
    from scrapy.core.downloader import Slot
    from scrapy.crawler import Crawler


class CollectingSpider(PlanSpider):
    """Has idle download slots collected after each response, not each minute."""

    name = "collecting"

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> CollectingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.collect, signals.response_received)
        return spider

    def collect(self) -> None:
        downloader = self.crawler.engine.downloader
        before = len(downloader.slots)
        downloader._slot_gc(age=0)
        collected = before - len(downloader.slots)
        self.crawler.stats.inc_value("collected", collected)


class NotingDownloader(Downloader):
    """Scrapy's, which notes in stats when a slot that has a delay sent its requests, by the
    clock that it keeps the delay by: ``sent_at/`` and the key of the slot.
    """

    def _process_queue(self, slot: Slot) -> None:
        before = slot.lastseen
        super()._process_queue(slot)
        if slot.lastseen != before:
            (key,) = (key for key, one in self.slots.items() if one is slot)
            stats = self.crawler.stats
            sent_at = stats.get_value(f"sent_at/{key}", [])
            stats.set_value(f"sent_at/{key}", [*sent_at, slot.lastseen])


class VisitingSpider(PlanSpider):
    """Believes that it is ``seconds`` before noon (UTC) of some day."""

    name = "visiting"
    seconds: float

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> VisitingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        clock = Clock(0)
        clock.offset = 43_200 - spider.seconds - clock() % 86_400
        return spider


class DropOnce:
    """A downloader middleware of somebody's, behind this package's: the first request for
    each URL that ends in 3 or 4 is dropped on its way to the host, and sent round again.
    """

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def process_request(self, request: Request) -> Request | None:
        if request.url[-1] not in "34" or request.url in self.seen:
            return None
        self.seen.add(request.url)
        return request.replace(dont_filter=True)


class VisitingDownloader(VisitingSpider, DownloadingSpider):
    """Downloads by itself what it believes to be too early for."""

    name = "visiting-downloader"
