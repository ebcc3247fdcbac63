"""The request for a robots.txt, and the downloader middleware that asks for an unencoded body and decodes
an encoded one.

Scrapy decodes a body whose end is missing as far as it can. Rules would be missing then, and the crawler
would fetch what they disallow.
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
"""How many requests are sent, one after the other, that components return in place of one for
robots.txt. Plugins that repeat a request through another proxy make fewer."""

_META = {
    meta.DONT_OBEY_ROBOTSTXT: True,
    "allow_offsite": True,
    "autothrottle_dont_adjust_delay": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "dont_redirect": True,
    "dont_retry": True,
    "download_fail_on_dataloss": True,
    # A long file is cut (see RobotsTxtRequest.received) and must not fail.
    "download_maxsize": 0,
    "download_warnsize": 0,
    "handle_httpstatus_all": True,
}
"""The meta keys that keep the components of Scrapy away from a request for robots.txt."""

MAX_TIMEOUT = 30.0
"""The longest time-out, in seconds, of a request for robots.txt. The pages of its host wait for
it, and Scrapy's default of 180 is meant for large files."""


class Fetch:
    """The state of a download for a :class:`RobotsTxtRequest`, and for the requests that components return
    in its place. Only the methods of that class change it.
    """

    def __init__(self, virtual_host: str = "", *, is_redirected: bool = False) -> None:
        self.virtual_host = virtual_host
        """The ``Host`` header; empty for the host in the URL."""

        self.is_redirected = is_redirected
        """Whether a redirect from another origin has led to the URL."""

        self.is_sent = False
        """Whether the request has come to the wire."""

        self.passes = 0
        """The number of requests that have passed the gate for this download."""

        self.size = 0
        """The number of bytes that have been received."""

        self.began = 0.0
        """When the first byte was received, on the monotonic clock."""

        self.is_stopped = False
        """Whether this package stopped the download: at the size limit, with a response, or at the time
        limit, without one."""

        self.error: Exception | None = None
        """The error with which the download handler failed. Any other error is of a component."""


