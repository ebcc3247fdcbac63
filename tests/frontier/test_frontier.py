"""The frontier, with an engine that does what the test says."""

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
async def test_the_crawl_ends_without_network_although_no_alarm_is_due(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The crawl ends although no host is paused, and no robots.txt is fetched. What waits is
    counted.
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
async def test_the_crawl_ends_without_network_although_a_component_holds_a_robotstxt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An attempt to reach the network that never ends does not keep the crawl open. The end is announced once."""
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
    assert caplog.text.count("The network of the crawler is gone for longer") == 1
    run.close()


def test_a_burst_of_failures_for_lack_of_files_counts_as_one() -> None:
    """Fewer robots.txt files are fetched at once after each second in which the machine has no files, not after each
    failure.
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
async def test_a_request_that_ended_unseen_is_forgotten_beside_others_that_nobody_has_seen() -> (
    None
):
    """A component has hidden the end of a request, while the downloader has another one that the gate has not seen."""
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
async def test_without_a_network_nothing_that_waits_for_rules_is_given_up() -> None:
    """Not even just before the crawl ends, as it waits for longer than the network is gone."""
    run = Run(REP_WAIT_TIMEOUT=200)
    frontier, clock, rules = run.frontier, FakeClock(), mock.MagicMock(fetches={})
    frontier.clock = frontier.alarms.clock = clock
    frontier.rules = rules
    origin = Origin("http", "a.example", 80)
    queue = frontier.queues.add(QueueKey("a.example", origin))
    rules.cache.override.return_value = None
    site, entry = frontier.limits.site(origin), InFlight(queue)
    waiting = deferred_from_coro(frontier.until_known(Request(SITE), entry, site))
    await tick()
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
    """In a later Scrapy, a request may wait before the downloader has it: it has not ended. One
    that the downloader has forgotten has.
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
    """A request that cannot be written waits in memory, in a queue of its own: no component has
    changed it.
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
    """Let so many hosts fail in a row that the network counts as gone."""
    now = frontier.clock.monotonic()
    for host in "bcdef":
        origin = Origin("http", host, 80)
        frontier.limits.network.failed(host, origin, now, has_server=True)


async def tick() -> None:
    """Let what has been started begin."""
    soon: Deferred[None] = Deferred()
    call_later(0.01, soon.callback, None)
    await maybe_deferred_to_future(soon)


async def cancelled(waiting: Deferred[None]) -> None:
    waiting.cancel()
    with pytest.raises(BaseException):  # noqa: B017, PT011  that of asyncio, or of Twisted
        await maybe_deferred_to_future(waiting)


@pytest.mark.parametrize("has_room", [False, True])
@coroutine_test
async def test_a_robotstxt_that_is_cancelled_leaves_its_turn_to_the_next(
    has_room: bool,
) -> None:
    """A robots.txt may be cancelled while it waits in a line, or in the moment in which its turn
    comes.
    """
    run = Run(CONCURRENT_REQUESTS_PER_DOMAIN=1)
    frontier = run.frontier
    limits, now = frontier.limits, frontier.clock.monotonic()
    requests = [RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2)]
    page = InFlight(frontier.queues.of(requests[0]))
    frontier.queues.look_at_slot(page.queue.slot)
    assert limits.try_send(page, now)
    turns: list[Coroutine[Any, Any, None]] = list(map(frontier._take_room, requests))
    first, second = map(deferred_from_coro, turns)
    await tick()
    assert len(page.queue.host.waiters or ()) == 2
    if has_room:
        limits.end(page, now)
        frontier.flush()
    await cancelled(first)
    frontier._free_room(requests[0])
    if not has_room:
        limits.end(page, now)
        frontier.flush()
    await maybe_deferred_to_future(second)
    assert page.queue.host.planned == 1
    frontier._free_room(requests[1])
    assert page.queue.host.planned == 0
    run.close()


@coroutine_test
async def test_a_request_that_gets_its_room_as_a_pause_begins_is_not_sent() -> None:
    """With asyncio, a request that gets its room continues in the next turn of the loop. It must not be sent if its
    host is paused by then.
    """
    run = Run(CONCURRENT_REQUESTS_PER_DOMAIN=1)
    frontier, now = run.frontier, run.frontier.clock.monotonic()
    requests = [Request(f"{SITE}/{name}") for name in "ab"]
    run.engine.downloader.active.update(requests)
    page, image = map(frontier.enter, requests)
    frontier.queues.look_at_slot(page.queue.slot)
    assert frontier.limits.try_send(page, now)
    sending = deferred_from_coro(frontier.until_sent(requests[1], image))
    await tick()
    frontier.limits.end(page, now)
    frontier.flush()
    frontier.pause("a.example", 30, None, "asks for it")
    may_be_sent = await maybe_deferred_to_future(sending)
    assert may_be_sent == (not is_asyncio_available())
    run.close()


