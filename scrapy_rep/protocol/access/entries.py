"""Cache entries: the results that a crawler has fetched from an origin, and how long they are fresh.

A cache entry keeps the last result and, while robots.txt is unreachable, the last good copy of
robots.txt (RFC 9309, 2.3.1.4 and 2.4). Points in time are in seconds since the epoch.
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
"""The path of the tdmrep.json of an origin."""

_TDMREP_RETRY = 60 * 60.0
"""The seconds after which a crawler asks again for a tdmrep.json that was unreachable."""

MAX_AHEAD = 300.0
"""By how many seconds the clock of another worker may be ahead: an entry that was fetched further in
the future is not fresh."""


class State(str, Enum):
    """Which rules a crawler follows for an origin."""

    SUCCESSFUL = "successful"
    """The crawler follows the rules of the last response."""
    UNAVAILABLE = "unavailable"
    """There are no rules: robots.txt does not exist, or access to it is denied (RFC 9309, 2.3.1.3)."""
    STALE = "stale"
    """The crawler follows the last good copy, because robots.txt is unreachable now."""
    UNREACHABLE = "unreachable"
    """The crawler may fetch nothing: robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    ASSUMED_UNAVAILABLE = "assumed-unavailable"
    """The crawler may fetch everything: robots.txt has been unreachable for so long that it
    counts as unavailable (RFC 9309, 2.3.1.4)."""

    __str__ = str.__str__


class CacheEntry(NamedTuple):
    """What a crawler has fetched from an origin: its robots.txt and, if the crawl needs this file, its
    tdmrep.json. Times are in seconds since the epoch.
    """

    result: AccessResult
    """The result of the last fetch."""

    fetched: float
    """When the crawler last fetched robots.txt."""

    expires: float
    """When the crawler must fetch robots.txt again."""

    unreachable_since: float | None = None
    """When robots.txt became unreachable; None if it is not unreachable. The time is computed back from
    ``fetched``, by the length of the outage on monotonic clocks (see :func:`renew`)."""

    attempts: int = 0
    """The number of failed fetches in a row."""

    copy: AccessResult | None = None
    """The last good copy: the last result before robots.txt became unreachable. None if robots.txt is
    not unreachable, or always was."""

    copy_fetched: float | None = None
    """When the crawler fetched the copy."""

    tdmrep: AccessResult | None = None
    """The last result for tdmrep.json other than *unreachable*; None if there is none, or if the crawl
    does not need this file."""

    tdmrep_fetched: float | None = None
    """When the crawler last requested tdmrep.json. It must do so after each fetch of robots.txt, so a
    time before ``fetched`` means that the next request is due."""

    @property
    def has_tdmrep(self) -> bool:
        """Whether tdmrep.json was requested after the last fetch of robots.txt, so that it is up to date."""
        return self.tdmrep_fetched is not None and self.tdmrep_fetched >= self.fetched

    def is_fresh(self, now: float) -> bool:
        """Whether the entry may be used without another fetch. An entry from the future may not: the
        clock was wrong, so the entry might be used for years.
        """
        return now < self.expires and self.fetched <= now + MAX_AHEAD

    def state(self, dialect: Dialect) -> State:
        """Return which rules a crawler follows until the next fetch."""
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
        """Return the result that a crawler follows: the last result, or the last good copy; None if the
        crawler may fetch nothing, or everything, because robots.txt is unreachable.
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
    """Return the cache entry after a fetch with *result*; *before* is the entry until then, if any.

    *elapsed* is the time in seconds since the crawler got *before*, on a monotonic clock; an outage
    grows by *elapsed*. The wall clock would not do: if it were set forward, an outage would seem
    longer than it is, and the crawler would too early be allowed everything. *jitter*, from 0 to 1,
    spreads the retries of several crawlers for an unreachable robots.txt.
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
    """Return the cache entry after a fetch of tdmrep.json with *result*.

    A tdmrep.json is fresh as long as the robots.txt of the same origin. While tdmrep.json is
    unreachable, its last good copy counts, and the crawler requests it again within an hour.
    """
    entry = entry._replace(tdmrep_fetched=max(now, entry.fetched))
    if result.access is not Access.UNREACHABLE:
        return entry._replace(tdmrep=result)
    return entry._replace(expires=min(entry.expires, now + _TDMREP_RETRY))
