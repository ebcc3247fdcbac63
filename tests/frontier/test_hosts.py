"""Requests that wait for their host: in rare orders of events, and when clocks are set."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from twisted.internet.defer import CancelledError

from scrapy_rep import stats
from scrapy_rep.exceptions import RobotsDenied
from tests.frontier.fakes import Crawl

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private/\n"
DELAYED = f"{RULES}Crawl-delay: 4\n"


def known(crawl: Crawl, host: str = "a.example") -> None:
    """Have robots.txt of *host*, with a Crawl-delay, known, and the delay pass."""
    request = crawl.outside(f"http://{host}/first")
    crawl.answer(f"http://{host}/robots.txt", DELAYED)
    crawl.pass_time(4)
    crawl.answer(request)
    crawl.pass_time(4)


def test_names_of_one_host() -> None:
    """A host name with a trailing dot, or with a port, shares the delay of the host, also for its
    robots.txt.
    """
    crawl = Crawl()
    known(crawl)
    crawl.push("http://a.example/1")
    crawl.run()
    for url in ("http://A.example./", "http://a.example:81/"):
        crawl.push(f"{url}2")
        crawl.run()
        assert crawl.on_network == ["http://a.example/1"]


def test_a_clock_that_is_set_back() -> None:
    """If the clock is set back after robots.txt was fetched, no request waits longer than the
    delay.
    """
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.clock.set_back(-200)
    crawl.answer("http://a.example/robots.txt", DELAYED, runs=False)
    crawl.clock.set_back(200)
    crawl.run()
    assert crawl.pass_time(3.9) == []
    assert len(crawl.pass_time(0.1)) == 1


def test_the_visiting_hours_of_an_override() -> None:
    """A request in the downloader waits for the visit time of an override, and is then checked
    against its rules. The test starts at 12:00.
    """
    rules = f"{RULES}Visit-time: 1230-1300\n"
    crawl = Crawl(REP_OVERRIDES={"a.example": rules}, REP_WAIT_MAX=3600)
    outside = crawl.outside("http://a.example/1")
    denied = crawl.outside("http://a.example/private/1")
    crawl.pass_time(1799)
    assert outside not in crawl.ended
    assert crawl.on_network == []
    assert isinstance(crawl.ended[denied], RobotsDenied)
    crawl.pass_time(1)
    assert crawl.on_network == ["http://a.example/1"]


def test_a_delay_counts_once_in_the_stats() -> None:
    """A host counts once as delayed, also if it was forgotten between its requests."""
    crawl = Crawl()
    for number in range(3):
        crawl.push(f"http://a.example/{number}")
        crawl.run()
        if not number:
            crawl.answer("http://a.example/robots.txt", DELAYED)
        crawl.pass_time(4)
        crawl.answer(f"http://a.example/{number}")
        crawl.pass_time(60)
        assert not len(crawl.frontier.core.scopes)
        assert not crawl.frontier.core.hosts
    assert crawl.crawler.stats.get_value(stats.DELAYED_HOSTS) == 1


def test_a_robotstxt_that_is_cancelled_as_it_gets_its_places() -> None:
    """A fetch of robots.txt that is cancelled in the moment in which it may be sent leaves its
    places to the next request.
    """
    crawl = Crawl()
    known(crawl)
    first = crawl.outside("http://a.example/1")
    place = crawl.frontier.place

    async def place_and_be_cancelled(*args: Any, **kwargs: Any) -> None:
        await place(*args, **kwargs)
        raise CancelledError

    with mock.patch.object(crawl.frontier, "place", place_and_be_cancelled):
        crawl.outside("http://a.example:81/2")
        crawl.answer(first)
        crawl.pass_time(4)
    crawl.outside("http://a.example/3")
    crawl.pass_time(60)
    assert "http://a.example/3" in crawl.on_network


def test_a_request_whose_end_nobody_has_seen() -> None:
    """If another component hides the end of a request, its places are free at the next pop. A
    request in the downloader keeps them, however long it takes.
    """
    crawl = Crawl()
    known(crawl)
    crawl.push("http://a.example/1")
    lost = crawl.push("http://a.example/2")
    crawl.run()
    crawl.engine.wake()
    assert crawl.pass_time(60) == []
    crawl.downloader.active.remove(lost)
    crawl.engine.wake()
    crawl.run()
    assert len(crawl.pass_time(4)) == 1
    crawl.downloader.active.add(lost)
