"""Creates the file of a ledger, or opens it for writing."""

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

# Transient failures: parts of SQLite's messages, and error numbers of the system.
_TRANSIENT = ("full", "locked", "I/O")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


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
    """Open the ledger at *path*; create the file and its folder if they do not exist.

    Raises LedgerError, and changes nothing, for a file that is not a ledger or was written
    by a later version; sqlite3.Error or OSError for a file that can't be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Opened for the error of the system: SQLite does not say why it can't open a file.
    with path.open("ab"):
        pass
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT, isolation_level=None)
    try:
        make_tables(connection, SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        _add_columns(connection)
        connection.execute("COMMIT")
        # Committed transactions survive when the process is killed.
        use_write_ahead_log(connection)
        # They also survive a power failure. The price is one fsync for each batch, so
        # about two each second.
        connection.execute("PRAGMA synchronous = FULL")
    except ForeignFile as error:
        connection.close()
        raise LedgerError(str(path), error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def close_and_merge_log(connection: sqlite3.Connection) -> None:
    """Close a ledger, and merge the write-ahead log into its file.

    The file can then be read in a read-only folder.
    """
    try:
        # This fails if another process has the file open, and still needs the log.
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
