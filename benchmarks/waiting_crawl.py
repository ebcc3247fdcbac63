"""Crawls whose requests have to wait, each in a process of its own.

    python -m benchmarks.waiting_crawl CASE SIDE PORT FOLDER [PAGES]

CASE is a key of ``SPIDERS``, SIDE one of ``SIDES``, PAGES the pages of each healthy host.
The output is JSON: elapsed seconds, processor seconds, peak memory in bytes, and the
longest delay of the event loop in seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess

from benchmarks.broad_crawl import SIDES
from benchmarks.waiting_site import BROKEN, DELAY, HEALTHY, HOME, SILENT, SLOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

REQUESTS = 30_000
SECONDS = 40
FILES = 300
PAGES = 10
PAGES_OF_SILENT = 2
TICK = 0.01  # seconds


class Lag:
    """Measures delays of the event loop with a repeated timer.

    The processor time between two ticks belongs to this process only; the elapsed time
    also includes the time of other processes.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.begin()
        self._next()

    def begin(self) -> None:
        """Forget all measurements so far."""
        self.processor = self.clock = 0.0

    def _next(self) -> None:
        self._due = self._loop.time() + TICK
        self._used = time.process_time()
        self._loop.call_later(TICK, self._tick)

    def _tick(self) -> None:
        self.clock = max(self.clock, self._loop.time() - self._due)
        self.processor = max(self.processor, time.process_time() - self._used)
        self._next()


class MeasuredSpider(scrapy.Spider):
    port: str

    async def start(self) -> AsyncIterator[scrapy.Request]:
        self.began = time.monotonic()
        self.lag = Lag()
        # The first response makes Scrapy import modules, for a tenth of a second.
        self.crawler.signals.connect(self._begin_lag, signals.response_received)
        for request in self.requests():
            yield request
            # If the downloader is full, Scrapy takes the next request at once, in a
            # loop that lets nothing else run. The queue does not cause that delay.
            await asyncio.sleep(0)

    def _begin_lag(self) -> None:
        self.lag.begin()
        self.crawler.signals.disconnect(self._begin_lag, signals.response_received)

    def requests(self) -> Iterator[scrapy.Request]:
        raise NotImplementedError

    def request(self, host: str, path: str) -> scrapy.Request:
        return scrapy.Request(f"http://{host}:{self.port}{path}")

    def end(self) -> None:
        """Print the results, and exit at once: closing the spider is not measured."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "seconds": time.monotonic() - self.began,
            "processor": used.ru_utime + used.ru_stime,
            "bytes": used.ru_maxrss * 1024,
            "lag": self.lag.processor,
            "lag on the clock": self.lag.clock,
        }
        print(json.dumps(found), flush=True)
        os._exit(0)


class QueueSpider(MeasuredSpider):
    """Very many requests for a host with a delay of seconds."""

    name = "queue"

    def requests(self) -> Iterator[scrapy.Request]:
        asyncio.get_running_loop().call_later(SECONDS, self.end)
        for number in range(REQUESTS):
            yield self.request(SLOW, f"/page/{number}")

    def end(self) -> None:
        queued = self.crawler.stats.get_value("scheduler/enqueued/disk")
        if queued != REQUESTS:
            # On a busy machine they may take longer; only the waiting is measured.
            self.logger.info("%s of %s requests are queued", queued, REQUESTS)
            asyncio.get_running_loop().call_later(SECONDS / 4, self.end)
            return
        super().end()

    def parse(self, response: scrapy.http.Response) -> None:
        """Do nothing: the waiting requests are measured."""


class LinksSpider(QueueSpider):
    """Very many requests for a host with a delay of seconds, all from one page."""

    name = "links"

    def requests(self) -> Iterator[scrapy.Request]:
        asyncio.get_running_loop().call_later(SECONDS, self.end)
        yield self.request(SLOW, "/page/0")

    def parse(self, response: scrapy.http.Response) -> Iterator[scrapy.Request]:
        if response.url.endswith("/page/0"):
            for number in range(1, REQUESTS):
                yield self.request(SLOW, f"/page/{number}")


class FilesSpider(MeasuredSpider):
    """Pages with files on an unreachable host."""

    name = "files"

    def requests(self) -> Iterator[scrapy.Request]:
        for number in range(FILES):
            yield self.request(HOME, f"/page/{number}")

    def parse(self, response: scrapy.http.Response) -> Iterator[Any]:
        name = response.url.rpartition("/")[2]
        yield {"file_urls": [f"http://{BROKEN}:{self.port}/file/{name}"]}

    def closed(self, reason: str) -> None:
        # If an item is missing, the crawl prints no result, which is an error.
        if self.crawler.stats.get_value("item_scraped_count") == FILES:
            self.end()


class HealthySpider(MeasuredSpider):
    """Fifty healthy hosts."""

    name = "healthy"
    silent: tuple[str, ...] = ()
    pages: int
    seen = 0

    def requests(self) -> Iterator[scrapy.Request]:
        for number in range(PAGES_OF_SILENT):
            for host in self.silent:
                yield self.request(host, f"/page/{number}")
        for number in range(self.pages):
            for host in HEALTHY:
                yield self.request(host, f"/page/{number}")

    def parse(self, response: scrapy.http.Response) -> None:
        self.seen += 1
        if self.seen == len(HEALTHY) * self.pages:
            self.end()


class SilentSpider(HealthySpider):
    """Fifty healthy hosts beside hosts that never answer, which come first."""

    name = "silent"
    silent = SILENT


SPIDERS = {
    spider.name: spider
    for spider in (QueueSpider, LinksSpider, FilesSpider, HealthySpider, SilentSpider)
}
SETTINGS: dict[str, object] = {
    # At the default of 100, Scrapy starts as many tasks for each page. If some pages
    # arrive at once, that alone delays the loop by 80 ms.
    "CONCURRENT_ITEMS": 1,
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "examplebot (+https://example.com/bot)",
}


def main(case: str, side: str, port: str, folder: str, pages: str = str(PAGES)) -> None:
    settings = {**SETTINGS, **SIDES[side]}
    if issubclass(SPIDERS[case], QueueSpider):
        settings["JOBDIR"] = folder
        if side == "stock":
            settings |= {"DOWNLOAD_DELAY": DELAY, "RANDOMIZE_DOWNLOAD_DELAY": False}
    if case == "files":
        settings["FILES_STORE"] = folder
        settings["ITEM_PIPELINES"] = {"scrapy.pipelines.files.FilesPipeline": 1}
    process = AsyncCrawlerProcess(settings)
    process.crawl(SPIDERS[case], port=port, pages=int(pages))
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
