"""The terms of a host that workers share: its delay, its visit time, and how long they hold."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from scrapy_rep.frontier.demands import Terms
from scrapy_rep.protocol.origins import origin_of
from tests.frontier.fakes import Crawl

pytestmark = pytest.mark.newest

HOST = "http://a.example"
OVERRIDE = "User-agent: *\nCrawl-delay: 3\n"


def terms(crawl: Crawl) -> Terms | None:
    origin = origin_of(HOST)
    assert origin is not None
    assert crawl.frontier.access is not None
    return crawl.frontier.access.terms(origin)


def learned(text: str, **settings: Any) -> Terms:
    """The terms for a robots.txt with *text*, ten seconds after it was fetched at 12:00 UTC."""
    crawl = Crawl(**settings)
    crawl.push(f"{HOST}/1")
    crawl.run()
    crawl.answer(f"{HOST}/robots.txt", f"User-agent: *\n{text}\n")
    crawl.clock.advance(10)
    found = terms(crawl)
    assert found is not None
    return found


def test_what_is_not_known_has_no_terms() -> None:
    """There are no terms before robots.txt is fetched, and none while it is unreachable."""
    crawl = Crawl()
    assert terms(crawl) is None
    crawl.push(f"{HOST}/1")
    crawl.run()
    origin = origin_of(HOST)
    assert origin is not None
    hosts = crawl.frontier.access.hosts
    assert not hosts.is_unreachable(origin)
    crawl.answer(f"{HOST}/robots.txt", status=503)
    assert hosts.is_unreachable(origin)
    assert terms(crawl) is None


def test_overrides_hold_for_ever() -> None:
    """The terms of an override hold without end and need no fetch; "ignore" has no delay."""
    assert terms(Crawl(REP_OVERRIDES={"a.example": "ignore"})) == Terms(inf)
    found = terms(Crawl(REP_OVERRIDES={"a.example": OVERRIDE}))
    assert found == Terms(holds=inf, delay=3.0, ago=inf, opens=0.0)
    assert terms(Crawl(REP_OVERRIDES={"a.example": "obey"})) is None


def test_delays() -> None:
    """The delay counts from the fetch of robots.txt. If it exceeds the maximum, the terms have
    no delay, because requests are refused.
    """
    found = learned("Crawl-delay: 5")
    assert (found.delay, found.ago, found.opens) == (5.0, 10.0, 0.0)
    assert 0 < found.holds < inf
    refused = learned("Crawl-delay: 5", REP_CRAWL_DELAY_MAX=4)
    assert refused == Terms(refused.holds)
    assert refused.holds == found.holds


def test_visiting_hours() -> None:
    """The terms give the seconds until the visit time and end soon after that. If the wait is
    too long, they have none, because requests are refused.
    """
    found = learned("Visit-time: 1230-1300")
    assert found.opens == pytest.approx(1790)
    always = learned("Crawl-delay: 0")
    assert found.opens < found.holds < always.holds
    refused = learned("Visit-time: 1230-1300", REP_VISIT_TIME_WAIT=60)
    assert refused.opens == 0.0
    assert refused.holds < found.holds
