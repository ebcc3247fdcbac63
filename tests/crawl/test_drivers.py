"""Tests of crawls with a middleware that fetches pages by itself, as scrapy-selenium does.

The middleware must get no request that robots.txt forbids. For delays, pauses and the report, the pages that it fetches
count like all other pages.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.crawl.answers import Answer, busy
from tests.crawl.crawl import run_crawl
from tests.crawl.driver_middlewares import AGENT
from tests.crawl.test_ledger import headline, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Hit, Host, Site

RULES = "User-agent: *\nDisallow: /private/\n"
DRIVER_MODULE = "tests.crawl.driver_middlewares"
DRIVER = f"{DRIVER_MODULE}.Driver"


def driver_hits(host: Host) -> list[Hit]:
    """Return the requests of the driver to *host*."""
    return [hit for hit in host.hits if hit.headers.get("User-Agent") == AGENT]


def gaps(hits: list[Hit]) -> list[float]:
    """Return the seconds from the answer of each request to the next request."""
    return [
        after.time - before.answered
        for before, after in pairwise(hits)
        if before.answered is not None
    ]


@pytest.mark.parametrize("order", [543, 800])
def test_a_driver_gets_no_forbidden_url_and_keeps_delays_and_pauses(
    site: Site, mode: str, order: int, tmp_path: Path
) -> None:
    """A middleware that drives a browser gets no forbidden URL. Its requests, and those that Scrapy sends to the same
    host, keep delays and pauses. Its pages are in ledger and report.
    """
    slow = site.add(f"{RULES}Crawl-delay: 0.3\n")
    busy_host = site.add(RULES, name="127.0.1.1")
    busy_host.answers["/0"] = busy(429, "1")
    requests = [
        {"url": host.url(path), "meta": {"driver": path != "/by-scrapy"}}
        for host, paths in [
            (slow, ["/private/1", "/1", "/2", "/by-scrapy", "/3", "/private/2"]),
            (busy_host, ["/0", "/1", "/2", "/private/1"]),
        ]
        for path in paths
    ]
    ledger = tmp_path / "ledger"
    result = run_crawl(
        requests,
        mode=mode,
        settings={
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "DOWNLOADER_MIDDLEWARES": {DRIVER: order},
            "REP_BACKOFF_MAX": 60,
            "REP_LEDGER": str(ledger),
            "REP_LEDGER_LEVEL": "all",
            "REP_WAIT_TIMEOUT": 60,
        },
    )
    assert sorted(hit.path for hit in driver_hits(slow)) == ["/1", "/2", "/3"]
    assert sorted(hit.path for hit in driver_hits(busy_host)) == ["/0", "/1", "/2"]
    assert len(result.responses) == 7
    assert [error["reason"] for error in result.errors] == ["rule"] * 3
    # The delay passes between the answer to each request and the next request.
    assert [hit.path for hit in slow.hits if hit.path == "/by-scrapy"] == ["/by-scrapy"]
    assert all(gap >= 0.29 for gap in gaps(slow.hits))
    # After the 429, the next request is sent when the pause of one second is over.
    ((paused, following),) = [
        pair for pair in pairwise(busy_host.hits) if pair[0].path == "/0"
    ]
    assert paused.answered is not None
    assert following.time - paused.answered >= 0.99
    query = "SELECT url FROM decision WHERE verdict = 'allowed' AND page IS NULL"
    expected = [response["url"] for response in result.responses]
    assert sorted(row["url"] for row in rows(ledger, query)) == sorted(expected)
    assert "no page" not in headline(str(ledger)).lower()


@pytest.mark.newest
def test_beside_the_pages_of_a_driver_one_more_request_is_in_flight(site: Site) -> None:
    """The crawl cannot see whether the driver fetches a page, or whether another component holds the page back until
    one of the waiting downloads has ended. So one of these downloads at a time may exceed the limit of the host.
    """
    host, other = site.add(), site.add(name="127.0.1.1")
    pages = [host.url(f"/page/{number}") for number in range(2)]
    downloads = [host.url(f"/download/{number}") for number in range(3)]
    for url in pages:
        host.answers[urlsplit(url).path] = Answer(b"", delay=3)
    for url in downloads:
        host.answers[urlsplit(url).path] = Answer(b"", delay=0.5)
    other.answers["/"] = Answer(b"", delay=0.5)
    result = run_crawl(
        [{"url": url, "meta": {"driver": True}} for url in pages] + [other.url("/")],
        spider="tests.crawl.waiting_spiders.EveryWaySpider",
        more={other.url("/"): downloads},
        settings={
            "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
            "DOWNLOADER_MIDDLEWARES": {f"{DRIVER_MODULE}.ThreadDriver": 543},
        },
    )
    assert {response["url"] for response in result.responses} >= set(pages)
    ends = [hit.answered for hit in host.hits if hit.path.startswith("/page/")]
    starts = [hit.time for hit in host.hits if hit.path.startswith("/download/")]
    assert len(starts) == 3
    # The downloads do not wait until the driver is done.
    assert max(starts) < min(ends)
    assert host.max_concurrent == 3


@pytest.mark.newest
def test_a_response_from_the_cache_waits_for_no_delay(
    site: Site, tmp_path: Path
) -> None:
    """A response from the HTTP cache of Scrapy needs no request to the host, so it does not wait for Crawl-delay."""
    host = site.add(f"{RULES}Crawl-delay: 0.5\n")
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    urls = [host.url(f"/{number}") for number in range(3)]
    run_crawl(urls, settings=settings)
    before = len(host.hits)
    result = run_crawl(urls, settings=settings)
    assert ["cached" in response["flags"] for response in result.responses] == [
        True
    ] * 3
    assert len(host.hits) <= before + 1  # robots.txt may be fetched again.
