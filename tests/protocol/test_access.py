"""Tests of the cache entry of a robots.txt: which rules a crawler follows after several fetches, for
how long the entry is fresh, and when a failed fetch is repeated.
"""

from __future__ import annotations

import math
import time
from email.utils import formatdate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_rep.protocol.access.entries import CacheEntry, State, renew
from scrapy_rep.protocol.access.freshness import DAY, lifetime, pause_asked, retry_delay
from scrapy_rep.protocol.access.results import Access, AccessResult
from scrapy_rep.protocol.access.site_rules import robots_of
from scrapy_rep.protocol.dialect import CLASSIC, DIALECTS, GOOGLE, RFC9309, Dialect

URL = "http://example.com/robots.txt"
PAGE = "http://example.com/page"
FORBIDS = b"User-agent: *\nDisallow: /page\n"
HOUR, MONTH = 3600.0, 30 * DAY
NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
LONGEST_PAUSE = 2.0**31


def result(status: int | None, **headers: str) -> AccessResult:
    """Return a fetch result. Its body has a rule that forbids PAGE."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return AccessResult(url=URL, status=status, headers=pairs, body=FORBIDS)


def entry_after(
    dialect: Dialect, *fetches: tuple[float, AccessResult | int | None]
) -> CacheEntry:
    """Return the cache entry after these fetches: pairs of the time and the result or its status."""
    entry, previous = None, 0.0
    for now, fetched in fetches:
        if not isinstance(fetched, AccessResult):
            fetched = result(fetched)
        entry = renew(fetched, entry, dialect=dialect, now=now, elapsed=now - previous)
        previous = now
    assert entry is not None
    return entry


def verdict(entry: CacheEntry, dialect: Dialect) -> tuple[bool, str]:
    """Return whether PAGE is allowed, and the reason."""
    decision = robots_of(entry, dialect).decide(PAGE, "mybot")
    return decision.allowed, str(decision.reason)


def date(seconds: float) -> str:
    """Return the HTTP-date that is *seconds* after NOW."""
    return formatdate(NOW + seconds, usegmt=True)


# State of an entry


@pytest.mark.parametrize(
    ("access", "statuses"),
    [
        (Access.SUCCESSFUL, (200, 203, 204, 206)),
        (Access.UNAVAILABLE, (300, 301, 304, 308, 400, 401, 403, 404, 418, 451)),
        (Access.UNREACHABLE, (407, 429, 500, 503, 599, 600, None)),
    ],
)
def test_the_status_decides_the_kind_of_result(access: Access, statuses: tuple) -> None:
    """The kinds are those of RFC 9309, 2.3.1. Besides, 429 counts as a server error, and 407 as
    unreachable, because a proxy sends it.
    """
    assert {status: result(status).access for status in statuses} == dict.fromkeys(
        statuses, access
    )


# Fetches: the time and the status.
UP, NO_FILE, DOWN = (0, 200), (0, 404), (0, 503)
DOWN_AFTER_A_DAY = (DAY, 503)

STATES = [
    (RFC9309, [(0, 310)], State.UNAVAILABLE, True),
    (RFC9309, [(0, 403)], State.UNAVAILABLE, True),
    (CLASSIC, [(0, 401)], State.UNAVAILABLE, False),
    (CLASSIC, [(0, 403)], State.UNAVAILABLE, False),
    # A successful or unavailable result replaces the previous result.
    *((dialect, [NO_FILE, (8 * DAY, 200)], State.SUCCESSFUL, False) for dialect in DIALECTS.values()),
    *((dialect, [UP, (8 * DAY, 404)], State.UNAVAILABLE, True) for dialect in DIALECTS.values()),
    # Unreachable, and no copy: each dialect says after what time everything is allowed, if ever.
    *((dialect, [DOWN, (HOUR, status)], State.UNREACHABLE, False) for dialect in DIALECTS.values() for status in (429, None)),
    (RFC9309, [DOWN, (MONTH - HOUR, 503)], State.UNREACHABLE, False),
    (RFC9309, [DOWN, (MONTH, 503)], State.ASSUMED_UNAVAILABLE, True),
    (GOOGLE, [DOWN, (11 * HOUR, 503)], State.UNREACHABLE, False),
    (GOOGLE, [DOWN, (12 * HOUR, 503)], State.ASSUMED_UNAVAILABLE, True),
    (CLASSIC, [DOWN, (365 * DAY, 503)], State.UNREACHABLE, False),
    # Unreachable, with a copy: each dialect says from when, and for how long, the copy is used.
    (RFC9309, [UP, DOWN_AFTER_A_DAY], State.STALE, False),
    (RFC9309, [NO_FILE, (DAY, None)], State.STALE, True),
    (RFC9309, [UP, DOWN_AFTER_A_DAY, (DAY + MONTH - HOUR, None)], State.STALE, False),
    (RFC9309, [UP, DOWN_AFTER_A_DAY, (DAY + MONTH, 503)], State.ASSUMED_UNAVAILABLE, True),
    (GOOGLE, [UP, DOWN_AFTER_A_DAY, (DAY + 11 * HOUR, 503)], State.UNREACHABLE, False),
    (GOOGLE, [UP, DOWN_AFTER_A_DAY, (DAY + 12 * HOUR, 503)], State.STALE, False),
    (GOOGLE, [UP, DOWN_AFTER_A_DAY, (DAY + MONTH - HOUR, 503)], State.STALE, False),
    (GOOGLE, [UP, DOWN_AFTER_A_DAY, (DAY + MONTH, 503)], State.ASSUMED_UNAVAILABLE, True),
    (CLASSIC, [UP, DOWN_AFTER_A_DAY, (365 * DAY, 503)], State.UNREACHABLE, False),
    # A successful result ends an outage, and the next outage has its own start.
    (RFC9309, [DOWN, (40 * DAY, 503), (41 * DAY, 200)], State.SUCCESSFUL, False),
    (RFC9309, [DOWN, (29 * DAY, 200), (31 * DAY, 503), (32 * DAY, 503)], State.STALE, False),
    # In an outage, a copy that must be revalidated is not used.
    *((RFC9309, [(0, result(200, cache_control=f"max-age=600, {directive}")), (HOUR, 503)], State.UNREACHABLE, False)
      for directive in ("must-revalidate", "no-cache", "no-store")),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "fetches", "state", "allowed"), STATES)
def test_past_fetches_decide_the_state_and_the_rules_followed(
    dialect: Dialect, fetches: list, state: State, allowed: bool
) -> None:
    """The body of an error page is ignored, although it has a rule here."""
    entry = entry_after(dialect, *fetches)
    assert entry.state(dialect) is state
    reason = "unreachable"
    if state not in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
        followed = entry.copy if state is State.STALE else entry.result
        assert entry.answer(dialect) is followed
        reason = "rule" if followed.status == 200 else "unavailable"
    assert verdict(entry, dialect) == (allowed, reason)
    is_allowed = dialect.robotstxt_allowed or allowed or reason == "rule"
    assert robots_of(entry, dialect).is_allowed(URL, "mybot") is is_allowed


def test_an_outage_keeps_its_start_and_the_last_copy() -> None:
    """Failed attempts keep the last good copy and the start of the outage. A successful or
    unavailable result clears both.
    """
    fetches = [UP, *((DAY + HOUR * hours, 503) for hours in range(5))]
    entry = entry_after(RFC9309, *fetches)
    assert (entry.unreachable_since, entry.attempts, entry.copy_fetched) == (DAY, 5, 0)
    assert entry.copy.status == 200
    for status in (200, 404):
        entry = entry_after(RFC9309, *fetches, (8 * DAY, status))
        assert entry.fetched == 8 * DAY < entry.expires
        assert (entry.copy, entry.unreachable_since, entry.attempts) == (None, None, 0)


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
@pytest.mark.parametrize("jump", [31 * DAY, -31 * DAY])
def test_setting_the_clock_does_not_change_an_outage(
    dialect: Dialect, jump: float
) -> None:
    """The duration of an outage is the time that has really passed, even if the system clock is set forward or back
    during the outage.
    """
    entry, now = entry_after(dialect, DOWN), 0.0
    for hour in range(1, 12):
        now += HOUR + jump * (hour == 3)
        entry = renew(result(503), entry, dialect=dialect, now=now, elapsed=HOUR)
        assert verdict(entry, dialect) == (False, "unreachable")
    assert entry.unreachable_since == now - 11 * HOUR


def test_sitemaps_are_resolved_against_the_url_before_redirects() -> None:
    redirects = ("http://other.example/robots.txt",)
    fetched = AccessResult(
        url=URL, status=200, body=b"Sitemap: /map.xml", redirects=redirects
    )
    robots = robots_of(entry_after(RFC9309, (0, fetched)), RFC9309)
    assert robots.sitemaps == ("http://example.com/map.xml",)


def test_a_result_detects_html_and_describes_its_outcome() -> None:
    bodies = {b"<!DOCTYPE html><html>": True, b"\n  <html lang=en>": True}
    for body, is_html in {**bodies, FORBIDS: False, b"": False}.items():
        assert AccessResult(url=URL, status=200, body=body).is_html is is_html
    assert str(result(503)) == "status 503"
    timed_out = AccessResult(url=URL, status=None, error="TimeoutError")
    assert str(timed_out) == "no answer: TimeoutError"


# Freshness


@pytest.mark.parametrize(
    ("dialect", "headers", "seconds"),
    [
        (RFC9309, {}, DAY), (GOOGLE, {}, DAY), (CLASSIC, {}, 7 * DAY),
        (RFC9309, {"cache_control": "Max-Age = 600 , public"}, 600),
        (RFC9309, {"cache_control": 'max-age="600"'}, 600),
        (RFC9309, {"cache_control": "max-age=600, max-age=60"}, 600),
        (RFC9309, {"cache_control": "max-age=600, s-maxage=60"}, 60),
        (RFC9309, {"cache_control": "max-age=600", "age": "100"}, 500),
        (RFC9309, {"cache_control": "max-age=600", "age": "1000"}, 0),
        (RFC9309, {"cache_control": "max-age=600", "age": "soon"}, 600),
        (RFC9309, {"cache_control": "max-age=600", "expires": date(60)}, 600),
        (RFC9309, {"cache_control": "max-age=-5"}, DAY),
        (RFC9309, {"cache_control": "max-age"}, DAY),
        (RFC9309, {"cache_control": "no-store, max-age=600"}, 0),
        (RFC9309, {"cache_control": "no-cache"}, 0),
        (RFC9309, {"cache_control": "must-revalidate"}, DAY),
        (RFC9309, {"cache_control": ",,; =, \x00"}, DAY),
        (RFC9309, {"expires": date(3600)}, 3600),
        (RFC9309, {"expires": date(3600), "date": date(600)}, 3000),
        (RFC9309, {"expires": date(-3600)}, 0), (RFC9309, {"expires": "0"}, 0),
        (RFC9309, {"expires": "Thu, 99 Jan 2999 99:99:99 GMT"}, 0),
        (GOOGLE, {"cache_control": "max-age=864000"}, 10 * DAY),
        (GOOGLE, {"cache_control": "s-maxage=60"}, DAY),
        (GOOGLE, {"cache_control": "no-store"}, DAY), (GOOGLE, {"expires": date(60)}, DAY),
        (CLASSIC, {"expires": date(3600)}, 3600),
        (CLASSIC, {"cache_control": "max-age=600"}, 7 * DAY),
    ],
)  # fmt: skip
def test_cache_directives_decide_how_long_robots_txt_is_fresh(
    dialect: Dialect, headers: dict[str, str], seconds: float
) -> None:
    """In RFC 9309's dialect, all cache directives of RFC 9111 count, as the RFC allows. In Google's
    dialect, only max-age counts. In the classic dialect, only Expires counts, as in the draft of 1996.
    """
    fetched = result(200, **headers)
    assert lifetime(fetched.headers, dialect, NOW, min_age=0, max_age=1e9) == seconds
    entry = renew(fetched, None, dialect=dialect, now=NOW)
    if seconds in {DAY, 7 * DAY}:
        assert entry.expires == NOW + seconds
        assert entry.is_fresh(NOW + seconds - 1)
        assert not entry.is_fresh(NOW + seconds)


def test_freshness_has_a_minimum_and_a_maximum() -> None:
    """A robots.txt is fresh for at least five minutes. The maximum is a day in RFC 9309's dialect, and a month in the
    other dialects. *min_age* and *max_age* can reduce the minimum.
    """
    soon = result(200, cache_control="max-age=0", expires="0").headers
    late = result(
        200, cache_control="max-age=99999999999", expires=date(400 * DAY)
    ).headers
    for dialect in DIALECTS.values():
        assert lifetime(soon, dialect, NOW) == 300
        assert lifetime(soon, dialect, NOW, min_age=7) == 7
        assert lifetime(soon, dialect, NOW, max_age=5) == 5
        ceiling = DAY if dialect is RFC9309 else MONTH
        assert lifetime(late, dialect, NOW) == ceiling


# ``Retry-After`` (RFC 9110, 10.2.3)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (" 120 ", 120), ("0", 0), ("007", 7), ("1.5", 1.5), ("2147483647", LONGEST_PAUSE - 1),
        ("99999999999", LONGEST_PAUSE), ("9" * 10_000, LONGEST_PAUSE), (date(-1), 0),
        ("Tue, 14 Nov 1023 22:13:30 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_PAUSE),
        # These values are ignored. A valid value is a date, or a number without a sign, such as 120 or 1.5.
        *((value, None) for value in (
            "", "soon", "-5", "+5", "1e3", "0x10", ".5", "5.", "nan", "inf", "5 seconds",
            "5;comment", "120, 240", "١٢", "2023-11-14T22:13:30Z", "\0",
            "Tue, 99 Nov 2023 22:13:30 GMT", "Tue, 14 Nov 2023 22:13:30 +99999999999",
        )),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str, seconds: float | None) -> None:
    """A date in the past means no pause. A pause of more than 2**31 seconds (68 years) is cut to 2**31 seconds."""
    assert pause_asked([("retry-after", value)], NOW) == seconds
    assert pause_asked([], NOW) is None


def test_the_longest_of_several_retry_after_fields_counts() -> None:
    values = ("3", date(120), "soon", "0")
    assert pause_asked([("retry-after", value) for value in values], NOW) == 120


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_dates_are_in_utc(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All forms of HTTP-date are in UTC, in any time zone of the crawler."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for value in (
            "Tue, 14 Nov 2023 22:13:30 GMT", "Tuesday, 14-Nov-23 22:13:30 GMT",
            "Tue Nov 14 22:13:30 2023", "Tue, 14 Nov 2023 22:13:30 -0000",
            "Tue, 14 Nov 2023 23:13:30 +0100",
        ):  # fmt: skip
            assert pause_asked([("retry-after", value)], NOW) == 10
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("until", "date", "seconds"),
    [
        *((date(hours * HOUR + 30), date(hours * HOUR), 30) for hours in (-5000, 1, 5000)),
        ("20", date(HOUR), 20),
        (formatdate(5, usegmt=True), formatdate(0, usegmt=True), 5),
        # Without a valid Date, the time of arrival of the response counts.
        *((date(30), wrong, 30) for wrong in ("", "soon", "Tue, 99 Nov 2023 22:13:20 GMT")),
    ],
)  # fmt: skip
def test_a_retry_after_date_is_relative_to_the_date_of_the_response(
    until: str, date: str, seconds: float
) -> None:
    """The clock of the server may be wrong, so the pause is the difference to its ``Date`` header."""
    assert pause_asked([("retry-after", until), ("date", date)], NOW) == seconds


DATES = st.builds(
    "{}, {} {} {} {}:{}:{} {}".format,
    st.sampled_from(["Tue", "Tuesday", "", "x"]),
    *[st.integers(-(10**20), 10**20) | st.integers(0, 60)] * 2,
    st.integers(0, 10**20) | st.integers(1960, 2040),
    *[st.integers(-1, 10**6) | st.integers(0, 60)] * 3,
    st.sampled_from(["GMT", "EST", "+0000", "-9999", "+99999999", ""]),
)
VALUES = st.text() | st.text("0123456789 .,:-+GMTNov") | DATES


@given(VALUES, VALUES, st.floats(0, 1e11))
@example("Tue, 14 Nov 0001 00:00:00 +1400", "", 0)
@example("Fri, 31 Dec 9999 23:59:59 -2359", "", 0)
def test_any_retry_after_is_ignored_or_gives_a_valid_pause(
    value: str, date: str, now: float
) -> None:
    """No value raises an exception, and a timer can use the result."""
    headers = [("retry-after", value), ("date", date)]
    pause = pause_asked(headers, now)
    assert pause is None or (math.isfinite(pause) and 0 <= pause <= LONGEST_PAUSE)
    assert 1 <= retry_delay(headers, 1, 0.0, now) <= DAY


def test_the_delay_of_a_retry_doubles_up_to_an_hour() -> None:
    """Without Retry-After, the delay is 30 seconds after the first failed attempt, and doubles with each further
    attempt. Jitter makes it up to 1.5 times as long, so that hosts that failed at the same time are not retried at the
    same time.

    With Retry-After, the delay is as the server asks, but at most a day. The minimum delay is 1 second after the first
    failed attempt, 2 seconds after the second, 4 seconds after the third, and so on up to an hour.
    """
    delay_by_value = {"120": 120, "0": 1, "9999999999": DAY, "soon": 30, "": 30}
    for value, seconds in {**delay_by_value, date(600): 600, date(-9): 1}.items():
        entry = renew(result(503, retry_after=value), None, dialect=RFC9309, now=NOW)
        assert entry.expires == NOW + seconds
    for value, delays in {"0": [1, 2, 4, 8], "3": [3, 3, 4, 8], "60": [60] * 4}.items():
        headers = [("retry-after", value)]
        assert [retry_delay(headers, n, 1.0, 0) for n in (1, 2, 3, 4)] == delays
    assert retry_delay([("retry-after", "0")], 10**9, 0.0, 0) == 3600
    delays = [retry_delay((), attempts, 0.0, 0) for attempts in (1, 2, 3, 4, 11)]
    assert delays == [30, 60, 120, 240, 3600]
    assert retry_delay((), 10**9, 1.0, 0) == 3600 * 1.5
    delays_with_jitter = [retry_delay((), 3, jitter / 4, 0) for jitter in range(5)]
    assert delays_with_jitter == [120, 135, 150, 165, 180]
    entry = entry_after(RFC9309, (0, 503), (40 * DAY, 503))
    assert entry.expires - entry.fetched == 60
