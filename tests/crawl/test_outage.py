"""While a robots.txt is unreachable, requests wait until it is back, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import HANGS, Answer, busy, robots
from tests.crawl.crawl import RETRIED_SOON, run_crawl

if TYPE_CHECKING:
    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"
ALLOWED = [f"/public/{number}" for number in range(12)]
FORBIDDEN = [f"/private/{number}" for number in range(8)]
DOWN = Answer(status=503)
WAITING = {
    "CONCURRENT_REQUESTS": 16,
    "REP_WAIT_MAX": 30,
}


def all_urls(hosts: list[Host]) -> list[str]:
    return [host.url(path) for path in ALLOWED + FORBIDDEN for host in hosts]


def check_nothing_lost(hosts: list[Host], result: CrawlResult) -> None:
    """Check that each allowed URL was fetched once, and each forbidden one
    was refused by its rule.
    """
    for host in hosts:
        assert host.pages == sorted(ALLOWED)
        for path in FORBIDDEN:
            assert result.error(host.url(path))["reason"] == "rule"
    assert len(result.errors) == len(FORBIDDEN) * len(hosts)
    assert len(result.responses) == len(ALLOWED) * len(hosts)
    assert result.stats["finish_reason"] == "finished"
    assert "rep/denied/unreachable" not in result.stats
    assert "log_count/ERROR" not in result.stats, result.log


@pytest.mark.slow
def test_ten_hosts_that_come_back(site: Site, mode: str) -> None:
    """200 requests to 10 hosts whose robots.txt is unreachable two or three times: none is lost,
    and no page is fetched twice or against the rules. Meanwhile, the spider is not idle.
    """
    asked, late = busy(503, "2"), Answer(status=429)
    # A robots.txt without an answer is fetched once more at once.
    failures = [*[[DOWN] * 3] * 4, *[[asked]] * 3, *[[late] * 2] * 2, [HANGS] * 2]
    hosts = [site.add([*failed, robots(RULES)]) for failed in failures]
    settings = {**WAITING, "DOWNLOAD_TIMEOUT": 1}
    result = run_crawl(
        all_urls(hosts), mode=mode, settings=settings, constants=RETRIED_SOON
    )
    check_nothing_lost(hosts, result)
    assert result.stats["idle"] == 1  # Not while requests wait.
    for host, failed in zip(hosts, failures, strict=True):
        assert len(host.robots_hits) == len(failed) + 1
        if failed == [asked]:
            first, second = host.robots_hits
            assert second.time - first.time >= 2


@pytest.mark.slow
def test_a_clock_that_is_set_forward(site: Site, mode: str) -> None:
    """A clock that is set forward in an outage, as by NTP on a machine without a clock of its
    own, does not end the outage: no forbidden page is fetched.
    """
    hosts = [site.add([DOWN, DOWN, robots(RULES)])]
    result = run_crawl(
        all_urls(hosts),
        mode=mode,
        spider="tests.crawl.waiting_spiders.ClockSpider",
        settings=WAITING,
        constants=RETRIED_SOON,
        moves={"/robots.txt": 31 * 24 * 3600.0},
    )
    check_nothing_lost(hosts, result)
    assert len(hosts[0].robots_hits) == 3


@pytest.mark.newest
def test_giving_up(site: Site, mode: str) -> None:
    """After REP_WAIT_MAX, errbacks get RobotsDenied. Before that, robots.txt is fetched once
    more, even if it is not due yet. At the beginning, the log says how many requests wait, how
    long, and when robots.txt is tried again; at the end, how many are given up.
    """
    host = site.add(DOWN)
    urls = list(map(host.url, ALLOWED))
    result = run_crawl(urls, mode=mode, settings={**WAITING, "REP_WAIT_MAX": 2})
    assert host.pages == []
    assert len(host.robots_hits) == 2
    assert {error["error"] for error in result.errors} == {"RobotsDenied"}
    assert {error["reason"] for error in result.errors} == {"unreachable"}
    assert "status 503" in result.errors[0]["message"]
    assert sorted(error["url"] for error in result.errors) == sorted(urls)
    assert result.stats["rep/denied/unreachable"] == len(urls)
    assert 2 <= result.stats["elapsed_time_seconds"]
    first, last = result.lines("WARNING", host.robotstxt)
    assert "wait for up to 0:00:02" in first
    assert "fetched again in 0:0" in first
    assert f"({len(ALLOWED)} in the queue)" in last


def test_nobody_answers(site: Site, mode: str) -> None:
    """If connections are refused or the host name is unknown, requests are refused at
    once, after a second attempt.
    """
    host, other = site.refusing(), site.add(RULES)
    nowhere = "http://nosuchhost.invalid"
    urls = [site + path for path in ALLOWED for site in (host.origin, nowhere)]
    result = run_crawl(
        [*urls, other.url("/page")],
        mode=mode,
        settings={**WAITING, "REP_WAIT_MAX": 600},
    )
    assert other.pages == ["/page"]
    assert {error["reason"] for error in result.errors} == {"unreachable"}
    assert sorted(error["url"] for error in result.errors) == sorted(urls)
    assert result.stats["robotstxt/request_count"] == 3
    exceptions = [key for key in result.stats if "robotstxt/exception_count" in key]
    assert sum(result.stats[key] for key in exceptions) == 4
    refused = "is unreachable (no answer: connection refused): requests to this host"
    assert len(result.lines("WARNING", host.robotstxt, refused, "are refused")) == 1
    unresolved = "(no answer: the host name could not be resolved)"
    assert len(result.lines("WARNING", nowhere, unresolved)) == 1
    assert "Failure" not in result.log


def test_what_a_callback_downloads_itself(site: Site, mode: str) -> None:
    """``download_async`` in a callback is refused at once if robots.txt is unreachable,
    since the page or item would hold up the crawl.
    """
    down, up = site.add(DOWN), site.add(RULES)
    result = run_crawl(
        [up.url("/page")],
        mode=mode,
        spider="tests.crawl.waiting_spiders.DownloadingSpider",
        settings={
            **WAITING,
            "REP_WAIT_MAX": 600,
            "DOWNLOADER_MIDDLEWARES": {"tests.crawl.waiting_spiders.CountPasses": 594},
        },
        more=list(map(down.url, ALLOWED)),
    )
    assert down.pages == []
    assert [item["error"] for item in result.items] == ["RobotsDenied"] * len(ALLOWED)
    # Each waits for the fetch of robots.txt, and passes the middleware once.
    assert result.stats["passes"] == 1 + len(ALLOWED)
    assert len(down.robots_hits) == 1
