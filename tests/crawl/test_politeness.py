"""Crawl-delay, Request-rate and Visit-time hold, by the access logs of the hosts."""

from __future__ import annotations

import signal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl, start_crawl

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

DELAY = "User-agent: *\nCrawl-delay: {}\nDisallow: /private/\n"
SPIDERS = "tests.crawl.paced_spiders."
IMPATIENT = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "REP_WAIT_MAX": 0,
}
NOTING_SLOTS = {"DOWNLOADER": f"{SPIDERS}NotingDownloader"}


def slot_gaps(result: CrawlResult, host: Host) -> list[float]:
    """Return the seconds between successive requests of the download slot of
    *host*, by the clock of the crawl. The access log is not exact enough, since the
    server may log a request late.
    """
    times = result.stats[f"sent_at/{host.name}"]
    assert len(times) == len(host.hits)
    # Seconds since the epoch are exact to less than a microsecond.
    return [round(after - before, 5) for before, after in pairwise(times)]


def pages(host: Host, count: int) -> list[str]:
    return [host.url(f"/page/{number}") for number in range(count)]


def in_slots(urls: Iterable[str], *slots: str) -> list[dict[str, object]]:
    return [
        {"url": url, "meta": {"download_slot": slots[number % len(slots)]}}
        for number, url in enumerate(urls)
    ]


def check_all_fetched(result: CrawlResult, count: int) -> None:
    assert result.exit_code == 0, result.log
    assert len(result.responses) == count
    assert result.errors == []
    assert "log_count/ERROR" not in result.stats, result.log


@pytest.mark.slow
def test_pace(site: Site, mode: str) -> None:
    """A delay of 0.2 s passes between all requests to a host: after robots.txt, through
    redirects, http and https, custom download slots, and after Scrapy deleted an idle slot.
    Hosts in one download slot keep a delay each, and a host without one is not slowed down.
    """
    plain = site.add(DELAY.format(0.2))
    redirecting = site.add(DELAY.format(0.2), name="127.0.0.2")
    for number in range(5):
        redirecting.answers[f"/page/{number}"] = redirect(f"/target/{number}")
    slotted = site.add(DELAY.format(0.2), name="127.0.0.3")
    insecure = site.add(DELAY.format(0.2), name="127.0.0.4")
    secure = site.add("User-agent: *\nRequest-rate: 5/1\n", name="127.0.0.4", tls=True)
    longer = site.add(DELAY.format(0.2), name="127.0.0.5")
    shorter = site.add(DELAY.format(0.1), name="127.0.0.6")
    fast = site.add("User-agent: *\nDisallow: /private/\n", name="127.0.0.7")
    # The answer comes after all requests to the fast host, and the next request waits for
    # it.
    plain.answers["/page/0"] = Answer(after=lambda: len(fast.pages) == 10)
    requests = [
        *pages(plain, 11),
        *pages(redirecting, 5),
        *in_slots(pages(slotted, 10), "one", "other"),
        *pages(insecure, 5),
        *pages(secure, 5),
        *in_slots(pages(longer, 5) + pages(shorter, 5), "shared"),
        *pages(fast, 10),
    ]
    result = run_crawl(
        requests, mode=mode, spider=SPIDERS + "CollectingSpider", settings=IMPATIENT
    )
    check_all_fetched(result, 56)
    for hosts, count, delay in (
        ([plain], 12, 0.2),
        ([redirecting], 11, 0.2),
        ([slotted], 11, 0.2),
        ([insecure, secure], 12, 0.2),
        ([longer], 6, 0.2),
        ([shorter], 6, 0.1),
    ):
        times = sorted(hit.time for host in hosts for hit in host.hits)
        found = [after - before for before, after in pairwise(times)]
        if len(hosts) == 2:
            # Both files of two origins are fetched before a delay is known.
            found = sorted(found)[1:]
        assert len(found) >= count - 2
        assert min(found) >= delay, hosts
    assert result.stats["collected"] > 0
    assert fast.hits[-1].time < plain.hits[2].time
    assert min(fast.gaps) < 0.2
    assert result.stats["rep/crawl_delay/hosts"] == 7
    assert result.stats["rep/crawl_delay/waited"] > 3
    lines = result.lines("INFO", "held up the crawl")
    assert len(lines) == 5
    assert "with a delay of 0.2 s (requests: 11)" in " ".join(lines)


