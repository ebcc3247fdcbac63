"""Measures the memory of a scheduler's queue with requests for many hosts.

    python -m benchmarks.waiting_hosts SIDE HOSTS REQUESTS_OF_HOST

SIDE is ``stock`` for a crawl without this package, and ``ours`` for a crawl with this package. The output is a JSON
object with the key ``request``: the average memory of a queued request, in bytes. To measure this memory, all requests
are pushed and none is popped. The result is the ratio of the growth of the process to the number of requests.
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
        # The loop contains no await, so all requests are pushed before the first request is popped.
        for request in requests(self.hosts, self.requests_of_host):
            self.crawler.engine.crawl(request)
        count = self.hosts * self.requests_of_host
        print(json.dumps({"request": (_size() - before) / count}))
        raise CloseSpider
        yield


def _size() -> int:
    """Return the memory of this process (its resident set) in bytes."""
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
