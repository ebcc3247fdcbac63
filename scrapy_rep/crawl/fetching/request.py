"""The request for a robots.txt, and the downloader middleware that prepares this request and decodes its response.

Scrapy's HttpCompressionMiddleware silently accepts a truncated body. A robots.txt would then lack its last rules, and
the crawler would fetch URLs that the site disallows. So FetchMiddleware requests robots.txt without compression, and
rejects an encoded body that is incomplete.
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
"""The maximum number of times that components may replace a request for robots.txt by a new request. The limit ends
infinite loops. Plugins that repeat a request through other proxies need fewer replacements."""

_META = {
    meta.DONT_OBEY_ROBOTSTXT: True,
    "allow_offsite": True,
    "autothrottle_dont_adjust_delay": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "dont_redirect": True,
    "dont_retry": True,
    "download_fail_on_dataloss": True,
    # A long robots.txt is cut at the dialect's size limit (see RobotsTxtRequest.received). Without these keys, the
    # download would fail at the size limit of the project.
    "download_maxsize": 0,
    "download_warnsize": 0,
    "handle_httpstatus_all": True,
}
"""The meta keys that prevent Scrapy's own components from changing, dropping or caching a request for robots.txt."""

MAX_TIMEOUT = 30.0
"""The maximum time-out, in seconds, of a request for robots.txt. Scrapy's default of 180 s is meant for large files. It
is too long for a robots.txt, since all page requests to the host wait for the file."""


