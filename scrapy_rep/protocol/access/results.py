"""The result of fetching a robots.txt, how long it stays fresh, and the rules that follow from it.

Sources: RFC 9309, 2.3.1 (the result) and 2.4, which lets crawlers use the cache control of
RFC 9111. To this one the section numbers of the functions on freshness refer. Header fields are
pairs of a name in lower case and a value. Durations are in seconds, points in time in seconds since
the epoch.
"""

import re
from collections.abc import Iterable
from datetime import timedelta, timezone
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from scrapy_rep.protocol.dialect import Dialect
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.rules import Reason

if TYPE_CHECKING:
    from scrapy_rep.protocol.usage.sites import TdmRep

Headers: TypeAlias = Iterable[tuple[str, str]]

DAY = 24 * 60 * 60.0

_MAX_HOLDS = 30 * DAY
"""The longest lifetime that a server can set."""

_FIRST_RETRY, _LAST_RETRY = 30.0, 60 * 60.0
_MIN_RETRY_AFTER, _MAX_RETRY_AFTER = 1.0, DAY

# The directives that state a lifetime, the one with precedence first. s-maxage counts,
# because several crawls can share a cache.
_AGE_DIRECTIVES = {
    "cache-control": ("s-maxage", "max-age"),
    "max-age": ("max-age",),
    "expires": (),
}

_DELTA_SECONDS = r"(?a)\d+"  # RFC 9111, 1.2.2
_WITH_FRACTION = r"(?a)\d+(\.\d+)?"
_MAX_SECONDS = 2.0**31
"""What a longer time counts as (RFC 9111, 1.2.2)."""
_MAX_CHARACTERS = 64
"""How much of a number or date is read."""

_DIRECTIVE = r'\s*([\w-]+)\s*(?:=\s*"?([^",]*)"?)?\s*'


MIN_AGE = 5 * 60.0
"""The shortest lifetime. Without it, ``max-age=0``, a default of many servers, would cause a fetch
before each page. RFC 9309, 2.4, names no such limit."""


def lifetime(
    headers: Headers,
    dialect: Dialect,
    fetched: float,
    *,
    min_age: float = MIN_AGE,
    max_age: float = DAY,
) -> float:
    """Return for how many seconds after *fetched* a response with *headers* is fresh: *min_age* at
    least, if *max_age* is not shorter, and *max_age* at most in a dialect with such a limit
    (RFC 9309, 2.4).
    """
    fields = dict(headers)
    directives = cache_control(fields)
    stated = _stated_lifetime(fields, directives, dialect, fetched)
    found = dialect.holds.total_seconds() if stated is None else stated
    if dialect.freshness == "cache-control":
        found = min(found, max_age)
    return max(min(found, _MAX_HOLDS), min(min_age, max_age))


def _stated_lifetime(
    fields: dict[str, str],
    directives: dict[str, str],
    dialect: Dialect,
    fetched: float,
) -> float | None:
    """Return the lifetime that the header fields of the dialect state, or None (4.2.1)."""
    forbids_caching = "no-cache" in directives or "no-store" in directives
    if dialect.freshness == "cache-control" and forbids_caching:
        return 0.0
    for name in _AGE_DIRECTIVES[dialect.freshness]:
        value = directives.get(name)
        if value is not None and (seconds := _seconds(value)) is not None:
            return seconds - (_seconds(fields.get("age", "")) or 0.0)
    if dialect.freshness != "max-age" and "expires" in fields:
        # An invalid date, in particular "0", is in the past (5.3).
        expires = _moment(fields["expires"])
        date = _moment(fields.get("date", ""))
        return 0.0 if expires is None else expires - (date or fetched)
    return None


def must_revalidate(headers: Headers) -> bool:
    """Whether a stale copy must not be used even if the server is unreachable (5.2.2.2)."""
    directives = cache_control(dict(headers))
    return not directives.keys().isdisjoint(
        {"must-revalidate", "proxy-revalidate", "no-cache", "no-store"}
    )


def retry_delay(headers: Headers, attempts: int, jitter: float, now: float) -> float:
    """Return the seconds to wait before the next fetch, after *attempts* failed ones in a row.

    ``Retry-After`` (RFC 9110, 10.2.3) decides, up to a day. Without it, the wait is 30 seconds;
    *jitter*, from 0 to 1, adds up to half, so that crawlers do not all fetch at the same time.
    With each attempt, the wait without it doubles, and so does the shortest one with it, of a
    second: both up to an hour. *now* is the time of the last fetch.
    """
    doubled = 2.0 ** min(attempts - 1, 30)
    wanted = pause_asked(headers, now)
    if wanted is None:
        return min(_FIRST_RETRY * doubled, _LAST_RETRY) * (1 + jitter / 2)
    shortest = min(_MIN_RETRY_AFTER * doubled, _LAST_RETRY)
    return max(min(wanted, _MAX_RETRY_AFTER), shortest)


