"""The store client keeps robots.txt files in a store, even if the store fails."""

from __future__ import annotations

import threading
import time
import zlib
from contextlib import AsyncExitStack
from dataclasses import replace
from math import inf
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future

from scrapy_rep.exceptions import SpiderClosing, StoreError
from scrapy_rep.fetching import storeclient
from scrapy_rep.fetching.storeclient import StoreClient
from scrapy_rep.protocol.access.results import AccessResult, Entry
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.stores.testing import lock
from tests.fakes import coroutine_test, fake_crawler
from tests.stores.places import SharedMemory

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.stores.memory import Key

WHERE = Origin("http", "example.com", 80)
NAME = "http://example.com"


class Shared(SharedMemory):
    """A store that can be made to fail."""

    error: Exception | None = None
    garbage: Any = None

    def look_up(self, *args: Any, **kwargs: Any) -> tuple[bytes | None, bool]:
        if self.error:
            raise self.error
        if self.garbage is not None:
            return self.garbage  # type: ignore[no-any-return]
        return super().look_up(*args, **kwargs)

    def unlock(self, *args: Any) -> None:
        if self.error:
            raise self.error
        super().unlock(*args)


def entry(age: float = 0, holds: float = 3600) -> Entry:
    fetched = time.time() - age
    return Entry(result=result(b"x"), fetched=fetched, expires=fetched + holds)


def result(body: bytes) -> AccessResult:
    return AccessResult(url=f"{NAME}/robots.txt", status=200, body=body)


def shared() -> tuple[StoreClient, Shared, Crawler]:
    crawler, store = fake_crawler(), Shared()
    return StoreClient(crawler, store), store, crawler


async def put(client: StoreClient, key: Key, entry: Entry) -> None:
    client.put(key, entry)
    await released(client)


async def get(client: StoreClient, key: Key = WHERE) -> Entry | None:
    async with client.entry_or_lock(key, lambda _: True) as found:
        pass
    await released(client)
    return found


async def released(client: StoreClient) -> None:
    """Wait until the store has released the locks."""
    for begun in list(client._releasing):
        await maybe_deferred_to_future(begun)


async def is_first(client: StoreClient, known: Entry | None = None) -> bool:
    """Return whether this worker must fetch the file, which takes no time."""
    found = await get_newer(client, known)
    await released(client)
    return found is None


async def get_newer(client: StoreClient, known: Entry | None) -> Entry | None:
    """Return an entry that is fresh and not *known*, if another worker has stored it."""

    def serves(entry: Entry) -> bool:
        return entry.is_fresh(time.time()) and entry != known

    async with client.entry_or_lock(WHERE, serves) as found:
        return found if found is not None and serves(found) else None


@coroutine_test
async def test_kept() -> None:
    """A put entry can be read, by its URL."""
    client, store, _ = shared()
    known = entry()
    await put(client, WHERE, known)
    assert await get(client) == known
    url = f"{NAME}/.well-known/tdmrep.json"
    other = replace(known, result=replace(known.result, url=url))
    await put(client, url, other)
    assert await get(client, url) == other
    assert set(store.kept) == {NAME, url}


@coroutine_test
async def test_no_longer_of_use() -> None:
    """An entry is of use for 30 days after it has expired."""
    client, _, _ = shared()
    for days, is_kept in ((29.9, True), (30.1, False)):
        await put(client, WHERE, entry(age=days * 24 * 3600, holds=0))
        assert bool(await get(client)) is is_kept


@coroutine_test
async def test_too_long() -> None:
    """An entry that is too long for a store is not stored."""
    client, store, crawler = shared()
    await put(client, WHERE, replace(entry(), result=result(b"x" * 2**20)))
    assert store.kept == {}
    assert crawler.stats.get_value("rep/store/errors") is None


@pytest.mark.parametrize(
    "data", [b"", b"User-agent: *", zlib.compress(b"{}"), "text", 7], ids=repr
)
@coroutine_test
async def test_entries_that_can_not_be_read(
    caplog: pytest.LogCaptureFixture, data: Any
) -> None:
    """An entry of another program, or a damaged one, counts as missing. One warning says what to
    do, and each is counted."""
    client, store, crawler = shared()
    store.kept[NAME] = data
    assert await is_first(client)
    [warning] = caplog.messages
    assert f"The entry of {NAME}/robots.txt in the store" in warning
    assert "Check who else writes to the store" in warning
    assert crawler.stats.get_value("rep/store/errors") == 2
    await put(client, WHERE, entry())
    assert await get(client) is not None


@coroutine_test
async def test_one_of_many_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one worker has the lock, the other waits and gets the entry of the first."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    first, store, _ = shared()
    second = StoreClient(fake_crawler(), store)
    brought = entry()

    async with first.entry_or_lock(WHERE, lambda _: True) as found:
        assert found is None
        waiting = deferred_from_coro(get_newer(second, None))
        await put(first, WHERE, brought)
    assert await maybe_deferred_to_future(waiting) == brought
    assert store.locks == {}


@coroutine_test
async def test_closed_while_another_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for another one does not fetch after its spider has closed."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    client, store, _ = shared()
    assert lock(store, NAME, "another worker", 60)
    waiting = deferred_from_coro(is_first(client))
    await client._spider_closed()
    assert store.is_closed
    with pytest.raises(SpiderClosing):
        await maybe_deferred_to_future(waiting)


