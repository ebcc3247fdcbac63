"""Requests that are held: kept, counted once when given up, and bounded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pydispatch.dispatcher import getAllReceivers, liveReceivers
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.test import get_crawler

from scrapy_rep import hold as hold_module
from scrapy_rep.hold import Hold
from scrapy_rep.protocol.origins import Origin, origin_of
from tests.fakes import FakeEngine

if TYPE_CHECKING:
    import pytest
    from scrapy.crawler import Crawler

WHERE = origin_of("http://host.example/")


def held(hold: Hold, crawler, origin: Origin = WHERE) -> Request:
    """A request that was handed back, and refused when the engine meant to schedule it."""
    request = Request(f"{origin}/page")
    assert hold.hand_back(request, origin)
    crawler.signals.send_catch_log(
        signals.request_scheduled, request=request, dont_log=IgnoreRequest
    )
    assert hold.first(origin) is not None
    return request


def test_given_up_once() -> None:
    """Who was given up and is held again, since what is known has run out meanwhile, does
    not count again.
    """
    crawler = get_crawler()
    hold = Hold(crawler, lambda origin: True)
    held(hold, crawler)
    assert hold.give_up(WHERE, time.time() - 60) == 0
    assert hold.give_up(WHERE, time.time()) == 1
    assert hold.give_up(WHERE, time.time()) == 0


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than so many are not held: they wait in the downloader, which makes Scrapy take
    no more of them from its queue.
    """
    monkeypatch.setattr(hold_module, "HELD_AT_MOST", 2)
    crawler = get_crawler()
    hold = Hold(crawler, lambda origin: True)
    held(hold, crawler)
    held(hold, crawler)
    assert not hold.hand_back(Request(f"{WHERE}/page"), WHERE)


def test_listens_while_there_is_something_to_look_out_for() -> None:
    """Of what is scheduled it is told from the first request that is handed back until
    the last has been released, and again for the next.
    """
    crawler = get_crawler()
    crawler.engine = FakeEngine({})
    crawler.engine.crawl = lambda request: None
    hold = Hold(crawler, lambda origin: True)
    assert not receivers(crawler)
    for _ in range(2):
        held(hold, crawler)
        elsewhere = Request("http://elsewhere.example/")
        assert hold.hand_back(elsewhere, origin_of(elsewhere.url))
        hold.release(WHERE)
        assert receivers(crawler)  # the other one is not scheduled yet
        assert hold.came_straight_back(elsewhere)
        held(hold, crawler)
        hold.release(WHERE)
        assert not receivers(crawler)


def receivers(crawler: Crawler) -> list[object]:
    found = getAllReceivers(crawler.signals.sender, signals.request_scheduled)
    return list(liveReceivers(found))
