"""The store client keeps robots.txt files in a store, even if the store fails."""

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

WHERE = Origin("http", "example.com", 80)
NAME = "http://example.com"
DAY = 24 * 3600
GONE = StoreError("shared", "gone")


class Shared(SharedMemory):
    """A store that can be made to fail."""

    fault: Exception | None = None
    """What each call raises; None if it works."""

    def get(self, key: str) -> bytes | None:
        if self.fault is not None:
            raise self.fault
        return super().get(key)

    def put(self, key: str, data: bytes, until: float) -> None:
        if self.fault is not None:
            raise self.fault
        super().put(key, data, until)


class Worker:
    """A crawl with its client of a store."""

    def __init__(self, store: Shared | None = None) -> None:
        self.store = store or Shared()
        self.crawler = fake_crawler()
        self.client = StoreClient(self.crawler, self.store)

    @property
    def errors(self) -> int | None:
        count: int | None = self.crawler.stats.get_value("rep/store/errors")
        return count

    async def put(self, entry: CacheEntry, origin: Origin = WHERE) -> None:
        """Put *entry*, and wait until it is written, or the store has failed."""
        await maybe_deferred_to_future(self.client.put(origin, entry))

    async def get(self, origin: Origin = WHERE) -> CacheEntry | None:
        return await self.client.get(origin)


def entry(age: float = 0, holds: float = 3600, body: bytes = b"x") -> CacheEntry:
    fetched = time.time() - age
    result = AccessResult(url=f"{NAME}/robots.txt", status=200, body=body)
    return CacheEntry(result=result, fetched=fetched, expires=fetched + holds)


# Entries.


@coroutine_test
async def test_a_put_entry_can_be_read() -> None:
    """A put entry can be read, by its origin."""
    worker, stored = Worker(), entry()
    await worker.put(stored)
    assert await worker.get() == stored
    virtual = WHERE.at_virtual_host("b.example")
    assert virtual is not None
    assert await worker.get(virtual) is None
    assert set(worker.store.stored) == {NAME}


@coroutine_test
async def test_an_entry_is_of_use_for_30_days_after_it_has_expired() -> None:
    """An entry is of use for 30 days after it has expired."""
    worker = Worker()
    for days, is_kept in ((29.9, True), (30.1, False)):
        await worker.put(entry(age=days * 24 * 3600, holds=0))
        assert bool(await worker.get()) is is_kept


@coroutine_test
async def test_an_entry_from_the_future_is_of_no_use() -> None:
    """An entry that says that it was fetched later than now is of no use: it would count as the last
    good copy, and a host that stays unreachable as one that has just become so, each time.
    """
    worker = Worker()
    for seconds, is_kept in ((200, True), (DAY, False), (100 * 365 * DAY, False)):
        await worker.put(entry(age=-seconds))
        assert bool(await worker.get()) is is_kept


@coroutine_test
async def test_an_entry_that_is_too_long_is_not_stored() -> None:
    """An entry that is too long for a store is not stored."""
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
    """An entry of another program, or a damaged one, counts as missing. One warning says what to
    do, and each is counted."""
    worker = Worker()
    worker.store.stored[NAME] = data
    assert await worker.get() is None
    [warning] = caplog.messages
    assert f"The entry of {NAME}/robots.txt in the store" in warning
    assert "Check whether other programs write to the store" in warning
    assert await worker.get() is None
    assert worker.errors == 2
    assert len(caplog.messages) == 1
    await worker.put(entry())
    assert await worker.get() is not None


# The end.


@coroutine_test
async def test_writes_that_begin_while_the_client_closes_end_first() -> None:
    """What is being written is written before the store is closed, also if it begins meanwhile, and
    if it is more than the threads. After that, nothing is fetched any more.
    """
    worker, may_go_on = Worker(), threading.Event()
    put = worker.store.put

    def put_slowly(*args: Any) -> None:
        may_go_on.wait(10)
        put(*args)

    worker.store.put = put_slowly
    origins = [Origin("http", f"late-{number}.example", 80) for number in range(40)]
    for origin in origins[1:]:
        worker.client.put(origin, entry())
    closed = deferred_from_coro(worker.client._spider_closed())
    worker.client.put(origins[0], entry())
    assert not worker.store.is_closed
    may_go_on.set()
    await maybe_deferred_to_future(closed)
    assert worker.store.stored.keys() == {*map(str, origins)}
    assert worker.store.is_closed
    with pytest.raises(SpiderClosing):
        await worker.get()


