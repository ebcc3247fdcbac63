"""Unreachable with a cached copy: each dialect says how long the copy is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.access.results import State
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from tests.protocol.access.states.moments import DAY, HOUR, START, after, verdict

if TYPE_CHECKING:
    from datetime import timedelta

LOST = 25 * HOUR


@pytest.mark.parametrize(
    ("dialect", "outage", "expected"),
    [
        (RFC9309, START, (False, "rule")),
        (RFC9309, DAY * 30 - HOUR, (False, "rule")),
        (GOOGLE, START, (False, "unreachable")),
        (GOOGLE, 11 * HOUR, (False, "unreachable")),
        (GOOGLE, 12 * HOUR, (False, "rule")),
        (GOOGLE, DAY * 30 - HOUR, (False, "rule")),
        (CLASSIC, START, (False, "unreachable")),
        (CLASSIC, DAY * 365, (False, "unreachable")),
    ],
)
def test_for_as_long_as_the_outage(
    dialect: Dialect, outage: timedelta, expected: tuple[bool, str]
) -> None:
    """The length of the outage decides whether the copy is used or everything is forbidden."""
    entry = after(dialect, (START, 200), (LOST, 503), (LOST + outage, None))
    assert verdict(entry, dialect) == expected
    held = entry.copy if entry.state(dialect) is State.STALE else None
    assert held is (entry.copy if expected[1] == "rule" else None)
    assert entry.copy_fetched == START.total_seconds()


def test_that_there_was_none_is_a_copy_too() -> None:
    """A host without a robots.txt before the outage still allows everything during it."""
    entry = after(RFC9309, (START, 404), (LOST, 503))
    assert verdict(entry, RFC9309) == (True, "unavailable")


def test_the_copy_outlives_several_attempts() -> None:
    """Several failed attempts keep the last good copy and the start of the outage."""
    steps = [(LOST + HOUR * hours, 503) for hours in range(5)]
    entry = after(RFC9309, (START, 200), *steps)
    assert entry.unreachable_since == LOST.total_seconds()
    assert entry.attempts == 5
    assert entry.copy is not None
    assert entry.copy.status == 200
    assert verdict(entry, RFC9309) == (False, "rule")


def test_an_outage_ends() -> None:
    """A reachable robots.txt ends an outage; the next outage has its own start."""
    entry = after(
        RFC9309,
        (START, 503),
        (DAY * 29, 200),
        (DAY * 31, 503),
        (DAY * 32, 503),
    )
    assert verdict(entry, RFC9309) == (False, "rule")
    assert entry.unreachable_since == (DAY * 31).total_seconds()
    assert entry.attempts == 2
