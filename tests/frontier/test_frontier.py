"""Tests of the frontier with a fake engine and without downloads."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from scrapy import Request
from scrapy.utils.asyncio import call_later, is_asyncio_available
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.base.compat import download_slot
from scrapy_rep.crawl.fetching.request import RobotsTxtRequest
from scrapy_rep.crawl.frontier.limits import InFlight, Stage, Waiter
from scrapy_rep.crawl.frontier.queues import QueueKey
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.protocol.origins import Origin
from tests.clock import FakeClock
from tests.fakes import coroutine_test
from tests.frontier.engine import Run

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path
    from typing import Any

    from scrapy_rep.crawl.frontier.frontier import Frontier

pytestmark = pytest.mark.newest

SITE = "http://a.example"


@coroutine_test
async def test_a_crawl_without_network_ends_although_nothing_else_is_scheduled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No host is paused, and no robots.txt is fetched, so nothing else is scheduled that could end the crawl. The
    number of requests that were not sent is in the log and in a stat.
    """
    run = Run(REP_BACKOFF_MAX=0, REP_WAIT_TIMEOUT=10)
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    lose_network(frontier)
    run.push(*(Request(f"{SITE}/{number}") for number in range(3)))
    assert run.next() is None
    clock.advance(9)
    assert frontier.closes_for == ""
    clock.advance(2)
    assert frontier.closes_for == "network_gone"
    assert "3 requests to 1 hosts were not sent" in caplog.text
    assert run.crawler.stats.get_value("rep/network/not_sent") == 3
    run.close()


