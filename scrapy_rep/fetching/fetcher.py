"""Downloads one robots.txt through Scrapy's engine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.cookies import CookieJar
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError, DeferredSemaphore

from scrapy_rep import stats
from scrapy_rep.compat.internals import has_room, room_in_downloader
from scrapy_rep.compat.versions import NO_SERVER_ERRORS
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.fetching.answers import (
    are_cookies_short,
    headers_of,
    is_encoded,
    redirect_target,
)
from scrapy_rep.fetching.boundary import Boundary
from scrapy_rep.fetching.failures import in_words
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.origins import origin_of, split_virtual_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.settings import RepSettings

MAX_ON_NETWORK = 256
"""The number of requests for robots.txt that may be on the network at once."""

_PROXY_REFUSES = 407

_PRIVATE = "redirected to {}, which is at a private address (REP_REDIRECT_PRIVATE)"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Turn(Protocol):
    """Makes a request for robots.txt wait for its turn at a host."""

    def __call__(
        self, request: Request, *, is_redirected: bool
    ) -> AbstractAsyncContextManager[None]:
        """Wait until *request* may be sent to its host. Other requests to the host wait until
        the context ends. *is_redirected* is True after a redirect to another origin.
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

    @property
    def leaves_room(self) -> bool:
        """Whether fewer pages than ``CONCURRENT_REQUESTS`` are in flight.

        Scrapy cannot tell: this class raises Scrapy's limit for each robots.txt request, and
        lowers it only a little after that request has left the downloader.
        """
        return has_room(self._crawler, raised=self._on_network, apart=RobotsTxtRequest)

    async def fetch(
        self, url: str, causes: Causes, *, is_robotstxt: bool = True
    ) -> AccessResult:
        """Fetch the file at *url*, as :meth:`Origin.url` returns it. If it is not a robots.txt
        (*is_robotstxt*), Scrapy's stats about robots.txt do not count it.

        *causes* are the requests that wait for it, as :func:`cause_of` makes them. Each attempt
        uses the proxy of another cause, in turn. Follows redirects itself (RFC 9309, 2.3.1.2).
        Errors of the server or the network are in the result. Raises SpiderClosing if the
        spider closes while the request waits for its turn.
        """
        _, virtual_host = split_virtual_host(url)
        file = _File(causes, CookieJar(), is_robotstxt, virtual_host)
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
            is_permanent=answer.is_permanent,
        )
        if response is None:
            return result
        self._count(file, stats.RESPONSE_COUNT)
        self._count(file, stats.RESPONSE_STATUS_COUNT.format(status=response.status))
        return self._answered(result, response)

    def _count(self, file: _File, key: str) -> None:
        if file.is_robotstxt:
            self._crawler.stats.inc_value(key)

    def _answered(self, result: AccessResult, response: Response) -> AccessResult:
        """*result* with the status, headers and body of *response*."""
        status = response.status
        result = replace(result, headers=tuple(headers_of(response)))
        if status // 100 != 2:
            return replace(result, status=status)
        if is_encoded(response):
            return replace(result, error="compressed in an unsupported encoding")
        return replace(result, status=status, body=response.body)

    async def _request(self, url: str, file: _File, *, is_redirected: bool) -> _Answer:
        """Send a request for *url* until there is a response, a component drops the request,
        or no attempt is left.

        A refusal by a proxy is retried; it is the answer only of the last attempt.
        """
        attempt, attempts = 0, 1 + self._settings.retry_times
        while True:
            request = RobotsTxtRequest.of(
                url, file.causes.nth(attempt), self._settings.download_timeout
            )
            if file.virtual_host and not is_redirected:
                request.headers["Host"] = file.virtual_host
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
        self, request: Request, file: _File, *, is_redirected: bool
    ) -> _Answer:
        try:
            async with self._turn(request, is_redirected=is_redirected):
                return _Answer(await self._download(request))
        except (CancelledError, SpiderClosing):
            # Neither says anything about the site. asyncio's CancelledError is not an
            # Exception, so it needs no clause.
            raise
        except StopDownload:
            seconds = self._settings.download_timeout
            unit = "second" if seconds == 1 else "seconds"
            return _Answer(None, f"took longer than {seconds:g} {unit}")
        except IgnoreRequest as exception:
            # A component of the project dropped it, and would drop a retry too.
            error = f"dropped: {exception}"
            return _Answer(None, error, is_permanent=True, is_dropped=True)
        except Exception as exception:  # noqa: BLE001  download handlers raise any error
            kind = type(exception)
            self._count(file, stats.EXCEPTION_COUNT.format(type=kind))
            # If a proxy is unreachable, that says nothing about the site.
            no_server = isinstance(exception, NO_SERVER_ERRORS)
            is_permanent = no_server and not request.meta.get("proxy")
            return _Answer(None, in_words(exception), is_permanent=is_permanent)

    async def _download(self, request: Request) -> Response:
        # Acquired last, so that a request that waits for its turn does not block others.
        await maybe_deferred_to_future(self._permits.acquire())
        self._on_network += 1
        try:
            # A slow robots.txt must not reduce the number of concurrent pages.
            with room_in_downloader(self._crawler):
                return await self._crawler.engine.download_async(request)
        finally:
            self._on_network -= 1
            self._permits.release()

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

    is_robotstxt: bool

    virtual_host: str
    """The ``Host`` header, if it differs from the host in the URL. The target of a redirect
    to another origin does not get it."""


class _Answer(NamedTuple):
    response: Response | None
    error: str = ""

    is_permanent: bool = False
    """Whether another attempt soon would fail in the same way."""

    is_dropped: bool = False
    """Whether a component of the project dropped the request."""
