"""The file of a crawl with a JOBDIR: its requests that are not done, what it has seen, and the pauses and
pages of hosts.

A request is in the file until its callback has ended. What the callback yields, the fingerprints of
that, and the end of the request are written in one transaction. So the process may be killed at any
moment: the next run has all requests that were not done.

SQLite's write-ahead log is not synced at each transaction (``synchronous = NORMAL``): ``kill -9``
loses no transaction; a power cut may lose the last ones, and leaves the file whole.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scrapy_rep.base.sqlitefile import (
    FAILURES,
    ForeignFile,
    Schema,
    cause_of,
    has_tables,
    prepare_file,
)
from scrapy_rep.exceptions import JobError

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = Schema(
    application_id=0x52455051,  # "REPQ"
    version=1,
    statements=(
        """
        CREATE TABLE requests (
            number INTEGER PRIMARY KEY,
            host TEXT NOT NULL,
            rank INTEGER NOT NULL,
            position INTEGER NOT NULL,
            in_flight INTEGER NOT NULL DEFAULT 0,
            is_page INTEGER NOT NULL DEFAULT 0,
            data BLOB NOT NULL
        )
        """,
        "CREATE INDEX requests_in_order ON requests (host, rank, position) WHERE in_flight = 0",
        "CREATE TABLE seen (fingerprint INTEGER NOT NULL)",
        """
        CREATE TABLE pauses (
            scope TEXT NOT NULL PRIMARY KEY CHECK (typeof(scope) = 'text'),
            until REAL NOT NULL CHECK (typeof(until) = 'real'),
            seconds REAL NOT NULL CHECK (typeof(seconds) = 'real')
        )
        """,
        """
        CREATE TABLE pages (
            host TEXT NOT NULL PRIMARY KEY CHECK (typeof(host) = 'text'),
            number INTEGER NOT NULL CHECK (typeof(number) = 'integer')
        )
        """,
    ),
)

# What was in flight when a process ended is popped before all other requests of its host.
_FRONT = -(2**63)
_MAX_RANK = 2**62

# The best request of a host, and what changes.
_BEST = (
    "SELECT number, data FROM requests WHERE host = ? AND in_flight = 0 "
    "ORDER BY rank, position LIMIT 1"
)
_ADDED = (
    "INSERT INTO requests (number, host, rank, position, is_page, data) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_POPPED = "UPDATE requests SET in_flight = 1 WHERE number = ?"
_DONE = "DELETE FROM requests WHERE number = ?"
_SEEN = "INSERT INTO seen VALUES (?)"
_PAGES = (
    "INSERT INTO pages VALUES (?, ?) "
    "ON CONFLICT (host) DO UPDATE SET number = number + excluded.number"
)
_PAGE = "UPDATE requests SET is_page = ? WHERE number = ?"
_PAUSED = "INSERT OR REPLACE INTO pauses VALUES (?, ?, ?)"

# The seconds to wait for another program that has locked the file.
_TIMEOUT = 1.0

# The bytes of the checksum before each request.
_CHECKSUM = 4

# About how many bytes of memory a change takes that waits, without the data of a request.
_CHANGE = 1_000


def _connected(path: Path, timeout: float) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, timeout=timeout, isolation_level=None))


def _with_checksum(data: bytes) -> bytes:
    return crc32(data).to_bytes(_CHECKSUM, "big") + data


class JobFile:
    """Keeps requests by host. Each change is executed in a transaction before the next request is
    read, and waits for :meth:`commit`: if that fails, all of them are executed again.

    Other classes decide what a host, a rank, a position and a fingerprint are.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file at *path*, and its folder. Raises JobError if that fails, if another crawl has
        opened it, or if it is damaged.
        """
        self.path = path
        self._changes: list[tuple[str, tuple[Any, ...]]] = []
        """What waits for :meth:`commit`: statements, and their values."""

        self.waiting = 0
        """About how many bytes of memory they take."""

        self._executed = 0
        """How many of them the transaction has; -1 if they cannot be executed."""

        self.in_flight: dict[object, int] = {}
        """The popped requests that are not done, by what they were read as: the arguments for
        :meth:`done`."""

        try:
            with ExitStack() as opened:
                path.parent.mkdir(parents=True, exist_ok=True)
                # SQLite frees the lock of a process that was killed, on each operating system.
                lock = opened.enter_context(_connected(path.with_name("lock"), 0))
                try:
                    lock.execute("BEGIN EXCLUSIVE")
                except sqlite3.OperationalError as error:
                    if "locked" in str(error):
                        raise JobError.in_use(path.parent) from None
                    raise
                self._db = opened.enter_context(_connected(path, _TIMEOUT))
                self._open()
                self._opened = opened.pop_all()
        except (*FAILURES, ForeignFile, OSError) as error:
            raise JobError.unusable(path, cause_of(error)) from error

    def _open(self) -> None:
        db = self._db
        if not has_tables(db, _SCHEMA):  # It would write to a file of another version.
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA cache_spill = OFF")
        prepare_file(db, _SCHEMA)
        self._check(db)
        db.execute(
            "UPDATE requests SET rank = ?, in_flight = 0 WHERE in_flight = 1", (_FRONT,)
        )
        [last] = db.execute("SELECT max(number) FROM requests").fetchone()
        self._last = last or 0
        rows = db.execute("SELECT number FROM requests WHERE is_page = 1")
        self.counted = {number for (number,) in rows}
        """The requests that belong to pages that an earlier run has counted."""

    @staticmethod
    def _check(db: sqlite3.Connection) -> None:
        """Raise DatabaseError if the file is damaged."""
        rows = db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        if {sql for (sql,) in rows} != {sql.strip() for sql in _SCHEMA.statements}:
            raise sqlite3.DatabaseError("its tables were changed")
        # A full integrity_check looks each row up in the index, which takes minutes for a large
        # file. That as many are there finds an index that has lost some.
        [damage] = db.execute("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
        rows = db.execute(
            "SELECT count(*) FROM requests NOT INDEXED WHERE in_flight = 0 UNION "
            "SELECT count(*) FROM requests INDEXED BY requests_in_order WHERE in_flight = 0"
        )
        if len(rows.fetchall()) > 1:
            raise sqlite3.DatabaseError("its index does not have each request")

    # Requests.

    def hosts(self) -> list[tuple[str, int]]:
        """Return each host that has requests in the file, with their number, after the file was
        opened.
        """
        return self._read("SELECT host, count(*) FROM requests GROUP BY host")

    def best(self, host: str) -> tuple[int, bytes | None]:
        """Return the number and the data of the best request of *host*. The data is None if this request is
        damaged. Raises JobError if the file is damaged, or has no request of *host*: callers ask only for
        hosts that have one.
        """
        self.execute()
        rows = self._read(_BEST, host)
        if not rows:
            raise JobError.unusable(self.path, f"it has no request of {host}")
        [(number, stored)] = rows
        data = stored[_CHECKSUM:] if isinstance(stored, bytes) else b""
        return number, data if stored == _with_checksum(data) else None

    def pop(self, host: str) -> tuple[int, bytes | None]:
        """Return the same as :meth:`best`. The request is in flight then."""
        number, data = self.best(host)
        self._add_change(_POPPED, number)
        return number, data

    def add(
        self,
        host: str,
        data: bytes,
        rank: int,
        is_last_first: bool,
        *,
        is_page: bool = False,
    ) -> None:
        """Add a request of *host*. Requests with a higher *rank* are popped first. If it
        *is_last_first*, it is popped before those of its rank that were added before it. If it *is_page*,
        it belongs to a page that was counted.
        """
        self._last = number = self._last + 1
        position = -number if is_last_first else number
        rank = -max(min(rank, _MAX_RANK), -_MAX_RANK)
        values = number, host, rank, position, int(is_page), _with_checksum(data)
        self._add_change(_ADDED, *values)
        self.waiting += len(data)

    def done(self, number: int) -> None:
        """Remove a request that was in flight."""
        self._add_change(_DONE, number)

    # What was seen, and what is known of hosts.

    def seen(self) -> set[int]:
        """Return the fingerprints in the file."""
        return {number for (number,) in self._read("SELECT fingerprint FROM seen")}

    def add_seen(self, fingerprint: int) -> None:
        """Add a fingerprint: a whole number of 64 bits, with sign."""
        self._add_change(_SEEN, fingerprint)

    def pauses(self, now: float) -> list[tuple[str, float]]:
        """Return each scope that is to pause, with the seconds from *now* on, by the wall clock. Forget
        the pauses that are over.
        """
        self._add_change("DELETE FROM pauses WHERE until <= ?", now)
        return self._read(
            "SELECT scope, min(until - ?, seconds) FROM pauses WHERE until > ?",
            now,
            now,
        )

    def pages(self) -> dict[str, int]:
        """Return the number of pages of each host."""
        return dict(self._read("SELECT host, number FROM pages"))

    def note_page(self, number: int | None, host: str, change: int) -> None:
        """Count a request that is in flight as a page of *host*; no more if the *change* is -1. Without a
        *number*, the request is not in the file.
        """
        self._add_change(_PAGES, host, change)
        if number is not None:
            self._add_change(_PAGE, int(change > 0), number)

    def note_pause(self, scope: str, until: float, seconds: float) -> None:
        """Note that *scope* pauses until a time by the wall clock, in *seconds*."""
        self._add_change(_PAUSED, scope, until, seconds)

    # Transactions.

    def _add_change(self, statement: str, *values: Any) -> None:
        self._changes.append((statement, values))
        self.waiting += _CHANGE

    def execute(self) -> bool:
        """Execute the changes that wait, so that requests can be read. Return False if that fails:
        then it is not tried again before the next :meth:`commit`. Raises JobError if the file is
        damaged.
        """
        if 0 <= self._executed < len(self._changes):
            self._execute()
        return self._executed >= 0

    def commit(self) -> sqlite3.Error | None:
        """Write all changes in one transaction. Return the error if that fails: then they are
        still waiting. Raises JobError if the file is damaged.
        """
        self._executed = max(self._executed, 0)
        error = self._execute("COMMIT")
        if error is None:
            self._changes.clear()
            self.waiting = self._executed = 0
        return error

    def _execute(self, *ends: str) -> sqlite3.Error | None:
        """Execute what the transaction does not have yet, and how it *ends*. Return the error if that
        fails: then it has nothing.
        """
        db, changes = self._db, self._changes
        try:
            if not db.in_transaction:
                db.execute("BEGIN IMMEDIATE")
            for statement, values in changes[self._executed :]:
                db.execute(statement, values)
            self._executed = len(changes)
            for statement in ends:
                db.execute(statement)
        except sqlite3.OperationalError as error:
            self._roll_back()
            # SQLite writes to the disk at the end of a transaction. What it could execute before, it
            # can again.
            self._executed = 0 if self._executed == len(changes) else -1
            return error
        except FAILURES as error:
            self._roll_back()
            raise JobError.unusable(self.path, cause_of(error)) from error
        return None

    def close(self) -> None:
        """Close the file, without what was not committed, and give back the space that it does
        not need.
        """
        self._roll_back()
        with suppress(sqlite3.Error):
            # execute() would free one page.
            self._db.executescript("PRAGMA incremental_vacuum")
        self._opened.close()

    def _read(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except FAILURES as error:
            raise JobError.unusable(self.path, cause_of(error)) from error

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
