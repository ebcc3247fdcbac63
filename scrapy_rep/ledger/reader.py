"""Opens ledgers for reading."""

from __future__ import annotations

import sqlite3
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.checks import check_tables
from scrapy_rep.ledger.schema import SCHEMA
from scrapy_rep.sqlitefiles import FAILURES, ForeignFile, cause_of, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_VALUE = 16 * 1024 * 1024
"""The most bytes of a value. A robots.txt has 500 KiB at most, a text 4,096 characters."""

# The steps of SQLite's virtual machine that reading may take: for each byte of the file, and
# in addition to these. Reading a ledger of a crawl takes far fewer.
_STEPS_A_BYTE = 50
_STEPS = 100_000_000
_STEPS_AT_ONCE = 100_000


def open_ledger(path: str) -> sqlite3.Connection:
    """Open the ledger at *path* read-only, with rows as ``sqlite3.Row``.

    A crawl may be writing the ledger. Raises LedgerError for a file that is not a ledger or
    was written by a later version.
    """
    with reading(path):
        size = _size_of_file(path)
        uri = Path(path).resolve(strict=True).as_uri() + "?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            bound(connection, size)
            connection.execute("PRAGMA query_only = ON")
            if not version_of(connection, SCHEMA):
                raise ValueError("it is not a ledger")
            check_tables(connection)
        except BaseException:
            connection.close()
            raise
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn errors while reading the ledger at *path* into LedgerError."""
    try:
        yield
    except OSError as error:
        raise LedgerError(path, error.strerror or error) from None
    except FAILURES as error:
        why = cause_of(error)
        if str(error) == "interrupted":
            why = "reading it takes too long for a ledger of its size"
        raise LedgerError(path, why) from None
    except (ForeignFile, ValueError) as error:
        raise LedgerError(path, error) from None


def _size_of_file(path: str) -> int:
    """Return the size of a file. Raises ValueError for a folder, a pipe or a device."""
    found = Path(path).stat()
    if stat.S_ISDIR(found.st_mode):
        raise ValueError("this is a folder, not a ledger")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("this is a pipe or a device, not a ledger")
    return found.st_size


def bound(connection: sqlite3.Connection, size: int) -> None:
    """Limit the work of a connection that reads ledgers of *size* bytes, and the size of
    their values. Whatever their schemas call is not trusted.
    """
    left = (_STEPS + size * _STEPS_A_BYTE) // _STEPS_AT_ONCE

    def is_too_long() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(is_too_long, _STEPS_AT_ONCE)
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")
