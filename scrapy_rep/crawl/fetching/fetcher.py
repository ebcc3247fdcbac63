"""Downloads robots.txt files through Scrapy's engine, and classifies the errors of downloads.

Download handlers raise exceptions of several libraries. Their classes cannot be imported here, since the
libraries may not be installed or keep the classes in private modules. So an exception is recognised by its
error number (errno, or the code of libcurl), or else by words in the names of its classes.
"""

from __future__ import annotations

import asyncio
import errno
import re
from functools import partial
from socket import EAI_MEMORY, gaierror
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.cookies import CookieJar
from twisted.internet.defer import CancelledError
from w3lib.url import safe_url_string

from scrapy_rep.base import stats
from scrapy_rep.base.compat import is_closing
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest, UndecodableBody
from scrapy_rep.exceptions import BackingOff, RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.results import HEADERS, AccessResult, Failure
from scrapy_rep.protocol.origins import origin_of, split_virtual_host

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from scrapy.crawler import Crawler
    from scrapy.http import Headers, Response

    from scrapy_rep.base.settings import RepSettings

    # Called with a request, and the page requests that wait for its result. Raises RobotsDenied if robots.txt
    # or an override forbids the request.
    Check: TypeAlias = Callable[[RobotsTxtRequest, list[Request]], Awaitable[None]]


_ATTEMPTS = 2
"""How many times a request is sent if no answer comes. The second attempt follows at once, since most
connections fail only for a moment; after a longer outage, the frontier starts a new fetch later."""

_PROXY_REFUSES = 407

_STATUSES = range(100, 1000)
"""The valid HTTP statuses: three digits (RFC 9110, 15). Twisted accepts any number, even one too large for
the columns of a store or a ledger."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# No more Retry-After fields of one response are read.
_MAX_PAUSES = 4

# In bytes. If the Set-Cookie fields of a response are longer in total, they are ignored: parsing them takes long.
_MAX_COOKIES = 8_192

_STOPPED = (
    "a component stopped its download (StopDownload in a handler of headers_received or "
    "bytes_received); let requests for robots.txt and tdmrep.json pass there"
)

_HEADER_NAMES = {name.title().encode(): name for name in HEADERS}
"""The header fields that an AccessResult keeps: their names as in Scrapy's Headers, and as in the result."""


