"""Hosts with a Visit-time are requested within that window only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.crawl import run_crawl
from tests.crawl.test_politeness import IMPATIENT, check_all_fetched, pages

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

HOURS = "User-agent: *\nVisit-time: {}\nDisallow: /private/\n"
WAITING = {**IMPATIENT, "REP_WAIT_MAX": 3600}
SPIDER = "tests.crawl.paced_spiders.VisitingSpider"


@pytest.mark.slow
def test_before_it_opens(site: Site, mode: str) -> None:
    """Requests wait until Visit-time begins, without holding up other hosts, and are then
    sent with the Crawl-delay.
    """
    host = site.add(HOURS.format("1200-1300\nCrawl-delay: 0.2"))
    other = site.add(HOURS.format("1000-1500"), name="127.0.0.2")
    result = run_crawl(
        [*pages(host, 5), *pages(other, 10)],
        mode=mode,
        spider=SPIDER,
        settings={**WAITING, "CONCURRENT_REQUESTS": 4},
        seconds=4,
    )
    check_all_fetched(result, 15)
    # The clock of the crawl starts with its process.
    assert host.gaps[0] > 1
    assert min(host.gaps[1:]) >= 0.2
    assert max(hit.time for hit in other.hits) < host.hits[1].time
    (line,) = result.lines("INFO", "wants no visits for another 0:00:0")
    assert host.origin in line


@pytest.mark.newest
def test_too_long_to_wait(site: Site) -> None:
    """Requests that would wait longer than REP_WAIT_MAX are refused,
    and the log says so once.
    """
    host = site.add(HOURS.format("1200-1300"))
    settings = {**IMPATIENT, "REP_WAIT_MAX": 60}
    result = run_crawl(pages(host, 10), spider=SPIDER, settings=settings, seconds=3600)
    assert host.pages == []
    assert [error["reason"] for error in result.errors] == ["visit-time"] * 10
    assert {(error["rule"], error["line"]) for error in result.errors} == {
        ("1200-1300", 2)
    }
    (line,) = result.lines("WARNING", "60 s before that time (REP_WAIT_MAX)")
    assert "before 12:00 UTC" in line
    assert result.stats["rep/denied/visit-time"] == 10


def test_what_a_callback_downloads_itself(site: Site) -> None:
    """``download_async`` in a callback waits until Visit-time begins."""
    host, other = site.add(HOURS.format("1200-1300")), site.add()
    result = run_crawl(
        [other.url("/page")],
        spider="tests.crawl.paced_spiders.VisitingDownloader",
        settings=WAITING,
        seconds=2,
        more=pages(host, 3),
    )
    assert [item.get("status") for item in result.items] == [200] * 3
    assert len(host.pages) == 3
