"""Reads from a robots.txt what the views of a report can't, and which of its lines to show."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.lines import decoded_text
from scrapy_rep.tools.crawlers import CRAWLERS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.tools.crawlers import Crawler

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


def delay_asked(body: bytes, dialect: Dialect, tokens: Sequence[str]) -> float | None:
    """Return the delay that a robots.txt asks a crawler for, in seconds."""
    if not _MAY_SLOW(body):
        return None
    robots = RobotsTxt.parse(body, dialect)
    delays = [robots.crawl_delay(tokens)]
    rate = robots.request_rate(tokens) if dialect.crawl_delay else None
    if rate:
        delays.append(rate.seconds / rate.requests)
    return max((delay for delay in delays if delay), default=None)


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
