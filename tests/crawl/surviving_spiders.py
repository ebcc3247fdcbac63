"""Spiders and components for crawls with a JOBDIR that are killed, stopped and resumed."""

from __future__ import annotations

import os
import resource
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure


class SurvivorSpider(PlanSpider):
    """Makes an item of each page, and follows its links.

    It writes a line to the file ``journal`` when a callback begins or ends, and for each item and each error. Each line
    is written at once, so that a test can read it after the process was killed.
    """

    name = "survivor"
    journal: str
    _file: int | None = None

    def note(self, event: str, url: str) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file = os.open(self.journal, flags)
        os.write(self._file, f"{event} {url}\n".encode())

    def note_item(self, item: dict[str, Any]) -> None:
        self.note("item", item["url"])

    def note_error(self, failure: Failure) -> None:
        super().note_error(failure)
        self.note(self.seen["errors"][-1].get("reason", "error"), failure.request.url)

    def note_response(self, response: Response) -> Iterator[Any]:
        self.note("begin", response.url)
        super().note_response(response)
        yield {"url": response.url}
        yield from self.links(response)
        self.note("end", response.url)

    def links(self, response: Response) -> Iterator[Request]:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.note_response, errback=self.note_error)


class LimitedSurvivorSpider(SurvivorSpider):
    """A SurvivorSpider whose process cannot write beyond ``limit`` bytes in a file for a while.

    The limit begins with page number ``first``, and ends with page number ``last``.
    """

    limit: int
    first: int
    last: int
    pages = 0

    def note_response(self, response: Response) -> Iterator[Any]:
        self.pages += 1
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        if self.pages == self.first:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, hard))
        elif self.pages == self.last:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        yield from super().note_response(response)


class FailingSpider(SurvivorSpider):
    """A SurvivorSpider whose callbacks end in different ways after they have yielded all links.

    The callback of ``/fails`` raises an exception, that of ``/closes`` closes the spider, and that of ``/stops`` stops
    the crawler.
    """

    def note_response(self, response: Response) -> Iterator[Any]:
        yield from super().note_response(response)
        if response.url.endswith("/fails"):
            raise RuntimeError("This callback is broken")
        if response.url.endswith("/closes"):
            raise CloseSpider("enough")
        if response.url.endswith("/stops"):
            deferred = self.crawler.stop()
            if hasattr(deferred, "addErrback"):
                deferred.addErrback(lambda failure: failure.printTraceback())


class UnpicklableSpider(SurvivorSpider):
    """A SurvivorSpider that gives every second link of a page a callback that cannot be serialized."""

    def links(self, response: Response) -> Iterator[Request]:
        for number, request in enumerate(super().links(response)):
            if number % 2:
                yield request.replace(callback=partial(self.note_response))
            else:
                yield request


class DropSome:
    """A downloader middleware of a project that drops the requests whose paths end in 7."""

    async def process_request(self, request: Request) -> None:
        if request.url.endswith("7"):
            raise IgnoreRequest("Not on a Sunday")


class AnswerSome:
    """A downloader middleware of a project that returns a response to the requests whose paths end in 3."""

    async def process_request(self, request: Request) -> TextResponse | None:
        if request.url.endswith("3"):
            headers = {"Content-Type": "text/html"}
            return TextResponse(request.url, body=b"stored", headers=headers)
        return None


class ReplaceSome:
    """A downloader middleware of a project that replaces the requests whose paths end in 5 by requests with a longer
    path.
    """

    async def process_request(self, request: Request) -> Request | None:
        if request.url.endswith("5"):
            return request.replace(url=f"{request.url}-instead")
        return None


class OwnFilter:
    """A duplicate filter of a project that drops only the requests whose paths end in 9, duplicates or not."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OwnFilter:
        dupefilter = cls()
        dupefilter.stats = crawler.stats
        return dupefilter

    def open(self) -> None: ...

    def close(self, reason: str) -> None: ...

    def request_seen(self, request: Request) -> bool:
        return request.url.endswith("9")

    def log(self, request: Request, spider: object) -> None:
        self.stats.inc_value("own_filter/dropped")


class EchoSpider(SurvivorSpider):
    """A SurvivorSpider that records the meta and the size of the body of each request."""

    def note_response(self, response: Response) -> Iterator[Any]:
        yield from super().note_response(response)
        request = response.request
        self.seen["responses"][-1].update(
            meta=dict(request.meta), size=len(request.body)
        )


class DownloadingSurvivorSpider(SurvivorSpider):
    """A SurvivorSpider that downloads the URL ``more`` in each callback, with ``engine.download_async``."""

    more: str

    async def note_response(self, response: Response) -> AsyncIterator[Any]:
        request = Request(self.more, callback=NO_CALLBACK)
        await maybe_deferred_to_future(
            deferred_from_coro(self.crawler.engine.download_async(request))
        )
        self.note("end", response.url)
        yield {"url": response.url}


class StartUrlsSpider(SurvivorSpider):
    """A SurvivorSpider that starts with ``start_urls``, like a spider without a ``start`` method."""

    async def start(self) -> AsyncIterator[Request]:
        self.start_urls = [step["url"] for step in self.steps.pop(0)]
        async for request in Spider.start(self):
            yield request

    parse = SurvivorSpider.note_response
