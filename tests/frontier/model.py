"""A simple model of the queue, without heaps and timers, which checks a crawl at each step.

The model records which requests were pushed, what the servers answered, and when. It
reports a failure if a request is sent that must not be sent.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from scrapy_rep.exceptions import RobotsDenied, SpiderClosing
from scrapy_rep.protocol.access.results import State
from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.origins import Origin, origin_of
from scrapy_rep.protocol.robotstxt.decisions import Reason
from scrapy_rep.signals import robotstxt_known
from tests.frontier.fakes import is_robotstxt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request

    from scrapy_rep.protocol.access.results import AccessResult, Entry
    from tests.frontier.fakes import Crawl

PRIVATE = "/private/"
"""The path that each robots.txt forbids."""

ROBOTS_TXT = "/robots.txt"
"""The path that is always allowed, even while its host is given up."""

_EPSILON = 0.01


class Key(NamedTuple):
    """Requests with equal keys are ordered by priority."""

    queue: int
    slot: str
    origin: Origin | None
    was_redirected: bool
    is_service: bool


class Queued(NamedTuple):
    key: Key
    priority: int
    is_start: bool
    number: int


@dataclass
class Answer:
    """The last answer of an origin for its robots.txt."""

    entry: Entry

    result: AccessResult
    """The result that counts: that of a stale copy if there is no better one."""

    delay: float
    is_out_of_reach: bool


@dataclass
class Name:
    """A host or a download slot whose requests are sent one at a time.

    A request that was under way before a slot joined two hosts does not count for the other
    host.
    """

    delays: dict[Origin, float] = field(default_factory=dict)
    on_the_way: list[Request] = field(default_factory=list)
    last_end: float = float("-inf")


class Model:
    def __init__(self, crawl: Crawl, *, starts_apart: bool, wait: float) -> None:
        self.crawl = crawl
        self.starts_apart = starts_apart
        self.wait = wait
        self.queued: dict[Request, Queued] = {}
        self.under_way: dict[Request, str] = {}
        self.done: set[Request] = set()
        self.answers: dict[Origin, Answer] = {}
        self.out_of_reach_since: dict[Origin, float] = {}
        self.names: dict[tuple[str, str], Name] = {}
        self.files_ended: dict[Origin | None, float] = {}
        """The moment at which each origin answered for its robots.txt."""

        self.failures: list[str] = []
        """Failed checks. They are raised later: at the time of the failure the crawl would
        log the exception and go on.
        """

        self._number = count()
        crawl.on_pop.append(self._watch(self.popped))
        crawl.downloader.on_let_go.append(self._watch(self.let_go))
        crawl.downloader.on_send.append(self._watch(self.sent))
        crawl.downloader.on_end.append(self._watch(self.ended))
        crawl.downloader.on_gone.append(self._watch(self.gone))
        crawl.engine.scraper.on_failed.append(self._watch(self.refused))
        crawl.crawler.signals.connect(self.learned, robotstxt_known)

    def _watch(self, look: Callable[..., None]) -> Callable[..., None]:
        def watched(*args: Any) -> None:
            try:
                look(*args)
            except (AssertionError, LookupError):
                self.failures.append(traceback.format_exc())

        return watched

    @property
    def now(self) -> float:
        return self.crawl.clock.monotonic()

    # Requests.

    def pushed(self, request: Request, queue: int) -> None:
        slot, origin = self._slot(request), _origin(request)
        is_service = origin is None and _host(request) != slot
        key = Key(queue, slot, origin, _was_redirected(request), is_service)
        is_start = self.starts_apart and request.meta.get("is_start_request", False)
        self.queued[request] = Queued(
            key, request.priority, is_start, next(self._number)
        )

    def popped(self, request: Request, queue: int) -> None:
        """Check that the request was in its queue, is the best one there,
        and that its slot has room.
        """
        queued = self.queued.pop(request)
        assert queued.key.queue == queue
        for one, other in self.queued.items():
            if other.key == queued.key and not {_path(request), _path(one)} & {
                ROBOTS_TXT
            }:
                assert _is_before(queued, other), one
        slot = self._slot(request)
        limit = self.crawl.downloader.per_slot_settings.get(slot, {}).get(
            "concurrency", self.crawl.downloader.domain_concurrency
        )
        assert list(self.under_way.values()).count(slot) < limit, slot
        in_downloader = self.crawl.downloader.slots.get(slot)
        assert in_downloader is None or len(in_downloader.active) < limit, slot
        self.under_way[request] = slot

    def refused(self, request: Request) -> None:
        """Check that a request is refused in the queue only if its host is given up."""
        del self.queued[request]
        self.done.add(request)
        self._check_given_up(_origin(request))

    def let_go(self, request: Request) -> None:
        """Check that robots.txt is known and fresh, the delay has passed, and the
        host is open for visits.
        """
        if is_robotstxt(request):
            self._check_names([("host", _host(request))], request)
            return
        origin = _origin(request)
        if origin is None or _path(request) == ROBOTS_TXT:
            return
        answer = self.answers[origin]
        if request in self.under_way:
            # For a request from outside, this was checked before it waited for its turn.
            now = self.crawl.clock.time()
            assert answer.entry.is_fresh(now), f"{request} goes by what has run out"
            assert not answer.is_out_of_reach
            closed = self._pace(answer.result, now)[1]
            assert not closed, f"{request} goes where no visits are wanted"
        assert answer.result.status == 404 or _path(request)[:9] != PRIVATE
        names = [("host", _host(request))]
        if not _was_redirected(request):
            names.append(("slot", self._slot(request)))
        for name in names:
            state = self.names.get(name)
            if answer.delay:
                if state is None:
                    state = self.names[name] = Name(
                        last_end=self.files_ended.get(origin, float("-inf"))
                    )
                state.delays[origin] = answer.delay
            elif state is not None:
                state.delays.pop(origin, None)
        self._check_names(names, request)

    def sent(self, request: Request) -> None:
        """Check that no robots.txt is fetched twice at once, or while the known one is fresh."""
        if not is_robotstxt(request) or _path(request) != ROBOTS_TXT:
            return
        # A transfer that nobody waits for any more was cancelled; Scrapy lets it end by itself.
        others = [
            other
            for other, answer in self.crawl.downloader.network.items()
            if other is not request and not answer.called
        ]
        assert request.url not in [other.url for other in others if is_robotstxt(other)]
        answer = self.answers.get(origin_of(request.url))
        # If the clock was set back, the file was stale when it was requested.
        if answer is not None and not self.crawl.clock.was_set_back:
            assert not answer.entry.is_fresh(self.crawl.clock.time())

    def ended(self, request: Request) -> None:
        if is_robotstxt(request) and _path(request) == ROBOTS_TXT:
            self.files_ended[origin_of(request.url)] = self.now
        # The end of any request to the host begins the delay, also of one that was sent
        # before the delay was known or that needs no permission. A request that has already
        # been let go does not wait for it.
        for state in self.names.values():
            if request in state.on_the_way:
                state.last_end = self.now

    def gone(self, request: Request) -> None:
        for state in self.names.values():
            if request in state.on_the_way:
                state.on_the_way.remove(request)
        self.under_way.pop(request, None)
        self.done.add(request)

    def _check_names(self, names: list[tuple[str, str]], request: Request) -> None:
        for name in names:
            state = self.names.get(name)
            if state is None:
                continue
            delay = max(self._delays(state), default=0.0)
            if not delay:
                del self.names[name]
                continue
            assert not state.on_the_way, f"{request} goes beside {state.on_the_way}"
            early = state.last_end + delay - self.now
            assert early <= _EPSILON, f"{request} goes {early} s too early"
            # A request that a later middleware drops is never sent.
            if request.meta.get("fate") != "dropped after":
                state.on_the_way.append(request)

    def _delays(self, state: Name) -> Iterator[float]:
        # A shorter delay holds from the answer on, a longer one from the next request on.
        for origin, delay in state.delays.items():
            yield min(delay, self.answers[origin].delay)

    # Robots.txt.

    def learned(self, origin: Origin, entry: Entry) -> None:
        state = entry.state(RFC9309)
        copy = entry.copy if state is State.STALE else None
        result = copy or entry.result
        delay, _ = self._pace(result, self.crawl.clock.time())
        is_out_of_reach = state is State.UNREACHABLE
        answer = Answer(entry, result, delay, is_out_of_reach)
        self.answers[origin] = answer
        if answer.is_out_of_reach:
            self.out_of_reach_since.setdefault(origin, self.now)
        else:
            self.out_of_reach_since.pop(origin, None)

    def _pace(self, result: AccessResult, now: float) -> tuple[float, float]:
        """Return the delay, and the seconds until the host opens for visits."""
        delay, closed = 0.0, 0.0
        for line in result.body.decode().splitlines():
            name, _, value = line.partition(": ")
            if name == "Crawl-delay":
                delay = float(value)
            elif name == "Visit-time":
                minute = now % 86400 // 60
                start, end = (int(at[:2]) * 60 + int(at[2:]) for at in value.split("-"))
                is_open = start <= minute <= end
                closed = 0.0 if is_open else (start * 60 - now % 86400) % 86400
        return delay, closed

    def _check_given_up(self, origin: Origin | None) -> None:
        assert origin is not None
        answer = self.answers[origin]
        assert answer.is_out_of_reach
        waited = self.now - self.out_of_reach_since[origin]
        assert answer.entry.result.is_permanent or waited >= self.wait - _EPSILON, (
            f"{origin} is given up after {waited} s"
        )

    # At each step.

    def check(self) -> None:
        assert not self.failures, self.failures[0]
        crawl = self.crawl
        for number, queue in enumerate(crawl.queues):
            waiting = [one for one in self.queued.values() if one.key.queue == number]
            assert len(queue) == len(waiting), "Requests are lost, or doubled"
        on_the_way = {*crawl.downloader.network, *crawl.downloader.lingering}
        for slot in crawl.downloader.slots.values():
            on_the_way.update(request for request, _ in slot.queue)
        waits = [
            request
            for request in self.under_way
            if request not in on_the_way and _path(request) != ROBOTS_TXT
        ]
        assert not waits, f"{waits} were popped to wait in the downloader"

    def check_ended(self, is_closing: bool) -> None:
        """Check the results of all requests that have ended."""
        for request, result in self.crawl.ended.items():
            if isinstance(result, RobotsDenied):
                reason = result.decision.reason
                assert reason is not Reason.RULE or _path(request)[:9] == PRIVATE
            assert is_closing or not isinstance(result, SpiderClosing), request

    def _slot(self, request: Request) -> str:
        return self.crawl.downloader.get_slot_key(request)


def _is_before(one: Queued, other: Queued) -> bool:
    """Return whether *one* goes before *other*: by priority; then start requests last,
    first in first out; other requests last in first out.
    """
    if one.priority != other.priority:
        return one.priority > other.priority
    if one.is_start != other.is_start:
        return other.is_start
    return (one.number < other.number) is one.is_start


def _host(request: Request) -> str:
    return urlsplit(request.url).hostname or ""


def _path(request: Request) -> str:
    return urlsplit(request.url).path


def _was_redirected(request: Request) -> bool:
    urls = request.meta.get("redirect_urls")
    return bool(urls) and urlsplit(urls[0]).hostname != _host(request)


def _origin(request: Request) -> Origin | None:
    """The origin of *request*, or None if robots.txt does not apply to it."""
    origin = origin_of(request.url)
    urls = request.meta.get("redirect_urls", ())
    is_exempt = request.meta.get("dont_obey_robotstxt", False)
    if is_exempt and all(origin_of(url) == origin for url in urls):
        return None
    return origin
