"""Reads the robots.txt files in ledgers, to show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.ledger.reader import read_texts, reading
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.report.ledgers import Ledgers

WHOLE = 16_000
"""A robots.txt of at most this many characters, and 1,000 lines, is shown completely."""

# A longer one is cut to lines at its beginning, and to the lines that decided most, each
# with lines before and after it. These are the numbers of lines.
_BEGINNING = 40
_AROUND = 2
_MARKED = 100


class Line(NamedTuple):
    number: int
    text: str

    mark: sqlite3.Row | None
    """What it decided."""


class Gap(NamedTuple):
    """The number of lines that are left out at this place."""

    lines: int


class Document(NamedTuple):
    """A version of a robots.txt, as a report shows it."""

    url: str
    """Its URL after redirects."""

    size: int
    """In bytes, as far as the ledger has it."""

    cut: bool
    """Whether it was longer than the dialect reads."""

    lines: Sequence[Line | Gap]

    marked: int
    """The number of its lines that decided."""


def document(ledgers: Ledgers, version: sqlite3.Row) -> Document:
    """Read *version*, a row of that view."""
    body = ledgers.body(version["ledger"], version["sha256"]) or b""
    # The dialect of the crawl decides where a line ends.
    dialect = _dialect(ledgers, version)
    text = decoded_text(body, dialect).decode("utf-8", "backslashreplace")
    rows = ledgers.view("mark", origin=version["origin"], sha256=version["sha256"])
    marks = {row["line"]: row for row in rows}
    with reading(ledgers.paths[version["ledger"]]):
        redirects = read_texts(version["redirects"])
    return Document(
        url=(redirects or (version["url"],))[-1],
        size=len(body),
        cut=len(body) > dialect.size_limit,
        lines=excerpt(text, marks),
        marked=len(marks),
    )


def excerpt(text: str, marks: Mapping[int, sqlite3.Row]) -> Sequence[Line | Gap]:
    """Return the lines of *text* to show. *marks* are the rows of those that decided.

    Of a long text, these are the beginning, and some lines around those that decided most.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers: Sequence[int] = range(1, len(lines) + 1)
    if len(text) > WHOLE or len(lines) > WHOLE // 16:
        chosen = set(numbers[:_BEGINNING])
        most = sorted(marks, key=lambda line: marks[line]["times"], reverse=True)
        for number in most[:_MARKED]:
            chosen.update(range(number - _AROUND, number + _AROUND + 1))
        numbers = sorted(chosen.intersection(numbers))
    return tuple(_with_gaps(lines, numbers, marks))


def _with_gaps(
    lines: list[str], numbers: Sequence[int], marks: Mapping[int, sqlite3.Row]
) -> Iterator[Line | Gap]:
    last = 0
    for number in numbers:
        if number > last + 1:
            yield Gap(number - last - 1)
        yield Line(number, lines[number - 1], marks.get(number))
        last = number
    if len(lines) > last:
        yield Gap(len(lines) - last)


def _dialect(ledgers: Ledgers, row: sqlite3.Row) -> Dialect:
    crawl = ledgers.crawl_of(row)
    return DIALECTS.get(crawl["dialect"], RFC9309) if crawl else RFC9309
