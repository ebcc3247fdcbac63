"""Reads the answer to a request for robots.txt, except its body."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from w3lib.url import safe_url_string

from scrapy_rep.protocol.access.results import HEADERS
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

# In bytes: longer Set-Cookie fields are ignored.
_MAX_COOKIES = 8_192


def are_cookies_short(response: Response) -> bool:
    """Whether the cookies of an answer are short enough to be parsed quickly."""
    fields = response.headers.getlist("Set-Cookie")
    return 0 < sum(map(len, fields)) <= _MAX_COOKIES


def headers_of(response: Response) -> Iterator[tuple[str, str]]:
    for name in sorted(HEADERS):
        values = response.headers.getlist(name)
        if values:
            # A list may be split over several fields (RFC 9110, 5.3).
            text = b", ".join(values) if name == "cache-control" else values[0]
            yield name, text.decode("latin-1")


def redirect_target(url: str, response: Response) -> str | None:
    """The URL that a redirect leads to; None if that is not http or https."""
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
    # Without user information, which not every handler takes, and without the fragment,
    # which is never sent.
    return urlunsplit((where.scheme, str(where).partition("://")[2], *parts[2:4], ""))
