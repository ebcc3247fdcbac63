"""Fixtures of the contract tests for each kind of store: several stores on the same
entries, and a clock under the test's control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scrapy_rep.protocol.access.results import MAX_AHEAD, AccessResult, Entry
from scrapy_rep.stores.base import MAX_BODY, Store
from scrapy_rep.stores.memory import MemoryStore
from scrapy_rep.stores.redis import RedisStore
from scrapy_rep.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.redis_server import RedisServer

START = 1_800_000_000.0
ORIGIN = "https://example.com"
DAY = 24 * 3600.0
TOO_LONG = b"#" * (MAX_BODY + 1)


_OF_ENTRY = {"fetched", "expires", "unreachable_since", "attempts", "copy"}


def entry(body: bytes = b"User-agent: *\nDisallow: /a\n", **fields: Any) -> Entry:
    """An entry that was fetched at START, and expires a day later."""
    of_result: dict[str, Any] = {
        "url": f"{ORIGIN}/robots.txt",
        "status": 200,
        "body": body,
    }
    of_entry: dict[str, Any] = {"fetched": START, "expires": START + DAY}
    for name, value in fields.items():
        (of_entry if name in _OF_ENTRY else of_result)[name] = value
    return Entry(result=AccessResult(**of_result), **of_entry)


class LockingStore(MemoryStore):
    """A store in memory with locks, for several clients in one process."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self._locks: dict[str, tuple[str, float]] = {}

    def lock(self, origin: str, owner: str, seconds: float, now: float) -> bool:
        holder, until = self._locks.get(origin, (owner, now))
        # A lock that expires much later was made before the clock was set back.
        if holder != owner and now < until <= now + seconds + MAX_AHEAD:
            return False
        self._locks[origin] = owner, now + seconds
        return True

    def unlock(self, origin: str, owner: str) -> None:
        if self._locks.get(origin, ("", 0.0))[0] == owner:
            del self._locks[origin]


class Place:
    """The place where a kind of store keeps its entries, with its own time."""

    def __init__(self) -> None:
        self.now = START
        self._stores: list[Store] = []

    def store(self) -> Store:
        """Return another store on the same entries."""
        store = self._open()
        self._stores.append(store)
        return store

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def _open(self) -> Store:
        raise NotImplementedError


class MemoryPlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._memory = MemoryStore()

    def _open(self) -> Store:
        return self._memory


class SqlitePlace(Place):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / "of" / "its" / "own" / "robots.db"

    def _open(self) -> Store:
        return SqliteStore(self._path)


class RedisPlace(Place):
    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self._url = server.url
        self._prefix = uuid4().hex
        self._client = server.client()

    def _open(self) -> Store:
        return RedisStore(self._url, self._prefix)

    def pass_time(self, seconds: float) -> None:
        """The server has the only clock, so this shortens the lifetimes instead."""
        super().pass_time(seconds)
        for key in self._client.scan_iter(f"{self._prefix}:*"):
            # At 0 or below, Redis removes the key.
            self._client.pexpire(key, self._client.pttl(key) - int(seconds * 1000))

    def close(self) -> None:
        super().close()
        self._client.close()


PLACES: dict[str, Any] = {
    "memory": MemoryPlace,
    "sqlite": SqlitePlace,
    "redis": RedisPlace,
}
