"""Crawls in one process share the delays of hosts."""

from __future__ import annotations

from unittest import mock

import pytest

from scrapy_rep.frontier import shareddelays
from tests.frontier.fakes import Crawl, FakeClock

pytestmark = pytest.mark.newest

DELAYED = "User-agent: *\nCrawl-delay: 5\n"
ROBOTS = "http://a.example/robots.txt"


def start_one_after_the_other(first: Crawl, second: Crawl) -> None:
    """Start two crawls of a host, the second while the first one fetches a page."""
    first.push("http://a.example/1")
    first.run()
    first.answer(ROBOTS, DELAYED)
    first.pass_time(5)
    assert first.on_network == ["http://a.example/1"]
    second.push("http://a.example/2")
    second.run()


def test_a_robotstxt_waits_for_the_delay_of_another_crawl() -> None:
    """A crawl fetches the robots.txt of a host only after the delay that another crawl has
    learned for that host.
    """
    clock = FakeClock()
    first, second = Crawl(clock=clock), Crawl(clock=clock)
    start_one_after_the_other(first, second)
    # The first crawl has the turn; the delay begins when its request ends.
    second.pass_time(4)
    assert second.on_network == []
    first.answer("http://a.example/1")
    second.pass_time(4.9)
    assert second.on_network == []
    second.pass_time(5)
    assert second.on_network == [ROBOTS]


@pytest.mark.parametrize("is_shared", [False, True])
def test_crawls_that_share_delays_or_not(is_shared: bool) -> None:
    """A crawl waits for other crawls unless REP_SHARED_DELAY is off."""
    clock = FakeClock()
    first, second = (Crawl(clock=clock, REP_SHARED_DELAY=is_shared) for _ in range(2))
    start_one_after_the_other(first, second)
    assert second.on_network == ([] if is_shared else [ROBOTS])


def test_hosts_are_forgotten() -> None:
    """Above a number of hosts, idle hosts whose delay has passed are forgotten."""
    clock = FakeClock()
    crawl = Crawl(clock=clock)
    with mock.patch.object(shareddelays, "_MAX_HOSTS", 3):
        for number in range(10):
            host = f"http://{number}.example"
            crawl.push(f"{host}/")
            crawl.run()
            crawl.answer(f"{host}/robots.txt", DELAYED)
            crawl.pass_time(5)
            crawl.answer(f"{host}/")
            crawl.pass_time(5)
        table = shareddelays._TABLES[clock]
        assert 1 <= len(table) <= 5
        assert "9.example" in table
        assert "0.example" not in table
