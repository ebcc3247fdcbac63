"""The seam between the frontier and the queues of the scheduler, and the keys by which requests
share hosts and scopes.

A queue is a :class:`Backlog`: it keeps the requests that wait. The frontier gives it its
:class:`Turns`. ``tests/frontier/test_backlog.py`` has the smallest queue that keeps its requests
elsewhere, and ``docs/howto/own-queue.md`` says how to write one.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from scrapy_rep.base.requests import bare_host

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container

    from scrapy import Request

    from scrapy_rep.base.clock import Alarms, Clock
    from scrapy_rep.protocol.origins import Origin


class Backlog(Protocol):
    """A queue of the scheduler, as the frontier sees it.

    The last four methods are for a queue that several workers share. A queue of one process
    inherits them: it always has the turn, and tells nobody.
    """

    is_shared: ClassVar[bool] = False
    """Whether other workers take requests from the queue, so that a host has one turn for all."""

    def count_waiting(self) -> int | None:
        """Return the number of requests that wait; None if that is not known."""

    def paused(self, host: str, seconds: float, own: float) -> None:
        """Note that *host*, a host name or a download slot, has asked for a pause, of which
        *seconds* are left. *own* is the last pause that the crawl chose itself, which it doubles,
        and 0 if the host has always said how long.
        """

    def recovered(self, request: Request) -> None:
        """Note that a host has answered *request*, sent after a pause, without asking for another."""

    def catch_up(self) -> None:
        """Tell the frontier of the pauses that hosts have asked other workers for: a request is about to
        be sent.
        """

    def acquire(self, request: Request, host: str, behind: Collection[Request]) -> bool:
        """Return whether *request*, in the downloader, has the turn of its *host*, which has a delay or
        asked for a pause: no other worker sends to that host until :meth:`release`. The requests
        *behind* it are not sent before it has ended, so it may use the turn of one of them.
        """
        return True

    def release(self, request: Request, host: str, delay: float, *, sent: bool) -> None:
        """Let other workers send to *host*, *delay* seconds from now if *request* was *sent*. This is
        also called for each robots.txt that was sent, even if it has not asked for the turn, and for a
        request of the queue, not *sent*, that has to wait for a pause before it asks for the turn.
        """


class Terms(NamedTuple):
    """What the robots.txt of a host says to all workers of a crawl. All values are in seconds."""

    holds: float
    """The time for which that is known."""

    delay: float = 0.0
    """From the end of one request to the start of the next."""


class NoTerms(Enum):
    """Why there are no terms."""

    UNKNOWN = "unknown"
    """Nothing is known after all, as when the spider closes. Another worker may fetch the
    robots.txt."""

    REFUSED = "refused"
    """The robots.txt is unreachable for too long: each request of this host that the queue
    returns now is refused at once, and needs no turn. For further ones, ask again for the rules.
    """


class Turns(Protocol):
    """The frontier, as a queue sees it that keeps its requests elsewhere."""

    clock: Clock
    alarms: Alarms

    @property
    def closed_unsent(self) -> Container[Request]:
        """The requests that are not done although they have ended, since the spider closes: they, or
        what their callbacks or items wait for, were not sent."""

    def attach(self, backlog: Backlog) -> None:
        """Note that the scheduler has *backlog*. Each queue calls this when it is made."""

    def key_of(self, request: Request) -> HostKey:
        """Return the key of the host of *request*: robots.txt, delays and places are the same for
        all requests with this key. If the crawl ignores robots.txt, no key has an origin.
        """

    def room(self) -> int:
        """Return how many requests the downloader can take now. It is 0 while the network of the
        crawler is gone, and when the crawl stops. A queue asks this before it returns a request.
        """

    def started(self, key: HostKey, request: Request, delay: float = 0.0) -> None:
        """Note that the queue returns *request*, whose host is ready: it takes its places. Without
        this, it waits in the downloader for its turn, or is refused there. *delay* is what the host
        asks for, as far as the queue knows: if robots.txt must be fetched first, that keeps to it.
        """

    def room_for_rules(self) -> int:
        """Return for how many more hosts the rules can be wanted now."""

    def want_rules(
        self,
        key: HostKey,
        first: Request,
        told: Callable[[Terms | NoTerms], None],
        delay: float = 0.0,
    ) -> None:
        """Find out the rules of the host of *key*: from the cache, or by a fetch on behalf of
        *first*, a request that waits for them. Then, when other workers find them in the store,
        *told* is called, once and never from within this method. While robots.txt is unreachable,
        it is fetched again and again, for as long as requests wait for a host. *delay* is what
        another origin of the host asks for, as far as the queue knows: the fetch of robots.txt
        keeps to it too.
        """

    def paused_elsewhere(
        self, host: str, left: float, own: float, lasted: float
    ) -> None:
        """Note that *host* has asked another worker, or an earlier run, for a pause, of which *left*
        seconds are left: less than 0 after it, if the host has not answered well since. *own* is as
        in :meth:`Backlog.paused`. The pauses have *lasted* so long, with those before.
        """

    def stop(self, reason: str) -> None:
        """Let no queue return another request, and close the spider with *reason*."""


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
