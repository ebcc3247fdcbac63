"""Spiders that cancel their own downloads, and components that hide what has happened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy import Request
from scrapy.http import TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.frontier.frontier import Frontier
from tests.crawl.waiting_spiders import DownloadingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.internet.defer import Deferred


class CancellingSpider(DownloadingSpider):
    """Downloads ``more`` in parallel in the callback of the first page, and cancels each download
    after the seconds at its place in ``cancel_after``, if that is not None. Afterwards it
    notes in the stats what is left of their places.
    """

    cancel_after: Sequence[float | None] = ()
    is_one_object = False
    """Whether all downloads are of one Request object, for the first URL."""

    async def note_response(self, response: Response) -> AsyncIterator[dict[str, Any]]:
        self.seen["responses"].append({"url": response.url})
        one = Request(self.more[0], callback=NO_CALLBACK)
        started: list[Deferred[Any]] = []
        for number, url in enumerate(self.more):
            request = one if self.is_one_object else Request(url, callback=NO_CALLBACK)
            download = deferred_from_coro(self.crawler.engine.download_async(request))
            seconds = dict(enumerate(self.cancel_after)).get(number)
            if seconds is not None:
                call_later(seconds, download.cancel)
            started.append(download)
        for number, download in enumerate(started):
            try:
                await maybe_deferred_to_future(download)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
                yield {"number": number, "error": type(error).__name__}
            else:
                yield {"number": number, "error": ""}
        over: Deferred[None] = deferred_from_coro(self.note_rest())
        await maybe_deferred_to_future(over)

    async def note_rest(self) -> None:
        frontier = Frontier.of(self.crawler)
        frontier.settle()
        scopes = list(frontier.core.scopes.all())
        note = self.crawler.stats.set_value
        note("in_flight", [scope.in_flight for scope in scopes])
        note("tickets", [scope.tickets for scope in scopes])


class LogIn:
    """A downloader middleware of a project, which fetches a token from each host before it
    lets a request pass.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LogIn:
        middleware = cls()
        middleware.crawler = crawler
        return middleware

    async def process_request(self, request: Request) -> None:
        if request.callback is not NO_CALLBACK:
            token = Request(urljoin(request.url, "/token"), callback=NO_CALLBACK)
            await self.crawler.engine.download_async(token)


class HideErrors:
    """A downloader middleware of a project, which turns each error into an empty response."""

    def process_exception(self, request: Request, exception: Exception) -> Response:
        return TextResponse(request.url, status=418, request=request)
