"""Reads from the robots.txt files in ledgers what the views of a report can't."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from scrapy_rep.base.record import CUT
from scrapy_rep.protocol.agents import product_tokens
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.request_target import is_allowed
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.lines import decoded_text
from scrapy_rep.tools.crawlers import CRAWLERS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.crawlers import Crawler
    from scrapy_rep.tools.report.ledgers import Ledgers

_AI = {token: crawler for token, crawler in CRAWLERS.items() if crawler.is_ai}
_MAY_NAME = re.compile("|".join(map(re.escape, _AI)).encode(), re.IGNORECASE).search
_MAY_SLOW = re.compile(rb"crawl-delay|request-rate", re.IGNORECASE).search
"""Fast checks that rule out most files."""

_EVERYTHING = frozenset({"/", "*", "/*"})
"""Patterns that match each path."""

EXAMPLES = 10

WHOLE = 16_000
"""A robots.txt of at most this many characters, and 1,000 lines, is shown completely."""

# A longer one is cut to lines at its beginning, and to the lines that decided most, each
# with lines before and after it. These are the numbers of lines.
_BEGINNING = 40
_AROUND = 2
_MARKED = 100


def note_facts(ledgers: Ledgers) -> None:
    """Fill the tables ``asked`` and ``named`` from the latest robots.txt of each host."""
    execute = ledgers.database.execute
    # Many hosts have the same file.
    for digest, hosts in groupby(ledgers.view("latest_file"), itemgetter("sha256")):
        body = ledgers.body(digest)
        named = list(_named(body))
        delays: dict[int, float | None] = {}
        for host in hosts:
            number = host["crawl"]
            if number not in delays:
                delays[number] = _delay(body, ledgers.by_number.get(number))
            if delays[number]:
                row = host["origin"], delays[number]
                execute("INSERT INTO asked VALUES (?, ?)", row)
            for crawler, forbids, line in named:
                name = host["origin"], *crawler[:3], forbids, line
                execute("INSERT INTO named VALUES (?, ?, ?, ?, ?, ?)", name)


def _delay(body: bytes, crawl: dict[str, Any] | None) -> float | None:
    """Return the delay that a robots.txt asks a crawl for, in seconds."""
    if crawl is None or not _MAY_SLOW(body):
        return None
    dialect = DIALECTS.get(crawl["dialect"], RFC9309)
    robots = RobotsTxt.parse(body, dialect)
    tokens = crawl["agents"] or product_tokens(crawl["user_agent"])
    delays = [robots.crawl_delay(tokens)]
    rate = robots.request_rate(tokens) if dialect.crawl_delay else None
    if rate:
        delays.append(rate.seconds / rate.requests)
    return max((delay for delay in delays if delay), default=None)


def _named(body: bytes) -> Iterator[tuple[Crawler, str, int]]:
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


def check(ledgers: Ledgers) -> dict[str, Any]:
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
        return RobotsTxt.parse(ledgers.body(digest), dialect)

    of_crawl = itemgetter("sha256", "crawl")
    for (digest, number), requests in groupby(ledgers.view("to_check"), of_crawl):
        dialect = ledgers.dialect_of(number)
        robots = parsed(digest, dialect) if dialect else None
        for row in requests:
            url = row["url"]
            if robots is None or url.endswith(CUT):
                counts["unchecked"] += 1
                continue
            counts["checked"] += 1
            if not is_allowed(robots, url, row["agent"] or "*"):
                counts["forbidden"] += 1
                examples += [url][: EXAMPLES - len(examples)]
    return {**counts, "examples": examples}


# Many URLs may be judged by one file.
@lru_cache(maxsize=8)
def lines_of(body: bytes, dialect: Dialect) -> list[str]:
    """Return the lines of a robots.txt as the dialect splits them, so that their numbers agree."""
    text = decoded_text(body, dialect).decode("utf-8", "backslashreplace")
    return text.removesuffix("\n").split("\n") if text else []


def excerpt(
    ledgers: Ledgers, version: sqlite3.Row, marks: Sequence[sqlite3.Row]
) -> list[tuple[int, str | None, sqlite3.Row | None]]:
    """Return the lines to show of *version*, a row of that view: the number, the text, and what the
    line decided, from *marks*. Lines that are left out are one row, with their number and no text.

    Of a long file, the lines are those at the beginning, and some around those that decided most.
    """
    # The dialect of the crawl decides where a line ends.
    dialect = ledgers.dialect_of(version["crawl"]) or RFC9309
    lines = lines_of(ledgers.body(version["sha256"]), dialect)
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