# The thread.


@coroutine_test
async def test_each_method_of_a_store_is_called_on_the_same_thread() -> None:
    """Each method of a store is called on the same thread, which is not that of the event loop."""
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


# A store that fails.


@coroutine_test
async def test_a_failing_store_is_skipped_for_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing store causes one warning and a stat, is skipped for a while, and comes back."""
    caplog.set_level("INFO")
    worker = Worker()
    await worker.put(entry())
    worker.store.fault = GONE
    assert await worker.get() is None
    worker.store.fault = None
    assert await worker.get() is None  # The store is not called.
    worker.client._paused_until = -inf
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    worker.store.fault = GONE
    assert await worker.get() is None
    assert await worker.get() is None
    warnings = [line for line in caplog.messages if "shared: gone" in line]
    assert len(warnings) == 1
    assert worker.errors == 3
    worker.store.fault = None
    assert await worker.get() is not None
    # The write failed before, so a successful read does not prove that the store works.
    assert not any("works again" in line for line in caplog.messages)
    await worker.put(entry())
    assert any("works again" in line for line in caplog.messages)


@coroutine_test
async def test_what_waits_while_the_store_fails_does_not_call_it_again() -> None:
    """What is asked for while a call is under way is asked for in one call. If the store fails
    meanwhile, it is not called again.
    """
    worker = Worker()
    await worker.put(entry())
    asked, get_many = [], worker.store.get_many

    def get(keys: Collection[str]) -> Any:
        asked.append(len(keys))
        return get_many(keys)

    worker.store.get_many = get
    entries = await asyncio.gather(*(worker.get() for _ in range(40)))
    assert all(entries)
    assert asked == [32, 8]
    worker.store.fault = GONE
    assert not any(await asyncio.gather(*(worker.get() for _ in range(40))))
    assert asked == [32, 8, 32]
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
async def test_other_errors_of_a_store_are_logged_with_their_traceback(
    caplog: pytest.LogCaptureFixture, fault: BaseException, has_traceback: bool
) -> None:
    """If a look-up raises, the file is fetched without it. What is no StoreError is logged with its
    traceback, for the author of the store.
    """
    worker = Worker()
    worker.store.fault = fault
    assert await worker.get() is None
    [record] = caplog.records
    assert bool(record.exc_info) is has_traceback
    assert str(fault) in record.getMessage()


@coroutine_test
async def test_a_store_is_not_called_again_until_it_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until a call of the store returns, it is not called again."""
    monkeypatch.setattr(module, "_CALL_TIMEOUT", 0.1)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    worker = Worker()
    await worker.put(entry())
    may_return, get = threading.Event(), worker.store.get

    def stuck(key: str) -> bytes | None:
        may_return.wait(60)
        return get(key)

    monkeypatch.setattr(worker.store, "get", stuck)
    assert not any(await asyncio.gather(*(worker.get() for _ in range(3))))
    assert await worker.get() is None
    assert worker.errors == 1
    returned: Deferred[None] = Deferred()
    call_later(0, worker.client._calls.put, (lambda: None, returned.callback))
    may_return.set()
    await maybe_deferred_to_future(returned)
    assert await worker.get() is not None


@pytest.mark.parametrize("is_stuck", [False, True])
@coroutine_test
async def test_the_end_waits_a_bounded_time_for_a_store(
    monkeypatch: pytest.MonkeyPatch, is_stuck: bool
) -> None:
    """The end of the spider waits a bounded time for what is being written, and for the store to
    close.
    """
    monkeypatch.setattr(module, "_CALL_TIMEOUT", 0.1)
    worker, may_return = Worker(), threading.Event()
    name = "put" if is_stuck else "close"
    monkeypatch.setattr(worker.store, name, lambda *_: may_return.wait(60))
    worker.client.put(WHERE, entry())
    await asyncio.wait_for(worker.client._spider_closed(), 10)
    assert not worker.store.is_closed
    may_return.set()
