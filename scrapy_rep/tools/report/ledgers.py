"""Opens ledgers for a report, and computes the facts that need a parsed robots.txt, not only SQL."""

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
"""How many bytes of a text the views return. A crawl writes shorter texts."""

_EXAMPLES = 10
"""How many forbidden URLs the report names."""

_REPORT_VIEWS = files("scrapy_rep").joinpath("tools/report/views.sql")

# The tables of a ledger that a report reads.
_TABLES = ("body", "snapshot", "decision", "traffic", "gap", "progress")

# Matches the start of the views that other views use. In a report, they become tables, so that each is
# computed only once.
_VIEW = re.compile(
    r"CREATE VIEW (?=(?:tally|latest_robotstxt|hosts|minutes|shortest_gaps) )"
)

# In a report, the refusals and drops of a dry run count as real ones; the headline says so.
_AS_IF = """
    UPDATE decision SET verdict = iif(verdict = 'would-refuse', 'refused', 'dropped')
    WHERE verdict IN ('would-refuse', 'would-drop')
"""

_AI = {token: crawler for token, crawler in CRAWLERS.items() if crawler.is_ai}
_MAY_NAME = re.compile("|".join(map(re.escape, _AI)).encode(), re.IGNORECASE).search
_MAY_SLOW = re.compile(rb"crawl-delay|request-rate", re.IGNORECASE).search
"""Fast searches in a body, which rule out most files, so that these need not be parsed."""

_EVERYTHING = frozenset({"/", "*", "/*"})
"""The patterns that match every path."""

WHOLE = 16_000
"""A robots.txt of at most this many characters, and 1,000 lines, is shown completely."""

# The lines of a longer file that are shown: the first _BEGINNING, the _MARKED that decided most, and
# _AROUND lines before and after each of these.
_BEGINNING = 40
_AROUND = 2
_MARKED = 100


class ReportLimits(NamedTuple):
    """How many rows a report shows at most. The report says how many it leaves out."""

    hosts: int = 10_000
    """The number of rows in the table of hosts."""

    files: int = 200
    """The number of hosts with their robots.txt."""

    others: int = 500
    """The number of rows in each other table."""

    urls: int = 20
    """The number of URLs for each host, and of hosts for each reason."""


NO_LIMITS = ReportLimits(*[2**62] * 4)

_LIMITED = {
    "host": "hosts",
    "slow": "urls",
    **dict.fromkeys(("fetched", "delay", "pause", "purpose", "outage", "overridden"), "others"),
}  # fmt: skip
"""The views that are limited, each with its limit. Their column ``of_all`` has the number of all rows."""


