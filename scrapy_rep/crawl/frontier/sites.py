"""Sites: the origins whose robots.txt decides about requests, and whether their rules are known. This module
has no Scrapy, no clock and no I/O.

A site is an origin: scheme, host and port. All requests that wait for its rules share one fetch of robots.txt.
Each event takes the site to another phase; :data:`PHASES` is the whole table.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from scrapy_rep.protocol.origins import Origin


class Phase(Enum):
    """Whether the rules of a site are known, and so what becomes of its requests."""

    UNKNOWN = "the rules are not known, and no request needs them"
    AWAITED = "requests wait for robots.txt, which is fetched or will be"
    OPEN = "the rules are known, and fresh until `expires`; requests go as their limiters allow"
    DOWN = (
        "robots.txt is unreachable; requests wait, and it is fetched again at retry_at"
    )
    REFUSED = (
        "robots.txt is unreachable for too long; requests are refused, and the first one after retry_at has it "
        "fetched again"
    )


class FetchStage(IntEnum):
    """How far the fetch of the robots.txt of a site has come. It only goes up, until it ends or no request needs
    it any more: then it is NONE.
    """

    NONE = 0
    WANTED = 1
    """To be fetched when more ready queues are needed."""

    URGENT = 2
    """To be fetched now: a request in the downloader waits for the rules, or was just refused because robots.txt
    is unreachable."""

    UNDER_WAY = 3


class Event(Enum):
    """What changes the phase of a site."""

    REQUEST = "a request needs rules that are not known, or stale"
    KNOWN = "the rules became known"
    EXPIRED = "the rules have become stale"
    UNREACHABLE = "robots.txt is unreachable, and requests may go on waiting"
    GIVEN_UP = "robots.txt is unreachable, and requests have waited long enough"
    NO_RESULT = "a fetch ended without a result, and no request waits for one"


_Row: TypeAlias = "tuple[Phase, ...]"
UNKNOWN, AWAITED, OPEN, DOWN, REFUSED = Phase

# fmt: off
PHASES: dict[Event, _Row] = {
    #                  UNKNOWN  AWAITED  OPEN     DOWN     REFUSED
    Event.REQUEST:     (AWAITED, AWAITED, AWAITED, DOWN,    REFUSED),
    Event.KNOWN:       (OPEN,    OPEN,    OPEN,    OPEN,    OPEN),
    Event.EXPIRED:     (UNKNOWN, AWAITED, UNKNOWN, DOWN,    REFUSED),
    Event.UNREACHABLE: (DOWN,    DOWN,    DOWN,    DOWN,    REFUSED),
    Event.GIVEN_UP:    (REFUSED, REFUSED, REFUSED, REFUSED, REFUSED),
    Event.NO_RESULT:   (UNKNOWN, UNKNOWN, OPEN,    DOWN,    REFUSED),
}
# fmt: on
"""For each event: the phase that follows it, by the phase before it."""

_NEXT_PHASE = {
    event: dict(zip(Phase, row, strict=True)) for event, row in PHASES.items()
}


class Outage:
    """The time during which the robots.txt of a site is unreachable."""

    __slots__ = ("last_result", "retry_at", "since", "until")

    def __init__(self, since: float, until: float) -> None:
        self.since = since
        self.until = until
        """Until when requests wait. Afterwards they are refused."""

        self.retry_at = -inf
        """When robots.txt may be fetched again."""

        self.last_result: Any = None
        """The result of the last fetch, by which requests are refused."""


class Site:
    """An origin whose robots.txt decides about requests."""

    __slots__ = (
        "alarm_at", "expires", "fetch_stage", "holds_for_next", "origin", "outage", "parked", "phase", "templates",
        "users", "waiters",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.phase = Phase.UNKNOWN

        self.expires = -inf
        """When the rules become stale; ``-inf`` while they are not known."""

        self.holds_for_next = False
        """Whether the next request may go by the rules even if they are stale by the time it is sent. Without
        this, a site with a long delay and short-lived rules would never get a page."""

        self.fetch_stage = FetchStage.NONE
        self.outage: Outage | None = None
        """Set while the phase is DOWN or REFUSED."""

        self.parked: list[Any] | None = None
        """The queues that wait for the rules, nearly always a single one; None if there are none."""

        self.waiters: list[Any] | None = None
        """The requests in the downloader that wait for the rules; None if there are none."""

        self.users = 0
        """The number of queues of this site."""

        self.templates: list[Any] | None = None
        """Requests that wait for the rules: the request for robots.txt takes over their proxies and headers.
        None if there are none yet."""

        self.alarm_at = inf
        """When :meth:`Limits.tick` has robots.txt fetched again; ``inf`` for never."""

    def __repr__(self) -> str:
        again = f", again at {self.outage.retry_at:g}" if self.outage else ""
        fetch = f", fetch {self.fetch_stage.name}" if self.fetch_stage else ""
        waiting = f"{len(self.parked or ())} queues and {len(self.waiters or ())} requests wait"
        return f"<Site {self.origin}: {self.phase.name}{again}{fetch}, {waiting}>"

    def expire(self) -> None:
        """Treat the rules as stale from now on."""
        self.happens(Event.EXPIRED)
        self.holds_for_next = False

    def happens(self, event: Event) -> None:
        """Go to the phase that follows *event*."""
        self.phase = _NEXT_PHASE[event][self.phase]
        if self.phase is not Phase.OPEN:
            self.expires = -inf

    @property
    def has_waiting(self) -> bool:
        """Whether any queue or request waits for the rules."""
        return bool(self.parked or self.waiters)
