"""Opens ledgers for a report, and computes the results that need a parsed robots.txt in addition to SQL."""

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
"""The maximum number of bytes of a text that a report reads from the ledgers. Longer texts are cut. Crawls do not write
such texts, but a forged ledger can contain them."""

_EXAMPLES = 10
"""The maximum number of forbidden URLs that the report lists as examples."""

_REPORT_VIEWS = files("scrapy_rep").joinpath("tools/report/views.sql")

# The tables of a ledger that a report reads.
_TABLES = ("body", "snapshot", "decision", "traffic", "gap", "progress")

# Matches the start of the definitions of views that other views use. A report turns these views into tables, so that
# each is computed only once.
_VIEW = re.compile(
    r"CREATE VIEW (?=(?:tally|latest_robotstxt|hosts|minutes|shortest_gaps) )"
)

# A dry run refuses and drops nothing. It only records what a real crawl would refuse or drop. The report shows this as
# refused or dropped, and mentions the dry run in its headline.
_AS_IF = """
    UPDATE decision SET verdict = iif(verdict = 'would-refuse', 'refused', 'dropped')
    WHERE verdict IN ('would-refuse', 'would-drop')
"""

_AI = {token: crawler for token, crawler in CRAWLERS.items() if crawler.is_ai}
_MAY_NAME = re.compile("|".join(map(re.escape, _AI)).encode(), re.IGNORECASE).search
_MAY_SLOW = re.compile(rb"crawl-delay|request-rate", re.IGNORECASE).search
"""Fast searches in the body of a robots.txt. If _MAY_NAME finds nothing, the body does not name an AI crawler. If
_MAY_SLOW finds nothing, the body does not state a delay. In these cases, the body is not parsed, which would take
longer than the search."""

_EVERYTHING = frozenset({"/", "*", "/*"})
"""The patterns that match every path."""

WHOLE = 16_000
"""The maximum number of characters of a robots.txt that is shown completely. A file of more than 1,000 lines is also
shown only in part."""

# If a robots.txt is longer, the report shows these lines of it:
# - the first _BEGINNING lines
# - up to _MARKED lines on which decisions are based, those with the most decisions first
# - _AROUND lines before, and _AROUND lines after, each of the _MARKED lines
_BEGINNING = 40
_AROUND = 2
_MARKED = 100


class ReportLimits(NamedTuple):
    """The maximum numbers of rows in the tables of a report. The report states how many rows it leaves out."""

    hosts: int = 10_000
    """The maximum number of rows in the table of hosts."""

    files: int = 200
    """The maximum number of hosts whose robots.txt is shown."""

    others: int = 500
    """The maximum number of rows in each table without a limit of its own, such as the table of delays, the table of
    pauses and the table of unreachable robots.txt files."""

    urls: int = 20
    """The maximum length of each short list: the URLs of a host, the hosts whose robots.txt is missing for the same
    reason, the outcomes of requests for robots.txt, and the hosts at which the crawl takes longest."""


NO_LIMITS = ReportLimits(*[2**62] * 4)

_LIMITED = {
    "host": "hosts",
    "slow": "urls",
    **dict.fromkeys(("fetched", "delay", "pause", "purpose", "outage", "overridden"), "others"),
}  # fmt: skip
"""Maps the name of an SQL view to the field of :class:`ReportLimits` with the maximum number of the view's rows.
:meth:`ReportLedgers.view` returns at most this number of rows. It adds the column ``of_all`` with the number of rows
that the view has without the maximum.

A view that is not in this dict has its maximum in its SQL, or has no maximum."""