def pause_asked(headers: Headers, now: float) -> float | None:
    """Return the seconds for which ``Retry-After`` asks crawlers to wait, or None if it has no
    usable value.

    The value is a number of seconds, or a date (RFC 9110, 10.2.3). A date is counted from the
    response's own ``Date``, so that the clocks of server and crawler need not agree; without
    one, it is counted from *now*, when the response came. A date in the past is 0. A negative
    number, or anything else, is no usable value. Some servers send fractions of a second,
    which count. Of several fields, the longest pause counts. The result is 2**31 at most,
    whatever the server sends.
    """
    fields = list(headers)
    sent = _moment(dict(fields).get("date", ""))
    since = now if sent is None else sent
    pauses = (_pause(value, since) for name, value in fields if name == "retry-after")
    return max((pause for pause in pauses if pause is not None), default=None)


def _pause(value: str, since: float) -> float | None:
    """Return the seconds that the *value* of a ``Retry-After`` states; a date is counted from
    the time *since*.
    """
    seconds = _seconds(value, _WITH_FRACTION)
    if seconds is not None or (moment := _moment(value)) is None:
        return seconds
    return min(max(moment - since, 0.0), _MAX_SECONDS)


def cache_control(fields: dict[str, str]) -> dict[str, str]:
    """Return the directives of ``Cache-Control``, with names in lower case (5.2)."""
    directives: dict[str, str] = {}
    for part in fields.get("cache-control", "")[:4096].split(","):
        match = re.fullmatch(_DIRECTIVE, part)
        if match is not None:
            # The first of two equal directives counts (4.2.1).
            directives.setdefault(match[1].lower(), match[2] or "")
    return directives


def _seconds(value: str, form: str = _DELTA_SECONDS) -> float | None:
    value = value[:_MAX_CHARACTERS].strip()
    return min(float(value), _MAX_SECONDS) if re.fullmatch(form, value) else None


def _moment(value: str) -> float | None:
    """Return an HTTP-date (RFC 9110, 5.6.7) as seconds since the epoch; None if invalid."""
    try:
        date = parsedate_to_datetime(value[:_MAX_CHARACTERS])
        # The form of asctime names no zone, and is in UTC like the others.
        return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, TypeError, OverflowError, OSError, IndexError):
        return None


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

TDMREP = "/.well-known/tdmrep.json"
"""The path of the tdmrep.json of an origin."""

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


class Failure(str, Enum):
    """Whose failure it is that there is no response."""

    OWN = "own"
    """Of this machine, which has no file descriptor, port, network or memory left. It says
    nothing about any host."""

    NETWORK = "network"
    """Nothing has answered: the host name was not resolved, the connection refused, or timed out,
    the host or the proxy was unreachable. The host may be gone, or the network of the crawl.

    Download handlers do not tell a time-out of a connection from that of an answer, so both are of
    this kind."""

    NO_SERVER = "no-server"
    """As NETWORK, but the host itself has no name or refuses the connection: its pages would fail, too."""

    DROPPED = "dropped"
    """This crawler itself ended the fetch: a component of the project dropped the request, or robots.txt
    forbids it. This says nothing about the site, and the next fetch would end the same way."""

    OTHER = "other"
    """Something has answered: TLS failed, the answer was broken or lost."""


class AccessResult(NamedTuple):
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
    """Whose failure it is that there was no response, if that is known."""

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
        """Whether the body is an HTML page, such as the challenge of a bot wall, and no robots.txt."""
        if not self.body[:1024].lstrip().startswith(b"<"):
            return False
        # Imported here, because few files begin so.
        from scrapy_rep.protocol.robotstxt.pages import is_page  # noqa: PLC0415

        return is_page(self.body)

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


class CacheEntry(NamedTuple):
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
    before: CacheEntry | None,
    *,
    dialect: Dialect,
    now: float,
    elapsed: float = 0.0,
    min_age: float = MIN_AGE,
    max_age: float = DAY,
    jitter: float = 0.0,
) -> CacheEntry:
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
        holds = lifetime(result.headers, dialect, now, min_age=min_age, max_age=max_age)
        return CacheEntry(
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
    """Return *entry* after a fetch of the tdmrep.json of its origin with *result*.

    It holds as long as robots.txt. While it is unreachable, the last good copy counts, and it is
    asked for again within an hour.
    """
    entry = entry._replace(tdmrep_fetched=max(now, entry.fetched))
    if result.access is not Access.UNREACHABLE:
        return entry._replace(tdmrep=result)
    return entry._replace(expires=min(entry.expires, now + _TDMREP_RETRY))


def robots_of(
    entry: CacheEntry, dialect: Dialect, state: State | None = None
) -> RobotsTxt:
    """Return the robots.txt that a crawler follows until the next fetch. *state* is that of *entry*, if
    the caller knows it.
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
    """What is known of an origin: its files, parsed, with their cache entry."""

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
        """None if the crawl needs none, robots.txt forbids to fetch it, or it never could be fetched."""

        self.learned = learned
        """The time of the monotonic clock since which this process knows the entry."""