@coroutine_test
async def test_closed_while_it_fetches() -> None:
    """The lock of a fetch that has not ended when the spider closes is given back."""
    client, store, _ = shared()
    async with client.entry_or_lock(WHERE, bool):
        assert store.locks
        await client._spider_closed()
        assert store.locks == {}


@coroutine_test
async def test_fetches_that_end_while_the_client_closes() -> None:
    """The locks of fetches that end while the client waits for another lock to be given back are
    given back, too, also if they are more than the threads.
    """
    client, store, _ = shared()
    unlock, may_go_on = store.unlock, threading.Event()

    def unlock_slowly(*args: Any) -> None:
        may_go_on.wait(10)
        time.sleep(0.01)
        unlock(*args)

    store.unlock = unlock_slowly
    async with AsyncExitStack() as stack:
        for number in range(40):
            late = Origin("http", f"late-{number}.example", 80)
            await stack.enter_async_context(client.entry_or_lock(late, bool))
        async with client.entry_or_lock(WHERE, bool):
            pass
        closed = deferred_from_coro(client._spider_closed())
        await storeclient.sleep(0.05)  # It begins.
    may_go_on.set()
    await maybe_deferred_to_future(closed)
    assert store.locks == {}


@coroutine_test
async def test_one_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a worker expires, and another one fetches."""
    monkeypatch.setattr(storeclient, "_POLL_EVERY", 0.01)
    client, store, _ = shared()
    assert lock(store, NAME, "a worker that dies", 0.1)
    assert await is_first(client)


@coroutine_test
async def test_what_is_known_is_no_news() -> None:
    """An entry that has expired, or is known already, does not prevent a fetch."""
    client, _, _ = shared()
    for kept in (entry(age=10, holds=5), entry()):
        await put(client, WHERE, kept)
        assert await is_first(client, kept)


@coroutine_test
async def test_a_store_that_fails(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing store causes one warning and a stat, is skipped for a while, and comes back."""
    caplog.set_level("INFO")
    client, store, crawler = shared()
    await put(client, WHERE, entry())
    store.error = StoreError("shared", "gone")
    assert await get(client) is None
    store.error = None
    assert await get(client) is None  # The store is not called.
    client._paused_until = -inf
    monkeypatch.setattr(storeclient, "_PAUSE", 0)
    store.error = StoreError("shared", "gone")
    assert await get(client) is None
    assert await is_first(client)
    warnings = [line for line in caplog.messages if "shared: gone" in line]
    assert len(warnings) == 1
    assert crawler.stats.get_value("rep/store/errors") == 5
    store.error = None
    assert await get(client) is not None
    # The write failed before, so a successful read does not prove that the store works.
    assert not any("works again" in line for line in caplog.messages)
    await put(client, WHERE, entry())
    assert any("works again" in line for line in caplog.messages)


@coroutine_test
async def test_calls_that_wait_for_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that wait for a thread while the store fails do not call it, nor do they say that it
    works again."""
    client, store, crawler = shared()
    await put(client, WHERE, entry())
    calls: list[Any] = []

    async def queued(function: Any, **_: Any) -> Any:
        calls.append(function)
        return function()

    async def wait(function: Any, **_: Any) -> Any:
        store.error = StoreError("shared", "gone")
        monkeypatch.setattr(storeclient, "run_in_thread", queued)
        await get(client)
        store.error = None
        return function()

    monkeypatch.setattr(storeclient, "run_in_thread", wait)
    assert await get(client) is None
    assert crawler.stats.get_value("rep/store/errors") == 1


@pytest.mark.parametrize("error", [RuntimeError("a bug"), StoreError("it", "is gone")])
@coroutine_test
async def test_errors(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    """An error that a store should not raise is logged with its traceback, for its author."""
    client, store, _ = shared()
    store.error = error
    assert await is_first(client)
    [record] = caplog.records
    assert str(error) in record.getMessage()
    assert bool(record.exc_info) is isinstance(error, RuntimeError)


@pytest.mark.parametrize("garbage", [b"", 7, (b"x",), "file"], ids=repr)
@coroutine_test
async def test_a_look_up_that_returns_garbage(garbage: Any) -> None:
    """A store that does not return data with a lock fails: the file is fetched without it."""
    client, store, crawler = shared()
    store.garbage = garbage
    assert await is_first(client)
    assert crawler.stats.get_value("rep/store/errors") == 1


@coroutine_test
async def test_a_call_that_does_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a call of the store returns, it is not called again."""
    monkeypatch.setattr(storeclient, "_MAX_CALL", 0.1)
    monkeypatch.setattr(storeclient, "_PAUSE", 0)
    client, store, crawler = shared()
    await put(client, WHERE, entry())
    may_return, look_up = Event(), store.look_up

    def stuck(*args: Any, **kwargs: Any) -> tuple[bytes | None, bool]:
        may_return.wait(60)
        return look_up(*args, **kwargs)

    monkeypatch.setattr(store, "look_up", stuck)
    for _ in range(2):
        assert await get(client) is None
    assert crawler.stats.get_value("rep/store/errors") == 1
    may_return.set()
    assert client._stuck is not None
    client._stuck.join()
    assert await get(client) is not None
