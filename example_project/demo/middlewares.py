"""Where the requests of this project go: to the site that comes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

from demo.hosts import HOSTS
from demo.server import SiteServer

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class BundledSite:
    """Serves the site while a crawl lasts, and sends each request to it."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BundledSite:
        site = cls()
        crawler.signals.connect(site.server.stop, signal=signals.engine_stopped)
        return site

    def __init__(self) -> None:
        self.server = SiteServer(HOSTS)
        self.server.start()

    def process_request(self, request: Request) -> None:
        request.meta["proxy"] = self.server.address
