"""Spiders that crawl hosts that lie."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response


class LiedToSpider(PlanSpider):
    """Makes an item of each page. The names of ``failures`` are those of the loopback, once
    the look-up has failed so many times.
    """

    name = "lied-to"
    failures: dict[str, int]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> LiedToSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        # What Twisted looks names up with, and what asyncio does.
        for function in ("gethostbyname", "getaddrinfo"):
            setattr(socket, function, spider.look_up(getattr(socket, function)))
        return spider

    def look_up(self, really: Callable[..., Any]) -> Callable[..., Any]:
        def looked_up(host: str, *args: Any, **kwargs: Any) -> Any:
            if host in self.failures:
                self.failures[host] -= 1
                if self.failures[host] >= 0:
                    raise socket.gaierror(socket.EAI_AGAIN, "No answer in time")
                host = "127.0.0.1"
            return really(host, *args, **kwargs)

        return looked_up

    def note_response(self, response: Response) -> Iterator[dict[str, Any]]:
        # What the page says has been read; to look into it would take Scrapy long.
        yield {"url": response.url}
