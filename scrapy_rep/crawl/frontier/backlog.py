"""The seam between the frontier and the queues of the scheduler, and the keys by which requests
share hosts and scopes.

A queue is a :class:`Backlog`: it keeps the requests that wait. The frontier gives it its
:class:`Turns`. ``tests/frontier/test_backlog.py`` has the smallest queue that keeps its requests
elsewhere, and ``docs/own-queue.md`` says how to write one.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from scrapy.utils.httpobj import urlparse_cached

from scrapy_rep.base import meta
from scrapy_rep.base.compat import has_headers
from scrapy_rep.protocol.origins import C0_CONTROL_OR_SPACE, Origin, origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.base.clock import Alarms, Clock


_OF_HTTP = ("http://", "https://")


class Backlog(Protocol):
    """A queue of the scheduler, as the frontier sees it.

    The last four methods are for a queue that several workers share. A queue of one process
    inherits them: it always has the turn, and tells nobody.
    """

    is_shared: ClassVar[bool] = False
    """Whether other workers take requests from the queue, so that a host has one turn for all."""

    def count_ready(self) -> int:
        """Return the number of hosts whose next request may go. If they are few, the frontier
        fetches more robots.txt files ahead.
        """
        ...

    def count_waiting(self) -> int | None:
        """Return the number of requests that wait; None if that is not known."""
        ...

    def paused(self, host: str, seconds: float, own: float) -> None:
        """Note that *host*, a host name or a download slot, has asked for a pause, of which
        *seconds* are left. *own* is the last pause that the crawl chose itself, which it doubles,
        and 0 if the host has always said how long.
        """
        ...

    def recovered(self, request: Request) -> None:
        """Note that a host has answered *request*, sent after a pause, without asking for another."""

    def catch_up(self, request: Request) -> None:
        """Tell the frontier of the pauses that hosts have asked other workers for: *request* is about to
        be sent.
        """

    def acquire(self, request: Request, host: str, behind: Collection[Request]) -> bool:
        """Return whether *request*, in the downloader, has the turn of its *host*, which has a delay or
        asked for a pause: no other worker sends to that host until :meth:`release`. The requests
        *behind* it are not sent before it has ended, so it may use the turn of one of them.
        """
        return True

    def release(self, request: Request, host: str, delay: float, *, sent: bool) -> None:
        """Let other workers send to *host*, *delay* seconds from now if *request* was *sent*."""


class Terms(NamedTuple):
    """What the robots.txt of a host says to all workers of a crawl. All values are in seconds."""

    holds: float
    """The time for which that is known."""

    delay: float = 0.0
    """From the end of one request to the start of the next."""


class NoTerms(Enum):
    """Why there are no terms."""

    UNKNOWN = "unknown"
    """The fetch was given up, since the spider closes. Another worker may fetch the robots.txt."""

    REFUSED = "refused"
    """The robots.txt is unreachable for too long: each request of this host that the queue
    returns now is refused at once, and needs no turn. For further ones, ask again for the rules.
    """


class Turns(Protocol):
    """The frontier, as a queue sees it that keeps its requests elsewhere."""

    clock: Clock
    alarms: Alarms

    @property
    def obeys(self) -> bool:
        """Whether the crawl obeys robots.txt. If not, every key is without an origin."""
        ...

    @property
    def closed_unsent(self) -> Container[Request]:
        """The requests that have ended only because the spider closes: they are not done."""
        ...

    def attach(self, backlog: Backlog) -> None:
        """Note that the scheduler has *backlog*. Each queue calls this when it is made."""
        ...

    def key_of(self, request: Request) -> HostKey:
        """Return the key of the host of *request*: robots.txt, delays and places are the same for
        all requests with this key.
        """
        ...

    def room(self) -> int:
        """Return how many requests the downloader can take now. It is 0 while the network of the
        crawler is gone, and when the crawl stops. A queue asks this before it returns a request.
        """
        ...

    def started(self, key: HostKey, request: Request) -> None:
        """Note that the queue returns *request*, whose host is ready: it takes its places. Without
        this, it waits in the downloader for its turn, or is refused there.
        """
        ...

    def room_for_rules(self) -> int:
        """Return for how many more hosts the rules can be wanted now."""
        ...

    def want_rules(
        self,
        key: HostKey,
        first: Request,
        told: Callable[[Terms | NoTerms], None],
        delay: float = 0.0,
    ) -> None:
        """Find out the rules of the host of *key*: from the cache, or by a fetch on behalf of
        *first*, a request that waits for them. Call *told* once, never from within this method,
        when they are known, or when the fetch is given up; while robots.txt is unreachable, the
        frontier fetches it again and again, for as long as requests wait for a host. *delay* is
        the one that another origin of the host has, as far as the queue knows: robots.txt waits
        for it too.
        """
        ...

    def paused_elsewhere(
        self, host: str, left: float, own: float, lasted: float
    ) -> None:
        """Note that *host* has asked another worker, or an earlier run, for a pause, of which *left*
        seconds are left: less than 0 after it, if the host has not answered well since. *own* is as
        in :meth:`Backlog.paused`. The pauses have *lasted* so long, with those before.
        """
        ...

    def stop(self, reason: str) -> None:
        """Let no queue return another request, and close the spider with *reason*."""
        ...


class HostKey(NamedTuple):
    """The key of a host: an origin in a download slot."""

    slot: str

    origin: Origin | None
    """None if no robots.txt applies: other scheme, ``dont_obey_robotstxt``, unreadable host."""

    is_service: bool = False
    """Whether these requests, to which no robots.txt applies, are in the download slot of
    another host: they are to a service that renders or fetches the pages of that host."""

    @property
    def host(self) -> str:
        """The name of the host; empty if no robots.txt applies."""
        return bare_host(self.origin) if self.origin is not None else ""


def bare_host(origin: Origin) -> str:
    """Return the host of *origin* without a trailing dot."""
    return origin.host.rstrip(".")


def host_of(request: Request) -> str:
    """Return the name of the host of *request*; empty if it cannot be read."""
    origin = request_origin(request)
    return bare_host(origin) if origin is not None else ""


def was_redirected(request: Request, host: str) -> bool:
    """Whether *request*, to *host*, was redirected from another host. Scrapy keeps it in the
    download slot of that host, although neither the user nor the spider chose that slot for it.
    """
    redirected_from = request.meta.get("redirect_urls", ())
    if not redirected_from:
        return False
    origin = origin_of(redirected_from[0])
    return origin is None or bare_host(origin) != host


def is_of_http(request: Request | Response) -> bool:
    """Whether Scrapy uses the download handler of http or https for a request or response.
    No robots.txt is fetched for other schemes.
    """
    if request.url.startswith(_OF_HTTP):
        return True
    try:
        scheme: str = urlparse_cached(request).scheme
    except ValueError:  # "HTTP://["
        scheme = request.url.strip(C0_CONTROL_OR_SPACE).partition(":")[0].lower()
    return scheme in {"http", "https"}


def request_origin(request: Request) -> Origin | None:
    """Return the origin of *request*: that of its URL, or of the virtual host that its
    ``Host`` header names. None if one of them cannot be read, or the header is repeated.
    """
    try:
        url = urlparse_cached(request)
    except ValueError:
        return None
    found = origin(url.scheme, url.netloc)
    if found is None or not has_headers(request):
        return found
    hosts = request.headers.getlist(b"Host")
    if not hosts:
        return found
    return (
        found.at_virtual_host(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    )


def origin_at(url: str, request: Request | None) -> Origin | None:
    """Return the origin of *url*, at the virtual host of *request*, which fetches it, or has
    fetched it.
    """
    named = request_origin(request) if request is not None else None
    if request is not None and request.url == url and named is not None:
        return named
    found = origin_of(url)
    # A browser may have been led to another origin, without the virtual host.
    if found is not None and named is not None and named.server == found.server:
        return named
    return found


def is_exempt(request: Request) -> bool:
    """Whether ``dont_obey_robotstxt`` exempts *request* from robots.txt.

    Scrapy keeps the meta in a redirected request, but the exemption applies only to the
    origin that the spider requested.
    """
    if not request.meta.get(meta.DONT_OBEY_ROBOTSTXT):
        return False
    redirected_from = request.meta.get("redirect_urls", ())
    origin = origin_of(request.url)
    if origin is None:
        return not redirected_from
    return all(origin_of(url) == origin for url in redirected_from)


class KnownMethods:
    """Turns requests into dictionaries. For each request, Scrapy looks for the callback and the
    errback among all attributes of the spider, which takes longer than everything else; here,
    among those first that were found before.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._names: dict[str, None] = {}

    def to_dict(self, request: Request) -> dict[str, Any]:
        """Return what :meth:`Request.to_dict` returns. Raises ValueError if the callback or the
        errback is no method of the spider.
        """
        try:
            return request.to_dict(spider=self)  # type: ignore[arg-type]  # It looks only for methods.
        except ValueError:
            fields = request.to_dict(spider=self._crawler.spider)
        names = (fields.get("callback"), fields.get("errback"))
        self._names.update(dict.fromkeys(name for name in names if name))
        return fields

    def __dir__(self) -> Iterable[str]:
        return self._names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._crawler.spider, name)
