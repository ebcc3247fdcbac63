"""Cache entries: the results of fetching the robots.txt of an origin, and how long they are fresh.

A cache entry contains the result of the last fetch. While robots.txt is unreachable, the entry also
contains the last result before the outage, which is called the last good copy (RFC 9309, 2.3.1.4 and
2.4). Points in time are in seconds since the epoch.
"""

from datetime import timedelta
from enum import Enum
from typing import NamedTuple

from scrapy_rep.protocol.access.freshness import (
    DAY,
    MIN_AGE,
    lifetime,
    must_revalidate,
    retry_delay,
)
from scrapy_rep.protocol.access.results import Access, AccessResult
from scrapy_rep.protocol.dialect import Dialect

TDMREP = "/.well-known/tdmrep.json"
"""The path of tdmrep.json, the file in which a site reserves its rights to text and data mining (TDM Reservation
Protocol)."""

_TDMREP_RETRY = 60 * 60.0
"""The maximum time, in seconds, until a crawler requests an unreachable tdmrep.json again."""

MAX_AHEAD = 300.0
"""A tolerance, in seconds, for the clocks of other workers, which share their cache entries. A cache entry whose fetch
time is further in the future than this is not fresh."""


class State(str, Enum):
    """Which rules a crawler follows for an origin, depending on the results of fetching its robots.txt."""

    SUCCESSFUL = "successful"
    """The last fetch of robots.txt succeeded, and the crawler follows the rules in its response."""
    UNAVAILABLE = "unavailable"
    """The server answers, but not with a robots.txt: the status is 404 or 403, for example (RFC 9309, 2.3.1.3).
    If the status is in the ``denying_statuses`` of the crawler's dialect, the crawler may fetch nothing.
    Otherwise, it may fetch everything."""
    STALE = "stale"
    """The crawler follows the last good copy, which is the result of the last fetch before robots.txt became
    unreachable (RFC 9309, 2.3.1.4)."""
    UNREACHABLE = "unreachable"
    """The crawler may fetch nothing: robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    ASSUMED_UNAVAILABLE = "assumed-unavailable"
    """The crawler may fetch everything: robots.txt has been unreachable for such a long time that it counts as
    unavailable (RFC 9309, 2.3.1.4)."""

    __str__ = str.__str__


class CacheEntry(NamedTuple):
    """The cached results of fetching an origin's robots.txt and, if the crawl needs it, tdmrep.json. Times are
    in seconds since the epoch.
    """

    result: AccessResult
    """The result of the last fetch of robots.txt."""

    fetched: float
    """When the crawler last fetched robots.txt."""

    expires: float
    """When the entry stops being fresh, and the crawler must fetch robots.txt again."""

    unreachable_since: float | None = None
    """When robots.txt became unreachable; None if robots.txt is reachable. ``fetched - unreachable_since`` is the
    length of the outage in seconds. If the system clock is set to another time during the outage, :func:`renew` adjusts
    ``unreachable_since``, so that the length remains correct."""

    attempts: int = 0
    """The number of failed fetches of robots.txt in a row."""

    copy: AccessResult | None = None
    """The result of the last fetch before robots.txt became unreachable (the last good copy): a robots.txt, or
    an *unavailable* result. None if robots.txt is reachable, or if it has always been unreachable."""

    copy_fetched: float | None = None
    """When the crawler fetched the result in ``copy``, the last one before robots.txt became unreachable. None
    if ``copy`` is None."""

    tdmrep: AccessResult | None = None
    """The result of the last fetch of tdmrep.json that was not *unreachable*. None if there is no such result,
    or if the crawl does not need this file."""

    tdmrep_fetched: float | None = None
    """When the crawler last requested tdmrep.json; None if it never did. If this time is before ``fetched``,
    tdmrep.json must be requested again, because the crawler requests tdmrep.json after each fetch of
    robots.txt."""

    @property
    def has_tdmrep(self) -> bool:
        """Whether the crawler has requested tdmrep.json since the last fetch of robots.txt. If False, a crawl
        that needs tdmrep.json must request it.
        """
        return self.tdmrep_fetched is not None and self.tdmrep_fetched >= self.fetched

    def is_fresh(self, now: float) -> bool:
        """Whether the crawler can use the entry at the time *now* without another fetch. An entry whose fetch
        time is more than :data:`MAX_AHEAD` seconds in the future is not fresh. In this case, the clock that set
        the time was wrong, and the entry might not expire for years.
        """
        return now < self.expires and self.fetched <= now + MAX_AHEAD

    def state(self, dialect: Dialect) -> State:
        """Return which rules a crawler follows until it fetches robots.txt again. If robots.txt is unreachable,
        *dialect* determines how long everything is forbidden, and whether the crawler follows the last result
        before the outage (the last good copy).
        """
        if self.unreachable_since is None:
            return State(self.result.access.value)
        outage = timedelta(seconds=self.fetched - self.unreachable_since)
        if self.copy is None or must_revalidate(self.copy.headers):
            limit, stale_after = dialect.unreachable_without_copy, None
        else:
            limit, stale_after = dialect.unreachable_limit, dialect.unreachable_denies
        if limit is not None and outage >= limit:
            return State.ASSUMED_UNAVAILABLE
        if stale_after is not None and outage >= stale_after:
            return State.STALE
        return State.UNREACHABLE

    def answer(self, dialect: Dialect) -> AccessResult | None:
        """Return the fetch result whose rules a crawler follows. While robots.txt is reachable, this is the
        result of the last fetch. In ``State.STALE``, it is the last result before robots.txt became unreachable.

        Return None in ``State.UNREACHABLE``, in which everything is forbidden, and in
        ``State.ASSUMED_UNAVAILABLE``, in which everything is allowed.
        """
        state = self.state(dialect)
        if state in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
            return None
        return self.copy if state is State.STALE else self.result


def renew(
    result: AccessResult,
    before: CacheEntry | None,
    *,
    dialect: Dialect,
    now: float,
    elapsed: float = 0.0,
    min_age: float = MIN_AGE,
    max_age: float = DAY,
    jitter: float = 0.0,
) -> CacheEntry:
    """Return the new cache entry of an origin after a fetch of robots.txt. *result* is the result of the fetch, and
    *now* is its time. *before* is the previous entry; None if there is none.

    If robots.txt remains unreachable, the length of the outage grows by *elapsed*, the seconds on a
    monotonic clock since the crawler received *before*. The length is not calculated from the wall clock. If
    the wall clock were set forward, the outage would appear longer than it is, and everything would be
    allowed too early.

    *min_age* and *max_age* limit the lifetime of the entry, in seconds. *jitter*, from 0 to 1, makes the
    wait after a failed fetch longer, so that several crawlers do not fetch at the same time. The details are
    in :func:`~scrapy_rep.protocol.access.freshness.lifetime` and
    :func:`~scrapy_rep.protocol.access.freshness.retry_delay`.
    """
    tdmrep, tdmrep_fetched = None, None
    if before is not None:
        tdmrep, tdmrep_fetched = before.tdmrep, before.tdmrep_fetched
    if result.access is not Access.UNREACHABLE:
        ttl = lifetime(result.headers, dialect, now, min_age=min_age, max_age=max_age)
        return CacheEntry(
            result=result,
            fetched=now,
            expires=now + ttl,
            tdmrep=tdmrep,
            tdmrep_fetched=tdmrep_fetched,
        )
    since, attempts, copy, copy_fetched = now, 1, None, None
    if before is not None and before.result.access is not Access.UNREACHABLE:
        copy, copy_fetched = before.result, before.fetched
    elif before is not None:
        if before.unreachable_since is not None:
            since = now - elapsed - (before.fetched - before.unreachable_since)
        attempts = before.attempts + 1
        copy, copy_fetched = before.copy, before.copy_fetched
    return CacheEntry(
        result=result,
        fetched=now,
        expires=now + retry_delay(result.headers, attempts, jitter, now),
        unreachable_since=since,
        attempts=attempts,
        copy=copy,
        copy_fetched=copy_fetched,
        tdmrep=tdmrep,
        tdmrep_fetched=tdmrep_fetched,
    )


def with_tdmrep(entry: CacheEntry, result: AccessResult, now: float) -> CacheEntry:
    """Return a new cache entry, which is *entry* updated after a fetch of tdmrep.json. *result* is the result of the
    fetch, and *now* is its time.

    A tdmrep.json stays fresh until the robots.txt of the same origin must be fetched again. If the fetch
    of tdmrep.json failed (*unreachable*), the entry keeps the result of an earlier fetch, if any, and expires
    within an hour, so that the crawler requests both files again.
    """
    entry = entry._replace(tdmrep_fetched=max(now, entry.fetched))
    if result.access is not Access.UNREACHABLE:
        return entry._replace(tdmrep=result)
    return entry._replace(expires=min(entry.expires, now + _TDMREP_RETRY))
