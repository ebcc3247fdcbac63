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
from collections import deque
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.ledger.schema import NAMES

if TYPE_CHECKING:
    import hashlib
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_CRAWL, _SEAL = "crawl", "seal"

_ROWS_AT_ONCE = 1_000

# No known column has bytes.
_encoded = json.JSONEncoder(separators=(",", ":"), default=bytes.hex).encode


class Table(NamedTuple):
    """A table with rows of crawls."""

    name: str

    columns: tuple[str, ...]
    """Sorted by name."""

    key: tuple[str, ...]
    """The columns of the primary key, in its order."""

    @property
    def crawl(self) -> str:
        """The column with the id of the crawl."""
        return "id" if self.name == _CRAWL else _CRAWL

    @property
    def grows(self) -> bool:
        """Whether a crawl only adds rows to it, each with an ``id`` above those before it. Rows of
        the other tables may change until the crawl ends.
        """
        return self.name != _CRAWL and self.key == ("id",)

    def rows(
        self, connection: sqlite3.Connection, where: str = "true", *values: object
    ) -> Iterator[tuple[int, int, str]]:
        """Yield the crawl, the id and the line of each row; 0 for the id if the table has none."""
        columns = ", ".join(map(_quoted, self.columns))
        order = ", ".join(map(_quoted, self.key)) or "rowid"
        sql = (
            f"SELECT {columns} FROM {_quoted(self.name)} WHERE {where} ORDER BY {order}"  # noqa: S608
        )
        crawl_at = self.columns.index(self.crawl)
        id_at = self.columns.index("id") if self.key == ("id",) else None
        for row in connection.execute(sql, values):
            named = zip(self.columns, row)  # noqa: B905  a faster loop
            line = _encoded({name: value for name, value in named if value is not None})
            yield row[crawl_at], 0 if id_at is None else row[id_at], f"{line}\n"


def tables(connection: sqlite3.Connection, names: Iterable[str]) -> list[Table]:
    """Return those of the tables *names* that exist and have rows of crawls."""
    # A view or a virtual table may have more rows than the file has bytes.
    real = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    there = {row[0] for row in connection.execute(real)}
    found = []
    for name in sorted(there.intersection(names)):
        info = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
        key = tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])
        table = Table(name, tuple(sorted(row[1] for row in info)), key)
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

    def add(self, lines: Sequence[str], last: int) -> None:
        self._hash.update("".join(lines).encode())
        self.rows += len(lines)
        self.last = last

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
        if table.grows:
            found = Hash(before.get(table.name))
            where = "crawl = ? AND id > ?"
            rows = table.rows(connection, where, crawl, found.last)
        elif is_end or (table.name == _CRAWL and not before):
            found = Hash()
            rows = table.rows(connection, f"{table.crawl} = ?", crawl)
        else:
            continue
        rows_before = found.rows
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            found.add([line for *_, line in some], some[-1][1])
        if found.rows > rows_before or is_end or not before:
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
    found = tables(connection, NAMES.union(*seals.values()))
    checks: dict[int, dict[str, _TableCheck]] = {
        crawl: {
            each.name: _TableCheck(each, seals.get(crawl, {}).get(each.name, []))
            for each in found
        }
        for crawl in {*ended, *seals}
    }
    for table in found:
        where = f"typeof({table.crawl}) = 'integer'"
        for crawl, row_id, line in table.rows(connection, where):
            by_table = checks.setdefault(crawl, {})
            if table.name not in by_table:
                by_table[table.name] = _TableCheck(table, [])
            by_table[table.name].read(row_id, line)
    of_bodies = _check_bodies(connection)
    results = []
    for crawl, by_table in sorted(checks.items()):
        sealed = seals.get(crawl, {})
        problems = [
            Problem(name, "removed", None, None, "the table is missing")
            for name in sealed.keys() - by_table.keys()
        ]
        for each in by_table.values():
            # A crawl that was killed has no seals of tables that do not grow.
            may_lack = not sealed or not (each.table.grows or ended.get(crawl))
            if problem := each.finish(may_lack_seals=may_lack):
                problems.append(problem)
        if crawl not in ended and not any(each.table == _CRAWL for each in problems):
            message = f"the ledger has no crawl {crawl}"
            problems.append(Problem(_CRAWL, "removed", crawl, crawl, message))
        problems += of_bodies.pop(crawl, [])
        hashes = {name: each.hash for name, each in by_table.items()}
        rows = {name: each.rows for name, each in hashes.items() if each.rows}
        now = {name: hashes[name] for name in sealed if name in hashes}
        results.append(Checked(crawl, rows, digest(now) if now else None, problems))
    if None in of_bodies:
        results.append(Checked(None, {}, None, of_bodies[None]))
    return results


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


