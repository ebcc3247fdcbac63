"""Spiders that crawl hosts that lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response


class LiedToSpider(PlanSpider):
    """Makes an item of each page."""

    name = "lied-to"

    def note_response(self, response: Response) -> Iterator[dict[str, Any]]:
        # What the page says has been read; to look into it would take Scrapy long.
        yield {"url": response.url}
