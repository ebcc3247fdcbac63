"""A spider for hosts with broken answers."""

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
        # Without ``super()``, which would let Scrapy parse the large pages for the report.
        yield {"url": response.url}
