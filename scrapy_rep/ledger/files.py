"""The files of ledgers: made, recognised, and opened to be written."""

from __future__ import annotations

import errno
import sqlite3
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.schema import ADDED, SCHEMA
from scrapy_rep.sqlitefiles import ForeignFile, make_tables, use_write_ahead_log

if TYPE_CHECKING:
    from pathlib import Path

# In seconds. Who finds the file locked, by another process that writes, waits that long.
_LOCK_TIMEOUT = 5.0

# What SQLite and the system say of a place that can be written at another time.
_PASSING = ("full", "locked", "I/O")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def prepare(path: Path) -> None:
    """Make the file of a ledger, or see that it is one, before a crawl relies on it.

    Raises LedgerError where none can be written there. A disk that is full, or a file
    that is locked, may be so for a while only, and is left to the writer.
    """
    try:
        open_to_write(path).close()
    except sqlite3.Error as error:
        if not any(words in str(error) for words in _PASSING):
            raise LedgerError(str(path), error) from None
    except ValueError as error:  # A path with a NUL, or half a surrogate pair.
        raise LedgerError(str(path), error) from None
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise LedgerError(str(path), error.strerror) from None


def open_to_write(path: Path) -> sqlite3.Connection:
    """A connection to the ledger in a file, which is made, with its folder, where there
    is none.

    Raises LedgerError for what is no ledger, or one of a later version, and touches
    nothing there; sqlite3.Error or OSError for what can't be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # SQLite does not say why it can't open a file.
    with path.open("ab"):
        pass
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None)
    try:
        make_tables(connection, SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        _add_columns(connection)
        connection.execute("COMMIT")
        # What was committed outlives a process that is killed.
        use_write_ahead_log(connection)
        # A machine that loses its power loses no more than a process that is killed:
        # there is one fsync a batch, and a batch a second or less.
        connection.execute("PRAGMA synchronous = FULL")
    except ForeignFile as error:
        connection.close()
        raise LedgerError(str(path), error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def close_for_good(connection: sqlite3.Connection) -> None:
    """Close a ledger so that its file is all there is of it, which can be read where
    nothing can be written.
    """
    try:
        # Another process that has it open keeps it as it is.
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        pass
    finally:
        connection.close()


def _add_columns(connection: sqlite3.Connection) -> None:
    for table, columns in ADDED.items():
        there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for column in columns:
            if column.partition(" ")[0] not in there:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
