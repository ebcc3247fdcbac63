"""Spiders with a wrong clock, with downloads after the end of the crawl, and with requests of all kinds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep import back_off
from scrapy_rep.base import clock
from scrapy_rep.crawl.frontier.frontier import Frontier
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response


class ClockSpider(PlanSpider):
    """Sets the wall clock of its process forward by ``offset`` seconds."""

    offset = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> ClockSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        now = time.time
        time.time = lambda: now() + spider.offset
        clock.Clock.time = staticmethod(time.time)
        return spider


class SleepSpider(PlanSpider):
    """Sends the requests in ``follow`` after each page. Sets the monotonic clock of its process forward by ``seconds``
    when the response for the page ``/sleep`` arrives, before the crawl reads the response.
    """

    follow: dict[str, list[dict[str, Any]]] = {}
    seconds = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> SleepSpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.sleep, signals.response_downloaded)
        return spider

    def sleep(self, response: Response) -> None:
        if response.url.endswith("/sleep"):
            now, seconds = time.monotonic, self.seconds
            clock.Clock.monotonic = staticmethod(lambda: now() + seconds)

    def note_response(self, response: Response) -> Iterator[Request]:
        super().note_response(response)
        yield from map(self.request, self.follow.get(response.url, ()))


class LateSpider(PlanSpider):
    """Downloads the URLs in ``late`` after it has been closed."""

    late: list[str] = []

    async def closed(self, reason: str) -> None:
        for url in self.late:
            sending = self.crawler.engine.download_async(Request(url))
            try:
                await maybe_deferred_to_future(deferred_from_coro(sending))
            except Exception as error:  # noqa: BLE001
                self.seen["errors"].append({"url": url, "error": repr(error)})


class EveryWaySpider(PlanSpider):
    """Sends requests in each way that Scrapy has: from callbacks, with ``engine.download_async``, and for files.

    The attributes say what the callback of a page does, by the URL of the page:

    - ``follow``: the requests that it yields.
    - ``more``: the URLs that it downloads, all at the same time. A URL that is listed twice is downloaded twice with
      one Request object.
    - ``cancel_after``: for each URL in ``more``, the seconds after which its download is cancelled, or None.
    - ``files``: the URLs that FilesPipeline downloads.

    When the downloads have ended, the stat ``limiter/HOST`` says how many requests to this host are still in flight or
    waiting. If the body of a page is ``slow down``, the callback calls ``back_off`` for a second, and repeats the
    request.
    """

    follow: dict[str, list[dict[str, Any]]] = {}
    more: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    cancel_after: dict[str, list[float | None]] = {}

    async def note_response(
        self, response: Response
    ) -> AsyncIterator[Request | dict[str, Any]]:
        PlanSpider.note_response(self, response)
        if response.body == b"slow down":
            back_off(self.crawler, urlsplit(response.url).hostname, 1.0)
            yield response.request.replace(dont_filter=True)
        for arguments in self.follow.get(response.url, ()):
            yield self.request(arguments)
        if response.url in self.files:
            yield {"url": response.url, "file_urls": self.files[response.url]}
        more = self.more.get(response.url, [])
        requests = {url: Request(url, callback=NO_CALLBACK) for url in more}
        after = [*self.cancel_after.get(response.url, ()), *[None] * len(more)]
        downloads = []
        for url, seconds in zip(more, after, strict=False):
            # deferred_from_coro() starts the download now, with any reactor. A bare coroutine would start only when it
            # is awaited.
            sending = self.crawler.engine.download_async(requests[url])
            download = deferred_from_coro(sending)
            if seconds is not None:
                call_later(seconds, download.cancel)
            downloads.append((url, download))
        for url, download in downloads:
            item: dict[str, Any] = {"url": url, "error": None}
            try:
                download_response = await maybe_deferred_to_future(download)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
                item["error"] = type(error).__name__
            else:
                item["status"] = download_response.status
                item["meta"] = list(download_response.meta)
            yield item
        for host in {urlsplit(url).hostname for url in more}:
            noting = deferred_from_coro(self.note_limiter(host))
            await maybe_deferred_to_future(noting)

    async def note_limiter(self, host: str) -> None:
        """Note how many requests the limiter of *host* counts as in flight and as waiting."""
        frontier = Frontier.of(self.crawler)
        # While other requests are active, the frontier can be late to notice that a request has ended.
        frontier._end_unseen()
        limiter = frontier.limits.limiter(host)
        counts = {
            "in_flight": limiter.planned + limiter.sent,
            "waiting": len(limiter.waiters or ()),
        }
        self.crawler.stats.set_value(f"limiter/{host}", counts)


class ReturningSpider(PlanSpider):
    """Returns to a host after the crawl has forgotten it. ``later`` maps the URL of a page to the URL that its callback
    requests when the frontier has forgotten all sites. Before that, the callback pauses the host for ``pause`` seconds.
    """

    later: dict[str, str] = {}
    pause = 0.0

    async def note_response(self, response: Response) -> AsyncIterator[Request]:
        super().note_response(response)
        url = self.later.get(response.url)
        if url is not None:
            frontier = Frontier.of(self.crawler)
            while frontier.limits.sites:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            back_off(self.crawler, urlsplit(url).hostname, self.pause)
            yield self.request({"url": url})


class ExhaustingSpider(PlanSpider):
    """Uses up the file descriptors of its process in the callback of the page ``/exhaust``, for ``seconds``, and then
    requests the URLs in ``follow``.
    """

    follow: list[str] = []
    seconds = 0.0

    def note_response(self, response: Response) -> Iterator[Request]:
        super().note_response(response)
        if response.url.endswith("/exhaust"):
            files = []
            with contextlib.suppress(OSError):
                while True:
                    files.append(os.open(os.devnull, os.O_RDONLY))
            call_later(self.seconds, self.close_files, files)
            yield from (self.request({"url": url}) for url in self.follow)

    def close_files(self, files: list[int]) -> None:
        for file in files:
            os.close(file)
