"""The store client keeps robots.txt files in a store, even if the store fails."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import signals
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.exceptions import SpiderClosing, StoreError
from scrapy_rep.fetching import storeclient
from scrapy_rep.fetching.storeclient import StoreClient
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.stores.memory import MemoryStore
from tests.fakes import coroutine_test, fake_crawler
from tests.stores.places import LockingStore

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

WHERE = Origin("http", "example.com", 80)
NAME = "http://example.com"


class Shared(LockingStore):
    """A store in memory that is called on threads, and can be made to fail."""

    error: StoreError | None = None

    def get(self, origin: str, now: float) -> Entry | None:
        if self.error:
            raise self.error
        return super().get(origin, now)

    def lock(self, *args: Any) -> bool:
        if self.error:
            raise self.error
        return super().lock(*args)


def entry(age: float = 0, holds: float = 3600) -> Entry:
    fetched = time.time() - age
    result = AccessResult(url=f"{NAME}/robots.txt", status=200, body=b"x")
    return Entry(result=result, fetched=fetched, expires=fetched + holds)


def shared() -> tuple[StoreClient, Shared, Crawler]:
    crawler, store = fake_crawler(), Shared()
    return StoreClient(crawler, store), store, crawler


@coroutine_test
async def test_kept() -> None:
    """A put entry can be read, also from a store that is called on a thread."""
    client, _, _ = shared()
    known = entry()
    await client.put(WHERE, known)
    assert await client.get(WHERE) == known
    assert client.get_from_memory(WHERE, time.time()) is None


@coroutine_test
async def test_get_from_memory() -> None:
    """Entries in memory are returned without a thread."""
    client = StoreClient(fake_crawler(), MemoryStore())
    known = entry()
    await client.put(WHERE, known)
    assert client.get_from_memory(WHERE, time.time()) == known


@coroutine_test
async def test_one_of_many_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one worker has the lock, the other waits and gets the entry of the first."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    first, store, _ = shared()
    second = StoreClient(fake_crawler(), store)
    assert await first.entry_or_lock(WHERE, None) is None
    waiting = deferred_from_coro(second.entry_or_lock(WHERE, None))
    brought = entry()
    await first.put(WHERE, brought)
    await first.unlock(WHERE)
    assert await maybe_deferred_to_future(waiting) == brought
    assert store.lock(NAME, "anyone", 1, time.time())


@coroutine_test
async def test_closed_while_another_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for another one does not fetch after its spider has closed."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    client, store, crawler = shared()
    assert store.lock(NAME, "another worker", 60, time.time())
    waiting = deferred_from_coro(client.entry_or_lock(WHERE, None))
    crawler.signals.send_catch_log(
        signals.spider_closed, spider=crawler.spider, reason="shutdown"
    )
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(waiting)


@coroutine_test
async def test_one_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is not renewed expires, and another worker fetches."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    client, store, _ = shared()
    assert store.lock(NAME, "a worker that dies", 0.1, time.time())
    assert await client.entry_or_lock(WHERE, None) is None


@coroutine_test
async def test_what_is_known_is_no_news() -> None:
    """An entry that has expired, or is known to be unreachable, does not prevent a fetch."""
    client, _, _ = shared()
    for kept in (entry(age=10, holds=5), entry()):
        await client.put(WHERE, kept)
        assert await client.entry_or_lock(WHERE, kept) is None
        await client.unlock(WHERE)


@coroutine_test
async def test_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long fetch renews its lock, and releases it at the end."""
    monkeypatch.setattr(storeclient, "_LOCK_RENEWED_EVERY", 0.01)
    monkeypatch.setattr(storeclient, "_LOCK_HOLDS", 1.0)
    client, store, _ = shared()
    assert await client.entry_or_lock(WHERE, None) is None
    first = time.time()
    with client.renewing(WHERE):
        for _ in range(100_000):
            if time.time() > first + 1.5:
                break
            await storeclient.run_in_thread(store.__len__)
        assert not store.lock(NAME, "another", 1, time.time())
    await client.unlock(WHERE)
    assert store.lock(NAME, "another", 1, time.time())


@coroutine_test
async def test_a_renewal_under_way_does_not_outlast_its_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unlocked lock stays unlocked, even if a renewal is under way."""
    monkeypatch.setattr(storeclient, "_LOCK_RENEWED_EVERY", 0.01)
    client, store, _ = shared()
    assert await client.entry_or_lock(WHERE, None) is None
    began, go_on, done = threading.Event(), threading.Event(), threading.Event()
    lock = store.lock

    def slow_lock(*arguments: object) -> bool:
        began.set()
        assert go_on.wait(120)
        found = lock(*arguments)
        done.set()
        return found

    monkeypatch.setattr(store, "lock", slow_lock)
    with client.renewing(WHERE):
        await storeclient.run_in_thread(began.wait, 10)
    unlocking = deferred_from_coro(client.unlock(WHERE))
    await storeclient.sleep(0.1)  # Long enough for an unlock that does not wait.
    go_on.set()
    await maybe_deferred_to_future(unlocking)
    await storeclient.run_in_thread(done.wait, 10)
    assert lock(NAME, "another", 1, time.time())


@coroutine_test
async def test_a_store_that_fails(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing store causes one warning and a stat, is skipped for a while, and comes back."""
    caplog.set_level("INFO")
    client, store, crawler = shared()
    await client.put(WHERE, entry())
    store.error = StoreError("shared", "gone")
    assert await client.get(WHERE) is None
    store.error = None
    assert await client.get(WHERE) is None  # The store is not called.
    monkeypatch.setattr(storeclient, "_PAUSE", 0)
    store.error = StoreError("shared", "gone")
    assert await client.get(WHERE) is None
    assert await client.entry_or_lock(WHERE, None) is None  # The caller fetches.
    warnings = [line for line in caplog.messages if "shared: gone" in line]
    assert len(warnings) == 1
    assert crawler.stats.get_value("rep/store/errors") == 5
    store.error = None
    assert await client.get(WHERE) is not None
    # The write failed before, so a successful read does not prove that the store works.
    assert not any("works again" in line for line in caplog.messages)
    await client.put(WHERE, entry())
    assert any("works again" in line for line in caplog.messages)


@coroutine_test
async def test_turns_at_a_host() -> None:
    """One worker at a time has the turn at a host; it ends at once or after a delay."""
    client, _, _ = shared()
    assert await client.reserve("example.com", "one", 60)
    assert not await client.reserve("example.com", "two", 60)
    assert await client.reserve("other.example", "two", 60)
    await client.vacate("example.com", "one", 0)
    assert await client.reserve("example.com", "two", 60)
    await client.vacate("example.com", "two", 60)
    assert not await client.reserve("example.com", "one", 60)


def test_closed_with_the_spider() -> None:
    """The store is closed with the spider."""
    client, store, crawler = shared()
    crawler.signals.send_catch_log(signals.spider_closed, spider=crawler.spider)
    assert client is not None
    with pytest.raises(StoreError):
        store.put(NAME, entry(), time.time())
