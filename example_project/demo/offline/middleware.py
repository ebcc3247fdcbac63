from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

from demo.offline.server import Site

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class OfflineSite:
    """Serves the offline site during a crawl, and routes all requests of the crawl to this site. If the setting
    ``OFFLINE_SITE`` contains the address of a running site, routes all requests to that site instead.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.address: str = crawler.settings["OFFLINE_SITE"]
        if not self.address:
            self.site = Site()
            self.address = self.site.address
            crawler.signals.connect(self.site.stop, signal=signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OfflineSite:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        request.meta["proxy"] = self.address
