"""The format of a ledger, and functions to read ledgers. Each file is checked before it is used, since a forged
SQLite file can claim to be a ledger.
"""

from __future__ import annotations

import json
import sqlite3
import stat
import sys
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_rep.base.settings import DEFAULTS, LEDGER_LEVEL
from scrapy_rep.base.sqlitefile import (
    FAILURES,
    ForeignFile,
    Schema,
    cause_of,
    has_tables,
)
from scrapy_rep.exceptions import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_Kind = TypeVar("_Kind")

VERSION = 4

APPLICATION_ID = 0x52455031
"""The value of ``PRAGMA application_id`` by which a SQLite file is recognised as a ledger: ``REP1`` in ASCII."""

TABLES = files("scrapy_rep").joinpath("crawl/ledger/tables.sql").read_text("utf-8")

SCHEMA = Schema(APPLICATION_ID, VERSION, tuple(TABLES.split(";\n")))
"""The schema of a ledger, with its tables, indexes and views."""

_MAX_VALUE = 16 * 1024 * 1024
"""The largest value, in bytes, that is read from a ledger. Genuine values are shorter: a robots.txt has at most
500 KiB, a text 4,096 characters."""

# Bounds the time for reading a ledger, so that a forged file cannot keep a command busy forever. The limit is in
# steps of SQLite's virtual machine: a constant, plus some for each byte of the file. The ledger of a real crawl
# needs far fewer. The steps are counted in units of _STEPS_AT_ONCE.
_STEPS_A_BYTE = 50
_STEPS = 100_000_000
_STEPS_AT_ONCE = 100_000

MAX_ID = 2**40
"""The greatest ID of a crawl, a snapshot or a decision."""

_IDS = frozenset({"id", "crawl", "snapshot"})

# For each type of column, the SQL condition that its values must meet. SQLite itself accepts values of any type
# in any column. Integers must be exact as floats, and times in the range of datetime.
_STORED = {
    "INTEGER": f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {2**53}",
    "REAL": "typeof({0}) IN ('real', 'integer') AND {0} BETWEEN -62135596800 AND 253402300799",
    "TEXT": "typeof({0}) = 'text'",
    "BLOB": "typeof({0}) = 'blob'",
}


def open_ledger(path: str) -> sqlite3.Connection:
    """Return a read-only connection to the ledger at *path*, with rows as ``sqlite3.Row``. A crawl may write to
    the ledger at the same time.

    Raises LedgerError if the file is not a ledger of this version, or contains an invalid value.
    """
    with reading(path):
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        uri = Path(path).resolve(strict=True).as_uri() + "?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            bound(connection, status.st_size)
            if not has_tables(connection, SCHEMA):
                raise ValueError("it is not a ledger")
            _check(connection)
        except BaseException:
            connection.close()
            raise
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def reading(path: str) -> Iterator[None]:
    """A context manager that turns each error of reading the ledger at *path* into a LedgerError."""
    try:
        yield
    except BrokenPipeError:
        raise  # An error of writing the output of a command, not of reading the ledger.
    except OSError as error:
        raise LedgerError(path, error.strerror or error) from None
    except FAILURES as error:
        why = cause_of(error)
        if str(error) == "interrupted":
            why = "reading it takes too long for a ledger of its size"
        raise LedgerError(path, why) from None
    except RecursionError:
        raise LedgerError(path, "a JSON value is nested too deeply") from None
    except (ForeignFile, ValueError) as error:
        raise LedgerError(path, error) from None


def bound(connection: sqlite3.Connection, size: int) -> None:
    """Protect a connection from forged ledgers: limit the time of queries, in proportion to the *size* of all
    ledgers in bytes, and the size of a value, and do not execute unsafe SQL functions in the schema of a file.
    """
    rounds = (_STEPS + size * _STEPS_A_BYTE) // _STEPS_AT_ONCE

    def is_too_long() -> bool:
        nonlocal rounds
        rounds -= 1
        return rounds < 0

    connection.set_progress_handler(is_too_long, _STEPS_AT_ONCE)
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    connection.execute("PRAGMA trusted_schema = OFF")


def crawls_of(ledger: sqlite3.Connection, path: str) -> Iterator[dict[str, Any]]:
    """Yield the crawls of a ledger: the rows of its table ``crawl``, with JSON values parsed, and two more keys:
    ``path``, and ``every_decision`` (whether the crawl has recorded all decisions).
    """
    for row in ledger.execute("SELECT * FROM crawl"):
        settings = read_json(row["settings"], dict)
        level = settings.get(LEDGER_LEVEL) or DEFAULTS[LEDGER_LEVEL]
        yield {
            **row,
            "path": path,
            "agents": read_texts(row["agents"]),
            "settings": settings,
            "versions": read_json(row["versions"], dict),
            "counts": read_json(row["counts"] or "{}", dict),
            "every_decision": level == "all",
        }


def read_json(text: str, kind: type[_Kind]) -> _Kind:
    """Parse *text*, the value of a JSON column. Raises ValueError or RecursionError if it is not valid JSON, and
    ValueError if the result is not an instance of *kind*.
    """
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(  # noqa: TRY004  an error in the file, not a wrong type by the caller
            f"a JSON {kind.__name__} is expected, not {text[:80]!r}"
        )
    return value


def read_texts(text: str) -> tuple[str, ...]:
    """Parse *text*, the value of a column with a JSON list of texts."""
    return tuple(map(str, read_json(text, list)))


def _check(connection: sqlite3.Connection) -> None:
    """Check the tables of a ledger. Raises ValueError if a table or a column is missing, or has an invalid
    value.

    A view or a virtual table does not count as a table, nor a computed column as a column: in a forged file,
    they could have more rows and values than the file has bytes.
    """
    for table, columns in _tables().items():
        query = f"SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = '{table}'"  # noqa: S608
        if (connection.execute(query).fetchone() or [0])[0] == 0:
            raise ValueError(f"the table {table!r} is missing")
        info = connection.execute(f"PRAGMA table_info({table})")
        present = {row[1] for row in info}
        cases = []
        for name, kind, is_required in columns:
            if name not in present:
                raise ValueError(f"the table {table!r} has no column {name!r}")
            stored = _STORED[kind].format(name)
            if name in _IDS:
                stored += f" AND {name} <= {MAX_ID}"
            none = "" if is_required else f"{name} IS NULL OR "
            cases.append(f"WHEN NOT ({none}{stored}) THEN '{name}'")
        query = (
            f"SELECT CASE {' '.join(cases)} END AS bad FROM {table}"  # noqa: S608
            " WHERE bad IS NOT NULL LIMIT 1"
        )
        if row := connection.execute(query).fetchone():
            raise ValueError(
                f"the table {table!r} has an invalid value in the column {row[0]!r}"
            )


def columns_of(table: str) -> list[str]:
    """Return the names of the columns of *table*, in order."""
    return [name for name, *_ in _tables()[table]]


@cache
def _tables() -> dict[str, list[tuple[str, str, bool]]]:
    """Return the columns of each table of a ledger: their name, their type, and whether a value is required
    (not NULL).
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = [table for (table,) in connection.execute(query)]
        return {
            table: [
                (name, kind, bool(required or key))
                for _, name, kind, required, _, key in connection.execute(
                    f"PRAGMA table_info({table})"
                )
            ]
            for table in tables
        }
