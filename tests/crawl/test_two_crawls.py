"""Two crawls in one process keep the limits of a host together, without a store."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests import forks
from tests.crawl.answers import Answer
from tests.crawl.crawl import ROOT

if TYPE_CHECKING:
    from tests.crawl.server import Site

pytestmark = pytest.mark.unmeasured

DELAY = 0.2


def test_one_limit_for_both(site: Site, mode: str) -> None:
    """The Crawl-delay passes between the pages of both crawls, and both together have
    CONCURRENT_REQUESTS_PER_DOMAIN requests to a host in flight. Each fetches robots.txt itself.
    """
    slow = site.add(f"User-agent: *\nCrawl-delay: {DELAY}\n")
    fast = site.add("User-agent: *\nDisallow: /private\n", name="127.0.0.2")
    paths = [[f"/{crawl}/{number}" for number in range(8)] for crawl in range(2)]
    fast.answers |= {path: Answer(delay=0.1) for part in paths for path in part}
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 3}
    crawls = [
        [settings, *map(slow.url, part[:4]), *map(fast.url, part)] for part in paths
    ]
    command = ["tests.crawl.two_crawls", mode, json.dumps(crawls)]
    done = forks.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert (len(slow.pages), len(fast.pages)) == (8, 16)
    assert len(slow.robots_hits) == len(fast.robots_hits) == 2
    # Both fetch robots.txt before either knows the delay.
    times = [hit.time for hit in slow.hits if hit.path != "/robots.txt"]
    assert min(after - before for before, after in pairwise(times)) >= DELAY
    assert fast.at_once == 3
    assert not done.stderr
