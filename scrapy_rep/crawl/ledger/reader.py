"""The format of ledgers, and functions that read ledgers. Each file is checked before it is used, since a forged SQLite
file can claim to be a ledger.
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
"""The value of ``PRAGMA application_id`` (``REP1`` in ASCII), which marks a SQLite file as a ledger."""

TABLES = files("scrapy_rep").joinpath("crawl/ledger/tables.sql").read_text("utf-8")

SCHEMA = Schema(APPLICATION_ID, VERSION, tuple(TABLES.split(";\n")))
"""The schema of a ledger: its tables, indexes and views."""

_MAX_VALUE = 16 * 1024 * 1024
"""The maximum size, in bytes, of a value that is read from a ledger. Genuine values are smaller: a robots.txt takes at
most 500 KiB, and a text at most 4,096 characters."""

# The maximum number of steps of SQLite's virtual machine for reading ledgers: _STEPS, plus _STEPS_A_BYTE for each byte
# of the files. Without a limit, a forged file could keep a command busy forever. The ledger of a real crawl needs far
# fewer steps. SQLite reports the steps in units of _STEPS_AT_ONCE.
_STEPS_A_BYTE = 50
_STEPS = 100_000_000
_STEPS_AT_ONCE = 100_000

MAX_ID = 2**40
"""The maximum ID of a crawl, a snapshot or a decision. A file with a greater ID is rejected."""

_IDS = frozenset({"id", "crawl", "snapshot"})

# The SQL condition that the values of a column must meet, by the column's type. It is needed because SQLite accepts
# values of any type in any column. Integers must be exactly representable as floats. REAL columns contain times, which
# must be in the range of Python's datetime.
_STORED = {
    "INTEGER": f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {2**53}",
    "REAL": "typeof({0}) IN ('real', 'integer') AND {0} BETWEEN -62135596800 AND 253402300799",
    "TEXT": "typeof({0}) = 'text'",
    "BLOB": "typeof({0}) = 'blob'",
}


def open_ledger(path: str) -> sqlite3.Connection:
    """Return a read-only connection to the ledger at *path*. Its queries return ``sqlite3.Row`` objects. The ledger can
    be read while a crawl writes to it.

    Raises LedgerError if the file cannot be read, is not a ledger of this version, or contains an invalid value.
    """
    with reading(path):
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("the path is not a regular file")
        uri = Path(path).resolve(strict=True).as_uri() + "?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            bound(connection, status.st_size)
            if not has_tables(connection, SCHEMA):
                raise ValueError("the file is not a ledger")
            _check(connection)
        except BaseException:
            connection.close()
            raise
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def reading(path: str) -> Iterator[None]:
    """A context manager for code that reads the ledger at *path*. It turns each read error into a LedgerError."""
    try:
        yield
    except BrokenPipeError:
        raise  # The output of a command could not be written. This is not a read error.
    except OSError as error:
        raise LedgerError(path, error.strerror or error) from None
    except FAILURES as error:
        why = cause_of(error)
        if str(error) == "interrupted":
            why = "reading the ledger takes too long for a file of its size; the file may be damaged or forged"
        raise LedgerError(path, why) from None
    except RecursionError:
        raise LedgerError(path, "a JSON value is nested too deeply") from None
    except (ForeignFile, ValueError) as error:
        raise LedgerError(path, error) from None


def bound(connection: sqlite3.Connection, size: int) -> None:
    """Protect the program from forged ledgers that are read with *connection*:

    - The total work of all queries is limited. The limit grows with *size*, the total size of the ledgers in bytes.
    - The size of each value is limited.
    - The schema of a ledger cannot execute unsafe SQL functions.
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
    """Yield each row of the table ``crawl`` in *ledger*. A row is a dictionary with the names of the columns as keys.
    The values of JSON columns are parsed. Each dictionary has two more keys: the value of ``path`` is *path*, the path
    of the ledger, and ``every_decision`` is True if the crawl recorded all decisions.
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
    """Parse *text*, the value of a JSON column, and return the result. Raises ValueError or RecursionError if *text* is
    not valid JSON, and ValueError if the result is not an instance of *kind*.
    """
    value = json.loads(text)
    if not isinstance(value, kind):
        raise ValueError(  # noqa: TRY004  an error in the file, not a wrong type by the caller
            f"a JSON {kind.__name__} is expected, not {text[:80]!r}"
        )
    return value


def read_texts(text: str) -> tuple[str, ...]:
    """Parse *text*, a JSON list of texts, and return the texts. Raises the same errors as :func:`read_json`."""
    return tuple(map(str, read_json(text, list)))


def _check(connection: sqlite3.Connection) -> None:
    """Raise ValueError if a table or a column of a ledger is missing, or contains an invalid value.

    Views and virtual tables do not count as tables, and computed columns do not count as columns. In a forged file,
    they could produce far more rows and values than the file could store.
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
    """Return the names of the columns of *table*, which is a table of a ledger, in the order of the columns."""
    return [name for name, *_ in _tables()[table]]


@cache
def _tables() -> dict[str, list[tuple[str, str, bool]]]:
    """Return the columns of each table of a ledger, by the name of the table. A column is a tuple of its name, its
    type, and whether it requires a value (NULL is not allowed).
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
