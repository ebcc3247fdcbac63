"""A store in one file, for the processes of one machine."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import StoreError
from scrapy_rep.files import identity
from scrapy_rep.protocol.access.results import MAX_AHEAD
from scrapy_rep.stores.base import KEEP, Store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

SCHEMA = 1
"""The version of the tables, in the file's ``user_version``."""

APPLICATION = 0x72657031
"""Says that the file is one of these, in its ``application_id``: "rep1"."""

# Every so many entries that are put, the first included, at most so many rows that ran
# out are removed: more than come in, in batches that nobody has to wait for.
_SWEPT_EVERY = 100
_MAX_SWEPT = 500

_TABLES = (
    "DROP TABLE IF EXISTS entries",
    "DROP TABLE IF EXISTS locks",
    "CREATE TABLE entries (origin TEXT PRIMARY KEY, until REAL, data BLOB)",
    "CREATE INDEX entries_until ON entries (until)",
    "CREATE TABLE locks (origin TEXT PRIMARY KEY, owner TEXT, until REAL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)

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
    """Keeps entries in the file at *path*, which is made, with its folder, when it is
    first needed.

    Several processes can use the file at once; who finds it locked waits for up to
    *timeout* seconds. A process that is killed leaves whole entries, and locks that run
    out. The clock that *now* comes from must be the same for all.
    """

    blocking = True

    def __init__(
        self, path: str | os.PathLike[str], keep: float = KEEP, timeout: float = 5.0
    ) -> None:
        super().__init__(keep)
        # For the folder to be the same wherever the process goes later.
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
        # One that holds for longer is from before the clock was set back.
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

    def _read(self, origin: str) -> bytes | None:
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT data FROM entries WHERE origin = ?", (origin,)
            )
            row = rows.fetchone()
            return None if row is None else row[0]

    def _write(self, origin: str, data: bytes, until: float, now: float) -> None:
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

    def _remove(self, origin: str) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM entries WHERE origin = ?", (origin,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connected() as connection:
            # Not a plain BEGIN, which may find only in its middle that another process
            # has written meanwhile, and fail without waiting.
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. After any failure it is closed, which
        rolls back, and the next call has a new one.
        """
        failures = self._failures
        with self._mutex:
            if self._failures != failures:
                # Whoever was here has waited in vain; there is no need to wait once more.
                raise StoreError(str(self._path), "it has just failed")
            try:
                if self._closed:
                    raise StoreError(str(self._path), "it is closed")
                # SQLite goes on with a file that nobody can find any more.
                if self._connection is None:
                    self._connection = _connect(self._path, self._timeout)
                    self._file = identity(self._path)
                elif identity(self._path) != self._file:
                    raise StoreError(str(self._path), "it was moved or removed")
                yield self._connection
            except (sqlite3.Error, OSError, ValueError) as error:
                self._failures += 1
                self._disconnect()
                raise StoreError(str(self._path), error) from error
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
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # One state of the file, while another process may be making the tables.
    connection.execute("BEGIN")
    version = _version(connection, path)
    connection.execute("COMMIT")
    _write_ahead(connection)
    # Safe when the process is killed, and without an fsync for every entry.
    connection.execute("PRAGMA synchronous = NORMAL")
    if version == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been faster. What an older version wrote can be fetched
    # again, so it is not carried over.
    if _version(connection, path) < SCHEMA:
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of a file that is one of these, or empty; 0 if it is empty.

    Raises StoreError for any other, before anything is written to it.
    """
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION:
        raise StoreError(str(path), "it is a database of another program")
    if version > SCHEMA:
        raise StoreError(
            str(path),
            f"a later version of scrapy-rep wrote it (schema {version}; this version"
            f" reads {SCHEMA})",
        )
    return int(version) if tables else 0


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, where the file system can have one: then readers and
    the one writer do not wait for each other.
    """
    for _ in range(10):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # The switch fails at once where another process is about to make it, rather
            # than wait as this does.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return
