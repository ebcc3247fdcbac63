"""``Retry-After``: how long a site asks crawlers to wait (RFC 9110, 10.2.3)."""

from __future__ import annotations

import math
import time
from email.utils import formatdate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_rep.protocol.access.freshness import pause_asked, retry_delay
from scrapy_rep.protocol.access.results import renew
from scrapy_rep.protocol.dialect import RFC9309
from tests.protocol.access.test_states import after, result

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT
LONGEST = 2.0**31


def asked(value: str, **headers: str) -> float | None:
    return pause_asked([("retry-after", value), *headers.items()], NOW)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2),
        (" 120 ", 120),
        ("0", 0),
        ("007", 7),
        ("86400", 86_400),
        ("1.5", 1.5),
        ("2147483647", LONGEST - 1),
        ("99999999999", LONGEST),
        ("9" * 10_000, LONGEST),
    ],
)
def test_seconds(value: str, seconds: float) -> None:
    """A number is the seconds to wait. A number that is too long for a clock counts as 68
    years, rather than as nothing.
    """
    assert asked(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "Tue, 14 Nov 2023 22:13:30 GMT", "Tuesday, 14-Nov-23 22:13:30 GMT",
        "Tue Nov 14 22:13:30 2023", "Tue, 14 Nov 2023 22:13:30 -0000",
        "Tue, 14 Nov 2023 23:13:30 +0100",
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_a_date(value: str, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three forms of HTTP-date are in UTC, whatever the time zone of the crawler."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert asked(value) == 10
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("hours", [-5000, -1, 0, 1, 5000])
def test_the_clock_of_the_server(hours: int) -> None:
    """A date is counted from the ``Date`` of the response, however wrong the server's clock."""
    there = NOW + hours * 3600
    date, until = formatdate(there, usegmt=True), formatdate(there + 30, usegmt=True)
    assert asked(until, date=date) == 30
    assert asked("20", date=date) == 20


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Nov 2023 22:13:20 GMT"])
def test_no_date_of_the_response(date: str) -> None:
    """If the response has no valid ``Date``, a date is counted from when the response came."""
    assert asked(formatdate(NOW + 30, usegmt=True), date=date) == 30


def test_a_date_at_the_beginning_of_time() -> None:
    """A ``Date`` of 1970 is a date, not a missing one."""
    first = formatdate(0, usegmt=True)
    assert asked(formatdate(5, usegmt=True), date=first) == 5


def test_a_date_in_the_past() -> None:
    """A date in the past asks for no pause; it is not the same as no ``Retry-After``."""
    assert asked(formatdate(NOW - 1, usegmt=True)) == 0
    assert asked("Tue, 14 Nov 1023 22:13:30 GMT") == 0


def test_a_date_that_is_too_far_away() -> None:
    assert asked("Fri, 31 Dec 9999 23:59:59 GMT") == LONGEST


@pytest.mark.parametrize(
    "value",
    [
        "", "soon", "-5", "+5", "1e3", "0x10", ".5", "5.", "nan", "inf", "5 seconds",
        "5;comment", "120, 240", "١٢", "2023-11-14T22:13:30Z",
        "Tue, 99 Nov 2023 22:13:30 GMT", "Tue, 14 Nov 2023 22:13:30 +99999999999",
        "\0",
    ],
)  # fmt: skip
def test_nonsense(value: str) -> None:
    """What is neither a number of seconds nor a date counts as no ``Retry-After``; so does a
    negative number.
    """
    assert asked(value) is None
    assert pause_asked([], NOW) is None


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
def test_whatever_a_server_sends(value: str, date: str, now: float) -> None:
    """No value raises, and the result is usable for a timer."""
    headers = [("retry-after", value), ("date", date)]
    found = pause_asked(headers, now)
    assert found is None or (math.isfinite(found) and 0 <= found <= LONGEST)
    assert 1 <= retry_delay(headers, 1, 0.0, now) <= 86_400


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120), ("0", 1), ("9999999999", 24 * 3600), ("soon", 30), ("", 30),
        (formatdate(NOW + 600, usegmt=True), 600), (formatdate(NOW - 9, usegmt=True), 1),
    ],
)  # fmt: skip
def test_when_robots_txt_is_fetched_again(value: str, seconds: float) -> None:
    """Retry-After is respected between a second and a day; without it, there is a back-off."""
    failed = result(503, retry_after=value)
    assert retry_delay(failed.headers, 1, 0.0, NOW) == seconds
    entry = renew(failed, None, dialect=RFC9309, now=NOW)
    assert entry.expires == NOW + seconds


def test_back_off() -> None:
    """The back-off doubles with each attempt, up to an hour. Jitter spreads the retries of hosts
    that failed at the same moment.
    """
    delays = [retry_delay((), attempts, 0.0, 0) for attempts in (1, 2, 3, 4, 11)]
    assert delays == [30, 60, 120, 240, 3600]
    assert retry_delay((), 10**9, 1.0, 0) == 3600 * 1.5
    assert [retry_delay((), 3, jitter / 4, 0) for jitter in range(5)] == [
        120, 135, 150, 165, 180,
    ]  # fmt: skip
    entry = after(RFC9309, (0, 503), (40 * 86_400, 503))
    assert entry.expires - entry.fetched == 60
