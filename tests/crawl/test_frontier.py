"""Requests wait in the scheduler's queue, and a slow or failing host does not hold up others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.stores.sqlite import SqliteStore
from scrapy_rep.stores.testing import lock
from tests.crawl.answers import HANGS, Answer, redirect, robots
from tests.crawl.crawl import RETRIED_SOON, run_crawl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Hit, Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"
SPIDERS = "tests.crawl.waiting_spiders."


def delayed(seconds: float) -> str:
    return f"{RULES}Crawl-delay: {seconds}\n"


def pages(host: Host, count: int) -> list[str]:
    return [host.url(f"/public/{number}") for number in range(count)]


def named(number: int) -> str:
    """Return an address on loopback, which has its own download slot and delay."""
    return f"127.0.1.{number + 1}"


def test_a_slow_host_stays_in_the_queue(site: Site, every_mode: str) -> None:
    """Of 150 requests to a host with a Crawl-delay, only those that are sent or refused
    leave the queue.
    """
    host = site.add(delayed(0.3))
    requests = pages(host, 120) + [host.url(f"/private/{n}") for n in range(30)]
    result = run_crawl(requests, mode=every_mode, settings={"CLOSESPIDER_PAGECOUNT": 3})
    assert 1 <= len(host.pages) < 10
    left = len(host.pages) + len(result.errors)
    assert result.stats["scheduler/dequeued"] <= left + 1
    assert all(gap >= 0.3 for gap in host.gaps)


def test_a_queue_that_knows_nothing_of_hosts(site: Site, mode: str) -> None:
    """With another queue class, requests wait in the downloader for a Crawl-delay and for a
    robots.txt that is unreachable, and one warning recommends HostQueue.
    """
    slow = site.add(delayed(0.15))
    back = site.add([Answer(status=503), robots(RULES)], name=named(1))
    queue = "scrapy.pqueues.DownloaderAwarePriorityQueue"
    result = run_crawl(
        [*pages(slow, 8), *pages(back, 3), back.url("/private/")],
        mode=mode,
        settings={"SCHEDULER_PRIORITY_QUEUE": queue, "REP_WAIT_MAX": 30},
        constants=RETRIED_SOON,
    )
    assert (len(slow.pages), len(back.pages)) == (8, 3)
    assert all(gap >= 0.15 for gap in slow.gaps)
    assert [error["reason"] for error in result.errors] == ["rule"]
    (line,) = result.lines("WARNING", "take places of CONCURRENT_REQUESTS", queue)
    assert "scrapy_rep.HostQueue" in line


def test_robotstxt_that_redirects_to_a_slow_host_takes_no_place(
    site: Site, mode: str
) -> None:
    """However many robots.txt files redirect to a slow host, they take turns with its pages, and
    do not hold up other hosts, even if they are more than are fetched at once.
    """
    slow = site.add(delayed(0.1), name=named(1))
    strangers = [
        site.add(redirect(slow.url("/stranger"), delay=0.3), name=named(number))
        for number in range(2, 17)
    ]
    other = site.add(RULES, name=named(40))
    # The first redirect has the turn until the other host has received all its requests.
    slow.answers["/stranger"] = robots(RULES, after=lambda: len(other.pages) == 5)
    first = [{"url": url, "priority": 2} for url in pages(slow, 5)]
    first += [
        {"url": url, "priority": 1} for each in strangers for url in pages(each, 1)
    ]
    result = run_crawl(
        [*first, *pages(other, 5)],
        mode=mode,
        settings={"CONCURRENT_REQUESTS": 16},
        constants={"scrapy_rep.frontier.hosts._MAX_FETCHING": 10},
    )
    assert len(result.responses) == 5 + len(strangers) + 5
    (first_stranger, *_) = slow.hits_on("/stranger")
    after = [hit.time for hit in slow.hits if hit.time > first_stranger.time]
    assert max(hit.time for hit in other.hits) < min(after)
    # Three pages are sent for each redirect.
    assert [hit.path for hit in slow.hits].index("/public/2") <= 5
    assert all(gap >= 0.1 for gap in slow.gaps)


def test_hosts_that_wait_take_no_place(site: Site, mode: str, tmp_path: Path) -> None:
    """30 hosts whose robots.txt hangs, 30 for which another worker has the lock, and 30 origins that
    wait for the long delay of another port on their host do not hold up other hosts, whose pages
    take CONCURRENT_REQUESTS places at most.
    """
    file = tmp_path / "robotstxt.sqlite"
    store = SqliteStore(file)
    locked = [site.add(RULES) for _ in range(30)]
    for host in locked:
        assert lock(store, str(origin_of(host.origin)), "another worker", 250)
    store.close()
    hanging = [site.add(HANGS, name=named(n)) for n in range(30)]
    slow, their_ports = (
        [site.add(delayed(120), name=named(n)) for n in range(30, 60)] for _ in range(2)
    )
    first, others = site.add(RULES), [site.add(RULES) for _ in range(10)]
    late = first.url("/late")
    first.answers["/late"] = Answer(after=lambda: all(map(is_slow, slow)))
    for host in others:
        host.answers |= {f"/public/{n}": Answer(b"x", delay=0.05) for n in range(5)}
    run_crawl(
        [late, *(url for host in [*locked, *hanging, *slow] for url in pages(host, 2))],
        mode=mode,
        spider="tests.crawl.waiting_spiders.EveryWaySpider",
        settings={
            "CLOSESPIDER_TIMEOUT": 60,
            # These are all robots.txt files and pages of the hosts that answer.
            "CLOSESPIDER_PAGECOUNT": 2 + len(slow) + 6 * len(others),
            "CONCURRENT_REQUESTS": 8,
            "REP_STORE": f"sqlite:///{file}",
        },
        follow={
            late: [
                {"url": url}
                for host in [*their_ports, *others]
                for url in pages(host, 5)
            ]
        },
    )
    assert [len(host.pages) for host in others] == [5] * len(others)
    assert [host.pages for host in [*hanging, *slow]] == [[]] * 60
    assert [host.hits for host in [*locked, *their_ports]] == [[]] * 60
    hits = [hit for host in others for hit in host.hits if hit.path != "/robots.txt"]
    assert most_at_once(hits) <= 8


def is_slow(host: Host) -> bool:
    """Return whether a crawl has had the time to read the delay of *host*."""
    before = time.monotonic() - 0.2
    return any(hit.answered and hit.answered < before for hit in host.robots_hits)


def most_at_once(hits: list[Hit]) -> int:
    """Return how many of *hits* waited for their answers at the same time."""
    return max(
        sum(one.time <= hit.time < (one.answered or hit.time + 1) for one in hits)
        for hit in hits
    )


def test_a_busy_host_does_not_fill_the_downloader(site: Site, mode: str) -> None:
    """A host at its CONCURRENT_REQUESTS_PER_DOMAIN takes no places of other hosts. However long
    a request waits, it is enqueued once and dequeued once.
    """
    busy, other = site.add(RULES, name=named(1)), site.add(RULES, name=named(2))
    # These pages are answered when the other host has received all its requests.
    late = Answer(after=lambda: len(other.pages) == 10)
    paths = [f"/public/{number}" for number in range(20)]
    busy.answers |= dict.fromkeys(paths, late)
    settings = {"CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 2}
    first = [{"url": busy.url(path), "priority": 1} for path in paths]
    result = run_crawl([*first, *pages(other, 10)], mode=mode, settings=settings)
    assert len(busy.pages) == 20
    assert busy.at_once == 2
    assert max(hit.time for hit in other.hits) < busy.hits[3].time
    assert result.stats["scheduler/enqueued"] == 30
    assert result.stats["scheduler/dequeued"] == 30
