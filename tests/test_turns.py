"""Who goes next, where requests, hosts and workers come together in unlucky moments."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep import meta
from scrapy_rep import turns as turns_module
from scrapy_rep.compat import sleep
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.reservations import Reservations
from tests.fakes import coroutine_test
from tests.test_politeness import Store, a_politeness, ask, leaves, pace

if TYPE_CHECKING:
    import pytest
    from scrapy.crawler import Crawler

    from scrapy_rep.politeness import Politeness


def is_held(crawler: Crawler, request: Request) -> None:
    """The engine has *request* back, and means to schedule it."""
    crawler.signals.send_catch_log(
        signals.request_scheduled, request=request, dont_log=IgnoreRequest
    )


async def called(crawler: Crawler, count: int = 1) -> list[Request]:
    """The first *count* that were called; fails if there are none for long."""
    end = time.monotonic() + 5
    while len(crawler.engine.crawled) < count:
        assert time.monotonic() < end, "Nobody was called"
        await sleep(0.01)
    return crawler.engine.crawled


async def hold_one(politeness: Politeness, crawler: Crawler, url: str) -> Request:
    request, goes = await ask(politeness, url, "Crawl-delay: 0.1")
    assert not goes
    is_held(crawler, request)
    return request


def again(request: Request) -> Request:
    """*request*, as a scheduler brings it that has written it to a disk."""
    return Request(request.url, meta=dict(request.meta))


async def comes(politeness: Politeness, request: Request) -> bool:
    return await politeness.turn(
        request,
        origin_of(request.url),
        pace("Crawl-delay: 0.1"),
        fetched=0,
        in_place=False,
    )


@coroutine_test
async def test_a_scheduler_that_writes_to_a_disk() -> None:
    """The request that was called goes, though it comes as another object; one that only
    looks like it does not.
    """
    politeness, crawler = a_politeness()
    first, _ = await ask(politeness, "http://a.example/1", "Crawl-delay: 0.1")
    held = await hold_one(politeness, crawler, "http://a.example/2")
    leaves(crawler, first)
    assert await called(crawler) == [held]
    assert not await comes(politeness, Request(held.url))
    copy = again(held)
    assert await comes(politeness, copy)
    assert meta.CALLED not in copy.meta
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_those_that_are_long_in_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several that were called one after the other, since none came, the first one that
    comes goes. Otherwise a queue that takes long would let none go.
    """
    monkeypatch.setattr(turns_module, "_LOST_AFTER", 0.1)
    politeness, crawler = a_politeness()
    first, _ = await ask(politeness, "http://a.example/0", "Crawl-delay: 0.1")
    for number in (1, 2, 3):
        await hold_one(politeness, crawler, f"http://a.example/{number}")
    leaves(crawler, first)
    one, other = (await called(crawler, 2))[:2]
    assert await comes(politeness, one)
    assert not await comes(politeness, other)
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_lanes_become_one_while_somebody_is_called() -> None:
    """A slot that turns out to be shared while the next one is chosen stops nobody."""
    politeness, crawler = a_politeness()
    turns, slot = politeness._turns, {"download_slot": "shared"}
    first, _ = await ask(politeness, "http://a.example/1", "Crawl-delay: 0.1", **slot)
    held = await hold_one(politeness, crawler, "http://a.example/2")
    other, _ = await ask(politeness, "http://b.example/", "Crawl-delay: 0.1")
    leaves(crawler, other)
    leaves(crawler, first)
    lane = turns.find(first)
    lane.last = 0.0
    turns._timers[lane].cancel()
    # What its timer does; the next one is chosen a little later.
    turns._look(lane)
    assert not crawler.engine.crawled
    request = Request("http://b.example/3", meta=slot)
    turns.lane(request, origin_of(request.url), 0.1, 9)
    assert turns.find(first) is turns.find(other) is not lane
    assert await called(crawler) == [held]
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_workers_have_one_name_for_a_place() -> None:
    """Whichever host of a slot a worker meets first, the place that it asks for is that of
    the host that it is about to ask.
    """
    keeper = Store()
    politeness, crawler = a_politeness(keeper)
    for url in ("http://b.example/1", "http://a.example/1"):
        request, goes = await ask(
            politeness, url, "Crawl-delay: 0.01", download_slot="shared"
        )
        assert goes
        leaves(crawler, request)
        await sleep(0.02)
    assert [host for host, _ in keeper.calls] == [
        "b.example",
        "b.example",
        "a.example",
        "a.example",
    ]
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_a_place_is_kept_while_a_request_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until a request is done, its worker renews its place, so that it does not run out."""
    monkeypatch.setattr(turns_module, "_LOST_AFTER", 0.05)
    keeper = Store()
    politeness, crawler = a_politeness(keeper)
    request, _ = await ask(politeness, "http://a.example/1", "Crawl-delay: 4")
    crawler.engine.downloader.active.add(request)
    await sleep(0.2)
    assert len(keeper.calls) >= 3
    assert set(keeper.calls) == {("a.example", 9.0)}
    leaves(crawler, request)
    await sleep(0)
    assert keeper.calls[-1] == ("a.example", -4.005)
    count = len(keeper.calls)
    await sleep(0.1)
    assert len(keeper.calls) == count
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_a_place_that_is_taken_is_not_asked_for_by_each() -> None:
    """However many requests come while another worker has the place, it is asked for now and
    then only.
    """
    keeper = Store(free=False)
    politeness, crawler = a_politeness(keeper)
    for number in range(100):
        await ask(politeness, f"http://a.example/{number}", "Crawl-delay: 8")
    assert len(keeper.calls) == 1
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A robots.txt of the future, which a clock set back or that of another worker makes of
    it, lets nobody wait longer with each request.
    """
    politeness, crawler = a_politeness()
    text, now = pace("Crawl-delay: 4"), time.monotonic()
    goes = []
    for number, seconds in enumerate([0, 1, 2, 3, 4.1]):
        monkeypatch.setattr(time, "monotonic", lambda moment=now + seconds: moment)
        url = f"http://a.example/{number}"
        goes.append(
            await politeness.turn(
                Request(url),
                origin_of(url),
                text,
                fetched=time.time() + 3600,
                in_place=False,
            )
        )
    monkeypatch.undo()
    assert goes == [False, False, False, False, True]
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_names_of_one_host() -> None:
    """The dot of the root makes no other host of it."""
    politeness, crawler = a_politeness()
    assert (await ask(politeness, "http://A.example/1", "Crawl-delay: 5"))[1]
    assert not (await ask(politeness, "http://a.example./2", "Crawl-delay: 5"))[1]
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_those_that_wait_in_place() -> None:
    """They go in the order in which they came, before those that are held, and with those of
    another lane that becomes one with theirs; one that is cancelled stops nobody.
    """
    politeness, crawler = a_politeness()
    first, _ = await ask(politeness, "http://a.example/0", "Crawl-delay: 0.05")
    held = await hold_one(politeness, crawler, "http://a.example/held")
    went = []

    async def wait(url: str) -> None:
        request, _ = await ask(politeness, url, "Crawl-delay: 0.05", in_place=True)
        went.append(url[-1])
        leaves(crawler, request)

    waiting = [
        deferred_from_coro(wait(f"http://a.example/{number}")) for number in (1, 2, 3)
    ]
    await sleep(0.01)
    waiting[1].addErrback(lambda _: None)
    waiting[1].cancel()
    politeness._turns.lanes.join("b.example", "b.example")
    request = Request("http://b.example/", meta={"download_slot": "a.example"})
    politeness._turns.lane(request, origin_of(request.url), 0.05, 9)
    leaves(crawler, first)
    for one in (waiting[0], waiting[2]):
        await maybe_deferred_to_future(one)
    assert went == ["1", "3"]
    assert await called(crawler) == [held]
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_who_was_called_in_vain_steps_aside() -> None:
    """One that was called, and may not go by now, leaves its place to the next."""
    politeness, crawler = a_politeness()
    first, _ = await ask(politeness, "http://a.example/0", "Crawl-delay: 0.1")
    for number in (1, 2):
        await hold_one(politeness, crawler, f"http://a.example/{number}")
    leaves(crawler, first)
    (one,) = await called(crawler)
    politeness.step_aside(again(one))
    began = time.monotonic()
    await called(crawler, 2)
    assert time.monotonic() < began + 1
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_a_request_that_is_done_while_its_place_is_renewed() -> None:
    """The delay holds for others, not what the renewal asks for, which comes later."""
    keeper = Store()
    renewal: Deferred[bool] = Deferred()

    async def reserve(host: str, place: str, seconds: float) -> bool:
        if keeper.calls:
            await maybe_deferred_to_future(renewal)
        keeper.calls.append((host, seconds))
        return True

    keeper.reserve = reserve
    reservations = Reservations(keeper, shared=True)
    await reservations.reserve("a.example", 4)
    reservations.renew("a.example", 4)
    await sleep(0)
    reservations.leave("a.example", 4)
    renewal.callback(True)
    await sleep(0.01)
    assert [seconds for _, seconds in keeper.calls] == [9.0, 9.0, -4.005]
