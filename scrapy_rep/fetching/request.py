"""The request for a robots.txt, and the requests that wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import meta
from scrapy_rep.compat.internals import PROXY_AUTH_META_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

_MAX_CAUSES = 8


class RobotsTxtRequest(Request):
    """A request for robots.txt that this package makes itself.

    Only these requests pass RobotsTxtMiddleware without being judged. They are recognized
    by their class, which ``replace()`` keeps, and which a copied meta does not give to
    another request.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._bytes = 0
        self._since = 0.0

    @classmethod
    def of(cls, url: str, cause: Request, timeout: float) -> Self:
        """A request for *url* that goes by the same proxy, TLS and connections as *cause*,
        which waits for it.
        """
        return cls(
            url,
            headers=cause.headers,
            callback=NO_CALLBACK,
            dont_filter=True,
            meta={
                **cause.meta,
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
                "download_timeout": timeout,
                "download_warnsize": 0,
                "handle_httpstatus_all": True,
            },
        )

    def received(self, size: int, limit: int, timeout: float) -> None:
        """Count *size* bytes that were received. Raises StopDownload where all are more
        than *limit*, or have taken longer than *timeout* seconds.
        """
        now = time.monotonic()
        if not self._bytes:
            self._since = now
        self._bytes += size
        # One byte more than is read, so that the reader knows that it was cut.
        if self._bytes > limit:
            raise StopDownload(fail=False)
        # Some handlers apply the time-out to each read, so that single bytes could arrive
        # without end.
        if now - self._since > timeout:
            raise StopDownload(fail=True)


class Causes:
    """The requests that wait for one robots.txt, one for each proxy, so that another proxy
    is tried where one fails. More may be added during the fetch.
    """

    __slots__ = ("_requests",)

    def __init__(self, *requests: Request) -> None:
        self._requests: list[Request] = list(requests)

    def __len__(self) -> int:
        return len(self._requests)

    def nth(self, attempt: int) -> Request:
        """The request for an *attempt*, counted from 0; they are used in turn."""
        return self._requests[attempt % len(self._requests)]

    def add(self, request: Request) -> bool:
        """Add *request*, if its proxy is new. Return whether it is."""
        proxy = request.meta.get("proxy")
        if len(self._requests) >= _MAX_CAUSES or any(
            each.meta.get("proxy") == proxy for each in self._requests
        ):
            return False
        self._requests.append(request)
        return True

    def rotate(self) -> None:
        """Let the last request be the first one for the next fetch."""
        self._requests.insert(0, self._requests.pop())


def cause_of(request: Request, meta_keys: Iterable[str]) -> Request:
    """What a request for robots.txt takes over from *request*, which waits for it: its
    User-Agent, its proxy, and *meta_keys*, those of ``REP_REQUEST_META_KEYS``.
    """
    keys, headers = [*meta_keys], ["User-Agent"]
    if "proxy" in request.meta:
        keys += ["proxy", PROXY_AUTH_META_KEY]
        # Where a request is sent again, its proxy's credentials are here.
        headers.append("Proxy-Authorization")
    return Request(
        request.url,
        headers={
            name: request.headers[name] for name in headers if name in request.headers
        },
        meta={key: request.meta[key] for key in keys if key in request.meta},
    )
