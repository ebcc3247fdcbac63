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
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.fetching.request import Causes
    from scrapy_rep.settings import RepSettings

MAX_ON_NETWORK = 256
"""So many robots.txt files are asked for at once."""

_PROXY_REFUSES = 407

_PRIVATE = "redirected to {}, which is at a private address (REP_REDIRECT_PRIVATE)"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Turn(Protocol):
    """Has a request for robots.txt wait for its turn at a host."""

    def __call__(
        self, request: Request, *, is_redirected: bool
    ) -> AbstractAsyncContextManager[None]:
        """Wait until *request* may be sent to its host, and have others wait until it is
        done. One that *is redirected* is for the robots.txt of another host.
        """


@asynccontextmanager
async def at_once(request: Request, *, is_redirected: bool) -> AsyncIterator[None]:
    """A turn that nobody has to wait for."""
    yield


class RobotsTxtFetcher:
    """Fetches robots.txt, and keeps the rest of Scrapy from having a say in how.

    What decides about proxies, TLS and connections serves these requests too. What
    follows, repeats, stores or drops ordinary requests must not: a robots.txt that such a
    component redirects, replays or loses is taken for permission.

    Each request is sent in a *turn* of its host. At most :data:`MAX_ON_NETWORK` are on the
    network at once, besides the ``CONCURRENT_REQUESTS``.
    """

    def __init__(
        self, crawler: Crawler, settings: RepSettings, turn: Turn = at_once
    ) -> None:
        self._crawler = crawler
        self._settings = settings
        self._turn = turn
        self._places = DeferredSemaphore(MAX_ON_NETWORK)
        self._under_way = 0
        self._on_network = 0
        self._uncounted: set[str] = set()

    @property
    def leaves_room(self) -> bool:
        """Whether fewer pages than ``CONCURRENT_REQUESTS`` are under way.

        Scrapy does not know. Its limit is raised for each robots.txt, and lowered a little
        after that has left the downloader.
        """
        raised = self._on_network
        return has_room(self._crawler, raised=raised, apart=RobotsTxtRequest)

    async def fetch(
        self, url: str, causes: Causes, *, is_robotstxt: bool = True
    ) -> AccessResult:
        """Fetch the robots.txt at *url*, or a file like it, which Scrapy's stats about
        robots.txt do not count.

        *causes* are requests that wait for it, as :func:`cause_of` makes them. The first
        attempt goes through the proxy of the first of them, the next through that of the
        next one. Follows the redirects itself (RFC 9309, 2.3.1.2). Never raises for what
        a server or the network does; raises SpiderClosing where it has to wait for its
        turn and the spider closes.
        """
        if is_robotstxt:
            self._crawler.stats.inc_value(stats.REQUEST_COUNT)
        else:
            self._uncounted.add(url)
        self._under_way += 1
        if self._under_way == 1:
            # Only while it is needed: the signal is sent for each chunk of each page.
            self._crawler.signals.connect(self._bytes_received, signals.bytes_received)
        try:
            return await self._follow(url, causes)
        finally:
            self._uncounted.discard(url)
            self._under_way -= 1
            if not self._under_way:
                self._crawler.signals.disconnect(
                    self._bytes_received, signals.bytes_received
                )

    async def _follow(self, url: str, causes: Causes) -> AccessResult:
        asked, redirects = url, list[str]()
        # For sites that redirect to themselves until a cookie comes back.
        cookies = CookieJar()
        boundary = Boundary(self._settings)
        where = origin_of(url)
        while True:
            is_redirected = origin_of(asked) != where
            answer = await self._ask(
                asked, causes, cookies, is_redirected=is_redirected
            )
            response, error = answer.response, answer.error
            if response is not None and not boundary.lets_use(response):
                response, error = None, _PRIVATE.format(origin_of(asked))
            if response is None or response.status not in _REDIRECTS:
                break
            target = redirect_target(asked, response)
            if target is None:
                error = "redirected to what is no URL of http or https"
                break
            if len(redirects) >= self._settings.dialect.max_redirects:
                error = f"redirected more than {len(redirects)} times"
                if target in {url, *redirects}:
                    error += ", in a loop"
                break
            if not await boundary.lets_follow(asked, response, target):
                response, error = None, _PRIVATE.format(origin_of(target))
                break
            redirects.append(target)
            asked = target
        result = AccessResult(
            url=url,
            status=None,
            redirects=tuple(redirects),
            error=error,
            is_permanent=answer.is_permanent,
        )
        return result if response is None else self._answered(result, response)

    def _answered(self, result: AccessResult, response: Response) -> AccessResult:
        """*result* with what is in the last answer."""
        status = response.status
        if result.url not in self._uncounted:
            key = stats.RESPONSE_STATUS_COUNT.format(status=status)
            self._crawler.stats.inc_value(stats.RESPONSE_COUNT)
            self._crawler.stats.inc_value(key)
        result = replace(result, headers=tuple(headers_of(response)))
        if status // 100 != 2:
            return replace(result, status=status)
        if is_encoded(response):
            return replace(result, error="compressed in a way that can't be read")
        return replace(result, status=status, body=response.body)

    async def _ask(
        self,
        url: str,
        causes: Causes,
        cookies: CookieJar,
        *,
        is_redirected: bool,
    ) -> _Answer:
        """One answer to one request, or why there is none.

        An answer that is the refusal of a proxy is the last to be taken for one.
        """
        attempt, attempts = 0, 1 + self._settings.retry_times
        while True:
            request = RobotsTxtRequest.of(
                url, causes.nth(attempt), self._settings.download_timeout
            )
            cookies.add_cookie_header(request)
            answer = await self._send(request, is_redirected=is_redirected)
            attempt += 1
            is_answered = (
                answer.response is not None and answer.response.status != _PROXY_REFUSES
            )
            # There may be more of them by now.
            is_last = attempt >= max(attempts, len(causes))
            if is_answered or answer.is_dropped or is_last:
                break
        if answer.response is not None and are_cookies_short(answer.response):
            cookies.extract_cookies(answer.response, request)
        return answer

    async def _send(self, request: Request, *, is_redirected: bool) -> _Answer:
        try:
            async with self._turn(request, is_redirected=is_redirected):
                return _Answer(await self._download(request))
        except (CancelledError, SpiderClosing):
            # Twisted's cancellation is an Exception, asyncio's is none. None of these says
            # anything about the site.
            raise
        except StopDownload:
            seconds = self._settings.download_timeout
            unit = "second" if seconds == 1 else "seconds"
            return _Answer(None, f"took longer than {seconds:g} {unit}")
        except IgnoreRequest as exception:
            # A component of the project does not want it sent; it won't later.
            error = f"dropped: {exception}"
            return _Answer(None, error, is_permanent=True, is_dropped=True)
        except Exception as exception:  # noqa: BLE001  whatever a handler raises
            kind = type(exception)
            if request.url not in self._uncounted:
                self._crawler.stats.inc_value(stats.EXCEPTION_COUNT.format(type=kind))
            # Of a proxy it says nothing about the site.
            no_server = isinstance(exception, NO_SERVER_ERRORS)
            is_permanent = no_server and not request.meta.get("proxy")
            return _Answer(None, in_words(exception), is_permanent=is_permanent)

    async def _download(self, request: Request) -> Response:
        # Taken last, so that what waits for its turn takes no place from others.
        await maybe_deferred_to_future(self._places.acquire())
        self._on_network += 1
        try:
            # What is slow to come takes no place from pages.
            with room_in_downloader(self._crawler):
                response = await self._crawler.engine.download_async(request)
        finally:
            self._on_network -= 1
            self._places.release()
        return response

    def _bytes_received(self, data: bytes, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            settings = self._settings
            request.received(
                len(data), settings.dialect.size_limit, settings.download_timeout
            )


class _Answer(NamedTuple):
    response: Response | None
    error: str = ""

    is_permanent: bool = False
    """Whether it is of no use to ask again soon."""

    is_dropped: bool = False
    """Whether a component of the project did not let it be asked."""