class RobotsTxtRequest(Request):
    """A request that this package makes: for robots.txt, or for another file about a site.

    RobotsTxtMiddleware does not judge these requests: a request for a file other than robots.txt was
    judged when it was made. It recognises them by their class, which ``replace()`` keeps; a spider could
    copy a meta key to other requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetch = Fetch()

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        """Return a copy with new values, like :meth:`Request.replace`. The copy shares the state of the
        download (``fetch``) with this request.
        """
        copy = super().replace(*args, **kwargs)
        if isinstance(copy, RobotsTxtRequest):
            copy.fetch = self.fetch
        return copy

    def passed(self) -> None:
        """Note that the request passes the gate. Raises IgnoreRequest if too many requests of the same
        download have passed: the engine downloads each request that a component returns in its place.
        """
        self.fetch.passes += 1
        if self.fetch.passes > 1 + _MAX_REPLACED:
            raise IgnoreRequest(
                f"a downloader middleware has answered it with another request {self.fetch.passes - 1} "
                f"times in a row, the last one for {self.url}; once it has replaced a request, it must "
                "return None for the new one"
            )

    def at_wire(self) -> None:
        """Note that the request has come to the wire."""
        self.fetch.is_sent = True

    def failed(self, error: Exception) -> None:
        """Note the *error* of the download handler."""
        self.fetch.error = error

    @classmethod
    def of(
        cls,
        url: str,
        template: Request,
        meta_keys: Iterable[str] = (),
        *,
        virtual_host: str = "",
        is_redirected: bool = False,
    ) -> Self:
        """Make a request for *url* with the User-Agent and the proxy of *template*, and the values of its
        *meta_keys*.

        *virtual_host* is the ``Host`` header, if that is not the host in *url*. *is_redirected* says
        whether a redirect from another origin has led to *url*.
        """
        template_meta = template.meta
        copied = {key: template_meta[key] for key in meta_keys if key in template_meta}
        if "redirect_urls" in template_meta:
            origin = request_origin(template)
            if origin is not None and was_redirected(template, bare_host(origin)):
                copied.pop("download_slot", None)  # The slot of another host.
        names = [b"User-Agent"]
        if "proxy" in template_meta:
            for key in ("proxy", PROXY_AUTH_META_KEY):
                if key in template_meta:
                    copied[key] = template_meta[key]
            # When Scrapy retries a request, the credentials for its proxy are in this header.
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
        request.fetch = Fetch(virtual_host, is_redirected=is_redirected)
        return request

    @property
    def timeout(self) -> float:
        """The time-out in seconds: that of Scrapy, but at most :data:`MAX_TIMEOUT`."""
        timeout: float = self.meta.get("download_timeout") or MAX_TIMEOUT
        return min(timeout, MAX_TIMEOUT)

    def received(self, size: int, limit: int) -> None:
        """Note that *size* bytes were received. Raises StopDownload if the body is longer than *limit*
        bytes, or takes longer than the time-out.
        """
        now = time.monotonic()
        self.fetch.began = self.fetch.began or now
        self.fetch.size += size
        # One byte more than the limit tells the parser that the body was cut.
        if self.fetch.size > limit:
            self.fetch.is_stopped = True
            raise StopDownload(fail=False)
        # Some download handlers apply the time-out to each read, so a server could send
        # single bytes forever.
        if now - self.fetch.began > self.timeout:
            self.fetch.is_stopped = True
            raise StopDownload(fail=True)


def add_template(templates: list[Request], request: Request) -> None:
    """Add *request* to *templates*, unless a template with the same proxy is there.

    A template is a page request that waits for a robots.txt, or another file of its site. The request for the
    file takes over its User-Agent, its proxy, and the meta keys of ``REP_REQUEST_META_KEYS``. Each attempt
    uses another template, and so another proxy. Templates may be added while the fetch runs.
    """
    proxy = request.meta.get("proxy")
    if all(template.meta.get("proxy") != proxy for template in templates):
        templates.insert(0, request)
        del templates[_MAX_TEMPLATES:]


class FetchMiddleware:
    """Prepares each request for robots.txt (no encoding, the right virtual host, a shorter time-out),
    decodes a response that is encoded nevertheless, and notes the error of a failed download.
    """

    ORDER = 595
    """Between HttpCompressionMiddleware (590), which has nothing left to decode, and
    RedirectMiddleware (600)."""

    def __init__(self, crawler: Crawler) -> None:
        # One byte more tells the parser that the body was cut.
        self._limit = RepSettings.of(crawler).dialect.size_limit + 1

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FetchMiddleware:
        """Called in commands and in dry runs, which have no wire: a signal takes its place."""
        middleware = cls(crawler)
        crawler.signals.connect(
            middleware.reached_downloader, signals.request_reached_downloader
        )
        return middleware

    @staticmethod
    def reached_downloader(request: Request) -> None:
        """Note that *request* has passed all middlewares."""
        if isinstance(request, RobotsTxtRequest):
            request.at_wire()

    def process_request(self, request: Request) -> None:
        if isinstance(request, RobotsTxtRequest):
            # Without the header, a server may use any encoding (RFC 9110, 12.5.3).
            request.headers["Accept-Encoding"] = "identity"
            # A header from DEFAULT_REQUEST_HEADERS or from a middleware may name another site than
            # the one whose file is requested.
            request.headers.pop("Host", None)
            if request.fetch.virtual_host:
                request.headers["Host"] = request.fetch.virtual_host
            request.meta["download_timeout"] = request.timeout

    def process_response(
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        is_own = isinstance(request, RobotsTxtRequest)
        return decoded(response, self._limit) if is_own else response

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(request, RobotsTxtRequest) and request.fetch.is_sent:
            request.failed(exception)


# Encoded bodies.

# The most members of a gzip file, or frames of Zstandard, that are decoded. Each takes time, also an
# empty one, and 500 KiB can have 60,000. Servers send one; tools that compress in parallel make one for
# each 64 KiB or more.
_MAX_MEMBERS = 1_000

# The most characters of an unknown encoding in an error message.
_SHOWN = 80

# A module of the standard library, or a package that Scrapy 2.19 requires.
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    "x-gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    # With the zlib header or, as some servers send it, without.
    "deflate": lambda body: zlib.decompressobj(15 if body[0] & 15 == 8 else -15),
    "zstd": lambda _: import_module(_ZSTD).ZstdDecompressor(),
}

# Bytes that no text has. Half of the bytes of compressed data are above ASCII; a text that is not UTF-8
# has fewer.
_NO_TEXT = bytes({*range(0x20), 0x7F} - {*b"\t\n\f\r"})
_MAX_ABOVE_ASCII = 0.3


class UndecodableBody(Exception):
    """A body has an unknown encoding or several, is damaged, its end is missing, or it has too
    many members."""


def decoded(response: Response, limit: int) -> Response:
    """Return *response* with a decoded body, and without ``Content-Encoding``. Decoding stops after
    *limit* bytes, so a decompression bomb takes no memory.

    A body that is text was never encoded, or a service has decoded it, whatever the header
    says: servers send names that are not encodings (``utf-8``), names meant for a proxy
    (``aws-chunked``), and names of encodings that they did not apply. Only the body of a
    successful response matters; that of any other is removed.

    Raises UndecodableBody. The end may be missing only if the body was cut at the size limit.
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
        raise UndecodableBody(f"unsupported encoding: {coding[:_SHOWN]}") from None
    except Exception:  # noqa: BLE001  each library has its own errors
        text, is_whole = b"", False
    if not is_whole and not (text and "download_stopped" in response.flags):
        raise UndecodableBody(
            f"the {coding} body ends early, is damaged or has too many members"
        )
    return response.replace(body=text)


def _decode(coding: str, body: bytes, limit: int) -> tuple[bytes, bool]:
    """Return the first *limit* bytes of the decoded *body*, and whether it was complete. All members of a
    gzip file and all frames of Zstandard are decoded.

    Raises KeyError if *coding* is unknown or names several, and another error for a damaged body.
    """
    if coding == "br":
        brotli = import_module("brotli").Decompressor()
        text = brotli.process(body, output_buffer_limit=limit)
        return text[:limit], len(text) >= limit or brotli.is_finished()
    text = b""
    for _ in range(_MAX_MEMBERS):
        decoder = _DECODERS[coding](body)
        text += decoder.decompress(body, limit)
        # Zero bytes may fill up the last block of a gzip file.
        body = decoder.unused_data.lstrip(b"\0")
        if len(text) >= limit or not decoder.eof or not body:
            return text[:limit], len(text) >= limit or decoder.eof
    return b"", False


def _is_text(body: bytes) -> bool:
    """Whether *body* is text, not compressed data. It may be cut."""
    text = body
    if body.startswith((BOM_UTF16_BE, BOM_UTF16_LE)):
        text = decoded_text(body, RFC9309)
    if len(text.translate(None, _NO_TEXT)) < len(text):
        return False
    try:
        # The last character may be cut.
        getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        above = sum(byte > 0x7F for byte in text)
        return above < _MAX_ABOVE_ASCII * len(text)
    return True
