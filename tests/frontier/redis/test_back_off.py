"""A host that asks one worker for a pause gets nothing from any worker meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scrapy.http import Response

from tests.frontier.redis.crawls import WorkerCrawl
from tests.frontier.redis.shared import (
    EXEMPT,
    HOUR,
    OTHER,
    PAGES,
    end,
    know,
    pop,
    pop_all,
    push,
    renew,
    retire,
    take,
    take_some,
)
from tests.frontier.redis.test_faults import no_memory

if TYPE_CHECKING:
    from scrapy_rep.frontier.redis.worker import Worker
    from tests.frontier.redis.shared import Shared

pytestmark = pytest.mark.newest

A = "http://a.example"
HOST = "a.example"


def test_pause_holds_for_all_workers(shared: Shared) -> None:
    """No worker gets a request of a host before the end of its pause, in any of its queues.
    Other hosts go on.
    """
    one, two = shared.worker(), shared.worker()
    for queue in (PAGES, OTHER):
        know(one, queue)
    push(one, PAGES, "1", "2")
    push(one, EXEMPT, "e")
    push(one, OTHER, "b")
    one.back_off(HOST, 7.0, 1.0)
    assert pop_all(two, at_once=8) == ["b"]
    shared.advance(6.999)
    assert pop_all(one, at_once=8) == pop_all(two, at_once=8) == []
    assert two.again == 0.001
    shared.advance(0.001)
    assert pop(two, at_once=8) is not None


def test_one_place_more_with_each_success(shared: Shared) -> None:
    """After a pause, all workers together have one request in flight, and one more with each
    success, up to the limit.
    """
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, *map(str, range(12)))
    one.back_off(HOST, 7.0, 1.0)
    shared.advance(7)
    for most in (1, 2, 3):
        found = [take(one, at_once=4), *[take(two, at_once=4) for _ in range(4)]]
        flying = [each for each in found if each is not None]
        assert len(flying) == most
        for each in flying:
            # All but one are answered from a cache, or fail.
            end(one, each, pause=one.last_pause if each is flying[0] else 0)
            end(two, each)
        one.exchange()
        two.exchange()
    assert len(pop_all(two, at_once=4)) == 4
    assert "places" not in shared.host(HOST)


def test_success_of_what_was_sent_before(shared: Shared) -> None:
    """A request that was sent before a pause says nothing about the time after it."""
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, *map(str, range(9)))
    one.back_off(HOST, 7.0, 1.0)
    shared.advance(7)
    found = take(two, at_once=8)
    one.back_off(HOST, 7.0, 2.0)
    shared.advance(8)
    end(two, found, pause=two.last_pause)
    assert len(pop_all(two, at_once=8)) == 1


def test_pauses_are_told(shared: Shared) -> None:
    """Each worker learns of each pause once, also one that starts later: even after the pause, as
    long as the host has not succeeded since.
    """
    told: list[list[tuple[object, ...]]] = [[], [], [], [], []]

    def worker(number: int) -> Worker:
        return shared.worker(on_paused=lambda *each: told[number].append(each))

    one, two = worker(0), worker(1)
    one.back_off(HOST, 7.0, 2.0)
    shared.advance(1)
    for each in (one, two, two):
        each.exchange()
    assert told[:2] == [[(HOST, 7.0, 2.0, 0.0)], [(HOST, 6.0, 2.0, 1.0)]]
    one.back_off("b.example", 3.0, 1.0)
    one.back_off(HOST, 9.0, 2.0)
    two.exchange()
    assert told[1][1:] == [("b.example", 3.0, 1.0, 0.0), (HOST, 9.0, 2.0, 1.0)]
    shared.advance(5)
    worker(2)
    assert told[2] == [("b.example", -2.0, 1.0, 5.0), (HOST, 4.0, 2.0, 6.0)]
    shared.advance(5)
    know(one, PAGES)
    push(one, PAGES, "1")
    probe = take(one)
    worker(3)
    assert told[3][1:] == [(HOST, -1.0, 2.0, 11.0)]
    end(one, probe, pause=one.last_pause)
    one.exchange()
    worker(4)
    assert [host for host, *_ in told[4]] == ["b.example"]


def test_longest_pause_of_several_workers(shared: Shared) -> None:
    """If several workers report pauses of a host, the one that ends last holds."""
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, "1")
    one.back_off(HOST, 7.0, 1.0)
    two.back_off(HOST, 2.0, 1.0)
    shared.advance(6.999)
    assert pop(two) is None
    shared.advance(0.001)
    assert pop(two) == "1"


def test_too_long_a_pause(shared: Shared) -> None:
    """If a host asks for more than the crawl waits, its requests are handed out to be refused,
    without a place. When the pause is over, one request asks whether the host is back.
    """
    one, two = (shared.worker(wait_max=60.0) for _ in "12")
    know(one, PAGES, holds=2 * HOUR)
    push(one, PAGES, "1", "2")
    push(one, EXEMPT, "e")
    assert pop(one) is not None
    assert pop(one) is None
    one.back_off(HOST, HOUR, 1.0)
    found = [take(two) for _ in range(3)]
    assert [each and each.has_place for each in found] == [False, False, None]
    assert shared.host(HOST)["in_flight"] == 1
    retire(one)
    shared.advance(HOUR)
    renew(two)
    push(two, PAGES, "3", "4")
    probe = take(two)
    assert probe is not None
    assert probe.has_place


def test_pauses_that_last_too_long(shared: Shared) -> None:
    """If a host has only asked for pauses for longer than the crawl waits, all requests but
    one are handed out to be refused. After a success, they are sent again.
    """
    one = shared.worker(wait_max=5.0)
    know(one, PAGES)
    push(one, PAGES, *map(str, range(5)))
    for own in (1.0, 2.0, 4.0):
        probe = take(one)
        assert probe is not None
        assert probe.has_place
        one.back_off(HOST, own, own)
        end(one, probe)
        shared.advance(own)
    probe, second = take(one), take(one)
    assert [each and each.has_place for each in (probe, second)] == [True, False]
    assert probe is not None
    end(one, probe, pause=one.last_pause)
    push(one, PAGES, "a", "b")
    found = take(one)
    assert found is not None
    assert found.has_place


def test_back_off_is_forgotten(shared: Shared) -> None:
    """What is known of a pause expires, also for a host without a robots.txt."""
    worker = shared.worker(obeys=False)
    push(worker, EXEMPT, "1")
    found = take(worker)
    worker.back_off(HOST, 7.0, 1.0)
    end(worker, found)
    worker.exchange()
    assert 7 < shared.ends_in(f"host:{HOST}") <= 25 * HOUR
    retire(worker)
    shared.advance(25 * HOUR)
    assert shared.names() == {"number", "count"}


def test_pause_while_the_server_is_full(shared: Shared) -> None:
    """A pause is recorded even if the server is out of memory, or when it answers again."""
    one, two = shared.worker(), shared.worker()
    know(one, PAGES)
    push(one, PAGES, "1")
    with no_memory(shared):
        one.back_off(HOST, 7.0, 1.0)
        assert pop(two) is None
    know(two, OTHER)
    push(two, OTHER, "b")
    one._link._failed_at = shared.clock.monotonic()
    one.back_off("b.example", 7.0, 1.0)
    shared.advance(2)
    one.exchange()
    assert pop(two) is None
    shared.advance(5)
    assert sorted(pop_all(two)) == ["1", "b"]


def test_places_after_a_pause_are_not_shared(shared: Shared) -> None:
    """After a pause and one success, the host has two places: with two pages in flight, one of each
    worker, an image waits.
    """
    crawl, other = WorkerCrawl(shared), shared.worker()
    crawl.push(f"{A}/1")
    crawl.settle(0.1)
    crawl.answer(f"{A}/robots.txt")
    crawl.settle(0.1)
    busy(crawl, f"{A}/1", **{"Retry-After": "5"})
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


def test_a_worker_that_starts_after_a_pause(shared: Shared) -> None:
    """After a pause, a worker that has started since sends nothing to the host beside the request of
    another one.
    """
    one = WorkerCrawl(shared)
    one.push(f"{A}/1")
    one.settle(0.1)
    one.answer(f"{A}/robots.txt")
    one.settle(0.1)
    busy(one, f"{A}/1", **{"Retry-After": "5"})
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


def test_two_requests_that_may_go_at_once(shared: Shared) -> None:
    """If an image and a page of one worker may go in the same moment after a pause, one of them
    goes, and none is lost.
    """
    crawl = WorkerCrawl(shared)
    crawl.push(f"{A}/1")
    crawl.settle(0.1)
    crawl.answer(f"{A}/robots.txt")
    crawl.settle(0.1)
    busy(crawl, f"{A}/1", **{"Retry-After": "5"})
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


def busy(crawl: WorkerCrawl, url: str, **headers: str) -> None:
    """Let the host of *url* answer 429."""
    (request,) = [each for each in crawl.network.requests if each.url == url]
    crawl.network.end(request, Response(url, 429, headers=headers))
    crawl.settle(0.1)


def test_crawl_of_two_workers(shared: Shared) -> None:
    """A pause that one worker was asked for is kept by the other one, also for requests that
    are not from the queue. The pauses of both are doubled together.
    """
    one, two = (WorkerCrawl(shared, CONCURRENT_REQUESTS=4) for _ in "12")
    one.push(f"{A}/1")
    one.settle(0.1)
    one.answer(f"{A}/robots.txt")
    one.settle(0.1)
    busy(one, f"{A}/1", **{"Retry-After": "20"})
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
