"""The store client keeps robots.txt files in a store, even if the store fails."""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from contextlib import AsyncExitStack
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredLock, DeferredSemaphore

from scrapy_rep.exceptions import SpiderClosing, StoreError
from scrapy_rep.fetching import storeclient
from scrapy_rep.fetching.locks import held
from scrapy_rep.fetching.storeclient import StoreClient
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.stores.testing import lock
from tests.fakes import coroutine_test, fake_crawler
from tests.stores.places import SharedMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.stores.memory import Key

WHERE = Origin("http", "example.com", 80)
NAME = "http://example.com"
GONE = StoreError("shared", "gone")


class Shared(SharedMemory):
    """A store that can be made to fail."""

    fault: Any = None
    """What a look-up raises, or returns; None if it works."""

    def look_up(self, *args: Any, **kwargs: Any) -> tuple[bytes | None, bool]:
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault is not None:
            return self.fault  # type: ignore[no-any-return]
        return super().look_up(*args, **kwargs)

    def unlock(self, *args: Any) -> None:
        if isinstance(self.fault, Exception):
            raise self.fault
        super().unlock(*args)


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

    async def put(self, entry: Entry, key: Key = WHERE) -> None:
        self.client.put(key, entry)
        await self.released()

    async def get(
        self, key: Key = WHERE, serves: Callable[[Entry], bool] = lambda _: True
    ) -> Entry | None:
        """Return the entry, if it *serves*; None if this worker must fetch the file, which takes no
        time.
        """
        async with self.client.entry_or_lock(key, serves) as found:
            pass
        await self.released()
        return found if found is not None and serves(found) else None

    async def released(self) -> None:
        """Wait until the store has released the locks."""
        for begun in list(self.client._releasing):
            await maybe_deferred_to_future(begun)


def entry(age: float = 0, holds: float = 3600, body: bytes = b"x") -> Entry:
    fetched = time.time() - age
    result = AccessResult(url=f"{NAME}/robots.txt", status=200, body=body)
    return Entry(result=result, fetched=fetched, expires=fetched + holds)


# Entries.


@coroutine_test
async def test_kept() -> None:
    """A put entry can be read, by its URL."""
    worker, known = Worker(), entry()
    await worker.put(known)
    assert await worker.get() == known
    url = f"{NAME}/.well-known/tdmrep.json"
    other = replace(known, result=replace(known.result, url=url))
    await worker.put(other, url)
    assert await worker.get(url) == other
    assert set(worker.store.kept) == {NAME, url}


@coroutine_test
async def test_no_longer_of_use() -> None:
    """An entry is of use for 30 days after it has expired."""
    worker = Worker()
    for days, is_kept in ((29.9, True), (30.1, False)):
        await worker.put(entry(age=days * 24 * 3600, holds=0))
        assert bool(await worker.get()) is is_kept


@coroutine_test
async def test_too_long() -> None:
    """An entry that is too long for a store is not stored."""
    worker = Worker()
    await worker.put(entry(body=b"x" * 2**20))
    assert worker.store.kept == {}
    assert worker.errors is None


@pytest.mark.parametrize(
    "data", [b"", b"User-agent: *", zlib.compress(b"{}"), "text", 7], ids=repr
)
@coroutine_test
async def test_entries_that_can_not_be_read(
    caplog: pytest.LogCaptureFixture, data: Any
) -> None:
    """An entry of another program, or a damaged one, counts as missing. One warning says what to
    do, and each is counted."""
    worker = Worker()
    worker.store.kept[NAME] = data
    assert await worker.get() is None
    [warning] = caplog.messages
    assert f"The entry of {NAME}/robots.txt in the store" in warning
    assert "Check who else writes to the store" in warning
    assert worker.errors == 2
    await worker.put(entry())
    assert await worker.get() is not None


# Locks.


@coroutine_test
async def test_one_of_many_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one worker has the lock, the other waits and gets the entry of the first."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    first, brought = Worker(), entry()
    second = Worker(first.store)
    async with first.client.entry_or_lock(WHERE, lambda _: True) as found:
        assert found is None
        waiting = deferred_from_coro(second.get())
        await first.put(brought)
    assert await maybe_deferred_to_future(waiting) == brought
    assert first.store.locks == {}


@coroutine_test
async def test_what_is_known_is_no_news() -> None:
    """An entry that has expired, or is known already, does not prevent a fetch, which has the lock
    until it ends.
    """
    worker, known = Worker(), entry()

    def is_news(entry: Entry) -> bool:
        return entry.is_fresh(time.time()) and entry != known

    for kept in (entry(age=10, holds=5), known):
        await worker.put(kept)
        assert await worker.get(serves=is_news) is None
        assert worker.store.locks == {}


@coroutine_test
async def test_closed_while_another_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for another one does not fetch after its spider has closed."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    worker = Worker()
    assert lock(worker.store, NAME, "another worker", 60)
    waiting = deferred_from_coro(worker.get())
    await worker.client._spider_closed()
    assert worker.store.is_closed
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(waiting)


