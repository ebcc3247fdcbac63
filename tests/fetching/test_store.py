"""Tests of :class:`StoreClient`, through which a crawl reads and writes a store. The store may fail."""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from scrapy_rep.crawl.fetching import store as module
from scrapy_rep.crawl.fetching.store import StoreClient
from scrapy_rep.exceptions import SpiderClosing, StoreError
from scrapy_rep.protocol.access.entries import CacheEntry
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.origins import Origin
from tests.fakes import coroutine_test, fake_crawler
from tests.fetching.places import SharedMemory

if TYPE_CHECKING:
    from collections.abc import Collection

ORIGIN = Origin("http", "example.com", 80)
KEY = "http://example.com"
DAY = 24 * 3600
FAULT = StoreError("shared", "gone")


class FailingStore(SharedMemory):
    """A store that the test can make fail."""

    fault: Exception | None = None
    """The exception that each call raises. With None, the store works."""

    def get(self, key: str) -> bytes | None:
        if self.fault is not None:
            raise self.fault
        return super().get(key)

    def put(self, key: str, data: bytes, until: float) -> None:
        if self.fault is not None:
            raise self.fault
        super().put(key, data, until)


class Worker:
    """A fake crawler with a :class:`StoreClient`, through which the crawler reads and writes *store*. If *store* is
    None, a new store is used.
    """

    def __init__(self, store: FailingStore | None = None) -> None:
        self.store = store or FailingStore()
        self.crawler = fake_crawler()
        self.client = StoreClient(self.crawler, self.store)

    @property
    def errors(self) -> int | None:
        """The stat that counts errors of the store."""
        count: int | None = self.crawler.stats.get_value("rep/store/errors")
        return count

    async def put(self, entry: CacheEntry, origin: Origin = ORIGIN) -> None:
        """Put *entry*. Wait until it is written or the store has failed."""
        await maybe_deferred_to_future(self.client.put(origin, entry))

    async def get(self, origin: Origin = ORIGIN) -> CacheEntry | None:
        return await self.client.get(origin)


def entry(age: float = 0, ttl: float = 3600, body: bytes = b"x") -> CacheEntry:
    """Return an entry that was fetched *age* seconds ago, and expires *ttl* seconds after that."""
    fetched = time.time() - age
    result = AccessResult(url=f"{KEY}/robots.txt", status=200, body=body)
    return CacheEntry(result=result, fetched=fetched, expires=fetched + ttl)


# Entries.


@coroutine_test
async def test_a_stored_entry_is_found_by_its_origin() -> None:
    """The entry of a host is not found for a virtual host on the same server, for example for requests to example.com
    with the header ``Host: b.example``.
    """
    worker, stored = Worker(), entry()
    await worker.put(stored)
    assert await worker.get() == stored
    virtual = ORIGIN.at_virtual_host("b.example")
    assert virtual is not None
    assert await worker.get(virtual) is None
    assert set(worker.store.stored) == {KEY}


@coroutine_test
async def test_an_entry_is_used_until_30_days_after_its_expiry() -> None:
    worker = Worker()
    for days, is_used in ((29.9, True), (30.1, False)):
        await worker.put(entry(age=days * DAY, ttl=0))
        assert bool(await worker.get()) is is_used


@coroutine_test
async def test_an_entry_from_the_future_is_not_used() -> None:
    """If the clock of a worker is wrong, the time at which an entry was fetched can be in the future. The entry is not
    used, unless the difference is less than five minutes.
    """
    worker = Worker()
    for seconds, is_used in ((200, True), (DAY, False), (100 * 365 * DAY, False)):
        await worker.put(entry(age=-seconds))
        assert bool(await worker.get()) is is_used


@coroutine_test
async def test_an_entry_that_is_too_long_is_not_stored() -> None:
    """The stats do not count a too long entry as an error of the store."""
    worker = Worker()
    await worker.put(entry(body=b"x" * 2**20))
    assert worker.store.stored == {}
    assert worker.errors is None


@pytest.mark.parametrize(
    "data", [b"", b"User-agent: *", zlib.compress(b"{}"), "text", 7], ids=repr
)
@coroutine_test
async def test_unreadable_entries_count_as_missing(
    caplog: pytest.LogCaptureFixture, data: Any
) -> None:
    """An entry is unreadable if it is damaged, or if another program wrote it. One warning says what to do. Each read
    of such an entry is counted as an error.
    """
    worker = Worker()
    worker.store.stored[KEY] = data
    assert await worker.get() is None
    [warning] = caplog.messages
    assert f"The entry of {KEY}/robots.txt in the store" in warning
    assert "Check whether other programs write to the store" in warning
    assert await worker.get() is None
    assert worker.errors == 2
    assert len(caplog.messages) == 1
    await worker.put(entry())
    assert await worker.get() is not None


# The end of the crawl.


@coroutine_test
async def test_all_writes_end_before_the_store_is_closed() -> None:
    """The client waits for many writes, and also for a write that begins while the client closes. After that, a read
    raises SpiderClosing.
    """
    worker, may_write = Worker(), threading.Event()
    put = worker.store.put

    def put_slowly(*args: Any) -> None:
        may_write.wait(10)
        put(*args)

    worker.store.put = put_slowly
    origins = [Origin("http", f"late-{number}.example", 80) for number in range(40)]
    for origin in origins[1:]:
        worker.client.put(origin, entry())
    closed = deferred_from_coro(worker.client._spider_closed())
    worker.client.put(origins[0], entry())
    assert not worker.store.is_closed
    may_write.set()
    await maybe_deferred_to_future(closed)
    assert worker.store.stored.keys() == {*map(str, origins)}
    assert worker.store.is_closed
    with pytest.raises(SpiderClosing):
        await worker.get()


