"""Stores for robots.txt that a project implements: the example in docs/stores.md, a slow store, and one that hangs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.exceptions import StoreError

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


class SlowStore(FolderStore):
    """A FolderStore whose writes take 0.2 seconds. Reads are as fast as ever."""

    def put(self, key: str, data: bytes, until: float) -> None:
        time.sleep(0.2)
        super().put(key, data, until)


class StuckStore(FolderStore):
    """A store whose methods never return."""

    def get(self, *_: Any) -> Any:
        time.sleep(10_000)

    put = close = get
