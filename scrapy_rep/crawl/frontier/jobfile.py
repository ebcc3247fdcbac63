"""The file of a crawl with a JOBDIR: its requests that are not done, what it has seen, and the pauses
of hosts.

A request is in the file until its callback has ended. What the callback yields, the fingerprints of
that, and the end of the request are written in one transaction. So the process may be killed at any
moment: the next run has all requests that were not done.

SQLite's write-ahead log is not synced at each transaction (``synchronous = NORMAL``): ``kill -9``
loses no transaction; a power cut may lose the last ones, and leaves the file whole.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple
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
    from collections.abc import Iterator
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
            data BLOB NOT NULL
        )
        """,
        "CREATE INDEX requests_in_order ON requests (host, rank, position) WHERE in_flight = 0",
        "CREATE TABLE seen (fingerprint INTEGER NOT NULL)",
        """
        CREATE TABLE pauses (
            scope TEXT PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL
        )
        """,
    ),
)

# What was in flight when a process ended is popped before all other requests of its host.
_FRONT = -(2**63)
_MAX_RANK = 2**62
_FIRST = (_FRONT, _FRONT)

# The seconds to wait for another program that has locked the file.
_TIMEOUT = 1.0

# The bytes of the checksum before each request.
_CHECKSUM = 4


class SavedRequest(NamedTuple):
    """A request in its queue. The one that is less than the others is popped first."""

    rank: int
    position: int
    number: int
    stored: bytes
    """The checksum, and the data."""

    @property
    def data(self) -> bytes | None:
        """The data as it was added; None if it was damaged since."""
        if not isinstance(self.stored, bytes):
            return None
        data = self.stored[_CHECKSUM:]
        is_whole = self.stored[:_CHECKSUM] == crc32(data).to_bytes(_CHECKSUM, "big")
        return data if is_whole else None


def _saved_request(rank: int, position: int, number: int, data: bytes) -> SavedRequest:
    rank = -max(min(rank, _MAX_RANK), -_MAX_RANK)
    return SavedRequest(
        rank, position, number, crc32(data).to_bytes(_CHECKSUM, "big") + data
    )


