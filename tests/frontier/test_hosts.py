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


UNTIL = "2024-01-01T12:10:00+00:00"
"""Ten minutes after the time at which a test starts."""


@pytest.mark.parametrize("form", [{"obey": False}, {"robotstxt": "User-agent: *\n"}])
def test_an_override_that_ends_in_a_crawl(
    form: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """From the moment at which an override ends, robots.txt decides, also about requests that
    waited in the queue, and its delay applies. One line of the log says so.
    """
    entry = {**form, "reason": "permission", "until": UNTIL}
    crawl = Crawl(REP_OVERRIDES={"a.example": entry}, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    for path in ("3", "private/2", "2", "1", "private/1"):
        crawl.push(f"http://a.example/{path}")
    crawl.run()
    crawl.pass_time(599)
    assert crawl.on_network == ["http://a.example/private/1"]
    assert "has ended" not in caplog.text
    crawl.pass_time(1)
    crawl.answer("http://a.example/private/1")
    crawl.answer("http://a.example/robots.txt", DELAYED)
    for path in ("1", "2", "3"):
        assert crawl.on_network == []
        crawl.pass_time(3.9)
        assert crawl.on_network == []
        crawl.pass_time(0.1)
        crawl.answer(f"http://a.example/{path}")
    assert [
        str(one) for one in crawl.ended.values() if isinstance(one, RobotsDenied)
    ] == ["Forbidden by http://a.example/robots.txt, line 2 (disallow: /private/)"]
    (line,) = [one for one in caplog.messages if "has ended" in one]
    assert f"(permission; until {UNTIL})" in line


def test_a_request_that_waits_while_its_override_ends() -> None:
    """A request that waits in the downloader for its turn by the rules of an override is judged
    by robots.txt if the override ends meanwhile.
    """
    entry = {"robotstxt": "User-agent: *\nCrawl-delay: 150\n", "until": UNTIL}
    crawl = Crawl(REP_OVERRIDES={"a.example": entry})
    crawl.pass_time(500)
    crawl.answer(crawl.outside("http://a.example/private/1"))
    second = crawl.outside("http://a.example/private/2")
    crawl.pass_time(150)
    crawl.answer("http://a.example/robots.txt", RULES)
    assert isinstance(crawl.ended[second], RobotsDenied)
    assert "a.example/robots.txt" in str(crawl.ended[second])


def test_an_override_that_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """An override that has ended before the crawl is named once, at the start. Without it, a
    wider pattern decides.
    """
    over = {"obey": True, "reason": "test", "until": "2023-12-31"}
    crawl = Crawl(REP_OVERRIDES={"a.example": over, "*": "ignore"})
    crawl.opened()
    (line,) = caplog.messages
    assert line.startswith("REP_OVERRIDES['a.example'] has ended and decides nothing, ")
    assert "obey (test; until 2023-12-31)" in line
    crawl.outside("http://a.example/private/1")
    assert crawl.on_network == ["http://a.example/private/1"]
    assert [one for one in caplog.messages if "has ended" in one] == [line]
