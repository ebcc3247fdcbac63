"""Downloads one robots.txt through Scrapy's engine."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.cookies import CookieJar
from twisted.internet.defer import CancelledError, DeferredSemaphore
from w3lib.url import safe_url_string

from scrapy_rep.base import stats
from scrapy_rep.base.compat import (
    download_once,
    has_room,
    held,
    room_in_downloader,
    status_received,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.fetching.decompression import UndecodableBody
from scrapy_rep.crawl.fetching.failures import NO_SERVER, in_words, kind_of
from scrapy_rep.crawl.fetching.request import Fetch, RobotsTxtRequest
from scrapy_rep.exceptions import BackingOff, RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.results import HEADERS, AccessResult, Failure
from scrapy_rep.protocol.origins import origin_of, split_virtual_host

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager
    from typing import TypeAlias

    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

    from scrapy_rep.base.settings import RepSettings
    from scrapy_rep.crawl.fetching.request import FetchTemplates
    from scrapy_rep.protocol.origins import Origin

    # Raises RobotsDenied if the robots.txt of an origin, or an override, forbids a request of this
    # package, for the requests that wait for it.
    Check: TypeAlias = Callable[[Request, Origin, FetchTemplates], Awaitable[None]]

    # Makes a request wait for its place at its host; other requests to the host wait until
    # the context ends. Raises BackingOff if the host has asked for too long a pause.
    Place: TypeAlias = Callable[[RobotsTxtRequest], AbstractAsyncContextManager[None]]


MAX_ON_NETWORK = 256
"""The number of requests for robots.txt that may be on the network at once."""

_ATTEMPTS = 2
"""How often a request is sent if there is no answer. A connection that was lost is often back at
once; an outage is the business of the frontier, which fetches again later."""

_MAX_REPLACED = 10
"""How many requests that components return in place of one for robots.txt are sent, one after the
other. Those of plugins that repeat a request through another proxy are fewer."""

_PROXY_REFUSES, _TOO_MANY, _SERVER_ERROR = 407, 429, 500

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# How many Retry-After fields of an answer are read.
_MAX_PAUSES = 4

# In bytes: longer Set-Cookie fields are ignored, since they take long to parse.
_MAX_COOKIES = 8_192

_STOPPED = (
    "a component stopped its download (StopDownload in a handler of headers_received or "
    "bytes_received); let requests for robots.txt and tdmrep.json pass there"
)


class RobotsTxtFetcher:
    """Fetches robots.txt through Scrapy's downloader.

    These requests use the proxies, TLS settings and connections of ordinary requests. But
    the middlewares that redirect, retry, cache or drop ordinary requests must not touch them:
    the crawler would take the result for the rules of the site. A robots.txt that redirects
    would allow everything where a spider handles the status 301 itself, or switches redirects
    off. So the fetcher follows redirects, and retries.

    Each request is sent when it has its *place* at its host. At most :data:`MAX_ON_NETWORK` are
    on the network at once, in addition to ``CONCURRENT_REQUESTS`` others.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: RepSettings,
        place: Place = lambda _: nullcontext(),
        is_own_fault: Callable[[Failure], bool] = lambda _: False,
    ) -> None:
        """*is_own_fault* says of a failure whether it tells nothing about the host. Then the request
        is sent again, when it has its place.
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._dialect = settings.dialect
        self._place = place
        self._is_own_fault = is_own_fault
        self._permits = DeferredSemaphore(MAX_ON_NETWORK)
        self._on_network: set[Request] = set()
        self._has_logged_traceback = False

    @property
    def leaves_room(self) -> bool:
        """Whether fewer pages than ``CONCURRENT_REQUESTS`` are in flight.

        Scrapy cannot tell: this class raises Scrapy's limit for each robots.txt request, and
        lowers it only a little after that request has left the downloader.
        """
        return not self._on_network or has_room(self._crawler, self._on_network)

    async def fetch(
        self, url: str, templates: FetchTemplates, *, check: Check | None = None
    ) -> AccessResult:
        """Fetch the robots.txt at *url*, as :meth:`Origin.url` returns it; or, with a *check*, another
        file. Then each request needs the permission of the robots.txt of its origin
        (RFC 9309, 2.3.1.2, exempts only the redirects of robots.txt), and Scrapy's stats about
        robots.txt do not count it.

        *templates* are of the requests that wait for it. Errors of the server or the network are in
        the result. Raises SpiderClosing if the spider closes while the request waits for its
        place.
        """
        current, virtual_host = split_virtual_host(url)
        targets, cookies, error = list[str](), CookieJar(), ""
        first = origin_of(current)
        is_counted = check is None
        self._count(stats.REQUEST_COUNT, is_counted)
        while True:
            fetch = Fetch(is_counted=is_counted)
            origin = origin_of(current) if targets else first
            fetch.is_redirected = origin != first
            if origin is not None and virtual_host and not fetch.is_redirected:
                fetch.virtual_host = virtual_host
                origin = origin.at_virtual_host(virtual_host)
            answer: Response | AccessResult | None = None
            if check is not None and origin is not None:
                answer = await self._refusal(current, origin, templates, check)
            if answer is None:
                answer = await self._ask(current, fetch, templates, cookies)
            if isinstance(answer, AccessResult):
                return replace(answer, url=url, redirects=tuple(targets))
            if answer.status not in _REDIRECTS:
                break
            target = _redirect_target(current, answer)
            if target is None:
                error = "redirected to something other than an http or https URL"
                break
            if len(targets) >= self._dialect.max_redirects:
                error = f"redirected more than {len(targets)} times"
                break
            targets.append(target)
            current = target
        self._count(stats.RESPONSE_COUNT, is_counted)
        key = stats.RESPONSE_STATUS_COUNT.format(status=answer.status)
        self._count(key, is_counted)
        return AccessResult(
            url=url,
            status=answer.status,
            headers=tuple(headers_of(answer.headers)),
            body=answer.body if answer.status // 100 == 2 else b"",
            redirects=tuple(targets),
            error=error,
        )

    async def _refusal(
        self, url: str, origin: Origin, templates: FetchTemplates, check: Check
    ) -> AccessResult | None:
        """The result if *check* refuses a request for *url*; None if it does not."""
        try:
            await check(RobotsTxtRequest.of(url, templates[0]), origin, templates)
        except RobotsDenied as denied:
            return AccessResult(
                url=url,
                status=None,
                error=str(denied),
                is_permanent=True,
                is_dropped=True,
            )
        return None

    def _count(self, key: str, is_counted: bool) -> None:
        if is_counted:
            self._crawler.stats.inc_value(key)

    async def _ask(
        self, url: str, fetch: Fetch, templates: FetchTemplates, cookies: CookieJar
    ) -> Response | AccessResult:
        """The response for *url*, or a result without one.

        Without an answer, or if a proxy refuses, the request is sent again at once, each time
        with the proxy of the next cause. *cookies* are those of this fetch: some sites redirect
        to the same URL until the client sends a cookie.
        """
        attempt, is_final = 0, False
        while not is_final:
            request = RobotsTxtRequest.of(url, templates.next())
            request.fetch = replace(fetch)
            if len(cookies):
                cookies.add_cookie_header(request)
            answer = await self._send(request)
            failure = answer.failure if isinstance(answer, AccessResult) else None
            if failure is not None and self._is_own_fault(failure):
                continue
            attempt += 1
            # Requests with other proxies may have been added to the templates meanwhile.
            is_final = attempt >= max(_ATTEMPTS, len(templates))
            if isinstance(answer, AccessResult):
                is_final |= answer.is_dropped
            elif answer.status != _PROXY_REFUSES:
                is_final = True
                fields = answer.headers.getlist("Set-Cookie")
                if 0 < sum(map(len, fields)) <= _MAX_COOKIES:
                    cookies.extract_cookies(answer, request)
        return answer

    async def _send(self, request: RobotsTxtRequest) -> Response | AccessResult:
        """The response to *request*, or a result that says why there is none."""
        failure, is_permanent, is_dropped = None, False, False
        fetch = request.fetch
        try:
            async with self._place(request):
                response = await self._download(request)
            # Without success, there is no body that could be incomplete.
            is_whole = fetch.is_stopped or response.status // 100 != 2
            if is_whole or "download_stopped" not in response.flags:
                return response
            error, is_dropped = _STOPPED, True
        except (CancelledError, SpiderClosing):
            # Neither says anything about the site. asyncio's CancelledError is not an
            # Exception, so it needs no clause.
            raise
        except UndecodableBody as exception:
            error = str(exception)
        except BackingOff as exception:
            error, is_dropped = str(exception), True
        except IgnoreRequest as exception:
            error, is_dropped = f"dropped by a component: {exception}", True
        except StopDownload:
            is_dropped = not fetch.is_stopped
            error = (
                _STOPPED if is_dropped else f"took longer than {request.timeout:g} s"
            )
        except Exception as exception:
            kind = type(exception)
            self._count(stats.EXCEPTION_COUNT.format(type=kind), fetch.is_counted)
            error, is_dropped = in_words(exception), exception is not fetch.error
            failure = None if is_dropped else kind_of(exception)
            # If a proxy is unreachable, that says nothing about the site.
            is_permanent = error in NO_SERVER and not request.meta.get("proxy")
            if is_dropped:
                error += ", raised by a component (see REP_REQUEST_META_KEYS)"
                if not self._has_logged_traceback:
                    self._has_logged_traceback = True
                    self._logger.exception(
                        "%(url)s counts as unreachable: a component of the project raised the "
                        "exception below for its request. If the component needs a key of "
                        "Request.meta that your spider sets, add the key to "
                        "REP_REQUEST_META_KEYS. Later exceptions of components are logged "
                        "without their traceback",
                        url=request.url,
                    )
        return AccessResult(
            url=request.url,
            status=None,
            error=error,
            failure=failure,
            is_permanent=is_permanent or is_dropped,
            is_dropped=is_dropped,
        )

    async def _download(self, request: RobotsTxtRequest) -> Response:
        signals_of = self._crawler.signals
        # Last, so that a request that waits for its place does not block others.
        async with held(self._permits):
            self._on_network.add(request)
            if len(self._on_network) == 1:
                # Connected only meanwhile: Scrapy sends them for each page, and its chunks.
                signals_of.connect(self._headers_received, signals.headers_received)
                signals_of.connect(self._received, signals.bytes_received)
            try:
                # A slow robots.txt must not reduce the number of concurrent pages.
                with room_in_downloader(self._crawler):
                    return await self._answer(request)
            finally:
                self._on_network.discard(request)
                if not self._on_network:
                    signals_of.disconnect(
                        self._headers_received, signals.headers_received
                    )
                    signals_of.disconnect(self._received, signals.bytes_received)

    async def _answer(self, request: RobotsTxtRequest) -> Response:
        """The response to *request*, or to one that components have returned in place of it."""
        current: Request = request
        for _ in range(1 + _MAX_REPLACED):
            answer = await download_once(self._crawler, current)
            if not isinstance(answer, Request):
                return answer
            current = request.continued(answer)
        why = f"replaced by other requests {_MAX_REPLACED + 1} times, at last for {current.url}"
        raise IgnoreRequest(why)

    def _headers_received(self, request: Request) -> None:
        """Take an answer of a server that is overloaded without its body, which may not arrive
        whole, nor ever end. Raises StopDownload.
        """
        if not isinstance(request, RobotsTxtRequest):
            return
        status = status_received()
        if status is not None and (status == _TOO_MANY or status >= _SERVER_ERROR):
            request.fetch.is_stopped = True
            raise StopDownload(fail=False)

    def _received(self, data: bytes, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            request.received(len(data), self._dialect.size_limit)


def _redirect_target(url: str, response: Response) -> str | None:
    """The absolute URL that a redirect of *url* leads to; None if it is not http or https."""
    location = response.headers.get("Location")
    if not location:
        return None
    try:
        target: str = urljoin(url, safe_url_string(location))
        where = origin_of(target)
        parts = urlsplit(target)
    except ValueError:
        return None
    if where is None or where.scheme not in {"http", "https"}:
        return None
    # Without user information, which some download handlers refuse, and without the
    # fragment, which is never sent.
    return urlunsplit((where.scheme, str(where).partition("://")[2], *parts[2:4], ""))


def headers_of(headers: Headers) -> Iterator[tuple[str, str]]:
    """The fields of *headers* that a result keeps."""
    for name in sorted(HEADERS):
        values = headers.getlist(name)
        if name == "cache-control" and values:
            # A list may be split over several fields (RFC 9110, 5.3).
            values = [b", ".join(values)]
        # All fields of a server that states several pauses.
        for text in values[: _MAX_PAUSES if name == "retry-after" else 1]:
            yield name, text.decode("latin-1")
