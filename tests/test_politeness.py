"""What of pace no crawl shows in a short time: bounds, and what goes wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest

from scrapy_rep import politeness as politeness_module
from scrapy_rep import stats
from scrapy_rep.compat import sleep
from scrapy_rep.hold import Hold
from scrapy_rep.politeness import Politeness
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.protocol.robotstxt import RobotsTxt
from scrapy_rep.reservations import Reservations
from scrapy_rep.settings import RepSettings
from tests.fakes import coroutine_test, fake_crawler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.pace import Pace

LONG_AGO = float("-inf")


def pace(text: str) -> Pace:
    return RobotsTxt.parse(f"User-agent: *\n{text}".encode()).pace("bot")


class Store:
    """The part of a keeper that is asked for places; *free* says whether there is one."""

    def __init__(self, free: bool = True) -> None:
        self.free = free
        self.calls: list[tuple[str, float]] = []

    async def reserve(self, host: str, place: str, seconds: float) -> bool:
        self.calls.append((host, seconds))
        return self.free

    async def vacate(self, host: str, place: str, seconds: float) -> None:
        self.calls.append((host, -seconds))


def a_politeness(
    keeper: Store | None = None, **changes: object
) -> tuple[Politeness, Crawler]:
    crawler = fake_crawler()
    crawler.engine.crawled = []
    crawler.engine.crawl = crawler.engine.crawled.append
    crawler.engine.downloader = SimpleNamespace(active=set(), total_concurrency=16)
    settings = replace(RepSettings.from_settings(crawler.settings), **changes)
    reservations = Reservations(keeper or Store(), shared=keeper is not None)
    return Politeness(crawler, Hold(crawler), reservations, settings), crawler


async def ask(
    politeness: Politeness, url: str, text: str, *, in_place: bool = False, **meta: str
) -> tuple[Request, bool]:
    request = Request(url, meta=meta)
    turn = await politeness.turn(
        request, origin_of(url), pace(text), fetched=LONG_AGO, in_place=in_place
    )
    return request, turn


def leaves(crawler: Crawler, request: Request) -> None:
    crawler.signals.send_catch_log(signals.request_left_downloader, request=request)


@coroutine_test
async def test_lanes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many hosts with delays, those that nothing waits for and whose delay has passed are
    forgotten; a host counts once all the same, and what it took is still told.
    """
    monkeypatch.setattr(politeness_module, "_LANES_AT_MOST", 3)
    politeness, crawler = a_politeness()
    lanes = politeness._turns.lanes
    for turn in range(2):
        for number in range(10):
            url = f"http://host-{number}.example/{turn}"
            request, goes = await ask(politeness, url, "Crawl-delay: 0.000001")
            assert goes
            lane = politeness._turns.find(request)
            lane.waited += number
            leaves(crawler, request)
            assert len(lanes) <= 5
    busy, _ = await ask(politeness, "http://busy.example/", "Crawl-delay: 5")
    for number in range(5):
        request, _ = await ask(
            politeness, f"http://{number}.example/", "Crawl-delay: 5"
        )
    assert politeness._turns.find(busy).busy is busy
    assert crawler.stats.get_value(stats.DELAYED_HOSTS) == 16
    crawler.signals.send_catch_log(signals.spider_closed)
    assert [one.seconds for one in politeness._slowest] == [9, 9, 8, 8, 7]


@coroutine_test
async def test_a_delay_that_is_taken_back() -> None:
    """When a host asks for no delay any more, its lane goes as soon as nobody is in it."""
    politeness, crawler = a_politeness()
    first, goes = await ask(politeness, "http://a.example/1", "Crawl-delay: 5")
    assert goes
    _, goes = await ask(politeness, "http://a.example/2", "Disallow:")
    assert not goes
    leaves(crawler, first)
    assert politeness.concerns(pace("Disallow:"))
    assert (await ask(politeness, "http://a.example/3", "Disallow:"))[1]
    assert not politeness.concerns(pace("Disallow:"))


