"""The writer of a ledger. It writes to the file in threads, so that a slow disk does not block the crawl."""

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

    # The rows to write. The keys are the names of the tables.
    _Rows: TypeAlias = dict[str, list[tuple[Any, ...]]]

# The maximum time in seconds that a closing crawl waits for its last records to be written.
_CLOSE_TIMEOUT = 10.0

# The maximum time in seconds to wait for the lock of the file while another process writes to the file.
_LOCK_TIMEOUT = 5.0

# The maximum estimated memory of the waiting rows, in bytes. Further rows are dropped.
_MAX_WAITING = 32 * 1024 * 1024
# The estimated memory of a row without its texts, in bytes.
_ROW_BYTES = 600


# The number of bytes of the ledger that digest() reads at a time, to compute the SHA-256 of the file.
_CHUNK = 1024 * 1024

_CRAWL = (
    "INSERT INTO crawl (uuid, spider, user_agent, agents, dialect, settings, versions, started)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_END = "UPDATE crawl SET ended = ?, finish_reason = ?, counts = ? WHERE id = ?"

# The columns to write in each table, without the ID of the crawl. The tables are written in this order, since rows of
# later tables refer to rows of earlier tables. If a row with the same key exists, _CONFLICTS applies: the existing row
# is kept, or the counts of the new row are added to it.
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

_COUNTED_TABLES = "snapshot", "decision"
"""The tables whose rows are counted in ``recorded`` and ``dropped``. Rows of other tables are not counted."""

# These failures can be temporary, so a crawl starts in spite of them, and the writer tries again. They are errors of
# SQLite whose message contains one of the words in _TRANSIENT, and errors of the operating system whose number is in
# _NO_ROOM.
_TRANSIENT = ("full", "locked", "I/O")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


# An error affects the whole file if its type is exactly one of these classes. An error of another type, such as their
# subclass IntegrityError, means only that SQLite cannot store a value of the row.
_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.DatabaseError)


# Opening and closing the file of a ledger.


