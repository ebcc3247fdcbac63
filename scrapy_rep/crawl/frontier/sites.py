"""Sites: the origins whose robots.txt applies to requests, and the phase of each site. This module uses no Scrapy,
no clock and no I/O. All times are seconds of a monotonic clock.

A site is an origin: scheme, host and port. All requests that wait for the rules of a site share one fetch of its
robots.txt. The table :data:`PHASES` contains all changes of a site's phase.

If robots.txt is unreachable (a 429, a 5xx or no answer, and no usable older copy), the site is DOWN. While a site is
DOWN, its requests wait, and robots.txt is fetched again at the time in ``Retry-After``, or after pauses that double
each time. If no fetch succeeds within ``REP_WAIT_TIMEOUT`` seconds, the site is REFUSED. While a site is REFUSED, its
requests are refused until robots.txt may be fetched again. A request after this time waits for another fetch. If this
fetch fails, too, the request is refused. The first successful fetch makes the site OPEN.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from scrapy_rep.protocol.origins import Origin


class Phase(Enum):
    """The phase of a site: whether its rules are known, and whether its requests are sent, wait, or are refused."""

    UNKNOWN = "the rules are not known, and no request needs them"
    AWAITED = "requests wait until robots.txt is fetched"
    OPEN = "the rules are known, and fresh until `expires`; requests are sent when their limiters have room"
    DOWN = "robots.txt is unreachable; requests wait, and robots.txt is fetched again at `retry_at`"
    REFUSED = (
        "robots.txt was unreachable for too long; requests are refused until `retry_at`, and later requests wait for "
        "another fetch of robots.txt"
    )


class FetchStage(IntEnum):
    """The progress of fetching a site's robots.txt. The stage only rises, until the fetch ends or no request needs the
    rules any more. Then the stage becomes NONE again.
    """

    NONE = 0
    WANTED = 1
    """robots.txt is not fetched at once, but only when the scheduler has too few queues from which a request may be
    sent now."""

    URGENT = 2
    """robots.txt is fetched as soon as possible, because a request in the downloader waits for the rules."""

    UNDER_WAY = 3


class Event(Enum):
    """An event that can change the phase of a site."""

    REQUEST = "a request needs the rules, which are unknown or stale"
    KNOWN = "the rules became known"
    EXPIRED = "the rules became stale"
    UNREACHABLE = "robots.txt is unreachable, and requests may continue to wait"
    GIVEN_UP = "robots.txt is unreachable, and requests have waited too long"
    NO_RESULT = "a fetch ended without a result, and no request waits for the rules"


_Row: TypeAlias = "tuple[Phase, ...]"
UNKNOWN, AWAITED, OPEN, DOWN, REFUSED = Phase

# fmt: off
PHASES: dict[Event, _Row] = {
    # Phase before:    UNKNOWN  AWAITED  OPEN     DOWN     REFUSED
    Event.REQUEST:     (AWAITED, AWAITED, AWAITED, DOWN,    REFUSED),
    Event.KNOWN:       (OPEN,    OPEN,    OPEN,    OPEN,    OPEN),
    Event.EXPIRED:     (UNKNOWN, AWAITED, UNKNOWN, DOWN,    REFUSED),
    Event.UNREACHABLE: (DOWN,    DOWN,    DOWN,    DOWN,    REFUSED),
    Event.GIVEN_UP:    (REFUSED, REFUSED, REFUSED, REFUSED, REFUSED),
    Event.NO_RESULT:   (UNKNOWN, UNKNOWN, OPEN,    DOWN,    REFUSED),
}
# fmt: on
"""The next phase of a site, by event and current phase. Each row contains the next phase for the current phase
UNKNOWN, AWAITED, OPEN, DOWN and REFUSED, in this order. For example, EXPIRED changes OPEN to UNKNOWN."""

_NEXT_PHASE = {
    event: dict(zip(Phase, row, strict=True)) for event, row in PHASES.items()
}


class Outage:
    """A period in which the robots.txt of a site is unreachable."""

    __slots__ = ("last_result", "retry_at", "since", "until")

    def __init__(self, since: float, until: float) -> None:
        self.since = since
        """The time of the first fetch that found robots.txt unreachable."""

        self.until = until
        """The site's requests wait until this time. Afterwards they are refused."""

        self.retry_at = -inf
        """robots.txt is not fetched again before this time."""

        self.last_result: Any = None
        """The result of the last fetch, a ``SiteRules``. If a request is refused because robots.txt is unreachable, the
        refusal states this result as its reason."""


class Site:
    """An origin whose robots.txt applies to requests."""

    __slots__ = (
        "alarm_at", "expires", "fetch_stage", "holds_for_next", "origin", "outage", "parked", "phase", "templates",
        "users", "waiters",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.phase = Phase.UNKNOWN

        self.expires = -inf
        """The time when the rules become stale; ``-inf`` while the rules are not known."""

        self.holds_for_next = False
        """Whether the next page request may be sent under the current rules even if the rules become stale before the
        request is sent. A fetch of robots.txt that yields rules sets this to True. The first page request after the
        fetch sets it to False. Without this exception, a site whose rules become stale before its crawl delay ends
        would never receive a request for a page."""

        self.fetch_stage = FetchStage.NONE
        self.outage: Outage | None = None
        """The current outage while the phase is DOWN or REFUSED; otherwise None."""

        self.parked: list[Any] | None = None
        """The queues that wait for the rules; None if there are none. Most sites have a single queue."""

        self.waiters: list[Any] | None = None
        """The waiters (requests outside the scheduler) that wait for the rules; None if there are none."""

        self.users = 0
        """The number of queues that belong to this site."""

        self.templates: list[Any] | None = None
        """Some of the page requests that wait for the rules, as templates for requests for robots.txt: each request for
        robots.txt has the proxy and the User-Agent of one of them. None if there are no templates."""

        self.alarm_at = inf
        """The time when :meth:`Limits.tick` asks for another fetch of robots.txt if requests wait for the rules;
        ``inf`` if no such time is set."""

    def __repr__(self) -> str:
        again = f", again at {self.outage.retry_at:g}" if self.outage else ""
        fetch = f", fetch {self.fetch_stage.name}" if self.fetch_stage else ""
        waiting = f"{len(self.parked or ())} queues and {len(self.waiters or ())} requests wait"
        return f"<Site {self.origin}: {self.phase.name}{again}{fetch}, {waiting}>"

    def is_unreachable(self, now: float) -> bool:
        """Whether robots.txt is unreachable, and may not be fetched again yet."""
        return self.outage is not None and now < self.outage.retry_at

    def refuses(self, now: float) -> bool:
        """Whether requests are refused, because robots.txt has been unreachable for too long."""
        return self.phase is Phase.REFUSED and self.is_unreachable(now)

    def expire(self) -> None:
        """Make the rules stale now, and apply them to no further request. Rules that become stale by their age can
        still apply to one request (see :attr:`holds_for_next`), but not after this call.
        """
        self.happens(Event.EXPIRED)
        self.holds_for_next = False

    def happens(self, event: Event) -> None:
        """Change the phase as :data:`PHASES` defines for *event*. If the new phase is not OPEN, set :attr:`expires` to
        ``-inf``.
        """
        self.phase = _NEXT_PHASE[event][self.phase]
        if self.phase is not Phase.OPEN:
            self.expires = -inf

    @property
    def has_waiting(self) -> bool:
        """Whether any queue or request waits for the rules."""
        return bool(self.parked or self.waiters)
