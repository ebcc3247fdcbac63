"""Writes a ledger, in a thread."""

from __future__ import annotations

import sqlite3
from collections import deque
from contextlib import suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.files import close_and_merge_log, open_to_write
from scrapy_rep.ledger.records import EndedCrawl, Snapshot, StartedCrawl, weight
from scrapy_rep.record import Record
from scrapy_rep.sqlitefiles import identity

if TYPE_CHECKING:
    import os

# Seconds between two transactions.
_WRITE_INTERVAL = 0.5

# Seconds until a failed write is retried.
_RETRY_AFTER = 2.0

# Seconds that the end of a crawl waits for the last records to be written.
_CLOSE_TIMEOUT = 10.0

# The approximate limit of records in memory, in bytes.
_MAX_WAITING = 32 * 1024 * 1024

_RECORDS_A_BATCH = 5_000

# The most ids of snapshots to cache; others are looked up in the file.
_MAX_IDS = 20_000

_CRAWL = (
    "INSERT INTO crawl (spider, user_agent, agents, dialect, settings, versions, started)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_END = "UPDATE crawl SET ended = ?, finish_reason = ?, counts = ? WHERE id = ?"
_BODY = "INSERT OR IGNORE INTO body (sha256, body) VALUES (?, ?)"
_SNAPSHOT = (
    "INSERT INTO snapshot (crawl, sha256, origin, url, redirects, access, status, error,"
    " headers, fetched, expires, copy_of) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FIND_SNAPSHOT = (
    "SELECT id FROM snapshot WHERE crawl = ? AND origin = ? AND fetched = ?"
)
_DECISION = (
    "INSERT INTO decision (crawl, snapshot, time, subject, verdict, layer, reason, url,"
    " origin, page, agent, line, statement, form, source, via) VALUES "
)
_VALUES = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FETCHED = Record._fields.index("fetched")

# Rows in one statement. Each statement releases and takes the interpreter lock, which costs
# the crawl more than the row itself. Older versions of SQLite allow 999 values at most.
_ROWS_AT_ONCE = 62

# Errors that may pass. After any other error, the same records would fail again.
_TRANSIENT = (sqlite3.OperationalError, OSError, LedgerError)


class LedgerWriter:
    """Takes records from one thread, and writes them to the file at *path* in another.

    It raises nothing. A failed write is counted in ``errors``, and is in ``error`` until a
    write succeeds. It is retried if the error may pass. Records that exceed the memory limit,
    or can't be written before the end of the crawl, are counted in ``dropped``.
    """

    def __init__(self, path: str | os.PathLike[str], crawl: StartedCrawl) -> None:
        self.errors = 0
        self.recorded = 0
        self.error: Exception | None = None
        # The process may change its working directory later.
        self._path = Path(path).absolute()
        self._crawl = crawl
        self._end: EndedCrawl | None = None
        self._queue: deque[Snapshot | Record] = deque()
        self._batch: list[Snapshot | Record] = []
        # Only one thread changes each of these.
        self._bytes_in = 0
        self._bytes_out = 0
        self._turned_away = 0
        self._given_up = 0
        self._closing = Event()
        # A daemon: a process that exits loses the last second of records at most.
        self._thread = Thread(target=self._run, name="ledger", daemon=True)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._crawl_id: int | None = None
        self._ids: dict[tuple[str, float], int] = {}

    @property
    def dropped(self) -> int:
        return self._turned_away + self._given_up

    def start(self) -> None:
        self._thread.start()

    def write(self, record: Snapshot | Record) -> None:
        """Queue *record*, to be written within a second, unless the queue is full."""
        size = weight(record)
        if self._bytes_in - self._bytes_out + size > _MAX_WAITING:
            self._turned_away += 1
            return
        self._bytes_in += size
        self._queue.append(record)

    def close(self, end: EndedCrawl) -> None:
        """Write the queued records and the end of the crawl. Blocks for 10 seconds at most."""
        self._end = end
        self._closing.set()
        self._thread.join(_CLOSE_TIMEOUT)
        self._turned_away += len(self._batch) + len(self._queue)

    # The methods below run in the other thread.

    def _run(self) -> None:
        pause = _WRITE_INTERVAL
        closing = False
        while not closing:
            closing = self._closing.wait(pause)
            pause = _WRITE_INTERVAL if self._write_all() else _RETRY_AFTER
        if self._connection is not None:
            close_and_merge_log(self._connection)

    def _write_all(self) -> bool:
        """Write all queued records. Return whether that succeeded."""
        while True:
            if not self._batch:
                count = min(len(self._queue), _RECORDS_A_BATCH)
                self._batch = [self._queue.popleft() for _ in range(count)]
            # All records are in the queue when the end is set.
            end = None if len(self._queue) else self._end
            if not self._batch and end is None and self._crawl_id is not None:
                return True
            try:
                self._commit(self._batch, end)
            except _TRANSIENT as error:
                self._failed(error)
                return False
            except Exception as error:  # noqa: BLE001  not retried
                self._failed(error)
                self._given_up += len(self._batch)
                self._done()
                return False
            self.error = None
            self.recorded += len(self._batch)
            self._done()
            if end is not None:
                return True

    def _done(self) -> None:
        """Drop the batch, whether or not it was written, to make room for others."""
        self._bytes_out += sum(map(weight, self._batch))
        self._batch = []

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self.error = error
        self._disconnect()

    def _disconnect(self) -> None:
        # Closing rolls back the transaction, so its ids are invalid.
        self._ids.clear()
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _commit(self, batch: list[Snapshot | Record], end: EndedCrawl | None) -> None:
        connection = self._connected()
        # After a plain BEGIN, the first statement would fail without waiting if another
        # process wrote in between.
        connection.execute("BEGIN IMMEDIATE")
        crawl = self._crawl_id or connection.execute(_CRAWL, self._crawl.row).lastrowid
        assert crawl is not None
        decisions = []
        for record in batch:
            if type(record) is Record:
                snapshot = None
                if record.fetched is not None:
                    snapshot = self._snapshot(crawl, record.origin, record.fetched)
                decisions.append(
                    (crawl, snapshot, *record[:_FETCHED], *record[_FETCHED + 1 :])
                )
            elif type(record) is Snapshot:
                self._write_snapshot(crawl, record)
        for at in range(0, len(decisions), _ROWS_AT_ONCE):
            some = decisions[at : at + _ROWS_AT_ONCE]
            statement = _DECISION + ", ".join([_VALUES] * len(some))
            connection.execute(statement, list(chain.from_iterable(some)))
        if end is not None:
            connection.execute(_END, (*end.row, crawl))
        connection.execute("COMMIT")
        self._crawl_id = crawl

    def _connected(self) -> sqlite3.Connection:
        # SQLite continues to write to a removed file. A new file at this path would inherit
        # the rest of its log, and be corrupt.
        if self._file is not None and identity(self._path) != self._file:
            raise FileNotFoundError("it was moved or removed")
        if self._connection is None:
            self._connection = open_to_write(self._path)
            self._file = identity(self._path)
        return self._connection

    def _write_snapshot(self, crawl: int, snapshot: Snapshot) -> None:
        key = snapshot.origin, snapshot.entry.fetched
        if self._snapshot(crawl, *key) is not None:
            return  # It is in the ledger already.
        connection = self._connection
        assert connection is not None
        body, digest = snapshot.body, None
        if body is not None:
            digest = sha256(body).hexdigest()
            connection.execute(_BODY, (digest, body))
        found = connection.execute(_SNAPSHOT, (crawl, digest, *snapshot.row)).lastrowid
        assert found is not None
        self._remember(key, found)

    def _snapshot(self, crawl: int, origin: str, fetched: float) -> int | None:
        """Return the id of a snapshot, or None if its record was dropped."""
        found = self._ids.get((origin, fetched))
        if found is None:
            assert self._connection is not None
            row = self._connection.execute(_FIND_SNAPSHOT, (crawl, origin, fetched))
            for (found,) in row:
                self._remember((origin, fetched), found)
        return found

    def _remember(self, key: tuple[str, float], found: int) -> None:
        if len(self._ids) >= _MAX_IDS:
            self._ids.clear()
        self._ids[key] = found
