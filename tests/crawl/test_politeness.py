"""Tests of Crawl-delay and Request-rate, by the access logs of the hosts."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.crawl.answers import Answer, busy, redirect, robots
from tests.crawl.crawl import run_crawl, start_crawl
from tests.crawl.pauses import check_fetched, pages
from tests.crawl.test_ledger import rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.crawl.crawl import CrawlResult
    from tests.crawl.server import Host, Site


DELAY = "User-agent: *\nCrawl-delay: {}\nDisallow: /private/\n"
NO_DELAY = "User-agent: *\nDisallow: /private/\n"
SPIDERS = "tests.crawl.waiting_spiders"
COMPONENTS = "tests.crawl.component_spiders"
IMPATIENT = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "REP_WAIT_TIMEOUT": 0,
}


def in_slots(urls: Iterable[str], *slots: str) -> list[dict[str, object]]:
    """Return one request for each of *urls*. The first request is in the first of the download *slots*, the second
    request in the second slot, and so on. After the last slot comes the first again.
    """
    return [
        {"url": url, "meta": {"download_slot": slots[number % len(slots)]}}
        for number, url in enumerate(urls)
    ]


def check_all_fetched(result: CrawlResult, count: int) -> None:
    """Check that the crawl got *count* responses and no error."""
    assert result.exit_code == 0, result.log
    assert len(result.responses) == count
    assert result.errors == []
    assert "log_count/ERROR" not in result.stats, result.log


def traffic(path: Path, host: Host) -> dict[str, Any]:
    """Return the traffic with *host* in the ledger. For each kind of pause, such as ``delay``, the entry of that
    name has the seconds that the host asked for and the shortest gap between requests.
    """
    counts = "SELECT crawl, sum(pages) AS pages, sum(bytes) AS bytes FROM traffic"
    (row,) = rows(path, f"{counts} WHERE origin = ?", host.origin)
    shortest = "SELECT kind, asked, gap FROM shortest_gaps WHERE origin = ?"
    for kind, *values in map(dict.values, rows(path, shortest, host.origin)):
        row[kind] = tuple(values)
    return row


@pytest.mark.slow
def test_a_delay_passes_between_all_requests_to_a_host(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """A delay of 0.2 s passes between all requests to a host: after robots.txt, with redirects, with http and
    https, with custom download slots, with downloads of a callback, with requests that a component drops,
    and after Scrapy has deleted an idle slot.

    Hosts that share a download slot have a delay each. A host without a delay is not slowed down. The target
    of a redirect is not slowed down by the delay of the redirecting host, although Scrapy keeps the request
    in the slot of that host. The ledger has the delay and the shortest gap.
    """
    names = (f"127.0.0.{number}" for number in range(21, 60))

    def add(delay: float | None = 0.2) -> Host:
        """Return a host with *delay* on the next address."""
        rules = NO_DELAY if delay is None else DELAY.format(delay)
        return site.add(rules, name=next(names))

    fast, target, plain, redirecting = add(None), add(None), add(), add()
    slotted, longer, shorter, mixed = add(), add(), add(0.1), add()
    leaving, insecure, ledger = add(1), add(), tmp_path / "ledger"
    rate = "User-agent: *\nRequest-rate: 5/1\n"
    secure = site.add(rate, name=insecure.name, tls=True)
    for number in range(5):
        redirecting.answers[f"/page/{number}"] = redirect(f"/target/{number}")
    leaving.answers["/page/0"] = redirect(target.url("/target"))
    # This answer comes after all requests to the fast host. The next request to the plain host waits for the answer.
    plain.answers["/page/0"] = Answer(after=lambda: len(fast.pages) == 10)
    start_url, target_url = fast.url("/start"), target.url("/target")
    result = run_crawl(
        [
            *(start_url, *pages(plain, 11), *pages(redirecting, 5)),
            *in_slots(pages(slotted, 10), "one", "other"),
            *(*pages(insecure, 5), *pages(secure, 5)),
            *in_slots(pages(longer, 5) + pages(shorter, 5), "shared"),
            *({"url": url, "dont_filter": True} for url in pages(mixed, 4) * 2),
            *(*pages(leaving, 2), *pages(fast, 9)),
        ],
        mode=mode,
        spider=f"{SPIDERS}.EveryWaySpider",
        settings={
            **IMPATIENT,
            "REP_LEDGER": str(ledger),
            "DOWNLOADER_MIDDLEWARES": {
                f"{COMPONENTS}.ForgetSlots": 50,
                f"{COMPONENTS}.PassOnce": 700,
            },
        },
        more={start_url: pages(mixed, 5, "more")},
        follow={target_url: [{"url": url} for url in pages(target, 10)]},
    )
    assert result.exit_code == 0, result.log
    assert "log_count/ERROR" not in result.stats, result.log
    assert len(result.responses) == 1 + 11 + 5 + 10 + 10 + 10 + 4 + 12 + 9
    assert [error["error"] for error in result.errors] == ["IgnoreRequest"] * 4
    downloads = [item["status"] for item in result.items]
    assert downloads == [200] * 5
    for host, count, delay in (
        *((plain, 12, 0.2), (redirecting, 11, 0.2), (slotted, 11, 0.2)),
        *((longer, 6, 0.2), (shorter, 6, 0.1), (mixed, 10, 0.2), (leaving, 3, 1)),
    ):
        assert len(host.hits) == count
        assert min(host.gaps) >= delay, host.name
        delay_in_ledger, gap = traffic(ledger, host)["delay"]
        assert delay_in_ledger == delay
        assert delay <= gap <= min(host.gaps) + 0.001
    hit_times = sorted(hit.time for host in (insecure, secure) for hit in host.hits)
    # The robots.txt files of both origins are fetched before the delay is known.
    assert sorted(after - before for before, after in pairwise(hit_times))[1] >= 0.2
    assert fast.hits[-1].time < plain.hits[2].time
    assert min(fast.gaps) < 0.2
    assert target.hits[-1].time - target.hits_on("/target")[0].time < 7
    assert result.stats["forgotten"] > 0
    assert result.stats["rep/crawl_delay/hosts"] == 9
    assert result.stats["rep/crawl_delay/waited"] > 3
    lines = result.lines("INFO", "waited only for its crawl delay")
    assert len(lines) == 5
    assert "crawl delay of 0.2 s (11 requests)" in " ".join(lines)
    (progress,) = rows(ledger, "SELECT max(waiting) AS n FROM progress")
    assert progress["n"] > 10


def test_the_longer_of_two_delays_applies(site: Site) -> None:
    """A delay of the project applies if it is longer than the Crawl-delay. The Crawl-delay applies if the
    delays of AutoThrottle, DOWNLOAD_DELAY and DOWNLOAD_SLOTS are shorter.
    """
    settings = {
        **IMPATIENT,
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.3,
        "DOWNLOAD_DELAY": 0.02,
        "DOWNLOAD_SLOTS": {
            "127.0.0.2": {"concurrency": 8, "delay": 0.01},
            "127.0.0.3": {"delay": 0.5, "randomize_delay": False},
        },
    }
    delays = {"127.0.0.1": 0.3, "127.0.0.2": 0.2, "127.0.0.3": 0.1}
    hosts = [site.add(DELAY.format(delays[name]), name=name) for name in delays]
    requests: list[Any] = [url for host in hosts[:2] for url in pages(host, 5)]
    # Without this meta key, AutoThrottle shortens the delay of the project.
    meta = {"autothrottle_dont_adjust_delay": True}
    requests += [{"url": url, "meta": meta} for url in pages(hosts[2], 5)]
    check_all_fetched(run_crawl(requests, settings=settings), 15)
    for host in hosts:
        assert min(host.gaps) >= delays[host.name]
    # The server may log a request late, which makes the next gap shorter, so the median is checked.
    assert median(hosts[2].gaps) > 0.4


def test_hosts_with_too_long_a_delay_are_refused_with_one_warning(
    site: Site, mode: str
) -> None:
    """If a Crawl-delay is longer than REP_SKIP_DELAY_OVER, the requests to the host are refused, and one
    warning names the setting. A Visit-time does not hold up any request.
    """
    slow = site.add(DELAY.format(3600))
    other = site.add("User-agent: *\nVisit-time: 1200-1200\n", name="127.0.0.2")
    result = run_crawl(pages(slow, 5) + pages(other, 5), mode=mode, settings=IMPATIENT)
    assert sorted(result.fetched()) == sorted(pages(other, 5))
    assert [hit.path for hit in slow.hits] == ["/robots.txt"]
    refusals = [
        (error["reason"], error["rule"], error["line"]) for error in result.errors
    ]
    assert refusals == [("crawl-delay", "3600", 2)] * 5
    words = ("skipped", "3600 s", "REP_SKIP_DELAY_OVER (180)")
    assert len(result.lines("WARNING", slow.origin, *words)) == 1
    assert len(result.denied) == result.stats["robotstxt/forbidden"] == 5
    assert result.stats["rep/denied/crawl-delay"] == 5
    assert result.stats["rep/crawl_delay/skipped"] == 1


@pytest.mark.newest
@pytest.mark.parametrize(
    "settings", [{"REP_CRAWL_DELAY_OBEY": False}, {"REP_DIALECT": "google"}]
)
def test_a_crawl_delay_can_be_ignored(site: Site, settings: dict[str, object]) -> None:
    """Either a setting or Google's dialect switches Crawl-delay off."""
    host = site.add(DELAY.format(3600))
    result = run_crawl(pages(host, 20), settings={**IMPATIENT, **settings})
    check_all_fetched(result, 20)
    assert "rep/crawl_delay/hosts" not in result.stats


