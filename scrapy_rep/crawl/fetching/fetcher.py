"""Downloads robots.txt files through Scrapy's engine, and classifies download errors.

Download handlers raise exceptions from several libraries. The exception classes cannot be imported here, since a
library may not be installed, or may define its classes in private modules. So an exception is recognised by its
error number (errno, or libcurl's code), or by words in the names of its classes.
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

    # An async function that raises RobotsDenied if a request for a robots.txt or tdmrep.json must not be sent. For
    # example, the robots.txt of a host forbids its tdmrep.json, or the target of a redirect. The arguments are the
    # request, and the page requests that wait for the file.
    Check: TypeAlias = Callable[[RobotsTxtRequest, list[Request]], Awaitable[None]]


_ATTEMPTS = 2
"""The maximum number of times that a request for a robots.txt or tdmrep.json is sent if it gets no answer. If the page
requests that wait for the file use more proxies than this number, the request is sent once through each proxy."""
# Attempts follow each other immediately, since most failures last only a moment. After a longer outage, the frontier
# starts a new fetch later.

_PROXY_REFUSES = 407
"""The status with which a proxy refuses a request. It does not count as an answer to the request."""

_STATUSES = range(100, 1000)
"""The valid HTTP statuses, which have three digits (RFC 9110, 15). Twisted accepts any number as a status, even one
that is too large for a column of the ledger."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# The maximum number of Retry-After header fields that are read from one response.
_MAX_PAUSES = 4

# The maximum total length, in bytes, of a response's Set-Cookie fields. If they are longer, all of them are ignored,
# since parsing them is slow.
_MAX_COOKIES = 8_192

_STOPPED = (
    "a component stopped its download by raising StopDownload in a handler of headers_received or "
    "bytes_received; let the handler ignore requests for robots.txt and tdmrep.json"
)

_HEADER_NAMES = {name.title().encode(): name for name in HEADERS}
"""The names of the header fields that an AccessResult keeps. Maps each name as Scrapy's Headers spell it, such as
``b"Retry-After"``, to the name in the AccessResult, such as ``"retry-after"``."""


