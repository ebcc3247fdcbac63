"""Hosts whose robots.txt is unreachable: which requests wait, how long, and what the log
says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest
from scrapy import Request
from twisted.internet.error import ConnectionRefusedError as RefusedError

from scrapy_rep.exceptions import RobotsDenied
from scrapy_rep.protocol.robotstxt.decisions import Reason
from tests.frontier.fakes import Crawl, page

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.newest

RULES = "User-agent: *\nDisallow: /private/\n"
URL = "http://a.example/robots.txt"


@pytest.fixture
def crawl() -> Crawl:
    return Crawl(REP_UNREACHABLE_WAIT=300, REP_RETRY_TIMES=0)


def refused(crawl: Crawl) -> list[str]:
    return [request.url for request, _ in crawl.engine.scraper.failed]


def lines(caplog: pytest.LogCaptureFixture) -> Iterable[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "scrapy_rep.frontier.outages"
    ]


def test_back_in_time(crawl: Crawl, caplog: pytest.LogCaptureFixture) -> None:
    """Requests wait in the queue while robots.txt is retried, and go when it is back. The
    log says when the outage begins and ends.
    """
    caplog.set_level("INFO")
    request = crawl.push("http://a.example/1")
    crawl.run()
    crawl.answer(URL, status=503, Retry_After="100")
    assert crawl.pass_time(99) == []
    assert crawl.on_network == []
    crawl.pass_time(1)
    assert crawl.on_network == [URL]
    assert crawl.answer(URL, RULES) == [request]
    begins, over = lines(caplog)
    assert begins == (
        f"{URL} is unreachable (status 503): requests to this host wait for up to "
        "0:05:00 (1 in the queue; REP_UNREACHABLE_WAIT). robots.txt is fetched "
        "again in 0:01:40"
    )
    assert over == (
        f"{URL} is back after 0:01:40 (status 200): requests to this host continue"
    )


def test_given_up(crawl: Crawl, caplog: pytest.LogCaptureFixture) -> None:
    """After REP_UNREACHABLE_WAIT, all waiting requests are refused, and later ones at once.
    Later requests make the crawler fetch robots.txt again when its retry is due.
    """
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.answer(URL, status=503, Retry_After="200")
    crawl.pass_time(200)
    crawl.answer(URL, status=503, Retry_After="200")
    crawl.pass_time(99)
    assert not refused(crawl)
    crawl.pass_time(1)
    assert refused(crawl) == ["http://a.example/1"]
    crawl.push("http://a.example/2")
    crawl.pass_time(0)
    assert refused(crawl)[1:] == ["http://a.example/2"]
    assert crawl.on_network == []
    crawl.pass_time(99)
    assert crawl.on_network == []
    crawl.pass_time(1)
    assert crawl.on_network == [URL]
    crawl.answer(URL, status=503, Retry_After="200")
    crawl.pass_time(1000)
    assert crawl.on_network == []  # Without new requests, robots.txt is not fetched.
    crawl.push("http://a.example/3")
    crawl.pass_time(0)
    assert refused(crawl)[2:] == ["http://a.example/3"]
    assert crawl.on_network == [URL]
    crawl.answer(URL, RULES)
    last = crawl.push("http://a.example/4")
    assert crawl.run() == [last]
    assert "is still unreachable (status 503) after 0:05:00" in lines(caplog)[1]


@pytest.mark.parametrize("wait", [0, 300])
def test_no_server(wait: float) -> None:
    """Requests are refused at once if no server listens on the host, or if
    REP_UNREACHABLE_WAIT is 0.
    """
    crawl = Crawl(REP_UNREACHABLE_WAIT=wait, REP_RETRY_TIMES=0)
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.fail(URL, RefusedError() if wait else OSError("broken"))
    crawl.pass_time(0)
    assert refused(crawl) == ["http://a.example/1"]


def test_from_outside(crawl: Crawl) -> None:
    """A request already in the downloader waits for the first answer only, and is refused
    if robots.txt is unreachable.
    """
    outside = [crawl.outside(f"http://a.example/{number}") for number in (1, 2)]
    assert not crawl.ended
    crawl.answer(URL, status=503)
    outside.append(crawl.outside("http://a.example/3"))
    for request in outside:
        error = crawl.ended[request]
        assert isinstance(error, RobotsDenied)
        assert error.decision.reason is Reason.UNREACHABLE
    assert crawl.on_network == []


def test_asked_again_for_each_proxy(crawl: Crawl) -> None:
    """Each retry of robots.txt uses the proxy of the next waiting request."""
    for number in (1, 2):
        crawl.push(
            page(f"http://a.example/{number}", proxy=f"http://proxy-{number}:8080")
        )
    proxies = []
    for _ in range(2):
        (request,) = crawl.downloader.network
        proxies.append(request.meta["proxy"])
        crawl.answer(request, status=407)
        crawl.pass_time(60)
    assert set(proxies) == {"http://proxy-1:8080", "http://proxy-2:8080"}


def test_a_clock_that_is_set_back(crawl: Crawl) -> None:
    """A clock that is set back does not change the length of the wait."""
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.answer(URL, status=503, Retry_After="1000")
    crawl.clock.set_back(86_400)
    crawl.pass_time(299)
    assert not refused(crawl)
    crawl.pass_time(1)
    assert refused(crawl) == ["http://a.example/1"]


def test_a_clock_that_is_set_back_a_little(crawl: Crawl) -> None:
    """A clock that is set back by a minute, as from a time server, delays the next fetch by a
    minute, and does not prevent it.
    """
    request = crawl.push("http://a.example/1")
    crawl.run()
    crawl.answer(URL, status=503, Retry_After="100")
    crawl.clock.set_back(60)
    crawl.pass_time(161)
    assert crawl.on_network == [URL]
    assert crawl.answer(URL, RULES) == [request]


def test_remembered_so_far(crawl: Crawl) -> None:
    """The number of remembered hosts that were given up is bounded: the
    least recent are forgotten.
    """
    hosts = crawl.frontier.access.hosts
    with mock.patch("scrapy_rep.frontier.hoststate._MAX_GIVEN_UP", 2):
        for number in range(4):
            crawl.push(f"http://{number}.example/")
            crawl.run()
            crawl.fail(f"http://{number}.example/robots.txt", RefusedError())
            crawl.pass_time(0)
    assert len(hosts._hosts) == 2
    assert len(refused(crawl)) == 4


def test_in_scrapy_shell() -> None:
    """In ``scrapy shell``, requests are refused at once instead of waiting."""
    crawl = Crawl(REP_RETRY_TIMES=0)
    crawl.crawler.settings.frozen = False
    crawl.crawler.settings.set("DUPEFILTER_CLASS", "x", priority="command")
    request = crawl.outside("http://a.example/")
    crawl.push(Request("http://a.example/1"))
    crawl.answer(URL, status=503)
    crawl.pass_time(0)
    assert isinstance(crawl.ended[request], RobotsDenied)
    assert len(crawl.queues[0]) == 0


def test_a_scheduler_with_another_queue() -> None:
    """With another queue class, requests wait in the downloader until robots.txt is back or
    REP_UNREACHABLE_WAIT is over.
    """
    crawl = Crawl(REP_UNREACHABLE_WAIT=300, REP_RETRY_TIMES=0)
    crawl.frontier.queues.clear()
    given_up, back = page("http://a.example/1"), page("http://b.example/1")
    for request in (given_up, back):
        crawl.start(request)
        url = f"{request.url[:16]}/robots.txt"
        crawl.answer(url, status=503, Retry_After="200")
    crawl.clock.advance(200)
    crawl.answer("http://b.example/robots.txt", RULES)
    assert back in crawl.downloader.network
    crawl.answer(URL, status=503, Retry_After="200")
    crawl.clock.advance(99)
    assert not crawl.ended
    crawl.clock.advance(1)
    assert isinstance(crawl.ended[given_up], RobotsDenied)
