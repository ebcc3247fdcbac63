"""Stores of a project's own: the example in the documentation, and a broken one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores import Store

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class FolderStore(Store):
    """Keeps the data of each key in a file of its own, for one crawl at a time."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FolderStore:
        return cls(crawler.settings["ROBOTSTXT_FOLDER"])

    def look_up(
        self, key: str, owner: str, seconds: float, *, is_stale: bool = False
    ) -> tuple[bytes | None, bool]:
        # No other crawl uses the folder: whoever asks has the lock.
        try:
            return self._path(key).read_bytes(), True
        except FileNotFoundError:
            return None, True
        except OSError as error:
            raise StoreError(str(self._folder), error) from error

    def put(self, key: str, data: bytes, until: float, owner: str) -> None:
        # Another thread must not read half of it.
        written = self._folder / uuid4().hex
        try:
            written.write_bytes(data)
            written.replace(self._path(key))
        except OSError as error:
            raise StoreError(str(self._folder), error) from error

    def unlock(self, key: str, owner: str) -> None:
        pass

    def close(self) -> None:
        pass

    def _path(self, key: str) -> Path:
        return self._folder / quote(key, safe="")


class StuckStore(FolderStore):
    """A store of which no call returns."""

    def look_up(self, *_: Any, **__: Any) -> Any:
        time.sleep(10_000)

    put = unlock = close = look_up
