"""Sites: whose robots.txt decides about requests, and what is known of it. No Scrapy, no clock, no I/O.

A site is an origin: scheme, host and port. Its robots.txt is fetched once, for whatever waits for it.
Each event takes the site to another phase; :data:`PHASES` is the whole table.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from scrapy_rep.protocol.origins import Origin


class Phase(Enum):
    """What is known of a site."""

    UNKNOWN = "nothing has asked for its robots.txt yet, or its rules are stale"
    WANTED = "robots.txt is to be fetched, or is being fetched; requests wait for it"
    OPEN = "the rules are known; requests go as their limiters allow"
    DOWN = "unreachable; requests wait, and robots.txt is fetched again at retry_at"
    REFUSED = "unreachable for too long; requests are refused; after retry_at, the next one has robots.txt fetched"


class Event(Enum):
    """What happens to a site."""

    REQUEST = "a request needs the rules, and they are not known, or stale"
    KNOWN = "the rules are known"
    UNREACHABLE = "robots.txt is unreachable, and requests may wait longer"
    GIVEN_UP = "robots.txt is unreachable, and requests may not wait longer"
    NO_RESULT = "a fetch has ended without a result, and nothing waits for it"


_Row: TypeAlias = "tuple[Phase, ...]"
UNKNOWN, WANTED, OPEN, DOWN, REFUSED = Phase

# fmt: off
PHASES: dict[Event, _Row] = {
    #                  UNKNOWN  WANTED   OPEN     DOWN     REFUSED
    Event.REQUEST:     (WANTED,  WANTED,  WANTED,  DOWN,    REFUSED),
    Event.KNOWN:       (OPEN,    OPEN,    OPEN,    OPEN,    OPEN),
    Event.UNREACHABLE: (DOWN,    DOWN,    DOWN,    DOWN,    REFUSED),
    Event.GIVEN_UP:    (REFUSED, REFUSED, REFUSED, REFUSED, REFUSED),
    Event.NO_RESULT:   (UNKNOWN, UNKNOWN, OPEN,    DOWN,    REFUSED),
}
# fmt: on
"""The phase that follows each event, by the phase before it."""

_NEXT_PHASE = {
    event: dict(zip(Phase, row, strict=True)) for event, row in PHASES.items()
}


class Outage:
    """Since when the robots.txt of a site is unreachable, and how long its requests wait."""

    __slots__ = ("last_result", "retry_at", "since", "until")

    def __init__(self, since: float, until: float) -> None:
        self.since = since
        self.until = until
        """When its requests are refused."""

        self.retry_at = -inf
        """When robots.txt may be fetched again."""

        self.last_result: Any = None
        """What the last fetch has brought, for whoever judges and reports."""


class Site:
    """An origin whose robots.txt decides."""

    __slots__ = (
        "alarm_at", "expires", "holds_for_next", "is_fetching", "is_urgent", "is_wanted",
        "origin", "outage", "parked", "phase", "templates", "users", "waiters",
    )  # fmt: skip

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.phase = Phase.UNKNOWN

        self.expires = -inf
        """When the rules become stale; ``-inf`` while they are not known."""

        self.holds_for_next = False
        """Whether the rules hold for the next request of the scheduler, however long that waits for
        its turn: else a site with a long delay and short-lived rules would never get a page."""

        self.is_wanted = False
        self.is_urgent = False
        """Whether a request in the downloader waits for robots.txt."""

        self.is_fetching = False
        self.outage: Outage | None = None
        """While the phase is DOWN or REFUSED."""

        self.parked: list[Any] | None = None
        """The queues that wait for the rules, nearly always one of them, and go on together; None if there are
        none."""

        self.waiters: list[Any] | None = None
        """The requests in the downloader that wait for the rules; None if there are none."""

        self.users = 0
        """How many queues have requests for this site."""

        self.templates: list[Any] | None = None
        """Requests that wait for robots.txt, from which its request takes over proxy and headers."""

        self.alarm_at = inf
        """When the site is to be looked at; ``inf`` for never."""

    def __repr__(self) -> str:
        again = f", again at {self.outage.retry_at:g}" if self.outage else ""
        fetch = ", is fetched" if self.is_fetching else ", is wanted" * self.is_wanted
        waiting = f"{len(self.parked or ())} queues and {len(self.waiters or ())} requests wait"
        return f"<Site {self.origin}: {self.phase.name}{again}{fetch}, {waiting}>"

    def expire(self) -> None:
        """Note that the rules are stale by now."""
        self.expires, self.holds_for_next = -inf, False

    def happens(self, event: Event) -> None:
        """Go to the phase that follows *event*."""
        self.phase = _NEXT_PHASE[event][self.phase]
        if self.phase is not Phase.OPEN:
            self.expires = -inf

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits for the rules."""
        return bool(self.parked or self.waiters)