@coroutine_test
async def test_a_crawl_without_network_ends_although_a_robotstxt_request_never_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a network, the crawl sends one request for robots.txt as a test whether the network works again. A
    component may keep this request forever. The crawl ends all the same, and logs its end once.
    """
    run = Run(REP_WAIT_TIMEOUT=10)
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    frontier.rules = mock.MagicMock(fetches={})
    lose_network(frontier)
    frontier.limits.network.robotstxt.planned = 1
    frontier.flush()
    clock.advance(9)
    assert frontier.closes_for == ""
    clock.advance(5)
    assert frontier.closes_for == "network_gone"
    assert caplog.text.count("The network of the crawler has been gone for longer") == 1
    run.close()


def test_a_burst_of_failures_for_lack_of_file_descriptors_counts_as_one() -> None:
    """The number of robots.txt files that are fetched at once is reduced once a second while the machine has no free
    file descriptor, not once for each failure.
    """
    run = Run()
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    frontier.rules = rules = mock.MagicMock(fetches={})
    request = Request(SITE)
    entry = frontier.enter(request)
    for expected in 1, 2:
        for _ in range(5):
            frontier.failed(request, OSError(errno.EMFILE, "too many files"), entry)
        assert rules.fetch_fewer.call_count == expected
        clock.advance(1)
    run.close()


@coroutine_test
async def test_a_request_whose_end_was_hidden_is_forgotten_beside_an_unknown_request() -> (
    None
):
    """A component has ended the request without telling this package, so it still counts as in flight. It is forgotten
    after a minute, even if the downloader has another request of which this package does not know.
    """
    run = Run(CONCURRENT_REQUESTS_PER_DOMAIN=1)
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    frontier._spider_opened()
    run.push(Request(f"{SITE}/1"), Request(f"{SITE}/2"))
    request = run.next()
    assert request is not None
    run.finish(request)
    run.engine.downloader.active.add(Request("http://b.example"))
    assert run.next() is None
    clock.advance(61)
    assert request not in frontier.in_flight
    assert run.next() is not None
    run.close()


@coroutine_test
async def test_no_request_that_waits_for_rules_is_given_up_while_the_network_is_gone() -> (
    None
):
    """The request began to wait before the network failed. It keeps waiting even after ``REP_WAIT_TIMEOUT``. It fails
    only when the crawl ends because the network does not come back.
    """
    run = Run(REP_WAIT_TIMEOUT=200)
    frontier, clock, rules = run.frontier, FakeClock(), mock.MagicMock(fetches={})
    frontier.clock = frontier.alarms.clock = clock
    frontier.rules = rules
    origin = Origin("http", "a.example", 80)
    queue = frontier.queues.add(QueueKey("a.example", origin))
    rules.cache.override.return_value = None
    site, entry = frontier.limits.site(origin), InFlight(queue)
    waiting = deferred_from_coro(frontier.until_known(Request(SITE), entry, site))
    await let_coroutines_start()
    clock.advance(1)
    lose_network(frontier)
    clock.advance(199.5)
    assert not waiting.called
    assert frontier.closes_for == ""
    clock.advance(1)
    assert frontier.closes_for == "network_gone"
    frontier._close()
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(waiting)
    run.close()


def test_a_request_on_its_way_to_the_downloader_has_not_ended() -> None:
    """In later versions of Scrapy, a request that the scheduler handed out may wait before it is passed to the
    downloader. It has not ended as long as the engine lists it as in progress.
    """
    run = Run(CONCURRENT_REQUESTS_PER_DOMAIN=2)
    run.push(*(Request(f"{SITE}/{number}") for number in range(3)))
    waiting = run.scheduler.next_request()
    run.engine._slot.inprogress.add(waiting)
    assert run.next() is not None
    assert waiting in run.frontier.in_flight
    run.engine._slot.inprogress.discard(waiting)
    assert run.next() is not None
    assert waiting not in run.frontier.in_flight
    run.close()


def test_a_request_that_cannot_be_written_may_return_to_the_scheduler(
    tmp_path: Path,
) -> None:
    """The request cannot be written to the JOBDIR, so it is kept in memory. It must not be mistaken for a request that
    a component has changed, because a changed request does not return to the scheduler.
    """
    run = Run(JOBDIR=str(tmp_path))
    request = Request(SITE, callback=lambda _: None)
    run.push(request)
    assert run.next() is request
    entry = run.frontier.in_flight[request]
    assert run.frontier.may_send(request, entry)
    assert entry.may_return
    run.close()


def lose_network(frontier: Frontier) -> None:
    """Let five hosts in a row fail, so that the network counts as gone."""
    now = frontier.clock.monotonic()
    for host in "bcdef":
        origin = Origin("http", host, 80)
        frontier.limits.network.failed(host, origin, now, has_server=True)


async def let_coroutines_start() -> None:
    """Let coroutines that were scheduled run until they wait."""
    soon: Deferred[None] = Deferred()
    call_later(0.01, soon.callback, None)
    await maybe_deferred_to_future(soon)


async def cancel(waiting: Deferred[None]) -> None:
    """Cancel *waiting*, and wait until it has failed."""
    waiting.cancel()
    with pytest.raises(BaseException):  # noqa: B017, PT011  a CancelledError of asyncio or of Twisted
        await maybe_deferred_to_future(waiting)


@pytest.mark.parametrize("is_wait_over", [False, True])
@coroutine_test
async def test_a_cancelled_robotstxt_request_leaves_its_turn_to_the_next(
    is_wait_over: bool,
) -> None:
    """The first request is cancelled while it waits, or (if *is_wait_over* is True) just after its wait has ended."""
    run = Run(CONCURRENT_REQUESTS_PER_DOMAIN=1)
    frontier = run.frontier
    limits, now = frontier.limits, frontier.clock.monotonic()
    requests = [RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2)]
    page = InFlight(frontier.queues.of(requests[0]))
    frontier.queues.look_at_slot(page.queue.slot)
    assert limits.try_send(page, now)
    coroutines: list[Coroutine[Any, Any, None]] = list(
        map(frontier._take_room, requests)
    )
    first, second = map(deferred_from_coro, coroutines)
    await let_coroutines_start()
    assert len(page.queue.host.waiters or ()) == 2
    if is_wait_over:
        limits.end(page, now)
        frontier.flush()
    await cancel(first)
    frontier._free_room(requests[0])
    if not is_wait_over:
        limits.end(page, now)
        frontier.flush()
    await maybe_deferred_to_future(second)
    assert page.queue.host.planned == 1
    frontier._free_room(requests[1])
    assert page.queue.host.planned == 0
    run.close()


@coroutine_test
async def test_a_request_that_gets_room_just_before_a_pause_is_not_sent() -> None:
    """With asyncio, a request whose wait has ended continues in the next iteration of the event loop. It must not be
    sent if its host is paused by then. Without asyncio, the request continues immediately.
    """
    run = Run(CONCURRENT_REQUESTS_PER_DOMAIN=1)
    frontier, now = run.frontier, run.frontier.clock.monotonic()
    requests = [Request(f"{SITE}/{name}") for name in "ab"]
    run.engine.downloader.active.update(requests)
    page, image = map(frontier.enter, requests)
    frontier.queues.look_at_slot(page.queue.slot)
    assert frontier.limits.try_send(page, now)
    sending = deferred_from_coro(frontier.until_sent(requests[1], image))
    await let_coroutines_start()
    frontier.limits.end(page, now)
    frontier.flush()
    frontier.pause("a.example", 30, None, "asks for it")
    may_be_sent = await maybe_deferred_to_future(sending)
    assert may_be_sent == (not is_asyncio_available())
    run.close()


@coroutine_test
async def test_a_robotstxt_that_a_browser_awaits_keeps_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page in the browser may wait for robots.txt. So the request for robots.txt does not wait for the end of the
    page, even if the host allows only one request at a time. But it is not sent while its host is paused.
    """
    run = Run()
    frontier = run.frontier
    monkeypatch.setattr(frontier, "is_awaited_by_browser", lambda limiters: True)
    first, second = (RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2))
    await frontier._take_room(first)
    frontier.pause("a.example", 30, None, "asks for it")
    waiting = deferred_from_coro(frontier._take_room(second))
    await let_coroutines_start()
    assert not waiting.called
    await cancel(waiting)
    run.close()


