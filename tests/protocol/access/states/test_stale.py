"""A stale robots.txt is fetched again, and the new result replaces the old one."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE, CLASSIC], ids=name_of)
@pytest.mark.parametrize("status", [200, 404])
def test_a_new_answer_holds_from_its_own_moment(dialect: Dialect, status: int) -> None:
    """A refreshed robots.txt is fresh for its full time, and keeps nothing of the old entry."""
    entry = after(dialect, (START, 200), (DAY * 8, status))
    assert entry.fetched == (DAY * 8).total_seconds()
    assert entry.expires > entry.fetched
    assert (entry.copy, entry.unreachable_since, entry.attempts) == (None, None, 0)
    assert verdict(entry, dialect)[0] is (status == 404)


@pytest.mark.parametrize("directive", ["must-revalidate", "no-cache", "no-store"])
def test_a_copy_that_must_not_be_used(directive: str) -> None:
    """If the server requires revalidation, a stale copy is not used during an outage."""
    answer = result(200, cache_control=f"max-age=600, {directive}")
    entry = after(RFC9309, (START, answer), (HOUR, 503))
    assert verdict(entry, RFC9309) == (False, "unreachable")
    assert verdict(after(RFC9309, (START, answer), (HOUR, 200)), RFC9309)[1] == "rule"
