"""Spiders that make items of pages, or follow links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_rep import usage_preferences
from tests.crawl.spiders import NotingSpider, PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class PageSpider(PlanSpider):
    """Makes an item of each page, and follows all its links."""

    name = "pages"

    def note_response(self, response: Response) -> Iterator[Any]:
        super().note_response(response)
        yield {"url": response.url}
        if hasattr(response, "selector"):
            for link in response.css("a::attr(href), area::attr(href)"):
                yield response.follow(
                    link.get(), self.note_response, errback=self.note_error
                )


class BrokenAnswersSpider(PlanSpider):
    """Makes an item of each page, and does not record the response."""

    def note_response(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {"url": response.url}


class TextLinkSpider(PlanSpider):
    """Makes an item of each response, and follows the values of ``"link"`` in its text, such as in JSON."""

    def note_response(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        for url in re.findall(r'"link": "([^"]+)"', response.text):
            yield Request(url, self.note_response)


class UsagePageSpider(PlanSpider):
    """Makes an item of each page, with the meta key ``rep_purposes`` and the usage preferences of the page."""

    def note_response(self, response: Response) -> Iterator[dict[str, Any]]:
        purposes = response.meta.get("rep_purposes")
        usage = str(usage_preferences(response))
        yield {"url": response.url, "purposes": purposes, "usage": usage}


class AsyncPageSpider(PageSpider):
    """A PageSpider whose callback is an asynchronous generator."""

    async def note_response(self, response: Response) -> AsyncIterator[Any]:
        for output in PageSpider.note_response(self, response):
            yield output


class ListPageSpider(PageSpider):
    """A PageSpider whose callback returns a list."""

    def note_response(self, response: Response) -> list[Any]:
        return list(super().note_response(response))


class RulePageSpider(NotingSpider, CrawlSpider):
    """A CrawlSpider whose rules make an item of each page and follow the links of the page."""

    name = "rule_pages"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)
    steps: list[list[dict[str, Any]]]

    async def start(self) -> AsyncIterator[Request]:
        for arguments in self.steps[0]:
            yield Request(errback=self.note_error, **arguments)

    def parse_start_url(self, response: Response) -> Iterator[Any]:
        return self.parse_page(response)

    def parse_page(self, response: Response) -> Iterator[Any]:
        self.note_response(response)
        yield {"url": response.url}


@dataclass(frozen=True)
class FrozenItem:
    """An item whose fields cannot be changed."""

    url: str
    image_urls: list[str]


class MediaPageSpider(PageSpider):
    """Makes an item of each page, with the URLs of its images for ImagesPipeline, and the URLs of its links for
    FilesPipeline. The item of ``/covers`` is a :class:`FrozenItem`, and has only images.
    """

    def note_response(self, response: Response) -> Iterator[Any]:
        images = response.css("img::attr(src)").getall()
        if response.url.endswith("/covers"):
            yield FrozenItem(response.url, images)
            return
        links = response.css("a::attr(href)").getall()
        yield {"url": response.url, "image_urls": images, "file_urls": links}


class LoginSpider(PlanSpider):
    """Sends requests of all kinds from the page ``/account``: follows its links, sends a form, requests a page without
    a link to it, and downloads a page in the callback and follows its link.
    """

    async def note_response(self, response: Response) -> AsyncIterator[Any]:
        super().note_response(response)
        if not response.url.endswith("/account"):
            return
        for request in response.follow_all(css="a"):
            yield request.replace(callback=self.note_response)
        form = {"user": "me", "password": "secret"}
        url = response.urljoin("/login")
        yield FormRequest(url, formdata=form, callback=self.note_response)
        yield response.follow("/api/orders", self.note_response)
        request = Request(response.urljoin("/awaited"), callback=NO_CALLBACK)
        awaited_response = await self.crawler.engine.download_async(request)
        yield response.follow(
            awaited_response.css("a::attr(href)").get(), self.note_response
        )


class EndlessSpider(Spider):
    """Fetches the pages ``/0``, ``/1`` and so on of ``origin``, until a page contains the text ``stop``."""

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
