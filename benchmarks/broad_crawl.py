"""Measures the processor time of a crawl of many small hosts, in a single process without a network.

    python -m benchmarks.broad_crawl SIDE HOSTS PAGES_OF_HOST PAGES [JOBDIR] [BY_HOST]

SIDE is ``stock`` for a crawl without this package, and ``ours`` for a crawl with this package. Each of HOSTS hosts has
PAGES_OF_HOST pages. All requests are pushed to the queue before the first request is popped. A download handler
simulates the responses. The crawl ends after PAGES pages.

The output is a JSON object with two averages in processor seconds. ``push`` is the time to push a request. ``page`` is
the time to crawl a page after all requests are pushed. It includes the work for the robots.txt files.

The literal word ``JOBDIR`` as an argument stores the queue in a temporary directory, as Scrapy's setting JOBDIR does.

By default, the first request for each host is pushed, then the second request for each host, and so on. The literal
word ``BY_HOST`` as an argument changes this order: all requests for the first host are pushed, then all requests for
the second host, and so on.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import product
from operator import itemgetter
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING

import scrapy
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider
from scrapy.http import HtmlResponse, TextResponse

from benchmarks.crawl_site import ROBOTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

PAGE = (
    b"<!DOCTYPE html><html><head><title>A page</title></head><body>%s</body></html>"
    % (b"<p>The quick brown fox jumps over the lazy dog.</p>" * 20)
)
SIDES: dict[str, dict[str, object]] = {
    "stock": {"ROBOTSTXT_OBEY": True},
    "ours": {"ADDONS": {"scrapy_rep.Addon": 500}},
}
# The settings that Scrapy recommends for broad crawls. In addition, CONCURRENT_ITEMS is 1. With the default of 100,
# Scrapy starts 100 tasks for each page. These would take half of the measured time, with and without this package.
SETTINGS: dict[str, object] = {
    "CONCURRENT_ITEMS": 1,
    "CONCURRENT_REQUESTS": 100,
    # Equal to CONCURRENT_REQUESTS, so that the maximum per domain has no effect. With a smaller value, the crawls would
    # not be comparable, because Scrapy exceeds the maximum and this package does not: Scrapy does not count a started
    # request until the next iteration of the event loop. So if a download slot has room for one request, Scrapy starts
    # all requests that wait in the slot.
    "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
    "COOKIES_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_HANDLERS": {"http": "benchmarks.broad_crawl.Handler"},
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "examplebot (+https://example.com/bot)",
}


class Handler(BaseDownloadHandler):
    """Simulates the responses of all hosts, without a network."""

    LATENCY = 0.05
    """The seconds between a request and its response."""

    async def download_request(self, request: scrapy.Request) -> TextResponse:
        await asyncio.sleep(self.LATENCY)
        if request.url.endswith("/robots.txt"):
            headers = {"Content-Type": "text/plain"}
            return TextResponse(request.url, body=ROBOTS, headers=headers)
        headers = {"Content-Type": "text/html; charset=utf-8"}
        return HtmlResponse(request.url, body=PAGE, headers=headers)


class HostsSpider(scrapy.Spider):
    name = "hosts"
    hosts: int
    pages_of_host: int
    pages: int
    by_host: bool

    async def start(self) -> AsyncIterator[scrapy.Request]:
        began = process_time()
        # The loop contains no await, so all requests are pushed before the first request is popped.
        for request in requests(self.hosts, self.pages_of_host, self.by_host):
            self.crawler.engine.crawl(request)
        self.began, self.seen = process_time(), 0
        self.pushing = self.began - began
        return
        yield

    def parse(self, response: scrapy.http.Response) -> None:
        self.seen += 1
        if self.seen == self.pages:
            seconds = {
                "push": self.pushing / (self.hosts * self.pages_of_host),
                "page": (process_time() - self.began) / self.seen,
            }
            print(json.dumps(seconds))
            raise CloseSpider


def requests(
    hosts: int, pages_of_host: int, by_host: bool = False
) -> Iterator[scrapy.Request]:
    numbers = product(range(pages_of_host), range(hosts))
    for page, host in sorted(numbers, key=itemgetter(1)) if by_host else numbers:
        url = f"http://www.host-{host:06}.example/section/page-{page}.html"
        yield scrapy.Request(url, dont_filter=True)


def main(side: str, hosts: str, pages_of_host: str, pages: str, *options: str) -> None:
    with TemporaryDirectory() as folder:
        job_settings = {"JOBDIR": folder} if "JOBDIR" in options else {}
        process = AsyncCrawlerProcess({**SETTINGS, **SIDES[side], **job_settings})
        process.crawl(
            HostsSpider,
            hosts=int(hosts),
            pages_of_host=int(pages_of_host),
            pages=int(pages),
            by_host="BY_HOST" in options,
        )
        process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