class JobFile:
    """Keeps requests by host. All changes wait in memory for :meth:`commit`.

    Other classes decide what a host, a rank, a position and a fingerprint are.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file at *path*, and its folder. Raises JobError if that fails, if another crawl has
        opened it, or if it is damaged.
        """
        self.path = path
        self._new: dict[int, tuple[str, SavedRequest]] = {}
        self._waiting: dict[str, list[SavedRequest]] = {}
        """Those of the new requests that were not popped, as a heap for each host."""

        self._seen: list[int] = []
        self._pauses: dict[str, tuple[float, float]] = {}
        self._offered: tuple[object, int] = None, 0
        self._popped: set[int] = set()
        """The requests that were popped since the last commit."""

        self._after: dict[str, tuple[int, int]] = {}
        """The rank and position of the last of them from the file, by host."""

        self._done: set[int] = set()
        self.in_flight: dict[object, int] = {}
        """The popped requests that are not done, by what they were read as: the arguments for
        :meth:`done`."""

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite frees the lock of a process that was killed, on each operating system.
            self._lock = sqlite3.connect(path.with_name("lock"), timeout=0)
            self._lock.isolation_level = None
            try:
                self._lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise JobError.in_use(path.parent) from None
                raise
            self._db = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None)
            self._open()
        except (*FAILURES, ForeignFile, OSError) as error:
            self._close()
            raise JobError.unusable(path, cause_of(error)) from error
        except JobError:
            self._close()
            raise

    def _open(self) -> None:
        db = self._db
        if not has_tables(db, _SCHEMA):  # It would write to a file of another version.
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        prepare_file(db, _SCHEMA)
        self._check(db)
        db.execute(
            "UPDATE requests SET rank = ?, in_flight = 0 WHERE in_flight = 1", (_FRONT,)
        )
        [last] = db.execute("SELECT max(number) FROM requests").fetchone()
        self._last = last or 0

    @staticmethod
    def _check(db: sqlite3.Connection) -> None:
        """Raise DatabaseError if the file is damaged."""
        rows = db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        if {sql for (sql,) in rows} != {each.strip() for each in _SCHEMA.statements}:
            raise sqlite3.DatabaseError("its tables were changed")
        # A full integrity_check looks each row up in the index, which takes minutes for a large
        # file. That as many are there finds an index that has lost some.
        [found] = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        rows = db.execute(
            "SELECT count(*) FROM requests NOT INDEXED WHERE in_flight = 0 UNION "
            "SELECT count(*) FROM requests INDEXED BY requests_in_order WHERE in_flight = 0"
        )
        if len(rows.fetchall()) > 1:
            raise sqlite3.DatabaseError("its index does not have each request")

    # Requests.

    def is_empty(self) -> bool:
        """Whether no request is in the file, nor waits for :meth:`commit`."""
        return not self._new and not self._read("SELECT 1 FROM requests LIMIT 1")

    def hosts(self) -> list[tuple[str, int]]:
        """Return each host that has requests in the file, with their number, after the file was
        opened.
        """
        return self._read("SELECT host, count(*) FROM requests GROUP BY host")

    def best(self, host: str, count: int) -> SavedRequest:
        """Return the best request of *host*, of which *count* wait, in the file or for
        :meth:`commit`.
        """
        new = self._waiting.get(host, [])
        if len(new) == count:
            return new[0]
        saved = self._best_in_file(host)
        return min(saved, new[0]) if new else saved

    def pop(self, host: str, count: int) -> SavedRequest:
        """Return the best request of *host*, of which *count* wait: it is in flight then."""
        best, new = self.best(host, count), self._waiting.get(host)
        if new and new[0] is best:
            heappop(new)
        else:
            self._after[host] = best.rank, best.position
        self._popped.add(best.number)
        return best

    def _best_in_file(self, host: str) -> SavedRequest:
        with self._errors():
            rows = self._db.execute(
                "SELECT rank, position, number, data FROM requests "
                "WHERE host = ? AND in_flight = 0 AND (rank, position) > (?, ?) "
                "ORDER BY rank, position LIMIT 1",
                (host, *self._after.get(host, _FIRST)),
            )
            found = rows.fetchone()
        if found is None:
            raise JobError.unusable(self.path, f"it has no request of {host}")
        return SavedRequest(*found)

    def add(self, host: str, rank: int, data: bytes, is_last_first: bool) -> None:
        """Add a request of *host*. Requests with a higher *rank* are popped first. If it
        *is_last_first*, it is popped before those of its rank that were added before it.
        """
        self._last = number = self._last + 1
        position = -number if is_last_first else number
        saved = _saved_request(rank, position, number, data)
        self._new[number] = host, saved
        heappush(self._waiting.setdefault(host, []), saved)

    def done(self, number: int) -> None:
        """Remove a request that was in flight."""
        if self._new.pop(number, None) is None:
            self._done.add(number)

    # What was seen.

    def seen(self) -> set[int]:
        """Return the fingerprints in the file."""
        return {number for (number,) in self._read("SELECT fingerprint FROM seen")}

    def offer(self, request: object, fingerprint: int) -> None:
        """Note the fingerprint of a request that is new, and may be added next: a whole number of
        64 bits, with sign.
        """
        self._offered = request, fingerprint

    def add_offered(self, request: object) -> None:
        """Add the fingerprint that was noted for *request*, if there is one."""
        if self._offered[0] is request:
            self._seen.append(self._offered[1])
            self._offered = None, 0

    # Pauses.

    def pauses(self, now: float) -> list[tuple[str, float]]:
        """Return each scope that is to pause, with the seconds from *now* on, by the wall clock. Forget
        the pauses that are over.
        """
        rows = self._read("SELECT scope, until, seconds FROM pauses")
        with self._errors():
            left = [(scope, min(until - now, time)) for scope, until, time in rows]
            found = [(str(scope), seconds) for scope, seconds in left if seconds > 0]
        with suppress(
            sqlite3.OperationalError
        ):  # A full disk: they are forgotten later.
            self._db.execute("DELETE FROM pauses WHERE until <= ?", (now,))
        return found

    def note_pause(self, scope: str, until: float, seconds: float) -> None:
        """Note that *scope* pauses until a time by the wall clock, in *seconds*."""
        self._pauses[scope] = until, seconds

    # Transactions.

    @property
    def changes(self) -> int:
        """The changes that wait for :meth:`commit`."""
        return len(self._new) + len(self._seen) + len(self._done) + len(self._pauses)

    def commit(self) -> sqlite3.Error | None:
        """Write all changes in one transaction. Return the error if that fails: then they are
        still waiting. Raises JobError if the file is damaged.
        """
        db = self._db
        changes: dict[str, list[Any]] = {
            "INSERT INTO requests (host, rank, position, number, data) VALUES (?, ?, ?, ?, ?)": [
                (host, *saved) for host, saved in self._new.values()
            ],
            "INSERT INTO seen VALUES (?)": list(zip(self._seen)),
            "UPDATE requests SET in_flight = 1 WHERE number = ?": list(
                zip(self._popped - self._done)
            ),
            "INSERT OR REPLACE INTO pauses VALUES (?, ?, ?)": [
                (scope, *pause) for scope, pause in self._pauses.items()
            ],
            "DELETE FROM requests WHERE number = ?": list(zip(self._done)),
        }
        try:
            db.execute("BEGIN IMMEDIATE")
            for statement, rows in changes.items():
                if rows:
                    db.executemany(statement, rows)
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._roll_back()
            return error
        except FAILURES as error:
            self._roll_back()
            raise JobError.unusable(self.path, cause_of(error)) from error
        for each in (self._new, self._waiting, self._seen, self._popped, self._done):
            each.clear()
        self._after.clear()
        self._pauses.clear()
        return None

    def close(self) -> None:
        """Close the file, without what was not committed, and give back the space that it does
        not need.
        """
        with suppress(sqlite3.Error):
            # execute() would free one page.
            self._db.executescript("PRAGMA incremental_vacuum")
        self._close()

    def _read(self, statement: str) -> list[Any]:
        with self._errors():
            return self._db.execute(statement).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise JobError in place of the errors of a damaged file."""
        try:
            yield
        except (*FAILURES, TypeError, ValueError) as error:
            raise JobError.unusable(self.path, cause_of(error)) from error

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def _close(self) -> None:
        for name in ("_db", "_lock"):
            if hasattr(self, name):
                getattr(self, name).close()
