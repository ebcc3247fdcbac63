"""The seam for queues that keep their requests elsewhere: the smallest such queue, to copy, and what
the frontier tells it. ``tests/redis`` has one with all of it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from twisted.internet.defer import CancelledError, Deferred

from scrapy_rep.crawl.frontier import frontier
from scrapy_rep.crawl.frontier.backlog import Backlog, HostKey, NoTerms, Terms
from scrapy_rep.crawl.frontier.frontier import Frontier
from tests.frontier.fakes import Crawl

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.frontier.backlog import Turns

A = "http://a.example"


class Service:
    """A service that keeps requests for several workers. It has one queue for each host, and returns a
    request of it only when its delay has passed.
    """

    def __init__(self) -> None:
        self.queues: dict[HostKey, deque[Request]] = {}
        self.terms: dict[HostKey, Terms] = {}
        self.wanted: set[HostKey] = set()
        self.next_at: dict[str, float] = {}
        self.said: list[tuple[Any, ...]] = []
        """What the worker has told the others."""

        self.turn_of: Request | None = None
        """Who has the turn of a host."""


class ServiceQueue(Backlog):
    """The queue of one worker, for ``SCHEDULER_PRIORITY_QUEUE`` or a scheduler."""

    is_shared = True

    def __init__(self, crawler: Crawler, service: Service) -> None:
        self._frontier: Turns = Frontier.of(crawler)
        self._frontier.attach(self)
        self._service = service

    # For the scheduler.

    def __len__(self) -> int:
        return sum(map(len, self._service.queues.values()))

    def push(self, request: Request) -> None:
        key = self._frontier.key_of(request)
        self._service.queues.setdefault(key, deque()).append(request)

    def pop(self) -> Request | None:
        if not self._frontier.room():
            return None
        now = self._frontier.clock.monotonic()
        for key, queue in self._service.queues.items():
            if not queue or self._service.next_at.get(key.host, now) > now:
                continue
            if key.origin is None or key in self._service.terms:
                request = queue.popleft()
                self._frontier.started(key, request)
                return request
            if key not in self._service.wanted and self._frontier.room_for_rules():
                self._service.wanted.add(key)
                self._frontier.want_rules(key, queue[0], partial(self._told, key))
        return None

    def _told(self, key: HostKey, found: Terms | NoTerms) -> None:
        self._service.said.append((key.host, found))
        self._service.wanted.discard(key)
        if isinstance(found, Terms):
            self._service.terms[key] = found
            self._service.next_at[key.host] = (
                self._frontier.clock.monotonic() + found.delay
            )

    # For the frontier.

    def count_waiting(self) -> int | None:
        return len(self)

    def paused(self, host: str, seconds: float, own: float) -> None:
        self._service.said.append((host, "paused", seconds, own))

    def recovered(self, request: Request) -> None:
        self._service.said.append((request.url, "recovered"))

    def catch_up(self) -> None:
        self._service.said.append(("a request", "is about to be sent"))

    def acquire(self, request: Request, host: str, behind: Collection[Request]) -> bool:
        if self._service.turn_of is not None:
            return False
        self._service.turn_of = request
        return True

    def release(self, request: Request, host: str, delay: float, *, sent: bool) -> None:
        if self._service.turn_of is request:
            self._service.turn_of = None
            self._service.said.append((request.url, "left", delay, sent))


class ServiceCrawl(Crawl):
    """A crawl with this queue."""

    def _open_queues(self) -> list[Any]:
        self.service = Service()
        return [ServiceQueue(self.crawler, self.service)]

    def said(self) -> list[tuple[Any, ...]]:
        found = [one for one in self.service.said if "is about to be sent" not in one]
        self.service.said.clear()
        return found

    def run(self) -> list[Request]:
        self.clock.advance(0)  # The frontier says what it has found out a little later.
        return super().run()


def begun(robotstxt: str = "", **settings: Any) -> ServiceCrawl:
    """Return a crawl that has read this robots.txt."""
    crawl = ServiceCrawl(**settings)
    crawl.push(f"{A}/1")
    crawl.run()
    crawl.pass_time(0)
    assert crawl.on_network == [f"{A}/robots.txt"]
    crawl.answer(f"{A}/robots.txt", robotstxt)
    return crawl


def test_rules_are_wanted_then_told() -> None:
    """The frontier fetches the robots.txt of a host that the queue wants, and says its delay. A
    request that the queue returns then is sent at once.
    """
    crawl = begun("User-agent: *\nCrawl-delay: 3")
    ((host, terms),) = crawl.said()
    assert (host, terms.delay) == ("a.example", 3.0)
    assert 0 < terms.holds <= 86_400
    assert crawl.on_network == []
    crawl.engine.wake()
    crawl.pass_time(3)
    assert crawl.on_network == [f"{A}/1"]


def test_rules_that_are_being_stored() -> None:
    """They are told once the store has them, as another worker would fetch them again: also if they
    have ended since. Meanwhile the frontier takes no more hosts than it fetches otherwise.
    """
    crawl = ServiceCrawl(REP_MAX_AGE=1)
    stored: Deferred[None] = Deferred()
    crawl.frontier.rules.cache.stored = stored
    for number in range(300):
        crawl.push(f"http://{number}.example/")
    for _ in range(30):
        crawl.run()
        crawl.pass_time(0)
        for url in list(crawl.on_network):
            crawl.answer(url)
    assert len(crawl.service.wanted) == frontier._MAX_WANTED
    crawl.pass_time(9)
    assert crawl.said() == []
    stored.callback(None)
    told = [terms for _, terms in crawl.said()]
    assert list(map(type, told)) == [Terms] * frontier._MAX_WANTED
    assert crawl.frontier.room_for_rules() > 0


def test_rules_of_a_host_that_is_unreachable_for_too_long() -> None:
    """A queue hears once that its requests are refused: each that it returns then is. Meanwhile the
    host does not count among those whose rules are wanted.
    """
    crawl = ServiceCrawl(REP_WAIT_TIMEOUT=0)
    crawl.push(f"{A}/1")
    crawl.run()
    crawl.pass_time(0)
    crawl.answer(f"{A}/robots.txt", status=503)
    crawl.pass_time(0)
    assert (("a.example", NoTerms.REFUSED)) in crawl.said()
    assert crawl.frontier.room_for_rules() > 0
    (request,) = crawl.service.queues.popitem()[1]
    crawl.start(request)
    assert "unreachable" in str(crawl.ended[request])


def test_pause_and_recovery_are_told() -> None:
    """The queue hears of a pause that a host asks for, and of the first answer after it. A pause that
    it has heard of from another worker holds back what is about to be sent.
    """
    crawl = begun()
    crawl.run()
    crawl.answer(f"{A}/1", status=429, Retry_After="20")
    _, (host, what, seconds, own) = crawl.said()
    assert (host, what, seconds) == ("a.example", "paused", 20.0)
    image = crawl.outside(f"{A}/image")
    crawl.pass_time(19)
    assert crawl.on_network == []
    crawl.frontier.paused_elsewhere("a.example", 9.0, own, 28.0)
    crawl.pass_time(8)
    assert crawl.on_network == []
    crawl.pass_time(2)
    assert crawl.on_network == [image.url]
    crawl.answer(image)
    assert crawl.said() == [(image.url, "recovered"), (image.url, "left", 0.0, True)]


def test_turn_of_a_host_with_a_delay() -> None:
    """A request in the downloader, to a host with a delay, gets the turn of the queue, and waits
    while that gives none.
    """
    crawl = begun("User-agent: *\nCrawl-delay: 3")
    crawl.said()
    crawl.service.queues.clear()
    crawl.service.turn_of = other = Request(f"{A}/of-another-worker")
    image = crawl.outside(f"{A}/image")
    crawl.pass_time(9)
    assert crawl.on_network == []
    crawl.service.turn_of = None
    crawl.pass_time(3)
    assert crawl.on_network == [image.url]
    assert crawl.service.turn_of is image
    crawl.answer(image)
    assert crawl.said() == [(image.url, "left", 3.0, True)]
    assert crawl.service.turn_of is not other


def test_a_request_that_needs_no_turn() -> None:
    """One that is exempt from robots.txt does not keep to its delay, so it needs no turn for that."""
    crawl = begun("User-agent: *\nCrawl-delay: 3")
    crawl.service.queues.clear()
    crawl.service.turn_of = Request(f"{A}/of-another-worker")
    crawl.outside(f"{A}/waits")
    image = crawl.outside(f"{A}/image", dont_obey_robotstxt=True)
    assert crawl.on_network == [image.url]


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "at once"])
@pytest.mark.parametrize("where", ["acquire", "catch_up"])
def test_a_service_that_fails(
    monkeypatch: pytest.MonkeyPatch, where: str, waits: bool
) -> None:
    """A request that asks for a turn fails with the error of the service, and leaves the place to
    others.
    """
    crawl = begun("User-agent: *\nCrawl-delay: 3")
    crawl.service.queues.clear()
    if not waits:
        crawl.clock.advance(3.1)

    def fails(*args: Any) -> Any:
        raise ConnectionError

    with monkeypatch.context() as patched:
        patched.setattr(ServiceQueue, where, fails)
        first = Request(f"{A}/first", callback=NO_CALLBACK)
        crawl.start(first)
        crawl.clock.advance(30)
    assert isinstance(crawl.ended[first], ConnectionError)
    second = Request(f"{A}/second", callback=NO_CALLBACK)
    crawl.start(second)
    crawl.clock.advance(60)
    assert crawl.on_network == [second.url]
    crawl.answer(second)
    crawl.clock.advance(700)
    assert not crawl.frontier.core.scopes


def test_cancelled_while_another_worker_has_the_turn() -> None:
    """Also after it has asked for the turn more often than Python can nest calls."""
    crawl = begun("User-agent: *\nCrawl-delay: 0.4")
    crawl.service.queues.clear()
    crawl.service.turn_of = Request(f"{A}/of-another-worker")
    waits = Request(f"{A}/waits", callback=NO_CALLBACK)
    task = crawl.start(waits)
    crawl.clock.advance(100)
    task.cancel()
    assert isinstance(crawl.ended[waits], CancelledError)
    crawl.service.turn_of = None
    crawl.clock.advance(9)
    assert crawl.on_network == []


@pytest.mark.parametrize("why", ["the crawl stops", "the downloader is full"])
def test_room(why: str) -> None:
    """A queue returns nothing while there is no room."""
    crawl = ServiceCrawl(obey=False, CONCURRENT_REQUESTS=2)
    assert crawl.frontier.room() == 2
    if why == "the crawl stops":
        crawl.frontier.stop("for a reason")
    else:
        for number in range(2):
            crawl.start(Request(f"{A}/{number}", callback=NO_CALLBACK))
    assert crawl.frontier.room() == 0
