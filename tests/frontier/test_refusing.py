"""The requests in a queue whose host is refused: without the downloader, a few at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from unittest import mock

from scrapy.http import Response
from twisted.internet.error import ConnectionRefusedError as RefusedError

from scrapy_rep import stats
from tests.frontier.fakes import Crawl, page

if TYPE_CHECKING:
    import pytest
    from scrapy import Request

URL = "http://a.example/robots.txt"


def refused(crawl: Crawl) -> list[Request]:
    return [request for request, _ in crawl.engine.scraper.failed]


def give_up(crawl: Crawl) -> None:
    """Let the robots.txt fail twice, with a connection that is refused."""
    for _ in range(2):
        crawl.fail(URL, RefusedError())


def test_robotstxt_itself() -> None:
    """A spider that requests robots.txt itself gets the server's answer, also from
    a host that is given up.
    """
    crawl = Crawl()
    itself = crawl.push(URL)
    other = crawl.push("http://a.example/page")
    give_up(crawl)
    assert crawl.pass_time(0.1) == [itself]
    assert crawl.on_network == [URL]
    crawl.answer(itself, status=500)
    assert isinstance(crawl.ended[itself], Response)
    assert refused(crawl) == [other]


def test_a_request_without_an_errback() -> None:
    """A request without an errback is refused and counted."""
    crawl = Crawl()
    request = page("http://a.example/page")
    request.errback = None
    crawl.push(request)
    give_up(crawl)
    crawl.pass_time(0.1)
    assert len(crawl.queues[0]) == 0
    assert crawl.crawler.stats.get_value(stats.GIVEN_UP) == 1
    assert not refused(crawl)


def test_bounded_in_each_turn_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one turn of the event loop, requests are refused for at most 5 ms."""
    crawl = Crawl()
    for number in range(100):
        crawl.push(f"http://a.example/{number}")
    give_up(crawl)
    clock, done = crawl.clock, []

    def tick(request: Request) -> None:
        clock._now += 0.001

    crawl.engine.scraper.on_failed.append(tick)
    call_later = clock.call_later
    monkeypatch.setattr(
        clock,
        "call_later",
        lambda *args: done.append(len(refused(crawl))) or call_later(*args),
    )
    crawl.pass_time(1)
    assert len(refused(crawl)) == 100
    assert max(after - before for before, after in pairwise(done)) <= 6


def test_callbacks_that_cant_keep_up() -> None:
    """Nothing is refused while the scraper is full; the requests are refused later."""
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.engine.scraper.is_full = True
    give_up(crawl)
    crawl.pass_time(10)
    assert not refused(crawl)
    crawl.engine.scraper.is_full = False
    crawl.pass_time(0.1)
    assert len(refused(crawl)) == 1


def test_a_host_that_is_back_meanwhile() -> None:
    """If robots.txt is back before all requests are refused, the others are sent."""
    crawl = Crawl()
    request = crawl.push("http://a.example/1")
    crawl.engine.scraper.is_full = True
    give_up(crawl)
    crawl.pass_time(60)
    crawl.outside("http://a.example/2")
    crawl.answer(URL, "")
    crawl.engine.scraper.is_full = False
    assert crawl.pass_time(0.1) == [request]
    assert not refused(crawl)


def test_an_error_on_the_way(caplog: pytest.LogCaptureFixture) -> None:
    """If one refusal raises, the error is logged, and the others are still refused."""
    crawl = Crawl()
    for number in range(3):
        crawl.push(f"http://a.example/{number}")
    reporter = crawl.frontier.refusing._reporter
    with mock.patch.object(
        reporter,
        "refused",
        wraps=reporter.refused,
        side_effect=[OSError("broken"), mock.DEFAULT, mock.DEFAULT],
    ):
        give_up(crawl)
        crawl.pass_time(1)
    assert "broken" in caplog.text
    assert len(refused(crawl)) == 2
