"""Requests to a host with a Crawl-delay take turns beside other
components, and none is blocked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import redirect
from tests.crawl.crawl import run_crawl
from tests.crawl.test_politeness import DELAY, IMPATIENT, check_all_fetched, pages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured


def test_a_queue_on_a_disk(site: Site, mode: str, tmp_path: Path) -> None:
    """With a JOBDIR, where each popped request is a new object, a crawl keeps the
    Crawl-delay, and can be stopped and resumed.
    """
    host = site.add(DELAY.format(0.2))
    settings = {**IMPATIENT, "JOBDIR": str(tmp_path)}
    crawl = "tests.crawl.waiting_spiders.HurriedSpider"
    first = run_crawl(
        pages(host, 15), mode=mode, spider=crawl, settings=settings, kills={"SIGINT": 2}
    )
    assert first.stats["finish_reason"] == "shutdown"
    assert 3 <= len(first.responses) < 15
    second = run_crawl(pages(host, 15), mode=mode, spider=crawl, settings=settings)
    assert len(first.responses) + len(second.responses) == 15
    assert len(set(host.pages)) == len(host.pages) == 15
    assert min(host.gaps) >= 0.2
    for response in first.responses + second.responses:
        assert response["dont_filter"] is False
        assert not [key for key in response["meta"] if key.startswith("_rep")]
    assert first.errors == second.errors == []


def test_resumed_at_once(site: Site, tmp_path: Path) -> None:
    """A crawl that is resumed keeps the Crawl-delay after the last request before it stopped."""
    host = site.add(DELAY.format(1))
    settings = {**IMPATIENT, "JOBDIR": str(tmp_path)}
    crawl = "tests.crawl.waiting_spiders.HurriedSpider"
    urls = pages(host, 3)
    run_crawl(urls, spider=crawl, settings=settings, kills={"SIGINT": 1.5})
    run_crawl(urls, spider=crawl, settings=settings)
    assert len(host.pages) == 3
    assert len(host.robots_hits) == 1
    assert min(host.gaps) >= 1


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


def test_what_is_dropped_costs_no_time(site: Site) -> None:
    """If another component drops a request that has the turn, the next one is sent."""
    host = site.add(DELAY.format(0.1))
    again = [{"url": url, "dont_filter": True} for url in pages(host, 4)]
    settings = {
        **IMPATIENT,
        "DOWNLOADER_MIDDLEWARES": {"tests.crawl.waiting_spiders.PassOnce": 700},
    }
    result = run_crawl(again * 3, settings=settings)
    assert len(result.responses) == 4
    assert len(result.errors) == 8
    assert min(host.gaps) >= 0.1
    assert result.stats["elapsed_time_seconds"] < 30


def test_overrides_count_each_request_once(site: Site) -> None:
    """A request that waits counts once in the stats of REP_OVERRIDES."""
    host, other = site.add(DELAY.format(0.1)), site.add(name="127.0.0.2")
    overrides = {"127.0.0.1": "obey", "127.0.0.2": DELAY.format(0.1)}
    result = run_crawl(
        pages(host, 5) + pages(other, 5),
        settings={**IMPATIENT, "REP_OVERRIDES": overrides},
    )
    check_all_fetched(result, 10)
    assert result.stats["rep/override/obey"] == 5
    assert result.stats["rep/override/robotstxt"] == 5


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
