"""What a crawler follows after several fetches: the states of a cache entry, in each dialect."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.access.freshness import DAY
from scrapy_rep.protocol.access.results import (
    Access,
    AccessResult,
    Entry,
    State,
    renew,
    robots_of,
)
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect

URL = "http://example.com/robots.txt"
PAGE = "http://example.com/page"
FORBIDS = b"User-agent: *\nDisallow: /page\n"
HOUR, MONTH = 3600.0, 30 * DAY


def result(status: int | None, **headers: str) -> AccessResult:
    """Return a fetch result, whose body has rules that forbid PAGE."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return AccessResult(url=URL, status=status, headers=pairs, body=FORBIDS)


def after(dialect: Dialect, *fetches: tuple[float, AccessResult | int | None]) -> Entry:
    """Return the cache entry after fetches at these moments with these results or statuses."""
    entry, before = None, 0.0
    for now, answer in fetches:
        if not isinstance(answer, AccessResult):
            answer = result(answer)
        entry = renew(answer, entry, dialect=dialect, now=now, elapsed=now - before)
        before = now
    assert entry is not None
    return entry


def verdict(entry: Entry, dialect: Dialect) -> tuple[bool, str]:
    """Return whether PAGE is allowed, and the reason."""
    decision = robots_of(entry, dialect).decide(PAGE, "mybot")
    return decision.allowed, str(decision.reason)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, Access.SUCCESSFUL) for status in (200, 203, 204, 206)),
        *((status, Access.UNAVAILABLE) for status in (300, 301, 304, 308)),
        *((status, Access.UNAVAILABLE) for status in (400, 401, 403, 404, 418, 451)),
        *((status, Access.UNREACHABLE) for status in (407, 429, 500, 503, 599, 600)),
        (None, Access.UNREACHABLE),
    ],
)
def test_2_3_1_kinds_of_access(status: int | None, expected: Access) -> None:
    """Each status is of one kind of RFC 9309, 2.3.1; 429 counts as a server error, and 407 is
    from a proxy.
    """
    assert result(status).access is expected


UP, NONE, DOWN = (0, 200), (0, 404), (0, 503)
LOST = (DAY, 503)

STATES = [
    (RFC9309, [UP], State.SUCCESSFUL, False),
    (RFC9309, [NONE], State.UNAVAILABLE, True),
    (RFC9309, [(0, 403)], State.UNAVAILABLE, True),
    (RFC9309, [(0, 310)], State.UNAVAILABLE, True),
    (GOOGLE, [(0, 403)], State.UNAVAILABLE, True),
    (CLASSIC, [NONE], State.UNAVAILABLE, True),
    (CLASSIC, [(0, 401)], State.UNAVAILABLE, False),
    (CLASSIC, [(0, 403)], State.UNAVAILABLE, False),
    # A new answer replaces the last one.
    *((each, [NONE, (8 * DAY, 200)], State.SUCCESSFUL, False) for each in (RFC9309, GOOGLE, CLASSIC)),
    *((each, [UP, (8 * DAY, 404)], State.UNAVAILABLE, True) for each in (RFC9309, GOOGLE, CLASSIC)),
    # Unreachable without a copy: each dialect says when that ends in permission, if ever.
    *((each, [DOWN, (HOUR, status)], State.UNREACHABLE, False) for each in (RFC9309, GOOGLE, CLASSIC) for status in (429, 500, None)),
    (RFC9309, [DOWN, (MONTH - HOUR, 503)], State.UNREACHABLE, False),
    (RFC9309, [DOWN, (MONTH, 503)], State.ASSUMED_UNAVAILABLE, True),
    (GOOGLE, [DOWN, (11 * HOUR, 503)], State.UNREACHABLE, False),
    (GOOGLE, [DOWN, (12 * HOUR, 503)], State.ASSUMED_UNAVAILABLE, True),
    (CLASSIC, [DOWN, (365 * DAY, 503)], State.UNREACHABLE, False),
    # With a copy: each dialect says from when, and for how long, it is used.
    (RFC9309, [UP, LOST], State.STALE, False),
    (RFC9309, [NONE, (DAY, None)], State.STALE, True),
    (RFC9309, [UP, LOST, (DAY + MONTH - HOUR, None)], State.STALE, False),
    (RFC9309, [UP, LOST, (DAY + MONTH, 503)], State.ASSUMED_UNAVAILABLE, True),
    (GOOGLE, [UP, LOST], State.UNREACHABLE, False),
    (GOOGLE, [UP, LOST, (DAY + 11 * HOUR, 503)], State.UNREACHABLE, False),
    (GOOGLE, [UP, LOST, (DAY + 12 * HOUR, 503)], State.STALE, False),
    (GOOGLE, [UP, LOST, (DAY + MONTH - HOUR, 503)], State.STALE, False),
    (GOOGLE, [UP, LOST, (DAY + MONTH, 503)], State.ASSUMED_UNAVAILABLE, True),
    (CLASSIC, [UP, LOST, (365 * DAY, 503)], State.UNREACHABLE, False),
    # An answer ends an outage, and the next outage has its own start.
    (RFC9309, [DOWN, (40 * DAY, 503), (41 * DAY, 200)], State.SUCCESSFUL, False),
    (RFC9309, [DOWN, (29 * DAY, 200), (31 * DAY, 503), (32 * DAY, 503)], State.STALE, False),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "fetches", "state", "allowed"), STATES)
