"""A store in a SQLite file, which processes on one machine can share."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from scrapy_rep.base.sqlitefile import (
    FAILURES,
    ForeignFile,
    Schema,
    cause_of,
    identity,
    prepare_file,
)
from scrapy_rep.crawl.fetching.entries import MAX_SIZE
from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.exceptions import StoreError

if TYPE_CHECKING:
    import os

SCHEMA = Schema(
    application_id=0x72657031,  # "rep1"
    version=1,
    statements=(
        "CREATE TABLE entries (key TEXT PRIMARY KEY, until REAL NOT NULL, data BLOB)",
        "CREATE INDEX entries_until ON entries (until)",
    ),
)
# SQLite does not read the data to find their length.
_GET = (
    "SELECT CASE WHEN length(data) <= ? THEN data ELSE 'too long' END"
    " FROM entries WHERE key = ?"
)

# The first of every _SWEPT_EVERY writes removes at most 500 expired rows: more than were
# written meanwhile, but few enough to take little time.
_SWEPT_EVERY = 100
_SWEEP = (
    "DELETE FROM entries WHERE key IN"
    " (SELECT key FROM entries WHERE until <= ? LIMIT 500)"
)


class SqliteStore(Store):
    """Keeps entries in the file at *path*. The first call makes the file and its folder.

    Several processes can use the file at once. A process that finds it locked waits up to
    *timeout* seconds. If a process is killed, its entries remain intact.
    """

    def __init__(self, path: str | os.PathLike[str], timeout: float = 5.0) -> None:
        # The process may change its working directory.
        self._path = Path(path).absolute()
        self._timeout = timeout
        self._mutex = Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._written = 0
        self._is_closed = False

    def get(self, key: str) -> bytes | None:
        rows = self._execute(_GET, (MAX_SIZE, key))
        return rows[0][0] if rows else None

    def put(self, key: str, data: bytes, until: float) -> None:
        if self._written % _SWEPT_EVERY == 0:
            self._execute(_SWEEP, (time.time(),))
        self._written += 1
        self._execute("REPLACE INTO entries VALUES (?, ?, ?)", (key, until, data))

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            self._disconnect()

    def _execute(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """Execute one statement, which is a transaction of its own. Return the rows.

        After a failure the connection is closed, and the next call opens a new one.
        """
        # A call that waited for another one for so long does not wait for the file as well.
        if not self._mutex.acquire(timeout=self._timeout):
            raise StoreError(str(self._path), "another call takes too long")
        try:
            return self._connected().execute(sql, values).fetchall()
        except (*FAILURES, ForeignFile, OSError, ValueError) as error:
            self._disconnect()
            raise StoreError(str(self._path), cause_of(error)) from error
        finally:
            self._mutex.release()

    def _connected(self) -> sqlite3.Connection:
        if self._is_closed:
            # A thread was about to call it. A connection would leave a write-ahead log.
            raise OSError("it is closed")
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connection = sqlite3.connect(
                self._path,
                timeout=self._timeout,
                isolation_level=None,
                check_same_thread=False,
            )
            prepare_file(connection, SCHEMA)
            self._file = identity(self._path)
        elif identity(self._path) != self._file:
            # SQLite would continue to use it.
            raise OSError("it was moved or removed")
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
