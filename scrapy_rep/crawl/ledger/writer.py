"""The writer of a ledger, which writes to the file in threads, so that a slow disk does not block the crawl."""

from __future__ import annotations

import errno
import json
import sqlite3
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from scrapy_rep.base.records import storable, url_text
from scrapy_rep.base.sqlitefile import ForeignFile, identity, prepare_file
from scrapy_rep.crawl.ledger.reader import SCHEMA
from scrapy_rep.exceptions import LedgerError
from scrapy_rep.protocol.access.entries import State
from scrapy_rep.protocol.access.results import Access
from scrapy_rep.protocol.text import without_credentials
from scrapy_rep.record import Record

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import TypeAlias

    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.dialect import Dialect

    # The rows to write, by the name of their table.
    _Rows: TypeAlias = dict[str, list[tuple[Any, ...]]]

# How many seconds the end of a crawl waits for the last records to be written.
_CLOSE_TIMEOUT = 10.0

# How many seconds to wait for the lock of the file while another process writes to it.
_LOCK_TIMEOUT = 5.0

# The limit for rows in memory, in bytes, and the estimated memory of a row without its texts.
_MAX_WAITING = 32 * 1024 * 1024
_ROW_BYTES = 600


# The bytes of the file that are read at once for the digest.
_CHUNK = 1024 * 1024

_CRAWL = (
    "INSERT INTO crawl (uuid, spider, user_agent, agents, dialect, settings, versions, started)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_END = "UPDATE crawl SET ended = ?, finish_reason = ?, counts = ? WHERE id = ?"

# The columns to write in each table, without the ID of the crawl. Tables are written in this order, since later
# ones refer to earlier ones. _CONFLICTS says what happens if a row with the same key exists: it is kept, or the
# counts of the new row are added to it.
_COLUMNS = {
    "body": ("sha256", "body"),
    "snapshot": (
        "origin", "url", "redirects", "access", "status", "error", "is_page", "headers", "fetched",
        "expires", "copy_of", "sha256",
    ),
    "decision": Record._fields,
    "traffic": ("origin", "hour", "pages", "bytes"),
    "gap": ("origin", "kind", "time", "asked", "gap"),
    "progress": ("minute", "pages", "waiting"),
}  # fmt: skip
_CONFLICTS = {
    "body": "DO NOTHING",
    "snapshot": "DO NOTHING",
    "traffic": "DO UPDATE SET pages = pages + excluded.pages, bytes = bytes + excluded.bytes",
    "progress": "DO UPDATE SET pages = pages + excluded.pages,"
    " waiting = max(coalesce(waiting, 0), coalesce(excluded.waiting, waiting))",
}

_RECORDS = "snapshot", "decision"
"""The tables with records. Only their rows are included in the counts ``recorded`` and ``dropped``."""

# Failures that may pass, so that it is worth trying again: parts of messages of SQLite, and error numbers of the
# system.
_TRANSIENT = ("full", "locked", "I/O")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


# The exact types of errors that concern the whole file. Any other type, even a subclass of these, means that
# SQLite cannot store a value.
_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.DatabaseError)


# Opening and closing the file of a ledger.


def prepare(path: Path) -> None:
    """Check, before a crawl starts, that a ledger can be written at *path*; create the file if it is missing.

    Raises LedgerError if the file is not a ledger or cannot be created. A full disk or a locked file raises
    nothing, since the failure may pass, and the writer tries again.
    """
    try:
        open_to_write(path).close()
    except sqlite3.Error as error:
        if not any(words in str(error) for words in _TRANSIENT):
            raise LedgerError(str(path), error) from None
    except ValueError as error:  # Raised for a path with a NUL or a lone surrogate.
        raise LedgerError(str(path), error) from None
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise LedgerError(str(path), error.strerror) from None


