"""Sums up several ledgers in a temporary SQLite database.

The database is on disk, so that large ledgers do not need more memory.
"""

from __future__ import annotations

import heapq
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from scrapy_rep.ledger.checks import check_values, read_json, read_numbers, read_texts
from scrapy_rep.ledger.reader import open_ledger, reading
from scrapy_rep.settings import DEFAULTS, LEDGER_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TEXT_LIMIT = 20_000
"""The most bytes of a URL or a statement to copy. A crawl writes shorter ones."""

# The most URLs of a host to copy from each ledger.
_URLS_OF_HOST = 50

_TABLES = """
CREATE TABLE tally (
    crawl INTEGER, origin TEXT, layer TEXT, verdict TEXT, reason TEXT,
    of_page INTEGER, count INTEGER, age REAL
);
CREATE TABLE line (
    origin TEXT, sha256 TEXT, line INTEGER, verdict TEXT, count INTEGER,
    statement TEXT, url TEXT
);
CREATE TABLE overridden (
    reason TEXT, statement TEXT, verdict TEXT, origin TEXT, count INTEGER
);
CREATE TABLE used (
    origin TEXT, purpose TEXT, verdict TEXT, source TEXT, statement TEXT, line INTEGER,
    count INTEGER, url TEXT
);
CREATE TABLE judged (
    origin TEXT, url TEXT, verdict TEXT, layer TEXT, reason TEXT, line INTEGER,
    statement TEXT, count INTEGER, urls INTEGER
);
CREATE TABLE gap (origin TEXT PRIMARY KEY, seconds REAL) WITHOUT ROWID;
CREATE TABLE snapshot (
    crawl INTEGER, ledger INTEGER, origin TEXT, access TEXT, status INTEGER, error TEXT,
    fetched REAL, copy_of REAL, sha256 TEXT, url TEXT
);
"""

_INDEXES = """
CREATE INDEX tally_origin ON tally (origin);
CREATE INDEX judged_origin ON judged (origin);
CREATE INDEX line_origin ON line (origin, sha256);
CREATE INDEX snapshot_origin ON snapshot (origin, fetched);
"""

# Each ledger numbers its crawls from 1. :base makes the numbers unique.
_TALLIES = """
SELECT :base + d.crawl, d.origin, layer, verdict, reason, d.page IS NOT NULL,
       count(*), max(d.time - coalesce(s.copy_of, s.fetched))
FROM decision AS d LEFT JOIN snapshot AS s ON s.id = d.snapshot
GROUP BY d.crawl, d.origin, layer, verdict, reason, d.page IS NOT NULL
"""


def _bounded(column: str) -> str:
    """Return SQL for the beginning of a text, cut as bytes: a text would end at a NUL."""
    return f"CAST(substr(CAST({column} AS BLOB), 1, :limit) AS TEXT)"


# SQLite takes the other columns from the row with the least id, so from the first decision.
_LINES = f"""
SELECT d.origin, s.sha256, line, verdict, count(*), {_bounded("statement")},
       {_bounded("d.url")}, min(d.id)
FROM decision AS d LEFT JOIN snapshot AS s ON s.id = d.snapshot
WHERE layer IN ('robots.txt', 'usage') AND line > 0
GROUP BY d.origin, s.sha256, line, verdict
"""  # noqa: S608

_OVERRIDDEN = f"""
SELECT reason, {_bounded("statement")} AS said, verdict, origin, count(*)
FROM decision WHERE layer = 'override' GROUP BY reason, said, verdict, origin
"""  # noqa: S608

_USED = f"""
SELECT origin, reason, verdict, %s AS place, {_bounded("statement")} AS said, line,
       count(*), {_bounded("url")}, min(id)
FROM decision WHERE layer = 'usage'
GROUP BY origin, reason, verdict, place, said, line
"""  # noqa: S608

# The URLs of each host with the most decisions. One row for each layer sums up the others.
_JUDGED = f"""
WITH judged AS (
    SELECT origin, url, verdict, layer, reason, line, statement, count(*) AS times,
           row_number() OVER (
               PARTITION BY origin
               ORDER BY layer = 'override', count(*) DESC, min(id)
           ) AS place
    FROM decision WHERE verdict = 'refused' OR layer = 'override'
    GROUP BY origin, url, verdict, layer, reason
)
SELECT origin, {_bounded("url")}, verdict, layer, reason, line, {_bounded("statement")},
       times, NULL
FROM judged WHERE place <= {_URLS_OF_HOST}
UNION ALL
SELECT origin, NULL, NULL, layer, NULL, NULL, NULL, sum(times), count(*)
FROM judged WHERE place > {_URLS_OF_HOST} GROUP BY origin, layer
"""  # noqa: S608

# Requests that an override let through are left out: the site's delay does not apply.
_TIMES = """
SELECT origin, time FROM decision
WHERE verdict = 'allowed' AND layer = 'robots.txt' AND page IS NULL
ORDER BY origin, time
"""

