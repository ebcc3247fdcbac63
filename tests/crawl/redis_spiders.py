"""Spiders for crawls with scrapy-redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_redis.spiders import RedisSpider

from tests.crawl.spiders import NotingSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.http import Response


class LinkSpider(NotingSpider):
    """Follows the ``links`` of each page, by its path."""

    name = "links"
    links: dict[str, list[str]] = {}

    def parse(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        path = "/" + response.url.rpartition("/")[2]
        yield from response.follow_all(self.links.get(path, []))


class StartUrlSpider(RedisSpider, LinkSpider):
    """Gets its start URLs from a list on the Redis server."""

    redis_key = "links:start_urls"
