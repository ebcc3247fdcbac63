"""Tests of :class:`RobotsTxtCache`, which caches robots.txt and tdmrep.json files. The fetcher is a fake."""

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
    """Return the result of a fetch of *url*. With *status* None, no server answered."""
    error = "" if status else "no answer"
    return AccessResult(url=url, status=status, error=error, body=body)


class FakeFetcher:
    """A fetcher that makes no requests: the test sets the outcome for each URL."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Any] = {
            ROBOTS_URL: result(ROBOTS_URL, ROBOTS),
            TDMREP_URL: result(TDMREP_URL, TDMREP),
        }
        """For each URL an AccessResult, an exception, or a Deferred that fires with one of these."""

        self.urls: list[str] = []
        """The URLs of all fetches, in order."""

    async def fetch(
        self, url: str, templates: list[Request], check: Check | None = None
    ) -> AccessResult:
        assert (check is None) == (url == ROBOTS_URL)
        self.urls.append(url)
        outcome = self.outcomes[url]
        if isinstance(outcome, Deferred):
            outcome = await maybe_deferred_to_future(outcome)
        if isinstance(outcome, BaseException):
            raise outcome
        assert isinstance(outcome, AccessResult)
        return outcome


class Crawl(Clock):
    """A crawl with a cache and a fake fetcher. This object is also the clock of the cache. Several crawls can share
    one *store*.
    """

    def __init__(self, store: Store | None = None, **settings: Any) -> None:
        self.elapsed = 0.0
        """The seconds that have passed since the crawl began."""

        self.clock_offset = 0.0
        """The seconds by which the wall clock was set forward; negative if it was set back."""

        self.crawler: Crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
        self.fetcher: Any = FakeFetcher()
        self.reported: list[bool] = []
        """For each robots.txt that was reported: True if it was fetched, False if it was read from the store."""

        self.crawler.signals.connect(self._on_robotstxt_known, robotstxt_known)
        with patch.object(stores, "open_store", return_value=(store, 10_000_000)):
            self.cache = RobotsTxtCache(
                self.crawler,
                self.fetcher,
                RepSettings.of(self.crawler),
                DecisionReporter.of(self.crawler),
                self,
            )

    # The methods of the clock.

    def time(self) -> float:
        return time.time() + self.clock_offset + self.elapsed

    def monotonic(self) -> float:
        return self.elapsed

    def _on_robotstxt_known(
        self, origin: Origin, request: Request, is_new: bool
    ) -> None:
        assert (origin, request.url) == (ORIGIN, PAGE)
        self.reported.append(is_new)

    def put_in_memory(self, entry: CacheEntry) -> None:
        """Put *entry* into the memory of the cache, and not into the store."""
        self.cache._memory.put(self.cache._read(ORIGIN, entry, 0.0))

    async def learn(self, stale: CacheEntry | None = None) -> Any:
        """Return the rules of ORIGIN. They must be newer than the entry *stale*, if it is given."""
        return await self.cache.learn(ORIGIN, TEMPLATES, stale=stale)


def entry(url: str, body: bytes, age: float = 0, **fields: Any) -> CacheEntry:
    """Return the entry of a file that was fetched *age* seconds ago, and was fresh for a minute."""
    fetched = time.time() - age
    return CacheEntry(
        result=result(url, body), fetched=fetched, expires=fetched + 60, **fields
    )


# robots.txt.


@coroutine_test
async def test_a_fresh_entry_in_memory_needs_no_fetch() -> None:
    crawl = Crawl()
    assert crawl.cache.cached(ORIGIN) is None
    crawl.put_in_memory(entry(ROBOTS_URL, ROBOTS))
    rules = crawl.cache.cached(ORIGIN)
    assert not rules.robots.is_allowed("http://example.com/private", ("mybot",))
    assert (await crawl.learn()).entry == rules.entry
    assert crawl.fetcher.urls == crawl.reported == []


@coroutine_test
async def test_a_stale_file_is_not_fetched_again_if_a_newer_entry_is_in_memory() -> (
    None
):
    """If a call passes an entry as *stale*, the file is fetched again, unless the entry in memory is newer."""
    crawl = Crawl()
    stale = entry(ROBOTS_URL, ROBOTS, age=30)
    crawl.put_in_memory(stale)
    first, second = await crawl.learn(stale), await crawl.learn(stale)
    assert second.entry == first.entry
    assert crawl.fetcher.urls == [ROBOTS_URL]
    assert crawl.reported == [True]


@coroutine_test
async def test_entries_in_memory_do_not_need_the_store() -> None:
    """Entries in memory are used although they are missing in the store. A fresh file is not fetched again. The last
    good copy of a file is kept when its server becomes unreachable.
    """
    store = SharedMemory()
    crawl = Crawl(store)
    await crawl.learn()
    store.stored.clear()
    await crawl.learn()
    assert crawl.fetcher.urls == [ROBOTS_URL]
    crawl.elapsed = 2 * DAY
    crawl.fetcher.outcomes[ROBOTS_URL] = DOWN
    rules = await crawl.learn()
    assert rules.entry.copy is not None
    assert rules.entry.copy.body == ROBOTS
    assert crawl.fetcher.urls == [ROBOTS_URL] * 2


@coroutine_test
async def test_an_entry_that_another_worker_has_stored_is_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A fresh entry in the store replaces an expired entry in memory, and is not reported as fetched."""
    caplog.set_level("DEBUG")
    store = SharedMemory()
    stored = entry(ROBOTS_URL, b"User-agent: *\nDisallow: /other\n")
    store.put(str(ORIGIN), dumps(stored), 0)
    crawl = Crawl(store)
    crawl.put_in_memory(entry(ROBOTS_URL, ROBOTS, age=120))
    rules = await crawl.learn()
    assert rules.robots.is_allowed("http://example.com/private", ("mybot",))
    assert not rules.robots.is_allowed("http://example.com/other", ("mybot",))
    assert crawl.reported == [False]
    assert f"{ROBOTS_URL} is taken from the store (status 200)" in caplog.messages
    assert crawl.fetcher.urls == []