def test_the_longer_delay_holds(site: Site, mode: str) -> None:
    """A delay of the project is kept if it is longer than the Crawl-delay, which holds beside the
    shorter delays of AutoThrottle, DOWNLOAD_DELAY and DOWNLOAD_SLOTS.
    """
    settings = {
        **IMPATIENT,
        **NOTING_SLOTS,
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.3,
        "DOWNLOAD_DELAY": 0.02,
        "DOWNLOAD_SLOTS": {
            "127.0.0.2": {"concurrency": 8, "delay": 0.01},
            "127.0.0.3": {"delay": 0.3, "randomize_delay": False},
        },
    }
    delays = {"127.0.0.1": 0.3, "127.0.0.2": 0.2, "127.0.0.3": 0.1}
    hosts = [site.add(DELAY.format(delays[name]), name=name) for name in delays]
    requests: list[Any] = [url for host in hosts[:2] for url in pages(host, 5)]
    # Otherwise AutoThrottle shortens the delay of the project.
    meta = {"autothrottle_dont_adjust_delay": True}
    requests += [{"url": url, "meta": meta} for url in pages(hosts[2], 5)]
    result = run_crawl(requests, mode=mode, settings=settings)
    check_all_fetched(result, 15)
    assert min(slot_gaps(result, hosts[-1])) >= 0.3
    for host in hosts:
        assert min(host.gaps) >= delays[host.name]


@pytest.mark.newest
def test_a_delay_longer_than_the_robotstxt_holds(site: Site) -> None:
    """A robots.txt holds until a request has its turn, also if it holds for a shorter time than
    its Crawl-delay.
    """
    host = site.add(DELAY.format(0.6))
    urls = [host.url("/1"), host.url("/2")]
    settings = {"REP_MAX_AGE": 0.2, "CLOSESPIDER_TIMEOUT": 60}
    result = run_crawl(urls, settings=settings)
    assert result.fetched() == urls
    assert len(host.robots_hits) <= 2
    assert min(host.gaps) >= 0.6


@pytest.mark.newest
def test_too_long(site: Site) -> None:
    """A host whose Crawl-delay exceeds REP_CRAWL_DELAY_MAX gets no requests after
    robots.txt. One warning names the setting, and each errback gets the reason.
    """
    host, other = site.add(DELAY.format(3600)), site.add(DELAY.format("0.01"))
    result = run_crawl(pages(host, 20) + pages(other, 3), settings=IMPATIENT)
    assert [hit.path for hit in host.hits] == ["/robots.txt"]
    assert len(other.pages) == 3
    assert {error["reason"] for error in result.errors} == {"crawl-delay"}
    assert len(result.errors) == len(result.denied) == 20
    found = {(error["agent"], error["rule"], error["line"]) for error in result.errors}
    assert found == {("*", "3600", 2)}
    (line,) = result.lines("WARNING", "skipped")
    assert host.origin in line
    assert "3600 s" in line
    assert "REP_CRAWL_DELAY_MAX (180)" in line
    assert result.stats["rep/crawl_delay/skipped"] == 1
    assert result.stats["rep/denied/crawl-delay"] == 20
    assert result.stats["robotstxt/forbidden"] == 20


@pytest.mark.newest
@pytest.mark.parametrize(
    "settings", [{"REP_CRAWL_DELAY": False}, {"REP_DIALECT": "google"}]
)
def test_switched_off(site: Site, settings: dict[str, object]) -> None:
    """With REP_CRAWL_DELAY = False, or in Google's dialect, Crawl-delay and Visit-time are ignored."""
    host = site.add(f"{DELAY.format(3600)}Visit-time: 1200-1300\n")
    result = run_crawl(
        pages(host, 20),
        spider=SPIDERS + "VisitingSpider",
        settings={**IMPATIENT, **settings},
        seconds=3600,
    )
    check_all_fetched(result, 20)
    assert "rep/crawl_delay/hosts" not in result.stats


