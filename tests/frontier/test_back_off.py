"""Tests of :func:`back_off`, with which a spider pauses hosts."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from scrapy_rep import back_off
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.gate import RobotsTxtMiddleware
from scrapy_rep.crawl.wire import WireMiddleware
from scrapy_rep.protocol.origins import Origin
from tests.clock import FakeClock
from tests.fakes import coroutine_test, fake_crawler
from tests.frontier.engine import Run

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

pytestmark = pytest.mark.newest

INVALID_SECONDS = [
    *(-1, inf, -inf, nan, True, False, "5", "", b"5", [5], (5,), {}, 5j, timedelta(seconds=5)),
    *map(Decimal, ("-1", "Infinity", "NaN", "sNaN")),
]  # fmt: skip


def obeying_crawler(**settings: Any) -> Crawler:
    """Return a crawler with the middlewares that obey robots.txt."""
    crawler = fake_crawler(settings, {})
    RobotsTxtMiddleware.from_crawler(crawler)
    with suppress(NotConfigured):  # A dry run has no wire.
        WireMiddleware.from_crawler(crawler)
    return crawler


@pytest.mark.parametrize("value", INVALID_SECONDS)
@pytest.mark.parametrize("name", ["delay", "cap"])
def test_a_value_that_is_no_number_of_seconds_raises_value_error(
    name: str, value: Any
) -> None:
    """The error names the argument."""
    with pytest.raises(ValueError, match=f"^{name} must be a number of seconds"):
        back_off(obeying_crawler(), "shop.example", **{name: value})


@pytest.mark.parametrize("value", [30, 30.0, Decimal(30), Fraction(60, 2)])
def test_a_delay_may_be_any_real_number(value: Any) -> None:
    """A spider may have parsed the delay with Decimal."""
    crawler = obeying_crawler()
    back_off(crawler, "shop.example", delay=value)
    pause = Frontier.of(crawler).limits.limiters["shop.example"].back_off
    assert pause is not None
    assert (pause.unmeasured_pause, type(pause.unmeasured_pause)) == (30, float)


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("shop.example", "shop.example"), ("SHOP.example.", "shop.example"),
        ("shop.example:8080", "shop.example"), ("https://me@shop.example:8080/a?b", "shop.example"),
        ("::1", "[::1]"), ("[::1]", "[::1]"), ("[::1]:80", "[::1]"), ("http://[::1]:80/", "[::1]"),
        ("127.0.0.1", "127.0.0.1"), ("bücher.example", "xn--bcher-kva.example"),
    ],
)  # fmt: skip
def test_a_host_may_be_given_as_a_url_a_name_or_an_address(
    scope: str, key: str
) -> None:
    """The name or address may have a port or a final dot."""
    crawler = obeying_crawler()
    back_off(crawler, scope, delay=30)
    limiter = Frontier.of(crawler).limits.limiters[key]
    assert limiter.back_off is not None


def test_a_pause_counts_as_68_years_at_most() -> None:
    """A longer delay raises no error."""
    crawler = obeying_crawler()
    back_off(crawler, "shop.example", delay=10**400)
    frontier = Frontier.of(crawler)
    until = frontier.limits.limiters["shop.example"].back_off.until
    assert until - frontier.clock.monotonic() == pytest.approx(2**31, rel=0.01)


@pytest.mark.parametrize(
    "scope",
    [None, "", "a b", "http://", "mailto://x", "[::1", b"shop.example", 5, [["a"]]],
)
def test_a_scope_that_names_no_host_raises_value_error(scope: Any) -> None:
    """Otherwise, the pause would be lost silently."""
    with pytest.raises(ValueError, match="scopes must be a host or a URL"):
        back_off(obeying_crawler(), scope)


@pytest.mark.parametrize(
    ("settings", "is_paused"),
    [({}, True), ({"REP_BACKOFF_MAX": 0}, False), ({"REP_DRY_RUN": True}, False)],
)
@pytest.mark.parametrize("count", [1, 2])
def test_back_off_is_on_unless_switched_off(
    settings: dict[str, Any], is_paused: bool, count: int
) -> None:
    """Back-off is off if REP_BACKOFF_MAX is 0, and in a dry run. Otherwise, each host is paused."""
    crawler = obeying_crawler(**settings)
    hosts = [f"{number}.example" for number in range(count)]
    back_off(crawler, hosts if count > 1 else hosts[0], delay=30)
    limiters = [Frontier.of(crawler).limits.limiters.get(host) for host in hosts]
    assert [bool(limiter and limiter.back_off) for limiter in limiters] == [
        is_paused
    ] * count


@coroutine_test
async def test_successes_end_the_back_off_of_a_download_slot() -> None:
    """A spider has paused a download slot whose name is not a host. Each success in the slot raises its concurrency by
    one, until the back-off is over. A later pause then counts as a first pause, so requests wait for its end. They
    would be refused if the back-off had lasted until then.
    """
    run = Run(REP_BACKOFF_MAX=60, REP_WAIT_TIMEOUT=600)
    frontier, clock = run.frontier, FakeClock()
    frontier.clock = frontier.alarms.clock = frontier.politeness._clock = clock
    frontier.make_rules()
    frontier.has_wire = True
    site = frontier.limits.site(Origin("http", "shop.example", 80))
    now = clock.monotonic()
    frontier.limits.learned(site, now, now + 10_000, is_new=True)
    slot = frontier.limits.limiter("slot")
    for _ in range(2):
        back_off(run.crawler, "slot", 5)
        clock.advance(6)
        for number in range(1, 8):
            assert slot.concurrency_now == number
            url, meta = f"http://shop.example/{number}", {"download_slot": "slot"}
            run.push(Request(url, meta=meta, dont_filter=True))
            request = run.next()
            assert request is not None
            entry = frontier.in_flight[request]
            assert entry.queue.host is not slot
            assert frontier.may_send(request, entry)
            frontier.answered(request, Response(url), entry)
            frontier.end(request, entry)
            run.finish(request)
        assert slot.back_off is None
        clock.advance(700)
    run.close()
