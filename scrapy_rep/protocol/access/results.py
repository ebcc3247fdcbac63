"""The result of fetching a robots.txt, and the rules that follow from it (RFC 9309, 2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
"""The headers that a result keeps: the body's type and lifetime, and ``Retry-After``."""

# It comes from a proxy, and says nothing about the site.
_OF_PROXY = 407

_TDMREP_RETRY = 60 * 60.0
"""After how many seconds a tdmrep.json that was unreachable is asked for again."""

MAX_AHEAD = 300.0
"""How many seconds the clock of another worker may be ahead."""


class Access(str, Enum):
    """The kinds of result that RFC 9309, 2.3.1, distinguishes.

    The crawler follows redirects, so there is no kind for them: the last response counts.
    """

    SUCCESSFUL = "successful"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"

    __str__ = str.__str__


class Failure(Enum):
    """Whose failure an error is."""

    OWN = "own"
    """Of this machine, which has no file descriptor, port, network or memory left. It says
    nothing about any host."""

    NETWORK = "network"
    """Nothing has answered: the host name was not resolved, the connection refused, or timed out,
    the host or the proxy was unreachable. The host may be gone, or the network of the crawl.

    Download handlers do not tell a time-out of a connection from that of an answer, so both are of
    this kind."""

    OTHER = "other"
    """Something has answered, or nothing was sent: TLS failed, the answer was broken or lost, or a
    component failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessResult:
    """The result of one fetch of a robots.txt."""

    url: str
    """The URL of the first request."""

    status: int | None
    """The status of the last response; None if there was none."""

    headers: tuple[tuple[str, str], ...] = ()
    """The ``HEADERS`` of the last response: pairs of a name in lower case and a value."""

    body: bytes = b""
    """The body of the last response, if it was successful."""

    redirects: tuple[str, ...] = ()
    """The targets of the redirects, in order; the last response came from the last one."""

    error: str = ""
    """Why there was no response, or why the crawler did not follow the last redirect."""

    failure: Failure | None = None
    """Whose failure it is that there was no response, if an error of the download tells. It is
    known to the crawl that made the fetch, as long as the result is in memory: no store keeps it.
    """

    is_permanent: bool = False
    """Whether fetching again soon is useless: the host has no server, so its pages would fail
    too, or *is_dropped*."""

    is_dropped: bool = False
    """Whether this crawler itself ended the fetch: a component of the project dropped the
    request, or robots.txt forbids it. This says nothing about the site."""

    @property
    def is_of_server(self) -> bool:
        """Whether a server of the site has answered. Only this is stored."""
        return self.status is not None and self.status != _OF_PROXY

    @property
    def access(self) -> Access:
        if self.status in {None, _OF_PROXY, 429}:
            return Access.UNREACHABLE
        if 200 <= self.status < 300:
            return Access.SUCCESSFUL
        # The crawler does not follow an invalid redirect, or one too many (RFC 2.3.1.2).
        if 300 <= self.status < 500:
            return Access.UNAVAILABLE
        return Access.UNREACHABLE

    @property
    def has_too_many_redirects(self) -> bool:
        """Whether robots.txt counts as unavailable because of too many redirects."""
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
    """What a crawler follows for an origin, given the last fetch and the cached copy."""

    SUCCESSFUL = "successful"
    """The rules of the last response."""
    UNAVAILABLE = "unavailable"
    """No rules: robots.txt does not exist, or access to it is denied (RFC 9309, 2.3.1.3)."""
    STALE = "stale"
    """The rules of the cached copy, because robots.txt is unreachable now."""
    UNREACHABLE = "unreachable"
    """The crawler may fetch nothing: robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
    ASSUMED_UNAVAILABLE = "assumed-unavailable"
    """The crawler may fetch everything: robots.txt has been unreachable for so long that it
    counts as unavailable (RFC 9309, 2.3.1.4)."""

    __str__ = str.__str__


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The cache entry of an origin: for its robots.txt, and its tdmrep.json if a crawl needs that.
    Times are in seconds since the epoch.
    """

    result: AccessResult
    """The result of the last fetch."""

    fetched: float
    expires: float
    """When the crawler must fetch robots.txt again."""

    unreachable_since: float | None = None
    """When robots.txt became unreachable, if it is: ``fetched``, less the seconds for which
    crawlers have found it unreachable, as their monotonic clocks measured them."""

    attempts: int = 0
    """The number of failed fetches in a row."""

    copy: AccessResult | None = None
    """The last result before robots.txt became unreachable, if it is."""

    copy_fetched: float | None = None
    """When the crawler fetched the copy."""

    tdmrep: AccessResult | None = None
    """The last result of fetching the tdmrep.json of the origin that was not unreachable, if the
    crawl needs this file."""

    tdmrep_fetched: float | None = None
    """When the crawler last asked for tdmrep.json. That is part of what a fetch of robots.txt brings,
    so before ``fetched``, it has to be asked for again."""

    @property
    def has_tdmrep(self) -> bool:
        """Whether tdmrep.json was asked for after the last fetch of robots.txt."""
        return self.tdmrep_fetched is not None and self.tdmrep_fetched >= self.fetched

    def is_fresh(self, now: float) -> bool:
        """Whether the entry may be used without another fetch.

        An entry from the future is not fresh: the clock has been set back since.
        """
        return now < self.expires and self.fetched <= now + MAX_AHEAD

    def state(self, dialect: Dialect) -> State:
        """Return what a crawler follows until the next fetch."""
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
        """Return the result that a crawler follows: the last one or the copy, or None."""
        state = self.state(dialect)
        if state in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
            return None
        return self.copy if state is State.STALE else self.result


def renew(
    result: AccessResult,
    before: Entry | None,
    *,
    dialect: Dialect,
    now: float,
    elapsed: float = 0.0,
    bounds: Bounds = Bounds(),  # noqa: B008  immutable
    jitter: float = 0.0,
) -> Entry:
    """Return the entry after a fetch with *result*; *before* is the entry until then.

    *elapsed* are the seconds for which the crawler has known *before*, by a clock that nobody
    sets: an outage grows by them. By the time of day, a clock that is set forward would end
    the outage, and allow what the site forbids. *jitter*, from 0 to 1, spreads the retries of
    crawlers for an unreachable robots.txt.
    """
    tdmrep, tdmrep_fetched = None, None
    if before is not None:
        tdmrep, tdmrep_fetched = before.tdmrep, before.tdmrep_fetched
    if result.access is not Access.UNREACHABLE:
        holds = lifetime(result.headers, dialect, bounds, now)
        return Entry(
            result=result,
            fetched=now,
            expires=now + holds,
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
    return Entry(
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


def with_tdmrep(entry: Entry, result: AccessResult, now: float) -> Entry:
    """Return *entry* after a fetch of the tdmrep.json of its origin with *result*.

    It holds as long as robots.txt. While it is unreachable, the last good copy counts, and it is
    asked for again within an hour.
    """
    entry = replace(entry, tdmrep_fetched=max(now, entry.fetched))
    if result.access is not Access.UNREACHABLE:
        return replace(entry, tdmrep=result)
    return replace(entry, expires=min(entry.expires, now + _TDMREP_RETRY))


def robots_of(entry: Entry, dialect: Dialect) -> RobotsTxt:
    """Return the robots.txt that a crawler follows until the next fetch."""
    answer = entry.answer(dialect)
    if answer is None:
        return RobotsTxt.blanket(
            allowed=entry.state(dialect) is State.ASSUMED_UNAVAILABLE,
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
