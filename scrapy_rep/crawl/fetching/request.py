"""The request for a robots.txt or tdmrep.json, and the downloader middleware that prepares this request and decodes its
response.

Scrapy's HttpCompressionMiddleware silently accepts a truncated body. A robots.txt would then lack its last rules, and
the crawler would fetch URLs that the site disallows. So FetchMiddleware asks servers for a robots.txt without
compression, and rejects a compressed body that is incomplete.
"""

from __future__ import annotations

import sys
import time
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.base import meta
from scrapy_rep.base.compat import PROXY_AUTH_META_KEY
from scrapy_rep.base.requests import bare_host, request_origin, was_redirected
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self

_MAX_TEMPLATES = 8

_MAX_REPLACED = 10
"""The maximum number of times that components can replace a request for robots.txt by a new request, before the request
fails. The limit ends infinite loops. Plugins that repeat a request through other proxies replace it fewer times."""

_META = {
    meta.DONT_OBEY_ROBOTSTXT: True,
    "allow_offsite": True,
    "autothrottle_dont_adjust_delay": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "dont_redirect": True,
    "dont_retry": True,
    "download_fail_on_dataloss": True,
    # A long robots.txt is cut at the dialect's size limit (see RobotsTxtRequest.received). The two keys below disable
    # the project's own limits, at which the download would fail or cause a warning.
    "download_maxsize": 0,
    "download_warnsize": 0,
    "handle_httpstatus_all": True,
}
"""The meta keys that prevent Scrapy's own components from changing, dropping or caching a request for robots.txt."""

MAX_TIMEOUT = 30.0
"""The maximum time-out, in seconds, of a request for robots.txt. Scrapy's default of 180 s is meant for large files. It
is too long for a robots.txt, since all page requests to the host wait for the file."""


class Fetch:
    """The state of one download of a robots.txt or tdmrep.json.

    A component can replace a :class:`RobotsTxtRequest` by a copy, which its method ``replace()`` returns. The original
    and its copies belong to the same download, and so share this object. Only the methods of :class:`RobotsTxtRequest`
    change the object.
    """

    def __init__(self, asked_url: str = "", virtual_host: str = "") -> None:
        self.asked_url = asked_url
        """The URL of the file before redirects. After a redirect, the URL of the request differs from this URL."""

        self.virtual_host = virtual_host
        """The value of the ``Host`` header to send, if it differs from the host in the URL. Otherwise empty."""

        self.is_sent = False
        """Whether the request passed all middlewares and was handed to the download handler."""

        self.request_count = 0
        """The number of requests of this download that have reached RobotsTxtMiddleware so far. More than 1 if a
        component has replaced the first request, for example to use another proxy."""

        self.size = 0
        """The number of bytes of the body that have been received so far."""

        self.began = 0.0
        """The time, on the monotonic clock, at which the first byte of the body arrived. 0 before that time."""

        self.is_stopped = False
        """Whether this package stopped the download at the size limit or the time limit. At the size limit, the
        received part becomes the response. At the time limit, the download fails."""

        self.error: Exception | None = None
        """The error that the download handler raised. None if the download handler raised no error, even if the request
        failed because a middleware raised an error."""