@pytest.mark.newest
def test_what_a_crawl_that_waits_says(site: Site) -> None:
    """For a host with a Crawl-delay over 10 s and many waiting requests, the log says once how long
    they will take. While nothing can be sent, it says regularly how many requests wait for how
    many hosts. SIGINT ends the crawl.
    """
    host = site.add(DELAY.format(60))
    down = site.add(Answer(status=503), name="127.0.0.2")
    constants = {
        "scrapy_rep.frontier.hosts._LOG_AFTER": 1.0,
        "scrapy_rep.frontier.frontier._LOG_EVERY": 0.2,
    }
    settings = {**IMPATIENT, "REP_WAIT_MAX": 600}
    urls = pages(host, 61) + pages(down, 5)
    crawl = start_crawl(urls, settings=settings, constants=constants)
    waits = "Nothing to do at the moment: 66 requests wait for 2 hosts"
    crawl.until(
        lambda: "61 requests that wait" in crawl.log and crawl.log.count(waits) > 1
    )
    crawl.process.send_signal(signal.SIGINT)
    result = crawl.result(60)
    (line,) = result.lines("INFO", "127.0.0.1 asks for 60 s between requests")
    assert "1:01:00" in line
    assert result.stats["finish_reason"] == "shutdown"
    assert host.pages == []


@pytest.mark.newest
@pytest.mark.parametrize("is_slow_at_first", [True, False])
def test_a_new_robotstxt(site: Site, is_slow_at_first: bool) -> None:
    """A Crawl-delay that is new in a refreshed robots.txt holds from the refresh on. One
    that is dropped no longer holds.
    """
    slow, free = robots(DELAY.format(0.4)), robots("User-agent: *\nDisallow: /no/\n")
    host = site.add([slow, free] if is_slow_at_first else [free, slow])
    result = run_crawl(
        pages(host, 8),
        spider="tests.crawl.waiting_spiders.ClockSpider",
        moves={"/page/4": 25 * 3600},
        settings={**IMPATIENT, "CONCURRENT_REQUESTS": 1},
    )
    check_all_fetched(result, 8)
    (_, refreshed) = host.robots_hits
    times = [hit.time for hit in host.hits]
    before = [b - a for a, b in pairwise(times) if b < refreshed.time]
    after = [b - a for a, b in pairwise(times) if a >= refreshed.time]
    delayed, quick = (before, after) if is_slow_at_first else (after, before)
    assert min(delayed) >= 0.4
    assert min(quick) < 0.4


def test_cached_pages_wait_for_nobody(site: Site, tmp_path: Path) -> None:
    """Responses from Scrapy's HTTP cache do not wait for a Crawl-delay."""
    host = site.add(DELAY.format(0.2))
    cache = {
        **IMPATIENT,
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path),
    }
    first = run_crawl(pages(host, 8), settings=cache)
    assert min(host.gaps) >= 0.2
    again = run_crawl(pages(host, 8), settings=cache)
    for result in (first, again):
        check_all_fetched(result, 8)
    assert len(host.pages) == 8
    # Only the first page waits, for the delay after robots.txt.
    waited = "rep/crawl_delay/waited"
    assert again.stats[waited] < first.stats[waited] / 2


