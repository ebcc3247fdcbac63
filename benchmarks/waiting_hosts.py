"""Measures the memory of a queue in which many hosts wait, each with one request.

    python -m benchmarks.waiting_hosts SIDE HOSTS

SIDE is a key of ``SIDES`` of ``broad_crawl.py``. The output is JSON: by how many bytes the process grows
for a host and its request, when all requests are in the queue and none was popped.
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
        # There is no await in the loop, so no request is popped before all are pushed.
        for request in requests(self.hosts, 1):
            self.crawler.engine.crawl(request)
        bytes_of_host = (_size() - before) / self.hosts
        print(json.dumps({"host": bytes_of_host}))
        raise CloseSpider
        yield


def _size() -> int:
    """Return how many bytes of memory this process takes (its resident set)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main(side: str, hosts: str) -> None:
    process = AsyncCrawlerProcess({**SETTINGS, **SIDES[side]})
    process.crawl(WaitingSpider, hosts=int(hosts))
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
