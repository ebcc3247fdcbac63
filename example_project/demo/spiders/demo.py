from __future__ import annotations

from typing import TYPE_CHECKING, Any

import scrapy
from scrapy.http import HtmlResponse, Response

from scrapy_rep import RobotsDenied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from twisted.python.failure import Failure


class DemoSpider(scrapy.Spider):
    """Yields an item for each page, follows all links, and logs the requests that scrapy-rep refuses.

    The crawl starts at the host ``open``. ``-a host=gallery`` selects the host ``gallery``.
    """

    name = "demo"
    host = "open"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        yield scrapy.Request(f"http://{self.host}.example/", errback=self.refused)

    def parse(self, response: Response) -> Iterator[Any]:
        if not isinstance(response, HtmlResponse):
            yield {"url": response.url, "title": None}
            return
        yield {"url": response.url, "title": response.css("title::text").get()}
        yield from response.follow_all(css="a", errback=self.refused)

    def refused(self, failure: Failure) -> None:
        if failure.check(RobotsDenied):
            reason = failure.value.record.reason
            self.logger.info("Refused: %s (%s)", failure.request.url, reason)
        else:
            self.logger.error(failure.getErrorMessage())
