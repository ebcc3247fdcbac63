"""The caches of robots.txt and tdmrep.json, with a fake fetcher."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.base.clock import Clock
from scrapy_rep.base.settings import RepSettings
from scrapy_rep.crawl.fetching import store as stores
from scrapy_rep.crawl.fetching.cache import RobotsTxtCache
from scrapy_rep.crawl.fetching.memory import MAX_SIZE, dumps
from scrapy_rep.crawl.reporting import DecisionReporter
from scrapy_rep.exceptions import SpiderClosing
from scrapy_rep.protocol.access.entries import CacheEntry, State
from scrapy_rep.protocol.access.results import AccessResult, Failure
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.signals import robotstxt_known
from tests.fakes import coroutine_test, fake_crawler
from tests.fetching.places import SharedMemory

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.crawl.fetching.fetcher import Check
    from scrapy_rep.crawl.fetching.store import Store

pytestmark = pytest.mark.newest

ORIGIN = Origin("http", "example.com", 80)
ROBOTS_URL = "http://example.com/robots.txt"
TDMREP_URL = "http://example.com/.well-known/tdmrep.json"
PAGE = "http://example.com/mining/a"
ROBOTS = b"User-agent: *\nDisallow: /private\n"
TDMREP = b'[{"location": "/mining/", "tdm-reservation": 1}]'
TEMPLATES = [Request(PAGE)]
HOUR, DAY = 3600.0, 24 * 3600.0


def result(url: str, body: bytes = b"", status: int | None = 200) -> AccessResult:
    error = "" if status else "no answer"
    return AccessResult(url=url, status=status, error=error, body=body)


class Fetcher:
    """A fetcher with a result, an exception or a Deferred for each URL."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            ROBOTS_URL: result(ROBOTS_URL, ROBOTS),
            TDMREP_URL: result(TDMREP_URL, TDMREP),
        }
        self.asked: list[str] = []

    async def fetch(
        self, url: str, templates: list[Request], check: Check | None = None
    ) -> AccessResult:
        assert (check is None) == (url == ROBOTS_URL)
        self.asked.append(url)
        answer = self.answers[url]
        if isinstance(answer, Deferred):
            answer = await maybe_deferred_to_future(answer)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, AccessResult)
        return answer


class Cached(Clock):
    """A cache with its fetcher and its clock, and a store that others may use."""

    def __init__(self, store: Store | None = None, **settings: Any) -> None:
        self.set_forward = self.passed = 0.0
        """The seconds by which the clock was set forward, and the seconds that have passed."""
        self.crawler: Crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
        self.fetcher: Any = Fetcher()
        self.reported: list[bool] = []
        """Whether each robots.txt that was reported was fetched, not read from the store."""
        self.crawler.signals.connect(self._note, robotstxt_known)
        with patch.object(stores, "open_store", return_value=(store, 10_000_000)):
            self.cache = RobotsTxtCache(
                self.crawler,
                self.fetcher,
                RepSettings.of(self.crawler),
                DecisionReporter.of(self.crawler),
                self,
            )

    # The clock of the cache.

    def time(self) -> float:
        return time.time() + self.set_forward + self.passed

    def monotonic(self) -> float:
        return self.passed

    def _note(self, origin: Origin, request: Request, is_new: bool) -> None:
        assert (origin, request.url) == (ORIGIN, PAGE)
        self.reported.append(is_new)

    def keep(self, entry: CacheEntry) -> None:
        """Put *entry* into the memory of this process."""
        self.cache._memory.put(self.cache._read(ORIGIN, entry, 0.0))

    async def learn(self, stale: CacheEntry | None = None) -> Any:
        return await self.cache.learn(ORIGIN, TEMPLATES, stale=stale)


def entry(url: str, body: bytes, age: float = 0, **fields: Any) -> CacheEntry:
    fetched = time.time() - age
    return CacheEntry(
        result=result(url, body), fetched=fetched, expires=fetched + 60, **fields
    )