class _TableCheck:
    """Compares the rows of a crawl in one table, read in order, with their seals."""

    def __init__(self, table: Table, seals: Sequence[Seal]) -> None:
        self.table = table
        self.hash = Hash()
        # Only the last seal of a table whose rows may change is still valid.
        self._seals = deque(seals if table.grows else seals[-1:])
        self._before = Seal(0, 0, "")
        """The last seal that was compared."""
        self._ids: list[int] = []
        """Of the rows after it."""
        self._unsealed: int | None = None
        """The id of the first row after the last seal."""
        self._lines: list[str] = []
        """Of the rows that are not hashed yet."""
        self._problem: Problem | None = None

    def read(self, row_id: int, line: str) -> None:
        if self.table.grows:
            while self._seals and row_id > self._seals[0].last:
                self._compare(self._seals.popleft())
        if self._seals:
            self._ids.append(row_id)
        elif self._unsealed is None:
            self._unsealed = row_id
        self._lines.append(line)
        if len(self._lines) >= _ROWS_AT_ONCE:
            self._hash_lines()

    def finish(self, *, may_lack_seals: bool) -> Problem | None:
        """Return the first difference, or None. *may_lack_seals* says whether the rows after the
        last seal are none.
        """
        while self._seals:
            self._compare(self._seals.popleft())
        self._hash_lines()
        if self._problem or self._unsealed is None or may_lack_seals:
            return self._problem
        return self._found("added", self._unsealed, "was added")

    def _hash_lines(self) -> None:
        self.hash.add(self._lines, 0)
        self._lines.clear()

    def _compare(self, seal: Seal) -> None:
        self._hash_lines()
        now = self.hash.rows, self.hash.sha256
        if self._problem is None and now != (seal.rows, seal.sha256):
            self._problem = self._difference(seal)
        self._before = seal
        self._ids.clear()

    def _difference(self, seal: Seal) -> Problem:
        """Say how the rows since the last seal differ from *seal*."""
        if not self.table.grows:
            rows = f"{seal.rows:,} sealed, {self.hash.rows:,} there"
            message = f"the rows are not as they were sealed ({rows})"
            what = "changed"
            if self.hash.rows != seal.rows:
                what = "added" if self.hash.rows > seal.rows else "removed"
            return Problem(self.table.name, what, None, None, message)
        # One transaction gives its rows ids without a gap.
        written = range(seal.last - (seal.rows - self._before.rows) + 1, seal.last + 1)
        there = set(self._ids)
        for row_id in written:
            if row_id not in there:
                return self._found("removed", row_id, "is missing")
        for row_id in self._ids:
            if row_id not in written:
                return self._found("added", row_id, "was added")
        if len(written) == 1:
            return self._found("changed", seal.last, "is not as it was sealed")
        message = f"rows {written[0]:,} to {seal.last:,} are not as they were sealed"
        return Problem(self.table.name, "changed", written[0], seal.last, message)

    def _found(self, what: str, row_id: int, words: str) -> Problem:
        if not self.table.grows:
            message = f"a row {words}"
            return Problem(self.table.name, what, None, None, message)
        return Problem(self.table.name, what, row_id, row_id, f"row {row_id:,} {words}")


def _check_bodies(connection: sqlite3.Connection) -> dict[int | None, list[Problem]]:
    """Compare each robots.txt with its SHA-256, which the rows of the table ``snapshot`` have too.
    Return the problems of each crawl.
    """
    problems: dict[int | None, list[Problem]] = {}
    for key, body in connection.execute("SELECT sha256, body FROM body"):
        if sha256(body).hexdigest() != key:
            message = f"the robots.txt {key} has other bytes"
            problem = Problem("body", "changed", None, None, message)
            of = "SELECT DISTINCT crawl FROM snapshot WHERE sha256 = ?"
            for [crawl] in connection.execute(of, (key,)).fetchall() or [[None]]:
                problems.setdefault(crawl, []).append(problem)
    missing = (
        "SELECT crawl, sha256 FROM snapshot WHERE sha256 IS NOT NULL"
        " AND sha256 NOT IN (SELECT sha256 FROM body) GROUP BY crawl, sha256"
    )
    for crawl, key in connection.execute(missing):
        message = f"the robots.txt {key} is missing"
        problem = Problem("body", "removed", None, None, message)
        problems.setdefault(crawl, []).append(problem)
    unused = (
        "SELECT sha256 FROM body WHERE sha256 NOT IN"
        " (SELECT sha256 FROM snapshot WHERE sha256 IS NOT NULL)"
    )
    for [key] in connection.execute(unused):
        message = f"no crawl used the robots.txt {key}"
        problem = Problem("body", "added", None, None, message)
        problems.setdefault(None, []).append(problem)
    return problems


def sealed_digest(connection: sqlite3.Connection, crawl: int) -> str | None:
    """Return the digest of a crawl according to its seals, without reading its rows; None if it
    has none.
    """
    seals = _seals(connection, crawl).get(crawl, {})
    return digest({part: each[-1] for part, each in seals.items()}) if seals else None
