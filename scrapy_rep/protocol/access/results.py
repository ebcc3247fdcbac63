"""The result of fetching a robots.txt or a tdmrep.json once (RFC 9309, 2.3.1)."""

from enum import Enum
from typing import NamedTuple

HEADERS = frozenset(
    {
        "age",
        "cache-control",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "retry-after",
    }
)
"""The names, in lower case, of the header fields that an :class:`AccessResult` keeps of a response: the fields about
the type and lifetime of the body, and ``Retry-After``."""

# "Proxy Authentication Required". A response with this status comes from a proxy, so it says nothing about the site.
_PROXY_STATUS = 407


class Access(str, Enum):
    """The kinds of results of fetching a file (RFC 9309, 2.3.1). The kind *redirected* of the RFC is missing,
    because the crawler follows redirects: the last response determines the kind.
    """

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"

    __str__ = str.__str__


class Failure(str, Enum):
    """The reason why a fetch received no response."""

    OWN = "own"
    """The crawler's machine is out of file descriptors, ports or memory. The failure has nothing to do with the
    host."""

    NETWORK = "network"
    """No server answered: the host name was not resolved, the connection was refused or timed out, or
    the host, the proxy or the network was unreachable. The cause can be the host or the crawler's network.

    A response that timed out is also a failure of this kind, because download handlers do not
    distinguish it from a connection that timed out."""

    NO_SERVER = "no-server"
    """The host of a robots.txt or tdmrep.json has no server: the host name was not resolved, or the host refused
    the connection. Requests for the host's pages would fail in the same way. If a proxy was used, or if a page
    was requested, the failure is ``NETWORK`` instead."""

    DROPPED = "dropped"
    """The crawler itself ended the fetch. For example, a component of the project dropped the request, or
    robots.txt forbids the URL of the tdmrep.json. So the failure does not mean that the site is down. The next fetch
    would fail in the same way."""

    OTHER = "other"
    """Any other failure: usually, a server answered, but TLS failed, or the response was invalid or
    incomplete."""


class AccessResult(NamedTuple):
    """The result of fetching a robots.txt or a tdmrep.json once."""

    url: str
    """The URL of the first request, before redirects."""

    status: int | None
    """The status of the last response; None if there was no response."""

    headers: tuple[tuple[str, str], ...] = ()
    """The header fields of the last response, as pairs of the name in lower case and the value. Only the fields
    whose names are in :data:`HEADERS` are kept."""

    body: bytes = b""
    """The body of the last response if its status is 2xx; otherwise empty."""

    redirects: tuple[str, ...] = ()
    """The URLs to which the crawler was redirected, in order. The last URL is the one that was requested last."""

    error: str = ""
    """A text that explains why there was no response, or why the crawler did not follow the last redirect.
    Otherwise empty."""

    failure: Failure | None = None
    """The kind of reason why there was no response. None if there was a response, or if the reason is
    unknown."""

    @property
    def is_of_server(self) -> bool:
        """Whether the last response came from the server. False if there was no response, or if its status is 407:
        such a response comes from a proxy that requires authentication. Crawls that share a store for their cache
        entries store only results that came from the server.
        """
        return self.status is not None and self.status != _PROXY_STATUS

    @property
    def access(self) -> Access:
        """The kind of result (RFC 9309, 2.3.1): *successful* for a 2xx status, *unavailable* for a 3xx or 4xx
        status, and *unreachable* for a 5xx status. Also *unreachable* if there was no response, or if its status
        is 407 or 429.
        """
        if self.status in {None, _PROXY_STATUS, 429}:
            return Access.UNREACHABLE
        if 200 <= self.status < 300:
            return Access.SUCCESSFUL
        # The crawler follows valid redirects. So if the last status is 3xx, the response was not a valid redirect, or
        # the limit of redirects was exceeded (RFC 9309, 2.3.1.2).
        if 300 <= self.status < 500:
            return Access.UNAVAILABLE
        return Access.UNREACHABLE

    @property
    def has_too_many_redirects(self) -> bool:
        """Whether the crawler stopped after too many redirects, so that robots.txt counts as unavailable."""
        is_redirect = self.status is not None and 300 <= self.status < 400
        return is_redirect and len(self.redirects) > 1

    @property
    def is_html(self) -> bool:
        """Whether the body is an HTML page, such as the challenge page of a bot wall, and not a robots.txt."""
        if not self.body[:1024].lstrip().startswith(b"<"):
            return False
        # Imported here, because few files begin with a "<".
        from scrapy_rep.protocol.robotstxt.pages import is_page  # noqa: PLC0415

        return is_page(self.body)

    def __str__(self) -> str:
        outcome = f"status {self.status}" if self.status else "no answer"
        return f"{outcome}: {self.error}" if self.error else outcome
