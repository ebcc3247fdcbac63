"""Downloader middlewares, add-ons and spiders that users of Scrapy could have in their projects.

The middlewares get the requests for robots.txt as well as the requests of the spider. The spiders stop downloads, drop
the Linux capabilities of their process, or use scrapy-poet.
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

_CAPABILITY_VERSION_3 = 0x20080522  # See linux/capability.h.


def is_robotstxt(request: Request) -> bool:
    return request.url.endswith("/robots.txt")


class QueueAddon:
    """An add-on that sets SCHEDULER_PRIORITY_QUEUE."""

    def update_settings(self, settings: BaseSettings) -> None:
        queue = "scrapy.pqueues.DownloaderAwarePriorityQueue"
        settings.set("SCHEDULER_PRIORITY_QUEUE", queue, "addon")


class SchedulerAddon:
    """An add-on that sets SCHEDULER to a scheduler that is not from Scrapy or scrapy_rep."""

    def update_settings(self, settings: BaseSettings) -> None:
        scheduler = "tests.crawl.test_dry_run.StackScheduler"
        settings.set("SCHEDULER", scheduler, "addon")


class Middleware:
    """The base class of most downloader middlewares in this module. A middleware keeps its crawler in ``crawler``."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)


class NeedsKey(Middleware):
    """Reads the meta key ``wanted`` of each request. Only requests of the spider have this key."""

    def process_request(self, request: Request) -> None:
        request.meta["wanted"]


class NeedsKeyOfResponses(Middleware):
    """Reads the meta key ``wanted`` of a request when its response arrives."""

    def process_response(self, request: Request, response: Response) -> Response:
        request.meta["wanted"]
        return response


class NeedsKeyOfFailures(Middleware):
    """Reads the meta key ``wanted`` of a request when its download has failed."""

    def process_exception(self, request: Request, exception: Exception) -> None:
        request.meta["wanted"]


class CancelRobotsTxt(Middleware):
    """Raises CancelledError when the response for a robots.txt arrives."""

    async def process_response(self, request: Request, response: Response) -> Response:
        if is_robotstxt(request):
            raise asyncio.CancelledError
        return response


class DropRobotsTxt(Middleware):
    """Drops the requests for robots.txt."""

    async def process_request(self, request: Request) -> None:
        if is_robotstxt(request):
            raise IgnoreRequest("DropRobotsTxt drops requests for robots.txt")


class ReplaceRobotsTxt(Middleware):
    """Replaces the response for a robots.txt by a request for another URL, the spider attribute ``instead``.

    If the spider attribute ``is_copy`` is true, the new request is a copy of the request for robots.txt.
    """

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Request:
        if not is_robotstxt(request):
            return response
        url = response.urljoin(self.crawler.spider.instead)
        is_copy = self.crawler.spider.is_copy
        return request.replace(url=url) if is_copy else JsonRequest(url, data={})


class SolveChallenges(Middleware):
    """Repeats each request that was answered with a challenge, with the header ``X-Solved``.

    The stat ``solved/ENCODING/TIMEOUT`` counts the repeated requests for robots.txt, by the Accept-Encoding and the
    time-out of the request that got the challenge.
    """

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


class CountPasses(Middleware):
    """Counts the requests that pass this middleware, except those for robots.txt, in the stat ``passes``."""

    async def process_request(self, request: Request) -> None:
        if not is_robotstxt(request):
            self.crawler.stats.inc_value("passes")


class MarkOnce(Middleware):
    """Returns each request from ``process_request`` once, as the same object, so that Scrapy schedules it again."""

    def process_request(self, request: Request) -> Request | None:
        if isinstance(request, RobotsTxtRequest) or "marked" in request.meta:
            return None
        request.meta["marked"] = True
        request.dont_filter = True
        return request


class RemoveHost(Middleware):
    """Removes the ``Host`` header of each request."""

    def process_request(self, request: Request) -> None:
        request.headers.pop("Host", None)


