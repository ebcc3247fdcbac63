"""A downloader middleware that fetches pages by itself, like middlewares that drive a browser, and an extension that
simulates outages of DNS.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener
from urllib.request import Request as UrlRequest

from scrapy import signals
from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

AGENT = "driver"


class Driver:
    """A downloader middleware that sends requests itself if they have the meta key ``driver``. Scrapy's downloader does
    not get these requests.
    """

    def process_request(self, request: Request) -> HtmlResponse | None:
        if not request.meta.get("driver"):
            return None
        url_request = UrlRequest(request.url, headers={"User-Agent": AGENT})
        try:
            answer = build_opener(ProxyHandler({})).open(url_request)
        except HTTPError as error:
            answer = error
        with answer:
            return HtmlResponse(
                request.url,
                status=answer.status,
                headers=dict(answer.headers),
                body=answer.read(),
                request=request,
            )


class ThreadDriver(Driver):
    """A driver that fetches each page in a thread of its own, so that the crawl goes on meanwhile."""

    async def process_request(self, request: Request) -> HtmlResponse | None:
        return await asyncio.to_thread(super().process_request, request)


class Outages:
    """An extension that makes all DNS lookups fail during two outages.

    The first outage begins with the crawl, the second when the crawl has received OUTAGE_AFTER pages. The setting
    OUTAGE_SECONDS is a list: the seconds of the first outage, and the seconds of the second.
    """

    def __init__(self, crawler: Crawler) -> None:
        first_seconds, self._second_seconds = map(
            float, crawler.settings.getlist("OUTAGE_SECONDS")
        )
        self._pages_before_second = crawler.settings.getint("OUTAGE_AFTER")
        self._outage_end = time.monotonic() + first_seconds
        self._pages = 0
        crawler.signals.connect(self._count_page, signals.response_received)
        for name in ("getaddrinfo", "gethostbyname"):
            setattr(socket, name, self._fail_in_outage(getattr(socket, name)))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _count_page(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            self._pages += 1
            if self._pages == self._pages_before_second:
                self._outage_end = time.monotonic() + self._second_seconds

    def _fail_in_outage(self, original: Any) -> Any:
        def look_up(*args: Any, **kwargs: Any) -> Any:
            if time.monotonic() < self._outage_end:
                raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
            return original(*args, **kwargs)

        return look_up
