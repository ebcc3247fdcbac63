"""Tests of :class:`Site`: how events change the phase of a site, and which requests wait for its robots.txt."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.frontier.limits import READY
from scrapy_rep.crawl.frontier.sites import PHASES, Event, Phase, Site
from scrapy_rep.protocol.origins import Origin
from tests.frontier.steps import Crawl

if TYPE_CHECKING:
    from scrapy_rep.crawl.frontier.limits import Queue

pytestmark = pytest.mark.newest

A = "Origin(scheme='http', host='a', port=80, virtual_host='')"


def test_the_table_of_phases_is_complete_and_applied() -> None:
    assert list(PHASES) == list(Event)
    assert {len(row) for row in PHASES.values()} == {len(Phase)}
    for event, row in PHASES.items():
        for phase, after in zip(Phase, row, strict=True):
            site = Site(Origin("http", "a", 80))
            site.phase, site.expires = phase, 100.0
            site.happens(event)
            assert site.phase is after
            # Rules are known in one phase only.
            assert site.expires == (100.0 if after is Phase.OPEN else -inf)


def queue_with_rules(crawl: Crawl, host: str = "a", expires: float = inf) -> Queue:
    """Return a queue of *host* whose robots.txt is known, and fresh until *expires*."""
    queue = crawl.queue(host, obeys=True)
    crawl.learn_rules(host, expires)
    return queue


def test_requests_wait_for_one_fetch() -> None:
    crawl = Crawl()
    a, b = crawl.queue("a", obeys=True), crawl.queue("a", slot="s", obeys=True)
    site = crawl.site("a")
    assert repr(site) == "<Site http://a: UNKNOWN, 0 queues and 0 requests wait>"
    crawl.push(a, "a1")
    crawl.push(b, "b1")
    assert (
        repr(site)
        == "<Site http://a: AWAITED, fetch WANTED, 2 queues and 0 requests wait>"
    )
    assert crawl.start_fetches() == ["a"]
    assert (
        repr(site)
        == "<Site http://a: AWAITED, fetch UNDER_WAY, 2 queues and 0 requests wait>"
    )
    crawl.push(a, "a2")
    assert crawl.start_fetches() == []
    crawl.limits.end_fetch(site)
    crawl.learn_rules("a")
    assert repr(site) == "<Site http://a: OPEN, 0 queues and 0 requests wait>"
    assert crawl.plan_and_send_all() == ["a1", "b1", "a2"]


def test_the_robotstxt_that_a_request_in_the_downloader_needs_is_fetched_first() -> (
    None
):
    """A request that waits in the downloader takes one of its places (CONCURRENT_REQUESTS), so its robots.txt is
    fetched first. For requests that wait in the scheduler, robots.txt is fetched only when the downloader can take more
    requests.
    """
    crawl = Crawl()
    crawl.push(crawl.queue("a", obeys=True), "a1")
    b = crawl.queue("b", obeys=True)
    crawl.push(b, "b1")
    crawl.wait_for_rules("f1", b)
    site = crawl.limits.next_wanted(is_needed=False)
    assert site is b.site
    assert crawl.limits.next_wanted(is_needed=False) is None
    assert crawl.start_fetches() == ["a"]


def test_no_robotstxt_is_fetched_for_a_cancelled_request() -> None:
    crawl = Crawl()
    a = crawl.queue("a", obeys=True)
    crawl.wait_for_rules("f1", a)
    crawl.cancel_waiter("f1")
    assert crawl.start_fetches() == []
    crawl.wait_for_rules("f2", a)
    assert crawl.start_fetches() == ["a"]


def test_rules_apply_to_the_next_request_however_long_it_waits() -> None:
    """Otherwise, no page would ever be requested from a site with a long delay and short-lived rules."""
    crawl = Crawl()
    a = queue_with_rules(crawl, expires=1)
    crawl.set_delay("a", 5)
    crawl.push(a, "a1", "a2")
    crawl.advance_to(5)
    assert crawl.plan_and_send() == "a1"
    assert crawl.entries["a1"].may_use_stale
    crawl.end("a1")
    assert crawl.plan_and_send() is None
    assert a.place is a.site
    assert crawl.start_fetches() == ["a"]
    assert crawl.site("a").phase is Phase.AWAITED


def test_rules_from_the_cache_apply_to_no_request_after_they_are_stale() -> None:
    """The rules come from the cache, and become stale while the request waits for the end of a pause. So robots.txt is
    fetched before the request is sent. If the rules came from a fetch, the request would be sent under the stale rules.
    """
    crawl = Crawl()
    a = crawl.queue("a", obeys=True)
    crawl.learn_rules("a", 100, is_new=False)
    crawl.push(a, "a1")
    crawl.pause("a", 200)
    crawl.advance_to(200)
    assert crawl.plan() is None
    assert a.place is a.site
    assert crawl.start_fetches() == ["a"]
    crawl.learn_rules("a", 300)
    assert crawl.plan_and_send() == "a1"


def test_stale_rules_apply_to_one_of_the_requests_that_wait_at_the_wire() -> None:
    """Otherwise, all requests that wait at the wire would be sent under the rules of one fetch. They are sent one delay
    after the other, so the last request would be sent long after the rules became stale.
    """
    crawl = Crawl()
    a = queue_with_rules(crawl, expires=1)
    crawl.set_delay("a", 5)
    crawl.send_or_wait("f1", a)
    crawl.send_or_wait("f2", a)
    crawl.advance_to(5)
    assert crawl.decided() == ["f1"]
    assert crawl.entries["f1"].may_use_stale
    crawl.end("f1")
    crawl.advance_to(10)
    assert crawl.decided() == ["f2"]
    assert not crawl.entries["f2"].may_use_stale


def test_stale_rules_apply_to_no_request_after_one_was_sent() -> None:
    """After a fetch, one request may be sent even if the rules are stale by then. If a request is sent while the rules
    are fresh, no other request may use stale rules.
    """
    crawl = Crawl(concurrency=1)
    a = queue_with_rules(crawl, expires=10)
    crawl.send_or_wait("f1", a)
    assert crawl.decided() == ["f1"]
    crawl.send_or_wait("f2", a)
    crawl.advance_to(11)
    crawl.end("f1")
    assert crawl.decided() == ["f2"]
    assert not crawl.entries["f2"].may_use_stale


def test_a_request_that_waits_at_the_wire_may_still_use_stale_rules() -> None:
    """After a fetch, one request may be sent under stale rules. ``a1`` keeps this permission while it waits. If ``a2``
    got it meanwhile, the two requests could take it from each other forever, and neither would be sent.
    """
    crawl = Crawl()
    a = queue_with_rules(crawl, expires=1)
    crawl.push(a, "a1", "a2")
    crawl.advance_to(1)
    assert crawl.plan() == "a1"
    crawl.pause("a")
    crawl.wait_at_wire("a1")
    assert crawl.waiting["a1"].entry.may_use_stale
    assert not crawl.site("a").holds_for_next


def test_a_request_planned_with_fresh_rules_may_use_them_when_they_are_stale() -> None:
    """``a1`` and ``a2`` are handed out while the rules are fresh. Another component can delay them until the rules are
    stale. Then only ``a1``, which was handed out first, may be sent under the stale rules.
    """
    crawl = Crawl()
    a = queue_with_rules(crawl, expires=10)
    crawl.push(a, "a1", "a2")
    assert crawl.plan_and_send_all() == ["a1", "a2"]
    assert crawl.entries["a1"].may_use_stale
    assert not crawl.entries["a2"].may_use_stale
    crawl.advance_to(10)
    crawl.push(a, "a3")
    assert crawl.plan_and_send() is None
    assert crawl.start_fetches() == ["a"]


def test_requests_of_an_unreachable_site_are_sent_when_it_is_back() -> None:
    crawl = Crawl()
    a = crawl.queue("a", obeys=True)
    site = crawl.site("a")
    crawl.push(a, "a1")
    crawl.wait_for_rules("f1", a)
    assert crawl.start_fetches() == ["a"]
    crawl.limits.end_fetch(site)
    crawl.limits.unreachable(site, 0, 3, wait=60, is_asked=False)
    # The request in the downloader waits no longer.
    assert crawl.decided() == ["f1"]
    assert repr(site) == (
        "<Site http://a: DOWN, again at 3, 1 queues and 0 requests wait>"
    )
    assert (crawl.start_fetches(), crawl.limits.alarms.first_at) == ([], 3)
    crawl.advance_to(3)
    assert crawl.start_fetches() == ["a"]
    assert site.phase is Phase.DOWN
    crawl.limits.end_fetch(site)
    crawl.learn_rules("a")
    assert (site.phase, site.outage) == (Phase.OPEN, None)
    assert crawl.plan_and_send_all() == ["a1"]


def test_requests_of_a_site_that_is_unreachable_for_too_long_are_refused() -> None:
    """At second 60, the end of the wait timeout, robots.txt is fetched once more. The fetch fails, so requests are
    refused until second 160, when robots.txt may be fetched again. They are refused at once, even if the host allows
    only one request at a time. Requests that come at second 160 wait for the result of the next fetch.
    """
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a", obeys=True)
    site = crawl.site("a")
    crawl.push(a, "a1", "a2")
    for now, retry_at in (0, 50), (50, 150):
        crawl.advance_to(now)
        assert crawl.start_fetches() == ["a"]
        crawl.limits.end_fetch(site)
        crawl.limits.unreachable(site, now, retry_at, wait=60, is_asked=False)
        assert site.phase is Phase.DOWN
    assert crawl.limits.alarms.first_at == 60
    crawl.advance_to(60)
    assert crawl.start_fetches() == ["a"]
    crawl.limits.end_fetch(site)
    crawl.limits.unreachable(site, 60, 160, wait=60, is_asked=False)
    assert repr(site) == (
        "<Site http://a: REFUSED, again at 160, 0 queues and 0 requests wait>"
    )
    assert crawl.plan_all() == ["A1", "A2"]
    assert a.host.planned == 0
    crawl.push(a, "a3")
    assert (crawl.plan(), crawl.start_fetches()) == ("A3", [])
    for now, names in (160, ("a4", "a5")), (260, ("a6", "a7")):
        crawl.advance_to(now)
        crawl.push(a, *names)
        assert (crawl.plan(), crawl.start_fetches()) == (None, ["a"])
        crawl.limits.end_fetch(site)
        if now == 160:
            crawl.limits.unreachable(site, 160, 260, wait=60, is_asked=False)
            assert crawl.plan_all() == ["A4", "A5"]
    crawl.learn_rules("a")
    assert crawl.plan() == "a6"


def test_a_site_that_requests_too_long_a_pause_is_refused_immediately() -> None:
    crawl = Crawl()
    crawl.push(crawl.queue("a", obeys=True), "a1")
    assert crawl.start_fetches() == ["a"]
    crawl.limits.end_fetch(crawl.site("a"))
    crawl.limits.unreachable(crawl.site("a"), 0, 61, wait=60, is_asked=True)
    assert crawl.site("a").phase is Phase.REFUSED
    assert crawl.plan() == "A1"


def test_a_fetch_without_a_result_is_repeated_if_a_request_waits_for_it() -> None:
    """The fetch is repeated after a second. If no request waits, robots.txt is fetched for the next request."""
    crawl = Crawl()
    a = crawl.queue("a", obeys=True)
    site = crawl.site("a")
    crawl.wait_for_rules("f1", a)
    assert crawl.start_fetches() == ["a"]
    crawl.limits.end_fetch(site)
    crawl.limits.no_result(site, crawl.now)
    assert (crawl.start_fetches(), crawl.limits.alarms.first_at) == ([], 1)
    crawl.advance_to(1)
    assert crawl.start_fetches() == ["a"]
    crawl.cancel_waiter("f1")
    crawl.limits.end_fetch(site)
    crawl.limits.no_result(site, crawl.now)
    assert site.phase is Phase.UNKNOWN
    crawl.push(a, "a1")
    assert crawl.start_fetches() == ["a"]


def test_a_queue_that_has_got_its_rules_is_parked_at_a_limiter_without_room() -> None:
    """Before its rules were known, the queue waited for them at its site."""
    crawl = Crawl(concurrency=1)
    a = crawl.queue("a", obeys=True)
    exempt = crawl.queue("a", keeps_delay=False)
    crawl.push(exempt, "x1")
    assert crawl.plan_and_send() == "x1"
    crawl.push(a, "a1")
    assert a.place is a.site
    crawl.learn_rules("a")
    assert a.place is a.host
    crawl.end("x1")
    assert a.place is READY
