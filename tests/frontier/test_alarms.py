"""Alarms: functions that are called once at a given moment, with one timer for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scrapy_rep.frontier.clock import Alarms
from tests.frontier.fakes import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.frontier.fakes import Timer

pytestmark = pytest.mark.newest


def alarms() -> tuple[Alarms, FakeClock, list[str]]:
    clock = FakeClock()
    return Alarms(clock), clock, []


def test_in_order() -> None:
    """Alarms go off in the order of their moments, equal ones in the order in which they
    were set. An alarm in the past goes off at once. There is one timer at a time.
    """
    them, clock, rung = alarms()
    now = clock.monotonic()
    for seconds, name in [(5, "d"), (3, "b"), (3, "c"), (-1, "a")]:
        them.at(now + seconds, rung.append, name)
        assert clock.timers == 1
    assert not rung
    for seconds, expected in [
        (0, "a"),
        (2.9, "a"),
        (0.1, "abc"),
        (2, "abcd"),
        (99, "abcd"),
    ]:
        clock.advance(seconds)
        assert "".join(rung) == expected
    assert clock.timers == 0


class EarlyClock(FakeClock):
    """A clock whose timers go off half a millisecond early, as those of event loops do."""

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        return super().call_later(max(seconds - 0.0005, 0.000_01), function)


def test_never_early() -> None:
    """No alarm goes off before its moment, even if the timer is early or another
    alarm is due just before.
    """
    clock = EarlyClock()
    them, late = Alarms(clock), list[float]()
    now = clock.monotonic()
    for number in range(10):
        moment = now + 1 + number * 0.0004
        them.at(moment, lambda moment=moment: late.append(clock.monotonic() - moment))
    clock.advance(2)
    assert len(late) == 10
    assert min(late) >= 0
    assert max(late) < 0.001


def test_set_while_others_go_off() -> None:
    """An alarm that sets another one for the same moment causes no endless loop."""
    them, clock, rung = alarms()

    def ring() -> None:
        rung.append("")
        if len(rung) < 3:
            them.at(clock.monotonic(), ring)
            assert clock.timers <= 1

    them.at(clock.monotonic(), ring)
    clock.advance(0)
    assert len(rung) == 3


def test_one_that_fails(caplog) -> None:
    """If the function of an alarm raises, the error is logged and the
    other alarms still go off.
    """
    them, clock, rung = alarms()
    now = clock.monotonic()
    them.at(now + 1, rung.index, "nothing")
    them.at(now + 1, rung.append, "same")
    them.at(now + 2, rung.append, "later")
    clock.advance(2)
    assert rung == ["same", "later"]
    assert "ValueError" in caplog.text


def test_stopped() -> None:
    """After ``stop``, no alarm goes off, and no timer keeps the process alive."""
    them, clock, rung = alarms()
    them.at(clock.monotonic() + 1, rung.append, "")
    them.stop()
    assert clock.timers == 0
    clock.advance(5)
    assert not rung
    them.stop()
