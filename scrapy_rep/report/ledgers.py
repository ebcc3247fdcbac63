"""Opens ledgers for a report, and makes its views over them."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from functools import partial
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.ledger.reader import bound, open_ledger, read_json, read_texts, reading
from scrapy_rep.report.facts import note_facts
from scrapy_rep.settings import DEFAULTS, DRY_RUN, LEDGER_LEVEL

if TYPE_CHECKING:
    from collections.abc import Sequence

_BARS = 72
"""The most bars of the timeline, and the lengths that they may have, in seconds."""
_LENGTHS = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)

# The columns of the tables that ledgers of earlier versions lack.
_COUNTED = {
    "traffic": "crawl, origin, hour, pages, bytes, delay, gap, pauses, pause, resumed",
    "progress": "crawl, minute, pages, bytes, waiting",
}

IN_PLACE = 9
"""The most ledgers that are read in place. SQLite attaches ten files at most; each further
ledger is attached as the tenth one, and copied into a temporary file.
"""

TEXT_LIMIT = 2**18
"""The most bytes of a text that the views return. A crawl writes shorter ones."""

_VIEWS = files("scrapy_rep").joinpath("report/views.sql")

# The rows of one ledger that the views read. "file" is its name in SQL. What a dry run would have
# refused or dropped counts as if it had; the headline says so.
_ROWS = {
    "body": "SELECT {ledger} AS ledger, sha256, body FROM {file}.body",
    "snapshot": """
SELECT {ledger} AS ledger, crawl, origin, url, redirects, access, status, error, fetched,
       copy_of, sha256
FROM {file}.snapshot
""",
    "decision": """
SELECT {ledger} AS ledger, d.id AS id, d.crawl AS crawl, d.time AS time, d.origin AS origin,
       d.url AS url, d.page AS page, d.agent AS agent, d.layer AS layer,
       replace(replace(d.verdict, 'would-refuse', 'refused'), 'would-drop', 'dropped')
       AS verdict, d.reason AS reason, d.snapshot AS snapshot, d.line AS line,
       d.statement AS statement, {source} AS source, {via} AS via, s.sha256 AS sha256,
       d.time - coalesce(s.copy_of, s.fetched) AS age
FROM {file}.decision AS d LEFT JOIN {file}.snapshot AS s ON s.id = d.snapshot
""",
}

# The columns by which the views look up single rows.
_KEYS = {"body": "ledger, sha256", "decision": "ledger, id"}


class Limits(NamedTuple):
    """The most that a report shows. The report says how much it leaves out."""

    hosts: int = 10_000
    """Rows of the table of hosts."""

    files: int = 200
    """Hosts whose robots.txt is shown."""

    others: int = 500
    """Rows of each other table."""

    urls: int = 20
    """URLs of a host, and hosts with the same reason."""


NO_LIMITS = Limits(*[2**62] * 4)


class Ledgers:
    """Open ledgers, read as one. The caller must close it."""

    def __init__(self, paths: Sequence[str], limits: Limits) -> None:
        """Raises LedgerError for a file that is damaged or is not a ledger."""
        self.paths = paths
        self.limits = limits
        self.crawls: list[dict[str, Any]] = []
        """The rows of the table ``crawl``, the earliest first, with the values of columns in
        JSON, the ``path`` of the ledger, and whether it has ``every_decision``.
        """
        for number, path in enumerate(paths):
            with closing(open_ledger(path)) as ledger, reading(path):
                ledger.text_factory = partial(str, encoding="utf-8", errors="replace")
                rows = ledger.execute("SELECT * FROM crawl")
                self.crawls += [_crawl(number, path, row) for row in rows]
        self.crawls.sort(key=itemgetter("started"))
        self._crawls = {(one["ledger"], one["id"]): one for one in self.crawls}
        with ExitStack() as opened, reading(", ".join(paths)):
            connection = sqlite3.connect("", uri=True, isolation_level=None)
            self.database = opened.enter_context(closing(connection))
            self.database.row_factory = sqlite3.Row
            self.database.text_factory = _text
            bound(self.database, sum(Path(path).stat().st_size for path in paths))
            self._unite(paths)
            self._fill("limits (hosts, files, others, urls, seconds)", [
                (*limits, self._seconds_of_bar())
            ])  # fmt: skip
            self._fill("complete (ledger, crawl)", [
                (one["ledger"], one["id"]) for one in self.crawls if one["every_decision"]
            ])  # fmt: skip
            # Crawls may be writing the ledgers; a transaction reads a consistent state.
            self.database.executescript(f"BEGIN; {_VIEWS.read_text('utf-8')}")
            note_facts(self.database, self.crawl_of, self.body)
            self.close = opened.pop_all().close

    def compare(self, other: Ledgers) -> None:
        """Fill the view of what differs from *other* ledgers."""
        self.database.execute("INSERT INTO now SELECT * FROM figure")
        insert = "INSERT INTO before VALUES (?, ?, ?)"
        self.database.executemany(insert, map(tuple, other.view("figure")))

    def view(self, name: str, **columns: object) -> sqlite3.Cursor:
        """Return the rows of a view, all of them or those with the given values."""
        where = "".join(f" AND {column} = :{column}" for column in columns)
        query = f"SELECT * FROM {name} WHERE true{where}"  # noqa: S608
        return self.database.execute(query, columns)

    def crawl_of(self, row: sqlite3.Row) -> dict[str, Any] | None:
        """Return the crawl that wrote *row*; None if the ledger does not have it."""
        return self._crawls.get((row["ledger"], row["crawl"]))

    def body(self, ledger: int, sha256: str) -> bytes | None:
        """Return the bytes of a robots.txt; None if the ledger does not have it."""
        row = self.view("body", ledger=ledger, sha256=sha256).fetchone()
        return row["body"] if row else None

    def example(self, row: sqlite3.Row) -> str:
        """Return the URL of the first decision of those that *row* counts."""
        found = self.view("decision", ledger=row["ledger"], id=row["first"])
        url: str = found.fetchone()["url"]
        return url

    def _fill(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        self.database.execute(f"CREATE TEMPORARY TABLE {table}")
        name, places = table.partition(" ")[0], ", ".join("?" * (table.count(",") + 1))
        self.database.executemany(f"INSERT INTO {name} VALUES ({places})", rows)  # noqa: S608

    def _seconds_of_bar(self) -> int:
        """Return how long a bar of the timeline is."""
        query = """
