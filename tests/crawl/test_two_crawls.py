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


def test_one_delay_for_both(site: Site, mode: str) -> None:
    """The Crawl-delay passes between the pages of both crawls. Each crawl
    fetches robots.txt itself.
    """
    host = site.add(f"User-agent: *\nCrawl-delay: {DELAY}\n")
    fast = site.add("User-agent: *\nDisallow: /private\n", name="127.0.0.2")
    parts = [
        [
            *(host.url(f"/{crawl}/{number}") for number in range(4)),
            *(fast.url(f"/{crawl}/{number}") for number in range(4)),
        ]
        for crawl in range(2)
    ]
    command = ["tests.crawl.two_crawls", mode, "{}", *parts[0], "--", *parts[1]]
    done = forks.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert len(host.pages) == len(fast.pages) == 8, done.stderr
    assert len(fast.robots_hits) == 2
    assert len(host.robots_hits) == 2
    # Both fetch robots.txt before either knows the delay.
    times = [hit.time for hit in host.hits if hit.path != "/robots.txt"]
    assert min(after - before for before, after in pairwise(times)) >= DELAY
    assert not done.stderr


def test_one_limit_for_both(site: Site, mode: str) -> None:
    """Both crawls together have CONCURRENT_REQUESTS_PER_DOMAIN requests to a host in flight."""
    host = site.add("User-agent: *\nDisallow: /private\n")
    parts = [[f"/{crawl}/{number}" for number in range(8)] for crawl in range(2)]
    host.answers |= {path: Answer(delay=0.1) for part in parts for path in part}
    urls = [[host.url(path) for path in part] for part in parts]
    settings = json.dumps({"CONCURRENT_REQUESTS_PER_DOMAIN": 3})
    command = ["tests.crawl.two_crawls", mode, settings, *urls[0], "--", *urls[1]]
    done = forks.run(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert len(host.pages) == 16, done.stderr
    assert host.at_once == 3