@coroutine_test
async def test_slots_bring_hosts_together() -> None:
    """When a slot turns out to be shared, those held for one of its hosts wait for the other
    as well.
    """
    politeness, crawler = a_politeness()
    hold = politeness._hold
    await ask(politeness, "http://a.example/1", "Crawl-delay: 5")
    held, goes = await ask(politeness, "http://a.example/2", "Crawl-delay: 5")
    assert not goes
    crawler.signals.send_catch_log(
        signals.request_scheduled, request=held, dont_log=IgnoreRequest
    )
    other, _ = await ask(politeness, "http://b.example/", "Crawl-delay: 7")
    slot = {"download_slot": "shared"}
    await ask(politeness, "http://b.example/1", "Crawl-delay: 7", **slot)
    await ask(politeness, "http://a.example/3", "Crawl-delay: 5", **slot)
    lane = politeness._turns.find(held)
    assert lane is politeness._turns.find(other)
    assert hold.count(lane) == 1
    assert lane.delay == 7
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_a_place_that_another_worker_has() -> None:
    """A request that has its turn here goes only with a place at the host: one that it gets
    for its time on the way, and leaves for the delay.
    """
    keeper = Store(free=False)
    politeness, crawler = a_politeness(keeper)
    request, goes = await ask(politeness, "http://a.example/1", "Crawl-delay: 4")
    assert not goes
    keeper.free = True
    # It is not asked for again at once.
    politeness._turns.find(request).not_before = 0.0
    request, goes = await ask(politeness, "http://a.example/2", "Crawl-delay: 4")
    assert goes
    leaves(crawler, request)
    await sleep(0)
    assert keeper.calls == [
        ("a.example", 9.0),
        ("a.example", 9.0),
        ("a.example", -4.005),
    ]
    politeness.step_aside(request)
    assert len(keeper.calls) == 3
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_who_steps_aside_leaves_no_delay() -> None:
    """A request that does not reach its host makes nobody wait, here or elsewhere."""
    keeper = Store()
    politeness, crawler = a_politeness(keeper)
    request, _ = await ask(politeness, "http://a.example/1", "Crawl-delay: 4")
    politeness.step_aside(request)
    await sleep(0)
    assert keeper.calls[-1] == ("a.example", 0.0)
    assert (await ask(politeness, "http://a.example/2", "Crawl-delay: 4"))[1]
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_a_request_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was let go and is nowhere to be seen keeps nobody waiting for ever; one that is
    on its way does, however long it takes.
    """
    politeness, crawler = a_politeness()
    request, _ = await ask(politeness, "http://a.example/1", "Crawl-delay: 4")
    crawler.engine.downloader.active.add(request)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert not (await ask(politeness, "http://a.example/2", "Crawl-delay: 4"))[1]
    crawler.engine.downloader.active.clear()
    assert (await ask(politeness, "http://a.example/3", "Crawl-delay: 4"))[1]
    monkeypatch.undo()
    crawler.signals.send_catch_log(signals.spider_closed)


@coroutine_test
async def test_closing_ends_the_wait_in_place() -> None:
    """Who waits where it is, for its turn or for a window, is let go when the spider closes."""
    politeness, crawler = a_politeness()
    await ask(politeness, "http://a.example/1", "Crawl-delay: 4")
    crawler.engine._slot.closing = object()
    with pytest.raises(IgnoreRequest, match="closes"):
        await ask(politeness, "http://a.example/2", "Crawl-delay: 4", in_place=True)
    hour = (time.gmtime().tm_hour + 2) % 24
    window = f"Visit-time: {hour:02}00-{hour:02}30"
    with pytest.raises(IgnoreRequest, match="no longer waited for"):
        await ask(politeness, "http://b.example/2", window, in_place=True)
    crawler.signals.send_catch_log(signals.spider_closed)