def open_to_write(path: Path) -> sqlite3.Connection:
    """Return a connection for writing to the ledger at *path*. Create the file if it is missing, and its folder
    too, but not the parent of the folder.

    Raises LedgerError, and changes nothing, if the file is not a ledger of this version; sqlite3.Error or
    OSError if the file cannot be opened.
    """
    path.parent.mkdir(exist_ok=True)
    # Opened once without SQLite, for the error message of the system: SQLite does not say why it cannot open a file.
    with path.open("ab"):
        pass
    connection = sqlite3.connect(
        # No check, since several threads use the connection, but one after the other.
        path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    try:
        # Each transaction is synced to the disk, which is cheap here: there is about one in a second.
        prepare_file(connection, SCHEMA, synchronous="FULL")
    except BaseException as error:
        connection.close()
        if isinstance(error, ForeignFile):
            raise LedgerError(str(path), error) from None
        raise
    return connection


def close_and_merge_log(connection: sqlite3.Connection) -> bool:
    """Close a ledger, and merge its write-ahead log into the file, so that the file is complete alone, and can be
    read even in a read-only folder. Return whether the merge succeeded: it fails while another process has
    the file open.
    """
    is_merged = False
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        [mode] = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        is_merged = mode == "delete"
    connection.close()
    return is_merged


# The row of a robots.txt in the ledger.


def snapshot(
    origin: str, entry: CacheEntry, dialect: Dialect
) -> tuple[tuple[Any, ...], bytes | None]:
    """Return the row of the table ``snapshot`` for a robots.txt, and the body with the rules that are obeyed.
    The body is None if no rules are obeyed, for example because the file is missing.
    """
    result, answer, body = entry.result, entry.answer(dialect), None
    if answer is not None and answer.access is Access.SUCCESSFUL:
        # Parsers ignore what is above the size limit; one byte of it shows that the file was longer.
        body = answer.body[: dialect.size_limit + 1]
    headers = [(storable(name), storable(value)) for name, value in result.headers]
    is_stale = entry.state(dialect) is State.STALE
    row = (
        origin,
        url_text(result.url),
        json.dumps([url_text(url) for url in result.redirects]),
        str(result.access),
        result.status,
        storable(without_credentials(result.error)) or None,
        int(result.is_html),
        json.dumps(headers),
        entry.fetched,
        entry.expires,
        entry.copy_fetched if is_stale else None,
        None if body is None else sha256(body).hexdigest(),
    )
    return row, body


class LedgerWriter:
    """Collects the rows of a crawl in memory. :meth:`flush` writes them to the ledger at *path*, in one
    transaction and in a thread.

    No method raises. ``errors`` counts failed writes, ``error`` is the last error, and the next flush tries
    again. ``recorded`` counts written records (snapshots and decisions), ``dropped`` those that are lost:
    they exceed the memory limit, cannot be written before the end of the crawl, or have a value that SQLite
    cannot store.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.errors = self.recorded = self.dropped = 0
        self.error: Exception | None = None
        # Absolute, since the process may change its working directory.
        self._path = Path(path).absolute()
        self._crawl: tuple[Any, ...] = ()
        self._crawl_id: int | None = None
        self._lock = Lock()
        """Protects the rows and counts, which the event loop and the thread both change."""
        self._rows = _no_rows()
        self._batch = _no_rows()
        """The rows of the current transaction. If it fails, they stay here for the next one."""
        self._weight = self._batch_weight = 0
        """The estimated memory of all rows, and of the rows in the batch, in bytes."""
        self._is_done = True
        """Whether the transaction of the batch has succeeded."""
        self._unwritable = 0
        """The number of records in the batch that SQLite cannot store."""
        self._thread = Thread()
        """The thread that writes, or wrote last."""
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._is_closed = False
        """Whether the file is complete: the end of the crawl is written, and the write-ahead log merged."""
        self._has_ended = False
        """Whether writing has ended. Rows that come later are dropped."""

    def start(self, crawl: tuple[Any, ...]) -> None:
        """Start to write a crawl to the ledger. *crawl* is its row for the table ``crawl``, from ``uuid`` to
        ``started``.
        """
        self._crawl = crawl
        self.flush()

    def write(self, table: str, row: tuple[Any, ...], size: int = 0) -> None:
        """Add a row of *table* to the next flush; drop it if the memory limit is reached. *size* is the length of
        its long values.
        """
        with self._lock:
            weight = self._weight + _ROW_BYTES + size
            if weight > _MAX_WAITING or self._has_ended:
                self.dropped += table in _RECORDS
            else:
                self._weight = weight
                self._rows[table].append(row)

    def write_snapshot(self, origin: str, entry: CacheEntry, dialect: Dialect) -> None:
        """Write the robots.txt of *origin* that was fetched, or loaded from a store, with its body."""
        row, body = snapshot(origin, entry, dialect)
        if body is not None:
            self.write("body", (row[-1], body), len(body))
        self.write("snapshot", row)

    def write_decision(self, record: Record) -> None:
        """Write the *record* of a decision."""
        texts = record.url, record.page, record.statement, record.form, record.via
        self.write("decision", record, sum(map(len, filter(None, texts))))

    def flush(self) -> None:
        """Start a thread that writes all rows to the file, unless the last thread is still writing."""
        if self._thread.is_alive():
            return
        self._take()
        if self._crawl_id is None or self._weight:
            self._start(self._write)

    def close(self, end: tuple[Any, ...]) -> None:
        """Write the remaining rows and the *end* of the crawl (its time, its reason and its counts). Rows that
        are added during this call are written too.

        Blocks for 10 seconds at most. Records that are not written by then count as dropped, although the
        thread goes on to write them while the process lives.
        """
        self._start(self._write_end, self._thread, end)
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT)
        if not self._thread.is_alive():
            self._has_ended = True
            self._take()
        with self._lock:
            self.dropped += _count(self._batch) + _count(self._rows)

    def digest(self) -> str | None:
        """Return the SHA-256 of the file in hex, after :meth:`close`. Return None if the file is incomplete,
        because a write has failed or another process has the file open.
        """
        if not self._is_closed:
            return None
        digest = sha256()
        with suppress(OSError), self._path.open("rb") as file:
            while part := file.read(_CHUNK):
                digest.update(part)
            return digest.hexdigest()
        return None

    def _start(self, write: Callable[..., None], *args: Any) -> None:
        # A daemon thread, so that the process can exit while a disk hangs.
        thread = Thread(target=write, args=args, name="ledger", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # The system cannot start another thread.
            self.error = error
            self.errors += 1
        else:
            self._thread = thread

    def _take(self) -> None:
        """Prepare the batch for the next transaction. If the last transaction has succeeded, count its records
        and empty the batch. Then move all new rows into the batch.
        """
        with self._lock:
            if self._is_done:
                self.recorded += _count(self._batch) - self._unwritable
                self.dropped += self._unwritable
                self._weight -= self._batch_weight
                self._batch, self._is_done = _no_rows(), False
            for table, rows in self._rows.items():
                self._batch[table] += rows
            self._rows, self._batch_weight = _no_rows(), self._weight

    # The methods below run in the writing thread, not in the event loop.

    def _write_end(self, before: Thread, end: tuple[Any, ...]) -> None:
        """Wait for the thread *before*; then write the remaining rows and the *end* of the crawl. Repeat that
        while new rows come, since other handlers of ``spider_closed`` may still add some.
        """
        if before.is_alive():
            before.join()
        while not self._has_ended:
            self._take()
            self._write(end)
            with self._lock:
                has_more = any(self._rows.values())
                self._has_ended = not (self._is_done and has_more)

    def _write(self, end: tuple[Any, ...] | None = None) -> None:
        """Write the batch, and the *end* of the crawl if it is given. Note an error; never raise it."""
        try:
            connection = self._connected()
            error = self._commit(connection, end)
        except Exception as failure:  # noqa: BLE001  no error of the ledger may stop the crawl
            error = failure
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()  # Also rolls the transaction back.
                self._connection = None
        else:
            self._is_done = True
            if end is not None:
                self._connection = None
                self._is_closed = close_and_merge_log(connection)
        if error is not None:
            self.error = error
            self.errors += 1

    def _commit(
        self, connection: sqlite3.Connection, end: tuple[Any, ...] | None
    ) -> Exception | None:
        """Write the batch, and the *end* of the crawl if it is given, in one transaction. If SQLite cannot store
        a value, skip its row, and return the error. Raises an error of the whole file.
        """
        failure, self._unwritable = None, 0
        # IMMEDIATE takes the write lock now, and waits for it. With a plain BEGIN, the first INSERT would fail at
        # once if another process had written in between.
        connection.execute("BEGIN IMMEDIATE")
        crawl = self._crawl_id or connection.execute(_CRAWL, self._crawl).lastrowid
        assert crawl is not None
        for table, rows in self._batch.items():
            statement = _insert(table, crawl)
            for row in rows:
                try:
                    connection.execute(statement, row)
                except Exception as error:
                    # Some errors roll the transaction back; all of its rows must then be written again.
                    if type(error) in _FILE_ERRORS or not connection.in_transaction:
                        raise
                    failure = error
                    self._unwritable += table in _RECORDS
        if end is not None:
            connection.execute(_END, (*end, crawl))
        connection.execute("COMMIT")
        self._crawl_id = crawl
        return failure

    def _connected(self) -> sqlite3.Connection:
        # SQLite does not notice that its file was removed, and continues to write to it. If a new file is created
        # at the same path, it takes over the write-ahead log of the old one, and is corrupt.
        if self._file is not None and identity(self._path) != self._file:
            raise FileNotFoundError("the file was moved or removed")
        if self._connection is None:
            self._connection = open_to_write(self._path)
            self._file = identity(self._path)
        return self._connection


def _no_rows() -> _Rows:
    return {table: [] for table in _COLUMNS}


def _count(rows: _Rows) -> int:
    return sum(len(rows[table]) for table in _RECORDS)


@cache
def _insert(table: str, crawl: int) -> str:
    """Return the SQL statement that inserts a row into *table*. A decision refers to its robots.txt by the time of
    its fetch, for which the statement looks up the ID of the snapshot.
    """
    # Numbered parameters, because the origin is used twice: as a column, and to find the snapshot.
    values = {name: f"?{number}" for number, name in enumerate(_COLUMNS[table], 1)}
    if table == "decision":
        snapshot_id = (
            f"(SELECT id FROM snapshot WHERE crawl = {crawl}"  # noqa: S608
            f" AND origin = {values['origin']} AND fetched = {values.pop('fetched')})"
        )
        values["snapshot"] = snapshot_id
    if table != "body":
        values["crawl"] = str(crawl)
    conflict = f" ON CONFLICT {_CONFLICTS[table]}" if table in _CONFLICTS else ""
    return (
        f"INSERT INTO {table} ({', '.join(values)})"  # noqa: S608
        f" VALUES ({', '.join(values.values())}){conflict}"
    )
