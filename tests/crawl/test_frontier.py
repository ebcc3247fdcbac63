"""Crawls whose requests wait in the scheduler's queue. A slow or failing host holds up neither other hosts
nor the end of the crawl.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.fetching.sqlitestore import SqliteStore
from scrapy_rep.protocol.origins import origin_of
from tests import forks
from tests.crawl.answers import HANGS, Answer, redirect, robots
from tests.crawl.crawl import ADDON, RETRIED_SOON, ROOT, run_crawl, start_crawl
from tests.crawl.pauses import pages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Hit, Host, Site

pytestmark = pytest.mark.unmeasured

RULES = "User-agent: *\nDisallow: /private/\n"


def rules_with_delay(seconds: float) -> str:
    return f"{RULES}Crawl-delay: {seconds}\n"


def loopback_address(number: int) -> str:
    """Return an address on loopback. Each address has its own download slot and delay."""
    return f"127.0.1.{number + 1}"


def test_with_another_queue_class_requests_wait_in_the_downloader(
    site: Site, mode: str
) -> None:
    """Requests wait in the downloader for a Crawl-delay and for an unreachable robots.txt. One warning recommends the
    scheduler of this package.
    """
    slow = site.add(rules_with_delay(0.15))
    recovering = site.add([Answer(status=503), robots(RULES)], name=loopback_address(1))
    queue = "scrapy.pqueues.DownloaderAwarePriorityQueue"
    result = run_crawl(
        [*pages(slow, 8), *pages(recovering, 3), recovering.url("/private/")],
        mode=mode,
        settings={"SCHEDULER_PRIORITY_QUEUE": queue, "REP_WAIT_TIMEOUT": 30},
        constants=RETRIED_SOON,
    )
    assert (len(slow.pages), len(recovering.pages)) == (8, 3)
    assert all(gap >= 0.15 for gap in slow.gaps)
    assert [error["reason"] for error in result.errors] == ["rule"]
    (line,) = result.lines("WARNING", "count towards CONCURRENT_REQUESTS", queue)
    assert "scrapy_rep.Scheduler" in line


@pytest.mark.newest
@pytest.mark.parametrize(
    ("name", "number", "replaced"),
    [
        ("QueueAddon", 600, ""),
        ("SchedulerAddon", 400, ""),
        (
            "SchedulerAddon",
            600,
            "SCHEDULER to tests.crawl.test_dry_run.StackScheduler. ",
        ),
    ],
)
def test_an_addon_that_replaces_the_scheduler_is_named_in_a_warning(
    site: Site, name: str, number: int, replaced: str
) -> None:
    """If an add-on with a greater number in ADDONS replaces the scheduler, one warning names the add-on,
    the setting that it has changed, and what to do. A priority queue that another add-on sets is not used.
    """
    slow = site.add(rules_with_delay(0.05))
    other_addon = f"tests.crawl.component_spiders.{name}"
    addons = {"scrapy_rep.Addon": 500, other_addon: number}
    result = run_crawl(pages(slow, 3), settings={"ADDONS": addons})
    assert len(slow.pages) == 3
    lines = result.lines("WARNING", "count towards CONCURRENT_REQUESTS")
    assert len(lines) == bool(replaced)
    for line in lines:
        assert f"Another add-on ({other_addon}) set {replaced}" in line
        assert "give scrapy_rep.Addon the greatest number in ADDONS, or set" in line
        assert "in the settings of the project" in line


@pytest.mark.newest
def test_robotstxt_redirects_to_a_slow_host_do_not_hold_up_other_hosts(
    site: Site,
) -> None:
    """The robots.txt files of 15 hosts redirect to one slow host, but CONCURRENT_REQUESTS is 10. Other hosts
    are not held up. At the slow host, the redirected requests take turns with requests for pages.
    """
    slow = site.add(rules_with_delay(0.1), name=loopback_address(1))
    redirecting = [
        site.add(
            redirect(slow.url("/elsewhere"), delay=0.3), name=loopback_address(number)
        )
        for number in range(2, 17)
    ]
    other = site.add(RULES, name=loopback_address(40))
    # The slow host answers the first redirected fetch when the other host has received all its requests.
    slow.answers["/elsewhere"] = robots(RULES, after=lambda: len(other.pages) == 5)
    requests = [{"url": url, "priority": 2} for url in pages(slow, 5)]
    requests += [
        {"url": url, "priority": 1} for host in redirecting for url in pages(host, 1)
    ]
    result = run_crawl(
        [*requests, *pages(other, 5)],
        settings={"CONCURRENT_REQUESTS": 10},
    )
    assert len(result.responses) == 5 + len(redirecting) + 5
    (first_redirected, *_) = slow.hits_on("/elsewhere")
    after = [hit.time for hit in slow.hits if hit.time > first_redirected.time]
    assert max(hit.time for hit in other.hits) < min(after)
    # Pages and redirects take turns.
    assert [hit.path for hit in slow.hits].index("/page/2") <= 7
    assert all(gap >= 0.1 for gap in slow.gaps)


def test_waiting_hosts_do_not_hold_up_other_hosts(site: Site, mode: str) -> None:
    """The robots.txt of three hosts hangs. At 30 other hosts, the robots.txt of one port has a Crawl-delay of
    two minutes, which also delays the requests to a second port. The pages of ten more hosts are fetched
    meanwhile, at most CONCURRENT_REQUESTS at a time.
    """
    hanging = [site.add(HANGS, name=loopback_address(n)) for n in range(3)]
    slow, other_ports = (
        [
            site.add(rules_with_delay(120), name=loopback_address(n))
            for n in range(30, 60)
        ]
        for _ in range(2)
    )
    first, others = site.add(RULES), [site.add(RULES) for _ in range(10)]
    late = first.url("/late")
    first.answers["/late"] = Answer(after=lambda: all(map(is_delay_known, slow)))
    for host in others:
        host.answers |= {f"/page/{n}": Answer(b"x", delay=0.05) for n in range(5)}
    run_crawl(
        [late, *(url for host in [*hanging, *slow] for url in pages(host, 2))],
        mode=mode,
        spider="tests.crawl.waiting_spiders.EveryWaySpider",
        settings={
            "CLOSESPIDER_TIMEOUT": 60,
            # The number of all robots.txt files and pages of the hosts that answer.
            "CLOSESPIDER_PAGECOUNT": 2 + len(slow) + 6 * len(others),
            "CONCURRENT_REQUESTS": 8,
        },
        follow={
            late: [
                {"url": url}
                for host in [*other_ports, *others]
                for url in pages(host, 5)
            ]
        },
    )
    assert [len(host.pages) for host in others] == [5] * len(others)
    assert [host.pages for host in [*hanging, *slow]] == [[]] * 33
    assert [host.hits for host in other_ports] == [[]] * 30
    hits = [hit for host in others for hit in host.hits if hit.path != "/robots.txt"]
    assert max_concurrency(hits) <= 8


def is_delay_known(host: Host) -> bool:
    """Return whether *host* began to send its robots.txt more than 0.2 seconds ago. By then, the crawl has read
    the Crawl-delay in it.
    """
    before = time.monotonic() - 0.2
    return any(hit.answered and hit.answered < before for hit in host.robots_hits)


def max_concurrency(hits: list[Hit]) -> int:
    """Return the highest number of *hits* that waited for their answers at the same time."""
    return max(
        sum(other.time <= hit.time < (other.answered or hit.time + 1) for other in hits)
        for hit in hits
    )


def test_a_closing_crawl_stores_no_failure_and_ends_soon(
    site: Site, mode: str, tmp_path: Path
) -> None:
    """A crawl is closed while robots.txt files wait for their turn at a slow host, for an answer (also
    after redirects), or for a retry. It stores no failure for these files, and ends soon, although many
    requests wait for them.
    """
    slow = site.add(f"{RULES}Crawl-delay: 60\n", name=loopback_address(1))
    redirecting = [
        site.add(
            redirect(slow.url("/elsewhere"), delay=0.2), name=loopback_address(number)
        )
        for number in range(2, 8)
    ]
    hanging, moved = site.add(HANGS), site.add()
    moved.chain(2, HANGS)
    other = site.add(RULES)
    urls = [host.url(f"/{number}") for host in (hanging, moved) for number in range(40)]
    store = tmp_path / "robotstxt.sqlite"
    crawl = start_crawl(
        [*urls, *(host.url("/public") for host in (slow, *redirecting, other))],
        mode=mode,
        settings={"REP_STORE": f"sqlite:///{store}", "REP_WAIT_TIMEOUT": 600},
    )
    crawl.until(
        lambda: (
            hanging.robots_hits
            and len(moved.hits) == 3
            and other.pages
            and all(host.robots_hits for host in redirecting)
        )
    )
    crawl.process.send_signal(signal.SIGINT)
    result = crawl.result(60)
    assert result.exit_code == 0
    assert result.stats["finish_reason"] == "shutdown"
    assert (hanging.pages, moved.pages) == ([], ["/hop-1", "/hop-2"])
    assert len(hanging.robots_hits) == 1
    assert other.pages == ["/public"]
    stored = SqliteStore(store)
    for host in (*redirecting, hanging, moved):
        key = str(origin_of(host.origin))
        assert stored.get(key) is None
    assert stored.get(str(origin_of(other.origin))) is not None
    stored.close()
    assert "log_count/ERROR" not in result.stats, result.log
    for bad in ("is unreachable", "Traceback", "never retrieved"):
        assert bad not in result.log


def test_crawlers_are_freed_from_memory(tmp_path: Path) -> None:
    """Three crawls run one after the other in one process, and no crawler is left at the end."""
    code = f"""
