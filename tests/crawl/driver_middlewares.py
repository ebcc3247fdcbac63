"""Downloader middlewares that fetch pages by themselves, as those for browsers do; and outages of the
resolver.
"""

from __future__ import annotations

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
    """Fetches and answers each request that asks for it, so that Scrapy's downloader does not get the request."""

    def process_request(self, request: Request) -> HtmlResponse | None:
        if not request.meta.get("driver"):
            return None
        asked = UrlRequest(request.url, headers={"User-Agent": AGENT})
        try:
            answer = build_opener(ProxyHandler({})).open(asked)
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


class Outages:
    """An extension with which no name is resolved for a number of seconds at the start, and for another number when
    the crawl has got OUTAGE_AFTER pages. OUTAGE_SECONDS has the two numbers.
    """

    def __init__(self, crawler: Crawler) -> None:
        first, self._seconds = map(float, crawler.settings.getlist("OUTAGE_SECONDS"))
        self._after = crawler.settings.getint("OUTAGE_AFTER")
        self._ends = time.monotonic() + first
        self._pages = 0
        crawler.signals.connect(self._received, signals.response_received)
        for name in ("getaddrinfo", "gethostbyname"):
            setattr(socket, name, self._failing(getattr(socket, name)))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _received(self, request: Request) -> None:
        if not request.url.endswith("/robots.txt"):
            self._pages += 1
            if self._pages == self._after:
                self._ends = time.monotonic() + self._seconds

    def _failing(self, really: Any) -> Any:
        def look_up(*args: Any, **kwargs: Any) -> Any:
            if time.monotonic() < self._ends:
                raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
            return really(*args, **kwargs)

        return look_up
