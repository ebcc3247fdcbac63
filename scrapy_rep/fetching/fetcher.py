"""Downloads one robots.txt through Scrapy's engine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.cookies import CookieJar
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import CancelledError, DeferredSemaphore

from scrapy_rep import stats
from scrapy_rep.compat.internals import has_room, room_in_downloader
from scrapy_rep.compat.versions import NO_SERVER_ERRORS
from scrapy_rep.exceptions import BackingOff, RobotsDenied, SpiderClosing
from scrapy_rep.fetching.answers import are_cookies_short, headers_of, redirect_target
from scrapy_rep.fetching.boundary import Boundary
from scrapy_rep.fetching.decompression import UndecodableBody
from scrapy_rep.fetching.failures import in_words
from scrapy_rep.fetching.request import Fetch, RobotsTxtRequest
from scrapy_rep.log import get_logger
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.origins import origin_of, split_virtual_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.fetching.cache import Known
    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.settings import RepSettings

    # Finds the robots.txt of an origin, for the requests that wait for it; None if an entry
    # of REP_OVERRIDES replaces it.
    RobotsOf: TypeAlias = Callable[[Origin, Causes], Awaitable[Known | None]]

logger = get_logger(__name__)

MAX_ON_NETWORK = 256
"""The number of requests for robots.txt that may be on the network at once."""

_PROXY_REFUSES = 407

_PRIVATE = "redirected to {}, which is at a private address (REP_REDIRECT_PRIVATE)"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Turn(Protocol):
    """Makes a request for robots.txt wait for its place at a host."""

    def __call__(
        self, request: Request, *, is_redirected: bool
    ) -> AbstractAsyncContextManager[None]:
        """Wait until *request* may be sent to its host. Other requests to the host wait until
        the context ends. *is_redirected* is True after a redirect to another origin. Raises
        BackingOff if the host has asked for too long a pause.
        """


@asynccontextmanager
async def at_once(request: Request, *, is_redirected: bool) -> AsyncIterator[None]:
    """A turn without a wait."""
    yield


class RobotsTxtFetcher:
    """Fetches robots.txt through Scrapy's downloader.

    These requests use the proxies, TLS settings and connections of ordinary requests. But
    the middlewares that redirect, retry, cache or drop ordinary requests must not touch them:
    the crawler would take the result for the rules of the site.

    Each request is sent in a *turn* of its host. At most :data:`MAX_ON_NETWORK` are on the
    network at once, in addition to ``CONCURRENT_REQUESTS`` others.
    """

    def __init__(
        self, crawler: Crawler, settings: RepSettings, turn: Turn = at_once
    ) -> None:
        self._crawler = crawler
        self._settings = settings
        self._turn = turn
        self._permits = DeferredSemaphore(MAX_ON_NETWORK)
        self._under_way = 0
        self._on_network = 0
        self._has_logged_traceback = False
        crawler.signals.connect(
            self._reached_downloader, signals.request_reached_downloader
        )

    @property
    def leaves_room(self) -> bool:
        """Whether fewer pages than ``CONCURRENT_REQUESTS`` are in flight.

        Scrapy cannot tell: this class raises Scrapy's limit for each robots.txt request, and
        lowers it only a little after that request has left the downloader.
        """
        return has_room(self._crawler, raised=self._on_network, apart=RobotsTxtRequest)

    async def fetch(
        self, url: str, causes: Causes, *, robots_of: RobotsOf | None = None
    ) -> AccessResult:
        """Fetch the robots.txt at *url*, as :meth:`Origin.url` returns it; or, with *robots_of*,
        another file. Then each request needs the permission of the robots.txt of its origin
        (RFC 9309, 2.3.1.2, exempts only the redirects of robots.txt), and Scrapy's stats about
        robots.txt do not count it.

        *causes* are the requests that wait for it, as :func:`cause_of` makes them. Each attempt
        uses the proxy of another cause, in turn. Follows redirects itself (RFC 9309, 2.3.1.2).
        Errors of the server or the network are in the result. Raises SpiderClosing if the
        spider closes while the request waits for its turn.
        """
        _, virtual_host = split_virtual_host(url)
        file = _File(causes, CookieJar(), robots_of, virtual_host)
        self._count(file, stats.REQUEST_COUNT)
        self._under_way += 1
        if self._under_way == 1:
            # Connected only during fetches: Scrapy sends the signal for each chunk of each page.
            self._crawler.signals.connect(self._bytes_received, signals.bytes_received)
        try:
            return await self._follow(url, file)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._crawler.signals.disconnect(
                    self._bytes_received, signals.bytes_received
                )

    async def _follow(self, url: str, file: _File) -> AccessResult:
        first, _ = split_virtual_host(url)
        current, redirects = first, list[str]()
        boundary = Boundary(self._settings)
        where = origin_of(url)
        while True:
            is_redirected = origin_of(current) != where
            answer = await self._request(current, file, is_redirected=is_redirected)
            response, error = answer.response, answer.error
            if response is not None and not boundary.may_use(response):
                response, error = None, _PRIVATE.format(origin_of(current))
            if response is None or response.status not in _REDIRECTS:
                break
            target = redirect_target(current, response)
            if target is None:
                error = "redirected to something other than an http or https URL"
                break
            if len(redirects) >= self._settings.dialect.max_redirects:
                error = f"redirected more than {len(redirects)} times"
                if target in {first, *redirects}:
                    error += ", in a loop"
                break
            if not await boundary.may_follow(current, response, target):
                response, error = None, _PRIVATE.format(origin_of(target))
                break
            redirects.append(target)
            current = target
        result = AccessResult(
            url=url,
            status=None,
            redirects=tuple(redirects),
            error=error,
            is_permanent=answer.is_permanent or answer.is_dropped,
            is_dropped=answer.is_dropped,
        )
        return result if response is None else self._answered(result, response, file)

    def _answered(
        self, result: AccessResult, response: Response, file: _File
    ) -> AccessResult:
        """*result* with the status, headers and body of *response*."""
        self._count(file, stats.RESPONSE_COUNT)
        status = response.status
        self._count(file, stats.RESPONSE_STATUS_COUNT.format(status=status))
        headers = tuple(headers_of(response))
        body = response.body if status // 100 == 2 else b""
        return replace(result, status=status, headers=headers, body=body)

    def _count(self, file: _File, key: str) -> None:
        if file.robots_of is None:
            self._crawler.stats.inc_value(key)

    async def _request(self, url: str, file: _File, *, is_redirected: bool) -> _Answer:
        """Send a request for *url* until there is a response, a component drops the request,
        or no attempt is left.

        A refusal by a proxy is retried; it is the answer only of the last attempt.
        """
        attempt, attempts = 0, 1 + self._settings.retry_times
        known, where = None, origin_of(url)
        virtual_host = "" if is_redirected else file.virtual_host
        if where is not None and virtual_host:
            where = where.at_virtual_host(virtual_host)
        if file.robots_of is not None and where is not None:
            known = await file.robots_of(where, file.causes)
        while True:
            request = RobotsTxtRequest.of(
                url, file.causes.nth(attempt), self._settings.download_timeout
            )
            is_judged = file.robots_of is not None
            request.fetch = Fetch(is_judged, known, virtual_host)
            file.cookies.add_cookie_header(request)
            answer = await self._send(request, file, is_redirected=is_redirected)
            attempt += 1
            is_answered = (
                answer.response is not None and answer.response.status != _PROXY_REFUSES
            )
            # Requests with other proxies may have been added to the causes meanwhile.
            is_last = attempt >= max(attempts, len(file.causes))
            if is_answered or answer.is_dropped or is_last:
                break
        if answer.response is not None and are_cookies_short(answer.response):
            file.cookies.extract_cookies(answer.response, request)
        return answer

    async def _send(
        self, request: RobotsTxtRequest, file: _File, *, is_redirected: bool
    ) -> _Answer:
        try:
            async with self._turn(request, is_redirected=is_redirected):
                response = await self._download(request)
        except (CancelledError, SpiderClosing):
            # Neither says anything about the site. asyncio's CancelledError is not an
            # Exception, so it needs no clause.
            raise
        except UndecodableBody as exception:
            return _Answer(None, str(exception))
        except BackingOff as exception:
            return _Answer(None, str(exception), is_dropped=True)
        except IgnoreRequest as exception:
            is_denied = isinstance(exception, RobotsDenied)
            by = "" if is_denied else "dropped by a component: "
            return _Answer(None, f"{by}{exception}", is_dropped=True)
        except StopDownload:
            if not request.fetch.is_late:
                return _STOPPED
            seconds = self._settings.download_timeout
            unit = "second" if seconds == 1 else "seconds"
            return _Answer(None, f"took longer than {seconds:g} {unit}")
        except Exception as exception:  # noqa: BLE001  download handlers raise any error
            kind = type(exception)
            self._count(file, stats.EXCEPTION_COUNT.format(type=kind))
            if exception is not request.fetch.error:
                return self._failed_component(request, exception)
            # If a proxy is unreachable, that says nothing about the site.
            no_server = isinstance(exception, NO_SERVER_ERRORS)
            is_permanent = no_server and not request.meta.get("proxy")
            return _Answer(None, in_words(exception), is_permanent=is_permanent)
        # Without success, there is no body that could be incomplete.
        is_whole = request.fetch.is_cut or response.status // 100 != 2
        is_stopped = "download_stopped" in response.flags and not is_whole
        return _STOPPED if is_stopped else _Answer(response)

    def _failed_component(self, request: Request, exception: Exception) -> _Answer:
        """The answer after a component raised *exception* for *request*."""
        error = f"{in_words(exception)}, raised by a component"
        if not self._has_logged_traceback:
            self._has_logged_traceback = True
            logger.error(
                "%(url)s counts as unreachable: a component of the project raised the "
                "exception below for its request. If the component needs a key of "
                "Request.meta that your spider sets, add the key to REP_REQUEST_META_KEYS. "
                "Later exceptions of components are logged without their traceback",
                {"url": request.url},
                exc_info=exception,
                extra={"spider": self._crawler.spider},
            )
        return _Answer(None, f"{error} (see REP_REQUEST_META_KEYS)", is_dropped=True)

    async def _download(self, request: Request) -> Response:
        async def download() -> Response:
            self._on_network += 1
            try:
                # A slow robots.txt must not reduce the number of concurrent pages.
                with room_in_downloader(self._crawler):
                    return await self._crawler.engine.download_async(request)
            finally:
                self._on_network -= 1

        # Last, so that a request that waits for its turn does not block others. Not acquire():
        # a request that is cancelled as it gets the permit would never release it.
        return await maybe_deferred_to_future(
            self._permits.run(lambda: deferred_from_coro(download()))
        )

    def _reached_downloader(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            request.is_sent = True

    def _bytes_received(self, data: bytes, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            settings = self._settings
            request.received(
                len(data), settings.dialect.size_limit, settings.download_timeout
            )


class _File(NamedTuple):
    """What all requests for one file share, including those after redirects."""

    causes: Causes
    cookies: CookieJar
    """For sites that redirect to the same URL until the client sends a cookie."""

    robots_of: RobotsOf | None
    """Finds what judges the requests for the file; None for a robots.txt."""

    virtual_host: str
    """The ``Host`` header, if it differs from the host in the URL. The target of a redirect
    to another origin does not get it."""


class _Answer(NamedTuple):
    response: Response | None
    error: str = ""

    is_permanent: bool = False
    """Whether another attempt soon would fail in the same way."""

    is_dropped: bool = False
    """Whether a component of the project dropped the request, or robots.txt forbids it."""


_STOPPED = _Answer(
    None,
    "a component stopped its download (StopDownload in a handler of headers_received or "
    "bytes_received); let requests for robots.txt and tdmrep.json pass there",
    is_dropped=True,
)
