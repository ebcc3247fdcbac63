"""Spiders for crawls with scrapy-redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy_redis.spiders import RedisSpider

from tests.crawl.spiders import NotingSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class LinkSpider(NotingSpider):
    """Follows the ``links`` of each page, by its path, and counts its ``spider_idle``
    signals in the stat ``idle``.
    """

    name = "links"
    links: dict[str, list[str]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> LinkSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.note_idle, signals.spider_idle)
        return spider

    def note_idle(self) -> None:
        self.crawler.stats.inc_value("idle")

    def parse(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        path = "/" + response.url.rpartition("/")[2]
        yield from response.follow_all(self.links.get(path, []))


class StartUrlSpider(RedisSpider, LinkSpider):
    """Gets its start URLs from a list on the Redis server."""

    redis_key = "links:start_urls"
