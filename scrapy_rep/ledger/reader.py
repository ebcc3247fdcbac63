"""Opens ledgers for reading."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.schema import SCHEMA
from scrapy_rep.sqlitefiles import ForeignFile, version_of


def open_ledger(path: str) -> sqlite3.Connection:
    """A read-only connection to the ledger at *path*, whose rows have names.

    A crawl may be writing the ledger. Raises LedgerError for a file that is not a ledger or
    is one of a later version.
    """
    if Path(path).is_dir():
        raise LedgerError(path, "this is a folder, not a ledger")
    try:
        uri = Path(path).resolve(strict=True).as_uri() + "?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(path, error) from None
    try:
        if not version_of(connection, SCHEMA):
            raise ForeignFile("it is no ledger")
    except (ForeignFile, sqlite3.Error) as error:
        connection.close()
        raise LedgerError(path, error) from None
    connection.row_factory = sqlite3.Row
    return connection
