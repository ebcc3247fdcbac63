"""Spiders that send the requests of a test, and record responses, errors, items and signals for the report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.spiders import SitemapSpider

from scrapy_rep.protocol.origins import parse_origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure

SEEN = ("responses", "errors", "items", "denied", "parsed", "read")
"""What spiders record: the names of the lists in ``NotingSpider.seen``."""


class NotingSpider(Spider):
    """Records responses, errors, items and the arguments of signals for the report."""

    name = "noting"
    seen: dict[str, list[dict[str, Any]]]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> NotingSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.seen = {name: [] for name in SEEN}
        connect = crawler.signals.connect
        connect(spider.note_item, signals.item_scraped)
        connect(spider.note_read, signals.response_downloaded)
        connect(spider.note_idle, signals.spider_idle)
        if hasattr(signals, "robots_parsed"):
            connect(spider.note_parsed, signals.robots_parsed)
        try:
            from scrapy_rep.signals import decision_made  # noqa: PLC0415
        except ImportError:
            return spider
        connect(spider.note_decided, decision_made)
        return spider

    def note_response(self, response: Response) -> None:
        self.seen["responses"].append(
            {
                "url": response.url,
                "status": response.status,
                "flags": response.flags,
                "body": response.body[:2000].decode("latin-1"),
                "dont_filter": response.request.dont_filter,
                "meta": list(response.meta),
            }
        )

    def note_error(self, failure: Failure) -> None:
        error = failure.value
        self.seen["errors"].append(
            {
                "url": failure.request.url,
                "error": type(error).__name__,
                "message": str(error),
                **_fields_of_record(getattr(error, "record", None)),
            }
        )

    def note_idle(self) -> None:
        self.crawler.stats.inc_value("idle")

    def note_item(self, item: dict[str, Any]) -> None:
        self.seen["items"].append(item)

    def note_read(self, response: Response) -> None:
        self.seen["read"].append({"url": response.url, "time": time.monotonic()})

    def note_decided(self, record: Any, spider: Spider) -> None:
        if record.verdict == "refused":
            self.seen["denied"].append(
                {"url": record.url, "spider": spider.name, **_fields_of_record(record)}
            )

    def note_parsed(self, robotparser: Any, request: Request) -> None:
        private = request.url.rpartition("/")[0] + "/private"
        self.seen["parsed"].append(
            {
                "url": request.url,
                "allowed": robotparser.allowed(request.url, "testbot"),
                "private": robotparser.allowed(private, b"testbot"),
            }
        )


def _fields_of_record(record: Any) -> dict[str, Any]:
    """Return what the report of the crawl says about the decision record *record*: the reason, the rule, its line, and
    so on. If *record* is None, return an empty dict.
    """
    if record is None:
        return {}
    _, _, pattern = (record.statement or "").partition(": ")
    origin = record.fetched is not None and parse_origin(record.origin)
    return {
        "reason": record.reason,
        "line": record.line or 0,
        "rule": pattern if record.line else None,
        "agent": record.agent,
        "allowed": record.verdict == "allowed",
        "robotstxt_url": origin.robotstxt_url if origin else "",
    }


class PlanSpider(NotingSpider):
    """Sends the requests of its first step at once, and those of each further step when it is idle."""

    name = "plan"
    steps: list[list[dict[str, Any]]]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> PlanSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.next_step, signals.spider_idle)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        for arguments in self.steps.pop(0):
            yield self.request(arguments)

    def next_step(self) -> None:
        if not self.steps:
            return
        requests = self.steps.pop(0)
        for arguments in requests:
            self.crawler.engine.crawl(self.request(arguments))
        if requests:
            raise DontCloseSpider

    def request(self, arguments: dict[str, Any]) -> Request:
        return Request(
            callback=self.note_response, errback=self.note_error, **arguments
        )


class MozillaSpider(PlanSpider):
    """A spider with its own ``user_agent``."""

    user_agent = "Mozilla/5.0 (compatible; spiderbot/1.0; +https://example.com/)"


class RobotsSitemapSpider(NotingSpider, SitemapSpider):
    """A SitemapSpider that starts at robots.txt."""

    name = "sitemap"
    sitemap_urls: list[str]
    steps: list[list[dict[str, Any]]]

    def parse(self, response: Response) -> None:
        self.note_response(response)