# robots.txt.


@coroutine_test
async def test_a_fresh_entry_in_memory_needs_no_fetch() -> None:
    """A fresh entry in memory needs no fetch."""
    cached = Cached()
    assert cached.cache.cached(ORIGIN) is None
    cached.keep(entry(ROBOTS_URL, ROBOTS))
    rules = cached.cache.cached(ORIGIN)
    assert not rules.robots.is_allowed("http://example.com/private", ("mybot",))
    assert (await cached.learn()).entry == rules.entry
    assert cached.fetcher.asked == cached.reported == []


@coroutine_test
async def test_an_entry_that_is_newer_than_the_wrong_one_is_not_fetched_again() -> None:
    """An entry is fetched again if the caller has found it wrong, and not if it is newer."""
    cached = Cached()
    before = entry(ROBOTS_URL, ROBOTS, age=30)
    cached.keep(before)
    rules, again = await cached.learn(before), await cached.learn(before)
    assert again.entry == rules.entry
    assert cached.fetcher.asked == [ROBOTS_URL]
    assert cached.reported == [True]


@coroutine_test
async def test_what_is_in_memory_does_not_need_the_store() -> None:
    """What a crawl has in memory does not need the store: a fresh file is used, and the last good
    copy of an unreachable one is kept."""
    store = SharedMemory()
    cached = Cached(store)
    await cached.learn()
    store.kept.clear()
    await cached.learn()
    assert cached.fetcher.asked == [ROBOTS_URL]
    cached.passed = 2 * DAY
    cached.fetcher.answers[ROBOTS_URL] = DOWN
    rules = await cached.learn()
    assert rules.entry.copy is not None
    assert rules.entry.copy.body == ROBOTS
    assert cached.fetcher.asked == [ROBOTS_URL] * 2


