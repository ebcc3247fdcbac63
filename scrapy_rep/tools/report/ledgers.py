"""Opens ledgers for a report, as if they were one."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from functools import lru_cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.base.record import CUT
from scrapy_rep.base.settings import DRY_RUN, OBEY
from scrapy_rep.crawl.ledger.reader import (
    MAX_ID,
    bound,
    columns_of,
    crawls_of,
    definition,
    open_ledger,
    reading,
)
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.tools.report.robotstxt import crawlers_named, delay_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_rep.protocol.dialect import Dialect

IN_PLACE = 9
"""The most ledgers whose decisions are read in place. SQLite attaches ten files at most; each further
ledger is attached as the tenth one, and copied into a temporary file.
"""

TEXT_LIMIT = 2**18
"""The most bytes of a text that the views return. A crawl writes shorter ones."""

_EXAMPLES = 10
"""The most forbidden URLs to name."""

_SHOWN = files("scrapy_rep").joinpath("tools/report/views.sql")

# The tables that are read in place; those that are small enough to be copied; and the views of a
# ledger, those first that others are made from.
_LARGE = ("decision", "body")
_COPIED = ("snapshot", "traffic", "gap", "progress")
_VIEWS = {
    "tally": "TEMPORARY TABLE",
    "latest_robotstxt": "TEMPORARY TABLE",
    "hosts": "TEMPORARY TABLE",
    "minutes": "TEMPORARY TABLE",
    "shortest_gaps": "TEMPORARY TABLE",
    "pages_by_day": "TEMPORARY VIEW",
}

# These number the rows of a ledger. In a report, they are of no other ledger.
_NUMBERS = frozenset({"id", "crawl", "snapshot"})

# What a dry run would have refused or dropped counts as if it had; the headline says so.
_VERDICT = (
    "replace(replace(verdict, 'would-refuse', 'refused'), 'would-drop', 'dropped')"
)


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

_LIMITED = {
    "host": "hosts",
    "slow": "urls",
    **dict.fromkeys(("fetched", "delay", "pause", "purpose", "outage", "overridden"), "others"),
}  # fmt: skip
"""The views that are cut, and the limit of each. Their column ``of_all`` counts all rows."""


class Ledgers:
    """Open ledgers, read as one. The caller must close it."""

    def __init__(self, paths: Sequence[str], limits: Limits) -> None:
        """Raises LedgerError for a file that is damaged or is not a ledger."""
        self.limits = limits
        found: list[dict[str, Any]] = []
        for ledger, path in enumerate(paths):
            with closing(open_ledger(path)) as connection, reading(path):
                connection.text_factory = partial(
                    str, encoding="utf-8", errors="replace"
                )
                for crawl in crawls_of(connection, path):
                    number = crawl["id"] + ledger * MAX_ID
                    found.append({**crawl, **_modes(crawl), "number": number})
        found.sort(key=_state)
        latest = {crawl["uuid"]: crawl for crawl in found}
        self.crawls = sorted(latest.values(), key=itemgetter("started"))
        """What :func:`crawls_of` yields, the earliest first, with the ``number`` of each in this report. A
        crawl that is in a ledger and in a copy of it counts once."""
        self.by_number = {crawl["number"]: crawl for crawl in self.crawls}
        copies = [
            each["number"] for each in found if each["number"] not in self.by_number
        ]
        with ExitStack() as opened, reading(", ".join(paths)):
            connection = sqlite3.connect("", uri=True, isolation_level=None)
            self.database = opened.enter_context(closing(connection))
            self.database.row_factory = sqlite3.Row
            self.database.text_factory = _text
            bound(self.database, sum(Path(path).stat().st_size for path in paths))
            self._unite(paths, copies)
            script = [definition(name, kind) for name, kind in _VIEWS.items()]
            script.append(_SHOWN.read_text("utf-8"))
            self.database.execute(
                "CREATE TEMPORARY TABLE limits (hosts, files, others, urls)"
            )
            self.database.execute("INSERT INTO limits VALUES (?, ?, ?, ?)", limits)
            # Crawls may be writing the ledgers; a transaction reads a consistent state.
            self.database.executescript(f"BEGIN; {''.join(script)}")
            self._note_facts()
            self.close = opened.pop_all().close

    def view(self, name: str, **columns: object) -> sqlite3.Cursor:
        """Return the rows of a view, all of them or those with the given values."""
        where = "".join(f" AND {column} = :{column}" for column in columns)
        query = f"SELECT * FROM {name} WHERE true{where}"  # noqa: S608
        if limit := _LIMITED.get(name):
            query = (
                f"SELECT *, count(*) OVER () AS of_all FROM ({query})"  # noqa: S608
                f" LIMIT (SELECT {limit} FROM limits)"
            )
        return self.database.execute(query, columns)

    def body(self, digest: str) -> bytes:
        """Return the bytes of a robots.txt; none if no ledger has it. A body with another digest is
        none of it.
        """
        found = (row["body"] for row in self.view("body", sha256=digest))
        return next((each for each in found if sha256(each).hexdigest() == digest), b"")

    def dialect_of(self, crawl: int) -> Dialect | None:
        """Return the dialect of a crawl, by its number; None for one of the user's own."""
        found = self.by_number.get(crawl)
        return DIALECTS.get(found["dialect"]) if found else None

    def check(self) -> dict[str, Any]:
        """Check again whether the requests that a robots.txt let through were allowed, and give a few
        examples of those that were not.

        A ledger has each robots.txt that decided, the agent whose group was followed, and the URL.
        So the report does not have to trust the decisions of the crawl. A request with a custom
        dialect, or a URL that was cut for the ledger, can't be checked.
        """
        counts = {"checked": 0, "forbidden": 0, "unchecked": 0}
        examples: list[str] = []

        # Several crawls may have used the same file.
        @lru_cache(maxsize=10)
        def parsed(digest: str, dialect: Dialect) -> RobotsTxt:
            return RobotsTxt.parse(self.body(digest), dialect)

        of_crawl = itemgetter("sha256", "crawl")
        for (digest, number), requests in groupby(self.view("to_check"), of_crawl):
            dialect = self.dialect_of(number)
            robots = parsed(digest, dialect) if dialect else None
            for row in requests:
                url = row["url"]
                if robots is None or url.endswith(CUT):
                    counts["unchecked"] += 1
                    continue
                counts["checked"] += 1
                if not is_allowed(robots, url, row["agent"] or "*"):
                    counts["forbidden"] += 1
                    examples += [url][: _EXAMPLES - len(examples)]
        return {**counts, "examples": examples}

    def _note_facts(self) -> None:
        """Fill the tables ``asked`` and ``named`` from the latest robots.txt of each host."""
        execute = self.database.execute
        # Many hosts have the same file.
        for digest, hosts in groupby(self.view("latest_file"), itemgetter("sha256")):
            body = self.body(digest)
            named = list(crawlers_named(body))
            delays: dict[int, float | None] = {}
            for host in hosts:
                number = host["crawl"]
                if number not in delays:
                    delays[number] = self._delay(body, number)
                if delays[number]:
                    row = host["origin"], delays[number]
                    execute("INSERT INTO asked VALUES (?, ?)", row)
                for crawler, forbids, line in named:
                    name = host["origin"], *crawler[:3], forbids, line
                    execute("INSERT INTO named VALUES (?, ?, ?, ?, ?, ?)", name)

    def _delay(self, body: bytes, number: int) -> float | None:
        """Return the delay that a robots.txt asks a crawl for."""
        crawl = self.by_number.get(number)
        if crawl is None:
            return None
        tokens = crawl["agents"] or product_tokens(crawl["user_agent"])
        return delay_asked(body, self.dialect_of(number) or RFC9309, tokens)

    def _unite(self, paths: Sequence[str], copies: Sequence[int]) -> None:
        """Make one table or view of each table, with the rows of all ledgers, but not those of
        crawls that are *copies* of others.
        """
        execute = self.database.execute
        for table in _COPIED:
            execute(definition(table, "TEMPORARY TABLE"))
        unions: dict[str, list[str]] = {table: [] for table in _LARGE}
        for ledger, path in enumerate(paths):
            file = f"ledger{min(ledger, IN_PLACE)}"
            execute(
                f"ATTACH ? AS {file}", (f"{Path(path).resolve().as_uri()}?mode=ro",)
            )
            for table in _COPIED:
                execute(f"INSERT INTO {table} {_select(table, file, ledger, copies)}")
            for table in _LARGE:
                select = _select(table, file, ledger, copies)
                if ledger < IN_PLACE:
                    unions[table].append(select)
                    continue
                if ledger == IN_PLACE:
                    copy = f"copy_of_{table}"
                    execute(f"CREATE TEMPORARY TABLE {copy} AS {select} LIMIT 0")
                    unions[table].append(f"SELECT * FROM {copy}")  # noqa: S608
                execute(f"INSERT INTO copy_of_{table} {select}")
            if ledger >= IN_PLACE:
                execute(f"DETACH {file}")
        if len(paths) > IN_PLACE:
            execute("CREATE INDEX temp.copy_of_sha256 ON copy_of_body (sha256)")
        for table, selects in unions.items():
            union = " UNION ALL ".join(selects)
            execute(f"CREATE TEMPORARY VIEW {table} AS {union}")


