"""Routes the requests of this project to the bundled site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy import signals

from demo.hosts import HOSTS
from demo.server import WORKER, SiteServer

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class BundledSite:
    """Serves the bundled site during a crawl, and sends each request to it.

    Several workers share one site, whose address is in ``BUNDLED_SITE``; each worker
    identifies itself in a header.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BundledSite:
        settings = crawler.settings
        site = cls(settings["BUNDLED_SITE"], settings["WORKER"])
        if site.server is not None:
            crawler.signals.connect(site.server.stop, signal=signals.engine_stopped)
        return site

    def __init__(self, address: str | None = None, worker: str | None = None) -> None:
        self.server: SiteServer | None = None
        self.worker = worker
        if address is None:
            self.server = SiteServer(HOSTS)
            self.server.start()
            address = self.server.address
        self.address = address

    def process_request(self, request: Request) -> None:
        request.meta["proxy"] = self.address
        if self.worker is not None:
            request.headers[WORKER] = self.worker