@coroutine_test
async def test_a_robotstxt_that_a_browser_awaits_needs_no_room_after_a_pause() -> None:
    """After a pause, one request at a time may be in flight. Here it is the page in the browser. The request for
    robots.txt is sent all the same, because the page may wait for it.
    """
    run = Run(PLAYWRIGHT_ABORT_REQUEST="scrapy_rep.playwright.abort_forbidden")
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = frontier.politeness._clock = clock
    request = Request(SITE, meta={"playwright": True})
    run.engine.downloader.active.add(request)
    page = frontier.enter(request)
    assert frontier.limits.try_send(page, clock.monotonic())
    frontier.pause("a.example", 30, None, "asks for it")
    robotstxt = [RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2)]
    waiting = [
        deferred_from_coro(frontier._take_room(request)) for request in robotstxt
    ]
    await let_coroutines_start()
    clock.advance(29)
    await let_coroutines_start()
    assert not any(deferred.called for deferred in waiting)
    clock.advance(2)
    await let_coroutines_start()
    assert all(deferred.called for deferred in waiting)
    assert page.queue.host.planned == 2
    for request in robotstxt:
        frontier._free_room(request)
    assert page.queue.host.planned == 0
    run.close()


@coroutine_test
async def test_a_robotstxt_that_a_browser_awaits_keeps_the_pause_for_lack_of_file_descriptors() -> (
    None
):
    """If a request fails for lack of file descriptors, no request is sent for a second. This applies even to a
    robots.txt that a page in a browser awaits. While the network is gone, only one robots.txt at a time is requested,
    even if a browser awaits several.
    """
    run = Run(PLAYWRIGHT_ABORT_REQUEST="scrapy_rep.playwright.abort_forbidden")
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    request = Request(SITE, meta={"playwright": True})
    run.engine.downloader.active.add(request)
    page = frontier.enter(request)
    assert frontier.limits.try_send(page, clock.monotonic())
    frontier.failed(request, OSError(errno.EMFILE, "too many files"), page)
    lose_network(frontier)
    robotstxt = [RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2)]
    waiting = [
        deferred_from_coro(frontier._take_room(request)) for request in robotstxt
    ]
    await let_coroutines_start()
    clock.advance(0.9)
    await let_coroutines_start()
    assert not any(deferred.called for deferred in waiting)
    clock.advance(0.15)
    await let_coroutines_start()
    assert [deferred.called for deferred in waiting] == [True, False]
    frontier._free_room(robotstxt[0])
    await cancel(waiting[1])
    run.close()


