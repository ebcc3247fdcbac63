"""The state of a cache entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.access.results import Access, State, robots_of
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from tests.protocol.access.states.moments import DAY, HOUR, START, after, name_of

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

MONTH = 30 * DAY


@pytest.mark.parametrize(
    ("dialect", "steps", "state"),
    [
        (RFC9309, [(START, 200)], State.SUCCESSFUL),
        (RFC9309, [(START, 404)], State.UNAVAILABLE),
        (CLASSIC, [(START, 401)], State.UNAVAILABLE),
        (RFC9309, [(START, 503)], State.UNREACHABLE),
        (RFC9309, [(START, 503), (START + MONTH, 503)], State.ASSUMED_UNAVAILABLE),
        (CLASSIC, [(START, 503), (START + MONTH, 503)], State.UNREACHABLE),
        (RFC9309, [(START, 200), (DAY, 503)], State.STALE),
        (RFC9309, [(START, 404), (DAY, None)], State.STALE),
        (GOOGLE, [(START, 200), (DAY, 503)], State.UNREACHABLE),
        (GOOGLE, [(START, 200), (DAY, 503), (DAY + 12 * HOUR, 503)], State.STALE),
        (RFC9309, [(START, 200), (DAY, 503), (DAY + MONTH, 503)], State.ASSUMED_UNAVAILABLE),
        (RFC9309, [(START, 200), (DAY, 503), (2 * DAY, 200)], State.SUCCESSFUL),
    ],
    ids=name_of,
)  # fmt: skip
def test_states(dialect: Dialect, steps: list, state: State) -> None:
    """Each state follows from the past fetches, and decides which answer is used."""
    entry = after(dialect, *steps)
    assert entry.state(dialect) is state
    answer = entry.answer(dialect)
    if state in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
        assert answer is None
    else:
        assert answer is (entry.copy if state is State.STALE else entry.result)
        assert answer.access is not Access.UNREACHABLE
    if state in {State.UNREACHABLE, State.ASSUMED_UNAVAILABLE}:
        allowed = robots_of(entry, dialect).is_allowed("http://example.com/", "mybot")
        assert allowed is (state is State.ASSUMED_UNAVAILABLE)
