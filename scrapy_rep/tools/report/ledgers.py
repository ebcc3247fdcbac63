"""Opens ledgers for a report, as if they were one, and reads from each robots.txt what views can't."""

from __future__ import annotations

import re
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
    TABLES,
    bound,
    columns_of,
    crawls_of,
    open_ledger,
    reading,
)
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.lines import decoded_text
from scrapy_rep.tools.crawlers import CRAWLERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.crawlers import Crawler

TEXT_LIMIT = 2**18
"""The most bytes of a text that the views return. A crawl writes shorter ones."""

_EXAMPLES = 10
"""The most forbidden URLs to name."""

_SHOWN = files("scrapy_rep").joinpath("tools/report/views.sql")

# The tables of a ledger that a report reads; and the views from which others are made, which are
# tables in a report.
_TABLES = ("body", "snapshot", "decision", "traffic", "gap", "progress")
_VIEW = re.compile(
    r"CREATE VIEW (?=(?:tally|latest_robotstxt|hosts|minutes|shortest_gaps) )"
)

# These number the rows of a ledger. In a report, they are of no other ledger.
_NUMBERS = frozenset({"id", "crawl", "snapshot"})

# What a dry run would have refused or dropped counts as if it had; the headline says so.
_VERDICT = (
    "replace(replace(verdict, 'would-refuse', 'refused'), 'would-drop', 'dropped')"
)

_AI = {token: crawler for token, crawler in CRAWLERS.items() if crawler.is_ai}
_MAY_NAME = re.compile("|".join(map(re.escape, _AI)).encode(), re.IGNORECASE).search
_MAY_SLOW = re.compile(rb"crawl-delay|request-rate", re.IGNORECASE).search
"""Fast checks that rule out most files."""

_EVERYTHING = frozenset({"/", "*", "/*"})
"""Patterns that match each path."""

WHOLE = 16_000
"""A robots.txt of at most this many characters, and 1,000 lines, is shown completely."""

# A longer one is cut to lines at its beginning, and to the lines that decided most, each
# with lines before and after it. These are the numbers of lines.
_BEGINNING = 40
_AROUND = 2
_MARKED = 100


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
            tables, begin, views = TABLES.partition("-- Views")
            self.database.executescript(tables)
            self._copy(paths, copies)
            self.database.execute("CREATE TABLE limits (hosts, files, others, urls)")
            self.database.execute("INSERT INTO limits VALUES (?, ?, ?, ?)", limits)
            views = _VIEW.sub("CREATE TABLE ", begin + views)
            self.database.executescript(f"BEGIN; {views} {_SHOWN.read_text('utf-8')}")
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
        """Return the bytes of a robots.txt; none if no ledger has it."""
        found = self.view("body", sha256=digest).fetchone()
        return found["body"] if found else b""

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

    def _copy(self, paths: Sequence[str], copies: Sequence[int]) -> None:
        """Copy each table of all ledgers into one, without the rows of crawls that are *copies* of
        others, and without a body that has another digest than it says.
        """
        execute = self.database.execute
        self.database.create_function(
            "digest", 1, lambda body: sha256(body).hexdigest()
        )
        for ledger, path in enumerate(paths):
            skipped = [
                each - ledger * MAX_ID for each in copies if each // MAX_ID == ledger
            ]
            no_copy = f"crawl NOT IN ({', '.join(map(str, skipped))})"
            execute("ATTACH ? AS ledger", (f"{Path(path).resolve().as_uri()}?mode=ro",))
            # Crawls may be writing the ledger; a transaction reads a consistent state.
            execute("BEGIN")
            for table in _TABLES:
                where = "sha256 = digest(body)" if table == "body" else no_copy
                execute(
                    f"INSERT OR IGNORE INTO {table} {_select(table, ledger)} WHERE {where}"
                )
            execute("COMMIT")
            execute("DETACH ledger")


def _select(table: str, ledger: int) -> str:
    """Return a SELECT for the rows of a table in a *ledger*."""
    columns = []
    for name in columns_of(table):
        value = _VERDICT if name == "verdict" else name
        if name in _NUMBERS:
            value = f"{name} + {ledger * MAX_ID}"
        columns.append(f"{value} AS {name}")
    return f"SELECT {', '.join(columns)} FROM ledger.{table}"  # noqa: S608


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


def delay_asked(body: bytes, dialect: Dialect, tokens: Sequence[str]) -> float | None:
    """Return the delay that a robots.txt asks a crawler for, in seconds."""
    if not _MAY_SLOW(body):
        return None
    return RobotsTxt.parse(body, dialect).pace(tokens).delay or None


def crawlers_named(body: bytes) -> Iterator[tuple[Crawler, str, int]]:
    """Yield each AI crawler that a robots.txt names, what it forbids it, and the line that names
    it first.
    """
    if not _MAY_NAME(body):
        return
    groups: dict[Dialect, Any] = {}
    for token, crawler in _AI.items():
        if crawler.dialect not in groups:
            groups[crawler.dialect] = RobotsTxt.parse(body, crawler.dialect).groups
        ours = [group for group in groups[crawler.dialect] if token in group.agents]
        if ours:
            line = ours[0].lines[ours[0].agents.index(token)]
            rules = [rule for group in ours for rule in group.rules if rule.pattern]
            allowed = {rule.pattern for rule in rules if rule.kind == "allow"}
            forbidden = {rule.pattern for rule in rules if rule.kind == "disallow"}
            yield crawler, _forbids(forbidden, allowed), line


def _forbids(forbidden: set[str], allowed: set[str]) -> str:
    """Say what is forbidden by the patterns of rules. An equal one that allows wins."""
    is_all = forbidden & _EVERYTHING and not allowed & _EVERYTHING
    if is_all:
        return "everything but exceptions" if allowed else "everything"
    return "some paths" if forbidden - _EVERYTHING else "nothing"


# Many URLs may be judged by one file.
@lru_cache(maxsize=8)
def lines_of(body: bytes, dialect: Dialect) -> list[str]:
    """Return the lines of a robots.txt as the dialect splits them, so that their numbers agree."""
    text = decoded_text(body, dialect).decode("utf-8", "backslashreplace")
    return text.removesuffix("\n").split("\n") if text else []


def excerpt(
    lines: Sequence[str], marks: Sequence[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Return which of the *lines* of a robots.txt to show: the number, the text, and what the line
    decided, from *marks*, rows of that view. Lines that are left out are one row, with their number
    and no text.

    Of a long file, the lines are those at the beginning, and some around those that decided most.
    """
    numbers: Sequence[int] = range(1, len(lines) + 1)
    if sum(map(len, lines)) > WHOLE or len(lines) > WHOLE // 16:
        chosen = set(numbers[:_BEGINNING])
        most = sorted(marks, key=itemgetter("times"), reverse=True)
        for mark in most[:_MARKED]:
            chosen.update(range(mark["line"] - _AROUND, mark["line"] + _AROUND + 1))
        numbers = sorted(chosen.intersection(numbers))
    decided = {mark["line"]: mark for mark in marks}
    shown: list[tuple[int, str | None, sqlite3.Row | None]] = []
    last = 0
    for number in (*numbers, len(lines) + 1):
        if number > last + 1:
            shown.append((number - last - 1, None, None))
        if number <= len(lines):
            shown.append((number, lines[number - 1], decided.get(number)))
        last = number
    return shown
