"""Origins: the scheme, host and port to which one robots.txt applies (RFC 9309, 2.3)."""

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Matches an IPv6 address with an optional zone, or a name; and an optional port.
_HOST_AND_PORT = re.compile(
    r"(\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]|[^\[\]:]+)(?::([0-9]*))?"
).fullmatch
_MAX_PORT = 0xFFFF

# Finds characters that a host must not have (WHATWG URL, 3.1: forbidden domain code points). A proxy
# may resolve names with any other character, even if the DNS does not.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]").search

C0_CONTROL_OR_SPACE = "".join(map(chr, range(0x21)))
"""The characters that URL parsers remove from both ends of a URL (WHATWG URL, 4.4)."""

# Separates a URL from its virtual host, as the beginning of a fragment, which no client sends.
_VIRTUAL_HOST = "#Host:"

_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}


class Origin(NamedTuple):
    """The scheme, host and port to which a robots.txt applies."""

    scheme: str

    host: str
    """A name in Punycode and lower case, percent-decoded; or an address, IPv6 in brackets."""

    port: int

    virtual_host: str = ""
    """The ``Host`` header of requests to the origin (RFC 9110, 7.2), if it names another host than
    their URLs, with the port unless it is the default; otherwise empty. Each virtual host of a
    server has a robots.txt of its own."""

    def __str__(self) -> str:
        return self.url("")

    @property
    def server(self) -> str:
        """The origin without its virtual host, as a string."""
        if self.port == _DEFAULT_PORTS[self.scheme]:
            return f"{self.scheme}://{self.host}"
        return f"{self.scheme}://{self.host}:{self.port}"

    def url(self, path: str) -> str:
        """Return the URL of *path* on the origin. If the origin has a virtual host, the fragment of the
        URL names it; :func:`split_virtual_host` takes the two apart.
        """
        virtual_host = self.virtual_host and _VIRTUAL_HOST + self.virtual_host
        return f"{self.server}{path}{virtual_host}"

    @property
    def robotstxt_url(self) -> str:
        """The URL of the robots.txt of the origin."""
        return self.url("/robots.txt")

    @property
    def named(self) -> "Origin":
        """The origin of the virtual host, if there is one; otherwise the origin itself."""
        if not self.virtual_host:
            return self
        return origin(self.scheme, self.virtual_host) or self

    def at_virtual_host(self, header: str) -> "Origin | None":
        """Return the origin of requests to this server that have *header* as their ``Host`` header; None
        if *header* is not a host with an optional port.
        """
        # An encoded name is ambiguous: some servers decode it.
        if not header.isascii() or "%" in header or "@" in header:
            return None
        named = origin(self.scheme, header.strip(" \t"))
        if named is None or named == self:
            return named
        return self._replace(virtual_host=str(named).partition("://")[2])


def origin_of(url: str) -> Origin | None:
    """Return the origin of an absolute URL.

    Return None for a URL without a robots.txt: one whose scheme is not http, https or ftp, or
    whose host or port is invalid.
    """
    try:
        parts = urlsplit(url.strip(C0_CONTROL_OR_SPACE))
    except ValueError:  # "http://["
        return None
    return origin(parts.scheme, parts.netloc)


def split_virtual_host(url: str) -> tuple[str, str]:
    """Return the URL to request, and the ``Host`` header to send, for a URL made by :meth:`Origin.url`.
    The header is empty for an origin without a virtual host.
    """
    url, _, virtual_host = url.partition(_VIRTUAL_HOST)
    return url, virtual_host


def parse_origin(text: str) -> Origin | None:
    """Parse an origin that was written with ``str(origin)``. Return None if *text* is not an origin."""
    url, virtual_host = split_virtual_host(text)
    server = origin_of(url)
    return server.at_virtual_host(virtual_host) if server and virtual_host else server


@lru_cache(maxsize=4096)
def origin(scheme: str, netloc: str) -> Origin | None:
    """Return the origin for the scheme and the network location of a URL; None if the scheme is not http,
    https or ftp, or if the host or port is invalid.
    """
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
