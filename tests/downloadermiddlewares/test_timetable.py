"""A dry run says how long a real run would take at least."""

from __future__ import annotations

import pytest

from scrapy_rep.downloadermiddlewares.timetable import Timetable

pytestmark = pytest.mark.newest


def test_the_slowest_host() -> None:
    """A host takes its longest delay for each request; a real run visits hosts at the same time."""
    times = Timetable()
    for delay in (1.0, 3.0, 2.0):
        times.sent("slow.example", delay)
    times.sent("quick.example", 0.5)
    times.sent("free.example", 0.0)
    assert times.most == 9.0
    assert [(name, one.seconds) for name, one in times.slowest()] == [
        ("slow.example", 9.0),
        ("quick.example", 0.5),
    ]


def test_pauses_that_overlap() -> None:
    """A pause within another one counts only as far as it is longer, and does not begin a new one."""
    times = Timetable()
    assert times.pause_left("a.example", 0.0) == 0.0
    assert times.paused("a.example", 10.0, 100.0)
    assert not times.paused("a.example", 10.0, 104.0)
    assert not times.paused("a.example", 1.0, 105.0)
    assert times.pause_left("a.example", 106.0) == 8.0
    assert times.most == 14.0
    assert times.paused("a.example", 5.0, 114.0)
    assert times.most == 19.0