class Fetch:
    """The state of one download of a robots.txt. A component may replace a :class:`RobotsTxtRequest` by another
    request; both then share the state. Only the methods of :class:`RobotsTxtRequest` change the state.
    """

    def __init__(
        self,
        asked_url: str = "",
        virtual_host: str = "",
        *,
        is_redirected: bool = False,
    ) -> None:
        self.asked_url = asked_url
        """The original URL of the file. After a redirect, the URL of the request is a different one."""

        self.virtual_host = virtual_host
        """The value of the ``Host`` header. Empty if the header contains the host of the URL, as usual."""

        self.is_redirected = is_redirected
        """Whether redirects led the request to an origin other than that of the original URL."""

        self.is_sent = False
        """Whether the request passed all middlewares and was handed to the download handler."""

        self.passes = 0
        """The number of requests for this download so far: the first request and its replacements."""

        self.size = 0
        """The number of received bytes of the body so far."""

        self.began = 0.0
        """The time, on the monotonic clock, at which the first byte of the body arrived. 0 before that."""

        self.is_stopped = False
        """Whether this package stopped the download at the size limit or the time limit. At the size limit, the
        received part becomes the response. At the time limit, the download fails."""

        self.error: Exception | None = None
        """The error that the download handler raised. None if it raised no error. If the request fails with another
        error, a component of the project raised that error."""


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
        """Return a copy with new values, like :meth:`Request.replace`. The copy shares the state of the download
        (``fetch``) with the original.
        """
        copy = super().replace(*args, **kwargs)
        if isinstance(copy, RobotsTxtRequest):
            copy.fetch = self.fetch
        return copy

    def passed(self) -> None:
        """Count this request in the state of its download. Raises IgnoreRequest if components replaced the request too
        often, since the engine would otherwise download replacements in an infinite loop.
        """
        self.fetch.passes += 1
        if self.fetch.passes > 1 + _MAX_REPLACED:
            raise IgnoreRequest(
                f"a downloader middleware replaced the request by a new request {self.fetch.passes - 1} "
                f"times in a row, the last time by a request for {self.url}; the middleware must return None "
                "for a request that it created itself"
            )

    def at_wire(self) -> None:
        """Record that the request passed all middlewares, and is handed to the download handler."""
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
        is_redirected: bool = False,
    ) -> Self:
        """Return a request for *url* with the User-Agent and proxy of *template*, a page request that waits for the
        file.

        :param meta_keys: further meta keys to copy from *template*
        :param asked_url: the original URL of the file, if *url* is the target of a redirect
        :param virtual_host: the ``Host`` header, if it differs from the host in *url*
        :param is_redirected: whether redirects led to an origin other than that of *asked_url*
        """
        template_meta = template.meta
        copied = {key: template_meta[key] for key in meta_keys if key in template_meta}
        if "redirect_urls" in template_meta:
            origin = request_origin(template)
            if origin is not None and was_redirected(template, bare_host(origin)):
                # The template was redirected from another host, and its download slot belongs to that host.
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
        request.fetch = Fetch(asked_url, virtual_host, is_redirected=is_redirected)
        return request

    @property
    def timeout(self) -> float:
        """The time-out in seconds: ``DOWNLOAD_TIMEOUT``, as for a page, but at most :data:`MAX_TIMEOUT`."""
        timeout: float = self.meta.get("download_timeout") or MAX_TIMEOUT
        return min(timeout, MAX_TIMEOUT)

    def received(self, size: int, limit: int) -> None:
        """Count *size* newly received bytes of the body. Raises StopDownload if the body is longer than *limit* bytes,
        or if it is still arriving when the time-out has passed.
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
    """Add the page request *request* to the *templates* of a fetch. Nothing is added if a template with the same proxy
    exists.

    A template is a page request that waits for the robots.txt or tdmrep.json of its site. A request for the file
    copies the template's User-Agent, proxy, and meta keys in ``REP_REQUEST_META_KEYS``. Each attempt uses the next
    template, and so another proxy. Templates may be added during the fetch.
    """
    proxy = request.meta.get("proxy")
    if all(template.meta.get("proxy") != proxy for template in templates):
        templates.insert(0, request)
        del templates[_MAX_TEMPLATES:]


class FetchMiddleware:
    """Prepares each request for robots.txt: disables compression, sets the ``Host`` header, and shortens the time-out.
    If the response is compressed nevertheless, decodes the body. Rejects a damaged body.
    """

    ORDER = 595
    """The order in ``DOWNLOADER_MIDDLEWARES``. It is higher than that of HttpCompressionMiddleware (590), so that this
    middleware gets the compressed body of a robots.txt and decodes the body itself. HttpCompressionMiddleware then has
    nothing to decode."""

    def __init__(self, crawler: Crawler) -> None:
        # Bodies are cut one byte above the size limit, so that the parser sees that the body was longer.
        self._limit = RepSettings.of(crawler).dialect.size_limit + 1

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FetchMiddleware:
        """Return a middleware for commands and dry runs, which have no WireMiddleware to record that a request passed
        all middlewares. So this middleware records it, in a handler of the signal ``request_reached_downloader``.
        """
        middleware = cls(crawler)
        crawler.signals.connect(
            middleware.reached_downloader, signals.request_reached_downloader
        )
        return middleware

    @staticmethod
    def reached_downloader(request: Request) -> None:
        """Record that *request* is handed to the download handler. This is the handler of the signal
        ``request_reached_downloader``.
        """
        if isinstance(request, RobotsTxtRequest):
            request.at_wire()

    def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            # Without Accept-Encoding, the server may use any encoding (RFC 9110, 12.5.3).
            request.headers["Accept-Encoding"] = "identity"
            # DEFAULT_REQUEST_HEADERS or a middleware may have set a Host header. With this header, the server would
            # send the robots.txt of another site.
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
# since a hostile body of 500 KiB can contain 60,000 empty members. Servers send a single member. Parallel compressors
# write a member for each 64 KiB or more.
_MAX_MEMBERS = 1_000

# The maximum number of characters of a Content-Encoding in an error message.
_MAX_SHOWN = 80

# The module for Zstandard: in the standard library from Python 3.14 on, before that in a package that Scrapy 2.19
# requires.
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    "x-gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    # "deflate" means data in the zlib format, but some servers leave out the zlib header.
    "deflate": lambda body: zlib.decompressobj(15 if body[0] & 15 == 8 else -15),
    "zstd": lambda _: import_module(_ZSTD).ZstdDecompressor(),
}

# Two properties distinguish text from compressed data. Text contains no control characters. And even in an 8-bit
# encoding, less than 30 % of the bytes of a text are above 0x7F, compared to half of the bytes of compressed data.
_CONTROL_CHARACTERS = bytes({*range(0x20), 0x7F} - {*b"\t\n\f\r"})
_MAX_ABOVE_ASCII = 0.3


class UndecodableBody(Exception):
    """The body of a robots.txt cannot be decoded. The body has an unknown encoding or several encodings, is damaged or
    incomplete, or contains too many members (see ``_MAX_MEMBERS``)."""


def decoded(response: Response, limit: int) -> Response:
    """Return *response* with a decoded body, and without ``Content-Encoding``. Decoding stops after *limit* bytes, so
    that a decompression bomb does not exhaust the memory.

    A plain text body is returned unchanged, regardless of ``Content-Encoding``. This is because servers send values
    that are not encodings (``utf-8``), values meant for a proxy (``aws-chunked``), and encodings that they did not
    apply. The body of a response without a 2xx status is never used, so it is removed.

    Raises UndecodableBody if the body is damaged or its encoding is unknown. An incomplete body is accepted only if
    this package cut the download at the size limit.
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
    """Decode *body* up to *limit* bytes. Return the decoded bytes, and whether decoding reached the limit or the
    regular end of *body*. All members of a gzip body, and all frames of a Zstandard body, are decoded. If there are
    more than :data:`_MAX_MEMBERS`, return empty bytes and False.

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
    """Whether *body*, which may be incomplete, is text and not compressed data."""
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