# The thread of the store.


@coroutine_test
async def test_each_method_of_a_store_is_called_on_the_same_thread() -> None:
    """The thread is not that of the event loop."""
    worker, threads = Worker(), []
    for name in ("get", "put", "close"):
        method = getattr(worker.store, name)

        def call(*args: Any, method: Any = method) -> Any:
            threads.append(threading.current_thread())
            return method(*args)

        setattr(worker.store, name, call)
    for number in range(3):
        origin = Origin("http", f"{number}.example", 80)
        assert await worker.get(origin) is None
        await worker.put(entry(), origin)
        assert await worker.get(origin) is not None
    await worker.client._spider_closed()
    assert len(threads) == 3 * 3 + 1
    assert len({*threads}) == 1
    assert threading.current_thread() not in threads


# Failing stores.


@coroutine_test
async def test_a_failing_store_is_skipped_for_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure pauses the use of the store. Each failure is counted in the stats, and only the first one is logged.
    When the store works again, this is logged too.
    """
    caplog.set_level("INFO")
    worker = Worker()
    await worker.put(entry())
    worker.store.fault = FAULT
    assert await worker.get() is None
    worker.store.fault = None
    assert await worker.get() is None  # The store is not called.
    worker.client._paused_until = -inf
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    worker.store.fault = FAULT
    assert await worker.get() is None
    assert await worker.get() is None
    warnings = [line for line in caplog.messages if "shared: gone" in line]
    assert len(warnings) == 1
    assert worker.errors == 3
    worker.store.fault = None
    assert await worker.get() is not None
    # The store counts as working again only after a successful write.
    assert not any("works again" in line for line in caplog.messages)
    await worker.put(entry())
    assert any("works again" in line for line in caplog.messages)


@coroutine_test
async def test_reads_that_wait_for_a_call_of_the_store_are_combined() -> None:
    """Entries that are requested during a call of the store are read together, up to 32 in one call. If the first call
    fails, the waiting reads fail without another call.
    """
    worker = Worker()
    await worker.put(entry())
    key_counts, get_many = [], worker.store.get_many

    def get_and_count(keys: Collection[str]) -> Any:
        key_counts.append(len(keys))
        return get_many(keys)

    worker.store.get_many = get_and_count
    entries = await asyncio.gather(*(worker.get() for _ in range(40)))
    assert all(entries)
    assert key_counts == [32, 8]
    worker.store.fault = FAULT
    assert not any(await asyncio.gather(*(worker.get() for _ in range(40))))
    assert key_counts == [32, 8, 32]
    assert worker.errors == 1


@pytest.mark.parametrize(
    ("fault", "has_traceback"),
    [
        (StoreError("it", "is gone"), False),
        (RuntimeError("a bug"), True),
        (asyncio.CancelledError("of its own loop"), False),
    ],
    ids=repr,
)
@coroutine_test
async def test_unexpected_errors_of_a_store_are_logged_with_their_traceback(
    caplog: pytest.LogCaptureFixture, fault: BaseException, has_traceback: bool
) -> None:
    """An entry that cannot be read counts as missing. An exception other than StoreError is logged with its traceback,
    which helps the author of the store.
    """
    worker = Worker()
    worker.store.fault = fault
    assert await worker.get() is None
    [record] = caplog.records
    assert bool(record.exc_info) is has_traceback
    assert str(fault) in record.getMessage()


@coroutine_test
async def test_a_store_is_not_called_again_while_a_call_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that does not return in time fails. Until this call returns, further calls fail at once."""
    monkeypatch.setattr(module, "_CALL_TIMEOUT", 0.1)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    worker = Worker()
    await worker.put(entry())
    may_return, get = threading.Event(), worker.store.get

    def hang(key: str) -> bytes | None:
        may_return.wait(60)
        return get(key)

    monkeypatch.setattr(worker.store, "get", hang)
    assert not any(await asyncio.gather(*(worker.get() for _ in range(3))))
    assert await worker.get() is None
    assert worker.errors == 1
    returned: Deferred[None] = Deferred()
    call_later(0, worker.client._calls.put, (lambda: None, returned.callback))
    may_return.set()
    await maybe_deferred_to_future(returned)
    assert await worker.get() is not None


@pytest.mark.parametrize("method", ["close", "put"])
@coroutine_test
async def test_the_end_of_the_spider_waits_only_a_limited_time_for_a_store(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The spider ends although a write, or the closing of the store, does not return."""
    monkeypatch.setattr(module, "_CALL_TIMEOUT", 0.1)
    worker, may_return = Worker(), threading.Event()
    monkeypatch.setattr(worker.store, method, lambda *_: may_return.wait(60))
    worker.client.put(ORIGIN, entry())
    await asyncio.wait_for(worker.client._spider_closed(), 10)
    assert not worker.store.is_closed
    may_return.set()