class ReportLedgers(Ledgers):
    """Ledgers with the views of a report. The caller must call ``close`` at the end."""

    def __init__(self, paths: Sequence[str], limits: ReportLimits) -> None:
        """Read the ledgers at *paths*. Raises LedgerError for a file that is damaged or is not a ledger.
        Damage that shows only in a view raises an error that :func:`reading` turns into a LedgerError.
        """
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
            report_views = _REPORT_VIEWS.read_text("utf-8")
            self.database.executescript(f"BEGIN; {views} {report_views}")
            self._fill_tables()
            opened.pop_all()

    def view(self, name: str, **columns: object) -> sqlite3.Cursor:
        """Return the rows of the view *name*: all rows, or only those with the given values of *columns*."""
        where = "".join(f" AND {column} = :{column}" for column in columns)
        query = f"SELECT * FROM {name} WHERE true{where}"  # noqa: S608
        if limit := _LIMITED.get(name):
            query = (
                f"SELECT *, count(*) OVER () AS of_all FROM ({query})"  # noqa: S608
                f" LIMIT (SELECT {limit} FROM limits)"
            )
        return self.database.execute(query, columns)

    def body(self, digest: str) -> bytes:
        """Return the bytes of the robots.txt with this SHA-256; empty if the ledgers do not have the file."""
        row = self.view("body", sha256=digest).fetchone()
        return row["body"] if row else b""

    def dialect_of(self, crawl: int) -> Dialect | None:
        """Return the dialect of the crawl with this number; None if it is a dialect of the user's own."""
        record = self.by_number.get(crawl)
        return DIALECTS.get(record["dialect"]) if record else None

    def check(self) -> dict[str, Any]:
        """Judge again all requests that robots.txt let through. Return how many were checked, how many of
        these were forbidden, with a few examples, and how many could not be checked.

        A ledger has each robots.txt that decided, the agent of the group that was followed, and the
        URL, so the report does not have to trust the decisions of the crawl. A request of a crawl with
        a custom dialect, or with a URL that was cut for the ledger, can't be checked.
        """
        counts = {"checked": 0, "forbidden": 0, "unchecked": 0}
        examples: list[str] = []

        # Cached, since several crawls may have used the same file.
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

    def _fill_tables(self) -> None:
        """Fill the tables ``asked`` (delays) and ``named`` (AI crawlers) from the latest robots.txt of each
        host.
        """
        execute = self.database.execute
        # Each file is parsed once, since many hosts have the same file.
        for digest, hosts in groupby(self.view("latest_file"), itemgetter("sha256")):
            body = self.body(digest)
            crawlers = list(crawlers_named(body))
            delays: dict[int, float | None] = {}
            for host in hosts:
                number = host["crawl"]
                if number not in delays:
                    delays[number] = self._delay(body, number)
                if delays[number]:
                    row = host["origin"], delays[number]
                    execute("INSERT INTO asked VALUES (?, ?)", row)
                for crawler, forbids, line in crawlers:
                    crawler_row = host["origin"], *crawler[:3], forbids, line
                    execute("INSERT INTO named VALUES (?, ?, ?, ?, ?, ?)", crawler_row)

    def _delay(self, body: bytes, number: int) -> float | None:
        """Return the delay in seconds for which a robots.txt asks the crawl *number*, or None."""
        crawl = self.by_number.get(number)
        if crawl is None:
            return None
        tokens = crawl["agents"] or product_tokens(crawl["user_agent"])
        return delay_asked(body, self.dialect_of(number) or RFC9309, tokens)


def _text(octets: bytes) -> str:
    return octets[:TEXT_LIMIT].decode("utf-8", "replace")


def _modes(crawl: dict[str, Any]) -> dict[str, Any]:
    """Return whether a crawl is a dry run; whether it ignores robots.txt; and whether it ended because the
    network was gone, with the number of requests that were left.
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
    """Whether the value of a setting is true, as Scrapy reads booleans."""
    return str(setting).lower() in {"1", "true"}


def delay_asked(body: bytes, dialect: Dialect, tokens: Sequence[str]) -> float | None:
    """Return the delay in seconds for which a robots.txt asks the crawler with the product *tokens*; None
    if the file does not ask for a delay.
    """
    if not _MAY_SLOW(body):
        return None
    return RobotsTxt.parse(body, dialect).pace(tokens).delay or None


def crawlers_named(body: bytes) -> Iterator[tuple[Crawler, str, int]]:
    """Yield each AI crawler that a robots.txt names, how much the file forbids to the crawler, and the first
    line with its name.
    """
    if not _MAY_NAME(body):
        return
    groups: dict[Dialect, Any] = {}
    for token, crawler in _AI.items():
        if crawler.dialect not in groups:
            groups[crawler.dialect] = RobotsTxt.parse(body, crawler.dialect).groups
        named = [group for group in groups[crawler.dialect] if token in group.agents]
        if named:
            line = named[0].lines[named[0].agents.index(token)]
            rules = [rule for group in named for rule in group.rules if rule.pattern]
            allowed = {rule.pattern for rule in rules if rule.kind == "allow"}
            forbidden = {rule.pattern for rule in rules if rule.kind == "disallow"}
            yield crawler, _forbids(forbidden, allowed), line


def _forbids(forbidden: set[str], allowed: set[str]) -> str:
    """Say how much the *forbidden* patterns forbid. If the same pattern is allowed too, it is allowed."""
    is_all = forbidden & _EVERYTHING and not allowed & _EVERYTHING
    if is_all:
        return "everything but exceptions" if allowed else "everything"
    return "some paths" if forbidden - _EVERYTHING else "nothing"


def excerpt(
    lines: Sequence[str], marks: Sequence[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Choose the lines of a robots.txt to show. Return for each its number, its text, and its row of the
    view ``mark``, if the line decided anything.

    *lines* are all lines, and *marks* the rows of the view for this file. Of a long file, only the
    beginning and the lines that decided most are shown. For lines that are left out, there is an
    entry with their number and None in place of a text.
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
