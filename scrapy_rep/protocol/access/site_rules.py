"""The rules that a crawler follows for an origin, from its cache entry."""

from typing import TYPE_CHECKING

from scrapy_rep.protocol.access.entries import CacheEntry, State
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.dialect import Dialect
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.rules import Reason

if TYPE_CHECKING:
    from scrapy_rep.protocol.usage.sites import TdmRep


def robots_of(
    entry: CacheEntry, dialect: Dialect, state: State | None = None
) -> RobotsTxt:
    """Return the robots.txt that a crawler follows until the next fetch. *state* is the state of
    *entry*, for callers that have it already.
    """
    state = state or entry.state(dialect)
    if state in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
        return RobotsTxt.blanket(
            allowed=state is State.ASSUMED_UNAVAILABLE,
            reason=Reason.UNREACHABLE,
            dialect=dialect,
        )
    answer, is_successful = entry.result, state is State.SUCCESSFUL
    if state is State.STALE and entry.copy is not None:
        answer, is_successful = entry.copy, entry.copy.access is Access.SUCCESSFUL
    if is_successful:
        return RobotsTxt(answer.body, dialect, answer.url)
    return RobotsTxt.blanket(
        allowed=answer.status not in dialect.denying_statuses,
        reason=Reason.UNAVAILABLE,
        dialect=dialect,
    )


class SiteRules:
    """The parsed files of an origin, with their cache entry."""

    __slots__ = (
        "entry", "learned", "origin", "robots", "state", "tdmrep",
    )  # fmt: skip

    def __init__(
        self,
        origin: Origin,
        entry: CacheEntry,
        state: State,
        robots: RobotsTxt,
        *,
        tdmrep: "TdmRep | None" = None,
        learned: float = 0.0,
    ) -> None:
        self.origin = origin
        self.entry = entry

        self.state = state
        """What the crawler follows until the next fetch."""

        self.robots = robots

        self.tdmrep = tdmrep
        """The parsed tdmrep.json; None if the crawl does not need this file, robots.txt forbids to fetch
        it, or every fetch failed."""

        self.learned = learned
        """The time at which this process learned the entry, on the monotonic clock."""
