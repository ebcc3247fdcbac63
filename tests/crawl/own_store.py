"""A store of a project's own: the example in the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.base import Store

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class FolderStore(Store):
    """Keeps each entry in a file of its own, for one crawl at a time."""

    blocking = True  # Its calls touch a disk, so they are made on a thread.

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FolderStore:
        return cls(crawler.settings["ROBOTSTXT_FOLDER"])

    def lock(self, origin: str, owner: str, seconds: float, now: float) -> bool:
        return True  # No other crawl uses the folder.

    def unlock(self, origin: str, owner: str) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, origin: str) -> bytes | None:
        path = self._path(origin)
        try:
            return path.read_bytes() if path.exists() else None
        except OSError as error:
            raise StoreError(str(path), error) from error

    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        path = self._path(origin)
        try:
            path.write_bytes(data)
        except OSError as error:
            raise StoreError(str(path), error) from error

    def remove(self, origin: str) -> None:
        self._path(origin).unlink(missing_ok=True)

    def _path(self, origin: str) -> Path:
        return self._folder / quote(origin, safe="")
