"""Requests that wait for their host or their download slot: in rare orders of events, and when
clocks are set.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.error import ConnectionRefusedError as RefusedError

from scrapy_rep import stats
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from tests.frontier.fakes import Crawl, FakeClock, page

RULES = "User-agent: *\nDisallow: /private/\n"
ROBOTS = "http://a.example/robots.txt"
DELAYED = f"{RULES}Crawl-delay: 4\n"


def known(crawl: Crawl, host: str = "a.example") -> None:
    """Have robots.txt of *host*, with a Crawl-delay, known, and the delay pass."""
    request = crawl.outside(f"http://{host}/first")
    crawl.answer(f"http://{host}/robots.txt", DELAYED)
    crawl.pass_time(4)
    crawl.answer(request)
    crawl.pass_time(4)


def test_names_of_one_host() -> None:
    """A host name with a trailing dot, or with a port, shares the delay of the host, also for its
    robots.txt.
    """
    crawl = Crawl()
    known(crawl)
    crawl.push("http://a.example/1")
    crawl.run()
    for url in ("http://A.example./", "http://a.example:81/"):
        crawl.push(f"{url}2")
        crawl.run()
        assert crawl.on_network == ["http://a.example/1"]


def test_a_clock_that_is_set_back() -> None:
    """If the clock is set back after robots.txt was fetched, no request waits longer than the
    delay.
    """
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.clock.set_back(-200)
    crawl.answer("http://a.example/robots.txt", DELAYED, runs=False)
    crawl.clock.set_back(200)
    crawl.run()
    assert crawl.pass_time(3.9) == []
    assert len(crawl.pass_time(0.1)) == 1


def test_the_visiting_hours_of_an_override() -> None:
    """A request in the downloader waits for the visit time of an override, and is then checked
    against its rules. The test starts at 12:00.
    """
    rules = f"{RULES}Visit-time: 1230-1300\n"
    crawl = Crawl(REP_OVERRIDES={"a.example": rules}, REP_WAIT_MAX=3600)
    outside = crawl.outside("http://a.example/1")
    denied = crawl.outside("http://a.example/private/1")
    crawl.pass_time(1799)
    assert outside not in crawl.ended
    assert crawl.on_network == []
    assert isinstance(crawl.ended[denied], RobotsDenied)
    crawl.pass_time(1)
    assert crawl.on_network == ["http://a.example/1"]


def test_a_delay_counts_once_in_the_stats() -> None:
    """A host counts once as delayed, also if it was forgotten between its requests."""
    crawl = Crawl()
    for number in range(3):
        crawl.push(f"http://a.example/{number}")
        crawl.run()
        if not number:
            crawl.answer("http://a.example/robots.txt", DELAYED)
        crawl.pass_time(4)
        crawl.answer(f"http://a.example/{number}")
        crawl.pass_time(60)
        assert not len(crawl.frontier.core.scopes)
        assert not crawl.frontier.core.hosts
    assert crawl.crawler.stats.get_value(stats.DELAYED_HOSTS) == 1


def test_a_robotstxt_that_is_cancelled_as_it_gets_its_places() -> None:
    """A fetch of robots.txt that is cancelled in the moment in which it may be sent leaves its
    places to the next request.
    """
    crawl = Crawl()
    known(crawl)
    first = crawl.outside("http://a.example/1")
    place = crawl.frontier.place

    async def place_and_be_cancelled(*args: Any, **kwargs: Any) -> None:
        await place(*args, **kwargs)
        raise CancelledError

    with mock.patch.object(crawl.frontier, "place", place_and_be_cancelled):
        crawl.outside("http://a.example:81/2")
        crawl.answer(first)
        crawl.pass_time(4)
    crawl.outside("http://a.example/3")
    crawl.pass_time(60)
    assert "http://a.example/3" in crawl.on_network


def test_a_request_whose_end_nobody_has_seen() -> None:
    """If another component hides the end of a request, its places are free at the next pop. A
    request in the downloader keeps them, however long it takes.
    """
    crawl = Crawl()
    known(crawl)
    crawl.push("http://a.example/1")
    lost = crawl.push("http://a.example/2")
    crawl.run()
    crawl.engine.wake()
    assert crawl.pass_time(60) == []
    crawl.downloader.active.remove(lost)
    crawl.engine.wake()
    crawl.run()
    assert len(crawl.pass_time(4)) == 1
    crawl.downloader.active.add(lost)


UNTIL = "2024-01-01T12:10:00+00:00"
"""Ten minutes after the time at which a test starts."""


@pytest.mark.parametrize("form", [{"obey": False}, {"robotstxt": "User-agent: *\n"}])
def test_an_override_that_ends_in_a_crawl(
    form: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """From the moment at which an override ends, robots.txt decides, also about requests that
    waited in the queue, and its delay applies. One line of the log says so.
    """
    entry = {**form, "reason": "permission", "until": UNTIL}
    crawl = Crawl(REP_OVERRIDES={"a.example": entry}, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    for path in ("3", "private/2", "2", "1", "private/1"):
        crawl.push(f"http://a.example/{path}")
    crawl.run()
    crawl.pass_time(599)
    assert crawl.on_network == ["http://a.example/private/1"]
    assert "has ended" not in caplog.text
    crawl.pass_time(1)
    crawl.answer("http://a.example/private/1")
    crawl.answer("http://a.example/robots.txt", DELAYED)
    for path in ("1", "2", "3"):
        assert crawl.on_network == []
        crawl.pass_time(3.9)
        assert crawl.on_network == []
        crawl.pass_time(0.1)
        crawl.answer(f"http://a.example/{path}")
    assert [
        str(one) for one in crawl.ended.values() if isinstance(one, RobotsDenied)
    ] == ["Forbidden by http://a.example/robots.txt, line 2 (disallow: /private/)"]
    (line,) = [one for one in caplog.messages if "has ended" in one]
    assert f"(permission; until {UNTIL})" in line


def test_a_request_that_waits_while_its_override_ends() -> None:
    """A request that waits in the downloader for its turn by the rules of an override is judged
    by robots.txt if the override ends meanwhile.
    """
    entry = {"robotstxt": "User-agent: *\nCrawl-delay: 150\n", "until": UNTIL}
    crawl = Crawl(REP_OVERRIDES={"a.example": entry})
    crawl.pass_time(500)
    crawl.answer(crawl.outside("http://a.example/private/1"))
    second = crawl.outside("http://a.example/private/2")
    crawl.pass_time(150)
    crawl.answer("http://a.example/robots.txt", RULES)
    assert isinstance(crawl.ended[second], RobotsDenied)
    assert "a.example/robots.txt" in str(crawl.ended[second])


def test_an_override_that_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """An override that has ended before the crawl is named once, at the start. Without it, a
    wider pattern decides.
    """
    over = {"obey": True, "reason": "test", "until": "2023-12-31"}
    crawl = Crawl(REP_OVERRIDES={"a.example": over, "*": "ignore"})
    crawl.opened()
    (line,) = caplog.messages
    assert line.startswith("REP_OVERRIDES['a.example'] has ended and decides nothing, ")
    assert "obey (test; until 2023-12-31)" in line
    crawl.outside("http://a.example/private/1")
    assert crawl.on_network == ["http://a.example/private/1"]
    assert [one for one in caplog.messages if "has ended" in one] == [line]


# Download slots.


def test_a_place_that_the_first_in_line_has_no_use_for() -> None:
    """A free place in a slot goes to the next queue if the host of
    the first one is not ready.
    """
    crawl = Crawl(
        CONCURRENT_REQUESTS_PER_DOMAIN=1, REP_MAX_AGE=600, REP_REQUEST_META_KEYS=[]
    )
    for host in ("http://a.example", "http://b.example"):
        crawl.outside(f"{host}/private/")
        crawl.answer(f"{host}/robots.txt", RULES)
    slot = {"download_slot": "slot"}
    busy = crawl.push(page("http://a.example/1", **slot))
    crawl.run()
    first = crawl.push(page("http://b.example/2", **slot))
    second = crawl.push(page("data:,3", **slot))
    assert crawl.run() == []
    crawl.clock.advance(600)
    assert crawl.answer(busy) == [second]
    crawl.answer(second)
    assert crawl.answer("http://b.example/robots.txt", RULES) == [first]


def test_room_that_a_robotstxt_has_left() -> None:
    """The room that the downloader gets while robots.txt files are fetched is for those
    alone, also at the moment at which one of them ends.
    """
    crawl = Crawl(CONCURRENT_REQUESTS=2)
    crawl.outside("http://a.example/private/")
    crawl.answer("http://a.example/robots.txt", RULES)
    first = [crawl.push(f"http://a.example/{number}") for number in range(3)]
    others = [crawl.push(f"http://{host}.example/") for host in "bcd"]

    def ask_again(_: object) -> None:
        crawl.engine.wake()
        crawl.run()

    crawl.run()
    assert len(crawl.on_network) == 2 + len(others)
    crawl.engine.on_gone.append(ask_again)
    pages = [*first, *others]
    for request in others:
        crawl.answer(f"{request.url}robots.txt", RULES)
        assert sum(page in crawl.downloader.active for page in pages) == 2
    while len(crawl.ended) < 1 + len(pages):
        crawl.answer(next(page for page in pages if page in crawl.network.requests))
        assert sum(page in crawl.downloader.active for page in pages) <= 2


def test_a_download_delay() -> None:
    """No more than one request waits in a download slot for DOWNLOAD_DELAY."""
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    for number in range(5):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    assert len(crawl.on_network) == 1
    sent = []
    for _ in range(100):
        crawl.pass_time(1)
        sent.append(len(crawl.sent))
        (slot,) = crawl.downloader.slots.values()
        assert len(slot.queue) <= 1
    assert [sent.count(number) for number in (1, 2, 3, 4)] == [9, 10, 10, 10]


def test_a_pause_that_another_crawl_has_seen() -> None:
    """A request that waits in its download slot is not sent within a pause that its host has asked
    another crawl of the process for. If it is cancelled meanwhile, it is not sent at all.
    """
    clock = FakeClock()
    first, second = (
        Crawl(obey=False, clock=clock, DOWNLOAD_DELAY=10) for _ in range(2)
    )
    asking = first.push("http://a.example/0")
    first.run()
    for number in (1, 2):
        second.push(f"http://a.example/{number}")
    for _ in range(3):
        second.pass_time(1)
    (slot,) = second.downloader.slots.values()
    ((waiting, result),) = slot.queue
    first.answer(asking, status=429, Retry_After="100")
    assert not slot.queue
    second.pass_time(99)
    assert len(second.sent) == 1
    result.cancel()
    second.pass_time(100)
    assert waiting not in second.sent


def test_a_spider_that_closes_within_a_pause() -> None:
    """A request that waited in its download slot when its host asked for a pause does not keep a
    closing spider open.
    """
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    for number in range(2):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    crawl.pass_time(1)
    (asking,) = crawl.sent
    (waiting,) = crawl.downloader.active - {asking}
    crawl.answer(asking, status=429, Retry_After="100")
    crawl.close()
    assert isinstance(crawl.ended[waiting], SpiderClosing)


# A host that is given up.


def give_up(crawl: Crawl, *, runs: bool = True) -> None:
    """Let the robots.txt fail twice, with a connection that is refused."""
    crawl.fail(ROBOTS, RefusedError())
    crawl.fail(ROBOTS, RefusedError(), runs=runs)


def test_without_places() -> None:
    """All are refused one after the other, without a place at their host, in turns with the requests
    of other hosts.
    """
    crawl = Crawl(CONCURRENT_REQUESTS_PER_DOMAIN=1, CONCURRENT_REQUESTS=100)
    dead = [crawl.push(f"http://a.example/{number}") for number in range(10)]
    give_up(crawl, runs=False)
    other = crawl.push("http://b.example/")
    crawl.run()
    assert crawl.on_network == ["http://b.example/robots.txt"]
    assert [type(crawl.ended[request]) for request in dead] == [RobotsDenied] * 10
    assert other not in crawl.ended
    assert len(crawl.queues[0]) == 1
    assert not crawl.frontier.core.scopes.get("a.example").in_flight


def test_robotstxt_itself() -> None:
    """A spider that requests robots.txt itself gets the server's answer, also from
    a host that is given up.
    """
    crawl = Crawl()
    itself = crawl.push(ROBOTS)
    other = crawl.push("http://a.example/page")
    give_up(crawl)
    assert crawl.on_network == [ROBOTS]
    crawl.answer(itself, "", status=500)
    assert crawl.ended[itself].status == 500
    assert isinstance(crawl.ended[other], RobotsDenied)


def test_a_host_that_is_back_meanwhile() -> None:
    """If robots.txt is back before all requests are refused, the others are sent."""
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.downloader.total_concurrency = 0
    give_up(crawl)
    crawl.pass_time(60)
    crawl.outside("http://a.example/2")
    crawl.answer(ROBOTS, "")
    crawl.downloader.total_concurrency = 8
    crawl.engine.wake()
    crawl.run()
    assert "http://a.example/1" in crawl.on_network
