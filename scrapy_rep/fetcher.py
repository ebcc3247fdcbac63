"""Downloads one robots.txt through Scrapy's engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http.request import NO_CALLBACK
from twisted.internet.defer import CancelledError
from w3lib.url import safe_url_string

from scrapy_rep import meta, stats
from scrapy_rep.protocol.access import HEADERS, AccessResult
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.settings import RepSettings

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# What a robots.txt may come to when it is decompressed. It is not asked for compressed,
# and read only as far as the dialect says; this is the bound for the server that
# compresses all the same, and means harm.
_DECOMPRESSED_AT_MOST = 16 * 1024 * 1024


class RobotsTxtFetcher:
    """Fetches robots.txt, and keeps the rest of Scrapy from having a say in how.

    What decides about proxies, TLS and connections serves these requests too. What
    follows, repeats, stores or drops ordinary requests must not: a robots.txt that such a
    component redirects, replays or loses is taken for permission.
    """

    def __init__(self, crawler: Crawler, settings: RepSettings) -> None:
        self._crawler = crawler
        self._settings = settings
        self._under_way = 0

    async def fetch(self, url: str, cause: Request) -> AccessResult:
        """Fetch the robots.txt at *url*, which *cause* waits for.

        Follows the redirects itself (RFC 9309, 2.3.1.2). Never raises for what a server
        or the network does.
        """
        self._crawler.stats.inc_value(stats.REQUEST_COUNT)
        self._under_way += 1
        if self._under_way == 1:
            # Only while it is needed: the signal is sent for each chunk of each page.
            self._crawler.signals.connect(self._bytes_received, signals.bytes_received)
        try:
            return await self._follow(url, cause)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._crawler.signals.disconnect(
                    self._bytes_received, signals.bytes_received
                )

    async def _follow(self, url: str, cause: Request) -> AccessResult:
        asked, redirects = url, list[str]()
        while True:
            response, error = await self._ask(asked, cause)
            if response is None or response.status not in _REDIRECTS:
                break
            target = _redirect_target(asked, response)
            if target is None:
                error = "redirected to what is no URL of http or https"
                break
            if len(redirects) >= self._settings.dialect.max_redirects:
                error = f"redirected more than {len(redirects)} times"
                break
            redirects.append(target)
            asked = target
        if response is None:
            return AccessResult(
                url=url, status=None, redirects=tuple(redirects), error=error
            )
        return self._result(url, response, redirects, error)

    def _result(
        self, url: str, response: Response, redirects: list[str], error: str
    ) -> AccessResult:
        status: int | None = response.status
        self._crawler.stats.inc_value(stats.RESPONSE_COUNT)
        self._crawler.stats.inc_value(stats.RESPONSE_STATUS_COUNT.format(status=status))
        is_successful = response.status // 100 == 2
        if is_successful and response.headers.get("Content-Encoding"):
            status, is_successful = None, False
            error = "compressed in a way that can't be read"
        return AccessResult(
            url=url,
            status=status,
            headers=tuple(_headers(response)),
            body=response.body if is_successful else b"",
            redirects=tuple(redirects),
            error=error,
        )

    async def _ask(self, url: str, cause: Request) -> tuple[Response | None, str]:
        """One answer to one request, or why there is none."""
        error = ""
        for _ in range(1 + self._settings.retry_times):
            request = self._request(url, cause)
            try:
                return await self._crawler.engine.download_async(request), ""
            except CancelledError:
                # Twisted's is an Exception, asyncio's is none: neither is an answer.
                raise
            except StopDownload:
                error = f"took longer than {self._settings.download_timeout:g} seconds"
            except IgnoreRequest as exception:
                # A component of the project does not want it sent; it won't later.
                return None, f"dropped: {exception}"
            except Exception as exception:  # noqa: BLE001  whatever a handler raises
                kind = type(exception)
                self._crawler.stats.inc_value(stats.EXCEPTION_COUNT.format(type=kind))
                error = f"{kind.__name__}: {exception}".rstrip(": ")
        return None, error

    def _request(self, url: str, cause: Request) -> Request:
        keys = ["proxy", *self._settings.request_meta_keys]
        copied = {key: cause.meta[key] for key in keys if key in cause.meta}
        headers: dict[str, str | bytes | None] = {"Accept-Encoding": "identity"}
        names = ["User-Agent"]
        if "proxy" in copied:
            # Where a request is sent again, its proxy's credentials are here.
            names.append("Proxy-Authorization")
            if "_auth_proxy" in cause.meta:
                copied["_auth_proxy"] = cause.meta["_auth_proxy"]
        for name in names:
            if name in cause.headers:
                headers[name] = cause.headers[name]
        return RobotsTxtRequest(
            url,
            headers=headers,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                **copied,
                meta.DONT_OBEY_ROBOTSTXT: True,
                "allow_offsite": True,
                "autothrottle_dont_adjust_delay": True,
                "dont_cache": True,
                "dont_merge_cookies": True,
                "dont_redirect": True,
                "dont_retry": True,
                "download_fail_on_dataloss": True,
                # Cut when enough is there, never failed for its size.
                "download_maxsize": 0,
                "download_timeout": self._settings.download_timeout,
                "download_warnsize": 0,
                "handle_httpstatus_all": True,
            },
        )

    def _bytes_received(self, data: bytes, request: Request) -> None:
        if not isinstance(request, RobotsTxtRequest):
            return
        received = request.received
        now = time.monotonic()
        if not received.bytes:
            received.since = now
        received.bytes += len(data)
        # One byte more than is read, so that the reader knows that it was cut.
        if received.bytes > self._settings.dialect.size_limit:
            raise StopDownload(fail=False)
        # For handlers whose time-out is that of each read: one byte at a time could take
        # for ever.
        if now - received.since > self._settings.download_timeout:
            raise StopDownload(fail=True)


class _Received:
    """How much of a robots.txt has come in, and since when."""

    __slots__ = ("bytes", "since")

    def __init__(self) -> None:
        self.bytes = 0
        self.since = 0.0


class RobotsTxtRequest(Request):
    """A request for robots.txt that this package makes itself.

    Such requests alone pass the gate unseen. They are known by their class, which
    ``replace()`` keeps and no meta that is copied to another request carries.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.received = _Received()


def bound_decompression(request: Request) -> None:
    """Let a robots.txt that comes compressed be decompressed only so far.

    To be called between download and decompression: as a bound of the download it would
    fail long files rather than cut them.
    """
    request.meta["download_maxsize"] = _DECOMPRESSED_AT_MOST


def _headers(response: Response) -> Iterator[tuple[str, str]]:
    for name in sorted(HEADERS):
        values = response.headers.getlist(name)
        if values:
            # What a list is made of can come in several fields (RFC 9110, 5.3).
            text = b", ".join(values) if name == "cache-control" else values[0]
            yield name, text.decode("latin-1")


def _redirect_target(url: str, response: Response) -> str | None:
    """Where a redirect leads, or None if that is nowhere on the Web."""
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
    # No userinfo, which not every handler takes, and no fragment, which is never sent.
    return urlunsplit((where.scheme, str(where).partition("://")[2], *parts[2:4], ""))
