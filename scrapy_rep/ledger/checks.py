"""Checks a ledger before it is read, since any SQLite file can claim to be one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple, TypeVar

from scrapy_rep.ledger.schema import ADDED, TABLES

_Kind = TypeVar("_Kind")

_MAX_DEPTH = 50
"""The depth to which JSON may be nested."""

_MAX_NUMBER = 2**53
"""The greatest integer up to which a float, and so JSON, is exact."""

# The range of datetime, in seconds since the epoch.
_EARLIEST, _LATEST = -62135596800, 253402300799

# The condition on a value of each declared type. SQLite does not enforce the types.
_STORED = {
    "INTEGER": f"typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {_MAX_NUMBER}",
    "REAL": (
        "typeof({0}) IN ('real', 'integer') "
        f"AND {{0}} BETWEEN {_EARLIEST} AND {_LATEST}"
    ),
    "TEXT": "typeof({0}) = 'text'",
    "BLOB": "typeof({0}) = 'blob'",
}


class _Column(NamedTuple):
    name: str
    type: str
    is_required: bool
    is_key: bool


def check_tables(connection: sqlite3.Connection) -> None:
    """Raise ValueError if the tables are not those of a ledger.

    Views, virtual tables and generated columns are refused, since computing their values
    may take unlimited time. So are tables without a key, since a join would compare each
    pair of rows.
    """
    for table, columns in _tables().items():
        row = connection.execute(
            "SELECT type, rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
        if row is None or row[0] != "table" or not row[1]:
            raise ValueError(f"it has no table {table!r}")
        found = {
            name: (kind, key)
            for _, name, kind, _, _, key, hidden in connection.execute(
                f"PRAGMA table_xinfo({table})"
            )
            if not hidden
        }
        added = {column.partition(" ")[0] for column in ADDED.get(table, ())}
        for column in columns:
            if column.name not in found:
                if column.name in added:
                    continue
                raise ValueError(f"its table {table!r} has no column {column.name!r}")
            if column.is_key and found[column.name] != (column.type, 1):
                raise ValueError(
                    f"{column.name!r} is not the key of its table {table!r}"
                )


def check_values(connection: sqlite3.Connection) -> None:
    """Raise ValueError if a table has a value that the schema does not allow."""
    for table, columns in _tables().items():
        there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        cases = " ".join(
            f"WHEN NOT ({_condition(column)}) THEN '{column.name}'"
            for column in columns
            if column.name in there
        )
        query = f"SELECT CASE {cases} END AS bad FROM {table} WHERE bad IS NOT NULL"  # noqa: S608
        row = connection.execute(f"{query} LIMIT 1").fetchone()
        if row is not None:
            raise ValueError(
                f"its table {table!r} has a bad value in the column {row[0]!r}"
            )


def read_json(text: str, kind: type[_Kind]) -> _Kind:
    """Parse a column in JSON. Raises ValueError if the value is not of this *kind*."""
    try:
        value = _cleaned(json.loads(text))
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(value, kind):
        raise ValueError(  # noqa: TRY004  the file is wrong, not the caller
            f"this should be a JSON {kind.__name__}: {text[:80]!r}"
        )
    return value


def read_texts(text: str) -> tuple[str, ...]:
    """Parse a JSON list of texts. Raises ValueError for anything else."""
    found = read_json(text, list)
    if not all(isinstance(each, str) for each in found):
        raise ValueError(f"this should be a JSON list of texts: {text[:80]!r}")
    return tuple(found)


def read_numbers(text: str) -> dict[str, float]:
    """Parse a JSON object of numbers. Raises ValueError for anything else."""
    found = read_json(text, dict)
    for value in found.values():
        # The comparison is false for NaN.
        if not isinstance(value, (int, float)) or not abs(value) <= _MAX_NUMBER:
            raise ValueError(f"this should be a JSON object of numbers: {text[:80]!r}")
    return found


@cache
def _tables() -> dict[str, list[_Column]]:
    """Return the columns of each table in the schema."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        return {
            table: [
                _Column(name, kind, bool(required), bool(key))
                for _, name, kind, required, _, key in connection.execute(
                    f"PRAGMA table_info({table})"
                )
            ]
            for (table,) in names
        }


def _condition(column: _Column) -> str:
    stored = _STORED[column.type].format(column.name)
    if column.is_required or column.is_key:
        return stored
    return f"{column.name} IS NULL OR {stored}"


def _cleaned(value: Any, depth: int = 0) -> Any:
    """Return a value from JSON with its lone surrogates replaced."""
    if depth > _MAX_DEPTH:
        raise ValueError("its JSON is nested too deeply")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_cleaned(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {
            _cleaned(name): _cleaned(each, depth + 1) for name, each in value.items()
        }
    return value