@coroutine_test
async def test_an_entry_that_another_worker_has_stored_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An entry that another worker has stored is used in place of one that has expired, and not
    reported as fetched.
    """
    caplog.set_level("DEBUG")
    store = SharedMemory()
    stored = entry(ROBOTS_URL, b"User-agent: *\nDisallow: /other\n")
    store.put(str(ORIGIN), dumps(stored), 0)
    cached = Cached(store)
    cached.keep(entry(ROBOTS_URL, ROBOTS, age=120))
    rules = await cached.learn()
    assert rules.robots.is_allowed("http://example.com/private", ("mybot",))
    assert not rules.robots.is_allowed("http://example.com/other", ("mybot",))
    assert cached.reported == [False]
    assert f"{ROBOTS_URL} is taken from the store (status 200)" in caplog.messages
    assert cached.fetcher.asked == []


@coroutine_test
async def test_a_spider_that_closes_learns_nothing() -> None:
    """SpiderClosing is raised, and nothing is cached."""
    cached = Cached()
    cached.fetcher.answers[ROBOTS_URL] = SpiderClosing("closing")
    with pytest.raises(SpiderClosing):
        await cached.learn()
    assert cached.cache.cached(ORIGIN) is None


# Outages.


DOWN = AccessResult(url=ROBOTS_URL, status=503)


def outage(entry: CacheEntry) -> float:
    """The seconds for which robots.txt has been unreachable."""
    assert entry.unreachable_since is not None
    return round(entry.fetched - entry.unreachable_since)


@coroutine_test
async def test_an_outage_lasts_as_long_as_a_crawl_has_seen_it() -> None:
    """The age of an outage is what the store says, and grows by the time that passes in this
    process. Neither the clock nor the time between two crawls adds to it.
    """
    cached = Cached()
    cached.fetcher.answers[ROBOTS_URL] = DOWN
    stored = entry(ROBOTS_URL, b"", age=20 * DAY)._replace(result=DOWN, attempts=9)
    stored = stored._replace(unreachable_since=stored.fetched - 29 * DAY)
    cached.keep(stored)
    assert outage((await cached.learn()).entry) == 29 * DAY
    cached.passed = 3 * HOUR
    assert outage((await cached.learn()).entry) == 29 * DAY + 3 * HOUR
    cached.set_forward = 40 * DAY
    assert outage((await cached.learn()).entry) == 29 * DAY + 3 * HOUR
    cached.set_forward = -40 * DAY
    cached.passed = 5 * HOUR
    rules = await cached.learn()
    assert outage(rules.entry) == 29 * DAY + 5 * HOUR
    assert rules.state is State.UNREACHABLE
    cached.passed = DAY
    rules = await cached.learn()
    assert outage(rules.entry) == 30 * DAY
    assert rules.robots.is_allowed("http://example.com/private", ("mybot",))


@coroutine_test
async def test_a_wrong_clock_of_a_worker_ends_no_outage() -> None:
    """A worker whose clock is wrong does not end an outage for itself, nor for another."""
    store = SharedMemory()
    workers = Cached(store), Cached(store)
    workers[1].set_forward = 40 * DAY
    for hours in range(1, 9, 3):
        for worker in workers:
            worker.fetcher.answers[ROBOTS_URL] = DOWN
            worker.passed = hours * HOUR
            rules = await worker.learn()
            assert rules.state is State.UNREACHABLE
            assert outage(rules.entry) <= hours * HOUR


@pytest.mark.parametrize(
    ("hours", "state", "holds"), [(1, State.UNREACHABLE, 1), (13, State.STALE, 300)]
)
@coroutine_test
async def test_a_short_retry_after_decides_only_while_requests_wait(
    hours: int, state: State, holds: int
) -> None:
    """A short Retry-After decides while requests wait for robots.txt, but not while the last good
    copy is used: a request whose turn comes later would need another fetch, each time.
    """
    cached = Cached(REP_DIALECT="google")
    soon = DOWN._replace(headers=(("retry-after", "1"),))
    before = entry(ROBOTS_URL, b"", age=120)._replace(
        result=soon, copy=result(ROBOTS_URL, ROBOTS)
    )
    since = before.fetched - hours * HOUR
    cached.keep(before._replace(unreachable_since=since))
    cached.fetcher.answers[ROBOTS_URL] = soon
    rules = await cached.learn()
    assert rules.state is state
    assert round(rules.entry.expires - rules.entry.fetched) == holds


# tdmrep.json.


def mining(store: Store | None = None) -> Cached:
    return Cached(store, REP_PURPOSES=["tdm"])


@coroutine_test
async def test_for_mining_an_origin_is_known_with_its_tdmrep_only() -> None:
    """With a purpose about mining, an origin is known with its tdmrep.json only, unless robots.txt
    forbids to fetch that. Both are one entry: robots.txt is not fetched again for it, and both
    expire together.
    """
    cached = mining()
    cached.keep(entry(ROBOTS_URL, ROBOTS))
    assert cached.cache.cached(ORIGIN) is None
    rules = await cached.learn()
    assert cached.fetcher.asked == [TDMREP_URL]
    assert cached.reported == []
    assert cached.cache.cached(ORIGIN) == rules
    assert bool(rules.tdmrep.usage(PAGE))
    cached.passed = 2 * DAY
    assert cached.cache.cached(ORIGIN) is None
    assert bool((await cached.learn()).tdmrep.usage(PAGE))
    assert cached.fetcher.asked == [TDMREP_URL, ROBOTS_URL, TDMREP_URL]

    closed = mining()
    closed.keep(entry(ROBOTS_URL, b"User-agent: *\nDisallow: /.well-known/\n"))
    rules = closed.cache.cached(ORIGIN)
    assert rules.tdmrep is None
    assert await closed.learn() == rules
    assert closed.fetcher.asked == []


@coroutine_test
async def test_a_store_that_crawls_without_purposes_use_too() -> None:
    """A crawl that needs tdmrep.json asks for that alone where the store has the robots.txt; one that
    does not need it takes what is there, and hands it on.
    """
    store = SharedMemory()
    plain = Cached(store)
    await plain.learn()
    await plain.cache._store._spider_closed()
    first, second, other = mining(store), mining(store), Cached(store)
    assert bool((await first.learn()).tdmrep.usage(PAGE))
    assert first.fetcher.asked == [TDMREP_URL]
    await first.cache._store._spider_closed()
    assert bool((await second.learn()).tdmrep.usage(PAGE))
    rules = await other.learn()
    assert rules.tdmrep is None
    assert rules.entry.tdmrep.body == TDMREP
    assert second.fetcher.asked == other.fetcher.asked == []


@coroutine_test
async def test_a_tdmrep_beside_an_unreachable_robotstxt_is_not_stored() -> None:
    """Where a robots.txt could not be reached for so long that its last good copy counts, its entry
    stays in the process, also once tdmrep.json has arrived.
    """
    store = SharedMemory()
    cached = Cached(store, REP_PURPOSES=["tdm"], REP_DIALECT="google")
    before = entry(ROBOTS_URL, ROBOTS, age=120)
    down = before._replace(result=NO_ANSWER["no answer"], copy=before.result)
    cached.keep(down._replace(unreachable_since=down.fetched - 13 * HOUR))
    cached.fetcher.answers[ROBOTS_URL] = NO_ANSWER["no answer"]
    rules = await cached.learn()
    assert rules.state is State.STALE
    assert bool(rules.tdmrep.usage(PAGE))
    await cached.cache._store._spider_closed()
    assert store.kept == {}


@coroutine_test
async def test_a_tdmrep_that_is_needed_twice_is_fetched_once() -> None:
    """All that wait for an origin share one fetch of its robots.txt, and one of its tdmrep.json."""
    cached = mining()
    results = await asyncio.gather(cached.learn(), cached.learn())
    assert results[0] == results[1]
    assert cached.fetcher.asked == [ROBOTS_URL, TDMREP_URL]


@coroutine_test
async def test_a_robotstxt_that_comes_during_the_fetch_of_tdmrep_counts() -> None:
    """A robots.txt that is fetched again while tdmrep.json is under way is the one that counts."""
    cached = mining()
    landing: Deferred[AccessResult] = Deferred()
    cached.fetcher.answers[TDMREP_URL] = landing
    learning = asyncio.ensure_future(cached.learn())
    for _ in range(100):
        await asyncio.sleep(0)
    assert cached.fetcher.asked[-1] == TDMREP_URL
    later = entry(ROBOTS_URL, b"")._replace(fetched=time.time() + 1)
    cached.keep(later)
    landing.callback(result(TDMREP_URL, TDMREP))
    rules = await asyncio.wait_for(learning, 10)
    assert rules.entry.fetched == later.fetched
    assert rules.robots.is_allowed("http://example.com/private", ("mybot",))
    assert rules.entry.tdmrep.body == TDMREP


NO_ANSWER = {
    "no answer": result(ROBOTS_URL, status=None),
    "dropped": result(ROBOTS_URL, status=None)._replace(failure=Failure.DROPPED),
    "of a proxy": result(ROBOTS_URL, status=407),
}


@pytest.mark.parametrize("failure", NO_ANSWER.values(), ids=NO_ANSWER)
@coroutine_test
async def test_only_what_a_server_said_is_stored(failure: AccessResult) -> None:
    """What is no answer of a server counts in this process only, where it is remembered although
    the store knows the last good copy: an outage grows, and the pauses with it.
    """
    store = SharedMemory()
    before = dumps(entry(ROBOTS_URL, ROBOTS, age=3600))
    store.put(str(ORIGIN), before, 0)
    cached = Cached(store)
    cached.fetcher.answers[ROBOTS_URL] = failure
    assert (await cached.learn()).entry.result == failure
    assert cached.cache.cached(ORIGIN).entry.copy.body == ROBOTS
    cached.passed = HOUR
    rules = await cached.learn()
    assert (rules.entry.attempts, outage(rules.entry)) == (2, HOUR)
    # It waits until everything is written.
    await cached.cache._store._spider_closed()
    assert store.kept[str(ORIGIN)] == before


@coroutine_test
async def test_an_entry_is_stored_when_all_of_it_is_known() -> None:
    """What is known is stored when all of it is, whatever is too long for a store."""
    is_written = threading.Event()

    class Slow(SharedMemory):
        def put(self, key: str, data: bytes, until: float) -> None:
            is_written.wait(60)
            super().put(key, data, until)

    store = Slow()
    cache = Cached(store).cache
    for body in (ROBOTS, bytes(MAX_SIZE)):
        rules = cache._read(ORIGIN, entry(ROBOTS_URL, body), 0.0)
        cache._put(rules, rules.entry.result)
        assert not cache.stored.called
    is_written.set()
    await maybe_deferred_to_future(cache.stored)
    assert set(store.kept) == {str(ORIGIN)}
    await cache._store._spider_closed()


@coroutine_test
async def test_a_robotstxt_that_is_needed_twice_is_fetched_once() -> None:
    """A robots.txt for the redirect of another file, and for pages, is fetched once."""
    cached = Cached()
    landing: Deferred[AccessResult] = Deferred()
    cached.fetcher.answers[ROBOTS_URL] = landing
    waiting = [
        deferred_from_coro(cached.cache.learn(ORIGIN, TEMPLATES, needs_tdmrep=needs))
        for needs in (False, None)
    ]
    for _ in range(100):
        await asyncio.sleep(0)
    landing.callback(result(ROBOTS_URL, ROBOTS))
    first, second = [await maybe_deferred_to_future(waiter) for waiter in waiting]
    assert first == second
    assert cached.reported == [True]
    assert cached.fetcher.asked == [ROBOTS_URL]


@coroutine_test
async def test_a_stale_robotstxt_is_not_shared() -> None:
    """If the fetch that others wait for is cancelled, they fetch the file themselves, and do
    not take what was known before.
    """
    cached = Cached()
    await cached.learn()
    cached.passed = 2 * DAY
    landing: Deferred[AccessResult] = Deferred()
    cached.fetcher.answers[ROBOTS_URL] = landing
    templates = [Request(PAGE)]
    first = asyncio.ensure_future(cached.cache.learn(ORIGIN, templates))
    second = asyncio.ensure_future(cached.cache.learn(ORIGIN, TEMPLATES))
    for _ in range(10):
        await asyncio.sleep(0)
    cached.fetcher.answers[ROBOTS_URL] = result(ROBOTS_URL, b"")
    templates.clear()
    first.cancel()
    rules = await asyncio.wait_for(second, 10)
    assert rules.entry.result.body == b""
    assert cached.reported == [True, True]


@coroutine_test
async def test_the_last_good_tdmrep_counts() -> None:
    """While the server is unreachable, the last good copy of tdmrep.json counts, and it is asked for
    again within an hour; without a copy, nothing is reserved.
    """
    cached = mining()
    await cached.learn()
    cached.passed = 2 * DAY
    cached.fetcher.answers[TDMREP_URL] = result(TDMREP_URL, status=None)
    rules = await cached.learn()
    assert bool(rules.tdmrep.usage(PAGE))
    assert rules.entry.expires - rules.entry.fetched <= HOUR + 1
    assert cached.crawler.stats.get_value("rep/tdmrep/unreachable") == 1

    without = mining()
    without.fetcher.answers[TDMREP_URL] = result(TDMREP_URL, status=None)
    assert (await without.learn()).tdmrep is None
