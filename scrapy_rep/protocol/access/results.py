"""The result of one fetch of a robots.txt or a tdmrep.json (RFC 9309, 2.3.1)."""

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
"""The header fields that a result keeps: those about the type and lifetime of the body, and
``Retry-After``."""

# "Proxy Authentication Required": the answer of a proxy, which says nothing about the site.
_PROXY_STATUS = 407


class Access(str, Enum):
    """The kinds of result that RFC 9309, 2.3.1, distinguishes. The kind *redirected* is missing: the
    crawler follows redirects, and the last response counts.
    """

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"

    __str__ = str.__str__


class Failure(str, Enum):
    """Why a fetch got no response."""

    OWN = "own"
    """The machine of the crawler has no file descriptor, port, network or memory left. The failure says
    nothing about any host."""

    NETWORK = "network"
    """Nothing has answered: the host name was not resolved, the connection was refused or timed out,
    or the host or the proxy was unreachable. Either the host is gone, or the network of the crawler.

    If the answer of a server timed out, the kind is the same, because download handlers do not tell
    this from a time-out of the connection."""

    NO_SERVER = "no-server"
    """The name of the host does not exist, or the host refuses the connection. Requests for pages of
    the host would fail too."""

    DROPPED = "dropped"
    """The crawler itself ended the fetch: a component of the project dropped the request, or
    robots.txt forbids the URL. The failure says nothing about the site, and the next fetch would fail
    in the same way."""

    OTHER = "other"
    """A server has answered, but TLS failed, or the answer was broken or lost."""


class AccessResult(NamedTuple):
    """The result of one fetch of a robots.txt."""

    url: str
    """The URL of the first request."""

    status: int | None
    """The status of the last response; None if there was no response."""

    headers: tuple[tuple[str, str], ...] = ()
    """The header fields of the last response that are in ``HEADERS``: pairs of a name in lower case and
    a value."""

    body: bytes = b""
    """The body of the last response if its status is 2xx; otherwise empty."""

    redirects: tuple[str, ...] = ()
    """The URLs to which the crawler was redirected, in order. The last response came from the last URL."""

    error: str = ""
    """Why there was no response, or why the crawler did not follow the last redirect, in words."""

    failure: Failure | None = None
    """The kind of failure, if there was no response; None if it is not known."""

    @property
    def is_of_server(self) -> bool:
        """Whether a server of the site has answered. A store keeps only such results."""
        return self.status is not None and self.status != _PROXY_STATUS

    @property
    def access(self) -> Access:
        """The kind of the result (RFC 9309, 2.3.1)."""
        if self.status in {None, _PROXY_STATUS, 429}:
            return Access.UNREACHABLE
        if 200 <= self.status < 300:
            return Access.SUCCESSFUL
        # A 3xx is a redirect that was invalid, or one more than the limit (RFC 2.3.1.2).
        if 300 <= self.status < 500:
            return Access.UNAVAILABLE
        return Access.UNREACHABLE

    @property
    def has_too_many_redirects(self) -> bool:
        """Whether the file counts as unavailable because of too many redirects."""
        is_redirect = self.status is not None and 300 <= self.status < 400
        return is_redirect and len(self.redirects) > 1

    @property
    def is_html(self) -> bool:
        """Whether the body is an HTML page, such as the challenge of a bot wall, in place of a robots.txt."""
        if not self.body[:1024].lstrip().startswith(b"<"):
            return False
        # Imported here, because few files begin with a "<".
        from scrapy_rep.protocol.robotstxt.pages import is_page  # noqa: PLC0415

        return is_page(self.body)

    def __str__(self) -> str:
        outcome = f"status {self.status}" if self.status else "no answer"
        return f"{outcome}: {self.error}" if self.error else outcome
