"""Downloads that are cancelled, fail or are hidden free their places once, by the access log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crawl.answers import Answer, Then, busy
from tests.crawl.crawl import run_crawl

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

SPIDER = "tests.crawl.cancelling_spiders.CancellingSpider"
PART = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"
"""The start of a response, after which no client tries again by itself."""

DELAY = "User-agent: *\nCrawl-delay: {}\n"


def test_many_downloads_wait_for_one_robotstxt(site: Site, mode: str) -> None:
    """Hundreds of downloads that wait for the same robots.txt all continue when it comes."""
    start = site.add()
    host = site.add(Answer(b"", delay=0.5))
    more = [host.url(f"/{number}") for number in range(300)]
    result = run_crawl([start.url("/")], spider=SPIDER, mode=mode, more=more)
    assert len(host.robots_hits) == 1
    assert [item["error"] for item in result.items] == [""] * 300
    assert "log_count/ERROR" not in result.stats, result.log


def test_cancelled_downloads_keep_no_places(site: Site, mode: str) -> None:
    """Downloads that are cancelled while they wait for robots.txt, for the delay of their host,
    or while they are in flight, do not hold up those that follow them.
    """
    start = site.add(name="127.0.0.2")
    host = site.add(Answer(DELAY.format(0.2).encode(), delay=0.2), name="127.0.0.3")
    host.limit = lambda hit: None if hit.path == "/robots.txt" else Answer(delay=0.1)
    more = [host.url(f"/{number}") for number in range(14)]
    after = [(0.1 + 0.1 * number if number % 2 else None) for number in range(14)]
    result = run_crawl(
        [start.url("/")], spider=SPIDER, mode=mode, more=more, cancel_after=after
    )
    errors = [item["error"] for item in sorted(result.items, key=lambda i: i["number"])]
    assert errors[::2] == [""] * 7
    assert any(errors[1::2])
    assert set(result.stats["in_flight"]) == {0}
    assert min(host.gaps) > 0.19, host.gaps


def test_a_cancelled_download_that_was_refused(site: Site, mode: str) -> None:
    """A download that is cancelled in the moment in which it is refused is counted once, and one
    that is cancelled while it waits is forgotten.
    """
    start = site.add(name="127.0.0.2")
    host = site.add(DELAY.format(0.5), name="127.0.0.3")
    host.limit = lambda hit: busy(429, "3600") if hit.path == "/0" else None
    more = [host.url(f"/{number}") for number in range(30)]
    result = run_crawl(
        [start.url("/")],
        spider=SPIDER,
        mode=mode,
        more=more,
        cancel_after=[0.52 + 0.002 * number for number in range(30)],
        settings={"REP_BACKOFF_MAX": 60, "REP_WAIT_MAX": 60},
    )
    assert set(result.stats["in_flight"]) == {0}
    assert set(result.stats["tickets"]) <= {0, 1}, result.stats["tickets"]


def test_one_request_object_for_many_downloads(site: Site, mode: str) -> None:
    """A spider may download the same Request object several times at once."""
    start = site.add(name="127.0.0.2")
    host = site.add(DELAY.format(0.3), name="127.0.0.3")
    more = [host.url("/")] * 4
    result = run_crawl(
        [start.url("/")], spider=SPIDER, mode=mode, more=more, is_one_object=True
    )
    assert len(result.items) == 4
    assert set(result.stats["in_flight"]) == {0}
    assert min(host.gaps) > 0.29, host.gaps


def test_a_hidden_error_begins_the_delay(site: Site, mode: str) -> None:
    """The delay of a host begins after a request that has failed, even if a component of the
    project replaces the error by a response.
    """
    host = site.add(DELAY.format(0.3), name="127.0.0.3")
    host.limit = lambda hit: (
        None if hit.path == "/robots.txt" else Answer(raw=lambda: [PART, Then.RESET])
    )
    hide = {"tests.crawl.cancelling_spiders.HideErrors": 700}
    urls = [host.url(f"/{number}") for number in range(3)]
    result = run_crawl(urls, mode=mode, settings={"DOWNLOADER_MIDDLEWARES": hide})
    assert [one["status"] for one in result.responses] == [418] * 3
    assert min(host.gaps) > 0.29, host.gaps


def test_a_component_downloads_first(site: Site) -> None:
    """A downloader middleware may download something from the host of a request while it holds
    that request back, although the host has a delay. A crawl does not hang there.
    """
    host = site.add(DELAY.format(0.3), name="127.0.0.3")
    log_in = {"tests.crawl.cancelling_spiders.LogIn": 700}
    urls = [host.url(f"/{number}") for number in range(3)]
    result = run_crawl(urls, settings={"DOWNLOADER_MIDDLEWARES": log_in})
    assert result.fetched() == sorted(urls)
    assert len(host.hits_on("/token")) == 3
