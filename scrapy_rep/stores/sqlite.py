"""A store in a SQLite file, which processes on one machine can share."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import StoreError
from scrapy_rep.protocol.access.results import MAX_AHEAD
from scrapy_rep.sqlitefiles import (
    FAILURES,
    ForeignFile,
    Schema,
    cause_of,
    identity,
    make_tables,
    use_write_ahead_log,
    version_of,
)
from scrapy_rep.stores.base import Store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

SCHEMA = Schema(
    application_id=0x72657031,  # "rep1"
    version=1,
    # Entries of an earlier version are dropped, since they can be fetched again.
    statements=(
        "DROP TABLE IF EXISTS entries",
        "DROP TABLE IF EXISTS locks",
        "CREATE TABLE entries (origin TEXT PRIMARY KEY, until REAL, data BLOB)",
        "CREATE INDEX entries_until ON entries (until)",
        "CREATE TABLE locks (origin TEXT PRIMARY KEY, owner TEXT, until REAL)",
    ),
)

# The first of every _SWEPT_EVERY writes removes at most _MAX_SWEPT expired rows: more than
# were written meanwhile, but few enough to take little time.
_SWEPT_EVERY = 100
_MAX_SWEPT = 500

_SWEEP = (
    "DELETE FROM {table} WHERE origin IN"
    " (SELECT origin FROM {table} WHERE until <= ? LIMIT ?)"
)

_LOCK = (
    "INSERT INTO locks (origin, owner, until) VALUES (:origin, :owner, :until)"
    " ON CONFLICT (origin) DO UPDATE SET owner = :owner, until = :until"
    " WHERE locks.owner = :owner OR locks.until <= :now OR locks.until > :latest"
)


class SqliteStore(Store):
    """Keeps entries in the file at *path*. The first call makes the file and its folder.

    Several processes can use the file at once. A process that finds it locked waits up to
    *timeout* seconds. If a process is killed, its entries remain intact, and its locks
    expire. All processes must take *now* from the same clock.
    """

    blocking = True

    def __init__(self, path: str | os.PathLike[str], timeout: float = 5.0) -> None:
        # The process may change its working directory.
        self._path = Path(path).absolute()
        self._timeout = timeout
        self._mutex = Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._written = 0
        self._failures = 0
        self._closed = False

    def lock(self, origin: str, owner: str, seconds: float, now: float) -> bool:
        until = now + seconds
        values = {"origin": origin, "owner": owner, "until": until, "now": now}
        # A lock that expires later than this was made before the clock was set back.
        values["latest"] = until + MAX_AHEAD
        with self._transaction() as connection:
            return connection.execute(_LOCK, values).rowcount > 0

    def unlock(self, origin: str, owner: str) -> None:
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM locks WHERE origin = ? AND owner = ?", (origin, owner)
            )

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._disconnect()

    def read(self, origin: str) -> bytes | None:
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT data FROM entries WHERE origin = ?", (origin,)
            )
            row = rows.fetchone()
            return None if row is None else row[0]

    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO entries (origin, until, data) VALUES (?, ?, ?)",
                (origin, until, data),
            )
            if self._written % _SWEPT_EVERY == 0:
                for table in ("entries", "locks"):
                    sweep = _SWEEP.format(table=table)
                    connection.execute(sweep, (now, _MAX_SWEPT))
            self._written += 1

    def remove(self, origin: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM entries WHERE origin = ?", (origin,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connected() as connection:
            # After a plain BEGIN, the first write fails without waiting if another process
            # has written meanwhile.
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. After a failure it is closed, which
        rolls back, and the next call opens a new one.
        """
        failures = self._failures
        with self._mutex:
            if self._failures != failures:
                # A call failed while this one waited for the mutex. Trying again would wait
                # for another timeout.
                raise StoreError(str(self._path), "another call has just failed")
            try:
                if self._closed:
                    raise StoreError(str(self._path), "it is closed")
                # SQLite would continue to use a file that was moved or removed.
                if self._connection is None:
                    self._connection = _connect(self._path, self._timeout)
                    self._file = identity(self._path)
                elif identity(self._path) != self._file:
                    raise StoreError(str(self._path), "it was moved or removed")
                yield self._connection
            except (*FAILURES, OSError, ValueError) as error:
                self._failures += 1
                self._disconnect()
                raise StoreError(str(self._path), cause_of(error)) from error
            except BaseException:
                self._disconnect()
                raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _connect(path: Path, timeout: float) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        # Checked first, so that nothing is written to a file of another program.
        version_of(connection, SCHEMA)
        use_write_ahead_log(connection)
        # Safe if the process is killed, and without an fsync for every entry.
        connection.execute("PRAGMA synchronous = NORMAL")
        make_tables(connection, SCHEMA)
    except ForeignFile as error:
        connection.close()
        raise StoreError(str(path), error) from None
    except BaseException:
        connection.close()
        raise
    return connection
