"""The robots.txt files of hosts, with the lines that decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_rep.ledger.terms import Verdict
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy_rep.report.scratch import Scratch

VERSIONS = 3
"""The most versions of one robots.txt to show."""

WHOLE = 16_000
"""A robots.txt of at most this many characters, and 1,000 lines, is shown completely."""

# A longer one is cut to lines at its beginning, and to the lines that decided most, each
# with lines before and after it. These are the numbers of lines.
_BEGINNING = 40
_AROUND = 2
_MARKED = 100

# Files with the most decisions come first.
_ORIGINS = """
SELECT origin, (SELECT coalesce(sum(count), 0) FROM line
                WHERE line.origin = snapshot.origin) AS decided
FROM snapshot WHERE sha256 IS NOT NULL
GROUP BY origin ORDER BY decided DESC, origin LIMIT ?
"""

_ALL = "SELECT count(DISTINCT origin) FROM snapshot WHERE sha256 IS NOT NULL"

_VERSIONS = """
SELECT sha256, ledger, crawl, url, min(coalesce(copy_of, fetched)) AS first,
       max(coalesce(copy_of, fetched)) AS last, max(copy_of) AS copy_of
FROM snapshot WHERE origin = ? AND sha256 IS NOT NULL
GROUP BY sha256 ORDER BY last DESC
"""

_MARKS = """
SELECT line, verdict, sum(count) AS count, url FROM line
WHERE origin = ? AND sha256 = ? GROUP BY line, verdict
"""

_DECIDED = """
SELECT coalesce(sum(CASE WHEN verdict = 'refused' THEN count END), 0),
       coalesce(sum(CASE WHEN verdict = 'allowed' THEN count END), 0)
FROM line WHERE origin = ?
"""


@dataclass(slots=True)
class Mark:
    """How often one line of a robots.txt decided."""

    refused: int = 0
    allowed: int = 0

    use: int = 0
    """How often it decided about the use of content, or was noted."""

    example: str = ""
    """One of the URLs."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    number: int
    text: str
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class Gap:
    """The number of lines that are left out at this place."""

    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a robots.txt."""

    url: str
    """Its URL after redirects."""

    first: float
    """When it was first fetched, according to the ledgers."""

    last: float

    copy_of: float | None
    """When it was fetched, if it was followed later, during an outage."""

    size: int
    """In bytes, as far as the ledger has it."""

    cut: bool
    """Whether it was longer than the dialect reads."""

    shown: tuple[ShownLine | Gap, ...]

    marked: int
    """The number of its lines that decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The versions of the robots.txt of one host."""

    number: int
    origin: str
    versions: tuple[Version, ...]
    more_versions: int
    refused: int
    allowed: int


class Documents:
    def __init__(self, scratch: Scratch, limit: int) -> None:
        self._scratch = scratch
        database = scratch.database
        origins = [row[0] for row in database.execute(_ORIGINS, (limit,))]
        self.numbers = {origin: number for number, origin in enumerate(origins, 1)}
        """The number of each document in the report, by origin."""
        self.left_out: int = database.execute(_ALL).fetchone()[0] - len(origins)

    def __iter__(self) -> Iterator[Document]:
        database = self._scratch.database
        for origin, number in self.numbers.items():
            versions = database.execute(_VERSIONS, (origin,)).fetchall()
            refused, allowed = database.execute(_DECIDED, (origin,)).fetchone()
            yield Document(
                number=number,
                origin=origin,
                versions=tuple(
                    self._version(origin, row) for row in versions[:VERSIONS]
                ),
                more_versions=max(0, len(versions) - VERSIONS),
                refused=refused,
                allowed=allowed,
            )

    def _version(self, origin: str, row: sqlite3.Row) -> Version:
        marks = self._marks(origin, row["sha256"])
        body = self._scratch.body(row["ledger"], row["sha256"]) or b""
        crawl = self._scratch.crawls.get(row["crawl"])
        # The dialect of the crawl decides where a line ends.
        dialect = DIALECTS.get(crawl.dialect, RFC9309) if crawl else RFC9309
        read = decoded_text(body, dialect).decode("utf-8", "backslashreplace")
        return Version(
            url=row["url"],
            first=row["first"],
            last=row["last"],
            copy_of=row["copy_of"],
            size=len(body),
            cut=len(body) > dialect.size_limit,
            shown=excerpt(read, marks),
            marked=len(marks),
        )

    def _marks(self, origin: str, sha256: str) -> dict[int, Mark]:
        marks: dict[int, Mark] = {}
        rows = self._scratch.database.execute(_MARKS, (origin, sha256))
        for line, verdict, count, url in rows:
            mark = marks.setdefault(line, Mark())
            if verdict == Verdict.REFUSED:
                mark.refused, mark.example = count, url
            elif verdict != Verdict.ALLOWED:
                mark.use, mark.example = mark.use + count, mark.example or url
            else:
                mark.allowed, mark.example = count, mark.example or url
        return marks


def excerpt(text: str, marks: Mapping[int, Mark]) -> tuple[ShownLine | Gap, ...]:
    """Return the lines of *text* to show.

    Of a long text, these are the beginning, and some lines around those that decided most.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    numbers: Sequence[int] = range(1, len(lines) + 1)
    if len(text) > WHOLE or len(lines) > WHOLE // 16:
        chosen = set(numbers[:_BEGINNING])
        for number in _most(marks):
            chosen.update(range(number - _AROUND, number + _AROUND + 1))
        numbers = sorted(chosen.intersection(numbers))
    return tuple(_with_gaps(lines, numbers, marks))


def _most(marks: Mapping[int, Mark]) -> list[int]:
    def decided(number: int) -> int:
        mark = marks[number]
        return mark.refused + mark.allowed + mark.use

    return sorted(marks, key=decided, reverse=True)[:_MARKED]


def _with_gaps(
    lines: list[str], numbers: Sequence[int], marks: Mapping[int, Mark]
) -> Iterator[ShownLine | Gap]:
    last = 0
    for number in numbers:
        if number > last + 1:
            yield Gap(number - last - 1)
        yield ShownLine(number, lines[number - 1], marks.get(number))
        last = number
    if len(lines) > last:
        yield Gap(len(lines) - last)
