"""Merges several ledgers into a temporary database that contains each crawl only once."""

from __future__ import annotations

import math
import sqlite3
from contextlib import ExitStack, closing, suppress
from datetime import datetime, timezone
from functools import partial
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exceptions import UsageError

from scrapy_rep.crawl.ledger.reader import (
    MAX_ID,
    TABLES,
    bound,
    columns_of,
    crawls_of,
    open_ledger,
    reading,
)
from scrapy_rep.protocol.reasons import evidence, words_of
from scrapy_rep.tools.output import progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SQLITE = b"SQLite format 3\0"

# The columns that contain row ids. In the merged database, the ids from the ledger with index N are increased by
# N * MAX_ID, so that ids from different ledgers differ.
_NUMBERS = frozenset({"id", "crawl", "snapshot"})

_TABLES, _BEGIN, _VIEWS = TABLES.partition("-- Views")

VIEWS = _BEGIN + _VIEWS
"""The SQL statements that create the views of a ledger."""


# Selects how much a ledger contains: the greatest id of a decision, the greatest id of a snapshot, and the number of
# pages. A crawl only increases these values, so the latest of several copies of a ledger has the greatest values.
_WRITTEN = """
SELECT (SELECT coalesce(max(id), 0) FROM decision), (SELECT coalesce(max(id), 0) FROM snapshot),
       (SELECT total(pages) FROM progress)
"""


class LedgerName(NamedTuple):
    """The path of a ledger, and the part of the ledger to read: all its crawls, a single crawl, or the ledger's
    state at a given time.
    """

    path: str

    crawl: int | None = None
    """The ``id`` of the only crawl to read; None for all crawls."""

    until: float = math.inf
    """Only rows up to this time are read, in seconds since the epoch. With ``inf``, all rows are read."""


def ledger_named(argument: str) -> LedgerName | None:
    """Parse *argument*, which names a ledger if it has the form ``PATH``, ``PATH#CRAWL`` or ``PATH@TIME``. Return
    None if there is no SQLite file at ``PATH``. Raises UsageError for an invalid time.
    """
    if is_sqlite(argument):
        return LedgerName(argument)
    path, _, crawl = argument.rpartition("#")
    if crawl.isdecimal() and is_sqlite(path):
        return LedgerName(path, int(crawl[:18]))
    path, _, moment = argument.rpartition("@")
    if not is_sqlite(path):
        return None
    try:
        until = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(
            f"{argument}: {moment!r} is not a valid time; write it as 2026-11-30 or 2026-11-30T12:00 (UTC)"
        ) from None
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return LedgerName(path, until=until.timestamp())


def is_sqlite(path: str) -> bool:
    """Whether *path* is the path of an SQLite file."""
    with suppress(OSError, ValueError):
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                return file.read(len(_SQLITE)) == _SQLITE
    return False


class Ledgers:
    """Selected rows of several ledgers, merged into a temporary database. The caller must call ``close``.

    The database contains the tables of a ledger, but its table ``crawl`` is empty. The attribute ``crawls``
    contains the crawls instead. Row ids differ from those in the files. If several files contain the same crawl,
    because one is a copy of another, only the crawl's latest state is used. Rows that belong to none of ``crawls``,
    and bodies that do not match their SHA-256 digest, are left out.
    """

    def __init__(
        self,
        names: Sequence[LedgerName],
        conditions: Mapping[str, str],
        **values: object,
    ) -> None:
        """Copy rows from the ledgers *names* into the temporary database.

        *conditions* contains the tables to copy, and for each table the SQL condition for its rows. A condition may
        use the named parameters *values*, and the parameter ``until``, which is :attr:`LedgerName.until` of the ledger.
        A condition may also query the copied rows of a table that comes earlier in *conditions*, as ``main.TABLE``.

        Raises LedgerError for a file that is damaged or is not a ledger. Raises UsageError if a name contains the
        number of a crawl that is not in the ledger.
        """
        self._paths = ", ".join(dict.fromkeys(name.path for name in names))
        progress.say(f"reading {self._paths}")
        states = [
            (state, crawl | {"number": crawl["id"] + index * MAX_ID})
            for index, name in enumerate(names)
            for state, crawl in _crawls(name)
        ]
        states.sort(key=itemgetter(0), reverse=True)
        latest: dict[str, dict[str, Any]] = {}
        for _, crawl in states:
            latest.setdefault(crawl["uuid"], crawl)
        self.crawls = sorted(latest.values(), key=itemgetter("started"))
        """The crawls, as :func:`crawls_of` yields them, sorted by start time. In addition, each crawl has the key
        ``number``, its id in :attr:`database`."""
        self.by_number = {crawl["number"]: crawl for crawl in self.crawls}
        with ExitStack() as opened, reading(self._paths):
            self.database = sqlite3.connect("", uri=True, isolation_level=None)
            opened.enter_context(closing(self.database))
            self.database.row_factory = sqlite3.Row
            bound(self.database, sum(Path(name.path).stat().st_size for name in names))
            self.database.executescript(_TABLES)
            self._copy(names, conditions, values)
            self.close = opened.pop_all().close

    def rows(self, sql: str, **values: object) -> Iterator[sqlite3.Row]:
        """Yield the rows of the query *sql*, whose parameters are *values*. Raises LedgerError if a row cannot be
        read.
        """
        with reading(self._paths):
            yield from self.database.execute(sql, values)

    def _copy(
        self,
        names: Sequence[LedgerName],
        conditions: Mapping[str, str],
        values: dict[str, object],
    ) -> None:
        execute = self.database.execute
        self.database.create_function(
            "digest", 1, lambda body: sha256(body).hexdigest()
        )
        execute("CREATE TEMP TABLE counted (crawl INTEGER PRIMARY KEY)")
        self.database.executemany(
            "INSERT INTO counted VALUES (?)", ((number,) for number in self.by_number)
        )
        for index, name in enumerate(names):
            uri = f"{Path(name.path).resolve().as_uri()}?mode=ro"
            execute("ATTACH ? AS ledger", (uri,))
            # The transaction reads a consistent state, even if a crawl writes to the ledger at the same time.
            execute("BEGIN")
            for table, condition in conditions.items():
                check = "crawl IN counted"
                if table == "body":
                    check = "sha256 = digest(body)"
                sql = (
                    f"INSERT OR IGNORE INTO {table} {_select(table, index)}"
                    f" WHERE ({condition}) AND {check}"
                )
                execute(sql, {**values, "until": name.until})
            execute("COMMIT")
            execute("DETACH ledger")