@pytest.mark.newest
def test_the_log_estimates_how_long_the_requests_of_a_slow_host_take(
    site: Site,
) -> None:
    """For a host with a Crawl-delay over 10 s and many waiting requests, the estimate is logged once. While
    no request can be sent, the log says regularly how many requests wait for how many hosts. SIGINT ends the
    crawl.
    """
    host = site.add(DELAY.format(60))
    down = site.add(Answer(status=503), name="127.0.0.2")
    constants = {
        "scrapy_rep.crawl.frontier.politeness._LOG_AFTER": 1.0,
        "scrapy_rep.crawl.frontier.frontier._LOG_EVERY": 0.2,
    }
    settings = {**IMPATIENT, "REP_WAIT_TIMEOUT": 600}
    urls = pages(host, 61) + pages(down, 5)
    crawl = start_crawl(urls, settings=settings, constants=constants)
    waits = "Idle: 66 requests to 2 hosts wait"
    crawl.until(
        lambda: "61 requests that wait" in crawl.log and crawl.log.count(waits) > 1
    )
    crawl.process.send_signal(signal.SIGINT)
    result = crawl.result(60)
    (line,) = result.lines("INFO", "127.0.0.1 asks for 60 s between requests")
    assert "1:01:00" in line
    assert result.stats["finish_reason"] == "shutdown"
    assert host.pages == []


