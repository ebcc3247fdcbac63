"""Pace rules that take too long for a real crawl: long delays,
Visit-time, changes and bounds.
"""

from __future__ import annotations

from unittest import mock

import pytest

from scrapy_rep import stats
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.robotstxt.decisions import Reason
from tests.frontier.fakes import Crawl, page

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private/\n"


def ask(crawl: Crawl, host: str, text: str, path: str = "/") -> None:
    """Push a request, and answer for the robots.txt of its host."""
    crawl.push(f"http://{host}{path}")
    crawl.run()
    url = f"http://{host}/robots.txt"
    if url in crawl.on_network:
        crawl.answer(url, f"{RULES}{text}\n")


def test_groups_are_bounded() -> None:
    """The number of delay groups is bounded: idle groups whose delay has
    passed are forgotten. Each host still counts once in the stats, and its
    waiting time is still reported.
    """
    with mock.patch("scrapy_rep.frontier.politeness._MAX_GROUPS", 3):
        crawl = Crawl()
        politeness = crawl.frontier.access.politeness
        politeness._max_groups = 3
        groups = politeness._turns.groups
        for turn in range(2):
            for number in range(10):
                host = f"{number}.example"
                ask(crawl, host, "Crawl-delay: 1", f"/{turn}")
                crawl.pass_time(1)
                (group,) = (one for one in groups.all() if one.name == host)
                group.waited = float(number)
                crawl.answer(f"http://{host}/{turn}")
                crawl.pass_time(1)
                assert len(groups) <= 5
        busy = [f"http://busy-{number}.example/" for number in range(8)]
        for url in busy:
            ask(crawl, url[7:-1], "Crawl-delay: 5")
        crawl.pass_time(5)
        assert set(crawl.on_network) == set(busy)
        assert len(groups) >= 8
    assert crawl.crawler.stats.get_value(stats.DELAYED_HOSTS) == 18
    crawl.closed()
    assert [one.seconds for one in politeness._slowest] == [9, 9, 8, 8, 7]


def test_a_delay_that_is_taken_back() -> None:
    """When a host drops its Crawl-delay, its requests run in parallel,
    and its group is forgotten.
    """
    crawl = Crawl(REP_MAX_AGE=600)
    ask(crawl, "a.example", "Crawl-delay: 5")
    crawl.pass_time(5)
    crawl.answer("http://a.example/")
    crawl.pass_time(600)
    assert crawl.frontier.access.turns.groups
    ask(crawl, "a.example", "", "/1")
    for number in (2, 3):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    assert len(crawl.on_network) == 3
    assert not crawl.frontier.access.turns.groups


def test_a_delay_that_is_too_long(caplog: pytest.LogCaptureFixture) -> None:
    """Requests to a host whose delay exceeds REP_CRAWL_DELAY_MAX are
    refused, with one warning.
    """
    crawl = Crawl(REP_CRAWL_DELAY_MAX=60)
    ask(crawl, "a.example", "Crawl-delay: 61")
    ask(crawl, "a.example", "", "/1")
    reasons = [
        error.decision.reason for error in crawl.ended.values() if is_denied(error)
    ]
    assert reasons == [Reason.CRAWL_DELAY] * 2
    assert caplog.text.count("is skipped") == 1
    assert crawl.crawler.stats.get_value(stats.SKIPPED_HOSTS) == 1


def is_denied(result: object) -> bool:
    return isinstance(result, RobotsDenied)


def test_slots_bring_hosts_together() -> None:
    """When a download slot joins two hosts, their requests wait for each other."""
    crawl = Crawl()
    for host, delay in (("a.example", 5), ("b.example", 7)):
        ask(crawl, host, f"Crawl-delay: {delay}")
    crawl.push(page("http://b.example/1", download_slot="shared"))
    crawl.push(page("http://a.example/1", download_slot="shared"))
    for _ in range(4):
        assert len(crawl.pass_time(6.9)) <= 1
        assert len(crawl.pass_time(0.1)) <= 1
        assert len(crawl.on_network) <= 1
        for url in crawl.on_network:
            crawl.answer(url)
    assert len(crawl.sent) == 2 + 4


def test_visiting_hours() -> None:
    """Requests of all queues wait in the queue until Visit-time begins.
    The test starts at 12:00.
    """
    crawl = Crawl()
    ask(crawl, "a.example", "Visit-time: 1230-1300")
    crawl.push(page("http://a.example/1", download_slot="other"))
    crawl.push("http://a.example/2", 1)
    assert crawl.pass_time(1799) == []
    assert crawl.frontier.access.politeness.waiting() == (3, 1)
    assert len(crawl.pass_time(1)) == 3


