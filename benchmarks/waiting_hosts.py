"""Memory of the queue of a crawl in which many hosts wait, each with one request.

    python -m benchmarks.waiting_hosts SIDE HOSTS

SIDE is a key of ``SIDES``. The output is JSON: the bytes by which the process has grown for each
host, its request included, when all of them are in the queue and none was popped.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import CloseSpider

from benchmarks.broad_crawl import SETTINGS, SIDES, requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class WaitingSpider(scrapy.Spider):
    name = "waiting"
    hosts: int

    async def start(self) -> AsyncIterator[scrapy.Request]:
        before = _size()
        # The loop awaits nothing, so that no request is popped meanwhile.
        for request in requests(self.hosts, 1):
            self.crawler.engine.crawl(request)
        bytes_of_host = (_size() - before) / self.hosts
        print(json.dumps({"host": bytes_of_host}))
        raise CloseSpider
        yield


def _size() -> int:
    """The bytes of this process that are in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main(side: str, hosts: str) -> None:
    process = AsyncCrawlerProcess({**SETTINGS, **SIDES[side]})
    process.crawl(WaitingSpider, hosts=int(hosts))
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
