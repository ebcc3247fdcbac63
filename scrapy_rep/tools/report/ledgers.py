"""Opens ledgers for a report, and derives from the robots.txt files what SQL views can't."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from functools import lru_cache
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.base.records import CUT
from scrapy_rep.base.settings import DRY_RUN, OBEY
from scrapy_rep.base.stats import NOT_SENT
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.crawlers import CRAWLERS
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.tools.ledgers import VIEWS, LedgerName, Ledgers

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.crawlers import Crawler
    from scrapy_rep.protocol.dialect import Dialect

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

# What a dry run would have refused or dropped counts as if it had; the headline says so.
_AS_IF = """
    UPDATE decision SET verdict = iif(verdict = 'would-refuse', 'refused', 'dropped')
    WHERE verdict IN ('would-refuse', 'would-drop')
"""

_AI = {token: crawler for token, crawler in CRAWLERS.items() if crawler.is_ai}
_MAY_NAME = re.compile("|".join(map(re.escape, _AI)).encode(), re.IGNORECASE).search
_MAY_SLOW = re.compile(rb"crawl-delay|request-rate", re.IGNORECASE).search
"""Fast checks of a body, which rule out most files before they are parsed."""

_EVERYTHING = frozenset({"/", "*", "/*"})
"""Patterns that match each path."""

WHOLE = 16_000
"""A robots.txt of at most this many characters, and 1,000 lines, is shown completely."""

# A longer one is cut to lines at its beginning, and to the lines that decided most, each
# with lines before and after it. These are the numbers of lines.
_BEGINNING = 40
_AROUND = 2
_MARKED = 100


class ReportLimits(NamedTuple):
    """The most that a report shows. The report says how much it leaves out."""

    hosts: int = 10_000
    """Rows of the table of hosts."""

    files: int = 200
    """Hosts whose robots.txt is shown."""

    others: int = 500
    """Rows of each other table."""

    urls: int = 20
    """URLs of a host, and hosts with the same reason."""


NO_LIMITS = ReportLimits(*[2**62] * 4)

_LIMITED = {
    "host": "hosts",
    "slow": "urls",
    **dict.fromkeys(("fetched", "delay", "pause", "purpose", "outage", "overridden"), "others"),
}  # fmt: skip
"""The views that are cut, and the limit of each. Their column ``of_all`` counts all rows."""


class ReportLedgers(Ledgers):
    """Ledgers with the views of a report. The caller must close them."""

    def __init__(self, paths: Sequence[str], limits: ReportLimits) -> None:
        """Raises LedgerError for a file that is damaged or is not a ledger; for one whose damage shows
        in a view, an error that :func:`reading` turns into it."""
        super().__init__(list(map(LedgerName, paths)), dict.fromkeys(_TABLES, "true"))
        self.limits = limits
        for crawl in self.crawls:
            crawl.update(_modes(crawl))
        with ExitStack() as opened:
            opened.enter_context(closing(self))
            self.database.text_factory = _text
            self.database.execute(_AS_IF)
            self.database.execute("CREATE TABLE limits (hosts, files, others, urls)")
            self.database.execute("INSERT INTO limits VALUES (?, ?, ?, ?)", limits)
            views = _VIEW.sub("CREATE TABLE ", VIEWS)
            self.database.executescript(f"BEGIN; {views} {_SHOWN.read_text('utf-8')}")
            self._note_facts()
            opened.pop_all()

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
        row = self.view("body", sha256=digest).fetchone()
        return row["body"] if row else b""

    def dialect_of(self, crawl: int) -> Dialect | None:
        """Return the dialect of a crawl, by its number; None for one of the user's own."""
        known_crawl = self.by_number.get(crawl)
        return DIALECTS.get(known_crawl["dialect"]) if known_crawl else None

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


def _text(octets: bytes) -> str:
    return octets[:TEXT_LIMIT].decode("utf-8", "replace")


def _modes(crawl: dict[str, Any]) -> dict[str, Any]:
    """Return whether a crawl is a dry run, whether it ignores robots.txt, whether it ended without
    network, and how many requests were left then.
    """
    is_dry_run = _is_on(crawl["settings"].get(DRY_RUN))
    obeys = _is_on(crawl["settings"].get(OBEY, True))
    not_sent = crawl["counts"].get(NOT_SENT)
    return {
        "is_dry_run": is_dry_run,
        "ignores": not (is_dry_run or obeys),
        "without_network": crawl["finish_reason"] == "network_gone",
        "not_sent": not_sent if type(not_sent) is int else 0,
    }


def _is_on(setting: object) -> bool:
    """Whether a setting is true, as Scrapy reads booleans."""
    return str(setting).lower() in {"1", "true"}


def delay_asked(body: bytes, dialect: Dialect, tokens: Sequence[str]) -> float | None:
    """Return the delay that a robots.txt asks a crawler for, in seconds."""
    if not _MAY_SLOW(body):
        return None
    return RobotsTxt.parse(body, dialect).pace(tokens).delay or None


def crawlers_named(body: bytes) -> Iterator[tuple[Crawler, str, int]]:
    """Yield each AI crawler that a robots.txt names, what the file forbids the crawler, and the first line
    with its name.
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
    """Say how much the *forbidden* patterns forbid. Where the same pattern is allowed, that wins."""
    is_all = forbidden & _EVERYTHING and not allowed & _EVERYTHING
    if is_all:
        return "everything but exceptions" if allowed else "everything"
    return "some paths" if forbidden - _EVERYTHING else "nothing"


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