@coroutine_test
async def test_closed_while_it_fetches() -> None:
    """The lock of a fetch that has not ended when the spider closes is given back."""
    worker = Worker()
    async with worker.client.entry_or_lock(WHERE, bool):
        assert worker.store.locks
        await worker.client._spider_closed()
        assert worker.store.locks == {}


@coroutine_test
async def test_fetches_that_end_while_the_client_closes() -> None:
    """The locks of fetches that end while the client waits for another lock to be given back are
    given back, too, also if they are more than the threads.
    """
    worker = Worker()
    unlock, may_go_on = worker.store.unlock, threading.Event()

    def unlock_slowly(*args: Any) -> None:
        may_go_on.wait(10)
        time.sleep(0.01)
        unlock(*args)

    worker.store.unlock = unlock_slowly
    async with AsyncExitStack() as stack:
        for number in range(40):
            late = Origin("http", f"late-{number}.example", 80)
            await stack.enter_async_context(worker.client.entry_or_lock(late, bool))
        async with worker.client.entry_or_lock(WHERE, bool):
            pass
        closed = deferred_from_coro(worker.client._spider_closed())
        await storeclient.sleep(0.05)  # It begins.
    may_go_on.set()
    await maybe_deferred_to_future(closed)
    assert worker.store.locks == {}


@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("kind", [DeferredLock, lambda: DeferredSemaphore(1)])
@coroutine_test
async def test_a_wait_that_is_cancelled(kind: type, step: int) -> None:
    """One that is cancelled while it waits for the lock, or in the moment in which it gets it, leaves
    it to the next one, once the first has released it.
    """
    lock, landing = kind(), asyncio.get_running_loop().create_future()
    holders = []

    async def hold() -> None:
        async with held(lock):
            holders.append(lock)
            assert len(holders) == 1
            await landing
            holders.pop()

    first, second, third = [asyncio.ensure_future(hold()) for _ in range(3)]
    for number in range(-9, 6):
        await asyncio.sleep(0)
        if number == step - 1:
            second.cancel()
        if number == 0:
            landing.set_result(None)
    await asyncio.wait_for(asyncio.gather(first, third), 10)


# A store that fails.


@coroutine_test
async def test_a_store_that_fails(
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
    monkeypatch.setattr(storeclient, "_PAUSE", 0)
    worker.store.fault = GONE
    assert await worker.get() is None
    assert await worker.get() is None
    warnings = [line for line in caplog.messages if "shared: gone" in line]
    assert len(warnings) == 1
    assert worker.errors == 5
    worker.store.fault = None
    assert await worker.get() is not None
    # The write failed before, so a successful read does not prove that the store works.
    assert not any("works again" in line for line in caplog.messages)
    await worker.put(entry())
    assert any("works again" in line for line in caplog.messages)


@coroutine_test
async def test_calls_that_wait_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that wait for a thread while the store fails do not call it, nor do they say that it
    works again."""
    worker = Worker()
    await worker.put(entry())

    async def queued(function: Any, **_: Any) -> Any:
        return function()

    async def wait(function: Any, **_: Any) -> Any:
        worker.store.fault = GONE
        monkeypatch.setattr(storeclient, "run_in_thread", queued)
        await worker.get()
        worker.store.fault = None
        return function()

    monkeypatch.setattr(storeclient, "run_in_thread", wait)
    assert await worker.get() is None
    assert worker.errors == 1


@pytest.mark.parametrize(
    ("fault", "has_traceback"),
    [
        (StoreError("it", "is gone"), False),
        (RuntimeError("a bug"), True),
        (b"", True),
        (7, True),
        ((b"x",), True),
        ("file", True),
    ],
    ids=repr,
)
@coroutine_test
async def test_what_a_store_should_not_do(
    caplog: pytest.LogCaptureFixture, fault: Any, has_traceback: bool
) -> None:
    """If a look-up raises, or does not return data and whether it has the lock, the file is fetched
    without it. What is no StoreError is logged with its traceback, for the author of the store.
    """
    worker = Worker()
    worker.store.fault = fault
    assert await worker.get() is None
    [record] = caplog.records
    assert bool(record.exc_info) is has_traceback
    if isinstance(fault, Exception):
        assert str(fault) in record.getMessage()
    else:
        assert worker.errors == 1


@coroutine_test
async def test_a_call_that_does_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a call of the store returns, it is not called again."""
    monkeypatch.setattr(storeclient, "_MAX_CALL", 0.1)
    monkeypatch.setattr(storeclient, "_PAUSE", 0)
    worker = Worker()
    await worker.put(entry())
    may_return, look_up = threading.Event(), worker.store.look_up

    def stuck(*args: Any, **kwargs: Any) -> tuple[bytes | None, bool]:
        may_return.wait(60)
        return look_up(*args, **kwargs)

    monkeypatch.setattr(worker.store, "look_up", stuck)
    for _ in range(2):
        assert await worker.get() is None
    assert worker.errors == 1
    may_return.set()
    assert worker.client._stuck is not None
    worker.client._stuck.join()
    assert await worker.get() is not None
