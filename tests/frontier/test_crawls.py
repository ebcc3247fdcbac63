"""The frontier in Scrapy's downloader: overrides, download slots, and rare orders of events."""

from __future__ import annotations

from unittest import mock

import pytest
from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError as RefusedError

from scrapy_rep import back_off
from scrapy_rep.base import stats
from scrapy_rep.crawl.gate import RobotsTxtMiddleware
from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from tests.frontier.fakes import Crawl, page

ROBOTS = "http://a.example/robots.txt"
RULES = "User-agent: *\nDisallow: /private/\n"
DELAYED = f"{RULES}Crawl-delay: 4\n"
UNTIL = "2024-01-01T12:10:00+00:00"
"""Ten minutes after the time at which a test starts."""


def crawl_with_delay(**settings: object) -> Crawl:
    """Return a crawl that has sent a request to a host with a Crawl-delay, which has passed."""
    crawl = Crawl(**settings)
    first = crawl.push("http://a.example/first")
    crawl.run()
    crawl.answer(ROBOTS, DELAYED)
    crawl.pass_time(4)
    crawl.answer(first)
    crawl.pass_time(4)
    return crawl


# Delays.


def test_names_of_one_host() -> None:
    """A host name with a trailing dot, or with a port, shares the delay of the host, also for its
    robots.txt.
    """
    crawl = crawl_with_delay()
    for url in ("http://a.example/1", "http://A.example./2", "http://a.example:81/2"):
        crawl.push(url)
        crawl.run()
        assert crawl.on_network == ["http://a.example/1"]


