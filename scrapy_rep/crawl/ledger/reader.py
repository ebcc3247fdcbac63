"""The format of a ledger, and functions to read one. The file is not trusted: any SQLite file can claim to
be a ledger.
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
"""``REP1``, in ``PRAGMA application_id``: the mark of a ledger."""

TABLES = files("scrapy_rep").joinpath("crawl/ledger/tables.sql").read_text("utf-8")

SCHEMA = Schema(APPLICATION_ID, VERSION, tuple(TABLES.split(";\n")))
"""The schema of the whole file."""

_MAX_VALUE = 16 * 1024 * 1024
"""The most bytes of a value. A robots.txt has 500 KiB at most, a text 4,096 characters."""

# The most steps of SQLite's virtual machine for reading a ledger: so many for each byte of the file, and
# a constant. The ledger of a crawl takes far fewer.
_STEPS_A_BYTE = 50
_STEPS = 100_000_000
_STEPS_AT_ONCE = 100_000

MAX_ID = 2**40
"""The greatest number of a crawl, a snapshot or a decision."""

_IDS = frozenset({"id", "crawl", "snapshot"})

# The condition on the values of each declared type, which SQLite does not enforce. Integers are
# small enough to be exact as floats; times are in the range of datetime.
_STORED = {
    "INTEGER": f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {2**53}",
    "REAL": "typeof({0}) IN ('real', 'integer') AND {0} BETWEEN -62135596800 AND 253402300799",
    "TEXT": "typeof({0}) = 'text'",
    "BLOB": "typeof({0}) = 'blob'",
}


def open_ledger(path: str) -> sqlite3.Connection:
    """Open the ledger at *path* read-only, with rows as ``sqlite3.Row``.

    A crawl may be writing the ledger. Raises LedgerError for a file that is not a ledger of this
    version, or has a value that no ledger has.
    """
    with reading(path):
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("this is not a file")
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
    """Turn errors while reading the ledger at *path* into LedgerError."""
    try:
        yield
    except BrokenPipeError:
        raise  # The caller was writing to a pipe; a ledger is none.
    except OSError as error:
        raise LedgerError(path, error.strerror or error) from None
    except FAILURES as error:
        why = cause_of(error)
        if str(error) == "interrupted":
            why = "reading it takes too long for a ledger of its size"
        raise LedgerError(path, why) from None
    except RecursionError:
        raise LedgerError(path, "its JSON is nested too deeply") from None
    except (ForeignFile, ValueError) as error:
        raise LedgerError(path, error) from None


def bound(connection: sqlite3.Connection, size: int) -> None:
    """Limit the work of a connection that reads ledgers of *size* bytes in total, and the size of
    their values. Functions that the schemas call are not trusted.
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
    """Yield the rows of the table ``crawl``, with the values of columns in JSON, the *path* of the
    ledger, and whether it has ``every_decision``.
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
    """Parse the value of a column in JSON. Raises ValueError or RecursionError if that is not possible, or
    the result is not of this *kind*.
    """
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(  # noqa: TRY004  the file is wrong, not the caller
            f"this should be a JSON {kind.__name__}: {text[:80]!r}"
        )
    return value


def read_texts(text: str) -> tuple[str, ...]:
    """Parse the value of a column with a JSON list of texts."""
    return tuple(map(str, read_json(text, list)))


def _check(connection: sqlite3.Connection) -> None:
    """Raise ValueError if a table of a ledger is missing, or has a value that no ledger has.

    A view or a virtual table does not count as a table, since it may have more rows than the file has
    bytes, and a computed column does not count as a column.
    """
    for table, columns in _tables().items():
        query = f"SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = '{table}'"  # noqa: S608
        if (connection.execute(query).fetchone() or [0])[0] == 0:
            raise ValueError(f"it has no table {table!r}")
        info = connection.execute(f"PRAGMA table_info({table})")
        present = {row[1] for row in info}
        cases = []
        for name, kind, is_required in columns:
            if name not in present:
                raise ValueError(f"its table {table!r} has no column {name!r}")
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
            raise ValueError(f"its table {table!r} has a bad value in {row[0]!r}")


def columns_of(table: str) -> list[str]:
    """Return the names of the columns of a table."""
    return [name for name, *_ in _tables()[table]]


@cache
def _tables() -> dict[str, list[tuple[str, str, bool]]]:
    """Return the columns of each table: name, type, and whether a value is required."""
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
