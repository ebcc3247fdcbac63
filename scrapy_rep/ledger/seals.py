"""Seals the rows of a crawl in its ledger, so that a later change to them is found.

A row is a line of JSON: its columns that are not NULL, by name, in alphabetical order. The hash
of a table is the SHA-256 of the lines of the crawl, in the order of the primary key. The digest
of the crawl is the SHA-256 of a line for each sealed table: its name, the number of rows, and its
hash. So a column or a table that a later version adds changes no older digest.

A seal is a row with the hash of a table as it was after a transaction. Seals narrow down where a
ledger was changed, and a killed crawl has nothing else. Who changes rows can change the seals as
well, but not a digest that was published.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.ledger.schema import NAMES

if TYPE_CHECKING:
    import hashlib
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_CRAWL, _SEAL = "crawl", "seal"

# No known column has bytes.
_encoded = json.JSONEncoder(separators=(",", ":"), default=bytes.hex).encode


class Table(NamedTuple):
    """A table with rows of crawls."""

    name: str

    columns: tuple[str, ...]
    """Sorted by name."""

    key: tuple[str, ...]
    """The columns of the primary key, in its order."""

    grows: bool
    """Whether a crawl only adds rows to it, each with an ``id`` above those before it. Rows of
    the other tables may change until the crawl ends."""

    @property
    def crawl(self) -> str:
        """The column with the id of the crawl."""
        return "id" if self.name == _CRAWL else _CRAWL

    def rows(
        self, connection: sqlite3.Connection, crawl: int, after: int, last: int | None
    ) -> Iterator[tuple[int, str]]:
        """Yield the id and the line of each row of a crawl. Of a table that grows, these are the
        rows with ids above *after*, up to *last*.
        """
        row_id = '"id"' if self.grows else "0"
        where = f"{_quoted(self.crawl)} = :crawl"
        if self.grows:
            where += " AND id > :after" + ("" if last is None else " AND id <= :last")
        columns = ", ".join(map(_quoted, self.columns))
        order = ", ".join(map(_quoted, self.key)) or "rowid"
        sql = f"SELECT {row_id}, {columns} FROM {_quoted(self.name)} WHERE {where} ORDER BY {order}"  # noqa: S608
        given = {"crawl": crawl, "after": after, "last": last}
        for found, *row in connection.execute(sql, given):
            named = zip(self.columns, row)  # noqa: B905  a faster loop
            line = _encoded({name: value for name, value in named if value is not None})
            yield found, f"{line}\n"


def tables(connection: sqlite3.Connection, names: Iterable[str]) -> list[Table]:
    """Return those of the tables *names* that exist and have rows of crawls."""
    # A view or a virtual table may have more rows than the file has bytes.
    real = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    there = {row[0] for row in connection.execute(real)}
    found = []
    for name in sorted(there.intersection(names)):
        info = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
        key = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
        grows = name != _CRAWL and ("id", "INTEGER") in {
            tuple(row)[1:3] for row in info
        }
        columns = tuple(sorted(row[1] for row in info))
        table = Table(name, columns, key, grows and key == ("id",))
        if table.crawl in table.columns and name != _SEAL:
            found.append(table)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Hash:
    """The hash of the rows of a crawl in one table."""

    def __init__(self, before: Hash | None = None) -> None:
        """If *before* is given, continue from there."""
        self.rows: int = before.rows if before else 0
        self.last: int = before.last if before else 0
        """The id of the last row."""
        self._hash: hashlib._Hash = before._hash.copy() if before else sha256()

    def add(
        self,
        connection: sqlite3.Connection,
        table: Table,
        crawl: int,
        last: int | None = None,
    ) -> list[int]:
        """Add the next rows of *crawl*, up to the id *last*, and return their ids."""
        ids = []
        after = self.last if self.rows else -(2**63)
        for row_id, line in table.rows(connection, crawl, after, last):
            self._hash.update(line.encode())
            ids.append(row_id)
        self.rows += len(ids)
        self.last = max(self.last, last or 0, *ids[-1:])
        return ids

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Seal(NamedTuple):
    """A row of the table ``seal``."""

    rows: int
    last: int
    sha256: str


def digest(sealed: Mapping[str, Hash | Seal]) -> str:
    """Return the digest of a crawl. *sealed* has the hash or the last seal of each table, by its
    name.
    """
    lines = [
        f"{name} {each.rows} {each.sha256}\n" for name, each in sorted(sealed.items())
    ]
    return sha256("".join(lines).encode()).hexdigest()


# Writing.


def seal(
    connection: sqlite3.Connection,
    crawl: int,
    before: Mapping[str, Hash],
    *,
    is_end: bool,
) -> dict[str, Hash]:
    """Add the seals of what a transaction has written for *crawl*, and return its hashes. *before*
    has those after the last transaction. The end of a crawl seals all tables.
    """
    hashes = dict(before)
    for table in tables(connection, NAMES):
        if not (table.grows or is_end or (table.name == _CRAWL and not before)):
            continue
        found = Hash(before.get(table.name) if table.grows else None)
        if found.add(connection, table, crawl) or is_end or not before:
            hashes[table.name] = found
            connection.execute(
                "INSERT INTO seal (crawl, part, rows, last, sha256) VALUES (?, ?, ?, ?, ?)",
                (crawl, table.name, found.rows, found.last, found.sha256),
            )
    return hashes


# Reading.


class Problem(NamedTuple):
    """A difference between the rows of a table and their seals."""

    table: str

    what: str
    """``changed``, ``removed`` or ``added``."""

    first: int | None
    """The first difference is in the rows with ids from *first* to *last*; None if the table has
    no ids."""

    last: int | None

    message: str


class Checked(NamedTuple):
    """The result of comparing the rows of a crawl with their seals."""

    crawl: int | None
    """None for rows that belong to no crawl."""

    rows: dict[str, int]
    """The number of rows in each table."""

    digest: str | None
    """The digest of the rows as they are now; None if there are no seals of the crawl. Earlier
    versions of this package wrote none."""

    problems: list[Problem]


def check(connection: sqlite3.Connection) -> list[Checked]:
    """Compare all rows of a ledger with their seals. Return the result for each crawl."""
    ended = dict(connection.execute("SELECT id, ended IS NOT NULL FROM crawl"))
    seals = _seals(connection)
    # A later version of this package may have sealed tables that this one does not know.
    found = {
        table: _extent(connection, table)
        for table in tables(connection, NAMES.union(*seals.values()))
    }
    of_bodies = _check_bodies(connection)
    results = []
    for crawl in sorted({*ended, *seals, *chain(*found.values()), *of_bodies} - {None}):
        sealed, rows, hashes = seals.get(crawl, {}), {}, {}
        problems = [
            Problem(name, "removed", None, None, "the table is missing")
            for name in sealed.keys() - {table.name for table in found}
        ]
        for table, extent in found.items():
            number, last = extent.get(crawl, (0, 0))
            of_table = sealed.get(table.name, [])
            if number:
                rows[table.name] = number
            # A crawl that was killed has no seals of tables that do not grow.
            if of_table or (sealed and number and (table.grows or ended.get(crawl))):
                hashes[table.name], problem = _compare(
                    connection, table, crawl, of_table, last
                )
                problems += [problem] if problem else []
        if crawl not in ended and not any(each.table == _CRAWL for each in problems):
            message = f"the ledger has no crawl {crawl}"
            problems.append(Problem(_CRAWL, "removed", crawl, crawl, message))
        now = {name: each for name, each in hashes.items() if name in sealed}
        problems += of_bodies.pop(crawl, [])
        results.append(Checked(crawl, rows, digest(now) if now else None, problems))
    if None in of_bodies:
        results.append(Checked(None, {}, None, of_bodies[None]))
    return results


def _extent(connection: sqlite3.Connection, table: Table) -> dict[int, tuple[int, int]]:
    """Return the number of rows of each crawl, and the id of the last one."""
    crawl, last = _quoted(table.crawl), "max(id)" if table.grows else "0"
    sql = (
        f"SELECT {crawl}, count(*), {last} FROM {_quoted(table.name)}"  # noqa: S608
        f" WHERE typeof({crawl}) = 'integer' GROUP BY {crawl}"
    )
    return {of: (number, last) for of, number, last in connection.execute(sql)}


def _seals(
    connection: sqlite3.Connection, crawl: int | None = None
) -> dict[int, dict[str, list[Seal]]]:
    """Return the seals of all crawls, or of one, by crawl and table, in the order of writing."""
    seals: dict[int, dict[str, list[Seal]]] = {}
    # Ledgers of earlier versions do not have the table.
    if connection.execute("PRAGMA table_info(seal)").fetchone():
        sql = (
            "SELECT crawl, part, rows, last, sha256 FROM seal"
            " WHERE ?1 IS NULL OR crawl = ?1 ORDER BY id"
        )
        for of, part, *row in connection.execute(sql, (crawl,)):
            seals.setdefault(of, {}).setdefault(part, []).append(Seal(*row))
    return seals


def _compare(
    connection: sqlite3.Connection,
    table: Table,
    crawl: int,
    seals: Sequence[Seal],
    last: int,
) -> tuple[Hash, Problem | None]:
    """Compare the rows of a crawl with their seals, as they were written: from one to the next.
    Return the hash of all rows, and the first difference. *last* is the id of the last row.
    """
    found, problem, sealed = Hash(), None, 0
    # Only the last seal of a table whose rows may change is still valid.
    for each in seals if table.grows else seals[-1:]:
        ids = found.add(connection, table, crawl, each.last if table.grows else None)
        if problem is None and (found.rows, found.sha256) != (each.rows, each.sha256):
            problem = _difference(table, each, each.rows - sealed, found, ids)
        sealed = each.rows
    if table.grows and last > found.last:
        added = found.add(connection, table, crawl, last)
        problem = problem or _problem(table, "added", added[0], "was added")
    elif not seals:
        problem = _problem(table, "added", 0, "was added")
    return found, problem


def _difference(
    table: Table, seal: Seal, number: int, found: Hash, ids: Sequence[int]
) -> Problem:
    """Say how the rows *ids* differ from the *number* of rows that *seal* added."""
    if not table.grows:
        rows = f"{seal.rows:,} sealed, {found.rows:,} there"
        message = f"the rows are not as they were sealed ({rows})"
        what = "changed"
        if found.rows != seal.rows:
            what = "added" if found.rows > seal.rows else "removed"
        return Problem(table.name, what, None, None, message)
    # One transaction gives its rows ids without a gap.
    written, there = range(seal.last - number + 1, seal.last + 1), set(ids)
    for row_id in written:
        if row_id not in there:
            return _problem(table, "removed", row_id, "is missing")
    for row_id in ids:
        if row_id not in written:
            return _problem(table, "added", row_id, "was added")
    if len(written) < 2:
        return _problem(table, "changed", seal.last, "is not as it was sealed")
    message = f"rows {written[0]:,} to {seal.last:,} are not as they were sealed"
    return Problem(table.name, "changed", written[0], seal.last, message)


def _problem(table: Table, what: str, row_id: int, words: str) -> Problem:
    if not table.grows:
        return Problem(table.name, what, None, None, f"a row {words}")
    return Problem(table.name, what, row_id, row_id, f"row {row_id:,} {words}")


def _check_bodies(connection: sqlite3.Connection) -> dict[int | None, list[Problem]]:
    """Compare each robots.txt with its SHA-256, which the rows of the table ``snapshot`` have too.
    Return the problems of each crawl.
    """
    connection.create_function("hash", 1, lambda body: sha256(body).hexdigest())
    sql = """
WITH used AS (SELECT DISTINCT crawl, sha256 FROM snapshot WHERE sha256 IS NOT NULL)
SELECT crawl, 'changed', 'the robots.txt ' || sha256 || ' has other bytes'
FROM body LEFT JOIN used USING (sha256) WHERE hash(body) != sha256
UNION ALL SELECT crawl, 'removed', 'the robots.txt ' || sha256 || ' is missing'
FROM used WHERE sha256 NOT IN (SELECT sha256 FROM body)
UNION ALL SELECT NULL, 'added', 'no crawl used the robots.txt ' || sha256
FROM body WHERE sha256 NOT IN (SELECT sha256 FROM used)
"""
    problems: dict[int | None, list[Problem]] = {}
    for crawl, what, message in connection.execute(sql):
        problem = Problem("body", what, None, None, message)
        problems.setdefault(crawl, []).append(problem)
    return problems


def sealed_digest(connection: sqlite3.Connection, crawl: int) -> str | None:
    """Return the digest of a crawl according to its seals, without reading its rows; None if it
    has none.
    """
    seals = _seals(connection, crawl).get(crawl, {})
    return digest({part: each[-1] for part, each in seals.items()}) if seals else None