class RobotsTxtFetcher:
    """Fetches robots.txt and tdmrep.json files through Scrapy's downloader.

    A request for robots.txt uses the proxy, TLS settings and connections of ordinary requests. But the
    middlewares that redirect, retry, cache or drop ordinary requests must not touch a request for
    robots.txt, since the crawler would take their result for the rules of the site: in a project without
    redirects, for example, a robots.txt that redirects would have no rules, and so allow everything. So
    the fetcher itself follows redirects and repeats failed requests.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: RepSettings,
        take_room: Callable[[RobotsTxtRequest], Awaitable[object]] | None = None,
        free_room: Callable[[RobotsTxtRequest], None] = lambda _: None,
        is_own_fault: Callable[[Failure], bool] = lambda _: False,
    ) -> None:
        """Make a fetcher. Without the callbacks below, as in commands, requests are sent at once.

        :param take_room: waits until the limiters of a request have room for it. Raises BackingOff if the
            host has asked for too long a pause, and SpiderClosing if the spider closes
        :param free_room: gives back the room of a request that was not sent
        :param is_own_fault: whether the crawler itself caused a failure, for example because its network is
            gone. The request is then sent again as soon as there is room for it
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._dialect = settings.dialect
        self._meta_keys = settings.request_meta_keys
        self._take_room = take_room
        self._free_room = free_room
        self._is_own_fault = is_own_fault
        self._downloads = 0
        """The number of requests of this fetcher in the downloader. The handler of ``bytes_received`` is connected
        while there are any."""

        self._has_logged_traceback = False

    async def fetch(
        self, url: str, templates: list[Request], check: Check | None = None
    ) -> AccessResult:
        """Fetch a robots.txt and return the result. The result also describes any error of the site, of the
        network or of this crawler; none of them is raised.

        A request without an answer, or that a proxy refuses, is repeated at once, each time with the
        User-Agent and proxy of the next template.

        :param url: as :meth:`Origin.url` returns it
        :param templates: page requests that wait for the file, at least one; see :func:`add_template`
        :param check: for a file other than robots.txt: called for each request, redirects included,
            because robots.txt must allow it (RFC 9309, 2.3.1.2, exempts only the redirects of robots.txt).
            Scrapy's ``robotstxt/*`` stats do not count these requests
        :raises SpiderClosing: if the spider closes meanwhile
        :raises CancelledError: if the spider closes meanwhile, or if the fetch is cancelled when
            *templates* is empty, because no request waits for the file any more
        """
        count = _not_counted if check else self._crawler.stats.inc_value
        count(stats.REQUEST_COUNT)
        try:
            return await self._follow(url, templates, check, count)
        except (SpiderClosing, CancelledError, asyncio.CancelledError) as ended:
            is_told = isinstance(ended, SpiderClosing) or is_closing(self._crawler)
            if is_told or not templates:
                raise
            # Another component cancelled the fetch. The page requests that wait for it must still get a result.
            return AccessResult(url=url, status=None, error="cancelled")
        except Exception as exception:
            self._logger.exception(
                "%(url)s counts as unreachable and will be fetched again later: its fetch "
                "failed because of an error in this crawler, not at the site",
                url=url,
            )
            return AccessResult(url=url, status=None, error=in_words(exception))

    async def _follow(
        self,
        url: str,
        templates: list[Request],
        check: Check | None,
        count: Callable[[str], None],
    ) -> AccessResult:
        """Request *url*, follow its redirects, repeat failed requests, and return the final result. *count*
        increments a stat.
        """
        current, virtual_host = split_virtual_host(url)
        attempts, is_redirected, targets = 0, False, list[str]()
        # Kept from redirect to redirect: some sites redirect to the same URL until the client sends a cookie.
        cookies: CookieJar | None = None
        while True:
            # Rotate the templates, so that each attempt uses another proxy.
            templates.append(templates.pop(0))
            request = RobotsTxtRequest.of(
                current,
                templates[-1],
                self._meta_keys,
                asked_url=url,
                virtual_host="" if is_redirected else virtual_host,
                is_redirected=is_redirected,
            )
            if cookies is not None:
                cookies.add_cookie_header(request)
            allowed = None
            if check is not None and not attempts:
                allowed = check(request, templates)
            answer = await self._send(request, count, allowed)
            if isinstance(answer, AccessResult):
                if answer.failure and self._is_own_fault(answer.failure):
                    continue
                is_final = answer.failure is Failure.DROPPED
            else:
                is_final = answer.status != _PROXY_REFUSES
            attempts += 1
            # Try each proxy once. Templates with other proxies may have been added during the download.
            if not is_final and attempts < max(_ATTEMPTS, len(templates)):
                continue
            if isinstance(answer, AccessResult):
                return answer._replace(url=url, redirects=tuple(targets))
            target, error = _redirect_target(current, answer)
            if target is not None and len(targets) == self._dialect.max_redirects:
                target, error = None, f"redirected more than {len(targets)} times"
            if target is None:
                count(stats.RESPONSE_COUNT)
                count(stats.RESPONSE_STATUS_COUNT.format(status=answer.status))
                return _result(url, answer, targets, error)
            targets.append(target)
            cookies = _with_cookies(cookies, answer, request)
            current, attempts = target, 0
            is_redirected = origin_of(target) != origin_of(url)

    async def _send(
        self,
        request: RobotsTxtRequest,
        count: Callable[[str], None],
        allowed: Awaitable[None] | None,
    ) -> Response | AccessResult:
        """Send *request* when its turn comes. Return the response or, if the request fails, a result with the
        error.

        *count* increments a stat. *allowed*, if not None, is awaited first, and raises RobotsDenied if
        robots.txt forbids the request.
        """
        try:
            if allowed is not None:
                await allowed
        except RobotsDenied as denied:
            return self._failed(request, denied, count)
        signal_manager = self._crawler.signals
        is_counted = False
        try:
            if self._take_room is not None:
                await self._take_room(request)
            self._downloads, is_counted = self._downloads + 1, True
            if self._downloads == 1:
                # Connected only during downloads of robots.txt. Scrapy sends this signal for each chunk of each
                # page: the handler takes 11 µs, and a page of 100 KB can come in 70 chunks. A whole page takes
                # 700 µs.
                signal_manager.connect(self._received, signals.bytes_received)
            answer = await self._crawler.engine.download_async(request)
            # A component may have stopped the download. That matters only for a 2xx response: no other body
            # is used.
            is_whole = request.fetch.is_stopped or answer.status // 100 != 2
            if not is_whole and "download_stopped" in answer.flags:
                raise StopDownload
            return answer
        except Exception as exception:  # noqa: BLE001  any component may raise it
            return self._failed(request, exception, count)
        finally:
            if is_counted:
                self._downloads -= 1
                if not self._downloads:
                    signal_manager.disconnect(self._received, signals.bytes_received)
            # The wire gives back the room of each request that it has seen. This call is for a request that was
            # cancelled before: without it, the room would be lost until the end of the crawl.
            self._free_room(request)

    def _failed(
        self,
        request: RobotsTxtRequest,
        exception: Exception,
        count: Callable[[str], None],
    ) -> AccessResult:
        """Return the result of *request*, which has failed with *exception*. Raises *exception* again if it
        was cancelled or the spider closes, since neither says anything about the site.
        """
        failure = Failure.DROPPED
        match exception:
            case CancelledError() | SpiderClosing():
                # The CancelledError of Twisted. asyncio.CancelledError is not an Exception, and never comes here.
                raise exception
            case UndecodableBody():
                error, failure = str(exception), Failure.OTHER
            case BackingOff() | RobotsDenied():
                error = str(exception)
            case IgnoreRequest():
                error = f"dropped by a component: {exception}"
            case StopDownload() if request.fetch.is_stopped:
                error = f"took longer than {request.timeout:g} s"
                failure = Failure.OTHER
            case StopDownload():
                error = _STOPPED
            case _:
                count(stats.EXCEPTION_COUNT.format(type=type(exception)))
                error = in_words(exception)
                # A middleware that downloads by itself raises the same exceptions as a download handler.
                is_of_download = any(map(_description, _causes(exception)))
                if exception is not request.fetch.error and not is_of_download:
                    error += ", raised by a component (see REP_REQUEST_META_KEYS)"
                    self._log_traceback(request, exception)
                else:
                    failure = kind_of(exception)
                    is_of_server = error in NO_SERVER and failure is Failure.NETWORK
                    if is_of_server and request.meta.get("proxy"):
                        # The proxy may be at fault, so this is no evidence that the site has no server.
                        error += " through its proxy"
                    elif is_of_server:
                        failure = Failure.NO_SERVER
        return AccessResult(request.url, None, error=error, failure=failure)

    def _log_traceback(self, request: RobotsTxtRequest, exception: Exception) -> None:
        if self._has_logged_traceback:
            return
        self._has_logged_traceback = True
        self._logger.error(
            "%(url)s counts as unreachable and will be fetched again later: a component of the "
            "project raised the exception below for its request. If the component needs a key "
            "of Request.meta that your spider sets, add the key to REP_REQUEST_META_KEYS. "
            "Later exceptions of components are logged without a traceback",
            exc_info=exception,
            url=request.url,
        )

    def _received(self, data: bytes, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            request.received(len(data), self._dialect.size_limit)


def _not_counted(_: str) -> None:
    """Ignore a stat: Scrapy's ``robotstxt/*`` stats must not count requests for other files."""


def _result(
    url: str, response: Response, targets: list[str], error: str
) -> AccessResult:
    """Return the result of a fetch of *url* that ended with *response*, after redirects to *targets*. *error*
    says why a further redirect was not followed; it is empty if there was none.
    """
    is_of_http = response.status in _STATUSES
    no_status = f"{str(response.status)[:20]} is not an HTTP status"
    return AccessResult(
        url=url,
        status=response.status if is_of_http else None,
        headers=headers_of(response.headers),
        body=response.body if response.status // 100 == 2 else b"",
        redirects=tuple(targets),
        error=error if is_of_http else no_status,
    )


def _redirect_target(url: str, response: Response) -> tuple[str | None, str]:
    """Return the absolute URL to which *response* redirects *url*, and an error. The URL is None if *response* is
    not a redirect, or is an invalid one; the error is empty except for an invalid redirect.
    """
    if response.status not in _REDIRECTS:
        return None, ""
    try:
        location = safe_url_string(response.headers.get("Location") or b"")
        target = urljoin(url, location)
        origin, parts = origin_of(target), urlsplit(target)
    except ValueError:
        origin, location = None, ""
    if not location or origin is None or origin.scheme not in {"http", "https"}:
        return None, "redirected to something other than an http or https URL"
    # The new URL has no user information, which some download handlers refuse, and no fragment.
    host = str(origin).partition("://")[2]
    return urlunsplit((origin.scheme, host, *parts[2:4], "")), ""


def _with_cookies(
    cookies: CookieJar | None, response: Response, request: Request
) -> CookieJar | None:
    """Add the cookies that *response* to *request* sets to the jar *cookies*, and return the jar. It is None as
    long as no response has set a cookie.
    """
    fields = response.headers.getlist("Set-Cookie")
    if 0 < sum(map(len, fields)) <= _MAX_COOKIES:
        cookies = cookies or CookieJar()
        cookies.extract_cookies(response, request)
    return cookies


def headers_of(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return the name and value of each field in *headers* that an AccessResult keeps: the media type, and the
    fields that say how long a robots.txt stays fresh, or when to try again.
    """
    kept: list[tuple[str, str]] = []
    for field in sorted(_HEADER_NAMES.keys() & headers.keys()):
        name, values = _HEADER_NAMES[field], headers.getlist(field)
        if name == "cache-control":
            # Cache-Control is a list, which may be split over several fields (RFC 9110, 5.3).
            values = [b", ".join(values)]
        # A response may have several Retry-After fields. The caller decides between them.
        most = _MAX_PAUSES if name == "retry-after" else 1
        kept += [(name, value.decode("latin-1")) for value in values[:most]]
    return tuple(kept)


# The reasons for which downloads fail, in words.

_MACHINE_ERROR = "an error of this machine"
_NO_HOST = "the host name could not be resolved"
_NO_PROXY = "the host name of the proxy could not be resolved"
_REFUSED = "connection refused"
_HOST_UNREACHABLE = "the host is unreachable"
_NO_NETWORK = "the network is unreachable"
_TIMED_OUT = "timed out"
_TLS = "TLS failed"

_DESCRIPTIONS = {
    # The machine has run out of file descriptors, memory, or local ports.
    r"EMFILE|ENFILE|ENOBUFS|ENOMEM|EADDRNOTAVAIL|EAI_MEMORY|\bMemoryError|curl(27|45);": _MACHINE_ERROR,
    "curl5;": _NO_PROXY,
    "CannotResolveHost|DNSLookup|UnknownHost|gaierror|curl6;": _NO_HOST,
    # libcurl uses code 7 for any failed connection, except a time-out.
    "ConnectionRefused|curl7;": _REFUSED,
    "EHOSTUNREACH|EHOSTDOWN": _HOST_UNREACHABLE,
    # Also raised for a host with only an IPv6 address if the machine has no IPv6.
    "ENETDOWN|ENETUNREACH": _NO_NETWORK,
    "TimedOut|Timeout|ETIMEDOUT|curl28;": _TIMED_OUT,
    "BadHttpMessage|BadStatusLine|ParseError|curl8;": "the answer is not valid HTTP",
    "ConnectionDone|ConnectionLost|ServerDisconnected|curl52;": "connection closed by the server",
    "ConnectionReset|curl5[56];": "connection reset by the server",
    "DataLoss|curl18;": "the answer is incomplete",
    r"\bSSLError|OpenSSL\.SSL\.": _TLS,
}
"""A regular expression for the result of :func:`_names`, and the description of the errors that it matches. The
first match counts."""

NO_SERVER = frozenset({_NO_HOST, _REFUSED})
"""The descriptions of errors that show that the host has no server."""

_NETWORK_ERRORS = NO_SERVER | {_NO_PROXY, _HOST_UNREACHABLE, _NO_NETWORK, _TIMED_OUT}
"""The descriptions of failures without any answer. Their cause may be the network of the crawler."""

# The maximum number of exceptions to read in a tree of causes, which can be circular. Download handlers nest far
# fewer.
_MAX_ERRORS = 50


def kind_of(error: BaseException) -> Failure:
    """Return the kind of failure of a download that ended with *error*: of this machine, of the network, or
    any other.
    """
    # An error of the machine may be only in the context of *error* (raised while it was handled).
    causes = _causes(error, with_context=True)
    descriptions = [*filter(None, map(_description, causes))]
    if _MACHINE_ERROR in descriptions:
        return Failure.OWN
    is_of_network = bool(descriptions) and descriptions[0] in _NETWORK_ERRORS
    return Failure.NETWORK if is_of_network else Failure.OTHER


def in_words(error: BaseException) -> str:
    """Return the reason for which a download ended with *error*, in words for logs and reports."""
    causes = _causes(error)
    described = [(text, cause) for cause in causes if (text := _description(cause))]
    of_machine = [pair for pair in described if pair[0] == _MACHINE_ERROR]
    for description, cause in of_machine or described:
        has_detail = description in {_MACHINE_ERROR, _TLS}
        return f"{description}: {_detail(cause)}" if has_detail else description
    text = next(filter(None, map(_text, causes)), "")
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _causes(
    error: BaseException,
    *,
    with_context: bool = False,
    seen: list[BaseException] | None = None,
) -> list[BaseException]:
    """Return the exceptions that caused *error*, the root cause first, and *error* itself at the end.

    *with_context* adds each exception's ``__context__`` after it. *seen* has the exceptions that were
    visited already, and are left out.
    """
    seen = [] if seen is None else seen
    if len(seen) == _MAX_ERRORS or any(earlier is error for earlier in seen):
        return []
    seen.append(error)
    causes_of = partial(_causes, with_context=with_context, seen=seen)
    # Besides __cause__: Twisted's CannotListenError keeps its cause in ``socketError``.
    direct: list[object] = [error.__cause__, getattr(error, "socketError", None)]
    # Twisted keeps several causes in a list of failures (``reasons``), an exception group in a tuple.
    for name in ("reasons", "exceptions"):
        several = getattr(error, name, None)
        if isinstance(several, (list, tuple)):
            direct += [getattr(item, "value", item) for item in several[:_MAX_ERRORS]]
    causes: list[BaseException] = []
    for cause in direct:
        if isinstance(cause, BaseException):
            causes += causes_of(cause)
    causes.append(error)
    context = None if error.__suppress_context__ else error.__context__
    if with_context and context is not None:
        causes += causes_of(context)
    return causes


def _description(error: BaseException) -> str:
    """Return the description of *error* alone, without its causes; empty if it matches none."""
    names = _names(error)
    for pattern, description in _DESCRIPTIONS.items():
        if re.search(pattern, names):
            return description
    return ""


def _names(error: BaseException) -> str:
    """Return a text by which *error* can be recognised: the names of its classes, the name of its error
    number (as ``ECONNRESET``), and ``curl`` with the code if libcurl raised it
    (https://curl.se/libcurl/c/libcurl-errors.html).
    """
    names = [f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__]
    codes: Mapping[int, str] = errno.errorcode
    if isinstance(error, gaierror):
        codes = {
            EAI_MEMORY: "EAI_MEMORY"
        }  # The numbers of gaierror are not those of errno.
    for attribute in ("errno", "osError"):
        number = getattr(error, attribute, None)
        if isinstance(number, int):
            names.append(codes.get(number, ""))
    if "CurlError" in " ".join(names):
        names.append(f"curl{getattr(error, 'code', '')};")
    return " ".join(names)


def _detail(error: BaseException) -> str:
    """Return the message of *error*. Errors of OpenSSL keep their message in ``reason``, or in the last entry of
    their error queue.
    """
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.lower().replace("_", " ")
    queue = error.args[0] if error.args else None
    if isinstance(queue, list) and queue and queue[-1]:
        return str(queue[-1][-1])
    return _text(error) or type(error).__name__


def _text(error: BaseException) -> str:
    """Return the message of *error*; empty for an error of Twisted whose message only lists its causes."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if hasattr(error, "reasons"):
        return ""
    text = " ".join(str(error).split())
    # libcurl puts an error number before its message, and the address of its documentation after it.
    return text.partition("curl: ")[2].partition(". See https://")[0] or text
