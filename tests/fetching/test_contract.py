"""Runs :class:`StoreTests`, the tests of the contract of :class:`Store`, on each kind of store."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from scrapy_rep.crawl.fetching.redisstore import RedisStore
from scrapy_rep.crawl.fetching.sqlitestore import SqliteStore
from scrapy_rep.tools.storetests import StoreTests
from tests.crawl.own_store import FolderStore
from tests.fetching.places import SharedMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_rep.crawl.fetching.store import Store
    from tests.fetching.redis_server import RedisServer

pytestmark = pytest.mark.newest


class TestSqliteStore(StoreTests):
    @pytest.fixture(autouse=True)
    def resources(self, tmp_path: Path) -> Iterator[None]:
        self.path = tmp_path / "of" / "its" / "own" / "robots.db"
        with ExitStack() as self.stack:
            yield

    def open(self) -> Store:
        return self.stack.enter_context(closing(SqliteStore(self.path)))


class TestRedisStore(StoreTests):
    @pytest.fixture(autouse=True)
    def resources(self, redis_server: RedisServer) -> Iterator[None]:
        self.url, self.prefix = redis_server.url, uuid4().hex
        with ExitStack() as self.stack:
            yield

    def open(self) -> Store:
        return self.stack.enter_context(closing(RedisStore(self.url, self.prefix)))


class TestSharedMemory(StoreTests):
    """Tests the store that replaces the SQLite and Redis stores in other tests."""

    @pytest.fixture(autouse=True)
    def resources(self) -> None:
        self.store = SharedMemory()

    def open(self) -> Store:
        return self.store


class TestFolderStore(StoreTests):
    """Tests the example of a custom store in the documentation."""

    @pytest.fixture(autouse=True)
    def resources(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def open(self) -> Store:
        return FolderStore(str(self.folder))