@coroutine_test
async def test_spider_closing_is_raised_and_nothing_is_cached() -> None:
    crawl = Crawl()
    crawl.fetcher.outcomes[ROBOTS_URL] = SpiderClosing("closing")
    with pytest.raises(SpiderClosing):
        await crawl.learn()
    assert crawl.cache.cached(ORIGIN) is None


# Outages.


DOWN = AccessResult(url=ROBOTS_URL, status=503)


def outage_seconds(entry: CacheEntry) -> float:
    """Return the seconds for which robots.txt had been unreachable at its last fetch."""
    assert entry.unreachable_since is not None
    return round(entry.fetched - entry.unreachable_since)


@coroutine_test
async def test_an_outage_grows_only_by_the_time_that_passes_during_a_crawl() -> None:
    """The length of an outage is taken from the entry, and grows by the time that passes in this process. A change
    of the wall clock does not change it. The time between two crawls is not added.
    """
    crawl = Crawl()
    crawl.fetcher.outcomes[ROBOTS_URL] = DOWN
    stored = entry(ROBOTS_URL, b"", age=20 * DAY)._replace(result=DOWN, attempts=9)
    stored = stored._replace(unreachable_since=stored.fetched - 29 * DAY)
    crawl.put_in_memory(stored)
    assert outage_seconds((await crawl.learn()).entry) == 29 * DAY
    crawl.elapsed = 3 * HOUR
    assert outage_seconds((await crawl.learn()).entry) == 29 * DAY + 3 * HOUR
    crawl.clock_offset = 40 * DAY
    assert outage_seconds((await crawl.learn()).entry) == 29 * DAY + 3 * HOUR
    crawl.clock_offset = -40 * DAY
    crawl.elapsed = 5 * HOUR
    rules = await crawl.learn()
    assert outage_seconds(rules.entry) == 29 * DAY + 5 * HOUR
    assert rules.state is State.UNREACHABLE
    crawl.elapsed = DAY
    rules = await crawl.learn()
    assert outage_seconds(rules.entry) == 30 * DAY
    assert rules.robots.is_allowed("http://example.com/private", ("mybot",))


