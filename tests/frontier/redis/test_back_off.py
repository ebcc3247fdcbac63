"""Crawls of several workers whose host has asked for a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy.http import Response

from tests.frontier.redis.crawls import WorkerCrawl
from tests.frontier.redis.shared import take_some

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest

A = "http://a.example"


def paused(shared: Shared, seconds: int, **settings: Any) -> WorkerCrawl:
    """Return a worker whose host has just asked for a pause of so many *seconds*."""
    crawl = WorkerCrawl(shared, **settings)
    crawl.push(f"{A}/1")
    crawl.settle(0.1)
    crawl.answer(f"{A}/robots.txt")
    crawl.settle(0.1)
    busy(crawl, f"{A}/1", **{"Retry-After": str(seconds)})
    return crawl


def busy(crawl: WorkerCrawl, url: str, **headers: str) -> None:
    """Let the host of *url* answer 429."""
    (request,) = [each for each in crawl.network.requests if each.url == url]
    crawl.network.end(request, Response(url, 429, headers=headers))
    crawl.settle(0.1)


def test_pause_of_two_workers(shared: Shared) -> None:
    """A pause that one worker was asked for is kept by the other one, also for requests that
    are not from the queue. The pauses of both are doubled together.
    """
    one, two = paused(shared, 20), WorkerCrawl(shared)
    two.push(f"{A}/2")
    two.settle(0.6)
    two.outside(f"{A}/image")
    two.settle(18)
    one.settle(0.1)
    assert two.on_network == one.on_network == []
    two.settle(1.5)
    # Of both, one goes first.
    (url,) = two.on_network
    busy(two, url)
    start = shared.clock.monotonic()
    while not (one.on_network or two.on_network):
        for crawl in (one, two):
            crawl.settle(0.1)
    assert 2 <= shared.clock.monotonic() - start <= 3


def test_a_worker_that_starts_after_a_pause(shared: Shared) -> None:
    """After a pause, a worker that has started since sends nothing to the host beside the request of
    another one.
    """
    one = paused(shared, 5)
    one.push(f"{A}/2")
    one.settle(5.5)
    assert one.on_network == [f"{A}/2"]
    two = WorkerCrawl(shared)
    two.settle(0.6)
    two.outside(f"{A}/image")
    two.settle(2)
    one.settle(0.1)
    assert two.on_network == []
    one.answer(f"{A}/2")
    one.settle(0.1)
    two.settle(3)
    assert two.on_network == [f"{A}/image"]


def test_an_image_and_a_page_that_may_go_at_once(shared: Shared) -> None:
    """If an image and a page of one worker may go in the same moment after a pause, one of them
    goes, and none is lost.
    """
    crawl = paused(shared, 5)
    crawl.outside(f"{A}/image")
    crawl.push(f"{A}/2")
    # The engine asks for a request before the timers of that time have been called.
    shared.clock._now += 5.1
    crawl.engine.wake()
    crawl.run()
    assert crawl.on_network == [f"{A}/2"]
    assert shared.count() == 1
    crawl.answer(f"{A}/2")
    crawl.settle(3)
    assert crawl.on_network == [f"{A}/image"]


def test_an_image_beside_the_pages_of_two_workers(shared: Shared) -> None:
    """After a pause and one success, the host has two places: with two pages in flight, one of each
    worker, an image waits.
    """
    crawl, other = paused(shared, 5), shared.worker()
    for page in "234":
        crawl.push(f"{A}/{page}")
    crawl.settle(5.5)
    (first,) = crawl.on_network
    crawl.engine.scraper.is_full = True
    crawl.answer(first)
    crawl.settle(0.1)
    assert take_some(other, 1, at_once=4)
    crawl.engine.scraper.is_full = False
    crawl.settle(0.6)
    (second,) = crawl.on_network
    crawl.outside(f"{A}/image")
    crawl.settle(1)
    assert crawl.on_network == [second]
    crawl.answer(second)
    crawl.settle(3)
    assert crawl.on_network == []