def _select(table: str, file: str, ledger: int, copies: Sequence[int]) -> str:
    """Return a SELECT for the rows of a table in the *file* of a *ledger*, as SQL names it."""
    columns = []
    for name in columns_of(table):
        value = _VERDICT if name == "verdict" else name
        if name in _NUMBERS:
            value = f"{name} + {ledger * MAX_ID}"
        columns.append(f"{value} AS {name}")
    select = f"SELECT {', '.join(columns)} FROM {file}.{table}"  # noqa: S608
    skipped = [each - ledger * MAX_ID for each in copies if each // MAX_ID == ledger]
    if skipped and table != "body":
        select += f" WHERE crawl NOT IN ({', '.join(map(str, skipped))})"
    return select


def _text(octets: bytes) -> str:
    return octets[:TEXT_LIMIT].decode("utf-8", "replace")


def _state(crawl: dict[str, Any]) -> tuple[bool, int]:
    """Return a key by which a later state of a crawl comes after an earlier one."""
    return crawl["ended"] is not None, Path(crawl["path"]).stat().st_size


def _modes(crawl: dict[str, Any]) -> dict[str, bool]:
    """Return whether a crawl withholds nothing, or ignores robots.txt."""
    is_dry_run = _is_on(crawl["settings"].get(DRY_RUN))
    obeys = _is_on(crawl["settings"].get(OBEY, True))
    return {"is_dry_run": is_dry_run, "ignores": not (is_dry_run or obeys)}


def _is_on(setting: object) -> bool:
    """Read a setting as Scrapy does."""
    return str(setting).lower() in {"1", "true"}