@coroutine_test
async def test_a_page_that_gets_room_while_the_spider_closes_counts_as_not_sent() -> (
    None
):
    """When the spider closes, waiting pages fail. When one page fails, the wait of the next page can end, because its
    host now allows a request. The next page must fail like all others, and must not count as a page of its host.
    """
    run = Run(REP_PAGES_PER_HOST=5)
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    run.push(Request(f"{SITE}/1"), Request(f"{SITE}/2"))
    requests = [run.next(), run.next()]
    frontier.limits.limiter("a.example").next_at = clock.monotonic() + 0.1
    waiting = []
    for request in requests:
        assert request is not None
        entry = frontier.in_flight[request]
        assert frontier.admits_page(request, entry)
        assert not frontier.may_send(request, entry)
        waiting.append(deferred_from_coro(frontier.until_sent(request, entry)))
    await let_coroutines_start()
    clock._now += 0.2  # The alarm is due, but has not gone off yet.
    frontier._close()
    for request, deferred in zip(requests, waiting, strict=True):
        assert request is not None
        with pytest.raises(SpiderClosing):
            await maybe_deferred_to_future(deferred)
        entry = frontier.in_flight[request]
        assert entry.stage is Stage.UNCOUNTED
        frontier.end(request, entry)
    assert frontier.budget is not None
    assert frontier.budget.pages["a.example"] == 0
    run.close()


@coroutine_test
async def test_the_wait_timeout_stops_while_a_redirected_robotstxt_waits_for_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A robots.txt that is redirected to another host may have to wait for the delay of that host. Meanwhile, requests
    that wait for the robots.txt are not given up: the time does not count towards REP_WAIT_TIMEOUT.
    """
    run = Run(REP_WAIT_TIMEOUT=10)
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = clock
    monkeypatch.setattr(frontier.make_rules(), "begin_fetches", lambda: None)
    site = frontier.limits.site(Origin("http", "a.example", 80))
    waiter = Waiter(frontier.enter(Request(f"{SITE}/image")))
    waiting = frontier.wait(waiter, Request(f"{SITE}/image"))
    frontier.limits.wait_for_rules(waiter, site, clock.monotonic())
    redirected = RobotsTxtRequest.of(
        "http://b.example/robots.txt",
        Request(SITE),
        asked_url="http://a.example/robots.txt",
    )
    frontier.wait(
        Waiter(frontier.enter(redirected), counts_as_planned=True), redirected
    )
    frontier.flush()
    clock.advance(300)
    assert not waiting.called
    frontier._waiting.popitem()
    clock.advance(300)
    assert waiting.called
    run.close()


def test_the_download_slot_is_the_host_if_scrapy_does_not_name_it() -> None:
    crawler: Any = SimpleNamespace(engine=SimpleNamespace(downloader=None))
    for url in ("http://a.example:81/1", "https://a.example./2"):
        assert download_slot(crawler, Request(url)) == "a.example"


@pytest.mark.parametrize(
    ("url", "slot", "sent_in"),
    [
        ("http://c.example/3", "a.example", "c.example"),
        ("http://c.example/3", "b.example", "c.example"),
        (f"{SITE}/3", "b.example", "a.example"),
        ("http://c.example/3", "own", "own"),
    ],
)
def test_a_redirected_request_leaves_the_download_slot_of_another_host(
    url: str, slot: str, sent_in: str
) -> None:
    """Scrapy sets ``download_slot`` for the first host, and a redirect to another host keeps it. The redirected request
    must be sent in the slot of its own host, because the limits count it there. A ``download_slot`` that the spider has
    set is kept.
    """
    run = Run()
    run.frontier.make_rules()
    redirected_from = [f"{SITE}/1", "http://b.example/2"]
    request = Request(
        url, meta={"redirect_urls": redirected_from, "download_slot": slot}
    )
    assert run.frontier.may_send(request, run.frontier.enter(request))
    assert request.meta["download_slot"] == sent_in
    run.close()