_SNAPSHOTS = """
SELECT :base + crawl, :ledger, origin, access, status, error, fetched, copy_of, sha256,
       url, redirects
FROM snapshot
"""

_ARRIVED = """
SELECT count(*) FROM decision WHERE verdict = 'refused' AND via LIKE 'redirect %'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    ledger: str
    """The path of its ledger."""

    spider: str
    user_agent: str
    agents: tuple[str, ...]
    dialect: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    started: float

    ended: float | None
    """None if the crawl was killed, or is still running."""

    finish_reason: str | None
    counts: Mapping[str, float]

    complete: bool
    """Whether its ledger has every decision, not only refusals."""


class Scratch:
    """Open ledgers, and their sums in a database. The caller must close it."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Raises LedgerError for a file that is damaged or is not a ledger."""
        self.crawls: dict[int, Crawl] = {}
        self.arrived = 0
        """Responses that were refused because a browser had been led to a forbidden URL."""

        self.ledgers: list[tuple[str, sqlite3.Connection]] = []
        with ExitStack() as opened:
            self.database = opened.enter_context(closing(sqlite3.connect("")))
            self.database.row_factory = sqlite3.Row
            self.database.executescript(_TABLES)
            for path in paths:
                ledger = opened.enter_context(closing(open_ledger(path)))
                ledger.text_factory = _text
                with reading(path):
                    check_values(ledger)
                    self._add(path, ledger)
            self._copy("gap", 2, _shortest_gaps([one for _, one in self.ledgers]))
            self.database.executescript(_INDEXES)
            self.close = opened.pop_all().close

    def body(self, ledger: int, sha256: str) -> bytes | None:
        """Return the bytes of a robots.txt, or None if the ledger does not have it."""
        connection = self.ledgers[ledger][1]
        query = "SELECT body FROM body WHERE sha256 = ?"
        row = connection.execute(query, (sha256,)).fetchone()
        return row[0] if row and isinstance(row[0], bytes) else None

    def _add(self, path: str, ledger: sqlite3.Connection) -> None:
        # A crawl may be writing the ledger; a transaction reads a consistent state.
        ledger.execute("BEGIN")
        given = {
            "base": max(self.crawls, default=0),
            "ledger": len(self.ledgers),
            "limit": TEXT_LIMIT,
        }
        self.ledgers.append((path, ledger))
        for row in ledger.execute("SELECT * FROM crawl ORDER BY started"):
            self.crawls[given["base"] + row["id"]] = _crawl(path, row)
        self._copy("tally", 8, ledger.execute(_TALLIES, given))
        self._copy("line", 7, (row[:7] for row in ledger.execute(_LINES, given)))
        self._copy("overridden", 5, ledger.execute(_OVERRIDDEN, given))
        # Ledgers of earlier versions lack the columns "source" and "via".
        names = {row["name"] for row in ledger.execute("PRAGMA table_info(decision)")}
        used = ledger.execute(
            _USED % ("source" if "source" in names else "NULL"), given
        )
        self._copy("used", 8, (row[:8] for row in used))
        self._copy("judged", 9, ledger.execute(_JUDGED, given))
        if "via" in names:
            (arrived,) = ledger.execute(_ARRIVED).fetchone()
            self.arrived += arrived
        self._copy("snapshot", 10, map(_snapshot, ledger.execute(_SNAPSHOTS, given)))

    def _copy(self, table: str, columns: int, rows: Iterable[Sequence[object]]) -> None:
        places = ", ".join("?" * columns)
        insert = f"INSERT INTO {table} VALUES ({places})"  # noqa: S608
        self.database.executemany(insert, rows)


def _shortest_gaps(
    ledgers: Iterable[sqlite3.Connection],
) -> Iterator[tuple[str, float]]:
    """Yield each origin with at least two requests, and the shortest time between two.

    The requests of all ledgers are merged, since their crawls may be workers that share a
    delay. A request is sent when it is allowed, so the times of decisions are used.
    """
    rows = heapq.merge(*(map(tuple, ledger.execute(_TIMES)) for ledger in ledgers))
    for origin, requests in groupby(rows, key=itemgetter(0)):
        times = (time for _, time in requests)
        gap = min((after - before for before, after in pairwise(times)), default=None)
        if gap is not None:
            yield origin, gap


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")


def _snapshot(row: sqlite3.Row) -> Sequence[object]:
    *columns, url, redirects = row
    return [*columns, (read_texts(redirects) or (url,))[-1]]


def _crawl(path: str, row: sqlite3.Row) -> Crawl:
    settings = read_json(row["settings"], dict)
    level = settings.get(LEDGER_LEVEL, DEFAULTS[LEDGER_LEVEL])
    return Crawl(
        ledger=path,
        spider=row["spider"],
        user_agent=row["user_agent"],
        agents=read_texts(row["agents"]),
        dialect=row["dialect"],
        settings=settings,
        versions=read_json(row["versions"], dict),
        started=row["started"],
        ended=row["ended"],
        finish_reason=row["finish_reason"],
        counts=read_numbers(row["counts"] or "{}"),
        complete=level == "all",
    )