def _crawls(name: LedgerName) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the crawls in a ledger, each with a sort key. If two files contain the same crawl, the crawl's later
    state has the greater key. Raises UsageError if *name* contains the number of a crawl that is not in the ledger.
    """
    with closing(open_ledger(name.path)) as connection, reading(name.path):
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        # Of two copies of a ledger, the copy with more rows has the later state. The file sizes are not compared,
        # because the latest rows can still be in the write-ahead log.
        written = tuple(connection.execute(_WRITTEN).fetchone())
        crawls = [
            ((crawl["ended"] is not None, written, name.until), crawl)
            for crawl in crawls_of(connection, name.path)
            if name.crawl in {None, crawl["id"]}
        ]
    if name.crawl is not None and not crawls:
        raise UsageError(
            f"the ledger {name.path} does not contain a crawl {name.crawl}"
        )
    return crawls


def _select(table: str, index: int) -> str:
    """Return the SELECT statement for the rows of *table* in the ledger with the given *index*. The statement adds
    *index* * MAX_ID to each row id, so that the ids of different ledgers differ.
    """
    columns = ", ".join(
        f"{name} + {index * MAX_ID} AS {name}" if name in _NUMBERS else name
        for name in columns_of(table)
    )
    return f"SELECT * FROM (SELECT {columns} FROM ledger.{table})"  # noqa: S608


def recorded(row: sqlite3.Row) -> dict[str, Any]:
    """Return the decision in *row*, a row of the table ``decision``, as a JSON object with these keys:

    - ``allowed``: whether the URL was allowed
    - ``reason``, ``agent``, ``form``: the values of the columns with these names
    - ``why``: the reason in words
    - ``override``: the override on which the decision is based, such as ``"example.com: ignore"`` or
      ``"dont_obey_robotstxt"``; None if the decision is based on the site's own rules
    - ``time``: the time of the decision, such as ``2026-11-21T09:30:00Z``
    """
    is_override = row["layer"] == "override"
    return {
        "allowed": row["verdict"] == "allowed",
        **{name: row[name] for name in ("reason", "agent", "form")},
        "why": why(row),
        "override": (row["statement"] or row["reason"]) if is_override else None,
        "time": iso_time(row["time"]),
    }


def why(row: sqlite3.Row) -> str:
    """Return the reason for the decision in *row*, in words."""
    layer, line = row["layer"], row["line"]
    words = words_of(row["reason"], layer, row["verdict"]).text
    if layer == "robots.txt" and line and row["statement"]:
        words = ""
    elif layer != "delay":
        # A line number is shown only for rules and delays in the robots.txt of a site. For an override, the number
        # would count the lines of the override's own text. The statement of a page already names its source, a header
        # or a meta tag.
        line = None
    return evidence(words, row["statement"], line, row["form"])


def iso_time(seconds: float | None) -> str | None:
    """Return the time *seconds* after the epoch as text, such as ``2026-11-21T09:30:00Z``. Return None if *seconds*
    is None, or outside the range of dates that Python supports.
    """
    if seconds is None:
        return None
    try:
        time = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
