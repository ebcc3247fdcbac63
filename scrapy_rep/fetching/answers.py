"""Reads the status, headers and encoding of the response to a request for robots.txt."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit, urlunsplit

from w3lib.url import safe_url_string

from scrapy_rep.protocol.access.results import HEADERS
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

# Bytes that no text has. Half of the bytes of compressed data are above ASCII; a text that is
# not UTF-8 has only a few of those.
_NO_TEXT = bytes({*range(0x20), 0x7F} - {*b"\t\n\f\r"})
_MAX_ABOVE_ASCII = 0.3

# In bytes: longer Set-Cookie fields are ignored.
_MAX_COOKIES = 8_192


def are_cookies_short(response: Response) -> bool:
    """Whether *response* sets cookies, and they are short enough to be parsed quickly."""
    fields = response.headers.getlist("Set-Cookie")
    return 0 < sum(map(len, fields)) <= _MAX_COOKIES


def is_text(body: bytes) -> bool:
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


def headers_of(response: Response) -> Iterator[tuple[str, str]]:
    for name in sorted(HEADERS):
        values = response.headers.getlist(name)
        if values:
            # A list may be split over several fields (RFC 9110, 5.3).
            text = b", ".join(values) if name == "cache-control" else values[0]
            yield name, text.decode("latin-1")


def redirect_target(url: str, response: Response) -> str | None:
    """The absolute URL that a redirect of *url* leads to; None if it is not http or https."""
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
    # Without user information, which some download handlers refuse, and without the
    # fragment, which is never sent.
    return urlunsplit((where.scheme, str(where).partition("://")[2], *parts[2:4], ""))
