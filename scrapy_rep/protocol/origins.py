"""Origins: the scheme, host and port to which one robots.txt applies (RFC 9309, 2.3)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# An IPv6 address with an optional zone, or a name; and an optional port.
_HOST_AND_PORT = re.compile(
    r"(\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]|[^\[\]:]+)(?::([0-9]*))?"
).fullmatch
_MAX_PORT = 0xFFFF

# Characters that no host has (WHATWG URL, 3.1: forbidden domain code points). A proxy may
# resolve names with any other character, even if the DNS does not.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]").search

C0_CONTROL_OR_SPACE = "".join(map(chr, range(0x21)))
"""The characters that URL parsers remove from both ends of a URL (WHATWG URL, 4.4)."""

_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}


class Origin(NamedTuple):
    """The scheme, host and port to which a robots.txt applies."""

    scheme: str

    host: str
    """A name in Punycode and lower case, percent-decoded; or an address, IPv6 in brackets."""

    port: int

    def __str__(self) -> str:
        if self.port == _DEFAULT_PORTS[self.scheme]:
            return f"{self.scheme}://{self.host}"
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def robotstxt_url(self) -> str:
        return f"{self}/robots.txt"


def origin_of(url: str) -> Origin | None:
    """Return the origin of an absolute URL.

    Return None for a URL that has no robots.txt: its scheme is not http, https or ftp, or
    its host or port is invalid.
    """
    try:
        parts = urlsplit(url.strip(C0_CONTROL_OR_SPACE))
    except ValueError:  # "http://["
        return None
    return origin(parts.scheme, parts.netloc)


@lru_cache(maxsize=4096)
def origin(scheme: str, netloc: str) -> Origin | None:
    """Return the origin for a URL's scheme and network location; see :func:`origin_of`."""
    if scheme not in _DEFAULT_PORTS:
        return None
    match = _HOST_AND_PORT(netloc.rpartition("@")[2])
    if match is None:
        return None
    host, digits = match[1].lower(), (match[2] or "").lstrip("0")
    if len(digits) > 5 or int(digits or 0) > _MAX_PORT:
        return None
    if not host.startswith("["):
        try:
            host = _name(host)
        except UnicodeError:
            return None
        if not host or _FORBIDDEN(host):
            return None
    return Origin(
        scheme, host, int(digits or 0) if match[2] else _DEFAULT_PORTS[scheme]
    )


def _name(host: str) -> str:
    """Return the DNS form of a host name. Raises UnicodeError for an invalid name."""
    if "%" in host:
        host = unquote(host, errors="strict")
    if host.isascii():
        return host.lower()
    return host.encode("idna").decode("ascii").lower()
