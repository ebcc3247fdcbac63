"""Which requests share a lane, and when it is free."""

from __future__ import annotations

from scrapy import Request

from scrapy_rep.lanes import Lane, Lanes
from scrapy_rep.protocol.origins import origin_of

HTTP, HTTPS = origin_of("http://host.example/"), origin_of("https://host.example/")
REQUEST = Request("http://host.example/")


def test_one_at_a_time() -> None:
    """A lane is free when nobody is on the way, and the delay has passed since the end of the
    last request: the longest that is asked for.
    """
    lane = Lane("host.example")
    lane.delays = {HTTP: 2.0, HTTPS: 5.0}
    assert lane.is_free(100)
    lane.take(REQUEST, 100, more=False)
    assert not lane.is_free(1000)
    lane.leave(103)
    assert [lane.is_free(now) for now in (107.9, 108)] == [False, True]
    lane.take(REQUEST, 108, more=False)
    lane.leave(108, fetched=False)
    assert lane.is_free(108)
    del lane.delays[HTTPS]
    assert lane.delay == 2


def test_how_long_a_lane_is_held_up() -> None:
    """What counts is the time in which somebody waits and nobody is on the way."""
    lane = Lane("host.example")
    lane.delays = {HTTP: 10.0}
    assert lane.take(REQUEST, 100, more=False) == 0
    lane.waits(101)
    lane.waits(102)
    lane.leave(104)
    assert lane.take(REQUEST, 114, more=True) == 10
    lane.leave(115)
    assert lane.take(REQUEST, 125, more=False) == 10
    lane.leave(126)
    assert lane.take(REQUEST, 200, more=False) == 0
    assert (lane.waited, lane.requests) == (20, 4)


def test_hosts_and_slots() -> None:
    """A request goes by its host's lane, or by that of its download slot."""
    lanes = Lanes()
    assert not lanes
    lane, other = lanes.join("a.example", "a.example")
    assert other is None
    assert lanes.find("a.example", "slot") is lane
    assert lanes.find("b.example", "slot") is None
    assert lanes.join("a.example", "slot") == (lane, None)
    assert lanes.find("b.example", "slot") is lane
    assert lanes.join("b.example", "slot") == (lane, None)
    assert lanes.find("b.example", "b.example") is lane
    assert lanes.all() == [lane]
    lanes.drop(lane)
    assert not lanes


def test_two_lanes_become_one() -> None:
    """Where a slot takes the requests of two hosts, the longest delay holds for both, from
    the last request to either; and who is on the way stays so.
    """
    lanes = Lanes()
    first, _ = lanes.join("a.example", "a.example")
    second, _ = lanes.join("b.example", "b.example")
    first.delays, second.delays = {HTTP: 1.0}, {HTTPS: 3.0}
    first.leave(10)
    second.leave(20)
    second.take(REQUEST, 25, more=False)
    lanes.join("a.example", "slot")
    lane, other = lanes.join("b.example", "slot")
    assert (lane, other) == (second, first)
    assert lane.delay == 3
    assert lane.free_at == 23
    assert lane.busy is REQUEST
    names = [("a.example", "a.example"), ("b.example", "b.example"), ("x", "slot")]
    assert {lanes.find(*name) for name in names} == {lane}
    lane.leave(30)
    lanes.join("c.example", "c.example")[0].take(REQUEST, 31, more=False)
    assert lanes.join("b.example", "c.example")[0].busy is REQUEST
