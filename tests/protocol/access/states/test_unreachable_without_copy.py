"""Unreachable without a cached copy: nothing may be fetched, and the fetch is retried."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from scrapy_rep.protocol.access.freshness import retry_delay
from scrapy_rep.protocol.access.results import renew, robots_of
from scrapy_rep.protocol.dialect import RFC9309, Dialect
from tests.protocol.access.states.moments import (
    ALL,
    HOUR,
    START,
    URL,
    after,
    name_of,
    result,
    verdict,
)


@pytest.mark.parametrize("dialect", ALL, ids=name_of)
@pytest.mark.parametrize("status", [429, 500, 503, None])
def test_nothing_is_allowed(dialect: Dialect, status: int | None) -> None:
    """A server error, or no response, forbids everything but robots.txt itself."""
    entry = after(dialect, (START, status), (HOUR, status))
    assert verdict(entry, dialect) == (False, "unreachable")
    robots = robots_of(entry, dialect)
    assert robots.is_allowed(URL, "mybot") is dialect.robotstxt_allowed


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("3", 3),
        ("0", 1),
        ("9999999999", 24 * 3600),
        (formatdate(1_700_000_600, usegmt=True), 600),
        (formatdate(1_600_000_000, usegmt=True), 1),
        ("Fri, 99 Dec 9999 99:99:99 GMT", 30),
        ("soon", 30),
        ("-5", 30),
        ("", 30),
    ],
)
def test_retry_after(value: str, seconds: float) -> None:
    """Retry-After in seconds or as a date is respected, between a second and a day."""
    headers = result(503, retry_after=value).headers
    assert retry_delay(headers, 1, 0.0, 1_700_000_000) == seconds
    entry = renew(result(503, retry_after=value), None, dialect=RFC9309, now=1.7e9)
    assert entry.expires == 1.7e9 + seconds


def test_back_off() -> None:
    """The back-off doubles with each attempt, up to an hour."""
    delays = [retry_delay((), attempts, 0.0, 0) for attempts in range(1, 12)]
    assert delays[:4] == [30, 60, 120, 240]
    assert delays[-1] == 3600
    assert retry_delay((), 10**9, 1.0, 0) <= 3600 * 1.5


def test_jitter() -> None:
    """Jitter spreads the retries of hosts that failed at the same moment."""
    delays = [retry_delay((), 3, jitter / 10, 0) for jitter in range(11)]
    assert delays[0] == 120
    assert delays[-1] == 180
    assert len(set(delays)) == 11
