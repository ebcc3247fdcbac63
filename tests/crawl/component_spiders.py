"""Downloader middlewares of projects, which meet the requests for robots.txt as well as those of
the spider; and spiders that stop downloads, have fewer rights, or need scrapy-poet.
"""

from __future__ import annotations

import asyncio
import ctypes
import html
import struct
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import HtmlResponse, JsonRequest, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from tests.crawl.spiders import PlanSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

_VERSION_3 = 0x20080522  # See linux/capability.h.


def is_robotstxt(request: Request) -> bool:
    return request.url.endswith("/robots.txt")


class QueueAddon:
    """An add-on that has a queue of its own."""

    def update_settings(self, settings: BaseSettings) -> None:
        queue = "scrapy.pqueues.DownloaderAwarePriorityQueue"
        settings.set("SCHEDULER_PRIORITY_QUEUE", queue, "addon")


class SchedulerAddon:
    """An add-on that has a scheduler of its own."""

    def update_settings(self, settings: BaseSettings) -> None:
        scheduler = "tests.crawl.test_dry_run.StackScheduler"
        settings.set("SCHEDULER", scheduler, "addon")


class Component:
    """A downloader middleware of a project."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.seen: set[str] = set()
        self.first: dict[str, Request] = {}
        self.held: list[Deferred[None]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)


class NeedsKey(Component):
    """Reads a meta key of every request, although only requests of the spider have it."""

    def process_request(self, request: Request) -> None:
        request.meta["wanted"]


class NeedsKeyOfResponses(Component):
    def process_response(self, request: Request, response: Response) -> Response:
        request.meta["wanted"]
        return response


class NeedsKeyOfFailures(Component):
    def process_exception(self, request: Request, exception: Exception) -> None:
        request.meta["wanted"]


class CancelRobotsTxt(Component):
    """Raises CancelledError when the response for robots.txt comes."""

    async def process_response(self, request: Request, response: Response) -> Response:
        if is_robotstxt(request):
            raise asyncio.CancelledError
        return response


class DropRobotsTxt(Component):
    async def process_request(self, request: Request) -> None:
        if is_robotstxt(request):
            raise IgnoreRequest("The firm does not read the small print")


class ReplaceRobotsTxt(Component):
    """Returns a request for ``instead`` in place of the response for each robots.txt, as a copy
    of its request or as a new one (``is_copy``).
    """

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        if not is_robotstxt(request):
            return response
        url = response.urljoin(self.crawler.spider.instead)
        is_copy = self.crawler.spider.is_copy
        return request.replace(url=url) if is_copy else JsonRequest(url, data={})


class SolveChallenges(Component):
    """Repeats each request that a challenge has answered, and counts in what ways a robots.txt is requested."""

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        if response.body != b"a challenge":
            return response
        if is_robotstxt(request):
            encoding = request.headers["Accept-Encoding"].decode()
            timeout = request.meta["download_timeout"]
            self.crawler.stats.inc_value(f"solved/{encoding}/{timeout:g}")
        headers = {**request.headers, "X-Solved": "yes"}
        return request.replace(headers=headers, dont_filter=True)


class CountPasses(Component):
    """Counts the requests that pass it, in the stat ``passes``."""

    async def process_request(self, request: Request) -> None:
        if not is_robotstxt(request):
            self.crawler.stats.inc_value("passes")


class MarkOnce(Component):
    """Marks each request, and returns the same object, so that Scrapy schedules it anew."""

    def process_request(self, request: Request) -> Request | None:
        if isinstance(request, RobotsTxtRequest) or "marked" in request.meta:
            return None
        request.meta["marked"] = True
        request.dont_filter = True
        return request


class RemoveHost(Component):
    """Removes the ``Host`` header of each request."""

    def process_request(self, request: Request) -> None:
        request.headers.pop("Host", None)


class PassOnce(Component):
    """Drops the second request for each URL. A request that was returned to the scheduler passes again."""

    async def process_request(self, request: Request) -> None:
        if self.first.setdefault(request.url, request) is not request:
            raise IgnoreRequest("Once is enough")


class ForgetSlots(Component):
    """Deletes idle download slots after each response, instead of each minute."""

    def process_response(self, request: Request, response: Response) -> Response:
        downloader = self.crawler.engine.downloader
        before = len(downloader.slots)
        downloader._slot_gc(age=0)
        self.crawler.stats.inc_value("forgotten", before - len(downloader.slots))
        return response


class HoldBack(Component):
    """Holds all requests for ``/held`` pages back until a page ``/go`` has come."""

    async def process_request(self, request: Request) -> None:
        if "/held" in request.url and not self.seen:
            self.held.append(Deferred())
            await maybe_deferred_to_future(self.held[-1])

    def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/go"):
            self.seen.add(request.url)
            for waiting in self.held:
                waiting.callback(None)
        return response


class LogIn(Component):
    """Fetches a token from each host before it lets a request pass."""

    async def process_request(self, request: Request) -> None:
        if request.callback is not NO_CALLBACK:
            token = Request(urljoin(request.url, "/token"), callback=NO_CALLBACK)
            await self.crawler.engine.download_async(token)


class HideErrors(Component):
    """Turns each error into an empty response."""

    def process_exception(self, request: Request, exception: Exception) -> Response:
        return TextResponse(request.url, status=418, request=request)


class Service(Component):
    """Replaces each request by one to a service, in the download slot of the site, and
    gives the response the URL of the site, as scrapy-splash does.
    """

    is_exempt = False

    def process_request(self, request: Request) -> Request | None:
        if isinstance(request, RobotsTxtRequest) or "rendered" in request.meta:
            return None
        host = urlsplit(request.url).hostname
        meta = {**request.meta, "rendered": request.url, "download_slot": host}
        if self.is_exempt:
            meta["dont_obey_robotstxt"] = True
        service = self.crawler.settings["SERVICE_URL"]
        url = f"{service}/render?url={quote(request.url, safe='')}"
        return request.replace(url=url, method="POST", meta=meta, dont_filter=True)

    def process_response(self, request: Request, response: Response) -> Response:
        if "rendered" not in request.meta:
            return response
        landed = response.headers.get("X-Landed", b"").decode()
        return response.replace(url=landed or request.meta["rendered"])


class ExemptService(Service):
    """A Service whose requests have ``dont_obey_robotstxt``, as those of scrapy-splash have."""

    is_exempt = True


class SomeService(Service):
    """A Service for URLs with the path ``/rendered`` alone."""

    def process_request(self, request: Request) -> Request | None:
        if "/rendered" not in request.url:
            return None
        return super().process_request(request)


class HtmlOnlySpider(PlanSpider):
    """Stops the download of all that is not HTML, in a handler of *stops_in*, with the
    argument *fails* of StopDownload.
    """

    stops_in = "headers_received"
    fails = False

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> HtmlOnlySpider:
        spider = super().from_crawler(crawler, *args, **kwargs)
        receiver = getattr(spider, f"on_{spider.stops_in}")
        crawler.signals.connect(receiver, getattr(signals, spider.stops_in))
        return spider

    def on_headers_received(self, headers: Headers) -> None:
        if b"html" not in headers.get("Content-Type", b""):
            raise StopDownload(fail=self.fails)

    def on_bytes_received(self, data: bytes, request: Request) -> None:
        if b"<" not in data:
            raise StopDownload(fail=self.fails)


class PowerlessSpider(PlanSpider):
    """Drops its capabilities, so that file modes apply to it also if root runs it."""

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> PowerlessSpider:
        none = struct.pack("6I", *[0] * 6)
        ctypes.CDLL(None).capset(struct.pack("Ii", _VERSION_3, 0), none)
        return super().from_crawler(crawler, *args, **kwargs)


class PoetSpider(PlanSpider):
    """Fetches two more pages for each page, with the HttpClient of scrapy-poet. As scrapy-poet evaluates the
    annotations of callbacks, this spider removes those of its own.
    """

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
                outcome = str((await http.get(url)).status)
            except Exception as error:  # noqa: BLE001  a class of web_poet's
                outcome = repr(error)
            yield {"url": url, "found": outcome}


class RenderingMiddleware:
    """Shows each response as a browser does, as a middleware with Selenium renders each request:
    plain text is the only ``<pre>`` of a page.
    """

    def process_response(self, request, response):
        text = html.escape(response.body.decode(), quote=False)
        page = (
            '<html><head><meta name="color-scheme" content="light dark"></head><body>'
            '<pre style="word-wrap: break-word; white-space: pre-wrap;">'
            f"{text}</pre></body></html>"
        )
        return HtmlResponse(
            response.url, response.status, body=page.encode(), encoding="utf-8"
        )
