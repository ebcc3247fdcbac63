"""The writer of a ledger, which writes in threads."""

from __future__ import annotations

import errno
import json
import sqlite3
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import chain, count
from operator import attrgetter
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
from scrapy_rep.record import Layer, Record, Subject, Verdict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import TypeAlias

    from scrapy_rep.protocol.access.entries import CacheEntry
    from scrapy_rep.protocol.dialect import Dialect

    # Rows, by table.
    _Rows: TypeAlias = dict[str, list[tuple[Any, ...]]]

# The seconds for which the end of a crawl waits until the last records are written.
_CLOSE_TIMEOUT = 10.0

# Seconds to wait for the lock of a file that another process writes.
_LOCK_TIMEOUT = 5.0

# The approximate limit of rows in memory, in bytes, and the memory of one without its texts.
_MAX_WAITING = 32 * 1024 * 1024
_ROW = 600

# Rows in one statement. Each statement releases and takes the interpreter lock, which costs
# the crawl more than the row itself. Older versions of SQLite allow 999 values at most.
_ROWS_AT_ONCE = 60

# The bytes of a file that are hashed at once.
_PART = 1024 * 1024

_CRAWL = (
    "INSERT INTO crawl (uuid, spider, user_agent, agents, dialect, settings, versions, started)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_END = "UPDATE crawl SET ended = ?, finish_reason = ?, counts = ? WHERE id = ?"

# The columns that are written to each table, in the order in which the tables are written. The number of
# the crawl is added. A row that exists already is kept, or the new one is added to it.
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
"""The tables whose rows are counted as recorded or dropped."""

# Transient failures: parts of the messages of SQLite, and error numbers of the system.
_TRANSIENT = ("full", "locked", "I/O")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

# Without an adapter, SQLite's module would search for one in several places, for each value.
for _term in (Subject, Verdict, Layer):
    sqlite3.register_adapter(_term, attrgetter("_value_"))

# The errors of a file that fails. Any other error, one of their subclasses included, is that of a value
# that SQLite cannot store.
_OF_FILE = (sqlite3.OperationalError, sqlite3.DatabaseError)


# The file.


def prepare(path: Path) -> None:
    """Create the file of a ledger, or check that it is one, before a crawl starts.

    Raises LedgerError if no ledger can be written there. A full disk or a locked file raises
    nothing, since that may pass and the writer retries.
    """
    try:
        open_to_write(path).close()
    except sqlite3.Error as error:
        if not any(words in str(error) for words in _TRANSIENT):
            raise LedgerError(str(path), error) from None
    except ValueError as error:  # A path with a NUL, or half a surrogate pair.
        raise LedgerError(str(path), error) from None
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise LedgerError(str(path), error.strerror) from None


def open_to_write(path: Path) -> sqlite3.Connection:
    """Open the ledger at *path*; create the file, and its folder if only that is missing.

    Raises LedgerError, and changes nothing, for a file that is not a ledger of this version, and
    sqlite3.Error or OSError for a file that cannot be opened.
    """
    path.parent.mkdir(exist_ok=True)
    # Opened for the error of the system: SQLite does not say why it cannot open a file.
    with path.open("ab"):
        pass
    connection = sqlite3.connect(
        # Several threads write, one after the other.
        path, timeout=_LOCK_TIMEOUT, isolation_level=None, check_same_thread=False,
    )  # fmt: skip
    try:
        # About one transaction is written each second.
        prepare_file(connection, SCHEMA, synchronous="FULL")
    except BaseException as error:
        connection.close()
        if isinstance(error, ForeignFile):
            raise LedgerError(str(path), error) from None
        raise
    return connection


def close_and_merge_log(connection: sqlite3.Connection) -> bool:
    """Close a ledger, and merge the write-ahead log into its file, which can then be read in a
    read-only folder. Return whether that succeeded: another process that has the file open still
    needs the log.
    """
    is_merged = False
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA busy_timeout = 0")
        [mode] = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        is_merged = mode == "delete"
    connection.close()
    return is_merged


# The rows of a robots.txt.


def snapshot(
    origin: str, entry: CacheEntry, dialect: Dialect
) -> tuple[tuple[Any, ...], bytes | None]:
    """Return the ledger row for a robots.txt that was fetched or loaded, and the body whose rules are obeyed.
    The body is cut one byte after the size limit of *dialect*, so that a reader can see that it was cut. It
    is None if there are no rules to obey.
    """
    result, answer, body = entry.result, entry.answer(dialect), None
    if answer is not None and answer.access is Access.SUCCESSFUL:
        # One byte more tells a reader that the file was cut.
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
    """Keeps records in memory until :meth:`flush` writes all of them to the file at *path*, in one
    transaction and in a thread.

    Nothing is raised. Failed writes are counted in ``errors``, the last error is in ``error``, and the next
    flush tries again. Records are counted in ``dropped`` if they exceed the memory limit, cannot be written
    before the end of the crawl, or are in one statement with a value that can never be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.errors = self.recorded = self.dropped = 0
        self.error: Exception | None = None
        # The process may change its working directory later.
        self._path = Path(path).absolute()
        self._crawl: tuple[Any, ...] = ()
        self._crawl_id: int | None = None
        self._lock = Lock()
        """Held while rows are kept, and while a thread takes them."""
        self._rows = _no_rows()
        self._batch = _no_rows()
        """The rows that a thread writes, or that are to be written again."""
        self._weight = self._batch_weight = 0
        """The approximate memory of all rows in bytes, and that of the batch."""
        self._is_done = True
        """Whether the batch is written, except for records that can never be written."""
        self._unwritable = 0
        """The records of the batch that can never be written."""
        self._thread = Thread()
        """The thread that wrote last."""
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._is_closed = False
        """Whether the end of the crawl is written, and no other process has the file open."""
        self._has_ended = False
        """Whether nothing more is written. A row that comes later is lost."""

    def start(self, crawl: tuple[Any, ...]) -> None:
        """Begin a crawl. *crawl* has the columns of the table, from ``uuid`` to ``started``."""
        self._crawl = crawl
        self.flush()

    def write(self, table: str, row: tuple[Any, ...], size: int = 0) -> None:
        """Keep a row for the next flush, unless the memory is full. *size* is the size of its long
        values.
        """
        with self._lock:
            weight = self._weight + _ROW + size
            if weight > _MAX_WAITING or self._has_ended:
                self.dropped += table in _RECORDS
            else:
                self._weight = weight
                self._rows[table].append(row)

    def write_snapshot(self, origin: str, entry: CacheEntry, dialect: Dialect) -> None:
        """Keep a robots.txt that was fetched or loaded."""
        row, body = snapshot(origin, entry, dialect)
        if body is not None:
            self.write("body", (row[-1], body), len(body))
        self.write("snapshot", row)

    def write_decision(self, record: Record) -> None:
        """Keep a decision."""
        texts = record.url, record.page, record.statement, record.form, record.via
        self.write("decision", record, sum(map(len, filter(None, texts))))

    def flush(self) -> None:
        """Let a thread write all rows, unless one still writes."""
        if self._thread.is_alive():
            return
        self._take()
        if self._crawl_id is None or self._weight:
            self._start(self._write)

    def close(self, end: tuple[Any, ...]) -> None:
        """Write the remaining rows and the *end* of the crawl: its time, reason and counts.

        Blocks for 10 seconds at most. Records that are not written by then are counted as dropped, and
        written later if the process lives on. Rows that come meanwhile are written too; later ones are
        counted as dropped.
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
        """Return the SHA-256 of the closed file, in hex; None if the end of the crawl is not written,
        or another process has the file open.
        """
        if not self._is_closed:
            return None
        digest = sha256()
        with suppress(OSError), self._path.open("rb") as file:
            while part := file.read(_PART):
                digest.update(part)
            return digest.hexdigest()
        return None

    def _start(self, write: Callable[..., None], *args: Any) -> None:
        # A daemon: a process that exits does not wait for a disk.
        thread = Thread(target=write, args=args, name="ledger", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # The system has no thread to give.
            self.error = error
            self.errors += 1
        else:
            self._thread = thread

    def _take(self) -> None:
        """Count the batch and empty it, unless it must be written again. Add all new rows to it."""
        with self._lock:
            if self._is_done:
                self.recorded += _count(self._batch) - self._unwritable
                self.dropped += self._unwritable
                self._weight -= self._batch_weight
                self._batch, self._is_done = _no_rows(), False
            for table, rows in self._rows.items():
                self._batch[table] += rows
            self._rows, self._batch_weight = _no_rows(), self._weight

    # The methods below run in the thread.

    def _write_end(self, before: Thread, end: tuple[Any, ...]) -> None:
        """Write the remaining rows and the *end* of the crawl, after the thread *before* has ended. Write
        again if new rows have come meanwhile: other handlers of ``spider_closed`` may still add some.
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
        try:
            connection = self._connected()
            error = self._commit(connection, end)
        except Exception as failure:  # noqa: BLE001  whatever it is, the crawl goes on
            error = failure
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()  # This rolls back.
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
        """Write the batch and the *end* in one transaction. Return the error of a value that can never be
        written; only the rows of its statement are lost.
        """
        failure, self._unwritable = None, 0
        # After a plain BEGIN, the first statement would fail without waiting if another
        # process wrote in between.
        connection.execute("BEGIN IMMEDIATE")
        crawl = self._crawl_id or connection.execute(_CRAWL, self._crawl).lastrowid
        assert crawl is not None
        for table, rows in self._batch.items():
            for at in range(0, len(rows), _ROWS_AT_ONCE):
                some = rows[at : at + _ROWS_AT_ONCE]
                statement = _insert(table, len(some), crawl)
                try:
                    connection.execute(statement, list(chain.from_iterable(some)))
                except Exception as error:
                    # Some failures end the transaction.
                    if type(error) in _OF_FILE or not connection.in_transaction:
                        raise
                    failure = error
                    self._unwritable += len(some) if table in _RECORDS else 0
        if end is not None:
            connection.execute(_END, (*end, crawl))
        connection.execute("COMMIT")
        self._crawl_id = crawl
        return failure

    def _connected(self) -> sqlite3.Connection:
        # SQLite continues to write to a removed file. A new file at this path would inherit
        # the rest of the log, and be corrupt.
        if self._file is not None and identity(self._path) != self._file:
            raise FileNotFoundError("it was moved or removed")
        if self._connection is None:
            self._connection = open_to_write(self._path)
            self._file = identity(self._path)
        return self._connection


def _no_rows() -> _Rows:
    return {table: [] for table in _COLUMNS}


def _count(rows: _Rows) -> int:
    return sum(len(rows[table]) for table in _RECORDS)


@cache
def _insert(table: str, rows: int, crawl: int) -> str:
    """Return the statement that writes so many *rows* to a table. A decision names its robots.txt by the
    time at which that was fetched.
    """
    names = dict(zip(_COLUMNS[table], map("column{}".format, count(1)), strict=False))
    values = f"({', '.join('?' * len(names))})"
    if table == "decision":
        snapshot_id = (
            f"(SELECT id FROM snapshot WHERE crawl = {crawl}"  # noqa: S608
            f" AND origin = {names['origin']} AND fetched = {names.pop('fetched')})"
        )
        names["snapshot"] = snapshot_id
    if table != "body":
        names["crawl"] = str(crawl)
    conflict = f" ON CONFLICT {_CONFLICTS[table]}" if table in _CONFLICTS else ""
    # SQLite takes the ON of a conflict for that of a join, unless there is a WHERE.
    return (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(names.values())}"  # noqa: S608
        f" FROM (VALUES {', '.join([values] * rows)}) WHERE true{conflict}"
    )