import asyncio, gc, weakref
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils.reactor import install_reactor
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from twisted.internet import defer, reactor, task

class Three(Spider):
    name = "three"
    start_urls = ["http://127.0.0.1:9/"]

async def main(_):
    seen = []
    runner = AsyncCrawlerRunner({json.loads(json.dumps(ADDON))!r} | {{
        "LOG_ENABLED": False, "REP_WAIT_TIMEOUT": 0, "TELNETCONSOLE_ENABLED": False}})
    for _ in range(3):
        crawler = runner.create_crawler(Three)
        seen.append(weakref.ref(crawler))
        await defer.Deferred.fromFuture(asyncio.ensure_future(runner.crawl(crawler)))
        del crawler
    await task.deferLater(reactor, 0.1)
    gc.collect()
    print("alive:", sum(crawler() is not None for crawler in seen))

task.react(lambda reactor: defer.Deferred.fromCoroutine(main(reactor)))
"""
    (tmp_path / "three_crawls.py").write_text(code)
    completed = forks.run(
        ["three_crawls"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert b"alive: 0" in completed.stdout, (
        completed.stdout + completed.stderr
    ).decode()


@pytest.mark.newest
def test_a_redirect_does_not_count_towards_the_concurrency_of_the_hosts_that_sent_it(
    site: Site, mode: str
) -> None:
    """Two hosts redirect a request to a slow page of a third host. Meanwhile, the next pages of the first
    two hosts are requested.
    """
    first, second, third = (site.add(RULES, name=loopback_address(n)) for n in range(3))
    first.answers["/moved"] = redirect(second.url("/moved"))
    second.answers["/moved"] = redirect(third.url("/slow"))
    third.answers["/slow"] = Answer(b"A page", delay=1)
    for host in (first, second):
        host.answers |= {f"/page/{n}": Answer(b"A page", delay=0.3) for n in range(2)}
    run_crawl(
        [first.url("/moved"), *pages(first, 2), *pages(second, 2)],
        mode=mode,
        settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 1},
    )
    (slow,) = third.hits_on("/slow")
    assert slow.answered is not None
    for host in (first, second):
        assert max(hit.time for hit in host.hits) < slow.answered
