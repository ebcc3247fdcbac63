"""The SQLite file of a crawl with a JOBDIR: its requests that are not done, the fingerprints of seen requests,
and the pauses and page counts of hosts.

A request stays in the file until its callback has ended. The end of the request is written in one transaction
with the requests that the callback has yielded and their fingerprints. So the process may be killed at any
moment, and the next run still has each request that was not done.

SQLite does not sync its write-ahead log at each transaction (``synchronous = NORMAL``). No transaction is lost
by ``kill -9``; a power failure may lose the last ones, but does not damage the file.
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
    application_id=0x52455051,  # "REPQ" in ASCII
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

# The stored rank of requests that were in flight when the last run ended. The file stores the negative of each rank,
# and the request with the lowest stored rank is popped first. _FRONT is lower than all other stored ranks, so these
# requests are popped before all other requests of their host.
_FRONT = -(2**63)
_MAX_RANK = 2**62

# The query for the next request of a host, and the statements for each kind of change.
_BEST = (
    "SELECT number, data, is_page FROM requests WHERE host = ? AND in_flight = 0 "
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

# The maximum number of seconds to wait while another program has locked the file.
_TIMEOUT = 1.0

# The length in bytes of the checksum that precedes the data of each request.
_CHECKSUM_BYTES = 4

# The estimated memory, in bytes, that a change takes until it is committed. The data of a request counts in addition.
_CHANGE_BYTES = 1_000


def _connected(path: Path, timeout: float) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, timeout=timeout, isolation_level=None))


def _with_checksum(data: bytes) -> bytes:
    return crc32(data).to_bytes(_CHECKSUM_BYTES, "big") + data


class JobFile:
    """The SQLite file with the queues of a crawl. In the methods, *host* is the text that identifies a queue. It can be
    any text.

    Changes are collected in memory. They are executed in an open transaction before the next request is
    read, and committed by :meth:`commit`. If the commit fails, all changes stay in memory, and the next
    commit executes them again.
    """

    def __init__(self, path: Path) -> None:
        """Open the file at *path*, and create the file and its folder if they are missing. Raises JobError if the file
        cannot be opened or created, is damaged, or is open in another crawl.
        """
        self.path = path
        self._changes: list[tuple[str, tuple[Any, ...]]] = []
        """The changes that wait for :meth:`commit`: SQL statements with their values."""

        self.waiting = 0
        """The estimated memory, in bytes, of the changes that wait for :meth:`commit`."""

        self._executed = 0
        """The number of changes that are already executed in the open transaction, but not committed. It is -1 after a
        change could not be executed. In this case, no change is executed until the next commit."""

        try:
            with ExitStack() as opened:
                path.parent.mkdir(parents=True, exist_ok=True)
                # A lock of SQLite on a second file keeps other crawls out. Every operating system releases the lock if
                # the process is killed.
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
        # has_tables() raises for a file of another version. It is called first, because the pragmas below write to
        # the file.
        if not has_tables(db, _SCHEMA):
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA cache_spill = OFF")
        prepare_file(db, _SCHEMA)
        self._check(db)
        db.execute(
            "UPDATE requests SET rank = ?, in_flight = 0 WHERE in_flight = 1", (_FRONT,)
        )
        [last] = db.execute("SELECT max(number) FROM requests").fetchone()
        self._last = self._last_of_earlier_runs = last or 0
        """Two numbers: ``_last`` is the number of the last request in the file, and ``_last_of_earlier_runs`` the
        number of the last request that an earlier run has added."""

    @staticmethod
    def _check(db: sqlite3.Connection) -> None:
        """Run the fast checks of the file. Raises DatabaseError if they find damage."""
        rows = db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        if {sql for (sql,) in rows} != {sql.strip() for sql in _SCHEMA.statements}:
            raise sqlite3.DatabaseError(
                "the tables of the file differ from those that scrapy-rep creates"
            )
        # integrity_check would take minutes for a large file, because it looks up each row in the index. Instead, the
        # numbers of rows in table and index are compared, which shows whether the index has lost rows.
        [damage] = db.execute("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
        rows = db.execute(
            "SELECT count(*) FROM requests NOT INDEXED WHERE in_flight = 0 UNION "
            "SELECT count(*) FROM requests INDEXED BY requests_in_order WHERE in_flight = 0"
        )
        if len(rows.fetchall()) > 1:
            raise sqlite3.DatabaseError("the index of the file lacks some requests")

    # The requests in the file.

    def hosts(self) -> list[tuple[str, int]]:
        """Return a pair for each host that has requests in the file: the host, and the number of its requests. Call
        this method before any request is popped: a popped request stays in the file until it is done, and would still
        be counted.
        """
        return self._read("SELECT host, count(*) FROM requests GROUP BY host")

    def best(self, host: str) -> tuple[int, bytes | None, bool]:
        """Return three values for the next request of *host*: its number, by which the file identifies it; its
        serialised data, or None if the checksum is wrong; and whether an earlier run has already counted it towards the
        maximum number of pages of its host (``REP_PAGES_PER_HOST``).

        Raises JobError if the file is damaged, or contains no request of *host*. Callers count the requests of each
        host, so a missing request means damage, too.
        """
        self.execute()
        rows = self._read(_BEST, host)
        if not rows:
            raise JobError.unusable(self.path, f"a request to {host} is missing in it")
        [(number, stored, is_page)] = rows
        data = stored[_CHECKSUM_BYTES:] if isinstance(stored, bytes) else b""
        is_whole = stored == _with_checksum(data)
        was_counted = is_page == 1 and number <= self._last_of_earlier_runs
        return number, data if is_whole else None, was_counted

    def pop(self, host: str) -> tuple[int, bytes | None, bool]:
        """Mark the next request of *host* as in flight, and return the same three values as :meth:`best`: the number of
        the request in the file, its data (None if the checksum is wrong), and whether an earlier run has already
        counted it towards ``REP_PAGES_PER_HOST``. Raises JobError if the file is damaged, or contains no request of
        *host*.
        """
        best = self.best(host)
        self._add_change(_POPPED, best[0])
        return best

    def add(
        self,
        host: str,
        data: bytes,
        rank: int,
        is_last_first: bool,
        *,
        is_counted: bool = False,
    ) -> None:
        """Add a request of *host*.

        :param data: the serialised request
        :param rank: requests with a higher rank are popped first
        :param is_last_first: whether the request is popped before earlier requests of the same rank (LIFO)
        :param is_counted: whether the request is a retry of a page that was already counted for ``REP_PAGES_PER_HOST``,
            or follows the redirect of such a page. If True, the next run does not count the page again
        """
        self._last = number = self._last + 1
        position = -number if is_last_first else number
        rank = -max(min(rank, _MAX_RANK), -_MAX_RANK)
        values = number, host, rank, position, int(is_counted), _with_checksum(data)
        self._add_change(_ADDED, *values)
        self.waiting += len(data)

    def done(self, number: int) -> None:
        """Remove the request with *number*, which was in flight."""
        self._add_change(_DONE, number)

    # Fingerprints, and the pauses and page counts of hosts.

    def seen(self) -> set[int]:
        """Return all fingerprints in the file."""
        return {number for (number,) in self._read("SELECT fingerprint FROM seen")}

    def add_seen(self, fingerprint: int) -> None:
        """Add *fingerprint*, a signed integer of 64 bits."""
        self._add_change(_SEEN, fingerprint)

    def pauses(self, now: float) -> list[tuple[str, float]]:
        """Return a pair for each host or download slot that is still paused: its key, and the remaining seconds of the
        pause. Delete the pauses that have ended. *now* is the wall-clock time.
        """
        self._add_change("DELETE FROM pauses WHERE until <= ?", now)
        return self._read(
            "SELECT scope, min(until - ?, seconds) FROM pauses WHERE until > ?",
            now,
            now,
        )

    def pages(self) -> dict[str, int]:
        """Return the number of pages that earlier runs have counted for ``REP_PAGES_PER_HOST``, by host."""
        return dict(self._read("SELECT host, number FROM pages"))

    def note_page(self, number: int | None, host: str, change: int) -> None:
        """Add *change* (1 or -1) to the page count of *host*. Also store whether the request that caused the change
        counts as a page. *number* is the number of this request in the file; None if the request is not in the file.
        """
        self._add_change(_PAGES, host, change)
        if number is not None:
            self._add_change(_PAGE, int(change > 0), number)

    def note_pause(self, scope: str, until: float, seconds: float) -> None:
        """Store a pause of a host or download slot (*scope*).

        *until* is the wall-clock time at which the pause ends. *seconds* is the time from now until the pause ends.
        """
        # The next run pauses until *until*, but for at most *seconds*. So the pause does not become longer if the clock
        # of the machine is set back between the runs.
        self._add_change(_PAUSED, scope, until, seconds)

    # Executing and committing the waiting changes.

    def _add_change(self, statement: str, *values: Any) -> None:
        self._changes.append((statement, values))
        self.waiting += _CHANGE_BYTES

    def execute(self) -> bool:
        """Execute all waiting changes, so that :meth:`best` and :meth:`pop` see them, and return True. Raises JobError
        if the file is damaged.

        If SQLite cannot execute a change, roll all changes back, keep them waiting, and return False. After this
        failure, do nothing and return False until :meth:`commit` has executed the waiting changes.
        """
        if 0 <= self._executed < len(self._changes):
            self._execute()
        return self._executed >= 0

    def commit(self) -> sqlite3.Error | None:
        """Commit all waiting changes in one transaction, and return None. If the commit fails, return the error; the
        changes then wait for the next commit. Raises JobError if the file is damaged.
        """
        self._executed = max(self._executed, 0)
        error = self._execute("COMMIT")
        if error is None:
            self._changes.clear()
            self.waiting = self._executed = 0
        return error

    def _execute(self, *ends: str) -> sqlite3.Error | None:
        """Execute the changes that are not yet in the open transaction, and then the statements *ends*, such as COMMIT.
        Return None on success. If SQLite cannot execute a statement, roll the transaction back, and return the error.
        Raises JobError if the file is damaged.
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
            # The rollback has undone all changes. If only the COMMIT failed, for example because the disk is full, set
            # _executed to 0: execute() then executes all changes again before the next read, so that the read sees
            # them. If a change itself failed, it would probably fail again, so set _executed to -1: until the next
            # commit, the changes are not executed again, and reads do not see them.
            self._executed = 0 if self._executed == len(changes) else -1
            return error
        except FAILURES as error:
            self._roll_back()
            raise JobError.unusable(self.path, cause_of(error)) from error
        return None

    def close(self) -> None:
        """Discard uncommitted changes, free the unused pages of the file, and close the file."""
        self._roll_back()
        with suppress(sqlite3.Error):
            # executescript() runs the pragma to its end; execute() would free only one page.
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
