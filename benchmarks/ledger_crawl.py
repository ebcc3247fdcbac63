"""A crawl in a single process in which most requests are refused. It is used to measure the cost of a ledger.

    python -m benchmarks.ledger_crawl DECISIONS [LEVEL LEDGER]

The crawl requests DECISIONS URLs on a few hosts. robots.txt allows one of every ``SENT`` URLs. A download handler
simulates the responses. LEVEL is a value for REP_LEDGER_LEVEL, and LEDGER is the path of the ledger. Without them, the
crawl writes no ledger. The output is a JSON object with the numbers of ``fetched`` and ``refused`` requests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

from benchmarks.broad_crawl import SETTINGS, SIDES, Handler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HANDLER = {"DOWNLOAD_HANDLERS": {"http": "benchmarks.ledger_crawl.AtOnce"}}
HOSTS = 10
SENT = 30
"""Of every 30 requests, robots.txt allows one, which is sent. All other requests are refused."""


class AtOnce(Handler):
    """Simulates responses without a delay, so that the crawls do not spend time waiting for responses."""

    LATENCY = 0.0


class LinksSpider(scrapy.Spider):
    name = "links"
    count: int
    fetched = ended = 0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        # After one request for each host, the spider waits until all these requests have ended, so that the robots.txt
        # files of all hosts are known. Without this wait, a random number of requests would wait for robots.txt and
        # then continue all at once. That takes more processor time than a series of single requests, so the measured
        # times would vary.
        self.is_known = asyncio.Event()
        for number in range(self.count):
            if number == HOSTS:
                await self.is_known.wait()
            folder = "page" if number % SENT == 0 else "search"
            url = f"http://host-{number % HOSTS}.example/{folder}/{number}"
            yield scrapy.Request(url, errback=self.refused, dont_filter=True)

    def parse(self, response: scrapy.http.Response) -> None:
        self.fetched += 1
        self.note_end()

    def refused(self, failure: object) -> None:
        self.note_end()

    def note_end(self) -> None:
        self.ended += 1
        if self.ended == HOSTS:
            self.is_known.set()

    def closed(self, reason: str) -> None:
        stat = self.crawler.stats.get_value
        counts = {
            "fetched": self.fetched,
            "refused": stat("robotstxt/forbidden", 0),
        }
        print(json.dumps(counts), flush=True)


def main(count: str, level: str = "", ledger: str = "") -> None:
    ledger_settings = (
        {"REP_LEDGER": ledger, "REP_LEDGER_LEVEL": level} if ledger else {}
    )
    process = AsyncCrawlerProcess(
        {**SETTINGS, **SIDES["ours"], **HANDLER, **ledger_settings}
    )
    process.crawl(LinksSpider, count=int(count))
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
