"""Requests wait in the scheduler's queue, and a slow or failing host does not hold up others."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.stores.sqlite import SqliteStore
from tests.crawl.answers import Answer, redirect, robots
from tests.crawl.crawl import run_crawl, start_crawl, wait_until
from tests.crawl.test_politeness import NOTING_SLOTS, slot_gaps

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"
SPIDERS = "tests.crawl.frontier_spiders."
STOCKS_QUEUE = {
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"
}


def delayed(seconds: float) -> str:
    return f"{RULES}Crawl-delay: {seconds}\n"


def pages(host: Host, count: int) -> list[str]:
    return [host.url(f"/public/{number}") for number in range(count)]


def named(number: int) -> str:
    """Return an address on loopback, which has its own download slot and delay."""
    return f"127.0.1.{number + 1}"


@pytest.mark.slow
def test_a_slow_host_stays_in_the_queue(
    site: Site, every_mode: str, tmp_path: Path
) -> None:
    """Of 150 requests to a host with a Crawl-delay, only those that are sent or refused
    leave the queue. A resumed crawl has the others.
    """
    host = site.add(delayed(0.3))
    requests = pages(host, 120) + [host.url(f"/private/{n}") for n in range(30)]
    settings = {"JOBDIR": str(tmp_path), "CLOSESPIDER_PAGECOUNT": 3}
    result = run_crawl(requests, mode=every_mode, settings=settings)
    fetched = len(host.pages)
    assert 1 <= fetched < 10
    assert result.stats["scheduler/dequeued"] <= fetched + len(result.errors) + 1
    assert all(gap >= 0.3 for gap in host.gaps)
    host.answers["/robots.txt"] = robots(RULES)
    # The duplicate filter drops the requests that left the queue in the first run.
    second = run_crawl(
        requests,
        mode=every_mode,
        settings={"JOBDIR": str(tmp_path), "REP_STORE": "memory://"},
    )
    assert (
        host.pages
        == sorted({*host.pages})
        == sorted(f"/public/{number}" for number in range(120))
    )
    assert len(result.errors) + len(second.errors) == 30


def test_each_request_passes_the_scheduler_once(site: Site, mode: str) -> None:
    """However long a request waits, it is enqueued once and dequeued once."""
    hosts = [site.add(robots(RULES, delay=0.5)) for _ in range(10)]
    hosts += [site.add(delayed(0.01)), site.add(RULES)]
    urls = [url for host in hosts for url in pages(host, 5)]
    result = run_crawl(urls, mode=mode)
    assert result.stats["scheduler/enqueued"] == len(urls)
    assert result.stats["scheduler/dequeued"] == len(urls)
    assert all(len(host.pages) == 5 for host in hosts)


def test_a_queue_that_knows_nothing_of_hosts(site: Site, mode: str) -> None:
    """With another queue class, requests wait in the downloader, up to CONCURRENT_REQUESTS
    of them, and one warning recommends HostQueue.
    """
    host, down = site.add(delayed(0.15)), site.add(Answer(status=503))
    settings = {
        **STOCKS_QUEUE,
        "CONCURRENT_REQUESTS": 8,
        "CLOSESPIDER_PAGECOUNT": 8,
        "REP_WAIT_MAX": 600,
    }
    urls = pages(host, 50) + pages(down, 2)
    result = run_crawl(urls, mode=mode, settings=settings)
    assert 1 <= len(host.pages) < 10
    assert all(gap >= 0.15 for gap in host.gaps)
    assert result.stats["scheduler/dequeued"] <= 8 + len(host.pages)
    assert result.stats["elapsed_time_seconds"] < 60
    (line,) = result.lines("WARNING", "take places of CONCURRENT_REQUESTS")
    assert "DownloaderAwarePriorityQueue" in line
    assert "scrapy_rep.HostQueue" in line


def test_another_queue_and_a_host_that_comes_back(site: Site, mode: str) -> None:
    """With another queue class, requests also wait until an unreachable robots.txt is back."""
    host = site.add([Answer(status=503), robots(RULES)])
    urls = [*pages(host, 3), host.url("/private/")]
    result = run_crawl(
        urls,
        mode=mode,
        spider=f"{SPIDERS}CountingSpider",
        settings={**STOCKS_QUEUE, "REP_WAIT_MAX": 30},
    )
    assert len(host.pages) == 3
    assert [error["reason"] for error in result.errors] == ["rule"]


def test_a_robotstxt_that_fails_at_once(site: Site, every_mode: str) -> None:
    """If the robots.txt fetch fails before a download in a callback begins to wait for it,
    the download is refused and does not wait.
    """
    host, other = site.add(RULES), site.add(RULES)
    middlewares = {"tests.crawl.frontier_spiders.DropRobotsTxt": 10}
    result = run_crawl(
        [{"url": other.url("/page"), "meta": {"dont_obey_robotstxt": True}}],
        mode=every_mode,
        spider="tests.crawl.waiting_spiders.DownloadingSpider",
        settings={"DOWNLOADER_MIDDLEWARES": middlewares, "REP_WAIT_MAX": 600},
        more=pages(host, 3),
    )
    assert host.hits == []
    assert [item["error"] for item in result.items] == ["RobotsDenied"] * 3


def test_robotstxt_that_redirects_to_a_slow_host_takes_no_place(
    site: Site, mode: str
) -> None:
    """Robots.txt files that redirect to a slow host take turns with its pages, and do
    not hold up other hosts.
    """
    slow = site.add(delayed(0.1), name=named(1))
    strangers = [
        site.add(redirect(slow.url("/stranger"), delay=0.3), name=named(number))
        for number in range(2, 40)
    ]
    other = site.add(RULES, name=named(40))
    # The first redirect has the turn until the other host has received all its requests.
    slow.answers["/stranger"] = robots(RULES, after=lambda: len(other.pages) == 5)
    first = [{"url": url, "priority": 2} for url in pages(slow, 5)]
    first += [
        {"url": url, "priority": 1} for each in strangers for url in pages(each, 1)
    ]
    settings = {
        "CONCURRENT_REQUESTS": 16,
        "CLOSESPIDER_PAGECOUNT": 55,
        "CLOSESPIDER_TIMEOUT": 120,
    }
    run_crawl([*first, *pages(other, 5)], mode=mode, settings=settings)
    assert len(other.pages) == 5
    (first_stranger, *_) = slow.hits_on("/stranger")
    after = [hit.time for hit in slow.hits if hit.time > first_stranger.time]
    assert max(hit.time for hit in other.hits) < min(after)
    paths = [hit.path for hit in slow.hits]
    # Three pages are sent for each redirect.
    assert paths.index("/public/2") <= 5
    assert all(gap >= 0.1 for gap in slow.gaps)


def test_hosts_that_wait_take_no_place(site: Site, mode: str) -> None:
    """40 origins that wait for the long delay of another port on their host do
    not hold up other hosts.
    """
    text = "User-agent: *\nCrawl-delay: 120\n"
    ones = [site.add(text, name=named(number)) for number in range(40)]
    twos = [site.add(text, name=named(number)) for number in range(40)]
    other = site.add(RULES)
    result = run_crawl(
        [host.url("/public") for host in ones],
        mode=mode,
        spider=f"{SPIDERS}KnowingSpider",
        # These are the robots.txt of each first port, and all responses of the other host.
        settings={"CLOSESPIDER_TIMEOUT": 100, "CLOSESPIDER_PAGECOUNT": 40 + 21},
        known=40,
        follow=[host.url("/public") for host in twos] + pages(other, 20),
    )
    assert len(other.pages) == 20
    assert [host.pages for host in ones + twos] == [[]] * 80
    assert [len(host.hits) for host in twos] == [0] * 40
    assert result.stats["finish_reason"].startswith("closespider")


def test_hosts_that_never_answer(site: Site, mode: str) -> None:
    """100 hosts whose robots.txt hangs do not hold up five that come after them."""
    hanging = [site.add(Answer(hang=True), name=named(n)) for n in range(100)]
    healthy = [site.add(RULES, name=named(n)) for n in range(100, 105)]
    urls = [url for host in hanging + healthy for url in pages(host, 2)]
    settings = {"CLOSESPIDER_TIMEOUT": 100, "CONCURRENT_REQUESTS": 16}
    settings["CLOSESPIDER_PAGECOUNT"] = 5 * 3
    run_crawl(urls, mode=mode, settings=settings)
    assert [len(host.pages) for host in healthy] == [2] * 5


def test_hosts_that_another_worker_fetches(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """While another worker has the locks of 30 hosts, 30 other hosts are crawled, with at
    most CONCURRENT_REQUESTS pages at once.
    """
    uri = f"sqlite:///{tmp_path / 'robotstxt.sqlite'}"
    store = SqliteStore(tmp_path / "robotstxt.sqlite")
    locked = [site.add(RULES) for _ in range(30)]
    for host in locked:
        origin = str(origin_of(host.origin))
        assert store.lock(origin, "another worker", 250)
    store.close()
    others = [site.add(RULES) for _ in range(30)]
    urls = [url for host in locked + others for url in pages(host, 3)]
    # These are the robots.txt files and pages of the other hosts.
    settings = {"REP_STORE": uri, "CONCURRENT_REQUESTS": 8, "CLOSESPIDER_TIMEOUT": 120}
    settings["CLOSESPIDER_PAGECOUNT"] = 120
    spider = f"{SPIDERS}CountingSpider"
    result = run_crawl(urls, mode=mode, spider=spider, settings=settings, timeout=180)
    assert [len(host.pages) for host in others] == [3] * 30
    assert result.stats["pages_at_once"] <= 8
    assert [host.hits for host in locked] == [[]] * 30


def test_a_busy_host_does_not_fill_the_downloader(site: Site, mode: str) -> None:
    """A host at its CONCURRENT_REQUESTS_PER_DOMAIN takes no places of other hosts."""
    busy, other = site.add(RULES, name=named(1)), site.add(RULES, name=named(2))
    # These pages are answered when the other host has received all its requests.
    late = Answer(after=lambda: len(other.pages) == 10)
    paths = [f"/public/{number}" for number in range(20)]
    busy.answers |= dict.fromkeys(paths, late)
    settings = {"CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    first = [{"url": busy.url(path), "priority": 1} for path in paths]
    run_crawl([*first, *pages(other, 10)], mode=mode, settings=settings)
    assert len(busy.pages) == 20
    assert busy.at_once == 2
    assert max(hit.time for hit in other.hits) < busy.hits[3].time


def test_download_delay(site: Site, mode: str) -> None:
    """A host with a DOWNLOAD_DELAY keeps it, and takes one place in the downloader."""
    slow = site.add(RULES, name=named(1))
    other = site.add(RULES, name=named(2))
    settings = {
        **NOTING_SLOTS,
        "CONCURRENT_REQUESTS": 4,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
        "DOWNLOAD_SLOTS": {named(1): {"delay": 0.3, "concurrency": 4}},
        "RANDOMIZE_DOWNLOAD_DELAY": False,
    }
    first = [{"url": url, "priority": 1} for url in pages(slow, 6)]
    result = run_crawl([*first, *pages(other, 10)], mode=mode, settings=settings)
    assert len(slow.pages) == 6
    assert min(slot_gaps(result, slow)) >= 0.3
    assert max(hit.time for hit in other.hits) < slow.hits[-1].time


def test_download_delay_and_slow_answers(site: Site, mode: str) -> None:
    """With DOWNLOAD_DELAY, the next request is sent after the delay, even if the
    previous one has no answer yet.
    """
    slow = site.add(RULES, name=named(1))
    late = Answer(after=lambda: slow.at_once == 2)
    slow.answers |= {f"/public/{number}": late for number in range(4)}
    settings = {
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "DOWNLOAD_DELAY": 0.1,
        "CLOSESPIDER_TIMEOUT": 30,
    }
    run_crawl(pages(slow, 4), mode=mode, settings=settings)
    assert slow.at_once == 2
    assert len(slow.pages) == 4


def test_many_requests_of_a_host_that_is_given_up(site: Site, mode: str) -> None:
    """The requests of a host that is given up are refused in the queue: none passes through
    the downloader, and errbacks are called.
    """
    host = site.refusing()
    result = run_crawl(
        [host.url(f"/{number}") for number in range(500)],
        mode=mode,
        settings={"LOG_LEVEL": "INFO"},
    )
    assert len(result.errors) == 500
    assert result.stats["rep/given_up"] == 500
    assert result.stats["robotstxt/forbidden"] == 500
    assert "scheduler/dequeued" not in result.stats
    assert result.stats["finish_reason"] == "finished"


def test_what_a_crawl_waits_for(site: Site) -> None:
    """While an idle crawl waits, the log says regularly how many requests
    wait for how many hosts.
    """
    down = [site.add(Answer(status=503), name=named(number)) for number in range(2)]
    slow = site.add(delayed(60), name=named(3))
    urls = [url for host in [*down, slow] for url in pages(host, 5)]
    crawl = start_crawl(
        urls,
        spider=f"{SPIDERS}TellingSpider",
        settings={"REP_WAIT_MAX": 600},
    )
    told = "Nothing to do at the moment"
    wait_until(lambda: crawl.log.count(f"{told}: 15 requests wait for 3 hosts") == 2)
    crawl.process.send_signal(signal.SIGINT)
    assert crawl.result().lines("INFO", told)


@pytest.mark.newest
@pytest.mark.unmeasured
def test_rules_that_take_memory(site: Site) -> None:
    """Of 12 parsed robots.txt files that take 18 MB of memory each, only as many are kept
    as the memory of REP_STORE allows.
    """
    rules = "".join(f"Disallow: /{number:06}*\n" for number in range(27_000))
    hosts = [site.add(f"User-agent: *\n{rules}", name=named(n)) for n in range(12)]
    # Only the rules that can match such URLs are sorted, so these match the form of the
    # rules.
    urls = [host.url(f"/99999{number}") for host in hosts for number in range(2)]
    result = run_crawl(urls, settings={"REP_STORE": "memory://?mb=30"})
    assert all(len(host.pages) == 2 for host in hosts)
    assert result.memory < 210 * 1024 * 1024
