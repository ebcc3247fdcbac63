"""The spiders of the crawls that back off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep import back_off
from tests.crawl.spiders import PlanSpider
from tests.crawl.waiting_spiders import DownloadingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy import Request
    from scrapy.http import Response


class EveryWaySpider(DownloadingSpider):
    """Sends requests in every way that Scrapy has.

    After the response for a URL, it requests those in ``follow``, downloads those in ``more``
    itself, in parallel, and makes an item with those in ``files`` for FilesPipeline.
    """

    follow: dict[str, list[dict[str, Any]]] = {}
    more: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}

    async def note_response(
        self, response: Response
    ) -> AsyncIterator[Request | dict[str, Any]]:
        PlanSpider.note_response(self, response)
        for arguments in self.follow.get(response.url, ()):
            yield self.request(arguments)
        if response.url in self.files:
            yield {"url": response.url, "file_urls": self.files[response.url]}
        # Deferreds exist in every mode, and run in parallel.
        more = self.more.get(response.url, ())
        downloads = [deferred_from_coro(self.download(url)) for url in more]
        for download in downloads:
            yield await maybe_deferred_to_future(download)


class SlowDownSpider(PlanSpider):
    """Asks for a pause of ``pause`` seconds, and repeats the request, if a page says so."""

    pause: float | None = 1.0

    def note_response(self, response: Response) -> Iterator[Request]:
        super().note_response(response)
        if response.body == b"slow down":
            back_off(self.crawler, urlsplit(response.url).hostname, self.pause)
            yield response.request.replace(dont_filter=True)


class HoldBack:
    """A downloader middleware that holds all requests for ``/held`` pages back until a page
    ``/go`` has come.
    """

    def __init__(self) -> None:
        self._held: list[Deferred[None]] = []
        self._may_go = False

    async def process_request(self, request: Request) -> None:
        if "/held" in request.url and not self._may_go:
            waiting: Deferred[None] = Deferred()
            self._held.append(waiting)
            await maybe_deferred_to_future(waiting)

    def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/go"):
            self._may_go = True
            for waiting in self._held:
                waiting.callback(None)
        return response
