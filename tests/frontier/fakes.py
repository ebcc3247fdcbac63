"""Crawls with Scrapy's downloader, but without engine, network, threads or a real clock: the test
triggers each event.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from ipaddress import ip_address
from itertools import count
from math import inf, nextafter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest import mock

from scrapy import Request, signals
from scrapy.core import downloader as downloading
from scrapy.core.downloader import Downloader
from scrapy.core.downloader import middleware as managing
from scrapy.http import Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import default_settings
from scrapy.spiders import Spider
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils import defer, signal
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred, succeed

from scrapy_rep.base.clock import Clock
from scrapy_rep.crawl.fetching import cache
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.queue import HostQueue
from scrapy_rep.crawl.gate import RobotsTxtMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twisted.python.failure import Failure

    from scrapy_rep.protocol.access.results import CacheEntry
    from scrapy_rep.protocol.origins import Origin

LOOPBACK = ip_address("127.0.0.1")
NO_JITTER = (
    "DOWNLOAD_DELAY_JITTER"
    if hasattr(default_settings, "DOWNLOAD_DELAY_JITTER")
    else "RANDOMIZE_DOWNLOAD_DELAY"
)
"""The setting that switches off the random part of a DOWNLOAD_DELAY."""

NOON = 1_704_110_400.0
"""The first of January 2024, 12:00 UTC."""


@contextmanager
def no_event_loop() -> Iterator[None]:
    """Run coroutines without an event loop, as under a Twisted reactor other than
    asyncio's: each one runs at once, up to its first wait. The downloader has the time of the
    last :class:`FakeClock`.
    """

    async def at_once() -> None:
        """Wait for nothing."""

    def now() -> float:
        return FakeClock.last.monotonic()

    def call_later(seconds: float, function: Callable[..., None], *given: Any) -> Timer:
        return FakeClock.last.call_later(seconds, partial(function, *given))

    names = {
        "_process_pending_io": at_once,
        "_defer_sleep_async": at_once,
        "monotonic": now,
        "time": now,
        "call_later": call_later,
        "create_looping_call": mock.Mock(),
    }
    with ExitStack() as patches:
        for module in (defer, signal):
            name = "is_asyncio_available"
            patches.enter_context(mock.patch.object(module, name, return_value=False))
        for module in (managing, downloading):
            found = {name: names[name] for name in names if hasattr(module, name)}
            patches.enter_context(mock.patch.multiple(module, **found))
        yield


class FakeClock(Clock):
    """A clock that stands still until the test calls :meth:`advance`."""

    last: ClassVar[FakeClock]

    def __init__(self) -> None:
        FakeClock.last = self
        self._now = 1000.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._number = count()
        self._epoch = NOON - self._now

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now + self._epoch

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back by *seconds*."""
        self._epoch -= seconds

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        assert seconds >= 0
        timer = Timer(function)
        moment = self._now + seconds
        if seconds and moment == self._now:
            # The delay is below the resolution of the clock: the timer is due one step
            # later.
            moment = nextafter(moment, inf)
        heappush(self._timers, (moment, next(self._number), timer))
        return timer

    @property
    def next_timer(self) -> float | None:
        """Seconds until the next timer is due, or None without timers."""
        while self._timers and self._timers[0][2].is_cancelled:
            heappop(self._timers)
        return max(self._timers[0][0] - self._now, 0.0) if self._timers else None

    @property
    def timers(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer in self._timers)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass, and call each timer at its moment."""
        end = self._now + seconds
        while self.next_timer is not None and self._timers[0][0] <= end:
            moment, _, timer = heappop(self._timers)
            self._now = max(self._now, moment)
            timer.function()
        self._now = end


@dataclass
class Timer:
    function: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeStoreClient:
    """A store of robots.txt files that several crawls share."""

    def __init__(self) -> None:
        self._entries: dict[Origin, CacheEntry] = {}

    def put(self, key: Origin, entry: CacheEntry) -> Deferred[None]:
        self._entries[key] = entry
        return succeed(None)

    async def get(self, key: Origin) -> CacheEntry | None:
        return self._entries.get(key)


class Lingering:
    """A downloader middleware of a project, after that of this package: it holds requests back."""

    def __init__(self) -> None:
        self.requests: dict[Request, Deferred[None]] = {}

    async def process_request(self, request: Request) -> None:
        if request.meta.get("fate") == "lingers":
            self.requests[request] = Deferred()
            try:
                await maybe_deferred_to_future(self.requests[request])
            finally:
                del self.requests[request]


class Network:
    """Takes requests from Scrapy's downloader, for the test to answer them."""

    def __init__(self) -> None:
        self.requests: dict[Request, Deferred[Response]] = {}
        self.on_send: list[Callable[[Request], None]] = []
        self.on_end: list[Callable[[Request], None]] = []

    async def download_request_async(self, request: Request) -> Response:
        """Called by the downloader, of which this replaces all download handlers."""
        self.requests[request] = Deferred()
        for listener in self.on_send:
            listener(request)
        try:
            return await maybe_deferred_to_future(self.requests[request])
        finally:
            del self.requests[request]
            for listener in self.on_end:
                listener(request)

    def end(self, request: Request, result: Response | Exception) -> None:
        """Answer *request* with a response, or fail it with an exception."""
        answer = self.requests[request]
        is_error = isinstance(result, Exception)
        answer.errback(result) if is_error else answer.callback(result)


