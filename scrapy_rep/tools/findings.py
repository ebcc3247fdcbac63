"""What the linter reads and reports: a file, parsed once, and findings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from scrapy_rep.protocol.grammar import PACE_FIELDS, RULES, SITEMAP, USER_AGENT
from scrapy_rep.protocol.robotstxt.groups import groups_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text, read_line

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect
    from scrapy_rep.protocol.robotstxt.lines import Line

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The severities, the gravest first."""

MAX_OF_A_CODE = 100
"""The number of findings of one code that are listed. One more says how many were left out."""
MAX_TEXT = 200
"""The number of characters of a line that a finding shows."""
_MAX_QUOTED = 60

KNOWN_FIELDS = frozenset({USER_AGENT, *RULES, SITEMAP, *PACE_FIELDS})

# The beginning of an HTML page.
_PAGE = re.compile(
    rb"\s*(?:<!--|<(?:!doctype|html|head|body|title|meta|script|\?xml)[\s>])",
    re.IGNORECASE,
).match


class Finding(NamedTuple):
    """A mistake, or a possible mistake, in a robots.txt."""

    line: int
    """The number of the line, from 1; 0 for the file as a whole."""

    code: str
    """One of :data:`~scrapy_rep.tools.linter.CODES`."""

    severity: Severity

    message: str
    """What is wrong, what crawlers make of it, and what to write instead."""

    text: str
    """The line as written, or its beginning; bytes that are not UTF-8 are U+FFFD."""


class Written(NamedTuple):
    """A line that is not empty."""

    number: int
    """From 1."""

    raw: bytes
    """The line as written."""

    field: str
    """The field, as crawlers read it; empty if they read none."""

    value: bytes

    @property
    def content(self) -> bytes:
        """The line without its comment."""
        return self.raw.partition(b"#")[0]


class File:
    """A robots.txt, as the crawlers of one dialect read it, parsed once."""

    def __init__(self, body: bytes, dialect: Dialect, url: str | None) -> None:
        self.body = body
        self.dialect = dialect

        self.url = url
        """The URL that it was fetched from, or None for a local file."""

        self._texts = decoded_text(body, dialect).split(b"\n")
        self.last_line = len(self._texts)

        self.page_line = 0
        """The line on which an HTML page begins; 0 if the file is none. Of a page, only the
        lines with known fields are checked."""

        first = next((n for n, raw in enumerate(self._texts) if raw.strip()), 0)
        if _PAGE(self._texts[first]):
            self.page_line = first + 1

        self.lines: list[Written] = []
        self.read: list[Line] = []
        """The lines that crawlers read."""

        for number, raw in enumerate(self._texts, 1):
            line = read_line(number, raw, dialect)
            if line:
                self.read.append(line)
            field, value = line[1:] if line else ("", b"")
            if raw and (field in KNOWN_FIELDS or not self.page_line):
                self.lines.append(Written(number, raw, field, value))

        self.groups = groups_of(self.read, dialect)

        self.meant: dict[str, str | None] = {}
        """The fields that misspelt ones stand for, as far as known."""

    def lines_of(self, *fields: str) -> list[Written]:
        """Return the lines with one of *fields*, in file order."""
        return [line for line in self.lines if line.field in fields]

    def text(self, line: int) -> str:
        """Return the beginning of a line as written; nothing for line 0."""
        return shown(self._texts[line - 1], MAX_TEXT) if line else ""


def shown(octets: bytes, at_most: int) -> str:
    """Return at most so many characters of the beginning of a text."""
    # No character takes more than four octets.
    return octets[: 4 * at_most].decode("utf-8", "replace")[:at_most]


def quoted(octets: bytes) -> str:
    """Return text of the file as a Python string literal, cut to 60 characters."""
    text = shown(octets, _MAX_QUOTED + 1)
    return repr(text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 3] + "...")