class PassOnce(Middleware):
    """Drops each request for a URL except the first one and its retries, and logs that. The first request can pass
    again after it has returned to the scheduler.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.first_requests: dict[str, Request] = {}

    async def process_request(self, request: Request) -> None:
        first_request = self.first_requests.setdefault(request.url, request)
        if first_request is not request and "retry_times" not in request.meta:
            self.crawler.spider.logger.info("Once is enough: %s", request.url)
            raise IgnoreRequest("Once is enough")


class ForgetSlots(Middleware):
    """Deletes idle download slots after each response. Scrapy itself deletes them once a minute.

    The stat ``forgotten`` counts the deleted slots.
    """

    def process_response(self, request: Request, response: Response) -> Response:
        downloader = self.crawler.engine.downloader
        before = len(downloader.slots)
        downloader._slot_gc(age=0)
        self.crawler.stats.inc_value("forgotten", before - len(downloader.slots))
        return response


class HoldBack(Middleware):
    """Holds back the requests for URLs that contain ``/held`` until the response for a page ``/go`` has arrived."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.is_open = False
        self.waiting: list[Deferred[None]] = []

    async def process_request(self, request: Request) -> None:
        if "/held" in request.url and not self.is_open:
            self.waiting.append(Deferred())
            await maybe_deferred_to_future(self.waiting[-1])

    def process_response(self, request: Request, response: Response) -> Response:
        if request.url.endswith("/go"):
            self.is_open = True
            for deferred in self.waiting:
                deferred.callback(None)
        return response


class HoldLaterRobotsTxt(Middleware):
    """Holds back all requests for the robots.txt of a host except the first one, and never lets them pass.

    The stat ``held`` counts the requests that it holds back.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.first_urls: set[str] = set()

    async def process_request(self, request: Request) -> None:
        if is_robotstxt(request):
            if request.url in self.first_urls:
                self.crawler.stats.inc_value("held")
                await maybe_deferred_to_future(Deferred())
            self.first_urls.add(request.url)


class LogIn(Middleware):
    """Downloads ``/token`` from the host of each request before the request passes this middleware."""

    async def process_request(self, request: Request) -> None:
        if request.callback is not NO_CALLBACK:
            token = Request(urljoin(request.url, "/token"), callback=NO_CALLBACK)
            await self.crawler.engine.download_async(token)


class FetchParts(Middleware):
    """Downloads ``/part/1`` when the response for ``/part/0`` arrives, and so on up to ``/part/4``."""

    async def process_response(self, request: Request, response: Response) -> Response:
        start, is_part, number = request.url.partition("/part/")
        if is_part and int(number) < 4:
            url = f"{start}/part/{int(number) + 1}"
            part = Request(url, callback=NO_CALLBACK)
            await self.crawler.engine.download_async(part)
        return response


class HideErrors(Middleware):
    """Replaces each error of a download by an empty response."""

    def process_exception(self, request: Request, exception: Exception) -> Response:
        return TextResponse(request.url, status=418, request=request)


class Service(Middleware):
    """Replaces the request for each page by a request to a service that renders pages, as scrapy-splash does.

    The new request is in the download slot of the page's host, and its response gets the URL of the page. If the page
    redirects, the response gets the URL at which the redirects end. The service sends this URL in the header
    ``X-Landed``.
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
    """A Service whose requests have the meta key ``dont_obey_robotstxt``, like the requests of scrapy-splash."""

    is_exempt = True


class SomeService(Service):
    """A Service that gets only the requests for URLs that contain ``/rendered``."""

    def process_request(self, request: Request) -> Request | None:
        if "/rendered" not in request.url:
            return None
        return super().process_request(request)


class HtmlOnlySpider(PlanSpider):
    """Stops the download of each response that is not HTML.

    ``stops_in`` is the signal whose handler raises StopDownload, and ``fails`` is the argument ``fail`` of
    StopDownload.
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
    """Drops its Linux capabilities, so that file permissions apply to its process even if root runs it."""

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, *args: Any, **kwargs: Any
    ) -> PowerlessSpider:
        none = struct.pack("6I", *[0] * 6)
        ctypes.CDLL(None).capset(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), none)
        return super().from_crawler(crawler, *args, **kwargs)


class PoetSpider(PlanSpider):
    """Fetches two more pages for each page, with the HttpClient of scrapy-poet."""

    def request(self, arguments: dict[str, Any]) -> Request:
        # scrapy-poet may not be installed where this module is imported.
        from web_poet import HttpClient  # noqa: PLC0415

        request = super().request(arguments).replace(callback=self.parse_with)
        # scrapy-poet evaluates the annotations of callbacks. The names in the annotations of this module are imported
        # only for type checkers, so scrapy-poet could not evaluate them.
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
    """Replaces each response by the HTML that a browser makes of plain text: a page whose only element is ``<pre>``.

    A middleware that renders each request with Selenium returns such responses.
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
