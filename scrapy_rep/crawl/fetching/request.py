"""The request for a robots.txt, and the requests that wait for it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import StopDownload
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.base import meta
from scrapy_rep.base.compat import PROXY_AUTH_META_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

_MAX_CAUSES = 8

MAX_TIMEOUT = 30.0
"""The longest time-out, in seconds, of a request for robots.txt. The pages of its host wait for
it, and Scrapy's default of 180 is meant for large files."""


@dataclass(slots=True, eq=False)
class Fetch:
    """What this package knows about a request of its own, and about its download."""

    is_counted: bool = True
    """Whether Scrapy's stats about robots.txt count the request: it is not for another file."""

    virtual_host: str = ""
    """The ``Host`` header; empty for the host in the URL."""

    is_redirected: bool = False
    """Whether a redirect of another origin has led here."""

    is_sent: bool = False
    """Whether the request has passed all middlewares, and reached the downloader."""

    size: int = 0
    """The number of bytes that have been received."""

    began: float = 0.0
    """When the first of them was received."""

    is_stopped: bool = False
    """Whether this package stopped the download: at the size limit or for the status of an
    overloaded server, with a response, or at the time limit, with none."""

    error: Exception | None = None
    """The error with which the download handler failed. Any other is of a component."""


class RobotsTxtRequest(Request):
    """A request that this package makes: for robots.txt, or for another file about a site.

    Of all HTTP requests, RobotsTxtMiddleware passes only these without a decision: it was made
    before, for those that need one. It recognises them by their class, which ``replace()`` keeps; a
    spider could copy a meta key to other requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fetch = Fetch()

    def replace(self, *args: Any, **kwargs: Any) -> Any:
        """A copy with new values, as :meth:`Request.replace` makes it, for the same fetch."""
        copy = super().replace(*args, **kwargs)
        if isinstance(copy, RobotsTxtRequest):
            copy.fetch = self.fetch
        return copy

    def continued(self, request: Request) -> RobotsTxtRequest:
        """*request*, which a component has returned in place of this one, as a request of the same
        fetch. Otherwise it would wait for the file that it is to bring.
        """
        if isinstance(request, RobotsTxtRequest):
            return request
        values = {name: getattr(request, name) for name in Request.attributes}
        values["meta"] = {**self.meta, **request.meta}
        found = RobotsTxtRequest(**values)
        found.fetch = self.fetch
        return found

    @classmethod
    def of(cls, url: str, cause: Request) -> Self:
        """A request for *url* with the proxy and connection settings of *cause*, a request
        that waits for it.
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
                "download_warnsize": 0,
                "handle_httpstatus_all": True,
            },
        )

    @property
    def timeout(self) -> float:
        """The time-out, in seconds: that of Scrapy, but not more than :data:`MAX_TIMEOUT`."""
        timeout: float = self.meta.get("download_timeout") or MAX_TIMEOUT
        return min(timeout, MAX_TIMEOUT)

    def received(self, size: int, limit: int) -> None:
        """Count *size* received bytes. Raises StopDownload if the body is longer than *limit*
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


class FetchTemplates(list[Request]):
    """What the requests for one file take over from those that wait for it: the User-Agent, the
    proxy, and the *meta_keys* of ``REP_REQUEST_META_KEYS``. There is one for each proxy, so that
    the next attempt uses another proxy. More may be added during the fetch.
    """

    def __init__(self, *requests: Request, meta_keys: Iterable[str] = ()) -> None:
        super().__init__()
        self._meta_keys = meta_keys
        for request in requests:
            self.add(request)

    def add(self, request: Request) -> None:
        """Let the next attempt use *request*, if no cause has its proxy."""
        proxy = request.meta.get("proxy")
        if all(each.meta.get("proxy") != proxy for each in self):
            self.insert(0, self._taken_over(request))
            del self[_MAX_CAUSES:]

    def next(self) -> Request:
        """The request for an attempt. The attempts use them in turn."""
        self.append(self.pop(0))
        return self[-1]

    def _taken_over(self, request: Request) -> Request:
        keys, headers = [*self._meta_keys], ["User-Agent"]
        if "proxy" in request.meta:
            keys += ["proxy", PROXY_AUTH_META_KEY]
            # When Scrapy retries a request, the credentials for its proxy are in this header.
            headers.append("Proxy-Authorization")
        return Request(
            request.url,
            headers={
                name: request.headers[name]
                for name in headers
                if name in request.headers
            },
            meta={key: request.meta[key] for key in keys if key in request.meta},
        )
