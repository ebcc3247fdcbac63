"""What a fetch of robots.txt came to, and what may be fetched then (RFC 9309, 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from scrapy_rep.protocol.access.freshness import (
    Bounds,
    lifetime,
    must_revalidate,
    retry_delay,
)
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Reason

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

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
"""The headers that say what the body is, for how long it holds and when to ask again."""


MAX_AHEAD = 300.0
"""How many seconds the clock of another machine may be ahead of this one's."""


class Access(str, Enum):
    """The kinds of outcome that RFC 9309, 2.3.1, tells apart. A redirect is followed, so
    what counts is where it ended.
    """

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessResult:
    """How one fetch of a robots.txt ended."""

    url: str
    """What was asked for."""

    status: int | None
    """The status of the last answer; None where there was none."""

    headers: tuple[tuple[str, str], ...] = ()
    """Of the last answer, those in ``HEADERS``: names in lower case, and values."""

    body: bytes = b""
    """Of the last answer, where that was successful."""

    redirects: tuple[str, ...] = ()
    """The URLs that were redirected to, in order; the last is where the answer is from."""

    error: str = ""
    """Why there was no answer, or why the last one was not followed."""

    is_permanent: bool = False
    """Whether it is of no use to wait and ask again: no server answers at that host, so
    that its pages would fail as well, or a component of the project does not let
    robots.txt be asked for."""

    @property
    def access(self) -> Access:
        # 407 is the answer of a proxy, and says nothing about the site.
        if self.status is None or self.status in {407, 429}:
            return Access.UNREACHABLE
        if 200 <= self.status < 300:
            return Access.SUCCESSFUL
        # A redirect that is left over leads nowhere, or too far (RFC 2.3.1.2).
        if 300 <= self.status < 500:
            return Access.UNAVAILABLE
        return Access.UNREACHABLE

    @property
    def has_too_many_redirects(self) -> bool:
        """Whether it counts as unavailable because it was redirected too often."""
        is_redirect = self.status is not None and 300 <= self.status < 400
        return is_redirect and len(self.redirects) > 1

    @property
    def is_html(self) -> bool:
        """Whether the body looks like a page rather than a robots.txt."""
        beginning = self.body[:1024].lstrip().lower()
        return beginning.startswith((b"<!doctype html", b"<html"))

    def __str__(self) -> str:
        outcome = f"status {self.status}" if self.status else "no answer"
        return f"{outcome}: {self.error}" if self.error else outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of the robots.txt of an origin, and until when that holds.

    Moments are in seconds since the epoch. Its states: fresh until it ``expires``, then
    stale; unreachable with a ``copy``, or without; and given up, once that has lasted too
    long.
    """

    result: AccessResult
    """How the last fetch ended."""

    fetched: float
    expires: float
    """When it must be asked for again."""

    unreachable_since: float | None = None
    """When it was first found to be unreachable, if it is."""

    attempts: int = 0
    """How often in a row that was found."""

    copy: AccessResult | None = field(default=None)
    """The last good one, where it is unreachable."""

    copy_fetched: float | None = None
    """When that was fetched."""

    def is_fresh(self, now: float) -> bool:
        """Whether it holds: also not if it is from the future, by a clock that was set
        back since.
        """
        return now < self.expires and self.fetched <= now + MAX_AHEAD


def renew(
    result: AccessResult,
    before: Entry | None,
    *,
    dialect: Dialect,
    now: float,
    bounds: Bounds = Bounds(),  # noqa: B008  immutable
    jitter: float = 0.0,
) -> Entry:
    """What is known after a fetch that ended with *result*; *before* is what was known
    until then. *jitter*, from 0 to 1, spreads when those who find nothing ask again.
    """
    if result.access is not Access.UNREACHABLE:
        holds = lifetime(result.headers, dialect, bounds, now)
        return Entry(result=result, fetched=now, expires=now + holds)
    since, attempts, copy, copy_fetched = now, 1, None, None
    if before is not None and before.result.access is not Access.UNREACHABLE:
        copy, copy_fetched = before.result, before.fetched
    elif before is not None:
        since = now if before.unreachable_since is None else before.unreachable_since
        attempts = before.attempts + 1
        copy, copy_fetched = before.copy, before.copy_fetched
    return Entry(
        result=result,
        fetched=now,
        expires=now + retry_delay(result.headers, attempts, jitter, now),
        unreachable_since=since,
        attempts=attempts,
        copy=copy,
        copy_fetched=copy_fetched,
    )


def robots_of(entry: Entry, dialect: Dialect) -> RobotsTxt:
    """The robots.txt to keep to while *entry* holds."""
    held, given_up = _held(entry, dialect)
    if held is not None:
        return _robots(held, dialect)
    return RobotsTxt.blanket(
        allowed=given_up, reason=Reason.UNREACHABLE, dialect=dialect
    )


def copy_held(entry: Entry, dialect: Dialect) -> AccessResult | None:
    """The last good copy, where *entry* has one and that is what to keep to."""
    held, _ = _held(entry, dialect)
    return None if held is entry.result else held


def _held(entry: Entry, dialect: Dialect) -> tuple[AccessResult | None, bool]:
    """The answer to keep to, if there is one, and whether the hope for one is given up."""
    if entry.unreachable_since is None:
        return entry.result, False
    outage = timedelta(seconds=entry.fetched - entry.unreachable_since)
    copy = entry.copy
    if copy is not None and must_revalidate(copy.headers):
        copy = None
    if copy is None:
        limit, denies = dialect.unreachable_without_copy, None
    else:
        limit, denies = dialect.unreachable_limit, dialect.unreachable_denies
    given_up = limit is not None and outage >= limit
    counts = not given_up and denies is not None and outage >= denies
    return (copy if counts else None), given_up


def _robots(result: AccessResult, dialect: Dialect) -> RobotsTxt:
    if result.access is Access.SUCCESSFUL:
        return RobotsTxt.parse(result.body, dialect, result.url)
    return RobotsTxt.blanket(
        allowed=result.status not in dialect.denying_statuses,
        reason=Reason.UNAVAILABLE,
        dialect=dialect,
    )
