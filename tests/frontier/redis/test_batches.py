"""What a worker collects goes to the server in batches, and requests come in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy import Request

from tests.frontier.redis.crawls import WorkerCrawl
from tests.frontier.redis.shared import (
    LEASE,
    OTHER,
    PAGES,
    know,
    push,
    renew,
    take_some,
)

if TYPE_CHECKING:
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest

A = "http://a.example"


def calls(shared: Shared) -> int:
    """Return how many scripts the server has run since the last call of this function."""
    found = shared.redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})
    shared.redis.config_resetstat()
    return int(found["calls"])


def collect(crawl: WorkerCrawl, *pages: object) -> None:
    """Push requests as the scheduler does, without sending them."""
    for page in pages:
        request = Request(f"{A}/{page}")
        assert not crawl.df.request_seen(request)
        crawl.queue.push(request)


def test_new_requests_go_in_batches(shared: Shared) -> None:
    """New requests are sent at the latest after 20 ms, or when there are 100."""
    crawl = WorkerCrawl(shared, obey=False)
    crawl.settle(1)
    calls(shared)
    collect(crawl, *range(99))
    assert shared.count() == 0
    calls(shared)
    collect(crawl, 99)
    assert (shared.count(), calls(shared)) == (100, 1)
    collect(crawl, 100)
    crawl.clock.advance(0.019)
    assert shared.count() == 100
    crawl.clock.advance(0.002)
    assert shared.count() == 101


def test_a_page_and_its_links_go_in_one_call(shared: Shared) -> None:
    """The end of a page, its links, and the request for the next page are one call. If the
    worker dies before it, the page is fetched again: nothing is lost.
    """
    crawl, other = WorkerCrawl(shared, obey=False), shared.worker(lease=1000.0)
    collect(crawl, "page")
    crawl.settle(1)
    calls(shared)
    crawl.answer(f"{A}/page", runs=False)
    collect(crawl, "link")
    assert shared.count() == 1
    crawl.engine.wake()
    crawl.run()
    assert crawl.on_network == [f"{A}/link"]
    assert (shared.count(), calls(shared)) == (1, 1)
    crawl.answer(f"{A}/link", runs=False)
    collect(crawl, "lost")
    crawl.die()
    shared.advance(LEASE)
    assert renew(other) == 1


def test_as_many_as_there_is_room_for(shared: Shared) -> None:
    """One call gets as many requests as the downloader has room for, those of the hosts in
    turn.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=8)
    worker = shared.worker()
    know(worker, PAGES)
    know(worker, OTHER)
    push(worker, PAGES, "a1", "a2", "a3")
    push(worker, OTHER, "b1", "b2", "b3")
    found = take_some(worker, 4, at_once=4)
    assert sorted(each.data[:1] for each in found) == [b"a", b"a", b"b", b"b"]
    for page in range(9):
        crawl.push(f"http://c.example/{page}")
    calls(shared)
    crawl.run()
    assert len(crawl.on_network) == 8
    # One of them finds that the downloader is full.
    assert calls(shared) <= 2


def test_what_is_not_used_is_given_back(shared: Shared) -> None:
    """Requests that were handed out and are not popped, since the spider is busy, return to the
    queue without a delay for their host.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=4)
    other = shared.worker(obeys=False)
    for page in range(3):
        crawl.push(f"{A}/{page}")
    assert crawl.queue.pop() is not None
    assert len(crawl.queue._handed_out) == 2
    crawl.engine.scraper.is_full = True
    crawl.clock.advance(0.2)
    assert not crawl.queue._handed_out
    assert len(take_some(other, 8, at_once=8)) == 2


def test_what_was_not_used_in_time(shared: Shared) -> None:
    """A worker that stands still for longer than the pause of a host does not send what it was
    handed out before: the host gets one request at first.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=4)
    other = shared.worker(obeys=False)
    for page in range(3):
        crawl.push(f"{A}/{page}")
    crawl.start(crawl.queue.pop())
    other.back_off("a.example", 1.0, 1.0)
    crawl.frontier.alarms.stop()  # No timer runs while it stands still.
    shared.advance(2.0)
    assert crawl.queue.pop() is None
    assert not take_some(other, 8, at_once=8)
