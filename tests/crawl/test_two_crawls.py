"""Two crawls in one process keep the limits of a host together, without a store."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.crawl.answers import Answer, busy
from tests.crawl.crawl import ROOT
from tests.crawl.pauses import check_fetched, check_kept, limit, pages

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

DELAY = 0.2
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": 3,
    "REP_BACKOFF_MAX": 60,
    "REP_WAIT_MAX": 30,
    "RETRY_ENABLED": True,
    "RETRY_TIMES": 50,
}


def test_one_limit_for_both(site: Site, mode: str) -> None:
    """The Crawl-delay and a pause that the host asks for hold for the pages of both crawls, and
    both together have CONCURRENT_REQUESTS_PER_DOMAIN requests to a host in flight. Each fetches
    robots.txt itself.
    """
    slow = site.add(f"User-agent: *\nCrawl-delay: {DELAY}\n")
    fast, asking = (site.add("", name=f"127.0.0.{number}") for number in (2, 3))
    limit(asking, 10, busy(429, "1", delay=0.05), each=True)
    kinds = ("one", "other")
    paths = [f"/{kind}/{number}" for kind in kinds for number in range(8)]
    fast.answers |= dict.fromkeys(paths, Answer(delay=0.1))
    counts = {slow: 4, fast: 8, asking: 10}
    crawls = [
        [SETTINGS, *(url for host in counts for url in pages(host, counts[host], kind))]
        for kind in kinds
    ]
    done = forks.run(["tests.crawl.two_crawls", mode, json.dumps(crawls)], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    for host, count in counts.items():
        check_fetched(
            host, *(url for kind in kinds for url in pages(host, count, kind))
        )
        assert len(host.robots_hits) == 2
    # Both fetch robots.txt before either knows the delay.
    times = [hit.time for hit in slow.hits if hit.path != "/robots.txt"]
    assert min(after - before for before, after in pairwise(times)) >= DELAY
    assert fast.at_once == 3
    pauses = check_kept(asking, 2, places=SETTINGS["CONCURRENT_REQUESTS_PER_DOMAIN"])
    assert fast.hits[-1].time < pauses[-1].end