def prepare(path: Path) -> None:
    """Check, before a crawl starts, that a ledger can be written at *path*. Create the file if it is missing.

    Raises LedgerError if the file is not a ledger or cannot be created. But if the disk is full, the file is locked, or
    the disk has an I/O error, no exception is raised, since the failure may be temporary, and the writer tries again.
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
    """Return a connection for writing to the ledger at *path*. A missing file is created, and a missing folder too, but
    not a missing parent of the folder.

    Raises LedgerError if the file is not a ledger of this version; the file is then left unchanged. Raises
    sqlite3.Error or OSError if the file cannot be opened.
    """
    path.parent.mkdir(exist_ok=True)
    # The file is first opened without SQLite. If this fails, the error contains the system's reason, which an error of
    # SQLite would not contain.
    with path.open("ab"):
        pass
    connection = sqlite3.connect(
        # check_same_thread is off, since several threads use the connection, one after the other.
        path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    try:
        # Each transaction is synced to the disk. This is cheap, since there is about one transaction per second.
        prepare_file(connection, SCHEMA, synchronous="FULL")
    except BaseException as error:
        connection.close()
        if isinstance(error, ForeignFile):
            raise LedgerError(str(path), error) from None
        raise
    return connection


def close_and_merge_log(connection: sqlite3.Connection) -> bool:
    """Merge the write-ahead log of a ledger into its file, and close the ledger. Return whether the merge succeeded.
    The merge fails while another process has the file open.

    After the merge, the file is complete without the log, and can be read in a read-only folder.
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
    """Return the row of the table ``snapshot`` for the robots.txt in *entry*, and the body of the robots.txt that the
    crawl obeys. If the last fetch failed, this can be the body of an older copy. The body is None if the crawl obeys no
    robots.txt, for example because the file is missing.
    """
    result, answer, body = entry.result, entry.answer(dialect), None
    if answer is not None and answer.access is Access.SUCCESSFUL:
        # Parsers ignore bytes above the size limit. One more byte is kept to show that the file was longer.
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
    """Collects the rows of a crawl in memory. :meth:`flush` writes them to the ledger at *path*, in one transaction in
    a separate thread.

    No method raises an exception. If a write fails, the next flush tries to write the rows again. ``errors`` is the
    number of failed writes, and ``error`` is the last error. ``recorded`` is the number of written records (snapshots
    and decisions). ``dropped`` is the number of lost records. Records are lost if they exceed the memory limit, if they
    cannot be written before the crawl ends, or if SQLite cannot store one of their values.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.errors = self.recorded = self.dropped = 0
        self.error: Exception | None = None
        # The path is made absolute, since the process may change its working directory.
        self._path = Path(path).absolute()
        self._crawl: tuple[Any, ...] = ()
        self._crawl_id: int | None = None
        self._lock = Lock()
        """Protects the rows and counts, which both the event loop and the writing thread change."""
        self._rows = _no_rows()
        self._batch = _no_rows()
        """The rows of the current transaction. If the transaction fails, they stay here for the next transaction."""
        self._weight = self._batch_weight = 0
        """Two estimates of memory in bytes: of all rows that are not written yet, and of the rows in the batch."""
        self._is_batch_written = True
        """Whether the rows in the batch are in the file. True before the first batch."""
        self._unwritable = 0
        """The number of records in the batch that SQLite cannot store."""
        self._thread = Thread()
        """The thread that is writing, or that wrote last."""
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._is_closed = False
        """Whether the file is complete: the end of the crawl is written, and the write-ahead log is merged into the
        file."""
        self._has_ended = False
        """Whether writing has ended. Rows that are added later are dropped."""

    def start(self, crawl: tuple[Any, ...]) -> None:
        """Start to write a crawl to the ledger. *crawl* contains the values of its row in the table ``crawl``, for the
        columns from ``uuid`` to ``started``.
        """
        self._crawl = crawl
        self.flush()

    def write(self, table: str, row: tuple[Any, ...], size: int = 0) -> None:
        """Add *row* to the rows of *table* that the next :meth:`flush` writes. Drop *row* if the memory limit is
        reached, or if :meth:`close` has already written the end of the crawl. *size* is the total length of the long
        values in *row*, from which the memory is estimated.
        """
        with self._lock:
            weight = self._weight + _ROW_BYTES + size
            if weight > _MAX_WAITING or self._has_ended:
                self.dropped += table in _COUNTED_TABLES
            else:
                self._weight = weight
                self._rows[table].append(row)

    def write_snapshot(self, origin: str, entry: CacheEntry, dialect: Dialect) -> None:
        """Add the robots.txt of *origin*, including its body, to the rows of the next flush. *entry* contains the
        robots.txt, which was fetched or loaded from a store.
        """
        row, body = snapshot(origin, entry, dialect)
        if body is not None:
            self.write("body", (row[-1], body), len(body))
        self.write("snapshot", row)

    def write_decision(self, record: Record) -> None:
        """Add the *record* of a decision to the rows of the next flush."""
        texts = record.url, record.page, record.statement, record.form, record.via
        self.write("decision", record, sum(map(len, filter(None, texts))))

    def flush(self) -> None:
        """Start a thread that writes all collected rows to the file. Do nothing if the last thread is still writing."""
        if self._thread.is_alive():
            return
        self._take()
        if self._crawl_id is None or self._weight:
            self._start(self._write)

    def close(self, end: tuple[Any, ...]) -> None:
        """Write the remaining rows, and *end*: a tuple of the time at which the crawl ended, its finish reason, and its
        stats in JSON. Rows that are added during this call are written too.

        This method blocks for at most 10 seconds. Rows that are not written by then are counted as dropped. The writing
        thread can still write these rows before the process exits.
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
        """Return the SHA-256 digest of the file in hexadecimal. Return None if the file is incomplete, because
        :meth:`close` was not called yet, a write failed, or another process has the file open.
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
        # The thread is a daemon, so that the process can exit while the disk hangs.
        thread = Thread(target=write, args=args, name="ledger", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # The system cannot start another thread.
            self.error = error
            self.errors += 1
        else:
            self._thread = thread

    def _take(self) -> None:
        """Prepare the batch for the next transaction. If the last transaction succeeded, add the number of its records
        to ``recorded``, and empty the batch. Then move all new rows into the batch.
        """
        with self._lock:
            if self._is_batch_written:
                self.recorded += _count(self._batch) - self._unwritable
                self.dropped += self._unwritable
                self._weight -= self._batch_weight
                self._batch, self._is_batch_written = _no_rows(), False
            for table, rows in self._rows.items():
                self._batch[table] += rows
            self._rows, self._batch_weight = _no_rows(), self._weight

    # The methods below run in the writing thread, not in the event loop.

    def _write_end(self, last_thread: Thread, end: tuple[Any, ...]) -> None:
        """Wait until *last_thread* has ended. Then write the remaining rows and *end* (see :meth:`close`). If rows are
        added during the write, for example by handlers of ``spider_closed``, write again. If a write fails, stop.
        """
        if last_thread.is_alive():
            last_thread.join()
        while not self._has_ended:
            self._take()
            self._write(end)
            with self._lock:
                has_more = any(self._rows.values())
                self._has_ended = not (self._is_batch_written and has_more)

    def _write(self, end: tuple[Any, ...] | None = None) -> None:
        """Write the batch, and the *end* of the crawl if it is not None. Errors are stored in ``error`` instead of
        being raised.
        """
        try:
            connection = self._connected()
            error = self._commit(connection, end)
        except Exception as failure:  # noqa: BLE001  no error of the ledger may stop the crawl
            error = failure
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()  # This also rolls back the transaction.
                self._connection = None
        else:
            self._is_batch_written = True
            if end is not None:
                self._connection = None
                self._is_closed = close_and_merge_log(connection)
        if error is not None:
            self.error = error
            self.errors += 1

    def _commit(
        self, connection: sqlite3.Connection, end: tuple[Any, ...] | None
    ) -> Exception | None:
        """Write the batch, and the *end* of the crawl if it is not None, in one transaction. Skip rows with a value
        that SQLite cannot store, and return the last error of these rows; None if there is none. Raises errors that
        affect the whole file.
        """
        failure, self._unwritable = None, 0
        # BEGIN IMMEDIATE waits for the write lock and takes it. So no later statement of the transaction can fail
        # because another process has the lock.
        connection.execute("BEGIN IMMEDIATE")
        crawl = self._crawl_id or connection.execute(_CRAWL, self._crawl).lastrowid
        assert crawl is not None
        for table, rows in self._batch.items():
            statement = _insert(table, crawl)
            for row in rows:
                try:
                    connection.execute(statement, row)
                except Exception as error:
                    # Some errors roll back the transaction. Then all of its rows must be written again.
                    if type(error) in _FILE_ERRORS or not connection.in_transaction:
                        raise
                    failure = error
                    self._unwritable += table in _COUNTED_TABLES
        if end is not None:
            connection.execute(_END, (*end, crawl))
        connection.execute("COMMIT")
        self._crawl_id = crawl
        return failure

    def _connected(self) -> sqlite3.Connection:
        # SQLite does not notice that its file was removed, and continues to write to the removed file. If a new file is
        # created at the same path, SQLite applies the old file's write-ahead log to it, which corrupts the new file.
        if self._file is not None and identity(self._path) != self._file:
            raise FileNotFoundError("the file was moved or removed")
        if self._connection is None:
            self._connection = open_to_write(self._path)
            self._file = identity(self._path)
        return self._connection


def _no_rows() -> _Rows:
    return {table: [] for table in _COLUMNS}


def _count(rows: _Rows) -> int:
    return sum(len(rows[table]) for table in _COUNTED_TABLES)


@cache
def _insert(table: str, crawl: int) -> str:
    """Return the SQL statement that inserts a row into *table* for the crawl with the ID *crawl*. The parameters of the
    statement are the values of the row.

    For the table ``decision``, one parameter is the time at which the robots.txt was fetched. From this time, the
    statement looks up the snapshot of the robots.txt, and inserts the ID of the snapshot instead of the time.
    """
    # The parameters are numbered, because the origin is used twice: as a column, and to find the snapshot.
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
