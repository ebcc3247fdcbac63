"""Spiders for crawls of several workers on one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.http import Response


class WorkerSpider(PlanSpider):
    """Follows ``links`` from the first page."""

    name = "worker"
    links: list[str] = []

    def request(self, arguments: dict[str, str]) -> Request:
        request = super().request(arguments)
        return request.replace(callback=self.first_page)

    def first_page(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        for url in self.links:
            yield super().request({"url": url})


class BranchingSpider(WorkerSpider):
    """Lets each page link to the next ones, so that requests are pushed all the time."""

    def first_page(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        yield from self.branch(self.links)

    def branch(self, urls: list[str]) -> Iterator[Request]:
        """Return requests for the first URL of each half of *urls*, which then
        follow the rest of that half.
        """
        middle = len(urls) // 2
        for part in (urls[:middle], urls[middle:]):
            if part:
                request = PlanSpider.request(self, {"url": part[0]})
                # Only this part: whole lists would take most of the queue's memory.
                meta = {"links": part[1:]}
                yield request.replace(callback=self.next_page, meta=meta)

    def next_page(self, response: Response) -> Iterator[Request]:
        self.note_response(response)
        yield from self.branch(response.meta["links"])
