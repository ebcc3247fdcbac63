"""Spiders that read JSON APIs and sitemaps, in the shapes that public projects have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scrapy.http import JsonRequest
from scrapy.spiders import SitemapSpider, XMLFeedSpider

from tests.crawl.spiders import NotingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy import Request
    from scrapy.http import Response


class StoreFinderSpider(NotingSpider):
    """Asks admin-ajax.php of a WordPress site for all shops at once, as a spider of a store
    locator plugin does, and makes an item of each.
    """

    name = "store_finder"
    origin: str
    steps: list[list[dict[str, Any]]]

    async def start(self) -> AsyncIterator[Request]:
        query = "action=store_search&autoload=1"
        yield JsonRequest(f"{self.origin}/wp-admin/admin-ajax.php?{query}")

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        for shop in response.json():
            yield {"ref": shop["id"], "name": shop["store"]}


class RestSpider(NotingSpider):
    """Reads a post type from the REST API of a WordPress site, page by page, and the page
    of each shop.
    """

    name = "rest"
    origin: str
    steps: list[list[dict[str, Any]]]

    async def start(self) -> AsyncIterator[Request]:
        yield self.page(1)

    def page(self, number: int) -> Request:
        url = f"{self.origin}/wp-json/wp/v2/shops?per_page=2&page={number}"
        return JsonRequest(url, cb_kwargs={"number": number})

    def parse(self, response: Response, number: int) -> Iterator[Any]:
        for shop in response.json():
            item = {"ref": shop["id"], "name": shop["title"]["rendered"]}
            yield response.follow(
                shop["link"], self.parse_shop, cb_kwargs={"item": item}
            )
            yield item | {"from": "api"}
        if number < int(response.headers["X-WP-TotalPages"]):
            yield self.page(number + 1)

    def parse_shop(
        self, response: Response, item: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        yield item | {"phone": response.css("#phone::text").get()}


class ShopSitemapSpider(NotingSpider, SitemapSpider):
    """Finds the pages of shops in the sitemaps that robots.txt names."""

    name = "shop_sitemap"
    sitemap_urls: list[str]
    sitemap_rules = [("/shop/", "parse_shop")]
    steps: list[list[dict[str, Any]]]

    def parse_shop(self, response: Response) -> Iterator[dict[str, Any]]:
        data = response.css('script[type="application/ld+json"]::text').get()
        yield {"name": json.loads(data)["name"], "website": response.url}


class FeedSpider(NotingSpider, XMLFeedSpider):
    """Makes an item of each entry of an RSS feed."""

    name = "feed"
    start_urls: list[str]
    steps: list[list[dict[str, Any]]]

    def parse_node(self, response: Response, selector: Any) -> dict[str, Any]:
        return {"title": selector.xpath("title/text()").get()}
