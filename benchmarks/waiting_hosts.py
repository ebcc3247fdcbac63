"""Measures the memory of a queue in which the requests of many hosts wait.

    python -m benchmarks.waiting_hosts SIDE HOSTS REQUESTS_OF_HOST

SIDE is a key of ``SIDES`` of ``broad_crawl.py``. The output is JSON: the number of bytes by which the process grows
for a request, when all requests are in the queue and none was popped.
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
    requests_of_host: int

    async def start(self) -> AsyncIterator[scrapy.Request]:
        before = _size()
        # There is no await in the loop, so no request is popped before all are pushed.
        for request in requests(self.hosts, self.requests_of_host):
            self.crawler.engine.crawl(request)
        count = self.hosts * self.requests_of_host
        print(json.dumps({"request": (_size() - before) / count}))
        raise CloseSpider
        yield


def _size() -> int:
    """Return how many bytes of memory this process takes (its resident set)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main(side: str, hosts: str, requests_of_host: str) -> None:
    process = AsyncCrawlerProcess({**SETTINGS, **SIDES[side]})
    process.crawl(
        WaitingSpider, hosts=int(hosts), requests_of_host=int(requests_of_host)
    )
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