class RobotsTxtRequest(Request):
    """A request for a robots.txt or a tdmrep.json.

    RobotsTxtMiddleware lets these requests pass without a check. A robots.txt may always be fetched, and a request for
    a tdmrep.json was already checked by RobotsTxtCache. The middleware recognises these requests by their class. A meta
    key would not be safe, since spiders copy meta to page requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetch = Fetch()

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        """Return a copy of this request with new values, like :meth:`Request.replace`. The copy and this request share
        the state of the download (``fetch``).
        """
        copy = super().replace(*args, **kwargs)
        if isinstance(copy, RobotsTxtRequest):
            copy.fetch = self.fetch
        return copy

    def reached_middleware(self) -> None:
        """Count this request, since it has reached RobotsTxtMiddleware (in a dry run, DryRun).

        A downloader middleware can replace a request for robots.txt by a new request, for example to use another proxy.
        The new request reaches RobotsTxtMiddleware too. Raises IgnoreRequest if requests have been replaced more than
        :data:`_MAX_REPLACED` times in one fetch.
        """
        self.fetch.request_count += 1
        if self.fetch.request_count > 1 + _MAX_REPLACED:
            raise IgnoreRequest(
                f"a downloader middleware replaced the request by a new request {self.fetch.request_count - 1} "
                f"times in a row, the last time by a request for {self.url}; the middleware must return None "
                "for a request that it created itself"
            )

    def at_wire(self) -> None:
        """Record that the request has passed all middlewares, and is now handed to the download handler."""
        self.fetch.is_sent = True

    def failed(self, error: Exception) -> None:
        """Record that the download handler raised *error*."""
        self.fetch.error = error

    @classmethod
    def of(
        cls,
        url: str,
        template: Request,
        meta_keys: Iterable[str] = (),
        *,
        asked_url: str = "",
        virtual_host: str = "",
    ) -> Self:
        """Return a request for a robots.txt or tdmrep.json.

        :param url: the URL of the file or, after a redirect, the target of the redirect
        :param template: a page request that waits for the file. Its User-Agent and proxy are copied
        :param meta_keys: further meta keys to copy from *template*
        :param asked_url: the URL of the file before redirects
        :param virtual_host: the ``Host`` header to send, if it differs from the host in *url*; otherwise empty
        """
        template_meta = template.meta
        copied = {key: template_meta[key] for key in meta_keys if key in template_meta}
        if "redirect_urls" in template_meta:
            origin = request_origin(template)
            if origin is not None and was_redirected(template, bare_host(origin)):
                # The page request was redirected from another host, and its download slot belongs to that host.
                copied.pop("download_slot", None)
        names = [b"User-Agent"]
        if "proxy" in template_meta:
            for key in ("proxy", PROXY_AUTH_META_KEY):
                if key in template_meta:
                    copied[key] = template_meta[key]
            # When Scrapy retries a request, its proxy credentials are only in this header.
            names.append(b"Proxy-Authorization")
        headers = {
            name: template.headers[name] for name in names if name in template.headers
        }
        request = cls(
            url,
            headers=headers,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta=copied | _META,
        )
        request.fetch = Fetch(asked_url, virtual_host)
        return request

    @property
    def timeout(self) -> float:
        """The time-out in seconds: ``DOWNLOAD_TIMEOUT``, as for a page, but at most :data:`MAX_TIMEOUT`."""
        timeout: float = self.meta.get("download_timeout") or MAX_TIMEOUT
        return min(timeout, MAX_TIMEOUT)

    def received(self, size: int, limit: int) -> None:
        """Record that *size* more bytes of the body were received. Raises StopDownload if the body is now longer than
        *limit* bytes, or if more than :attr:`timeout` seconds have passed since the first byte arrived.
        """
        now = time.monotonic()
        self.fetch.began = self.fetch.began or now
        self.fetch.size += size
        # The body must exceed the limit by at least one byte, so that the parser sees that the body was cut.
        if self.fetch.size > limit:
            self.fetch.is_stopped = True
            raise StopDownload(fail=False)
        # Some download handlers apply the time-out to each read, not to the whole download. If a server sent single
        # bytes slowly, the page requests to its host would wait forever.
        if now - self.fetch.began > self.timeout:
            self.fetch.is_stopped = True
            raise StopDownload(fail=True)


def add_template(templates: list[Request], request: Request) -> None:
    """Insert *request* at the beginning of *templates*, unless *templates* contains a request with the same proxy. If
    *templates* then contains more than :data:`_MAX_TEMPLATES` requests, remove the request at the end.

    *templates* contains page requests that wait for the robots.txt or tdmrep.json of their site. Each attempt to fetch
    the file copies the User-Agent, the proxy, and the meta keys in ``REP_REQUEST_META_KEYS`` from the request at the
    beginning, and moves it to the end. So each attempt uses the next proxy. Requests can also be added during the
    fetch.
    """
    proxy = request.meta.get("proxy")
    if all(template.meta.get("proxy") != proxy for template in templates):
        templates.insert(0, request)
        del templates[_MAX_TEMPLATES:]


class FetchMiddleware:
    """Prepares each request for robots.txt: it disables compression, sets the ``Host`` header, and shortens the
    time-out. If the response is compressed nevertheless, the middleware decodes the body. It rejects a damaged body.
    """

    ORDER = 595
    """The order in ``DOWNLOADER_MIDDLEWARES``. It is higher than that of HttpCompressionMiddleware (590). So this
    middleware gets the response first, and decodes a compressed robots.txt itself. HttpCompressionMiddleware then has
    nothing to decode."""

    def __init__(self, crawler: Crawler) -> None:
        # Bodies are cut one byte above the size limit, so that the parser sees that the body was longer.
        self._limit = RepSettings.of(crawler).dialect.size_limit + 1

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FetchMiddleware:
        """Return the middleware for a crawl without WireMiddleware: a dry run, or a command such as ``scrapy rep
        check``. The middleware sets :attr:`Fetch.is_sent`. In other crawls, WireMiddleware sets this attribute.
        """
        middleware = cls(crawler)
        crawler.signals.connect(
            middleware.reached_downloader, signals.request_reached_downloader
        )
        return middleware

    @staticmethod
    def reached_downloader(request: Request) -> None:
        """Handle the signal ``request_reached_downloader``: if *request* is for a robots.txt, record that it is now
        handed to the download handler.
        """
        if isinstance(request, RobotsTxtRequest):
            request.at_wire()

    def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            # Without Accept-Encoding, the server may use any encoding (RFC 9110, 12.5.3).
            request.headers["Accept-Encoding"] = "identity"
            # Remove a Host header that DEFAULT_REQUEST_HEADERS or a middleware has set. With this header, the server
            # could send the robots.txt of another site.
            request.headers.pop("Host", None)
            if request.fetch.virtual_host:
                request.headers["Host"] = request.fetch.virtual_host
            request.meta["download_timeout"] = request.timeout

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        is_robotstxt = isinstance(request, RobotsTxtRequest)
        return decoded(response, self._limit) if is_robotstxt else response

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(request, RobotsTxtRequest) and request.fetch.is_sent:
            request.failed(exception)


# Decoding of compressed bodies.

# The maximum number of members of a gzip body, or of frames of a Zstandard body, to decode. The limit bounds the time,
# since a hostile body of 500 KiB can contain 60,000 empty members. Ordinary bodies contain a single member. Parallel
# compressors write several, each for 64 KiB of data or more.
_MAX_MEMBERS = 1_000

# The maximum number of characters of a Content-Encoding in an error message.
_MAX_SHOWN = 80

# The module for Zstandard. Since Python 3.14, it is in the standard library. For older versions of Python, it is in a
# package that Scrapy 2.19 requires.
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    "x-gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    # "deflate" means data in the zlib format, but some servers leave out the zlib header.
    "deflate": lambda body: zlib.decompressobj(15 if body[0] & 15 == 8 else -15),
    "zstd": lambda _: import_module(_ZSTD).ZstdDecompressor(),
}

# A body is plain text, and not compressed data, if it contains no control characters, and is either UTF-8 or has less
# than 30 % of its bytes above 0x7F. In other encodings of a robots.txt, few bytes are above 0x7F, since field names and
# most paths are ASCII. Compressed data contains control characters, and half of its bytes are above 0x7F.
_CONTROL_CHARACTERS = bytes({*range(0x20), 0x7F} - {*b"\t\n\f\r"})
_MAX_ABOVE_ASCII = 0.3


class UndecodableBody(Exception):
    """Raised if the body of a robots.txt cannot be decompressed. The body has an unknown encoding or several encodings,
    is damaged or incomplete, or contains too many members (see ``_MAX_MEMBERS``)."""


def decoded(response: Response, limit: int) -> Response:
    """Return *response* with its body decompressed, and without the header ``Content-Encoding``. Decoding stops after
    *limit* bytes, so that a decompression bomb does not exhaust the memory.

    If the body is already plain text, it is left unchanged, whatever ``Content-Encoding`` says. Some servers send
    values that are not encodings (``utf-8``), values meant for a proxy (``aws-chunked``), or encodings that they did
    not apply. If the status is not 2xx, the body is removed, since it is never used.

    Raises UndecodableBody if the body is damaged or incomplete, or its encoding is unknown. An incomplete body is
    accepted if the download was stopped, as this package does at the size limit.
    """
    is_successful = response.status // 100 == 2
    if is_successful and "Content-Encoding" not in response.headers:
        return response
    fields = b",".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
    names = [name.strip() for name in fields.lower().split(",")]
    coding = ", ".join(name for name in names if name not in {"", "identity"})
    response.headers.pop("Content-Encoding", None)
    if not is_successful:
        return response.replace(body=b"")
    if not coding or _is_text(response.body):
        return response
    try:
        text, is_whole = _decode(coding, response.body, limit)
    except (ImportError, KeyError):
        raise UndecodableBody(f"unsupported encoding: {coding[:_MAX_SHOWN]}") from None
    except Exception:  # noqa: BLE001  each compression library raises its own errors
        text, is_whole = b"", False
    if not is_whole and not (text and "download_stopped" in response.flags):
        raise UndecodableBody(
            f"the {coding} body ends early, is damaged or has too many members"
        )
    return response.replace(body=text)


def _decode(coding: str, body: bytes, limit: int) -> tuple[bytes, bool]:
    """Return the decompressed *body*, cut after *limit* bytes, and whether these bytes are complete. If the compressed
    data is truncated, and contains fewer than *limit* bytes, return the bytes that it contains, and False.

    All members of a gzip body, and all frames of a Zstandard body, are decompressed. If *body* contains more than
    :data:`_MAX_MEMBERS` members or frames, return empty bytes and False.

    Raises KeyError if *coding* is unknown or contains several encodings, ImportError if the library for *coding* is
    missing, and the library's own error if the body is damaged.
    """
    if coding == "br":
        brotli = import_module("brotli").Decompressor()
        text = brotli.process(body, output_buffer_limit=limit)
        return text[:limit], len(text) >= limit or brotli.is_finished()
    text = b""
    for _ in range(_MAX_MEMBERS):
        decoder = _DECODERS[coding](body)
        text += decoder.decompress(body, limit)
        # Zero bytes after a gzip member are padding, not the start of another member.
        body = decoder.unused_data.lstrip(b"\0")
        if len(text) >= limit or not decoder.eof or not body:
            return text[:limit], len(text) >= limit or decoder.eof
    return b"", False


def _is_text(body: bytes) -> bool:
    """Whether *body* is text and not compressed data. The body can be incomplete."""
    text = body
    if body.startswith((BOM_UTF16_BE, BOM_UTF16_LE)):
        text = decoded_text(body, RFC9309)
    if len(text.translate(None, _CONTROL_CHARACTERS)) < len(text):
        return False
    try:
        # Unlike decode(), an incremental decoder accepts an incomplete last character.
        getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        above = sum(byte > 0x7F for byte in text)
        return above < _MAX_ABOVE_ASCII * len(text)
    return True
