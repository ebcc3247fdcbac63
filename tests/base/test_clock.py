"""Tests of :class:`Alarms`, which calls functions at given times and uses one timer for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.base.clock import Alarms
from tests.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clock import Timer

pytestmark = pytest.mark.newest


def test_alarms_go_off_in_the_order_of_their_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Alarms of the same time go off in the order in which they were set. An alarm in the past goes off immediately. If
    the function of an alarm raises an exception, it is logged, and later alarms still go off. There is only one timer
    at a time, and none after ``stop``.
    """
    clock, calls = FakeClock(), list[str]()
    alarms, now = Alarms(clock), clock.monotonic()
    for seconds, name in [(5, "d"), (3, "b"), (3, "c"), (-1, "a"), (8, "e")]:
        alarms.at(now + seconds, calls.index, "nothing")
        alarms.at(now + seconds, calls.append, name)
        assert clock.timers == 1
    assert not calls
    for seconds, expected in [(0, "a"), (2.9, "a"), (0.1, "abc"), (2, "abcd")]:
        clock.advance(seconds)
        assert "".join(calls) == expected
    assert "ValueError" in caplog.text
    for _ in range(2):
        alarms.stop()
    assert clock.timers == 0
    clock.advance(99)
    assert len(calls) == 4


class EarlyClock(FakeClock):
    """A clock whose timers go off half a millisecond early, as timers of event loops can do."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        return super().call_later(max(seconds - 0.0005, 0.000_01), function)


def test_no_alarm_goes_off_early() -> None:
    """An alarm waits for its time even if the timer goes off early, or if another alarm is due just before. An alarm
    that sets another alarm for the same time causes no endless loop.
    """
    clock = EarlyClock()
    alarms, delays, now = Alarms(clock), list[float](), clock.monotonic()

    def ring(due_at: float) -> None:
        delays.append(clock.monotonic() - due_at)
        if len(delays) > 10:
            assert clock.timers == 0
        elif len(delays) == 10:
            alarms.at(clock.monotonic(), ring, clock.monotonic())

    for number in range(10):
        due_at = now + 1 + number * 0.0004
        alarms.at(due_at, ring, due_at)
    clock.advance(2)
    assert len(delays) == 11
    assert 0 <= min(delays) <= max(delays) < 0.001
