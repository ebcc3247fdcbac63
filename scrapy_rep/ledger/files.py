"""Creates, recognises and opens the files of ledgers for writing."""

from __future__ import annotations

import errno
import sqlite3
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.schema import ADDED, SCHEMA
from scrapy_rep.sqlitefiles import ForeignFile, make_tables, use_write_ahead_log

if TYPE_CHECKING:
    from pathlib import Path

# Seconds to wait for the lock of a file that another process writes.
_LOCK_TIMEOUT = 5.0

# Parts of SQLite's messages, and errors of the system, for conditions that may pass.
_PASSING = ("full", "locked", "I/O")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def prepare(path: Path) -> None:
    """Create the file of a ledger, or check that it is one, before a crawl starts.

    Raises LedgerError where no ledger can be written. A full disk and a locked file are no
    errors here, since they may pass; the writer tries again.
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
    """A connection to the ledger at *path*. The file and its folder are created where they
    do not exist.

    Raises LedgerError, and changes nothing, for a file that is not a ledger or is one of a
    later version; sqlite3.Error or OSError for a file that can't be opened.
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
        # A transaction survives a process that is killed.
        use_write_ahead_log(connection)
        # A machine that loses its power loses no more than a process that is killed. The
        # price is one fsync for each batch, of which there is at most one each half second.
        connection.execute("PRAGMA synchronous = FULL")
    except ForeignFile as error:
        connection.close()
        raise LedgerError(str(path), error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def close_for_good(connection: sqlite3.Connection) -> None:
    """Close a ledger, and merge its log into the file, which can then be read from a
    read-only place.
    """
    try:
        # This fails while another process has the file open, and is not needed then.
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