class ReportLedgers(Ledgers):
    """A database connection through which a report queries several ledgers. It contains the SQL views that the report
    needs. The caller must call ``close``.
    """

    def __init__(self, paths: Sequence[str], limits: ReportLimits) -> None:
        """Read the ledgers at *paths*. Raises LedgerError for a file that is damaged or is not a ledger.

        Some damage is found only when an SQL view is computed, here or in :meth:`view`. Then an exception of sqlite3 is
        raised. Callers use :func:`~scrapy_rep.crawl.ledger.reader.reading` to turn it into a LedgerError.
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
            # The views on which other views depend become tables, so that they are computed only once.
            views = _VIEW.sub("CREATE TABLE ", VIEWS)
            report_views = _REPORT_VIEWS.read_text("utf-8")
            self.database.executescript(f"BEGIN; {views} {report_views}")
            self._fill_tables()
            opened.pop_all()

    def view(self, name: str, **columns: object) -> sqlite3.Cursor:
        """Return the rows of the SQL view *name*. If ``_LIMITED`` contains a maximum number of rows of the view,
        return at most this number. If *columns* are given, return only rows with these values in the columns of the
        same names.
        """
        where = "".join(f" AND {column} = :{column}" for column in columns)
        query = f"SELECT * FROM {name} WHERE true{where}"  # noqa: S608
        if limit := _LIMITED.get(name):
            query = (
                f"SELECT *, count(*) OVER () AS of_all FROM ({query})"  # noqa: S608
                f" LIMIT (SELECT {limit} FROM limits)"
            )
        return self.database.execute(query, columns)

    def body(self, digest: str) -> bytes:
        """Return the body of the robots.txt with the SHA-256 *digest*. Return empty bytes if the ledgers do not contain
        the body.
        """
        row = self.view("body", sha256=digest).fetchone()
        return row["body"] if row else b""

    def dialect_of(self, crawl: int) -> Dialect | None:
        """Return the dialect of the crawl with the number *crawl*. Return None if there is no such crawl, or if its
        dialect is a custom one.
        """
        record = self.by_number.get(crawl)
        return DIALECTS.get(record["dialect"]) if record else None

    def check(self) -> dict[str, Any]:
        """Check again, independently of the crawls, all requests that robots.txt allowed. Return the numbers of
        ``checked``, ``forbidden`` and ``unchecked`` requests, and up to ten forbidden URLs as ``examples``.

        The report does not have to trust the crawl's decisions, because a ledger contains the URL, the robots.txt
        that applied, and the agent whose group was followed. A request remains unchecked if the crawl used a custom
        dialect, or if the ledger contains only a part of its URL.
        """
        counts = {"checked": 0, "forbidden": 0, "unchecked": 0}
        examples: list[str] = []

        # Cached, because several crawls may use the same file.
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
        """Fill two tables from the latest robots.txt files: ``asked`` with the crawl delays that the files state, and
        ``named`` with the AI crawlers that the files name.
        """
        execute = self.database.execute
        # Rows with the same file are consecutive, so that a file that many hosts share is parsed only once.
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
        """Return the delay in seconds that the robots.txt *body* states for the crawl *number*. Return None if *body*
        does not state a delay, or if there is no crawl with this number.
        """
        crawl = self.by_number.get(number)
        if crawl is None:
            return None
        tokens = crawl["agents"] or product_tokens(crawl["user_agent"])
        return delay_asked(body, self.dialect_of(number) or RFC9309, tokens)


def _text(octets: bytes) -> str:
    return octets[:TEXT_LIMIT].decode("utf-8", "replace")


def _modes(crawl: dict[str, Any]) -> dict[str, Any]:
    """Return facts about a crawl as a dict: whether the crawl is a dry run (``is_dry_run``), whether it ignores
    robots.txt (``ignores``), whether it ended because no host responded any more (``without_network``), and how many
    requests were not sent for this reason (``not_sent``).
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
    """Whether *setting* is a value that Scrapy's ``getbool`` reads as True."""
    return str(setting).lower() in {"1", "true"}


def delay_asked(body: bytes, dialect: Dialect, tokens: Sequence[str]) -> float | None:
    """Return the delay in seconds that the robots.txt *body* states for the crawler with the product *tokens*. Return
    None if it states no delay.
    """
    if not _MAY_SLOW(body):
        return None
    return RobotsTxt.parse(body, dialect).pace(tokens).delay or None


def crawlers_named(body: bytes) -> Iterator[tuple[Crawler, str, int]]:
    """Yield the AI crawlers that the robots.txt *body* names. For each crawler, also yield a description of how much is
    forbidden, such as ``"some paths"``, and the number of the first line that names the crawler.
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
    """Return what the rules forbid, in words: ``"everything"``, ``"everything but exceptions"``, ``"some paths"``, or
    ``"nothing"``. *forbidden* and *allowed* are the patterns of the disallow and allow rules.
    """
    # If a disallow rule and an allow rule match every path, as "/" does, the allow rule has precedence.
    is_all = forbidden & _EVERYTHING and not allowed & _EVERYTHING
    if is_all:
        return "everything but exceptions" if allowed else "everything"
    return "some paths" if forbidden - _EVERYTHING else "nothing"


def excerpt(
    lines: Sequence[str], marks: Sequence[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Return the lines of a robots.txt that the report shows. *lines* are all lines of the file. *marks* contains a row
    of the view ``mark`` for each line on which decisions are based.

    For each shown line, the result contains a tuple: the line number, the text, and the row in *marks*. The row is None
    if no decision is based on the line.

    Only a part of a long file is shown. In place of lines that are left out, the result contains a tuple with the
    number of these lines, None and None.
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
