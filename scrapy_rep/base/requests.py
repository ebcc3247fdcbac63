"""Determines a request's origin and host, and whether robots.txt applies to the request. This module also
turns requests into dictionaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.base import meta
from scrapy_rep.protocol.origins import C0_CONTROL_OR_SPACE, Origin, origin, origin_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_HTTP_PREFIXES = ("http://", "https://")


def bare_host(origin: Origin) -> str:
    """Return the host of *origin* without a trailing dot."""
    return origin.host.rstrip(".")


def host_of(request: Request) -> str:
    """Return the host name of *request*. Return an empty string if the host or port of the request is invalid."""
    origin = request_origin(request)
    return bare_host(origin) if origin is not None else ""


def was_redirected(request: Request, host: str) -> bool:
    """Whether *request*, whose URL now has the host *host*, was redirected from another host.

    If so, the meta key ``download_slot`` of *request* can still name the download slot of the other host. Scrapy writes
    this key when it downloads a request, and copies the key to the redirected request.
    """
    return any(other != host for other in hosts_of_redirects(request))


def hosts_of_redirects(request: Request) -> list[str]:
    """Return the hosts of the URLs from which *request* was redirected, in order. Each URL without a valid host is
    represented by an empty string. The present URL of *request* is not included.
    """
    origins = map(origin_of, request.meta.get("redirect_urls", ()))
    return ["" if origin is None else bare_host(origin) for origin in origins]


def is_of_http(request: Request | Response) -> bool:
    """Whether the URL of *request*, a request or response, has the scheme http or https. The scheme is parsed as
    Scrapy parses it to choose a download handler. Other schemes have no robots.txt.
    """
    if request.url.startswith(_HTTP_PREFIXES):
        return True
    try:
        scheme: str = urlparse_cached(request).scheme
    except ValueError:  # An invalid URL, such as "HTTP://[".
        scheme = request.url.strip(C0_CONTROL_OR_SPACE).partition(":")[0].lower()
    return scheme in {"http", "https"}


def url_origin(request: Request) -> Origin | None:
    """Return the origin of *request*'s URL. Return None if the host or port of the URL is invalid."""
    try:
        url = urlparse_cached(request)
    except ValueError:
        return None
    return origin(url.scheme, url.netloc)


def request_origin(request: Request) -> Origin | None:
    """Return the origin of *request*'s URL. If the request's ``Host`` header names another host than the URL, the
    origin includes the other host as its virtual host. Return None if the host or port in the URL or the header is
    invalid, or if there are several ``Host`` headers.
    """
    origin = url_origin(request)
    if origin is None or "Host" not in request.headers:
        return origin
    hosts = request.headers.getlist(b"Host")
    return (
        origin.at_virtual_host(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    )


def origin_at(url: str, request: Request | None) -> Origin | None:
    """Return the origin of *url*, a URL that was fetched for *request*, perhaps after redirects. Return None if the
    host or port of *url* is invalid.

    If the ``Host`` header of *request* names another host than the URL of *request*, the returned origin has the host
    in the header as its virtual host. But if *url* is on another server than the URL of *request*, the header is
    ignored. If *request* is None, the returned origin has no virtual host.
    """
    requested = request_origin(request) if request is not None else None
    if request is not None and request.url == url and requested is not None:
        return requested
    origin = origin_of(url)
    # A redirect may lead a browser to another server. The Host header of *request* does not apply there.
    if (
        origin is not None
        and requested is not None
        and requested.server == origin.server
    ):
        return requested
    return origin


def is_exempt(request: Request) -> bool:
    """Whether the meta key ``dont_obey_robotstxt`` exempts *request* from robots.txt.

    Scrapy copies the meta to a redirected request. The exemption, however, applies only to the origin
    that the spider requested, so it ends with a redirect to another origin.
    """
    if not request.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    redirected_from = request.meta.get("redirect_urls", ())
    origin = origin_of(request.url)
    if origin is None:
        return not redirected_from
    return all(origin_of(url) == origin for url in redirected_from)


class RequestDicts:
    """Turns requests into dictionaries, like ``Request.to_dict``, but more than eight times as fast.

    For each request, Scrapy compares the callback and the errback with all attributes of the spider to find
    their names. This class caches the names that Scrapy finds.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._names: dict[Any, str] = {}
        """The names of the spider's methods, by function."""

    def to_dict(self, request: Request) -> dict[str, Any]:
        """Return the same dictionary as :meth:`Request.to_dict`. Raises ValueError if the callback or the
        errback is not a method of the spider.
        """
        methods = request.callback, request.errback
        functions = [getattr(method, "__func__", None) for method in methods]
        # If a callback is a method, Scrapy's to_dict() searches the spider for the name of the method. If a callback is
        # a string, to_dict() only copies the string. So methods with a cached name are replaced by the name.
        request.callback, request.errback = map(self._names.get, functions, methods)  # type: ignore[assignment]
        try:
            fields = request.to_dict(spider=self._crawler.spider)
        finally:
            request.callback, request.errback = methods
        names = fields.get("callback"), fields.get("errback")
        self._names.update(
            (function, name)
            for function, name in zip(functions, names, strict=True)
            if function and name
        )
        return fields