@coroutine_test
async def test_a_worker_with_a_wrong_clock_does_not_end_an_outage() -> None:
    """One of two workers has a clock that is 40 days fast. The outage ends neither for this worker, nor for the other
    worker, which uses the same store.
    """
    store = SharedMemory()
    workers = Crawl(store), Crawl(store)
    workers[1].clock_offset = 40 * DAY
    for hours in range(1, 9, 3):
        for worker in workers:
            worker.fetcher.outcomes[ROBOTS_URL] = DOWN
            worker.elapsed = hours * HOUR
            rules = await worker.learn()
            assert rules.state is State.UNREACHABLE
            assert outage_seconds(rules.entry) <= hours * HOUR


@pytest.mark.parametrize(
    ("hours", "state", "fresh_seconds"),
    [(1, State.UNREACHABLE, 1), (13, State.STALE, 300)],
)
@coroutine_test
async def test_a_short_retry_after_is_used_only_while_requests_wait(
    hours: int, state: State, fresh_seconds: int
) -> None:
    """While requests wait for robots.txt, a short Retry-After decides when the file is fetched again. While the last
    good copy is used, a short Retry-After has no effect: otherwise each later request would need another fetch.
    """
    crawl = Crawl(REP_DIALECT="google")
    retry_soon = DOWN._replace(headers=(("retry-after", "1"),))
    stale = entry(ROBOTS_URL, b"", age=120)._replace(
        result=retry_soon, copy=result(ROBOTS_URL, ROBOTS)
    )
    outage_start = stale.fetched - hours * HOUR
    crawl.put_in_memory(stale._replace(unreachable_since=outage_start))
    crawl.fetcher.outcomes[ROBOTS_URL] = retry_soon
    rules = await crawl.learn()
    assert rules.state is state
    assert round(rules.entry.expires - rules.entry.fetched) == fresh_seconds


# tdmrep.json.


def mining_crawl(store: Store | None = None) -> Crawl:
    """Return a crawl that needs tdmrep.json files, since one of its purposes is text and data mining."""
    return Crawl(store, REP_PURPOSES=["tdm"])


@coroutine_test
async def test_a_mining_crawl_needs_the_tdmrep_unless_robotstxt_forbids_it() -> None:
    """A crawl for text and data mining needs the tdmrep.json of an origin, unless robots.txt forbids this file. Both
    files are in one entry: robots.txt is not fetched again when tdmrep.json is added, and both expire together.
    """
    crawl = mining_crawl()
    crawl.put_in_memory(entry(ROBOTS_URL, ROBOTS))
    assert crawl.cache.cached(ORIGIN) is None
    rules = await crawl.learn()
    assert crawl.fetcher.urls == [TDMREP_URL]
    assert crawl.reported == []
    assert crawl.cache.cached(ORIGIN) == rules
    assert bool(rules.tdmrep.usage(PAGE))
    crawl.elapsed = 2 * DAY
    assert crawl.cache.cached(ORIGIN) is None
    assert bool((await crawl.learn()).tdmrep.usage(PAGE))
    assert crawl.fetcher.urls == [TDMREP_URL, ROBOTS_URL, TDMREP_URL]

    forbidden = mining_crawl()
    forbidden.put_in_memory(
        entry(ROBOTS_URL, b"User-agent: *\nDisallow: /.well-known/\n")
    )
    rules = forbidden.cache.cached(ORIGIN)
    assert rules.tdmrep is None
    assert await forbidden.learn() == rules
    assert forbidden.fetcher.urls == []


@coroutine_test
async def test_crawls_with_and_without_purposes_share_a_store() -> None:
    """If the store has only the robots.txt, a crawl that needs tdmrep.json fetches tdmrep.json alone. A crawl without
    purposes does not use the stored tdmrep.json, but keeps it in the entry.
    """
    store = SharedMemory()
    first = Crawl(store)
    await first.learn()
    await first.cache._store._spider_closed()
    first_mining, second_mining, last = (
        mining_crawl(store),
        mining_crawl(store),
        Crawl(store),
    )
    assert bool((await first_mining.learn()).tdmrep.usage(PAGE))
    assert first_mining.fetcher.urls == [TDMREP_URL]
    await first_mining.cache._store._spider_closed()
    assert bool((await second_mining.learn()).tdmrep.usage(PAGE))
    rules = await last.learn()
    assert rules.tdmrep is None
    assert rules.entry.tdmrep.body == TDMREP
    assert second_mining.fetcher.urls == last.fetcher.urls == []


