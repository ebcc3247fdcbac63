"""While a robots.txt is unreachable, requests wait until it is back, and none is lost."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, robots
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"
SPIDER = "tests.crawl.waiting_spiders.HurriedSpider"
ALLOWED = [f"/public/{number}" for number in range(12)]
FORBIDDEN = [f"/private/{number}" for number in range(8)]
DOWN = Answer(status=503)
WAITING = {
    "CONCURRENT_REQUESTS": 16,
    "REP_WAIT_MAX": 30,
}


def down_for(site: Site, seconds: float, answer: Answer) -> Host:
    """Add a host whose robots.txt fails with *answer* for *seconds*."""
    host = site.add(answer)
    back = partial(host.answers.__setitem__, "/robots.txt", robots(RULES))
    site.later(seconds, back)
    return host


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
    assert "rep/given_up" not in result.stats
    assert "log_count/ERROR" not in result.stats, result.log


@pytest.mark.slow
def test_ten_hosts_that_come_back(site: Site, mode: str) -> None:
    """200 requests to 10 hosts whose robots.txt is unreachable for 3 seconds: none is lost,
    and no page is fetched twice or against the rules. Meanwhile, the spider is not idle.
    """
    asked = Answer(status=503, headers={"Retry-After": "2"})
    late = Answer(status=429)
    answers = [DOWN, asked, DOWN, asked, DOWN, late, late, asked, DOWN]
    hosts = [down_for(site, 3, answer) for answer in [*answers, Answer(hang=True)]]
    settings = {**WAITING, "DOWNLOAD_TIMEOUT": 1}
    result = run_crawl(all_urls(hosts), mode=mode, spider=SPIDER, settings=settings)
    check_nothing_lost(hosts, result)
    assert result.stats["idle"] == 1  # Not while requests wait.
    for host, answer in zip(hosts, answers, strict=False):
        times = [hit.time for hit in host.robots_hits]
        pauses = [after - before for before, after in pairwise(times)]
        if answer is asked:
            assert min(pauses[:-1], default=2) > 1.9
        assert len(times) < 10


@pytest.mark.slow
def test_a_clock_that_is_set_forward(site: Site, mode: str) -> None:
    """A clock that is set forward in an outage, as by NTP on a machine without a clock of its
    own, does not end the outage: no forbidden page is fetched.
    """
    hosts = [down_for(site, 3, DOWN)]
    result = run_crawl(
        all_urls(hosts),
        mode=mode,
        spider="tests.crawl.waiting_spiders.ClockSpider",
        settings=WAITING,
        retries=(0.5, 1.0),
        moves={"/robots.txt": 31 * 24 * 3600.0},
    )
    check_nothing_lost(hosts, result)
    assert len(hosts[0].robots_hits) > 2


@pytest.mark.newest
def test_giving_up(site: Site, mode: str) -> None:
    """After REP_WAIT_MAX, errbacks get RobotsDenied. Before that, robots.txt is fetched once
    more, even if it is not due yet. At the beginning, the log says how many requests wait, how
    long, and when robots.txt is tried again; at the end, how many are given up.
    """
    host = site.add(DOWN)
    urls = list(map(host.url, ALLOWED))
    result = run_crawl(
        urls,
        mode=mode,
        spider=SPIDER,
        settings={**WAITING, "REP_WAIT_MAX": 2},
        retries=(60.0, 60.0),
    )
    assert host.pages == []
    assert len(host.robots_hits) == 2
    assert {error["error"] for error in result.errors} == {"RobotsDenied"}
    assert {error["reason"] for error in result.errors} == {"unreachable"}
    assert "status 503" in result.errors[0]["message"]
    assert sorted(error["url"] for error in result.errors) == sorted(urls)
    assert result.stats["rep/given_up"] == len(urls)
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
        spider=SPIDER,
        settings={**WAITING, "REP_WAIT_MAX": 600},
        retries=(60.0, 60.0),
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
        retries=(60, 60),  # So that the crawl ends before a retry.
    )
    assert down.pages == []
    assert [item["error"] for item in result.items] == ["RobotsDenied"] * len(ALLOWED)
    # Each waits for the fetch of robots.txt, and passes the middleware once.
    assert result.stats["passes"] == 1 + len(ALLOWED)
    assert len(down.robots_hits) == 1