class FakeEngine:
    """An engine without a heartbeat: it asks the queues for requests only
    after a call of ``wake``.
    """

    downloader: Downloader
    running = False
    """As before it has started: nothing closes the spider but the test."""

    def __init__(self) -> None:
        self.scraper = SimpleNamespace(is_full=False)
        needs_backout = partial(getattr, self.scraper, "is_full")
        self.scraper.slot = SimpleNamespace(needs_backout=needs_backout)
        self.is_woken = False
        self.wakes = 0
        self.in_progress: set[Request] = set()
        """The requests whose callbacks have not ended."""

        self._slot = SimpleNamespace(
            closing=None,
            inprogress=self.in_progress,
            nextcall=SimpleNamespace(schedule=self.wake),
        )

    def wake(self) -> None:
        self.is_woken = True
        self.wakes += 1

    def close(self) -> None:
        self._slot.closing = Deferred()

    async def download_async(self, request: Request) -> Response:
        try:
            return await maybe_deferred_to_future(self.downloader.fetch(request))
        finally:
            self.wake()


class Crawl:
    """A crawl with two queues, as Scrapy's scheduler has one in memory and one on disk.
    Time is that of *clock*. With *obey* False, this package's middleware is off.
    """

    _all: ClassVar[list[Crawl]] = []
    spider_class: ClassVar[type[Spider]] = Spider

    @classmethod
    def abandon_all(cls) -> None:
        """Close all crawls of a test, so that none of their coroutines waits
        for the garbage collector.
        """
        for crawl in cls._all:
            crawl.engine.close()
            if crawl.frontier.rules is not None:
                crawl.frontier.rules.close()
        cls._all.clear()

    def __init__(
        self,
        *,
        obey: bool = True,
        clock: FakeClock | None = None,
        store_client: FakeStoreClient | None = None,
        **settings: Any,
    ) -> None:
        self._all.append(self)
        own = {
            "ROBOTSTXT_OBEY": obey,
            "ROBOTSTXT_USER_AGENT": "bot",
            "EXTENSIONS_BASE": {},
            "DOWNLOADER_MIDDLEWARES_BASE": {},
            "DOWNLOADER_MIDDLEWARES": {RobotsTxtMiddleware: 595, Lingering: 700},
            NO_JITTER: 0,
        }
        self.crawler = get_crawler(self.spider_class, {**own, **settings})
        self.crawler.spider = self.spider_class.from_crawler(self.crawler, "fake")
        self.clock = clock or FakeClock()
        self.engine = self.crawler.engine = FakeEngine()
        self.frontier = Frontier(self.crawler, self.clock)
        components = vars(self.crawler).setdefault("_scrapy_rep_components", {})
        components[Frontier] = self.frontier
        with mock.patch.object(
            cache, "open_client", return_value=(store_client, 10**8)
        ):
            self.downloader = self.engine.downloader = Downloader(self.crawler)
        self.network = self.downloader.handlers = Network()
        self.queues: list[Any] = self._open_queues()
        self.sent: list[Request] = []
        self.network.on_send.append(self.sent.append)
        self.ended: dict[Request, Response | Exception] = {}
        """The results of requests that were popped, or downloaded from outside."""

    def _open_queues(self) -> list[Any]:
        queue = partial(HostQueue.from_crawler, self.crawler, LifoMemoryQueue, "")
        return [queue(), queue()]

    @property
    def lingering(self) -> dict[Request, Deferred[None]]:
        """The requests that a middleware after this package's holds back."""
        (*_, found) = self.downloader.middleware.middlewares
        assert isinstance(found, Lingering)
        return found.requests

    # The side of the crawler.

    def push(self, request: Request | str, queue: int = 0) -> Request:
        if isinstance(request, str):
            request = page(request)
        self.queues[queue].push(request)
        self.engine.wake()
        return request

    def pop(self) -> Request | None:
        """Pop a request as a scheduler does: from the queue in memory first."""
        return next(filter(None, (queue.pop() for queue in self.queues)), None)

    def run(self) -> list[Request]:
        """Pop and start requests until the engine was not woken
        again. Return what was popped.
        """
        popped = []
        while self.engine.is_woken:
            self.engine.is_woken = False
            while len(self.downloader.active) < self.downloader.total_concurrency:
                request = self.pop()
                if request is None:
                    break
                popped.append(request)
                self.start(request)
        return popped

    def start(self, request: Request) -> Deferred[None]:
        """Give *request* to the downloader."""
        return deferred_from_coro(self._start(request))

    def outside(self, url: str, **meta: Any) -> Request:
        """Download *url* past the queues, as a media pipeline or a callback does."""
        request = Request(url, callback=NO_CALLBACK, meta=meta)
        self.start(request)
        return request

    async def _start(self, request: Request) -> None:
        self.engine.in_progress.add(request)
        try:
            self.ended[request] = await self.engine.download_async(request)
        except Exception as exception:  # noqa: BLE001  whatever it is
            self.ended[request] = exception
        if not request.meta.get("callback_takes_long"):
            self.engine.in_progress.remove(request)

    # The side of the network.

    def pass_time(self, seconds: float) -> list[Request]:
        self.clock.advance(seconds)
        return self.run()

    @property
    def on_network(self) -> list[str]:
        """The URLs of the requests under way, in the order in which they were sent."""
        return [request.url for request in self.network.requests]

    def answer(
        self,
        request: Request | str,
        body: str = "",
        status: int = 200,
        *,
        runs: bool = True,
        **headers: str,
    ) -> list[Request]:
        """Let the server answer *request*. Return the requests that are popped after that."""
        request = self._find(request)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        # With an address, redirects need no DNS lookup.
        given = {"request": request, "ip_address": LOOPBACK, "headers": fields}
        response = TextResponse(request.url, status=status, body=body.encode(), **given)
        self.network.end(request, response)
        return self.run() if runs else []

    def fail(
        self, request: Request | str, error: Exception, *, runs: bool = True
    ) -> list[Request]:
        self.network.end(self._find(request), error)
        return self.run() if runs else []

    def _find(self, request: Request | str) -> Request:
        if isinstance(request, Request):
            return request
        return next(one for one in self.network.requests if one.url == request)

    def opened(self) -> None:
        self._send(signals.spider_opened)

    def close(self, seconds: float = 0.2) -> None:
        """Close the spider, and let *seconds* pass."""
        self.engine.close()
        self.clock.advance(seconds)

    def closed(self) -> None:
        self.downloader.close()
        self._send(signals.spider_closed, reason="")

    def _send(self, name: object, **given: str) -> None:
        self.crawler.signals.send_catch_log(name, spider=self.crawler.spider, **given)


def page(url: str, **meta: Any) -> Request:
    """Return a request as a spider makes it."""
    return Request(url, errback=_errback, meta=meta)


def _errback(failure: Failure) -> None:
    """The errback of a spider."""


def is_robotstxt(request: Request) -> bool:
    return isinstance(request, RobotsTxtRequest)
