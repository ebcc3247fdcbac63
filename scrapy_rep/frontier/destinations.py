"""The destination of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.protocol.origins import C0_CONTROL_OR_SPACE, origin

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.protocol.origins import Origin

_OF_HTTP = ("http://", "https://")


def is_of_http(request: Request) -> bool:
    """Whether a request is for http or https, by the scheme that Scrapy chooses its handler
    by.

    For other schemes, no robots.txt is fetched.
    """
    if request.url.startswith(_OF_HTTP):
        return True
    try:
        scheme: str = urlparse_cached(request).scheme
    except ValueError:  # "HTTP://["
        scheme = request.url.strip(C0_CONTROL_OR_SPACE).partition(":")[0].lower()
    return scheme in {"http", "https"}


def origin_asked(request: Request) -> Origin | None:
    """The origin that an HTTP request is sent to, or None if its host or port cannot be
    read.
    """
    try:
        url = urlparse_cached(request)
    except ValueError:
        return None
    return origin(url.scheme, url.netloc)
