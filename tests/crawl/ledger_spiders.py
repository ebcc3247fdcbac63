"""Spiders for ledgers: one runs until it is stopped, one has a permission that ends."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response
    from scrapy.settings import BaseSettings


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


class PermittedSpider(PlanSpider):
    """May ignore the robots.txt of 127.0.0.1 for the first seconds of its crawl."""

    PERMITTED = 5
    """How many seconds."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        until = datetime.now(timezone.utc) + timedelta(seconds=cls.PERMITTED)
        entry = {"obey": False, "reason": "agreed", "until": until.isoformat()}
        settings.set("REP_OVERRIDES", {"127.0.0.1": entry}, "spider")