def test_what_does_not_come_from_the_queue(site: Site, mode: str) -> None:
    """``download_async`` in a callback waits for its turn, beside requests of which another
    component drops some: the next one is sent.
    """
    host, other = site.add(DELAY.format(0.1)), site.add(name="127.0.0.2")
    twice = [{"url": url, "dont_filter": True} for url in pages(host, 4) * 2]
    passing = {"tests.crawl.waiting_spiders.PassOnce": 700}
    result = run_crawl(
        [other.url("/page"), *twice],
        mode=mode,
        spider="tests.crawl.waiting_spiders.DownloadingSpider",
        settings={**IMPATIENT, "DOWNLOADER_MIDDLEWARES": passing},
        more=[host.url(f"/more/{number}") for number in range(5)],
    )
    downloaded = {item["url"] for item in result.items if item.get("status") == 200}
    assert len(downloaded) == 5
    assert len(host.pages) == len(set(host.pages)) == 9
    assert len(result.errors) == 4
    assert min(host.gaps) >= 0.1
    assert result.stats["elapsed_time_seconds"] < 30


@pytest.mark.slow
def test_a_redirect_to_another_host(site: Site) -> None:
    """The target of a redirect to another host does not wait for the delay of the first
    host, although Scrapy keeps the request in the slot of that host.
    """
    slow = site.add(DELAY.format(1))
    fast = site.add("User-agent: *\nDisallow: /private/\n", name="127.0.0.2")
    slow.answers["/page/0"] = redirect(fast.url("/target"))
    result = run_crawl(pages(slow, 2), then=pages(fast, 10), settings=IMPATIENT)
    check_all_fetched(result, 12)
    assert sum(fast.gaps[2:]) < 7
    assert min(slow.gaps) >= 1


def test_robotstxt_runs_out_while_a_request_has_the_turn(
    site: Site, every_mode: str
) -> None:
    """If robots.txt becomes stale while a request has the turn, robots.txt is fetched
    first, without a deadlock.
    """
    host = site.add(DELAY.format(0.1))
    result = run_crawl(
        pages(host, 6),
        mode=every_mode,
        spider="tests.crawl.waiting_spiders.ClockSpider",
        settings={
            **IMPATIENT,
            "DOWNLOADER_MIDDLEWARES": {"tests.crawl.waiting_spiders.DayGoesBy": 100},
        },
        timeout=30,
    )
    check_all_fetched(result, 6)
    assert len(host.robots_hits) == 2
    assert min(host.gaps) >= 0.1


# Visit-time.

HOURS = "User-agent: *\nVisit-time: 1200-1300\nCrawl-delay: 0.2\n"


@pytest.mark.slow
def test_before_it_opens(site: Site, mode: str) -> None:
    """Requests wait until Visit-time begins, without holding up other hosts, and are then
    sent with the Crawl-delay.
    """
    host = site.add(HOURS)
    other = site.add("User-agent: *\nVisit-time: 1000-1500\n", name="127.0.0.2")
    result = run_crawl(
        [*pages(host, 5), *pages(other, 10)],
        mode=mode,
        spider=SPIDERS + "VisitingSpider",
        settings={**IMPATIENT, "REP_WAIT_MAX": 3600, "CONCURRENT_REQUESTS": 4},
        seconds=2,
    )
    check_all_fetched(result, 15)
    assert host.gaps[0] >= 2
    assert min(host.gaps[1:]) >= 0.2
    assert max(hit.time for hit in other.hits) < host.hits[1].time
    (line,) = result.lines("INFO", "wants no visits for another 0:00:0")
    assert host.origin in line


@pytest.mark.newest
def test_too_long_before_it_opens(site: Site) -> None:
    """Requests that would wait for Visit-time longer than REP_WAIT_MAX are refused, and the log
    says so once.
    """
    host = site.add(HOURS)
    settings = {**IMPATIENT, "REP_WAIT_MAX": 60}
    spider = SPIDERS + "VisitingSpider"
    result = run_crawl(pages(host, 10), spider=spider, settings=settings, seconds=3600)
    assert host.pages == []
    assert [error["reason"] for error in result.errors] == ["visit-time"] * 10
    found = {(error["rule"], error["line"]) for error in result.errors}
    assert found == {("1200-1300", 2)}
    (line,) = result.lines("WARNING", "60 s before that time (REP_WAIT_MAX)")
    assert "before 12:00 UTC" in line
    assert result.stats["rep/denied/visit-time"] == 10
