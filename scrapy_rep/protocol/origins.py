"""Origins: what one robots.txt speaks for (RFC 9309, 2.3)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

# What names and IPv4 addresses are made of; "_" is no letter of a host name, but of many
# a name in the DNS.
_HOST = re.compile(r"[a-z0-9._-]+")

_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}


class Origin(NamedTuple):
    """The scheme, host and port that a robots.txt holds for."""

    scheme: str

    host: str
    """In lower case; a name as Punycode, an IPv6 address in brackets."""

    port: int

    def __str__(self) -> str:
        if self.port == _DEFAULT_PORTS[self.scheme]:
            return f"{self.scheme}://{self.host}"
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def robotstxt_url(self) -> str:
        return f"{self}/robots.txt"


def origin_of(url: str) -> Origin | None:
    """The origin of an absolute URL.

    None where the scheme is not http, https or ftp, or where there is no valid host and
    port: there is no robots.txt for these.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # "http://["
        return None
    return origin(parts.scheme, parts.netloc)


@lru_cache(maxsize=4096)
def origin(scheme: str, netloc: str) -> Origin | None:
    """The same, for the parts of a URL that is parsed already."""
    if scheme not in _DEFAULT_PORTS:
        return None
    try:
        parts = urlsplit(f"//{netloc}")
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, or too large a one
        return None
    if not host:
        return None
    if ":" in host:
        host = f"[{host}]"
    else:
        try:
            host = host if host.isascii() else host.encode("idna").decode("ascii")
        except UnicodeError:  # no such name can exist
            return None
        if not _HOST.fullmatch(host):
            return None
    return Origin(scheme, host, _DEFAULT_PORTS[scheme] if port is None else port)
