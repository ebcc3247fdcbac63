"""Stores of a project's own: the example in the documentation, and broken ones."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from scrapy_rep.crawl.fetching.memory import dumps
from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.exceptions import StoreError
from scrapy_rep.protocol.access.results import AccessResult, CacheEntry

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class FolderStore(Store):
    """Keeps the data of each key in a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FolderStore:
        return cls(crawler.settings["ROBOTSTXT_FOLDER"])

    def get(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(str(self._folder), error) from error

    def put(self, key: str, data: bytes, until: float) -> None:
        # Another thread or crawl must not read half of it.
        written = self._folder / uuid4().hex
        try:
            written.write_bytes(data)
            written.replace(self._path(key))
        except OSError as error:
            raise StoreError(str(self._folder), error) from error

    def close(self) -> None:
        pass

    def _path(self, key: str) -> Path:
        return self._folder / quote(key, safe="")


class StuckStore(FolderStore):
    """A store of which no call returns."""

    def get(self, *_: Any) -> Any:
        time.sleep(10_000)

    put = close = get


class LyingStore(FolderStore):
    """A store that returns what nobody has put, another lie for each key."""

    def get(self, key: str) -> Any:
        result = AccessResult(url=key, status=200, body=b"User-agent: *\nAllow: /\n")
        later = time.time() + 10 * 365 * 24 * 3600
        lies = [
            b"User-agent: *\nAllow: /\n",
            "text",
            7,
            bytes(3_000_000),
            zlib.compress(bytes(50_000_000)),
            dumps(CacheEntry(result=result, fetched=later, expires=later + 60)),
        ]
        return lies[urlsplit(key).port % len(lies)]


class DyingStore(FolderStore):
    """A store that is slow, and fails for good after some calls."""

    calls = 0

    def get(self, key: str) -> bytes | None:
        time.sleep(0.2)
        self.calls += 1
        if self.calls > 3:
            raise StoreError(str(self._folder), "the disk is gone")
        return super().get(key)
