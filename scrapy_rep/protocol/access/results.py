"""The result of fetching a robots.txt, and what may be fetched then (RFC 9309, 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass
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
"""The headers about the type of the body, its lifetime, and the time of the next request."""


MAX_AHEAD = 300.0
"""The seconds by which the clock of another machine may be ahead."""


class Access(str, Enum):
    """The kinds of result that RFC 9309, 2.3.1, distinguishes. Redirects are followed, so
    there is no kind for them: the last answer counts.
    """

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"

    __str__ = str.__str__


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessResult:
    """How one fetch of a robots.txt ended."""

    url: str
    """The URL of the first request."""

    status: int | None
    """The status of the last answer; None where there was none."""

    headers: tuple[tuple[str, str], ...] = ()
    """The headers of the last answer that are in ``HEADERS``: names in lower case, and
    values."""

    body: bytes = b""
    """The body of the last answer, if that was successful."""

    redirects: tuple[str, ...] = ()
    """The URLs that were redirected to, in order; the last is where the answer is from."""

    error: str = ""
    """Why there was no answer, or why the last one was not followed."""

    is_permanent: bool = False
    """Whether waiting and asking again is of no use: there is no server at that host, so
    that its pages would fail too, or a component of the project drops the request for
    robots.txt."""

    @property
    def access(self) -> Access:
        # 407 is the answer of a proxy, and says nothing about the site.
        if self.status is None or self.status in {407, 429}:
            return Access.UNREACHABLE
        if 200 <= self.status < 300:
            return Access.SUCCESSFUL
        # A redirect that was not followed leads nowhere, or is one too many (RFC 2.3.1.2).
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


class State(str, Enum):
    """What a crawler keeps to, going by all that is known of a robots.txt."""

    SUCCESSFUL = "successful"
    """The rules of the last answer."""
    UNAVAILABLE = "unavailable"
    """No rules: there is no robots.txt, or it must not be read (RFC 9309, 2.3.1.3)."""
    STALE = "stale"
    """The last good answer, since robots.txt is unreachable now."""
    UNREACHABLE = "unreachable"
    """Nothing may be fetched: robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    GIVEN_UP = "given-up"
    """Everything may be fetched: robots.txt has been unreachable for too long."""

    __str__ = str.__str__


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is known of the robots.txt of an origin, and until when it is fresh.

    Moments are in seconds since the epoch.
    """

    result: AccessResult
    """How the last fetch ended."""

    fetched: float
    expires: float
    """When it must be fetched again."""

    unreachable_since: float | None = None
    """When it was first found to be unreachable, if it is unreachable."""

    attempts: int = 0
    """How many fetches in a row found it unreachable."""

    copy: AccessResult | None = None
    """The last good answer, where it is unreachable."""

    copy_fetched: float | None = None
    """When the copy was fetched."""

    def is_fresh(self, now: float) -> bool:
        """Whether it need not be fetched again yet. An entry from the future is not fresh:
        the clock was set back since.
        """
        return now < self.expires and self.fetched <= now + MAX_AHEAD

    def state(self, dialect: Dialect) -> State:
        """What a crawler keeps to until the next fetch."""
        if self.unreachable_since is None:
            return State(self.result.access.value)
        outage = timedelta(seconds=self.fetched - self.unreachable_since)
        if self.copy is None or must_revalidate(self.copy.headers):
            limit, denies = dialect.unreachable_without_copy, None
        else:
            limit, denies = dialect.unreachable_limit, dialect.unreachable_denies
        if limit is not None and outage >= limit:
            return State.GIVEN_UP
        if denies is not None and outage >= denies:
            return State.STALE
        return State.UNREACHABLE

    def answer(self, dialect: Dialect) -> AccessResult | None:
        """The answer that a crawler keeps to: the last one, or the copy; None where neither
        counts.
        """
        state = self.state(dialect)
        if state in {State.UNREACHABLE, State.GIVEN_UP}:
            return None
        return self.copy if state is State.STALE else self.result


def renew(
    result: AccessResult,
    before: Entry | None,
    *,
    dialect: Dialect,
    now: float,
    bounds: Bounds = Bounds(),  # noqa: B008  immutable
    jitter: float = 0.0,
) -> Entry:
    """The entry after a fetch that ended with *result*; *before* is the entry until then.
    *jitter*, from 0 to 1, spreads the times at which crawlers ask again for a robots.txt
    that is unreachable.
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
    """The robots.txt to keep to until the next fetch."""
    answer = entry.answer(dialect)
    if answer is None:
        return RobotsTxt.blanket(
            allowed=entry.state(dialect) is State.GIVEN_UP,
            reason=Reason.UNREACHABLE,
            dialect=dialect,
        )
    if answer.access is Access.SUCCESSFUL:
        return RobotsTxt.parse(answer.body, dialect, answer.url)
    return RobotsTxt.blanket(
        allowed=answer.status not in dialect.denying_statuses,
        reason=Reason.UNAVAILABLE,
        dialect=dialect,
    )
