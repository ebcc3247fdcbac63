"""Tests of outages of the crawler's own network, or of its machine: no page is lost, and no host is blamed.

``tests/simulation`` tests outages of all hosts at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, busy, robots
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.pauses import pages
from tests.crawl.test_ledger import headline
from tests.effort import is_long

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.crawl import RunningCrawl
    from tests.crawl.server import Site

pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

CLOSE = {"Connection": "close"}
MAX_FILES = 64
SETTINGS = {
    "CONCURRENT_REQUESTS": 16,
    "REP_WAIT_TIMEOUT": 60,
    "RETRY_ENABLED": True,
}
SHORT_PAUSES = {
    "scrapy_rep.crawl.frontier.rules._NO_SERVER_WAIT": 1.0,
    "scrapy_rep.crawl.frontier.network._FIRST_PAUSE": 0.2,
    "scrapy_rep.crawl.frontier.network._MAX_PAUSE": 0.2,
}


def test_no_page_is_lost_while_a_proxy_is_dead(site: Site, mode: str) -> None:
    """The crawl takes a dead proxy for an outage of its own network, and blames no host. The log says that the
    network is gone, and later that it is back.
    """
    proxy = site.refusing()
    crawl = start_crawl(
        [
            {"url": f"http://h{n}.test/{page}", "meta": {"proxy": proxy.origin}}
            for n in range(8)
            for page in "12"
        ],
        mode=mode,
        settings=SETTINGS,
        constants=SHORT_PAUSES,
    )
    crawl.until(lambda: "network of the crawler is gone" in crawl.log)
    site.listen(proxy)
    result = crawl.result()
    assert len(result.fetched()) == 16
    assert not result.errors
    assert len(result.lines("WARNING", "network")) == 1
    assert len(result.lines("INFO", "network of the crawler is back")) == 1


@pytest.mark.newest
def test_all_pages_are_fetched_with_too_few_file_descriptors(site: Site) -> None:
    """The process can have fewer files open than there are hosts. The crawl fetches all pages nevertheless:
    the servers close their connections, so that file descriptors become free.
    """
    crawls: list[RunningCrawl] = []

    def are_used_up() -> bool:
        return any("run out of file descriptors" in crawl.log for crawl in crawls)

    rules = "User-agent: *\nDisallow: /private\n"
    host = site.add(robots(rules, headers=CLOSE, delay=0.3, after=are_used_up))
    host.answers["/1"] = Answer(b"A page", headers=CLOSE)
    crawl = start_crawl(
        [f"http://f{n}.test:{host.port}/1" for n in range(2 * MAX_FILES)],
        settings={**SETTINGS, "CONCURRENT_REQUESTS": 2 * MAX_FILES},
        names={"*.test": ["127.0.0.1"]},
        max_files=MAX_FILES,
    )
    crawls.append(crawl)
    result = crawl.result(60)
    assert not result.errors
    assert len(result.fetched()) == 2 * MAX_FILES
    assert len(result.lines("WARNING", "run out of file descriptors")) == 1


@pytest.mark.newest
def test_a_robotstxt_that_a_browser_waits_for_keeps_the_pause_without_file_descriptors(
    site: Site,
) -> None:
    """While a page for a browser is in flight, a robots.txt of the same host passes most limits. It fails, as the
    process has no file descriptors. It is sent again after the pause, when there are file descriptors, and not as fast
    as it fails.

    The test needs no browser, since the frontier knows the page only by the meta key of its request.
    """
    host, other = site.add(), site.add()
    host.answers |= {
        "/browser": Answer(after=lambda: other.pages),
        "/exhaust": Answer(after=lambda: host.hits_on("/browser")),
    }
    result = run_crawl(
        [
            {"url": host.url("/browser"), "meta": {"playwright": True}},
            host.url("/exhaust"),
        ],
        spider="tests.crawl.waiting_spiders.ExhaustingSpider",
        settings={
            **SETTINGS,
            "PLAYWRIGHT_ABORT_REQUEST": "scrapy_rep.playwright.abort_forbidden",
        },
        constants={"scrapy_rep.crawl.frontier.frontier._EXHAUSTED": 1.2},
        max_files=MAX_FILES,
        follow=[other.url("/page")],
        seconds=0.7,
        timeout=60,
    )
    assert result.errors == []
    assert other.pages == ["/page"]
    assert len(result.lines("WARNING", "run out of file descriptors")) == 1
    assert result.stats["downloader/exception_count"] == 1


def host_names(count: int) -> list[str]:
    return [f"h{number}.test" for number in range(count)]


@pytest.mark.newest
def test_the_crawl_ends_with_network_gone_if_all_hosts_begin_to_refuse_connections(
    site: Site, tmp_path: Path
) -> None:
    """If all hosts ban the crawler, this looks like an outage of its own network. The crawl ends after
    REP_WAIT_TIMEOUT, and the JOBDIR keeps the requests that were not sent. One warning and the headline of the
    report say how many requests were not sent.
    """
    host = site.add(robots("User-agent: *\nDisallow: /private\n", headers=CLOSE))
    timeout = 2
    result = run_crawl(
        [
            f"http://{name}:{host.port}/{page}"
            for name in host_names(6)
            for page in range(5)
        ],
        # Nothing listens at the second address.
        names={name: ["127.0.0.1", "127.0.0.9"] for name in host_names(6)},
        settings={
            **SETTINGS,
            "DNSCACHE_ENABLED": False,
            "JOBDIR": str(tmp_path / "job"),
            "REP_BACKOFF_MAX": 60,
            "REP_LEDGER": str(tmp_path / "ledger"),
            "REP_WAIT_TIMEOUT": timeout,
        },
        constants={
            **SHORT_PAUSES,
            "scrapy_rep.crawl.frontier.limits._FIRST_PAUSE": 0.2,
        },
    )
    assert result.stats["finish_reason"] == "network_gone"
    assert result.stats["elapsed_time_seconds"] < timeout + 10
    (line,) = result.lines("WARNING", "gone for longer than REP_WAIT_TIMEOUT")
    assert (
        "start the crawl again with the same JOBDIR, which contains these requests"
        in line
    )
    not_sent = result.stats["rep/network/not_sent"]
    assert f" {not_sent} requests to " in line
    assert headline(str(tmp_path / "ledger")) == (
        "No page was fetched, no request was refused, and "
        f"{not_sent} requests were not sent because the network was gone"
    )
    second_result = run_crawl(
        [],
        names={name: ["127.0.0.1"] for name in host_names(6)},
        settings={
            **SETTINGS,
            "DNSCACHE_ENABLED": False,
            "JOBDIR": str(tmp_path / "job"),
        },
    )
    answered = {response["url"] for response in second_result.responses}
    failed = {error["url"] for error in result.errors}
    assert len(answered | failed) == 30
    # Few requests have failed, since Scrapy retries each failed download twice.
    assert len(answered) >= 20


@pytest.mark.newest
def test_the_crawl_ends_with_network_gone_although_a_component_holds_a_robotstxt(
    site: Site,
) -> None:
    """After all hosts have begun to refuse connections, the crawl tries the network with a robots.txt. A middleware
    holds this request back for ever. The crawl ends after REP_WAIT_TIMEOUT nevertheless.
    """
    host = site.add()
    # No page is requested before all robots.txt files.
    host.answers["/robots.txt"] = robots(
        "User-agent: *\nDisallow: /private\n",
        headers=CLOSE,
        after=lambda: len(host.robots_hits) == 6,
    )
    result = run_crawl(
        [
            f"http://{name}:{host.port}/{page}"
            for name in host_names(6)
            for page in "12"
        ],
        # Nothing listens at the second address.
        names={name: ["127.0.0.1", "127.0.0.9"] for name in host_names(6)},
        settings={
            **SETTINGS,
            "CLOSESPIDER_TIMEOUT": 20,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "DNSCACHE_ENABLED": False,
            "DOWNLOADER_MIDDLEWARES": {
                "tests.crawl.component_spiders.HoldLaterRobotsTxt": 500
            },
            "REP_WAIT_TIMEOUT": 1,
            "RETRY_ENABLED": False,
        },
        constants=SHORT_PAUSES,
        timeout=60,
    )
    assert result.stats["finish_reason"] == "network_gone"
    assert len(result.lines("WARNING", "gone for longer than REP_WAIT_TIMEOUT")) == 1
    assert len(host.robots_hits) == 6
    assert result.stats["held"] == 1


@pytest.mark.newest
def test_hosts_that_refuse_connections_from_the_start_are_no_network_outage(
    site: Site,
) -> None:
    """The crawl gives up each of these hosts on its own, and takes no longer for six hosts than for four."""
    refusing = site.refusing()
    durations = []
    for count in 4, 6:
        result = run_crawl(
            [
                f"http://{name}:{refusing.port}/{page}"
                for name in host_names(count)
                for page in "12"
            ],
            names={"*.test": ["127.0.0.1"]},
            settings={**SETTINGS, "REP_WAIT_TIMEOUT": 3},
            constants=SHORT_PAUSES,
        )
        assert result.stats["finish_reason"] == "robots_denied"
        assert len(result.errors) == 2 * count
        durations.append(result.stats["elapsed_time_seconds"])
    assert max(durations) < 1.5 * min(durations) + 1


@pytest.mark.newest
@pytest.mark.parametrize("job", ["", "job"])
def test_all_pages_are_fetched_although_the_resolver_fails_for_a_while(
    site: Site, tmp_path: Path, job: str
) -> None:
    """The resolver fails at the start and in the middle of the crawl."""
    host = site.add(robots("User-agent: *\nDisallow: /private\n", headers=CLOSE))
    host.answers |= {f"/{page}": Answer(b"A page", headers=CLOSE) for page in range(2)}
    count, seconds = (300, [6, 60]) if is_long else (60, [2, 2])
    result = run_crawl(
        [
            f"http://{name}:{host.port}/{page}"
            for page in range(2)
            for name in host_names(count)
        ],
        names={"*.test": ["127.0.0.1"]},
        settings={
            **SETTINGS,
            "DNSCACHE_ENABLED": False,
            "EXTENSIONS": {"tests.crawl.driver_middlewares.Outages": 1},
            "JOBDIR": str(tmp_path / job) if job else None,
            "OUTAGE_AFTER": count,
            "OUTAGE_SECONDS": seconds,
            "REP_BACKOFF_MAX": 60,
            "REP_WAIT_TIMEOUT": 60 + max(seconds),
        },
        constants=SHORT_PAUSES,
        timeout=300,
    )
    assert not result.errors
    assert len(result.fetched()) == 2 * count
    assert result.stats["finish_reason"] == "finished"


@pytest.mark.newest
def test_many_refusing_hosts_beside_one_that_answers_are_no_network_outage(
    site: Site,
) -> None:
    """The crawl does not keep mistaking the refused connections for a network outage. It ends soon, and the
    host that answers gets few requests for its robots.txt.
    """
    live = site.add("User-agent: *\nCrawl-delay: 1\n")
    refusing = site.refusing()
    result = run_crawl(
        [
            *(live.url(f"/{number}") for number in range(4)),
            *(f"http://{name}:{refusing.port}/" for name in host_names(10)),
        ],
        names={"*.test": ["127.0.0.1"]},
        settings={**SETTINGS, "REP_WAIT_TIMEOUT": 4},
        constants=SHORT_PAUSES,
    )
    assert len(live.pages) == 4
    assert len(result.errors) == 10
    assert len(live.robots_hits) <= 3
    assert result.stats["elapsed_time_seconds"] < 20


@pytest.mark.newest
def test_a_pause_that_begins_in_an_outage_is_timed_from_the_end_of_the_outage(
    site: Site,
) -> None:
    """A host answers each request with 429, first in an outage of over 1,000 seconds. Its requests wait for
    REP_WAIT_TIMEOUT after the outage, and are refused then. They do not wait for 1,000 seconds more.

    The outage begins with the failure of h0.test. Then the spider sets the clock forward, and four more hosts fail. It
    ends when one of them answers the next request for its robots.txt.
    """
    rules, refusing = "User-agent: *\nDisallow: /private\n", "127.0.0.9"
    failing = site.add(robots(rules, headers=CLOSE))
    busy_host = site.add(rules, name="127.0.0.3")
    h0, *others = [f"http://{name}:{failing.port}/page" for name in host_names(5)]
    start, sleep, slow = map(busy_host.url, ("/start", "/sleep", "/slow"))
    more = pages(busy_host, 60)

    def has_failed() -> bool:
        # This is enough time for the failure of the page that is requested after robots.txt.
        before = time.monotonic() - 0.3
        hits = failing.robots_hits
        return bool(hits and hits[0].answered and hits[0].answered < before)

    busy_host.answers |= {
        "/sleep": busy(429, after=has_failed),
        # While this page is in flight, the crawl cannot try the network with this host.
        "/slow": Answer(after=lambda: len(failing.robots_hits) > 1),
        **{f"/page/{number}": busy(429) for number in range(len(more))},
    }
    result = run_crawl(
        [start],
        names={
            **{name: [refusing, "127.0.0.1"] for name in host_names(5)},
            "h0.test": ["127.0.0.1", refusing],
        },
        spider="tests.crawl.waiting_spiders.SleepSpider",
        settings={
            **SETTINGS,
            "DNSCACHE_ENABLED": False,
            "REP_BACKOFF_MAX": 0.1,
            "REP_WAIT_TIMEOUT": 2,
            "RETRY_ENABLED": False,
        },
        constants={
            **SHORT_PAUSES,
            "scrapy_rep.crawl.frontier.limits._FIRST_PAUSE": 0.1,
        },
        seconds=1000.0,
        follow={
            start: [{"url": sleep}, {"url": slow}, {"url": h0}],
            sleep: [{"url": url} for url in others + more],
        },
    )
    assert result.stats["finish_reason"] == "finished"
    assert len(result.lines("INFO", "network of the crawler is back")) == 1
    assert {error["url"] for error in result.errors} <= {h0, *more}
    refused = [error for error in result.errors if error.get("reason") == "back-off"]
    assert len(refused) + sum("/page/" in path for path in busy_host.pages) == len(more)
    assert len(refused) > 0
