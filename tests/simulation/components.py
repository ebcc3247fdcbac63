"""Downloader middlewares that a project might have. They fetch pages themselves, hold requests back, change requests,
or replace requests and responses.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy.exceptions import IgnoreRequest

from tests.simulation.crawl import (
    STORY,
    make_request,
    record_error,
    record_outcome,
    response_to,
    send,
)
from tests.simulation.world import (
    FIRST_CHANGED,
    FIRST_LEAF,
    OTHER_AGENT,
    is_robotstxt,
    number_in,
    path_of,
)

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

    from tests.simulation.crawl import Story


class DriverError(Exception):
    """The exception that a browser driver raises for any failure. The crawl cannot recognise it as a network error."""


class _Component:
    """The base class of the middlewares. It has the crawler, the record (story) of the running crawl, and the world."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.story: Story = STORY.get()
        self.world = self.story.world

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)


class Driver(_Component):
    """A middleware that fetches pages itself, as scrapy-selenium does, so that their requests never reach the add-on's
    WireMiddleware. See :class:`tests.simulation.world.Driver`.
    """

    async def process_request(self, request: Request) -> Response | None:
        driver = self.world.driver
        assert driver is not None
        if not driver.applies_to(urlsplit(request.url).path):
            return None
        sent = send(self.story, request, is_by_driver=True)
        if driver.is_blocking:
            time.sleep(sent.answer.seconds)  # noqa: ASYNC251  Selenium blocks the event loop
        else:
            await asyncio.sleep(sent.answer.seconds)
        sent.received_at = asyncio.get_running_loop().time()
        if sent.answer.error and driver.has_own_errors:
            sent.raised_driver_error = True
            raise DriverError(sent.answer.error)
        return response_to(request, sent)


class Hold(_Component):
    """A middleware that holds requests back for some seconds. In some worlds, it then downloads another page before it
    lets the request go. See :class:`tests.simulation.world.Hold`.
    """

    async def process_request(self, request: Request) -> None:
        hold = self.world.hold
        assert hold is not None
        path = urlsplit(request.url).path
        if not hold.applies_to(path):
            return
        self.story.held_since[request] = asyncio.get_running_loop().time()
        await asyncio.sleep(hold.seconds)
        number = -1 if is_robotstxt(path) else number_in(path)
        if hold.downloads and 0 <= number < FIRST_LEAF:
            await self._download(request, number)

    async def _download(self, parent: Request, number: int) -> None:
        """Download another page, usually of another host, and record the outcome. Errors are not raised."""
        host = self.world.hosts[urlsplit(parent.url).netloc]
        other_host = host.other_hosts[number % len(host.other_hosts)]
        url = f"http://{other_host}{path_of(FIRST_LEAF + 1_000 + number)}"
        request = make_request(
            self.story, url, parent.meta["asked"], bypasses_scheduler=True
        )
        assert self.crawler.engine is not None
        with suppress(Exception):
            try:
                response = await self.crawler.engine.download_async(request)
            except Exception as error:
                record_error(self.story, request, error)
                raise
            record_outcome(self.story, request, status=response.status)


class Replacement(_Component):
    """A middleware that drops responses, or replaces requests and responses by new requests. A request that is itself a
    replacement is not replaced again. See :class:`tests.simulation.world.Replacement`.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        assert self.world.replacement is not None
        self.kind = self.world.replacement.kind

    def process_request(self, request: Request) -> Request | None:
        if self.kind != "rewrite" or not self._applies_to(request):
            return None
        return self._request_other_page(request)

    def process_response(self, request: Request, response: Response) -> Any:
        if (
            self.kind == "rewrite"
            or response.status != 200
            or not self._applies_to(request)
        ):
            return response
        if self.kind == "drop":
            raise IgnoreRequest("simulated: the response is of no use")
        return (
            self._repeat(request)
            if self.kind == "repeat"
            else self._request_other_page(request)
        )

    def _applies_to(self, request: Request) -> bool:
        path = urlsplit(request.url).path
        assert self.world.replacement is not None
        is_new = "replaced" not in request.meta and "asked" in request.meta
        return is_new and self.world.replacement.applies_to(path)

    def _repeat(self, request: Request) -> Request:
        """Return a copy of the request, with the mark ``replaced`` in its ``meta``."""
        meta = {**request.meta, "replaced": True}
        return request.replace(meta=meta, dont_filter=True)

    def _request_other_page(self, request: Request) -> Request:
        """Return a request for another page, often of another host."""
        parts = urlsplit(request.url)
        url = self.world.hosts[parts.netloc].redirected(number_in(parts.path))
        return self._repeat(request).replace(url=url)


class Change(_Component):
    """A middleware that changes the URL or the User-Agent of requests, after the add-on has allowed them. See
    :class:`tests.simulation.world.Change`.
    """

    def process_request(self, request: Request) -> None:
        change, parts = self.world.change, urlsplit(request.url)
        assert change is not None
        if not change.applies_to(parts.path):
            return
        if change.kind == "url":
            path = path_of(FIRST_CHANGED + number_in(parts.path))
            request._set_url(f"http://{parts.netloc}{path}")
        else:
            request.headers["User-Agent"] = f"{OTHER_AGENT}/1.0"
