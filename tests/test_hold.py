"""Requests that are held: kept, counted once when given up, and bounded."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.test import get_crawler

from scrapy_rep import hold as hold_module
from scrapy_rep import meta
from scrapy_rep.hold import Hold
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.waiting import Waiting
from tests.fakes import FakeEngine

if TYPE_CHECKING:
    import pytest
    from scrapy.crawler import Crawler

WHERE = origin_of("http://host.example/")


class Engine(FakeEngine):
    """Remembers what is to be crawled."""

    def __init__(self) -> None:
        super().__init__({})
        self.crawled: list[Request] = []

    def crawl(self, request: Request) -> None:
        self.crawled.append(request)


def a_hold() -> tuple[Hold, Crawler]:
    crawler = get_crawler()
    crawler.engine = Engine()
    return Hold(crawler), crawler


def held(
    hold: Hold,
    crawler: Crawler,
    path: str = "",
    *,
    waits: bool = True,
    priority: int = 0,
) -> Request:
    """A request that was handed back, and refused when the engine meant to schedule it."""
    request = Request(f"{WHERE}/{path}", priority=priority)
    request.meta[meta.HELD_SINCE] = time.time()
    assert hold.hand_back(request, WHERE, lambda: waits)
    crawler.signals.send_catch_log(
        signals.request_scheduled, request=request, dont_log=IgnoreRequest
    )
    return request


def test_given_up_once() -> None:
    """Who was given up and is held again, since what is known has run out meanwhile, does
    not count again.
    """
    hold, crawler = a_hold()
    waiting = Waiting(crawler, None, hold, 60)
    held(hold, crawler)
    assert waiting._give_up(WHERE, time.time() - 60) == 0
    assert waiting._give_up(WHERE, time.time()) == 1
    assert waiting._give_up(WHERE, time.time()) == 0


def test_released_by_priority() -> None:
    """Of those that are held for the same, the one of the highest priority goes first, and
    of equals the one that came first.
    """
    hold, crawler = a_hold()
    for path, priority in {"a": 0, "b": 1, "c": 0, "d": 1}.items():
        held(hold, crawler, path, priority=priority)
    assert next(hold.held(WHERE)).url[-1] == "b"
    hold.release_one(WHERE)
    assert hold.count(WHERE) == 3
    hold.move(WHERE, "elsewhere")
    assert hold.count(WHERE) == 0
    hold.release(WHERE)
    hold.release("elsewhere")
    assert [request.url[-1] for request in crawler.engine.crawled] == list("bdac")


def test_what_has_come_meanwhile_is_not_held() -> None:
    """A request that needs to wait no longer when the engine has it back is scheduled."""
    hold, crawler = a_hold()
    request = held(hold, crawler, waits=False)
    assert hold.count(WHERE) == 0
    assert not hold.came_straight_back(request)
    assert request.dont_filter is False


def test_came_straight_back() -> None:
    """What nobody schedules is known for it when it comes again, once."""
    hold, _ = a_hold()
    request = Request(f"{WHERE}/", dont_filter=True)
    assert hold.hand_back(request, WHERE, lambda: True)
    assert [hold.came_straight_back(request) for _ in range(2)] == [True, False]
    assert request.dont_filter is True


def test_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """More than so many are not held, and one warning says so: they wait in the downloader,
    which makes Scrapy take no more of them from its queue. There is room again when one is released.
    """
    monkeypatch.setattr(hold_module, "HELD_AT_MOST", 2)
    hold, crawler = a_hold()
    held(hold, crawler)
    held(hold, crawler)
    request = Request(f"{WHERE}/page")
    with caplog.at_level(logging.WARNING):
        assert not hold.hand_back(request, WHERE, lambda: True)
        assert not hold.hand_back(request, WHERE, lambda: True)
    (record,) = caplog.records
    assert "2 requests are held" in record.getMessage()
    hold.release_one(WHERE)
    assert hold.hand_back(request, WHERE, lambda: True)


def test_listens_while_there_is_something_to_look_out_for() -> None:
    """Of what is scheduled it is told from the first request that is handed back until
    the last has been released, and again for the next.
    """
    hold, crawler = a_hold()
    assert not receivers(crawler)
    for _ in range(2):
        held(hold, crawler)
        elsewhere = Request("http://elsewhere.example/")
        assert hold.hand_back(elsewhere, origin_of(elsewhere.url), lambda: True)
        hold.release(WHERE)
        assert receivers(crawler)  # the other one is not scheduled yet
        assert hold.came_straight_back(elsewhere)
        held(hold, crawler)
        hold.release(WHERE)
        assert not receivers(crawler)


def receivers(crawler: Crawler) -> list[object]:
    found = getAllReceivers(crawler.signals.sender, signals.request_scheduled)
    return list(liveReceivers(found))
