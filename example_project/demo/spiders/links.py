from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.http import Response


class LinksSpider(CrawlSpider):
    """Crawls the site by rules of its own, without any code for robots.txt."""

    name = "links"
    allowed_domains = ["example"]
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request("http://open.example/")

    def parse_page(self, response: Response) -> dict[str, Any]:
        return {"url": response.url, "title": response.css("title::text").get()}

    parse_start_url = parse_page
