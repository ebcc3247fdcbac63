"""The shared queue beside a small frontier, to copy for the test of a queue of one's own. The real
frontier is beside it in the other tests.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_rep.base.clock import Alarms
from scrapy_rep.crawl.frontier.backlog import HostKey, NoTerms, Terms
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.protocol.origins import origin_of
from scrapy_rep.redis import RedisHostQueue
from tests.frontier.fakes import FakeEngine
from tests.redis.shared import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.crawl.frontier.backlog import Backlog
    from tests.redis.shared import Shared

A = "http://a.example"


class SmallFrontier:
    """A frontier (``Turns``) that keeps what a queue tells it, and whose answers a test chooses."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.alarms = Alarms(clock)
        self.closed_unsent: set[Request] = set()
        self.places = 16
        self.backlogs: list[Backlog] = []
        self.in_flight: list[tuple[HostKey, str]] = []
        self.wanted: deque[tuple[str, Callable[[Terms | NoTerms], None]]] = deque()
        self.pauses: list[tuple[Any, ...]] = []
        self.stopped = ""

    def attach(self, backlog: Backlog) -> None:
        self.backlogs.append(backlog)

    def key_of(self, request: Request) -> HostKey:
        origin = origin_of(request.url)
        assert origin is not None
        return HostKey(origin.host, origin)

    def room(self) -> int:
        return 0 if self.stopped else self.places - len(self.in_flight)

    def started(self, key: HostKey, request: Request, delay: float = 0.0) -> None:
        self.in_flight.append((key, request.url))

    def room_for_rules(self) -> int:
        return 8 - len(self.wanted)

    def want_rules(
        self,
        key: HostKey,
        first: Request,
        told: Callable[[Terms | NoTerms], None],
        delay: float = 0.0,
    ) -> None:
        self.wanted.append((first.url, told))

    def paused_elsewhere(self, *pause: Any) -> None:
        self.pauses.append(pause)

    def stop(self, reason: str) -> None:
        self.stopped = reason


@pytest.fixture
def queue(shared: Shared) -> RedisHostQueue:
    crawler = get_crawler(Spider)
    crawler.spider = Spider.from_crawler(crawler, "fake")
    crawler.engine = engine = FakeEngine()
    engine.downloader = SimpleNamespace(
        active=set(),
        slots={},
        per_slot_settings={},
        domain_concurrency=8,
        needs_backout=lambda: False,
        get_slot_key=lambda request: "a.example",
    )
    components = vars(crawler).setdefault("_scrapy_rep_components", {})
    components[Frontier] = SmallFrontier(shared.clock)
    key = PREFIX.strip("{}")
    queue = RedisHostQueue(shared.server.client(), crawler.spider, key)
    for number in range(3):
        queue.push(Request(f"{A}/{number}"))
    return queue


def test_no_request_before_its_rules(queue: RedisHostQueue) -> None:
    """The queue asks once for the rules of a host, and returns its requests only when it has been told
    them, with the delay.
    """
    frontier: Any = queue._frontier
    assert frontier.backlogs == [queue._leases]
    assert queue.pop() is None
    ((first, told),) = frontier.wanted
    assert first == f"{A}/0"
    assert queue.pop() is None
    told(Terms(holds=60.0, delay=3.0))
    assert queue.pop() is None
    frontier.clock.advance(0.1)  # Now the others know it, and the delay begins.
    frontier.clock.advance(2.9)
    assert queue.pop() is None
    frontier.clock.advance(0.2)
    request = queue.pop()
    assert request is not None
    assert [url for _, url in frontier.in_flight] == [request.url] == [f"{A}/0"]
    engine: Any = queue.spider.crawler.engine
    engine.downloader.active.add(request)
    engine.in_progress.add(request)
    frontier.clock.advance(9.0)
    assert queue.pop() is None
    assert len(frontier.wanted) == 1


def test_a_request_that_is_not_done(queue: RedisHostQueue, shared: Shared) -> None:
    """A request that has ended returns to the queue at the end if the frontier says that it is not
    done.
    """
    frontier: Any = queue._frontier
    queue.pop()
    frontier.wanted[0][1](Terms(holds=60.0))
    found: list[Request] = []
    engine: Any = queue.spider.crawler.engine
    for _ in range(9):
        frontier.clock.advance(0.1)
        if request := queue.pop():
            found.append(request)
            engine.in_progress.add(request)
            queue._leases._left_downloader(request)
    assert len(found) == 3
    frontier.closed_unsent.add(found[0])
    engine.in_progress.clear()
    queue._spider_closed()
    assert shared.count() == 1


def test_requests_that_are_refused(queue: RedisHostQueue) -> None:
    """Requests of a host that is refused are returned without a place, and the queue asks again for
    its rules.
    """
    frontier: Any = queue._frontier
    assert queue.pop() is None
    frontier.wanted.pop()[1](NoTerms.REFUSED)
    assert [queue.pop().url for _ in range(3)] == [f"{A}/{n}" for n in range(3)]
    assert frontier.in_flight == []
    assert len(frontier.wanted) == 1


def test_no_request_without_room(queue: RedisHostQueue, shared: Shared) -> None:
    """Nothing is returned while there is no room. What another worker says of a pause comes to the
    frontier with the next call, and the end of the queue stops the crawl.
    """
    frontier: Any = queue._frontier
    queue.pop()
    frontier.wanted.pop()[1](Terms(holds=60.0))
    frontier.places = 0
    assert queue.pop() is None
    shared.worker().report_pause("a.example", 5.0, 1.0)
    queue._leases.paused("b.example", 7.0, 2.0)
    assert frontier.pauses == [
        ("a.example", 5.0, 1.0, 0.0),
        ("b.example", 7.0, 2.0, 0.0),
    ]
    shared.redis.flushall()
    shared.advance(0)
    frontier.places = 16
    queue._ask_at = 0.0
    assert queue.pop() is None
    assert frontier.stopped == "queue_lost"
    assert len(queue) > 0
