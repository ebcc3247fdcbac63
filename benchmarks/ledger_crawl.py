"""A crawl within a single process, in which most requests are refused, to measure what a ledger costs.

    python -m benchmarks.ledger_crawl DECISIONS [LEVEL LEDGER]

A few hosts have many links, of which robots.txt allows one in ``SENT``. A download handler answers
without a network. The output is JSON: how many requests were fetched and refused.
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
"""One in so many requests is sent; the others are refused."""


class AtOnce(Handler):
    """Answers at once, so that the compared crawls do not differ in how long they wait."""

    LATENCY = 0.0


class LinksSpider(scrapy.Spider):
    name = "links"
    count: int
    fetched = ended = 0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        # The other requests follow when each host has answered once, and its robots.txt is known.
        # Otherwise many requests would wait for robots.txt, and go on at the same time. That costs more
        # than one request after the other, and the number of waiting requests would vary by chance.
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
