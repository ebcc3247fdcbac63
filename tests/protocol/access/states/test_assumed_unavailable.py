"""An outage that lasts too long ends in permission, in the dialects that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.access.results import renew
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from tests.protocol.access.states.moments import (
    DAY,
    HOUR,
    START,
    after,
    name_of,
    result,
    verdict,
)

if TYPE_CHECKING:
    from datetime import timedelta


@pytest.mark.parametrize(
    ("dialect", "outage", "allowed"),
    [
        (RFC9309, DAY * 30 - HOUR, False),
        (RFC9309, DAY * 30, True),
        (GOOGLE, 11 * HOUR, False),
        (GOOGLE, 12 * HOUR, True),
        (CLASSIC, DAY * 365, False),
    ],
)
def test_without_a_copy(dialect: Dialect, outage: timedelta, allowed: bool) -> None:
    """Without a cached copy, each dialect says when an outage ends in permission, if ever."""
    entry = after(dialect, (START, 503), (outage, 503))
    assert verdict(entry, dialect) == (allowed, "unreachable")


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=name_of)
def test_with_a_copy(dialect: Dialect) -> None:
    """After thirty days the cached copy is no longer used, and everything is allowed."""
    entry = after(dialect, (START, 200), (DAY, 503), (DAY * 31, 503))
    assert verdict(entry, dialect) == (True, "unreachable")
    before = after(dialect, (START, 200), (DAY, 503), (DAY * 31 - HOUR, 503))
    assert verdict(before, dialect) == (False, "rule")


def test_it_is_still_asked_for() -> None:
    """After permission too, robots.txt is still fetched, and used once it is reachable again."""
    entry = after(RFC9309, (START, 503), (DAY * 40, 503))
    assert entry.expires - entry.fetched <= 5400
    entry = after(RFC9309, (START, 503), (DAY * 40, 503), (DAY * 41, 200))
    assert verdict(entry, RFC9309) == (False, "rule")


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=name_of)
@pytest.mark.parametrize("jump", [31 * DAY, -31 * DAY])
def test_a_clock_that_is_set(dialect: Dialect, jump: timedelta) -> None:
    """However the clock is set in an outage, only the time that has passed counts."""
    entry, now = after(dialect, (START, 503)), 0.0
    for hour in range(1, 12):
        now += 3600.0 + jump.total_seconds() * (hour == 3)
        entry = renew(result(503), entry, dialect=dialect, now=now, elapsed=3600.0)
        assert verdict(entry, dialect) == (False, "unreachable")
    assert entry.unreachable_since == now - 11 * 3600.0