def test_who_waits_in_the_downloader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a request of the queue, which has its turn: it is judged at once, by fresh rules. Nor one
    that comes past the queue while its host has places; but one whose robots.txt is not known.
    """
    waits = mock.Mock(side_effect=RuntimeError)
    monkeypatch.setattr(RobotsTxtMiddleware, "_wait", waits)
    crawl = Crawl()
    urls = [f"http://a.example/{path}" for path in ("1", "2", "private/3")]
    requests = [crawl.push(url) for url in urls]
    crawl.run()
    crawl.answer(ROBOTS, RULES)
    assert sorted(crawl.on_network) == urls[:2]
    assert isinstance(crawl.ended[requests[2]], RobotsDenied)
    crawl.outside("http://a.example/4")
    waits.assert_not_called()
    crawl.outside("http://b.example/")
    waits.assert_called_once()


def test_a_host_that_cannot_be_read() -> None:
    """The request is refused, and no error, wherever it comes from."""
    crawl = Crawl()
    requests = [page("http://a.example/"), page("http://a.example/")]
    for request in requests:
        request._url = "http://[::/"  # As of a component, or of an older Scrapy.
    crawl.push(requests[0])
    crawl.start(requests[1])
    crawl.run()
    for request in requests:
        assert isinstance(crawl.ended[request], RobotsDenied)
    assert not crawl.on_network


def test_a_robotstxt_that_asks_for_a_pause() -> None:
    """Nothing is sent to its host until the pause is over, not even what obeys no robots.txt."""
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.answer(ROBOTS, status=429, Retry_After="20")
    crawl.outside("http://a.example/2", dont_obey_robotstxt=True)
    crawl.pass_time(19.9)
    assert crawl.on_network == []
    crawl.pass_time(0.1)
    assert len(crawl.on_network) == 1


def test_a_clock_that_is_set_back() -> None:
    """If the clock is set back after robots.txt was fetched, no request waits longer than the
    delay.
    """
    crawl = Crawl()
    crawl.push("http://a.example/1")
    crawl.run()
    crawl.clock.set_back(-200)
    crawl.answer(ROBOTS, DELAYED, runs=False)
    crawl.clock.set_back(200)
    crawl.run()
    assert crawl.pass_time(3.9) == []
    assert len(crawl.pass_time(0.1)) == 1


def test_a_host_that_is_forgotten_between_its_requests() -> None:
    """It takes no memory, and counts as delayed once in the stats."""
    crawl = crawl_with_delay()
    for number in range(2):
        crawl.pass_time(60)
        assert not len(crawl.frontier.core.scopes)
        assert not crawl.frontier.core.hosts
        crawl.push(f"http://a.example/{number}")
        crawl.run()
        crawl.pass_time(4)
        crawl.answer(f"http://a.example/{number}")
    assert crawl.crawler.stats.get_value(stats.DELAYED_HOSTS) == 1


def test_a_request_whose_end_nobody_has_seen() -> None:
    """If another component hides the end of a request, its places are free at the next pop. A
    request in the downloader keeps them, however long it takes.
    """
    crawl = crawl_with_delay()
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


def test_an_end_that_nobody_has_seen_while_others_go_on() -> None:
    """While the downloader has other requests, that takes a moment longer, but not until their end."""
    crawl = Crawl(obey=False, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    crawl.outside("http://b.example/slow")
    next_one, lost = (crawl.push(f"http://a.example/{number}") for number in (1, 2))
    assert crawl.run() == [lost]
    crawl.downloader.active.remove(lost)
    assert crawl.pass_time(0.2) == [next_one]
    crawl.downloader.active.add(lost)


# The network of the crawler itself.


def test_a_robotstxt_that_finds_the_network_back() -> None:
    """The robots.txt that tells that the network is back is not fetched again: its host gets the
    first page after its delay.
    """
    crawl = Crawl()
    hosts = [f"{name}.example" for name in "abcde"]
    pages = [crawl.push(f"http://{host}/page") for host in hosts]
    crawl.run()
    while not crawl.frontier.core.network.gone_since:
        crawl.fail(crawl.on_network[0], RefusedError())
    for url in crawl.on_network:
        crawl.fail(url, RefusedError())
    assert crawl.on_network == []
    crawl.pass_time(1)
    assert crawl.on_network == [ROBOTS]
    crawl.answer(ROBOTS, DELAYED)
    assert len(crawl.on_network) == 4
    assert ROBOTS not in crawl.on_network
    assert crawl.pass_time(3.9) == []
    assert crawl.pass_time(0.1) == pages[:1]


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


def test_a_download_delay() -> None:
    """No more than one request waits in a download slot for DOWNLOAD_DELAY."""
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    for number in range(5):
        crawl.push(f"http://a.example/{number}")
    crawl.run()
    sent = []
    for _ in range(100):
        sent.append(len(crawl.sent))
        crawl.pass_time(1)
        (slot,) = crawl.downloader.slots.values()
        assert len(slot.queue) <= 1
    assert [sent.count(number) for number in (1, 2, 3, 4)] == [10] * 4


def test_room_that_a_robotstxt_has_left() -> None:
    """The room that the downloader gets while robots.txt files are fetched is for those
    alone, also at the moment at which one of them ends.
    """
    crawl = crawl_with_delay(CONCURRENT_REQUESTS=2, REP_CRAWL_DELAY_OBEY=False)
    pages = [crawl.push(f"http://a.example/{number}") for number in range(3)]
    others = [crawl.push(f"http://{host}.example/") for host in "bcd"]
    crawl.run()
    assert len(crawl.on_network) == 2 + len(others)
    wake = crawl.engine.wake
    # The engine asks the queues again at once when a request has left the downloader.
    vars(crawl.engine)["wake"] = lambda: [wake(), crawl.run()]
    pages += others
    for request in others:
        crawl.answer(f"{request.url}robots.txt", RULES)
        assert sum(page in crawl.downloader.active for page in pages) == 2
    while len(crawl.ended) < 1 + len(pages):
        crawl.answer(next(page for page in pages if page in crawl.network.requests))
        assert sum(page in crawl.downloader.active for page in pages) <= 2


@pytest.mark.parametrize("closes", [False, True])
def test_a_pause_while_a_request_waits_in_its_slot(closes: bool) -> None:
    """A request that waits in its download slot is not sent within a pause of its host. If it is
    cancelled meanwhile, it is not sent at all, and it does not keep a closing spider open.
    """
    crawl = Crawl(obey=False, DOWNLOAD_DELAY=10)
    for number in (1, 2):
        crawl.push(f"http://a.example/{number}")
    for _ in range(3):
        crawl.pass_time(1)
    (slot,) = crawl.downloader.slots.values()
    request, result = slot.queue[0]
    back_off(crawl.crawler, "a.example", 100)
    assert not slot.queue
    crawl.pass_time(40)
    if closes:
        crawl.close()
        assert isinstance(crawl.ended[request], SpiderClosing)
    else:
        result.cancel()
        crawl.pass_time(100)
    assert len(crawl.sent) == 1


# Robots.txt files, and overrides.


def test_robotstxt_itself() -> None:
    """A spider that requests robots.txt itself gets the server's answer, also from a host whose
    other requests are refused.
    """
    crawl = Crawl()
    itself, other = crawl.push(ROBOTS), crawl.push("http://a.example/page")
    for seconds in (
        10,
        0,
    ):  # It is asked once more before it counts as without a server.
        crawl.fail(ROBOTS, RefusedError())
        crawl.fail(ROBOTS, RefusedError())
        crawl.pass_time(seconds)
    crawl.answer(itself, "", status=500)
    assert crawl.ended[itself].status == 500
    assert isinstance(crawl.ended[other], RobotsDenied)


@pytest.mark.parametrize("form", [{"obey": False}, {"robotstxt": "User-agent: *\n"}])
def test_an_override_that_ends_in_a_crawl(
    form: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    """From the moment at which an override ends, robots.txt decides, also about requests that
    waited in the queue, and its delay applies. One line of the log says so.
    """
    entry = {**form, "reason": "permission", "until": UNTIL}
    crawl = Crawl(REP_OVERRIDES={"a.example": entry}, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    _, denied, first = [
        crawl.push(f"http://a.example/{path}") for path in ("1", "private/2", "first")
    ]
    crawl.run()
    crawl.pass_time(599)
    assert crawl.on_network == [first.url]
    assert "has ended" not in caplog.text
    crawl.pass_time(1)
    crawl.answer(first)
    crawl.answer(ROBOTS, DELAYED)
    crawl.pass_time(3.9)
    assert crawl.on_network == []
    crawl.pass_time(0.1)
    assert crawl.on_network == ["http://a.example/1"]
    assert isinstance(crawl.ended[denied], RobotsDenied)
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
    crawl.answer(ROBOTS, RULES)
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


def test_what_is_not_done_when_the_spider_closes() -> None:
    """A page whose callback may wait for a request of its own is not done; one that the downloader still
    has is done when it ends.
    """
    crawl = Crawl()
    read = crawl.push(page("http://a.example/read", callback_takes_long=True))
    crawl.run()
    crawl.answer(ROBOTS)
    crawl.answer(read)
    sent = crawl.push("http://a.example/sent")
    crawl.run()
    waits = crawl.outside("http://b.example/waits")
    crawl.close()
    assert isinstance(crawl.ended[waits], SpiderClosing)
    assert {read, waits} <= crawl.frontier.closed_unsent
    assert sent not in crawl.frontier.closed_unsent


def test_a_request_that_cancels_another_as_the_spider_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Both end once, and all others too."""
    crawl = crawl_with_delay()
    one, two, three = (Request(f"http://a.example/{n}") for n in range(1, 4))
    crawl.start(Request("http://a.example/0"))
    crawl.start(one).addBoth(lambda _: task.cancel())
    task = crawl.start(two)
    crawl.start(three)
    crawl.close()
    assert isinstance(crawl.ended[one], SpiderClosing)
    assert isinstance(crawl.ended[two], CancelledError)
    assert isinstance(crawl.ended[three], SpiderClosing)
    assert "Error" not in caplog.text


