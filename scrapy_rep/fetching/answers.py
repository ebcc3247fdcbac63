"""What is read of an answer to a request for robots.txt, besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from w3lib.url import safe_url_string

from scrapy_rep.protocol.access.results import HEADERS
from scrapy_rep.protocol.origins import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

# Bytes of Set-Cookie fields; with more, none of them comes back.
_MAX_COOKIES = 8_192


def are_cookies_short(response: Response) -> bool:
    """Whether the cookies of a stranger can be read without delay."""
    fields = response.headers.getlist("Set-Cookie")
    return 0 < sum(map(len, fields)) <= _MAX_COOKIES


def headers_of(response: Response) -> Iterator[tuple[str, str]]:
    for name in sorted(HEADERS):
        values = response.headers.getlist(name)
        if values:
            # What a list is made of can come in several fields (RFC 9110, 5.3).
            text = b", ".join(values) if name == "cache-control" else values[0]
            yield name, text.decode("latin-1")


def redirect_target(url: str, response: Response) -> str | None:
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
