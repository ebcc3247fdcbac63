"""Components of projects that meet requests for robots.txt as well as those of the spider, and a
spider with fewer rights.
"""

from __future__ import annotations

import asyncio
import ctypes
import struct
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import StopDownload
from scrapy.http import JsonRequest

from tests.crawl.page_spiders import PageSpider
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response


_VERSION_3 = 0x20080522  # See linux/capability.h.


class HtmlOnlySpider(PlanSpider):
    """Stops the download of all that is not HTML, in a handler of *stops_in*, with the
    argument *fails* of StopDownload.
    """

    stops_in = "headers_received"
    fails = False

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> HtmlOnlySpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        receiver = getattr(spider, f"on_{spider.stops_in}")
        crawler.signals.connect(receiver, getattr(signals, spider.stops_in))
        return spider

    def on_headers_received(self, headers: Headers) -> None:
        if b"html" not in headers.get("Content-Type", b""):
            raise StopDownload(fail=self.fails)

    def on_bytes_received(self, data: bytes, request: Request) -> None:
        if b"<" not in data:
            raise StopDownload(fail=self.fails)


class HtmlOnlyPageSpider(HtmlOnlySpider, PageSpider):
    """Makes an item of each page, too."""


class NeedsKey:
    """A middleware that reads a meta key of all requests, which only those of the spider have."""

    def process_request(self, request: Request) -> None:
        request.meta["wanted"]


class NeedsKeyOfResponses:
    def process_response(self, request: Request, response: Response) -> Response:
        request.meta["wanted"]
        return response


class NeedsKeyOfFailures:
    def process_exception(self, request: Request, exception: Exception) -> None:
        request.meta["wanted"]


class CancelRobotsTxt:
    """A downloader middleware of a project, which is cancelled on the
    response for robots.txt.
    """

    async def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/robots.txt"):
            raise asyncio.CancelledError
        return response


class PowerlessSpider(PlanSpider):
    """Drops its capabilities, so that file modes apply to it also if root runs it."""

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> PowerlessSpider:
        none = struct.pack("6I", *[0] * 6)
        ctypes.CDLL(None).capset(struct.pack("Ii", _VERSION_3, 0), none)
        return super().from_crawler(crawler, *args, **kwargs)


class Replacing:
    """A downloader middleware of a project, which answers each request for robots.txt with
    another request, and the one for ``instead`` with the response.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Replacing:
        middleware = cls()
        middleware.crawler = crawler
        return middleware

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        spider = self.crawler.spider
        if not request.url.endswith(tuple(spider.replaced)):
            return response
        url = response.urljoin(spider.instead)
        return request.replace(url=url) if spider.is_copy else JsonRequest(url, data={})