SELECT min(at), max(at) FROM (
    SELECT time AS at FROM decision UNION ALL SELECT minute FROM progress
)"""
        first, last = self.database.execute(query).fetchone()
        span = 0 if first is None else last - first
        fitting = (length for length in _LENGTHS if span < length * (_BARS - 1))
        return next(fitting, int(span // (_BARS - 1)) + 1)

    def _unite(self, paths: Sequence[str]) -> None:
        """Make one view of each table, with the rows of all ledgers."""
        unions: dict[str, list[str]] = {table: [] for table in (*_ROWS, *_COUNTED)}
        for number, path in enumerate(paths[:IN_PLACE]):
            for table, select in self._attach(number, path, f"ledger{number}").items():
                unions[table].append(select)
        if further := paths[IN_PLACE:]:
            for table, selects in unions.items():
                columns = f"{selects[0]} LIMIT 0"
                self.database.execute(
                    f"CREATE TEMPORARY TABLE copy_of_{table} AS {columns}"
                )
                selects.append(f"SELECT * FROM copy_of_{table}")  # noqa: S608
            self._copy(further)
        for table, selects in unions.items():
            union = " UNION ALL ".join(selects)
            self.database.execute(f"CREATE TEMPORARY VIEW {table} AS {union}")

    def _copy(self, paths: Sequence[str]) -> None:
        """Copy the rows of ledgers that can't be read in place."""
        for number, path in enumerate(paths, IN_PLACE):
            selects = self._attach(number, path, "further")
            copies = "".join(
                f"INSERT INTO copy_of_{table} {select};"
                for table, select in selects.items()
            )
            self.database.executescript(f"BEGIN; {copies} COMMIT; DETACH further;")
        for table, columns in _KEYS.items():
            key = f"INDEX key_of_{table} ON copy_of_{table} ({columns})"
            self.database.execute(f"CREATE {key}")

    def _attach(self, number: int, path: str, file: str) -> dict[str, str]:
        """Attach a ledger, as *file*, and return a SELECT for its rows of each table."""
        address = Path(path).resolve().as_uri() + "?mode=ro"
        self.database.execute(f"ATTACH ? AS {file}", (address,))
        info = self.database.execute(f"PRAGMA {file}.table_info(decision)")
        there = {row["name"] for row in info}
        # Ledgers of earlier versions lack these columns.
        added = {
            name: f"d.{name}" if name in there else "NULL" for name in ("source", "via")
        }
        selects = {
            table: select.format(ledger=number, file=file, **added)
            for table, select in _ROWS.items()
        }
        for table, columns in _COUNTED.items():
            if self.database.execute(f"PRAGMA {file}.table_info({table})").fetchone():
                select = f"SELECT {number} AS ledger, {columns} FROM {file}.{table}"  # noqa: S608
            else:
                nothing = columns.replace(", ", ", NULL AS ")
                select = f"SELECT {number} AS ledger, NULL AS {nothing} WHERE false"
            selects[table] = select
        return selects


def _text(octets: bytes) -> str:
    return octets[:TEXT_LIMIT].decode("utf-8", "replace")


def _crawl(ledger: int, path: str, row: sqlite3.Row) -> dict[str, Any]:
    settings = read_json(row["settings"], dict)
    return {
        **row,
        "ledger": ledger,
        "path": path,
        "agents": read_texts(row["agents"]),
        "settings": settings,
        "versions": read_json(row["versions"], dict),
        "counts": read_json(row["counts"] or "{}", dict),
        "is_dry_run": str(settings.get(DRY_RUN)).lower() in {"1", "true"},
        "every_decision": settings.get(LEDGER_LEVEL, DEFAULTS[LEDGER_LEVEL]) == "all",
    }
