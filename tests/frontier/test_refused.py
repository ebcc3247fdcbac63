"""The requests in a queue whose host is refused."""

from __future__ import annotations

from twisted.internet.error import ConnectionRefusedError as RefusedError

from scrapy_rep.exceptions import RobotsDenied
from tests.frontier.fakes import Crawl

A = "http://a.example"
ROBOTS = f"{A}/robots.txt"


def give_up(crawl: Crawl, *, runs: bool = True) -> None:
    """Let the robots.txt fail twice, with a connection that is refused."""
    crawl.fail(ROBOTS, RefusedError())
    crawl.fail(ROBOTS, RefusedError(), runs=runs)


def test_without_places() -> None:
    """All are refused one after the other, without a place at their host, in turns with the requests
    of other hosts.
    """
    crawl = Crawl(CONCURRENT_REQUESTS_PER_DOMAIN=1, CONCURRENT_REQUESTS=100)
    dead = [crawl.push(f"{A}/{number}") for number in range(10)]
    give_up(crawl, runs=False)
    other = crawl.push("http://b.example/")
    crawl.run()
    assert crawl.on_network == ["http://b.example/robots.txt"]
    assert [type(crawl.ended[request]) for request in dead] == [RobotsDenied] * 10
    assert other not in crawl.ended
    assert len(crawl.queues[0]) == 1
    assert not crawl.frontier.core.scopes.get("a.example").in_flight


def test_robotstxt_itself() -> None:
    """A spider that requests robots.txt itself gets the server's answer, also from
    a host that is given up.
    """
    crawl = Crawl()
    itself = crawl.push(ROBOTS)
    other = crawl.push(f"{A}/page")
    give_up(crawl)
    assert crawl.on_network == [ROBOTS]
    crawl.answer(itself, "", status=500)
    assert crawl.ended[itself].status == 500
    assert isinstance(crawl.ended[other], RobotsDenied)


def test_a_host_that_is_back_meanwhile() -> None:
    """If robots.txt is back before all requests are refused, the others are sent."""
    crawl = Crawl()
    crawl.push(f"{A}/1")
    crawl.downloader.total_concurrency = 0
    give_up(crawl)
    crawl.pass_time(60)
    crawl.outside(f"{A}/2")
    crawl.answer(ROBOTS, "")
    crawl.downloader.total_concurrency = 8
    crawl.engine.wake()
    crawl.run()
    assert f"{A}/1" in crawl.on_network
