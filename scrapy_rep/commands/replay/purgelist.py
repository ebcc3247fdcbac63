"""The file of ``scrapy rep replay --purge-list``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from typing import TextIO


class PurgeList:
    """A file of URLs; it is there when it is complete, and not before."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        if path is None:
            return
        self._partial = Path(f"{path}.partial")
        try:
            self._file = self._partial.open("w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--purge-list {path}: {error.strerror}") from None

    def add(self, url: str) -> None:
        if self._file is not None:
            self._file.write(url + "\n")

    def keep(self) -> None:
        if self._file is not None and self._path is not None:
            self._file.close()
            self._partial.replace(self._path)
            self._file = None

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._partial.unlink()
