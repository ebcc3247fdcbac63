"""Delays, places and pauses of a host over the crawls of several workers: where they come from, and
what waits for them beside the queue. ``test_rules.py`` tells how the server keeps them.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from scrapy import Request

from scrapy_rep.exceptions import RobotsDenied
from tests.redis.crawls import AS_JSON, A, WorkerCrawl, begun, decode_errors
from tests.redis.shared import LEASE, renew, take_some

if TYPE_CHECKING:
    from tests.redis.shared import Shared

CRAWL_DELAY = "User-agent: *\nCrawl-delay: 3"


def spans_of(crawls: list[WorkerCrawl]) -> list[list[float]]:
    """Return a list to which the start and the end of each request will be added."""
    spans: list[list[float]] = []
    for crawl in crawls:
        now = crawl.clock.monotonic
        crawl.network.on_send.append(lambda _, now=now: spans.append([now()]))
        crawl.network.on_end.append(lambda _, now=now: spans[-1].append(now()))
    return spans


def work(crawls: list[WorkerCrawl], seconds: float, robotstxt: str) -> None:
    """Let the workers work for so many seconds. Each request takes 0.3 seconds."""
    start = crawls[0].clock.monotonic()
    while crawls[0].clock.monotonic() < start + seconds:
        for crawl in crawls:
            crawl.serve(robotstxt, 0.3)
            crawl.settle(0.4)


# Delays.


@pytest.mark.parametrize(
    ("settings", "robotstxt", "fetches"),
    [
        pytest.param({}, CRAWL_DELAY, 1, id="Crawl-delay"),
        pytest.param(
            {"has_store": False},
            CRAWL_DELAY,
            3,
            id="Crawl-delay, without a store: each worker fetches robots.txt itself",
        ),
        pytest.param({"DOWNLOAD_DELAY": 3}, "", 0, id="DOWNLOAD_DELAY"),
        pytest.param(
            {"DOWNLOAD_DELAY": 9, "DOWNLOAD_SLOTS": {"a.example": {"delay": 3}}},
            "",
            0,
            id="DOWNLOAD_SLOTS",
        ),
    ],
)
def test_delay_over_workers(
    shared: Shared, settings: dict[str, Any], robotstxt: str, fetches: int
) -> None:
    """A Crawl-delay passes from the end of a request to the start of the next one, of all workers
    together, and a DOWNLOAD_DELAY between two starts. The robots.txt is one of the requests.
    """
    obey = bool(robotstxt)
    crawls = [WorkerCrawl(shared, obey=obey, **settings) for _ in range(3)]
    spans = spans_of(crawls)
    for number in range(6):
        crawls[number % 3].push_pages(number)
    work(crawls, 45, robotstxt)
    assert len(crawls[0].queue) == 0
    assert all(crawl.sent for crawl in crawls)
    assert len(spans) == 6 + fetches
    for before, after in pairwise(spans):
        assert 2.999 <= after[0] - before[int(obey)] < 5


@pytest.mark.parametrize("is_known", [False, True])
def test_what_cant_be_read_keeps_the_delay(
    shared: Shared, caplog: pytest.LogCaptureFixture, *, is_known: bool
) -> None:
    """Requests that can't be deserialized are set aside, with one error of each worker. All workers
    keep the delay of its host as before, whether its robots.txt is known or not.
    """
    crawls = [WorkerCrawl(shared, CONCURRENT_REQUESTS=1) for _ in range(3)]
    spans = spans_of(crawls)
    if is_known:
        crawls[0].push_pages(0)
        work(crawls, 10, CRAWL_DELAY)
    other = WorkerCrawl(shared, serializer=AS_JSON)
    other.die()  # It only pushes.
    other.push_pages("bad 1", "bad 2", "bad 3")
    crawls[0].push_pages(1, 2, 3)
    work(crawls, 30, CRAWL_DELAY)
    assert len(spans) == 4 + is_known
    for (_, end), (start, _) in pairwise(spans):
        assert 2.999 <= start - end < 6
    assert len(crawls[0].queue) == 0
    assert 1 <= decode_errors(caplog) <= len(crawls)
    assert len(shared.content()["aside"]) == 3


def test_delay_that_autothrottle_sets(shared: Shared) -> None:
    """If AutoThrottle makes the delay of a slot longer in one worker, the others keep to it."""
    one, two = begun(shared), WorkerCrawl(shared)
    one.downloader.slots["a.example"].delay = 3.0
    one.answer(f"{A}/1")
    one.settle(0.1)
    two.push_pages(2, 3)
    two.settle(2.6)
    assert two.on_network == [f"{A}/2"]
    two.settle(1)
    assert two.on_network == [f"{A}/2", f"{A}/3"]


def test_robotstxt_in_the_turn_of_a_page_that_it_refuses(shared: Shared) -> None:
    """A worker that has the turn of a page does not know the robots.txt, fetches it in that turn, and
    the page is refused by it. The delay of the host begins with the robots.txt, for all workers.
    """
    rules = f"{CRAWL_DELAY}\nDisallow: /no"
    one = begun(shared, rules, has_store=False)
    one.settle(4)
    one.serve()
    one.settle(0.1)
    one.die()
    two = WorkerCrawl(shared, has_store=False)
    two.push_pages("no", 2)
    two.settle(4)
    assert two.serve(rules) == [f"{A}/robots.txt"]
    assert [type(each) for each in two.ended.values()] == [RobotsDenied]
    two.settle(2.8)
    assert two.on_network == []
    two.settle(1)
    assert two.on_network == [f"{A}/2"]


@pytest.mark.parametrize("late", ["https://a.example/robots.txt", f"{A}/image"])
def test_what_comes_late_gets_its_turn(shared: Shared, late: str) -> None:
    """On a host with a Crawl-delay, the robots.txt of a second origin gets its turn, and so does an
    image, although the first origin always has requests. Failed attempts are repeated.
    """
    crawl = WorkerCrawl(shared, CONCURRENT_REQUESTS=4)
    failures, sent = 0, []
    for step in range(60):
        crawl.push_pages(step)
        if step == 10 and late.endswith("txt"):
            crawl.push("https://a.example/secure")
        elif step == 10:
            crawl.outside(late)
        assert len(crawl.on_network) <= 1
        sent += crawl.on_network
        if crawl.on_network == ["https://a.example/robots.txt"] and failures < 2:
            failures += 1
            crawl.fail(late, OSError("broken"), runs=False)
        crawl.serve("User-agent: *\nCrawl-delay: 1")
        crawl.settle(1)
    assert late in sent[4:40]
    assert len(sent) > 20


def test_robotstxt_beside_a_page_of_another_worker(shared: Shared) -> None:
    """The robots.txt of a second origin waits for the Crawl-delay of the host, which only another
    worker has read.
    """
    one, two = begun(shared, CRAWL_DELAY), WorkerCrawl(shared)
    one.settle(4)
    assert one.on_network == [f"{A}/1"]
    one.die()
    two.push("https://a.example/secure")
    two.settle(10)
    assert two.on_network == []
    one.answer(f"{A}/1")
    one.send()
    two.settle(2.5)
    assert two.on_network == []
    two.settle(3)
    assert two.on_network == ["https://a.example/robots.txt"]


def test_a_place_is_not_shared(shared: Shared) -> None:
    """A request that is not from the queue does not use the place of one that is in flight, or has
    ended a moment ago.
    """
    crawl = WorkerCrawl(shared, obey=False)
    crawl.push_pages(1)
    (popped,) = crawl.run()
    places, image = crawl.queue._leases, Request(f"{A}/image")
    assert not places.acquire(image, "a.example", ())
    crawl.answer(popped, runs=False)
    assert places.acquire(image, "a.example", ())
    worker = crawl.queue._worker
    assert not worker.popped


# Pauses.


def paused(shared: Shared, seconds: int) -> WorkerCrawl:
    """Return a worker whose host has just asked for a pause of so many *seconds*."""
    crawl = begun(shared)
    crawl.serve(status=429, Retry_After=f"{seconds}")
    crawl.settle(0.1)
    return crawl


def test_pause_of_two_workers(shared: Shared) -> None:
    """A pause that one worker was asked for is kept by the other one, also for requests that
    are not from the queue. The pauses of both are doubled together.
    """
    one, two = paused(shared, 20), WorkerCrawl(shared)
    two.push_pages(2)
    two.settle(0.6)
    two.outside(f"{A}/image")
    two.settle(18)
    one.settle(0.1)
    assert two.on_network == one.on_network == []
    two.settle(1.5)
    assert len(two.on_network) == 1  # Of both, one goes first.
    two.serve(status=429)
    start = shared.clock.monotonic()
    while not (one.on_network or two.on_network):
        for crawl in (one, two):
            crawl.settle(0.1)
    assert 2 <= shared.clock.monotonic() - start <= 3


def test_pause_between_pop_and_sending(shared: Shared) -> None:
    """A request that a worker has popped is not sent if its host has asked another worker for a pause
    since. If the last call was just now, the worker makes none for that.
    """
    one, two = begun(shared, CONCURRENT_REQUESTS=1), WorkerCrawl(shared)
    two.push_pages(2, 3)
    early, late = two.queue.pop(), two.queue.pop()
    with mock.patch.object(two.queue._worker, "exchange", side_effect=AssertionError):
        two.start(early)
    assert two.on_network == [early.url]
    one.serve(status=429, Retry_After="20")
    shared.advance(0.05)
    two.start(late)
    assert two.on_network == [early.url]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("is_exempt", [False, True])
def test_pause_before_an_image(shared: Shared, *, waits: bool, is_exempt: bool) -> None:
    """An image is not sent if its host has asked another worker for a pause of which this worker has
    not heard, also if the image has waited for a place in its download slot, or is exempt from
    robots.txt.
    """
    one = begun(shared)
    two = WorkerCrawl(shared, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    meta = {"dont_obey_robotstxt": True} if is_exempt else {}
    two.outside(f"{A}/first")
    assert two.on_network == [f"{A}/first"]
    if waits:
        two.outside(f"{A}/image", **meta)
    else:
        two.answer(f"{A}/first")
    one.serve(status=503, Retry_After="20")
    shared.clock._now += 0.4  # The other worker makes no call meanwhile.
    if waits:
        two.answer(f"{A}/first")
    else:
        two.outside(f"{A}/image", **meta)
    assert two.on_network == []
    two.settle(25)
    assert two.on_network == [f"{A}/image"]


def test_a_worker_that_starts_after_a_pause(shared: Shared) -> None:
    """After a pause, a worker that has started since sends nothing to the host beside the request of
    another one.
    """
    one = paused(shared, 5)
    one.push_pages(2)
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
    crawl.push_pages(2)
    # The engine asks for a request before the timers of that time have been called.
    shared.clock._now += 5.1
    crawl.engine.wake()
    crawl.run()
    (first,) = crawl.on_network
    assert shared.count() == 1
    crawl.answer(first)
    crawl.settle(3)
    assert {first, *crawl.on_network} == {f"{A}/2", f"{A}/image"}


def test_a_page_beside_an_image_of_before_the_pause(shared: Shared) -> None:
    """After a pause, a worker does not send a page beside an image that it has sent before, which the
    server does not count.
    """
    crawl = begun(shared)
    crawl.outside(f"{A}/image")
    crawl.answer(f"{A}/1", status=429, Retry_After="5")
    crawl.push_pages(2)
    crawl.settle(8)
    assert crawl.on_network == [f"{A}/image"]
    crawl.answer(f"{A}/image")
    crawl.settle(3)
    assert crawl.on_network == [f"{A}/2"]


def test_an_image_beside_the_pages_of_two_workers(shared: Shared) -> None:
    """After a pause and one success, the host has two places: with two pages in flight, one of each
    worker, an image waits.
    """
    crawl, other = paused(shared, 5), shared.worker()
    crawl.push_pages(2, 3, 4)
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


# Workers that stand still.


@pytest.mark.parametrize(
    "fate",
    [
        "stood still during a pause",
        "heard of a pause",
        "was taken for dead",
        "has not renewed its lease",
        "renewed its lease before others noticed",
    ],
)
def test_what_was_handed_out_before(shared: Shared, fate: str) -> None:
    """A worker does not send what it was handed out before it stood still for longer than the pause
    of a host, heard of the pause, or lost its lease, whether it has renewed that or not; nor what it
    was about to send when it lost its lease. If no other worker has noticed, it may.
    """
    crawl = WorkerCrawl(shared, obey=False, CONCURRENT_REQUESTS=4)
    other = shared.worker(lease=1000.0)
    crawl.push_pages(1, 2, 3)
    request = crawl.queue.pop()
    assert request is not None
    crawl.start(request)
    crawl.die()
    may_send = fate == "renewed its lease before others noticed"
    if "pause" in fate:
        other.report_pause("a.example", 1.0, 1.0)
        if fate == "heard of a pause":
            crawl.send()
        else:
            shared.advance(2.0)
    else:
        crawl.queue._kept_until = inf  # The server was distant.
        shared.advance(LEASE + 1)
        assert not crawl.queue._leases.has_turn(request)
        if not may_send:
            assert len(take_some(other, 8, at_once=8)) == 3
        if fate != "has not renewed its lease":
            crawl.send()
        assert crawl.queue._leases.has_turn(request) is may_send
    assert (crawl.queue.pop() is not None) is may_send
    assert not take_some(other, 8, at_once=8)


def test_turn_that_was_lost_while_a_request_waits(shared: Shared) -> None:
    """A request that loses its turn while it waits in the downloader waits again for a turn."""
    other = begun(shared, CRAWL_DELAY, has_store=False)
    other.settle(4)
    other.serve()
    other.settle(4)
    stopped = WorkerCrawl(shared, has_store=False)
    stopped.push_pages(2)
    stopped.run()
    assert stopped.on_network == [f"{A}/robots.txt"]
    stopped.answer(f"{A}/robots.txt", CRAWL_DELAY)  # The delay begins.
    with mock.patch.object(shared.clock, "_timers", []):
        shared.advance(LEASE)
        renew(other.queue._worker)
        shared.advance(4)
        other.engine.wake()
        other.run()
        assert other.on_network == [f"{A}/2"]
    stopped.settle(0.1)
    assert stopped.on_network == []


def test_rules_that_are_wanted_again(shared: Shared) -> None:
    """A worker that is taken for dead while it waits for a robots.txt, and is asked to fetch that again,
    fetches it once, and sends the page.
    """
    crawl = WorkerCrawl(shared)
    frontier = crawl.frontier
    with mock.patch.object(frontier, "want_rules", wraps=frontier.want_rules) as want:
        crawl.push_pages(1)
        crawl.settle(1)
        with mock.patch.object(shared.clock, "_timers", []):
            shared.advance(LEASE)
            renew(shared.worker())
        crawl.engine.wake()
        crawl.settle(1)
    leases = shared.content()[f"leases:{crawl.queue._worker._name}"]
    assert "~a.example\thttp://a.example" in leases
    assert want.call_count == 1
    assert crawl.on_network == [f"{A}/robots.txt"]
    crawl.serve()
    crawl.settle(1)
    assert crawl.on_network == [f"{A}/1"]