def test_cached_responses_do_not_wait_for_a_delay_and_are_not_counted_as_traffic(
    site: Site, tmp_path: Path
) -> None:
    """Responses from Scrapy's HTTP cache do not wait for a Crawl-delay. A cached 429 says nothing about the
    host now, and causes no pause. The ledger counts neither cached responses nor robots.txt as traffic with the
    host.
    """
    host, ledger = site.add(DELAY.format(0.2)), tmp_path / "ledger"
    first = host.url("/busy")
    host.answers["/busy"] = busy(429, "86400", body=b"gone")
    arguments: dict[str, Any] = {
        "spider": f"{SPIDERS}.EveryWaySpider",
        "settings": {
            **IMPATIENT,
            "HTTPCACHE_ENABLED": True,
            "HTTPCACHE_DIR": str(tmp_path),
            "REP_LEDGER": str(ledger),
        },
        "follow": {first: [{"url": url} for url in pages(host, 8)]},
    }
    results = [run_crawl([first], **arguments)]
    assert min(host.gaps) >= 0.2
    arguments["settings"]["REP_BACKOFF_MAX"] = 60
    results.append(run_crawl([first], **arguments))
    for result in results:
        check_all_fetched(result, 9)
    check_fetched(host, *pages(host, 8))
    assert len(host.hits_on("/busy")) == 1
    # The wait of requests that are refused later does not count.
    key = "rep/crawl_delay/waited"
    assert [result.stats.get(key, 0) > 0 for result in results] == [True, False]
    counts = traffic(ledger, host)
    size = len(b"gone") + 8 * len(host.answer("/page/0").body)
    assert (counts["crawl"], counts["pages"], counts["bytes"]) == (1, 9, size)
    assert rows(ledger, "SELECT sum(pages) AS n FROM progress") == [{"n": 9}]