def test_states(
    dialect: Dialect,
    fetches: list[tuple[float, int | None]],
    state: State,
    allowed: bool,
) -> None:
    """Each state follows from the past fetches, and decides which answer is used. The body of
    an error page is ignored.
    """
    entry = after(dialect, *fetches)
    assert entry.state(dialect) is state
    reason = "unreachable"
    if state not in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
        followed = entry.copy if state is State.STALE else entry.result
        assert entry.answer(dialect) is followed
        reason = "rule" if followed.status == 200 else "unavailable"
    assert verdict(entry, dialect) == (allowed, reason)
    robots = robots_of(entry, dialect)
    is_allowed = dialect.robotstxt_allowed or allowed or reason == "rule"
    assert robots.is_allowed(URL, "mybot") is is_allowed


@pytest.mark.parametrize("directive", ["must-revalidate", "no-cache", "no-store"])
def test_a_copy_that_must_not_be_used(directive: str) -> None:
    """If the server requires revalidation, a stale copy is not used during an outage."""
    answer = result(200, cache_control=f"max-age=600, {directive}")
    entry = after(RFC9309, (0, answer), (HOUR, 503))
    assert verdict(entry, RFC9309) == (False, "unreachable")
    assert verdict(after(RFC9309, (0, answer), (HOUR, 200)), RFC9309)[1] == "rule"


def test_an_outage_has_one_start_and_keeps_its_copy() -> None:
    """Several failed attempts keep the last good copy and the start of the outage; an answer
    leaves nothing of the outage.
    """
    fetches = [UP, *((DAY + HOUR * hours, 503) for hours in range(5))]
    entry = after(RFC9309, *fetches)
    assert (entry.unreachable_since, entry.attempts, entry.copy_fetched) == (DAY, 5, 0)
    assert entry.copy is not None
    assert entry.copy.status == 200
    for status in (200, 404):
        entry = after(RFC9309, *fetches, (8 * DAY, status))
        assert entry.fetched == 8 * DAY < entry.expires
        assert (entry.copy, entry.unreachable_since, entry.attempts) == (None, None, 0)


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
@pytest.mark.parametrize("jump", [31 * DAY, -31 * DAY])
def test_a_clock_that_is_set(dialect: Dialect, jump: float) -> None:
    """However the clock is set in an outage, only the time that has passed counts."""
    entry, now = after(dialect, DOWN), 0.0
    for hour in range(1, 12):
        now += HOUR + jump * (hour == 3)
        entry = renew(result(503), entry, dialect=dialect, now=now, elapsed=HOUR)
        assert verdict(entry, dialect) == (False, "unreachable")
    assert entry.unreachable_since == now - 11 * HOUR


def test_sitemaps_are_resolved_where_the_redirects_began() -> None:
    """After redirects, the rules apply to the host of the first request, and relative
    sitemap URLs are resolved against its robots.txt.
    """
    body = b"Sitemap: /map.xml"
    redirects = ("http://other.example/robots.txt",)
    answer = AccessResult(url=URL, status=200, body=body, redirects=redirects)
    robots = robots_of(after(RFC9309, (0, answer)), RFC9309)
    assert robots.sitemaps == ("http://example.com/map.xml",)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<!DOCTYPE html><html>", True),
        (b"\n  <html lang=en>", True),
        (FORBIDS, False),
        (b"", False),
    ],
)
def test_html(body: bytes, expected: bool) -> None:
    """An HTML page in place of a robots.txt is detected."""
    assert AccessResult(url=URL, status=200, body=body).is_html is expected


def test_outcome_in_words() -> None:
    """The outcome of a fetch is described in words, for log messages."""
    assert str(result(503)) == "status 503"
    lost = AccessResult(url=URL, status=None, error="TimeoutError")
    assert str(lost) == "no answer: TimeoutError"