@coroutine_test
async def test_a_tdmrep_beside_an_unreachable_robotstxt_is_not_stored() -> None:
    """If the server does not answer the request for robots.txt, the entry is kept in memory, but is not written to the
    store. A tdmrep.json that is fetched afterwards is not written, either.
    """
    # In Google's dialect, the last good copy of robots.txt is used after 12 hours of outage. The copy allows the fetch
    # of tdmrep.json.
    store = SharedMemory()
    crawl = Crawl(store, REP_PURPOSES=["tdm"], REP_DIALECT="google")
    last_good = entry(ROBOTS_URL, ROBOTS, age=120)
    down = last_good._replace(result=UNANSWERED["no answer"], copy=last_good.result)
    crawl.put_in_memory(down._replace(unreachable_since=down.fetched - 13 * HOUR))
    crawl.fetcher.outcomes[ROBOTS_URL] = UNANSWERED["no answer"]
    rules = await crawl.learn()
    assert rules.state is State.STALE
    assert bool(rules.tdmrep.usage(PAGE))
    await crawl.cache._store._spider_closed()
    assert store.stored == {}


@coroutine_test
async def test_concurrent_calls_share_the_fetches_of_robotstxt_and_tdmrep() -> None:
    crawl = mining_crawl()
    results = await asyncio.gather(crawl.learn(), crawl.learn())
    assert results[0] == results[1]
    assert crawl.fetcher.urls == [ROBOTS_URL, TDMREP_URL]


@coroutine_test
async def test_a_robotstxt_that_is_renewed_during_the_fetch_of_tdmrep_is_used() -> None:
    """The rules of robots.txt are read after the fetch of tdmrep.json, not before."""
    crawl = mining_crawl()
    pending: Deferred[AccessResult] = Deferred()
    crawl.fetcher.outcomes[TDMREP_URL] = pending
    learning = asyncio.ensure_future(crawl.learn())
    for _ in range(100):
        await asyncio.sleep(0)
    assert crawl.fetcher.urls[-1] == TDMREP_URL
    newer = entry(ROBOTS_URL, b"")._replace(fetched=time.time() + 1)
    crawl.put_in_memory(newer)
    pending.callback(result(TDMREP_URL, TDMREP))
    rules = await asyncio.wait_for(learning, 10)
    assert rules.entry.fetched == newer.fetched
    assert rules.robots.is_allowed("http://example.com/private", ("mybot",))
    assert rules.entry.tdmrep.body == TDMREP


UNANSWERED = {
    "no answer": result(ROBOTS_URL, status=None),
    "dropped": result(ROBOTS_URL, status=None)._replace(failure=Failure.DROPPED),
    "refused by a proxy": result(ROBOTS_URL, status=407),
}
"""Results of fetches that the server of the origin did not answer."""


@pytest.mark.parametrize("failure", UNANSWERED.values(), ids=UNANSWERED)
@coroutine_test
async def test_only_answers_of_the_server_are_stored(failure: AccessResult) -> None:
    """If the server does not answer, the result is kept in memory, but is not written to the store, which keeps the
    last good copy. The next attempt adds to the outage and to the number of attempts in memory.
    """
    store = SharedMemory()
    last_good = dumps(entry(ROBOTS_URL, ROBOTS, age=3600))
    store.put(str(ORIGIN), last_good, 0)
    crawl = Crawl(store)
    crawl.fetcher.outcomes[ROBOTS_URL] = failure
    assert (await crawl.learn()).entry.result == failure
    assert crawl.cache.cached(ORIGIN).entry.copy.body == ROBOTS
    crawl.elapsed = HOUR
    rules = await crawl.learn()
    assert (rules.entry.attempts, outage_seconds(rules.entry)) == (2, HOUR)
    # This call waits until all entries are written.
    await crawl.cache._store._spider_closed()
    assert store.stored[str(ORIGIN)] == last_good


