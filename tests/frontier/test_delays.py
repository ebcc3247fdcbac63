"""Delay groups: which requests share a delay, and when the next one may go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from twisted.internet.defer import Deferred

from scrapy_rep.frontier.delays import DelayGroup, DelayGroups
from scrapy_rep.protocol.origins import origin_of

pytestmark = pytest.mark.newest

HTTP, HTTPS = origin_of("http://host.example/"), origin_of("https://host.example/")
REQUEST = Request("http://host.example/")


def waiter(url: str = "http://host.example/") -> Any:
    return Request(url), Deferred()


def test_one_at_a_time() -> None:
    """The turn is free if no request is under way, and the longest delay of the group has
    passed since the end of the last one.
    """
    group = DelayGroup("host.example")
    group.delays = {HTTP: 2.0, HTTPS: 5.0}
    assert group.is_free(100)
    group.take(REQUEST, 100)
    assert not group.is_free(1000)
    group.leave(103, fetched=True)
    assert [group.is_free(now) for now in (107.9, 108)] == [False, True]
    group.take(REQUEST, 108)
    group.leave(108, fetched=False)
    assert group.is_free(108)
    group.not_before = 120
    assert [group.is_free(now) for now in (119, 120)] == [False, True]
    del group.delays[HTTPS]
    assert group.delay == 2


def test_how_long_a_host_holds_up_the_crawl() -> None:
    """Only the time counts in which requests wait and none is under way."""
    group = DelayGroup("host.example")
    group.delays = {HTTP: 10.0}
    group.take(REQUEST, 100)
    assert group.waited == 0
    group.waiters.append(waiter())
    group.waiting_since = 101
    group.leave(104, fetched=True)
    group.take(REQUEST, 114)
    assert group.waited == 10
    group.leave(115, fetched=True)
    group.waiters.clear()
    group.take(REQUEST, 125)
    assert group.waited == 20
    group.leave(126, fetched=True)
    group.take(REQUEST, 200)
    assert (group.waited, group.requests) == (20, 4)


def test_who_goes_next() -> None:
    """Requests in the downloader go before queues, each in order of arrival. Requests
    redirected from other hosts go last, but no later than after three others.
    """
    group = DelayGroup("host.example")
    redirected, other_redirected = waiter(), waiter()
    waiters = [waiter(), waiter()]
    queues: list[Any] = [SimpleNamespace() for _ in range(3)]
    group.redirected.extend([redirected, other_redirected])
    group.queues.extend(queues)
    group.waiters.extend(waiters)
    assert group.is_waited_for
    order = [group.next() for _ in range(7)]
    assert order == [*waiters, queues[0], redirected, *queues[1:], other_redirected]
    assert not group.is_waited_for
    assert group.next() is None


def test_hosts_and_slots() -> None:
    """A request belongs to the group of its host, or to that of its download slot."""
    groups = DelayGroups()
    assert not groups
    group = groups.join("a.example", "a.example")
    assert groups.find("a.example", "slot") is group
    assert groups.find("b.example", "slot") is None
    assert groups.join("a.example", "slot") is group
    assert groups.find("b.example", "slot") is group
    assert groups.join("b.example", "slot") is group
    assert groups.find("b.example", "b.example") is group
    assert groups.all() == [group]
    groups.drop(group)
    assert not groups


def test_two_groups_become_one() -> None:
    """When a slot joins two hosts, the longest delay since the last request to either holds
    for both, the holder keeps its turn, and all waiters go on waiting.
    """
    groups = DelayGroups()
    first = groups.join("a.example", "a.example")
    second = groups.join("b.example", "b.example")
    first.delays, second.delays = {HTTP: 1.0}, {HTTPS: 3.0}
    first.last, second.last, first.not_before = 20, 10, 24
    second.holder, second.host = REQUEST, "b.example"
    waiting = [waiter() for _ in range(4)]
    first.waiters.append(waiting[0])
    second.waiters.append(waiting[1])
    second.redirected.append(waiting[2])
    queue: Any = SimpleNamespace()
    second.queues.append(queue)
    groups.join("a.example", "slot")
    group = groups.join("b.example", "slot")
    assert group is groups.current(first) is groups.current(second)
    assert group.delay == 3
    assert (group.last, group.not_before) == (20, 24)
    assert (group.holder, group.host) == (REQUEST, "b.example")
    assert list(group.waiters) == [waiting[1], waiting[0]]
    assert list(group.redirected) == [waiting[2]]
    assert list(group.queues) == [queue]
    names = [("a.example", "a.example"), ("b.example", "b.example"), ("x", "slot")]
    assert {groups.find(*name) for name in names} == {group}
    assert len(groups.all()) == 1


def test_a_host_in_the_slot_of_another() -> None:
    """A host without a delay, such as a rendering service, shares the delay of the site
    whose slot its requests use. A host with a delay of its own, from any of its origins,
    brings it into that group.
    """
    in_slot = ("host.example", "site.example")
    for delay in (1.0, 0.0):
        groups = DelayGroups()
        site = origin_of("http://site.example/")
        group = groups.set_delay(("site.example", "site.example"), site, 5.0, 0.0)
        assert groups.set_delay(in_slot, HTTP, 0.0, 0.0) is group
        assert groups.find("host.example", "host.example") is None
        own = groups.set_delay(("host.example", "host.example"), HTTPS, 2.0, 0.0)
        # A request for robots.txt goes by its host, whatever its slot.
        assert groups.find(*in_slot) is own is not group
        joined = groups.set_delay(in_slot, HTTP, delay, 0.0)
        assert joined is not None
        own_delays = {HTTP: 1.0, HTTPS: 2.0} if delay else {HTTPS: 2.0}
        assert joined.delays == {site: 5.0, **own_delays}
        assert groups.find("host.example", "host.example") is joined
        assert groups.find("site.example", "site.example") is joined
