"""Spiders and components for tests of delays and Visit-time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.core.downloader import Downloader

from tests.crawl.spiders import PlanSpider
from tests.crawl.waiting_spiders import Clock

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.core.downloader import Slot
    from scrapy.crawler import Crawler


class CollectingSpider(PlanSpider):
    """Deletes idle download slots after each response, instead of each minute."""

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
    """Records when a download slot with a delay sent its requests, by the clock of its
    delay, in the stat ``sent_at/`` and the key of the slot.
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
    """Sets its clock to ``seconds`` before noon (UTC) whenever it has read a robots.txt."""

    seconds: float

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> VisitingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.clock = Clock(0)
        crawler.signals.connect(spider.set_clock, signals.response_downloaded)
        return spider

    def set_clock(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            self.clock.offset += 43_200 - self.seconds - self.clock() % 86_400
