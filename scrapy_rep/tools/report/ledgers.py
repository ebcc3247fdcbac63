"""Opens ledgers for a report, and makes its views over them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, closing
from functools import partial
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.base.settings import DRY_RUN, OBEY
from scrapy_rep.crawl.ledger.reader import (
    bound,
    crawls_of,
    open_ledger,
    reading,
    select,
)
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.tools.report.robotstxt import note_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_PLACE = 9
"""The most ledgers that are read in place. SQLite attaches ten files at most; each further
ledger is attached as the tenth one, and copied into a temporary file.
"""

TEXT_LIMIT = 2**18
"""The most bytes of a text that the views return. A crawl writes shorter ones."""

_VIEWS = files("scrapy_rep").joinpath("tools/report/views.sql")

# The rows of one ledger that the views read, made from all "rows" of a table in it. "file" is its
# name in SQL. What a dry run would have refused or dropped counts as if it had; the headline says so.
_ALL = "SELECT {ledger} AS ledger, * FROM ({rows})"
_ROWS = {
    "body": _ALL,
    "snapshot": _ALL,
    "decision": """
SELECT {ledger} AS ledger, t.id AS id, t.crawl AS crawl, t.time AS time, t.origin AS origin,
       t.url AS url, t.page AS page, t.agent AS agent, t.layer AS layer,
       replace(replace(t.verdict, 'would-refuse', 'refused'), 'would-drop', 'dropped')
       AS verdict, t.reason AS reason, t.snapshot AS snapshot, t.line AS line,
       t.statement AS statement, t.source AS source, t.via AS via, s.sha256 AS sha256,
       t.time - coalesce(s.copy_of, s.fetched) AS age
FROM ({rows}) AS t LEFT JOIN {file}.snapshot AS s ON s.id = t.snapshot
""",
    "traffic": _ALL,
    "progress": _ALL,
    "gap": _ALL,
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
        self.limits = limits
        found: list[dict[str, Any]] = []
        for number, path in enumerate(paths):
            with closing(open_ledger(path)) as ledger, reading(path):
                ledger.text_factory = partial(str, encoding="utf-8", errors="replace")
                of_path = crawls_of(ledger, path)
                found += [{**crawl, "ledger": number} for crawl in of_path]
        found.sort(key=_state)
        latest = {crawl["uuid"]: crawl for crawl in found}
        self.crawls = sorted(latest.values(), key=itemgetter("started"))
        """What :func:`crawls_of` yields, the earliest first, with the number of the ``ledger``. A
        crawl that is in a ledger and in a copy of it counts once."""
        self._copies: dict[int, list[int]] = {}
        for crawl in found:
            if latest[crawl["uuid"]] is not crawl:
                self._copies.setdefault(crawl["ledger"], []).append(crawl["id"])
        with ExitStack() as opened, reading(", ".join(paths)):
            connection = sqlite3.connect("", uri=True, isolation_level=None)
            self.database = opened.enter_context(closing(connection))
            self.database.row_factory = sqlite3.Row
            self.database.text_factory = _text
            bound(self.database, sum(Path(path).stat().st_size for path in paths))
            self._unite(paths)
            self._fill("limits (hosts, files, others, urls)", [limits])
            self._fill(
                "crawl (ledger, crawl, dialect, agents, every_decision, is_dry_run, ignores)",
                list(map(_row, self.crawls)),
            )
            # Crawls may be writing the ledgers; a transaction reads a consistent state.
            self.database.executescript(f"BEGIN; {_VIEWS.read_text('utf-8')}")
            note_facts(self)
            self.close = opened.pop_all().close

    def view(self, name: str, **columns: object) -> sqlite3.Cursor:
        """Return the rows of a view, all of them or those with the given values."""
        where = "".join(f" AND {column} = :{column}" for column in columns)
        query = f"SELECT * FROM {name} WHERE true{where}"  # noqa: S608
        return self.database.execute(query, columns)

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

    def _unite(self, paths: Sequence[str]) -> None:
        """Make one view of each table, with the rows of all ledgers."""
        unions: dict[str, list[str]] = {table: [] for table in _ROWS}
        for number, path in enumerate(paths):
            selects = self._attach(number, path)
            if number < IN_PLACE:
                for table, select in selects.items():
                    unions[table].append(select)
                continue
            for table, select in selects.items():
                if number == IN_PLACE:
                    copy = f"copy_of_{table} AS {select} LIMIT 0"
                    self.database.execute(f"CREATE TEMPORARY TABLE {copy}")
                    unions[table].append(f"SELECT * FROM copy_of_{table}")  # noqa: S608
                self.database.execute(f"INSERT INTO copy_of_{table} {select}")
            self.database.execute(f"DETACH ledger{IN_PLACE}")
        for table, each in unions.items():
            union = " UNION ALL ".join(each)
            self.database.execute(f"CREATE TEMPORARY VIEW {table} AS {union}")
            if table in _KEYS and len(paths) > IN_PLACE:
                key = f"key_of_{table} ON copy_of_{table} ({_KEYS[table]})"
                self.database.execute(f"CREATE INDEX {key}")

    def _attach(self, number: int, path: str) -> dict[str, str]:
        """Attach a ledger, and return a SELECT for its rows of each table."""
        file = f"ledger{min(number, IN_PLACE)}"
        address = Path(path).resolve().as_uri() + "?mode=ro"
        self.database.execute(f"ATTACH ? AS {file}", (address,))
        copies = ", ".join(map(str, self._copies.get(number, ())))
        selects = {}
        for table, template in _ROWS.items():
            rows = select(table, file)
            if table != "body":
                rows += f" WHERE crawl NOT IN ({copies})"
            selects[table] = template.format(ledger=number, file=file, rows=rows)
        return selects


def _text(octets: bytes) -> str:
    return octets[:TEXT_LIMIT].decode("utf-8", "replace")


def _state(crawl: dict[str, Any]) -> tuple[bool, int]:
    """Return a key by which a later state of a crawl comes after an earlier one."""
    return crawl["ended"] is not None, Path(crawl["path"]).stat().st_size


def _row(crawl: dict[str, Any]) -> tuple[object, ...]:
    """Return a crawl as the views have it."""
    is_dry_run = _is_on(crawl["settings"].get(DRY_RUN))
    return (
        crawl["ledger"],
        crawl["id"],
        crawl["dialect"],
        json.dumps(crawl["agents"] or product_tokens(crawl["user_agent"])),
        crawl["every_decision"],
        is_dry_run,
        not is_dry_run and not _is_on(crawl["settings"].get(OBEY, True)),
    )


def _is_on(setting: object) -> bool:
    """Read a setting as Scrapy does."""
    return str(setting).lower() in {"1", "true"}