def test_visiting_hours_that_are_far_away() -> None:
    """A request that would wait longer than REP_VISIT_TIME_WAIT is refused."""
    crawl = Crawl(REP_VISIT_TIME_WAIT=1800)
    ask(crawl, "a.example", "Visit-time: 1231-1300")
    ask(crawl, "b.example", "Visit-time: 1230-1300")
    reasons = {
        request.url: error.decision.reason for request, error in crawl.ended.items()
    }
    assert reasons == {"http://a.example/": Reason.VISIT_TIME}
    assert len(crawl.queues[0]) == 1


def test_visiting_hours_from_outside() -> None:
    """A request already in the downloader waits until Visit-time begins, or
    until the spider closes.
    """
    crawl = Crawl()
    ask(crawl, "a.example", "Visit-time: 1230-1300")
    outside = crawl.outside("http://a.example/1")
    assert crawl.frontier.access.politeness.has_waiters
    crawl.pass_time(1800)
    assert not crawl.frontier.access.politeness.has_waiters
    assert outside in crawl.downloader.slots["a.example"].active
    ask(crawl, "b.example", "Visit-time: 1310-1400")
    other = crawl.outside("http://b.example/1")
    assert crawl.frontier.access.politeness.has_waiters
    crawl.frontier.access.close()
    crawl.pass_time(0)
    assert isinstance(crawl.ended[other], SpiderClosing)


def test_visiting_hours_of_an_override() -> None:
    """A request in the downloader waits for the visit time of an override, and is then checked
    against its rules.
    """
    rules = f"{RULES}Visit-time: 1230-1300\n"
    crawl = Crawl(REP_OVERRIDES={"a.example": rules})
    outside = crawl.outside("http://a.example/1")
    denied = crawl.outside("http://a.example/private/1")
    crawl.pass_time(1799)
    assert outside not in crawl.ended
    assert crawl.on_network == []
    assert isinstance(crawl.ended[denied], RobotsDenied)
    crawl.pass_time(1)
    assert crawl.on_network == ["http://a.example/1"]


def test_a_request_that_is_cancelled_while_it_waits() -> None:
    """A cancelled request is not sent at the visit time or at its turn, and does not disturb
    the other requests that wait.
    """
    crawl = Crawl()
    ask(crawl, "a.example", "Visit-time: 1230-1300")
    first, second = (crawl.outside(f"http://a.example/{n}") for n in (1, 2))
    ask(crawl, "b.example", "Crawl-delay: 5")
    third, fourth = (crawl.outside(f"http://b.example/{n}") for n in (1, 2))
    for request in (first, third):
        crawl.started[request].addErrback(lambda _: None)
        crawl.started[request].cancel()
    crawl.frontier.access.turns.close()
    crawl.pass_time(1800)
    assert isinstance(crawl.ended[fourth], SpiderClosing)
    sent = {request.url for request in crawl.sent}
    assert second.url in sent
    assert not sent & {first.url, third.url, fourth.url}


def test_a_host_that_will_take_long(caplog: pytest.LogCaptureFixture) -> None:
    """For a host with many requests and a long delay, one log message gives the delay."""
    caplog.set_level("INFO")
    crawl = Crawl()
    for number in range(30):
        crawl.push(f"http://slow.example/{number}")
        crawl.push(f"http://quick.example/{number}")
    crawl.run()
    crawl.answer("http://slow.example/robots.txt", f"{RULES}Crawl-delay: 20\n")
    crawl.answer("http://quick.example/robots.txt", f"{RULES}Crawl-delay: 2\n")
    for _ in range(3):
        crawl.pass_time(20)
        for url in crawl.on_network:
            crawl.answer(url)
    told = [line for line in caplog.messages if "slow.example" in line and "20" in line]
    assert len(told) == 1
    assert not any("quick.example" in line for line in caplog.messages)


def test_what_waits_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Each minute, the log says what an idle crawl waits for."""
    caplog.set_level("INFO")
    crawl = Crawl()
    crawl.opened()
    ask(crawl, "a.example", "Visit-time: 1230-1300")
    ask(crawl, "b.example", "Crawl-delay: 170")
    crawl.push("http://c.example/")
    crawl.run()
    crawl.pass_time(60)
    assert "3 requests wait for 3 hosts" in caplog.text
    caplog.clear()
    crawl.answer("http://c.example/robots.txt", RULES)
    crawl.pass_time(60)
    assert "requests wait for" not in caplog.text
    crawl.answer("http://c.example/")
    # This covers the minute in which that request ended.
    crawl.pass_time(59)
    crawl.closed()
    assert crawl.clock.timers == 0


def test_closing_ends_the_wait_in_the_downloader() -> None:
    """When the spider closes, requests that wait in the downloader for their
    turn end with SpiderClosing.
    """
    crawl = Crawl()
    ask(crawl, "a.example", "Crawl-delay: 4")
    waiting = crawl.outside("http://a.example/1")
    unknown = crawl.outside("http://b.example/")
    crawl.close()
    for request in (waiting, unknown):
        assert isinstance(crawl.ended[request], SpiderClosing)
    assert not crawl.downloader.active
