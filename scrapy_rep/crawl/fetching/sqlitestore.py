"""A store of robots.txt files in a SQLite file. Processes on one machine can share the store."""

from __future__ import annotations

import sqlite3
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_rep.base.sqlitefile import (
    FAILURES,
    ForeignFile,
    Schema,
    cause_of,
    identity,
    prepare_file,
)
from scrapy_rep.crawl.fetching.memory import MAX_SIZE
from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.exceptions import StoreError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Mapping

SCHEMA = Schema(
    application_id=0x72657031,  # "rep1" in ASCII
    version=1,
    statements=(
        "CREATE TABLE entries (key TEXT PRIMARY KEY, until REAL NOT NULL, data BLOB)",
        "CREATE INDEX entries_until ON entries (until)",
    ),
)
# Instead of data that is too long, the query returns the text 'too long', which loads() rejects. length() is cheap,
# because SQLite determines the length of a value without reading the value.
_GET = (
    "SELECT key, CASE WHEN length(data) <= ? THEN data ELSE 'too long' END"
    " FROM entries WHERE key IN ({})"
)

# Each time _SWEPT_EVERY rows have been written, up to 500 expired rows are deleted. The limit of 500 keeps the deletion
# fast. The limit is greater than _SWEPT_EVERY, so that expired rows do not accumulate.
_SWEPT_EVERY = 100
_SWEEP = (
    "DELETE FROM entries WHERE key IN"
    " (SELECT key FROM entries WHERE until <= ? LIMIT 500)"
)


class SqliteStore(Store):
    """Keeps fetched robots.txt files in the SQLite file at *path*. The SQLite file and its folder are created on first
    use.

    Several processes can use the SQLite file at the same time. A process waits at most *timeout* seconds for a lock.
    Killing a process does not damage the SQLite file.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 5.0) -> None:
        # The path is made absolute, since the process may change its working directory.
        self.path = Path(path).absolute()
        """The absolute path of the SQLite file."""

        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._unswept = 0

    def get(self, key: str) -> bytes | None:
        return self.get_many([key]).get(key)

    def put(self, key: str, data: bytes, until: float) -> None:
        self.put_many({key: (data, until)})

    def get_many(self, keys: Collection[str]) -> dict[str, bytes | None]:
        sql = _GET.format(",".join("?" * len(keys)))
        with self._used() as connection:
            return dict(connection.execute(sql, (MAX_SIZE, *keys)))

    def put_many(self, entries: Mapping[str, tuple[bytes, float]]) -> None:
        rows = [(key, until, data) for key, (data, until) in entries.items()]
        with self._used() as connection:
            connection.execute("BEGIN IMMEDIATE")
            if self._unswept <= 0:
                connection.execute(_SWEEP, (time.time(),))
                self._unswept = _SWEPT_EVERY
            self._unswept -= len(rows)
            connection.executemany("REPLACE INTO entries VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    @contextmanager
    def _used(self) -> Iterator[sqlite3.Connection]:
        """A context manager that opens the SQLite file if needed, and returns the connection. If this fails, or the
        ``with`` block raises an error, the connection is closed, and StoreError is raised in place of the error. The
        next call then opens a new connection.
        """
        try:
            yield self._connected()
        except (*FAILURES, ForeignFile, OSError, ValueError) as error:
            self.close()
            raise StoreError(str(self.path), cause_of(error)) from error

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connection = sqlite3.connect(
                self.path, timeout=self._timeout, isolation_level=None
            )
            prepare_file(connection, SCHEMA)
            self._file = identity(self.path)
        elif identity(self.path) != self._file:
            # The file at the path was removed or replaced. SQLite does not notice that, and would continue to write to
            # the old file.
            raise OSError("the file was moved or removed")
        return self._connection
