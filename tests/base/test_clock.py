"""Alarms: functions that are called once at a given moment, with one timer for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.base.clock import Alarms
from tests.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clock import Timer

pytestmark = pytest.mark.newest


def test_alarms_go_off_in_the_order_of_their_moments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Alarms go off in the order of their moments, equal ones in the order in which they were set,
    and one in the past at once; also after one that fails, whose error is logged. There is one timer
    at a time, and none after ``stop``.
    """
    clock, rung = FakeClock(), list[str]()
    them, now = Alarms(clock), clock.monotonic()
    for seconds, name in [(5, "d"), (3, "b"), (3, "c"), (-1, "a"), (8, "e")]:
        them.at(now + seconds, rung.index, "nothing")
        them.at(now + seconds, rung.append, name)
        assert clock.timers == 1
    assert not rung
    for seconds, expected in [(0, "a"), (2.9, "a"), (0.1, "abc"), (2, "abcd")]:
        clock.advance(seconds)
        assert "".join(rung) == expected
    assert "ValueError" in caplog.text
    for _ in range(2):
        them.stop()
    assert clock.timers == 0
    clock.advance(99)
    assert len(rung) == 4


class EarlyClock(FakeClock):
    """A clock whose timers go off half a millisecond early, as those of event loops do."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        return super().call_later(max(seconds - 0.0005, 0.000_01), function)


def test_no_alarm_goes_off_early() -> None:
    """No alarm goes off before its moment, even if the timer is early or another alarm is due just
    before. One that sets another for the same moment causes no endless loop.
    """
    clock = EarlyClock()
    them, late, now = Alarms(clock), list[float](), clock.monotonic()

    def ring(moment: float) -> None:
        late.append(clock.monotonic() - moment)
        if len(late) > 10:
            assert clock.timers == 0
        elif len(late) == 10:
            them.at(clock.monotonic(), ring, clock.monotonic())

    for number in range(10):
        moment = now + 1 + number * 0.0004
        them.at(moment, ring, moment)
    clock.advance(2)
    assert len(late) == 11
    assert 0 <= min(late) <= max(late) < 0.001
