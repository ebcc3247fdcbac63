"""A spider for ledgers, which runs until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class EndlessSpider(Spider):
    """Fetches one page after the other, until the text of one contains *stop*."""

    name = "endless"
    origin: str
    steps: list[Any]
    stop = "nothing says this"
    custom_settings = {"DOWNLOAD_DELAY": 0.03, "RANDOMIZE_DOWNLOAD_DELAY": False}

    async def start(self) -> AsyncIterator[Request]:
        yield Request(f"{self.origin}/0")

    def parse(self, response: Response) -> Iterator[Request]:
        if self.stop in response.text:
            raise CloseSpider("stopped")
        number = int(response.url.rpartition("/")[2]) + 1
        yield Request(f"{self.origin}/{number}")