@coroutine_test
async def test_the_cache_reports_when_all_entries_are_stored() -> None:
    """``cache.stored`` fires when the last write has ended, even if the last entry is too long for the store."""
    may_write = threading.Event()

    class SlowStore(SharedMemory):
        def put(self, key: str, data: bytes, until: float) -> None:
            may_write.wait(60)
            super().put(key, data, until)

    store = SlowStore()
    cache = Crawl(store).cache
    for body in (ROBOTS, bytes(MAX_SIZE)):
        rules = cache._read(ORIGIN, entry(ROBOTS_URL, body), 0.0)
        cache._put(rules, rules.entry.result)
        assert not cache.stored.called
    may_write.set()
    await maybe_deferred_to_future(cache.stored)
    assert set(store.stored) == {str(ORIGIN)}
    await cache._store._spider_closed()


@coroutine_test
async def test_concurrent_calls_share_the_fetch_of_a_robotstxt() -> None:
    """Two calls need the robots.txt of one host at the same time: a page request, and a request for the tdmrep.json of
    another host that is redirected to this host. The robots.txt is fetched once.
    """
    # The cache calls learn() with needs_tdmrep=False for a redirect.
    crawl = Crawl()
    pending: Deferred[AccessResult] = Deferred()
    crawl.fetcher.outcomes[ROBOTS_URL] = pending
    calls = [
        deferred_from_coro(
            crawl.cache.learn(ORIGIN, TEMPLATES, needs_tdmrep=needs_tdmrep)
        )
        for needs_tdmrep in (False, None)
    ]
    for _ in range(100):
        await asyncio.sleep(0)
    pending.callback(result(ROBOTS_URL, ROBOTS))
    first, second = [await maybe_deferred_to_future(call) for call in calls]
    assert first == second
    assert crawl.reported == [True]
    assert crawl.fetcher.urls == [ROBOTS_URL]


@coroutine_test
async def test_a_call_fetches_the_file_itself_if_the_shared_fetch_is_cancelled() -> (
    None
):
    """Two calls share a fetch. If the first call is cancelled, and the fetch with it, the second call fetches the file
    itself. It does not return the stale rules.
    """
    crawl = Crawl()
    await crawl.learn()
    crawl.elapsed = 2 * DAY
    pending: Deferred[AccessResult] = Deferred()
    crawl.fetcher.outcomes[ROBOTS_URL] = pending
    templates = [Request(PAGE)]
    first = asyncio.ensure_future(crawl.cache.learn(ORIGIN, templates))
    second = asyncio.ensure_future(crawl.cache.learn(ORIGIN, TEMPLATES))
    for _ in range(10):
        await asyncio.sleep(0)
    crawl.fetcher.outcomes[ROBOTS_URL] = result(ROBOTS_URL, b"")
    templates.clear()
    first.cancel()
    rules = await asyncio.wait_for(second, 10)
    assert rules.entry.result.body == b""
    assert crawl.reported == [True, True]


@coroutine_test
async def test_the_last_good_copy_of_tdmrep_is_used_during_an_outage() -> None:
    """While the server is unreachable, the last good copy of tdmrep.json is used, and the file is fetched again within
    an hour. Without a copy, nothing is reserved.
    """
    crawl = mining_crawl()
    await crawl.learn()
    crawl.elapsed = 2 * DAY
    crawl.fetcher.outcomes[TDMREP_URL] = result(TDMREP_URL, status=None)
    rules = await crawl.learn()
    assert bool(rules.tdmrep.usage(PAGE))
    assert rules.entry.expires - rules.entry.fetched <= HOUR + 1
    assert crawl.crawler.stats.get_value("rep/tdmrep/unreachable") == 1

    without_copy = mining_crawl()
    without_copy.fetcher.outcomes[TDMREP_URL] = result(TDMREP_URL, status=None)
    assert (await without_copy.learn()).tdmrep is None