class RobotsTxtFetcher:
    """Fetches robots.txt and tdmrep.json files through Scrapy's downloader.

    A request for robots.txt uses the proxy, TLS settings and connections of ordinary requests. But middlewares that
    redirect, retry, cache or drop ordinary requests must not handle a request for robots.txt, since their result would
    be mistaken for the rules of the site. For example, in a project that disables redirects, a robots.txt that is
    redirected would seem to contain no rules, and everything would be allowed. Therefore, the fetcher itself follows
    redirects and repeats failed requests.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: RepSettings,
        take_room: Callable[[RobotsTxtRequest], Awaitable[object]] | None = None,
        free_if_unsent: Callable[[RobotsTxtRequest], None] = lambda _: None,
        is_own_fault: Callable[[Failure], bool] = lambda _: False,
    ) -> None:
        """Make a fetcher. Without the callbacks *take_room* and *free_if_unsent*, as in commands, requests are sent
        without delays and limits.

        :param take_room: waits until the limits of the host (concurrency, delays, pauses) allow the request, and then
            counts the request as one of the host's concurrent requests. Raises BackingOff if the host requested too
            long a pause, and SpiderClosing if the spider closes
        :param free_if_unsent: called at the end of each request. If *take_room* has counted the request, but it was
            never sent, this function stops counting it. A request that was sent is counted until its download ends
        :param is_own_fault: returns whether the crawler itself caused a failure, for example because its network is
            down. The fetcher then sends the request again as soon as the limits allow that
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._dialect = settings.dialect
        self._meta_keys = settings.request_meta_keys
        self._take_room = take_room
        self._free_if_unsent = free_if_unsent
        self._is_own_fault = is_own_fault
        self._downloads = 0
        """The number of this fetcher's requests that Scrapy is downloading now. While this number is not 0, a handler
        of the signal ``bytes_received`` is connected."""

        self._has_logged_traceback = False

    async def fetch(
        self, url: str, templates: list[Request], check: Check | None = None
    ) -> AccessResult:
        """Fetch a robots.txt or tdmrep.json, and return the result. Errors of the site, of the network and of this
        crawler are not raised, but described in the result.

        A request is repeated immediately if it gets no answer, or if a proxy refuses it. Each attempt copies the
        User-Agent and proxy of the next page request in *templates*.

        :param url: the URL of the file, as :meth:`Origin.url` returns it
        :param templates: page requests that wait for the file, at least one; see :func:`add_template`. The fetch
            changes the order of the list
        :param check: None for a robots.txt. For a tdmrep.json, a function that raises RobotsDenied if robots.txt
            forbids a request. It is called before the first request and before each redirect is followed (RFC 9309,
            2.3.1.2, exempts only the redirects of robots.txt). Requests for a tdmrep.json are not counted in Scrapy's
            ``robotstxt/*`` stats
        :raises SpiderClosing: if the spider closes while a request for the file waits to be sent
        :raises CancelledError: if the fetch is cancelled (Twisted's or asyncio's exception). A fetch is cancelled when
            the spider closes, and when no page request waits for the file any more (*templates* is then empty)
        """
        count = _not_counted if check else self._crawler.stats.inc_value
        count(stats.REQUEST_COUNT)
        try:
            return await self._follow(url, templates, check, count)
        except (SpiderClosing, CancelledError, asyncio.CancelledError) as ended:
            is_told = isinstance(ended, SpiderClosing) or is_closing(self._crawler)
            if is_told or not templates:
                raise
            # Another component cancelled the fetch. The page requests that wait for the file still need a result.
            return AccessResult(url=url, status=None, error="cancelled")
        except Exception as exception:
            self._logger.exception(
                "%(url)s could not be fetched, because of an error in this crawler, not at the site. The traceback "
                "shows the error. This robots.txt counts as unreachable, and will be fetched again later",
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
        """Request *url*, follow redirects, repeat failed requests, and return the final result. *count* is a function
        that increments the stat with a given key. For *templates* and *check*, see :meth:`fetch`.
        """
        current, virtual_host = split_virtual_host(url)
        attempts, has_left_origin, targets = 0, False, list[str]()
        # Cookies are kept across redirects, since some sites redirect to the same URL until the client sends a cookie.
        cookies: CookieJar | None = None
        while True:
            # Each attempt uses the User-Agent and proxy of the next page request in *templates*, so rotate the list.
            templates.append(templates.pop(0))
            request = RobotsTxtRequest.of(
                current,
                templates[-1],
                self._meta_keys,
                asked_url=url,
                virtual_host="" if has_left_origin else virtual_host,
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
            # Without a final answer, try again, until there were _ATTEMPTS attempts, or one through the proxy of each
            # page request in *templates*, whichever is more. The length of *templates* is not constant: page requests
            # that begin to wait during the fetch are added.
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
            has_left_origin = origin_of(target) != origin_of(url)

    async def _send(
        self,
        request: RobotsTxtRequest,
        count: Callable[[str], None],
        allowed: Awaitable[None] | None,
    ) -> Response | AccessResult:
        """Send *request* as soon as the limiters of its host allow that. Return the response or, if the request fails,
        an AccessResult that describes the error.

        *count* is a function that increments the stat with a given key. *allowed* is None if the request needs no
        check. Otherwise, it is an awaitable that raises RobotsDenied if robots.txt forbids the request. The request is
        sent after *allowed* was awaited.
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
                # The handler is connected only during downloads of this fetcher, since Scrapy calls a connected
                # handler for each chunk of each page. A page of 100 KB can arrive in 70 chunks, for which the calls
                # would take 0.8 ms (11 µs each). Without these calls, a crawl needs 0.7 ms for a page.
                signal_manager.connect(self._received, signals.bytes_received)
            answer = await self._crawler.engine.download_async(request)
            # If a component of the project stopped the download, the body is incomplete. An incomplete body is accepted
            # in two cases: this package itself stopped the download at the size limit (is_stopped), or the status is
            # not 2xx, so that the body is not used. Otherwise, the request has failed.
            may_be_incomplete = request.fetch.is_stopped or answer.status // 100 != 2
            if not may_be_incomplete and "download_stopped" in answer.flags:
                raise StopDownload
            return answer
        except Exception as exception:  # noqa: BLE001  any component may raise it
            return self._failed(request, exception, count)
        finally:
            if is_counted:
                self._downloads -= 1
                if not self._downloads:
                    signal_manager.disconnect(self._received, signals.bytes_received)
            # take_room() has counted the request as one of the host's concurrent requests. Usually, the request then
            # reaches WireMiddleware, which stops counting it when its download ends. If the request was cancelled or
            # dropped before, free_if_unsent() must stop counting it. Otherwise, it would be counted until the crawl
            # ends.
            self._free_if_unsent(request)

    def _failed(
        self,
        request: RobotsTxtRequest,
        exception: Exception,
        count: Callable[[str], None],
    ) -> AccessResult:
        """Return a result that describes *exception*, the error with which *request* failed. *count* is a function that
        increments the stat with a given key. If the request was cancelled, or the spider closes, *exception* is raised
        again, since the site has not failed.
        """
        failure = Failure.DROPPED
        match exception:
            case CancelledError() | SpiderClosing():
                # This is Twisted's CancelledError. asyncio.CancelledError is not an Exception, so it is not handled
                # here.
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
                # An exception counts as a failed download if it has a type that download handlers raise, even if it
                # comes from another component, such as a middleware with its own HTTP client.
                is_of_download = any(map(_description, _causes(exception)))
                if exception is not request.fetch.error and not is_of_download:
                    error += ", raised by a component (see REP_REQUEST_META_KEYS)"
                    self._log_traceback(request, exception)
                else:
                    failure = kind_of(exception)
                    is_of_server = error in NO_SERVER and failure is Failure.NETWORK
                    if is_of_server and request.meta.get("proxy"):
                        # The cause may be the proxy, so the error does not prove that the site has no server.
                        error += " through its proxy"
                    elif is_of_server:
                        failure = Failure.NO_SERVER
        return AccessResult(request.url, None, error=error, failure=failure)

    def _log_traceback(self, request: RobotsTxtRequest, exception: Exception) -> None:
        if self._has_logged_traceback:
            return
        self._has_logged_traceback = True
        self._logger.error(
            "%(url)s could not be fetched, because a component of the project raised the exception below for this "
            "request. This robots.txt counts as unreachable, and will be fetched again later. If the component needs "
            "a key of Request.meta that your spider sets, add the key to REP_REQUEST_META_KEYS. "
            "Later exceptions of components are logged without a traceback",
            exc_info=exception,
            url=request.url,
        )

    def _received(self, data: bytes, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            request.received(len(data), self._dialect.size_limit)


def _not_counted(_: str) -> None:
    """Do nothing. This function replaces the counter of Scrapy's ``robotstxt/*`` stats during the fetch of a file other
    than robots.txt.
    """


def _result(
    url: str, response: Response, targets: list[str], error: str
) -> AccessResult:
    """Return the result of a fetch of *url* that ended with *response*. *targets* are the URLs to which the fetch was
    redirected before. If *response* is a redirect that was not followed, *error* is the reason. Otherwise, *error* is
    empty.
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
    """Return a pair of the absolute URL to which *response* redirects *url*, and an error text.

    For a valid redirect, the error text is empty. For an invalid redirect, the URL is None, and the error text explains
    what is wrong. For any other response, the URL is None, and the error text is empty.
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
    # User information ("user:password@") is left out of the new URL, since some download handlers refuse such a URL.
    # The fragment is left out too.
    host = str(origin).partition("://")[2]
    return urlunsplit((origin.scheme, host, *parts[2:4], "")), ""


def _with_cookies(
    cookies: CookieJar | None, response: Response, request: Request
) -> CookieJar | None:
    """Add the cookies of *response*, the answer to *request*, to the jar *cookies*, and return the jar. If *cookies* is
    None, return a new jar or, if there are no cookies to add, None.
    """
    fields = response.headers.getlist("Set-Cookie")
    if 0 < sum(map(len, fields)) <= _MAX_COOKIES:
        cookies = cookies or CookieJar()
        cookies.extract_cookies(response, request)
    return cookies


def headers_of(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return the fields of *headers* that an AccessResult keeps, as pairs of the name in lower case and the value. They
    are the fields about the type and lifetime of a robots.txt, and ``Retry-After``.
    """
    kept: list[tuple[str, str]] = []
    for field in sorted(_HEADER_NAMES.keys() & headers.keys()):
        name, values = _HEADER_NAMES[field], headers.getlist(field)
        if name == "cache-control":
            # Cache-Control is a list, which may be split over several fields (RFC 9110, 5.3).
            values = [b", ".join(values)]
        # If a response contains several Retry-After fields, all are kept, up to _MAX_PAUSES. pause_asked() takes the
        # longest pause.
        most = _MAX_PAUSES if name == "retry-after" else 1
        kept += [(name, value.decode("latin-1")) for value in values[:most]]
    return tuple(kept)


# Descriptions of download errors.

_MACHINE_ERROR = "an error of this machine"
_NO_HOST = "the host name could not be resolved"
_NO_PROXY = "the host name of the proxy could not be resolved"
_REFUSED = "connection refused"
_HOST_UNREACHABLE = "the host is unreachable"
_NO_NETWORK = "the network is unreachable"
_TIMED_OUT = "timed out"
_TLS = "TLS failed"

_DESCRIPTIONS = {
    # This machine ran out of file descriptors, memory, or local ports.
    r"EMFILE|ENFILE|ENOBUFS|ENOMEM|EADDRNOTAVAIL|EAI_MEMORY|\bMemoryError|curl(27|45);": _MACHINE_ERROR,
    "curl5;": _NO_PROXY,
    "CannotResolveHost|DNSLookup|UnknownHost|gaierror|curl6;": _NO_HOST,
    # libcurl uses code 7 for any failed connection, except a time-out.
    "ConnectionRefused|curl7;": _REFUSED,
    "EHOSTUNREACH|EHOSTDOWN": _HOST_UNREACHABLE,
    # The system also reports these errors if the host has only an IPv6 address, and this machine has no IPv6.
    "ENETDOWN|ENETUNREACH": _NO_NETWORK,
    "TimedOut|Timeout|ETIMEDOUT|curl28;": _TIMED_OUT,
    "BadHttpMessage|BadStatusLine|ParseError|curl8;": "the answer is not valid HTTP",
    "ConnectionDone|ConnectionLost|ServerDisconnected|curl52;": "connection closed by the server",
    "ConnectionReset|curl5[56];": "connection reset by the server",
    "DataLoss|curl18;": "the answer is incomplete",
    r"\bSSLError|OpenSSL\.SSL\.": _TLS,
}
"""Maps regular expressions to the descriptions of errors. The expressions are searched in the text that :func:`_names`
returns for an error. The first expression that matches determines the description of the error."""

NO_SERVER = frozenset({_NO_HOST, _REFUSED})
"""The descriptions of the errors that mean that no server runs on the host: its name does not exist, or it refused the
connection. For a request through a proxy, these errors say nothing about the host."""

_NETWORK_ERRORS = NO_SERVER | {_NO_PROXY, _HOST_UNREACHABLE, _NO_NETWORK, _TIMED_OUT}
"""The descriptions of those errors that mean that no server answered. The cause can be the host, the proxy, or the
crawler's own network."""

# The maximum number of exceptions to visit in the tree of an exception's causes, which can be circular. Download
# handlers nest far fewer.
_MAX_ERRORS = 50


def kind_of(error: BaseException) -> Failure:
    """Return the kind of failure for *error*, the exception of a failed download: Failure.OWN for an error of this
    machine, Failure.NETWORK for an error of the network, and Failure.OTHER for any other error.
    """
    # If *error* was raised while an error of this machine was handled, the machine error is only in error.__context__.
    causes = _causes(error, with_context=True)
    descriptions = [*filter(None, map(_description, causes))]
    if _MACHINE_ERROR in descriptions:
        return Failure.OWN
    is_of_network = bool(descriptions) and descriptions[0] in _NETWORK_ERRORS
    return Failure.NETWORK if is_of_network else Failure.OTHER


def in_words(error: BaseException) -> str:
    """Return a short text for log lines and reports that explains *error*, the exception of a failed download."""
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
    """Return *error* and the exceptions that caused it, with the root cause first.

    If *with_context* is True, also return the ``__context__`` of each exception, directly after the exception: this
    other exception was being handled when the exception was raised, and can be unrelated. *seen* is used only by
    recursive calls: it contains the exceptions that were already visited, and that are not returned again.
    """
    seen = [] if seen is None else seen
    if len(seen) == _MAX_ERRORS or any(earlier is error for earlier in seen):
        return []
    seen.append(error)
    causes_of = partial(_causes, with_context=with_context, seen=seen)
    # Twisted's CannotListenError stores its cause in ``socketError`` instead of ``__cause__``.
    direct: list[object] = [error.__cause__, getattr(error, "socketError", None)]
    # Some of Twisted's exceptions have several causes, in a list of Failures (``reasons``). The exceptions of an
    # exception group are in a tuple (``exceptions``).
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
    """Return the description of *error* in :data:`_DESCRIPTIONS`, or an empty text if there is none. The exceptions
    that caused *error* are not considered.
    """
    names = _names(error)
    for pattern, description in _DESCRIPTIONS.items():
        if re.search(pattern, names):
            return description
    return ""


def _names(error: BaseException) -> str:
    """Return a text to match with the regular expressions in :data:`_DESCRIPTIONS`. The text contains the name of the
    error's class, the names of all base classes, and the name of the error number, such as ``ECONNRESET``. For an error
    of libcurl, the text also contains ``curl`` and the code, such as ``curl28;``
    (https://curl.se/libcurl/c/libcurl-errors.html).
    """
    names = [f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__]
    codes: Mapping[int, str] = errno.errorcode
    if isinstance(error, gaierror):
        codes = {
            EAI_MEMORY: "EAI_MEMORY"
        }  # The error numbers of gaierror differ from those in errno.
    for attribute in ("errno", "osError"):
        number = getattr(error, attribute, None)
        if isinstance(number, int):
            names.append(codes.get(number, ""))
    if "CurlError" in " ".join(names):
        names.append(f"curl{getattr(error, 'code', '')};")
    return " ".join(names)


def _detail(error: BaseException) -> str:
    """Return the message of *error*. For an error of OpenSSL, this is the attribute ``error.reason`` or, if there is no
    such attribute, the last text in the list ``error.args[0]``.
    """
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.lower().replace("_", " ")
    queue = error.args[0] if error.args else None
    if isinstance(queue, list) and queue and queue[-1]:
        return str(queue[-1][-1])
    return _text(error) or type(error).__name__


def _text(error: BaseException) -> str:
    """Return the message of *error*. Return an empty text for a Twisted error with the attribute ``reasons``, since its
    message only lists the exceptions that caused it.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if hasattr(error, "reasons"):
        return ""
    text = " ".join(str(error).split())
    # libcurl writes an error number before the message, and the URL of its documentation after the message.
    return text.partition("curl: ")[2].partition(". See https://")[0] or text
