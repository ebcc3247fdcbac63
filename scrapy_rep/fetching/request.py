"""The request for a robots.txt, and the requests that wait for it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import meta
from scrapy_rep.compat.internals import PROXY_AUTH_META_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from scrapy_rep.fetching.cache import Known

_MAX_CAUSES = 8


@dataclass(slots=True, eq=False)
class Fetch:
    """What this package knows about a request of its own, and about the end of its download."""

    is_judged: bool = False
    """Whether the request needs the permission of robots.txt: it is for another file."""

    known: Known | None = None
    """The robots.txt that judges the request; None if an entry of ``REP_OVERRIDES`` does."""

    virtual_host: str = ""
    """The ``Host`` header; empty for the host in the URL."""

    is_cut: bool = False
    """Whether this package stopped the download at the size limit."""

    is_late: bool = False
    """Whether this package stopped the download at the time limit."""

    error: Exception | None = None
    """The error with which the download handler failed. Any other is of a component."""


class RobotsTxtRequest(Request):
    """A request that this package makes: for robots.txt, or for another file about a site.

    Of all HTTP requests, RobotsTxtMiddleware passes only these for robots.txt without a
    decision. It recognises them by their class, which ``replace()`` keeps; a spider could
    copy a meta key to other requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetch = Fetch()
        self.is_sent = False
        """Whether the request has passed all middlewares, and reached the downloader."""

        self._bytes = 0
        self._since = 0.0

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        """A copy with new values, as :meth:`Request.replace` makes it, for the same fetch."""
        copy = super().replace(*args, **kwargs)
        if isinstance(copy, RobotsTxtRequest):
            copy.fetch = self.fetch
        return copy

    @classmethod
    def of(cls, url: str, cause: Request, timeout: float) -> Self:
        """A request for *url* with the proxy and connection settings of *cause*, a request
        that waits for it. *timeout* is in seconds.
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
                # A long file is cut (see :meth:`received`) and must not fail.
                "download_maxsize": 0,
                "download_timeout": timeout,
                "download_warnsize": 0,
                "handle_httpstatus_all": True,
            },
        )

    def received(self, size: int, limit: int, timeout: float) -> None:
        """Count *size* received bytes. Raises StopDownload if the body is longer than *limit*
        bytes, or has taken longer than *timeout* seconds.
        """
        now = time.monotonic()
        if not self._bytes:
            self._since = now
        self._bytes += size
        # One byte more than the limit tells the parser that the body was cut.
        if self._bytes > limit:
            self.fetch.is_cut = True
            raise StopDownload(fail=False)
        # Some download handlers apply the timeout to each read, so a server could send
        # single bytes forever.
        if now - self._since > timeout:
            self.fetch.is_late = True
            raise StopDownload(fail=True)


class Causes:
    """The requests that wait for one robots.txt, one per proxy, so that the fetcher can try
    another proxy if one fails. More may be added during the fetch.
    """

    __slots__ = ("_requests",)

    def __init__(self, *requests: Request) -> None:
        self._requests: list[Request] = list(requests)

    def __len__(self) -> int:
        return len(self._requests)

    def nth(self, attempt: int) -> Request:
        """The request for an *attempt*, counted from 0. The attempts use them in turn."""
        return self._requests[attempt % len(self._requests)]

    def add(self, request: Request) -> bool:
        """Add *request* if no cause has its proxy. Return whether it was added."""
        proxy = request.meta.get("proxy")
        if len(self._requests) >= _MAX_CAUSES or any(
            each.meta.get("proxy") == proxy for each in self._requests
        ):
            return False
        self._requests.append(request)
        return True

    def clear(self) -> None:
        """Remove all requests: none waits any more."""
        self._requests.clear()

    def rotate(self) -> None:
        """Move the last request to the front, for the next fetch."""
        self._requests.insert(0, self._requests.pop())


def cause_of(request: Request, meta_keys: Iterable[str]) -> Request:
    """A copy of *request* with only what the request for its robots.txt takes over: the
    User-Agent, the proxy, and the *meta_keys* of ``REP_REQUEST_META_KEYS``.
    """
    keys, headers = [*meta_keys], ["User-Agent"]
    if "proxy" in request.meta:
        keys += ["proxy", PROXY_AUTH_META_KEY]
        # When Scrapy retries a request, the credentials for its proxy are in this header.
        headers.append("Proxy-Authorization")
    return Request(
        request.url,
        headers={
            name: request.headers[name] for name in headers if name in request.headers
        },
        meta={key: request.meta[key] for key in keys if key in request.meta},
    )