@coroutine_test
async def test_a_robotstxt_for_which_a_browser_waits_keeps_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It needs no room, because the page in the browser may wait for it; but it is not sent while its host pauses."""
    run = Run()
    frontier = run.frontier
    monkeypatch.setattr(frontier, "is_awaited_by_browser", lambda limiters: True)
    first, second = (RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2))
    await frontier._take_room(first)
    frontier.pause("a.example", 30, None, "asks for it")
    waiting = deferred_from_coro(frontier._take_room(second))
    await tick()
    assert not waiting.called
    await cancelled(waiting)
    run.close()


@coroutine_test
async def test_a_robotstxt_for_which_a_browser_waits_needs_no_room_after_a_pause() -> (
    None
):
    """The page in the browser, which may wait for it, has the only room that there is after a pause."""
    run = Run(PLAYWRIGHT_ABORT_REQUEST="scrapy_rep.playwright.abort_forbidden")
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = frontier.politeness._clock = clock
    request = Request(SITE, meta={"playwright": True})
    run.engine.downloader.active.add(request)
    page = frontier.enter(request)
    assert frontier.limits.try_send(page, clock.monotonic())
    frontier.pause("a.example", 30, None, "asks for it")
    robotstxt = [RobotsTxtRequest(f"{SITE}/robots.txt") for _ in range(2)]
    waiting = [deferred_from_coro(frontier._take_room(each)) for each in robotstxt]
    await tick()
    clock.advance(29)
    await tick()
    assert not any(call.called for call in waiting)
    clock.advance(2)
    await tick()
    assert all(call.called for call in waiting)
    assert page.queue.host.planned == 2
    for each in robotstxt:
        frontier._free_room(each)
    assert page.queue.host.planned == 0
    run.close()


@coroutine_test
async def test_a_robotstxt_for_which_a_browser_waits_keeps_the_pause_of_a_machine_without_files() -> (
    None
):
    """It would else be sent again and again, as fast as it fails. Without a network, one such request is sent at a
    time.
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
    waiting = [deferred_from_coro(frontier._take_room(each)) for each in robotstxt]
    await tick()
    clock.advance(0.9)
    await tick()
    assert not any(call.called for call in waiting)
    clock.advance(0.15)
    await tick()
    assert [call.called for call in waiting] == [True, False]
    frontier._free_room(robotstxt[0])
    await cancelled(waiting[1])
    run.close()


@coroutine_test
async def test_what_gets_its_room_while_the_spider_closes_was_not_sent() -> None:
    """A page that waits may get the room of one that fails because the spider closes. It fails, too, and does not count
    as a page.
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
    await tick()
    clock._now += 0.2  # The alarm is due, and is still to come.
    frontier._close()
    for request, call in zip(requests, waiting, strict=True):
        assert request is not None
        with pytest.raises(SpiderClosing):
            await maybe_deferred_to_future(call)
        entry = frontier.in_flight[request]
        assert entry.stage is Stage.UNCOUNTED
        frontier.end(request, entry)
    assert frontier.budget is not None
    assert frontier.budget.pages["a.example"] == 0
    run.close()


@coroutine_test
async def test_the_time_in_which_a_redirected_robotstxt_waits_for_room_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A robots.txt that is redirected may wait for the delay of another host, longer than requests wait for one that
    never comes.
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


def test_the_slot_of_a_request_is_its_host_where_scrapy_does_not_tell() -> None:
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
def test_a_redirect_leaves_the_slot_that_scrapy_noted_for_another_host(
    url: str, slot: str, sent_in: str
) -> None:
    """There it would take room of which the limits do not know. A slot of the spider's own is kept."""
    run = Run()
    run.frontier.make_rules()
    came_from = [f"{SITE}/1", "http://b.example/2"]
    request = Request(url, meta={"redirect_urls": came_from, "download_slot": slot})
    assert run.frontier.may_send(request, run.frontier.enter(request))
    assert request.meta["download_slot"] == sent_in
    run.close()
