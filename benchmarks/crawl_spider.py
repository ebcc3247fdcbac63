"""The spider of the two crawls that ``crawls.py`` compares, one without and one with this package. The spider follows
all links, and yields an item for each page.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.linkextractors import LinkExtractor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

STATS = (
    "finish_reason",
    "item_scraped_count",
    "downloader/request_count",
    "robotstxt/response_count",
)


class SitesSpider(scrapy.Spider):
    name = "sites"
    port: str
    hosts: str
    links = LinkExtractor()

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for number in range(1, int(self.hosts) + 1):
            yield scrapy.Request(f"http://127.0.0.{number}:{self.port}/page/0")

    def parse(self, response: scrapy.http.HtmlResponse) -> Iterator[Any]:
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "sections": response.css("h2::text").getall(),
        }
        for link in self.links.extract_links(response):
            yield scrapy.Request(link.url)

    def closed(self, reason: str) -> None:
        stats = self.crawler.stats.get_stats()
        print(json.dumps({name: stats.get(name) for name in STATS}))
