"""A spider for scrapy-poet."""

# scrapy-poet evaluates the annotations of callbacks: PoetSpider removes these.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy import Request
    from scrapy.http import Response


class PoetSpider(PlanSpider):
    """Fetches two more pages for each page, with the HttpClient of scrapy-poet."""

    def request(self, arguments: dict[str, Any]) -> Request:
        # scrapy-poet may not be installed where this module is imported.
        from web_poet import HttpClient  # noqa: PLC0415

        request = super().request(arguments).replace(callback=self.parse_with)
        annotations = type(self).parse_with.__annotations__
        annotations.pop("return", None)
        annotations.pop("response", None)
        annotations["http"] = HttpClient
        return request

    async def parse_with(
        self, response: Response, http: Any
    ) -> AsyncIterator[dict[str, Any]]:
        for path in ("/private/extra", "/extra"):
            url = response.urljoin(path)
            try:
                found = str((await http.get(url)).status)
            except Exception as error:  # noqa: BLE001  a class of web_poet's
                found = repr(error)
            yield {"url": url, "found": found}
