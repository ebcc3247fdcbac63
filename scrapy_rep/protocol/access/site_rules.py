"""Parses a cache entry into the rules that a crawler follows for an origin."""

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
    """Return the parsed robots.txt that a crawler follows until the next fetch. If robots.txt is unavailable, or if it
    is unreachable and no earlier copy is followed, return a RobotsTxt that allows or forbids everything.

    *state* is the result of ``entry.state(dialect)``, if the caller has it already.
    """
    state = state or entry.state(dialect)
    if state in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
        return RobotsTxt.blanket(
            allowed=state is State.ASSUMED_UNAVAILABLE,
            reason=Reason.UNREACHABLE,
            dialect=dialect,
        )
    result, is_successful = entry.result, state is State.SUCCESSFUL
    if state is State.STALE and entry.copy is not None:
        result, is_successful = entry.copy, entry.copy.access is Access.SUCCESSFUL
    if is_successful:
        return RobotsTxt(result.body, dialect, result.url)
    return RobotsTxt.blanket(
        allowed=result.status not in dialect.denying_statuses,
        reason=Reason.UNAVAILABLE,
        dialect=dialect,
    )


class SiteRules:
    """The parsed robots.txt and tdmrep.json of an origin, and the cache entry that contains the two files."""

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
        """The state after the last fetch of robots.txt. Until the next fetch, the state determines whether the crawler
        follows the rules of a file, allows everything, or refuses everything."""

        self.robots = robots

        self.tdmrep = tdmrep
        """The parsed tdmrep.json. None in these cases: the crawl does not need this file, robots.txt forbids it, the
        file has not been fetched yet, or it has always been unreachable."""

        self.learned = learned
        """The time, on the monotonic clock, at which this process received ``entry`` from a fetch of robots.txt or
        from a store. While robots.txt is unreachable, ``learned`` is used to measure the length of the outage."""
