"""The keys of hosts, for queues and for delays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.compat.internals import download_slot
from scrapy_rep.protocol.origins import C0_CONTROL_OR_SPACE, Origin, origin

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response


_OF_HTTP = ("http://", "https://")


class HostKey(NamedTuple):
    """The key of a host: an origin in a download slot."""

    slot: str

    origin: Origin | None
    """None if no robots.txt applies: other scheme, ``dont_obey_robotstxt``, unreadable host."""

    was_redirected: bool = False
    """Whether these requests were redirected from another host. Scrapy keeps them in the
    download slot of that host."""

    is_service: bool = False
    """Whether these requests, to which no robots.txt applies, are in the download slot of
    another host: they are to a service that renders or fetches the pages of that host."""

    @property
    def host(self) -> str:
        """The name of the host, for delays."""
        return bare_host(self.origin) if self.origin is not None else ""

    @property
    def delay_keys(self) -> tuple[str, str]:
        """The host and the download slot, for delays."""
        return self.host, self.host if self.was_redirected else self.slot


def bare_host(origin: Origin) -> str:
    """Return the host of *origin* without a trailing dot."""
    return origin.host.rstrip(".")


def host_of(request: Request) -> str:
    """Return the host of *request*, for delays; empty if it cannot be read."""
    origin = request_origin(request)
    return bare_host(origin) if origin is not None else ""


def delay_keys(crawler: Crawler, request: Request) -> tuple[str, str]:
    """Return the host of *request* and its download slot, for delays."""
    host = host_of(request)
    if was_redirected(request, host):
        return host, host
    return host, download_slot(crawler, request)


def was_redirected(request: Request, host: str) -> bool:
    """Whether *request* was redirected from another host. Scrapy keeps it in the download
    slot of that host, although neither the user nor the spider chose that slot for it.
    """
    redirected_from = request.meta.get("redirect_urls", ())
    return bool(redirected_from) and host_of(Request(redirected_from[0])) != host


def is_of_http(request: Request | Response) -> bool:
    """Whether Scrapy uses the download handler of http or https for a request or response.
    No robots.txt is fetched for other schemes.
    """
    if request.url.startswith(_OF_HTTP):
        return True
    try:
        scheme: str = urlparse_cached(request).scheme
    except ValueError:  # "HTTP://["
        scheme = request.url.strip(C0_CONTROL_OR_SPACE).partition(":")[0].lower()
    return scheme in {"http", "https"}


def request_origin(request: Request) -> Origin | None:
    """Return the origin of *request*: that of its URL, or of the virtual host that its
    ``Host`` header names. None if one of them cannot be read, or the header is repeated.
    """
    try:
        url = urlparse_cached(request)
    except ValueError:
        return None
    found = origin(url.scheme, url.netloc)
    hosts = request.headers.getlist(b"Host")
    if found is None or not hosts:
        return found
    return (
        found.at_virtual_host(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    )
