"""Origins: the scheme, host and port to which one robots.txt applies (RFC 9309, 2.3)."""

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Captures a host and an optional port. The host is a name, an IPv4 address, or an IPv6 address in brackets, which may
# contain a zone.
_HOST_AND_PORT = re.compile(
    r"(\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]|[^\[\]:]+)(?::([0-9]*))?"
).fullmatch
_MAX_PORT = 0xFFFF

# Finds characters that are forbidden in a host (WHATWG URL, 3.1: forbidden domain code points). All other
# characters are allowed: a name that the DNS cannot resolve may still be resolved by a proxy.
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]").search

C0_CONTROL_OR_SPACE = "".join(map(chr, range(0x21)))
"""The characters that URL parsers remove from both ends of a URL (WHATWG URL, 4.4)."""

# Separates a URL from a virtual host (a Host header that differs from the host in the URL) in a string that contains
# both. Because of the "#", the virtual host is in the fragment of the URL, and no client sends a fragment to a server.
_VIRTUAL_HOST = "#Host:"

_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}


class Origin(NamedTuple):
    """The scheme, host and port to which a robots.txt applies."""

    scheme: str

    host: str
    """The host name, percent-decoded, in lower case and Punycode; or an IP address. An IPv6 address is in brackets."""

    port: int

    virtual_host: str = ""
    """The ``Host`` header of requests to the origin (RFC 9110, 7.2), if it differs from the host in
    their URLs; otherwise empty. A default port is left out. Each virtual host of a server has its
    own robots.txt."""

    def __str__(self) -> str:
        return self.url("")

    @property
    def server(self) -> str:
        """The URL of the server, without a path: the scheme, the host and the port. A default port is left out. The
        URL does not contain :attr:`virtual_host`.
        """
        if self.port == _DEFAULT_PORTS[self.scheme]:
            return f"{self.scheme}://{self.host}"
        return f"{self.scheme}://{self.host}:{self.port}"

    def url(self, path: str) -> str:
        """Return the URL of *path* on the origin. If the origin has a virtual host (see :attr:`virtual_host`), the URL
        carries the virtual host in its fragment. :func:`split_virtual_host` splits such a URL into the URL without a
        fragment and the virtual host.
        """
        virtual_host = self.virtual_host and _VIRTUAL_HOST + self.virtual_host
        return f"{self.server}{path}{virtual_host}"

    @property
    def robotstxt_url(self) -> str:
        """The URL of the origin's robots.txt."""
        return self.url("/robots.txt")

    @property
    def named(self) -> "Origin":
        """The origin that the ``Host`` header of the requests names. If this origin is ``http://127.0.0.1:8080`` and
        :attr:`virtual_host` is ``example.com``, ``named`` is the origin ``http://example.com``. If :attr:`virtual_host`
        is empty, ``named`` is this origin itself.
        """
        if not self.virtual_host:
            return self
        return origin(self.scheme, self.virtual_host) or self

    def at_virtual_host(self, header: str) -> "Origin | None":
        """Return the origin of requests that are sent to this server with the ``Host`` header *header*.
        Return None if *header* is not a host with an optional port.
        """
        # A percent-encoded name is ambiguous, because only some servers decode it.
        if not header.isascii() or "%" in header or "@" in header:
            return None
        named = origin(self.scheme, header.strip(" \t"))
        if named is None or named == self:
            return named
        return self._replace(virtual_host=str(named).partition("://")[2])


def origin_of(url: str) -> Origin | None:
    """Return the origin of an absolute URL. Return None if the scheme is not http, https or ftp, or if
    the host or port is invalid: no robots.txt applies to such a URL.
    """
    try:
        parts = urlsplit(url.strip(C0_CONTROL_OR_SPACE))
    except ValueError:  # For example, "http://[".
        return None
    return origin(parts.scheme, parts.netloc)


def split_virtual_host(url: str) -> tuple[str, str]:
    """Split a URL that :meth:`Origin.url` returned into the URL to request and the ``Host`` header to
    send. The header is empty if the origin has no virtual host.
    """
    url, _, virtual_host = url.partition(_VIRTUAL_HOST)
    return url, virtual_host


def parse_origin(text: str) -> Origin | None:
    """Return the origin whose ``str()`` is *text*, or None if *text* is not an origin."""
    url, virtual_host = split_virtual_host(text)
    server = origin_of(url)
    return server.at_virtual_host(virtual_host) if server and virtual_host else server


@lru_cache(maxsize=4096)
def origin(scheme: str, netloc: str) -> Origin | None:
    """Return the origin with a URL's *scheme* and network location (*netloc*). Return None if the scheme
    is not http, https or ftp, or if the host or port is invalid.
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
    """Return a host name in lower case and Punycode, percent-decoded. Raises UnicodeError if the name is
    invalid.
    """
    if "%" in host:
        host = unquote(host, errors="strict")
    if host.isascii():
        return host.lower()
    return host.encode("idna").decode("ascii").lower()