def test_a_robotstxt_that_is_fetched_again_after_it_was_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It takes proxy and headers from the request that waits for it now."""
    crawl = Crawl()
    first = crawl.push("http://a.example/1")
    crawl.run()
    crawl.answer(ROBOTS, cache_control="max-age=0")
    crawl.pass_time(1)
    crawl.answer(first)
    crawl.pass_time(90_000)
    image = Request("http://a.example/image", callback=NO_CALLBACK)
    crawl.start(image).cancel()
    crawl.push("http://a.example/2")
    crawl.run()
    assert crawl.on_network == [ROBOTS, ROBOTS]  # The first one was cancelled.
    assert "error" not in caplog.text


def test_the_delay_of_a_host_whose_only_page_is_refused() -> None:
    """Its robots.txt is not fetched again before the delay that it asks for."""
    crawl = Crawl()
    crawl.outside("http://a.example/no")
    crawl.answer(ROBOTS, "User-agent: *\nDisallow: /no\nCrawl-delay: 100\n")
    crawl.clock.set_back(-100_000)  # It is stale at once.
    crawl.push("http://a.example/")
    crawl.pass_time(90)
    assert crawl.on_network == []
    crawl.pass_time(20)
    assert crawl.on_network == [ROBOTS]


def test_an_object_that_waits_twice() -> None:
    """Both downloads of it end, and nothing is left of them, also if a component has held them back
    until others have got its places.
    """
    held: list[Deferred[None]] = []

    class HoldsBack:
        async def process_request(self, request: Request) -> None:
            if request.url.endswith("/held"):
                held.append(Deferred())
                await maybe_deferred_to_future(held[-1])

    order = {HoldsBack: 100, RobotsTxtMiddleware: 595}
    crawl = Crawl(CONCURRENT_REQUESTS_PER_DOMAIN=1, DOWNLOADER_MIDDLEWARES=order)
    crawl.push("http://a.example/held")
    crawl.outside("http://a.example/")
    crawl.answer(ROBOTS, runs=False)
    crawl.answer("http://a.example/", runs=False)
    request = crawl.pop()
    assert request is not None
    (scope,) = crawl.frontier.core.scopes.values()
    before = scope.tickets
    downloads = [crawl.engine.downloader.fetch(request) for _ in range(2)]
    others = [crawl.outside(f"http://a.example/{number}") for number in range(2)]
    crawl.pass_time(3)
    for each in held:
        each.callback(None)
    for each in (others[0], others[1], request, request):
        crawl.answer(each)
        crawl.pass_time(1)
    assert all(each.called for each in downloads)
    crawl.close()
    assert scope.tickets == before
