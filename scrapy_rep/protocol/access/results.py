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
"""The header fields that a result keeps: the type and lifetime of the body, and ``Retry-After``."""

# A proxy sends this status. It says nothing about the site.
_PROXY_STATUS = 407


class Access(str, Enum):
    """The kinds of result that RFC 9309, 2.3.1, distinguishes.

    The crawler follows redirects, so there is no kind for them: the last response counts.
    """

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"

    __str__ = str.__str__


class Failure(str, Enum):
    """Why a fetch got no response."""

    OWN = "own"
    """This machine has no file descriptor, port, network or memory left. That says nothing about
    any host."""

    NETWORK = "network"
    """Nothing has answered: the host name was not resolved, the connection was refused or timed out,
    or the host or the proxy was unreachable. The host may be gone, or the network of the crawler.

    Time-outs of an answer are of this kind too, because download handlers do not tell them from
    time-outs of a connection."""

    NO_SERVER = "no-server"
    """The name of the host does not exist, or the host refuses the connection. Requests for its pages
    would fail too."""

    DROPPED = "dropped"
    """The crawler itself ended the fetch: a component of the project dropped the request, or
    robots.txt forbids it. That says nothing about the site, and the next fetch would end the same
    way."""

    OTHER = "other"
    """A server has answered, but TLS failed, or the answer was broken or lost."""


class AccessResult(NamedTuple):
    """The result of one fetch of a robots.txt."""

    url: str
    """The URL of the first request."""

    status: int | None
    """The status of the last response; None if there was none."""

    headers: tuple[tuple[str, str], ...] = ()
    """The ``HEADERS`` of the last response: pairs of a name in lower case and a value."""

    body: bytes = b""
    """The body of the last response, if it was successful."""

    redirects: tuple[str, ...] = ()
    """The targets of the redirects, in order; the last response came from the last one."""

    error: str = ""
    """Why there was no response, or why the crawler did not follow the last redirect."""

    failure: Failure | None = None
    """Why there was no response, if that is known."""

    @property
    def is_of_server(self) -> bool:
        """Whether a server of the site has answered. Other results are not stored."""
        return self.status is not None and self.status != _PROXY_STATUS

    @property
    def access(self) -> Access:
        """The kind of the result (RFC 9309, 2.3.1)."""
        if self.status in {None, _PROXY_STATUS, 429}:
            return Access.UNREACHABLE
        if 200 <= self.status < 300:
            return Access.SUCCESSFUL
        # The crawler does not follow an invalid redirect, or one too many (RFC 2.3.1.2).
        if 300 <= self.status < 500:
            return Access.UNAVAILABLE
        return Access.UNREACHABLE

    @property
    def has_too_many_redirects(self) -> bool:
        """Whether robots.txt counts as unavailable because of too many redirects."""
        is_redirect = self.status is not None and 300 <= self.status < 400
        return is_redirect and len(self.redirects) > 1

    @property
    def is_html(self) -> bool:
        """Whether the body is an HTML page, such as the challenge of a bot wall, in place of a robots.txt."""
        if not self.body[:1024].lstrip().startswith(b"<"):
            return False
        # Imported here, because few files begin so.
        from scrapy_rep.protocol.robotstxt.pages import is_page  # noqa: PLC0415

        return is_page(self.body)

    def __str__(self) -> str:
        outcome = f"status {self.status}" if self.status else "no answer"
        return f"{outcome}: {self.error}" if self.error else outcome
