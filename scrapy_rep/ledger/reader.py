"""Opens ledgers to read them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.schema import SCHEMA
from scrapy_rep.sqlitefiles import ForeignFile, version_of


def open_ledger(path: str) -> sqlite3.Connection:
    """The ledger in a file, to be read; its rows can be asked by the names of columns.

    A crawl may be writing it. Raises LedgerError for what is no ledger, or is one of a
    later version than this package knows.
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
