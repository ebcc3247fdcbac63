"""A state machine that drives the queue with the random events of a crawl."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from twisted.internet.error import ConnectionRefusedError as RefusedError

from scrapy_rep.protocol.access.results import MAX_AHEAD
from tests import effort
from tests.frontier.fakes import Crawl, is_robotstxt, no_event_loop, page
from tests.frontier.model import PRIVATE, ROBOTS_TXT, Model

if TYPE_CHECKING:
    from scrapy import Request
    from twisted.internet.defer import Deferred

pytestmark = pytest.mark.newest

logger = logging.getLogger("scrapy_rep")

HOSTS = (
    "http://a.example",
    "https://a.example",
    "http://a.example:8080",
    "http://b.example",
    "http://c.example",
)
LOOKS_EVERY = 10
MAX_AGE = 900
RULES = f"User-agent: *\nDisallow: {PRIVATE}\n"

# Most problems need many requests to a few hosts.
hosts = st.sampled_from([HOSTS[0]] * 3 + list(HOSTS))
beginnings = st.sampled_from(
    [
        None,
        RULES,
        *[f"{RULES}Crawl-delay: {seconds}\n" for seconds in (1, 2.5, 7)],
        f"{RULES}Visit-time: 1220-1230\n",
    ]
)
which = st.integers(0, 20)
robotstxt_answers = st.sampled_from(
    [
        *[{"body": RULES}] * 3,
        {"status": 404},
        *[
            {"body": f"{RULES}Crawl-delay: {seconds}\n"}
            for seconds in (1, 2.5, 7, 1000)
        ],
        *[
            {"body": f"{RULES}Visit-time: {window}\n"}
            for window in ("1200-1210", "1220-1230", "1500-1600")
        ],
        {"status": 503},
        *[{"status": 503, "Retry_After": seconds} for seconds in ("5", "100")],
        *[{"status": 302, "Location": f"{host}/elsewhere.txt"} for host in HOSTS],
        {"error": RefusedError()},
        {"error": OSError("broken")},
    ]
)


class Errors(logging.Handler):
    """Collects the errors that this crawl logs. Those of an earlier example, which may
    still come, are ignored.
    """

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(logging.ERROR)
        self.setFormatter(logging.Formatter())
        spider = crawl.crawler.spider
        self.addFilter(lambda record: getattr(record, "spider", spider) is spider)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = ExitStack()
        self.set_back = 0.0
        self.number = count()

    @initialize(
        at_once=st.sampled_from([1, 2, 8]),
        in_slot=st.sampled_from([1, 2]),
        delay=st.sampled_from([0, 0, 0.5]),
        wait=st.sampled_from([0, 40, 600]),
        starts_apart=st.booleans(),
        is_shared=st.booleans(),
        closes=st.sampled_from([False, False, False, True]),
        known=st.lists(beginnings, min_size=len(HOSTS), max_size=len(HOSTS)),
    )
    def begin(
        self,
        *,
        at_once: int,
        in_slot: int,
        delay: float,
        wait: float,
        starts_apart: bool,
        is_shared: bool,
        closes: bool,
        known: list[str | None],
    ) -> None:
        self.patches.enter_context(no_event_loop())
        # With short pauses, hours of fake time would take many steps.
        for name in ("hostaccess._CHECK_CLOSING_EVERY", "refusals._PAUSE"):
            looks = f"scrapy_rep.frontier.{name}"
            self.patches.enter_context(mock.patch(looks, LOOKS_EVERY))
        self.patches.callback(Crawl.abandon_all)
        self.crawl = Crawl(
            is_shared=is_shared,
            starts_apart=starts_apart,
            CONCURRENT_REQUESTS=at_once,
            CONCURRENT_REQUESTS_PER_DOMAIN=in_slot,
            DOWNLOAD_DELAY=delay,
            DOWNLOAD_SLOTS={"wide": {"concurrency": 3, "delay": 0}},
            REP_MAX_AGE=MAX_AGE,
            REP_UNREACHABLE_WAIT=wait,
        )
        self.model = Model(self.crawl, starts_apart=starts_apart, wait=wait)
        self.closes = closes
        self.errors = Errors(self.crawl)
        logger.addHandler(self.errors)
        self.patches.callback(logger.removeHandler, self.errors)

        for host, text in zip(HOSTS, known, strict=True):
            if text is not None:
                # It is refused, so that only robots.txt is fetched.
                self.crawl.outside(f"{host}{PRIVATE}")
                self.crawl.pass_time(delay)
                self.crawl.answer(f"{host}{ROBOTS_TXT}", text)

    # The spider.

    @rule(
        host=hosts,
        priority=st.sampled_from([0, 0, 0, 1, -1]),
        queue=st.integers(0, 1),
        path=st.sampled_from(["/page/"] * 6 + [PRIVATE, ROBOTS_TXT]),
        fate=st.sampled_from(
            [None] * 12
            + ["dropped before", "answered before", "dropped after", "lingers"]
        ),
        slot=st.sampled_from([None] * 5 + ["wide", "b.example"]),
        redirected_from=st.sampled_from([None] * 7 + list(HOSTS[2:])),
        is_exempt=st.sampled_from([False] * 6 + [True]),
        is_start=st.booleans(),
        times=st.integers(1, 4),
    )
    def push(
        self,
        *,
        host: str,
        priority: int,
        queue: int,
        path: str,
        fate: str | None,
        slot: str | None,
        redirected_from: str | None,
        is_exempt: bool,
        is_start: bool,
        times: int,
    ) -> None:
        meta: dict[str, Any] = {"is_start_request": is_start, "fate": fate}
        if slot is not None:
            meta["download_slot"] = slot
        if redirected_from is not None:
            meta["redirect_urls"] = [f"{redirected_from}/moved"]
            meta.setdefault("download_slot", name_of(redirected_from))
        if is_exempt:
            meta["dont_obey_robotstxt"] = True
        for _ in range(times):
            number = "" if path == ROBOTS_TXT else next(self.number)
            request = page(f"{host}{path}{number}", priority, **meta)
            self.crawl.push(request, queue)
            self.model.pushed(request, queue)

    @rule(host=hosts, path=st.sampled_from(["/page/", PRIVATE]))
    def download_from_outside(self, host: str, path: str) -> None:
        self.crawl.outside(f"{host}{path}{next(self.number)}")

    @precondition(lambda self: self.waiting_outside)
    @rule(number=which)
    def cancel_what_is_outside(self, number: int) -> None:
        self.waiting_outside[number % len(self.waiting_outside)].cancel()

    # The engine.

    @rule()
    def run(self) -> None:
        self.crawl.run()

    @rule(queue=st.integers(0, 1))
    def peek(self, queue: int) -> None:
        request = self.crawl.queues[queue].peek()
        assert request is None or self.model.queued[request].key.queue == queue

    @rule(is_full=st.booleans())
    def callbacks_cant_keep_up(self, is_full: bool) -> None:
        self.crawl.engine.scraper.is_full = is_full

    # The servers.

    @precondition(lambda self: self.pages)
    @rule(number=which, is_broken=st.booleans(), runs=st.booleans())
    def answer_a_page(self, number: int, is_broken: bool, runs: bool) -> None:
        request = self.pages[number % len(self.pages)]
        if is_broken:
            self.crawl.fail(request, OSError("broken"), runs=runs)
        else:
            self.crawl.answer(request, runs=runs)

    @rule()
    def answer_all_pages(self) -> None:
        for request in self.pages:
            self.crawl.answer(request)

    @precondition(lambda self: self.files)
    @rule(number=which, answer=robotstxt_answers)
    def answer_robotstxt(self, number: int, answer: dict[str, Any]) -> None:
        request = self.files[number % len(self.files)]
        if "error" in answer:
            self.crawl.fail(request, answer["error"])
        else:
            self.crawl.answer(request, **answer)

    @precondition(lambda self: self.crawl.downloader.lingering)
    @rule(number=which)
    def let_linger_no_more(self, number: int) -> None:
        waiting = list(self.crawl.downloader.lingering.values())
        waiting[number % len(waiting)].callback(None)

    # Other workers.

    @precondition(lambda self: self.crawl.store_client.is_shared)
    @rule(host=hosts, seconds=st.sampled_from([0.5, 3, 20]))
    def another_takes_the_lease(self, host: str, seconds: float) -> None:
        self.crawl.store_client.lease(name_of(host), seconds)

    @precondition(lambda self: self.crawl.store_client.is_shared)
    @rule(is_slow=st.booleans())
    def the_store_is_slow(self, is_slow: bool) -> None:
        self.crawl.store_client.is_slow = is_slow

    @precondition(lambda self: self.crawl.store_client.waiting)
    @rule()
    def the_store_answers(self) -> None:
        self.crawl.store_client.answer()

    # Time.

    @rule(
        seconds=st.sampled_from([0.01, 0.6, 1, 2.6, 8, 31, 70, 610]), runs=st.booleans()
    )
    def pass_time(self, seconds: float, runs: bool) -> None:
        self.crawl.clock.advance(seconds)
        if runs:
            self.crawl.run()

    @precondition(lambda self: self.crawl.clock.next_timer is not None)
    @rule()
    def pass_time_to_the_next_timer(self) -> None:
        self.crawl.pass_time(self.crawl.clock.next_timer)

    @rule(times=st.integers(2, 8))
    def go_on(self, times: int) -> None:
        """Answer pages and let time pass, as most of a crawl does."""
        for _ in range(times):
            self.answer_all_pages()
            self.crawl.pass_time(self.crawl.clock.next_timer or 0)

    @rule()
    def pass_so_much_time_that_all_runs_out(self) -> None:
        self.crawl.pass_time(MAX_AGE + 1)
        self.crawl.downloader.drop_idle_slots()

    @rule(seconds=st.sampled_from([200, 4000]))
    def the_clock_is_set_back(self, seconds: float) -> None:
        self.crawl.clock.set_back(seconds)
        self.set_back += seconds

    # Invariants.

    @invariant()
    def nothing_is_lost_doubled_or_early(self) -> None:
        self.model.check()
        self.model.check_ended(is_closing=False)
        assert not self.errors.texts, self.errors.texts[0]

    def teardown(self) -> None:
        with self.patches:
            # The example may have ended before ``begin``.
            if not hasattr(self, "errors"):
                return
            if self.closes:
                self.close()
            else:
                self.finish()
            assert not self.errors.texts, self.errors.texts[0]

    def finish(self) -> None:
        """Check that all requests are sent within a bounded time if all servers answer, and
        that the engine is woken whenever a request is ready.
        """
        crawl, model = self.crawl, self.model
        crawl.store_client.is_slow = False
        crawl.engine.scraper.is_full = False
        # The leases of other workers, and those from before the clock was set back, expire.
        crawl.pass_time(MAX_AHEAD + 10)
        requests = len(model.queued) + len(crawl.downloader.active)
        began = crawl.clock.monotonic()
        # Visit-time begins later by the time that the clock was set back.
        longest = 7200 + self.set_back + 10 * requests
        for _ in range(int(longest / LOOKS_EVERY) + 50 * requests):
            self.answer_all()
            model.check()
            if not model.queued and not crawl.downloader.active:
                break
            wait = crawl.clock.next_timer
            assert wait is not None, "Nothing will ever happen again"
            crawl.pass_time(wait)
        model.check()
        assert not model.queued, f"{model.queued} are never popped"
        assert not crawl.downloader.active, "Some wait for ever in the downloader"
        took = crawl.clock.monotonic() - began
        assert took < longest, f"It took {took} s"
        self.check_that_nothing_is_left()

    def answer_all(self) -> None:
        crawl = self.crawl
        while True:
            crawl.run()
            if crawl.store_client.waiting:
                crawl.store_client.answer()
            elif crawl.downloader.lingering:
                next(iter(crawl.downloader.lingering.values())).callback(None)
            elif crawl.downloader.network:
                crawl.answer(next(iter(crawl.downloader.network)), RULES)
            else:
                return

    def close(self) -> None:
        """Check that a spider that closes waits only for requests on the network."""
        crawl = self.crawl
        crawl.store_client.is_slow = False
        while crawl.store_client.waiting:
            crawl.store_client.answer()
        crawl.close(LOOKS_EVERY)
        for request in list(crawl.downloader.lingering.values()):
            request.callback(None)
        for _ in range(50):
            for request in list(crawl.downloader.network):
                if request in crawl.downloader.network:
                    crawl.downloader.end(request, OSError("closing"))
            if not crawl.downloader.active:
                break
            # Some requests wait in a slot for its delay.
            crawl.clock.advance(0.5)
        assert not self.model.failures, self.model.failures[0]
        assert not crawl.downloader.active, "Some wait while the spider closes"
        crawl.closed()
        timers = crawl.clock.timers
        assert not timers, f"{timers} timers are left"

    def check_that_nothing_is_left(self) -> None:
        """Check that the state of hosts and slots is freed with their last request."""
        frontier = self.crawl.frontier
        self.crawl.queues[0].pop()
        assert not frontier._slots
        assert not frontier._under_way
        assert not frontier._crowded
        for queue in self.crawl.queues:
            assert not queue._queues
            assert not len(queue.ready)

    @property
    def waiting_outside(self) -> list[Deferred[None]]:
        """The downloads from outside that still wait in this package's middleware."""
        slots = self.crawl.downloader.slots.values()
        others = set().union(self.crawl.ended, *(slot.active for slot in slots))
        return [
            started
            for request, started in self.crawl.started.items()
            if request not in others
        ]

    @property
    def pages(self) -> list[Request]:
        return [one for one in self.crawl.downloader.network if not is_robotstxt(one)]

    @property
    def files(self) -> list[Request]:
        return [one for one in self.crawl.downloader.network if is_robotstxt(one)]


def name_of(host: str) -> str:
    return urlsplit(host).hostname or ""


def test_any_crawl() -> None:
    """Whatever happens in a crawl, no request is lost, sent twice or too early, none
    starves, and priorities hold.
    """
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            stateful_step_count=200 if effort.is_long else 40,
            suppress_health_check=list(HealthCheck),
        ),
    )