@pytest.mark.newest
def test_a_longer_delay_of_a_new_robotstxt_applies_from_the_next_request(
    site: Site,
) -> None:
    """A page is requested after its host's robots.txt has been fetched again. The longer delay passes before this
    request.
    """
    host = site.add([robots(DELAY.format(0.05)), robots(DELAY.format(0.5))])
    # The first robots.txt is no longer fresh after this page.
    host.answers["/page/0"] = Answer(delay=0.2)
    first, second = pages(host, 2)
    settings = {**IMPATIENT, "REP_MAX_AGE": 0.1}
    result = run_crawl([first], then=[second], settings=settings)
    check_all_fetched(result, 2)
    paths = [hit.path for hit in host.hits]
    assert paths == ["/robots.txt", "/page/0", "/robots.txt", "/page/1"]
    assert host.gaps[-1] >= 0.5


@pytest.mark.newest
def test_the_time_that_delays_took_is_the_sum_over_all_hosts(site: Site) -> None:
    """The crawl remembers only the four hosts whose requests waited longest. The stat has the waits for all hosts."""
    count, delay = 12, 0.4
    hosts = [
        site.add(DELAY.format(delay), name=f"127.0.0.{number}")
        for number in range(21, 21 + count)
    ]
    result = run_crawl(
        [url for host in hosts for url in pages(host, 2)],
        settings=IMPATIENT,
        constants={"scrapy_rep.crawl.frontier.limits._MAX_SLOWDOWNS": 4},
    )
    check_all_fetched(result, 2 * count)
    # The second page of a host waits for the whole delay.
    assert result.stats["rep/crawl_delay/waited"] >= 0.9 * count * delay


@pytest.mark.newest
def test_a_request_that_is_exempt_from_a_delay_does_not_hold_up_pages_for_it(
    site: Site,
) -> None:
    """A request with ``dont_obey_robotstxt`` is in flight when the Crawl-delay of its host becomes known. The request
    does not count for the delay, so a page is sent beside it.
    """
    host = site.add()
    (page,) = pages(host, 1)
    host.answers |= {
        "/robots.txt": robots(DELAY.format(0.2), after=lambda: host.hits_on("/exempt")),
        "/exempt": Answer(
            after=lambda: (
                host.hits_on("/page/0") or host.hits[0].time < time.monotonic() - 10
            )
        ),
    }
    exempt = {"url": host.url("/exempt"), "meta": {"dont_obey_robotstxt": True}}
    result = run_crawl([exempt, page], settings=IMPATIENT)
    check_all_fetched(result, 2)
    (exempt_hit,), (page_hit,) = host.hits_on("/exempt"), host.hits_on("/page/0")
    assert exempt_hit.answered is not None
    assert page_hit.time < exempt_hit.answered
    assert page_hit.time >= host.robots_hits[0].time + 0.2


@pytest.mark.newest
def test_cached_rules_of_a_forgotten_site_do_not_apply_when_they_are_stale(
    site: Site,
) -> None:
    """The crawl has forgotten a site without requests, but its robots.txt is still in the cache and fresh when a
    further page is requested. The host is paused then, until robots.txt is stale. It is fetched again before the page
    is judged, and forbids the page now.
    """
    host = site.add([robots(NO_DELAY), robots("User-agent: *\nDisallow: /\n")])
    first, second = pages(host, 2)
    result = run_crawl(
        [first],
        spider=f"{SPIDERS}.ReturningSpider",
        settings={
            **IMPATIENT,
            "REP_BACKOFF_MAX": 60,
            "REP_MAX_AGE": 1,
            "REP_WAIT_TIMEOUT": 60,
        },
        constants={
            "scrapy_rep.crawl.frontier.frontier._LOG_EVERY": 0.1,
            "scrapy_rep.crawl.frontier.limiter._ANSWER_REMEMBERED": 0.0,
        },
        later={first: second},
        pause=1.5,
    )
    assert [hit.path for hit in host.hits] == ["/robots.txt", "/page/0", "/robots.txt"]
    assert result.error(second)["reason"] == "rule"
