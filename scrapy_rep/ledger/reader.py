"""Opens ledgers for reading."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.schema import APPLICATION_ID, VERSION


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
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(path, error) from None
    if application_id != APPLICATION_ID:
        connection.close()
        raise LedgerError(path, "this is no ledger")
    if version > VERSION:
        connection.close()
        why = f"it is of version {version}; this package knows up to {VERSION}"
        raise LedgerError(path, why)
    connection.row_factory = sqlite3.Row
    return connection
