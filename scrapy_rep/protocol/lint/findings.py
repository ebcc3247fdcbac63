"""The codes of lint findings, and the class that collects the findings of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from scrapy_rep.protocol.robotstxt.groups import groups_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect

Severity = Literal["error", "warning", "note"]

MAX_OF_A_CODE = 100
"""The number of findings of one code that are listed. One more says how many were left out."""
MAX_TEXT = 200
"""The number of characters of a line that a finding shows."""
_MAX_QUOTED = 60

CODES: dict[str, tuple[Severity, str]] = {
    # The file.
    "broken-byte-order-mark": (
        "warning", "the file begins with an incomplete byte order mark",
    ),
    "byte-order-mark": ("note", "the file begins with a byte order mark"),
    "html": ("error", "the file is an HTML page, not a robots.txt"),
    "invalid-utf-8": ("warning", "a line that is not valid UTF-8"),
    "line-too-long": ("warning", "a line that is longer than Google reads"),
    "not-compared": ("note", "the file has too many patterns to compare them all"),
    "null-characters": ("error", "a line with null characters"),
    "stray-byte-order-mark": ("error", "a byte order mark inside the file"),
    "too-large": ("error", "crawlers ignore the file from this line on"),
    "utf-16": ("warning", "the file is in UTF-16"),
    # Fields.
    "fields-in-value": ("error", "a value that contains another field"),
    "misspelt-field": ("error", "a misspelt field, which crawlers ignore"),
    "missing-colon": ("error", "a line without a colon, which crawlers ignore"),
    "missing-field": ("error", "a value without a field before it"),
    "obsolete-field": ("warning", "a field that no large search engine reads any more"),
    "tolerated-spelling": ("warning", "a field in a form that only some crawlers read"),
    "unknown-field": ("note", "a field that this package does not know"),
    "unused-field": ("note", "a field that the dialect ignores"),
    "vendor-field": ("note", "a field that only one vendor reads"),
    # User-agent lines and groups.
    "agent-cut": ("warning", "a user-agent line of which crawlers read only the beginning"),
    "agent-list": ("error", "several names in one user-agent line"),
    "agent-version": ("note", "a version or * after a name, which crawlers ignore"),
    "browser-header": ("error", "a User-Agent header in place of a product token"),
    "group-without-rules": ("warning", "a group without rules, which allows everything"),
    "hidden-group": ("error", "a group that no crawler follows, as an earlier one comes first"),
    "merged-group": ("note", "a group that crawlers merge with an earlier one"),
    "no-agent": ("error", "a user-agent line that names no crawler"),
    "record-outside-group": ("warning", "a record outside any group"),
    "repeated-agent": ("note", "a name that the group already has"),
    "rule-after-blank-line": ("error", "a rule cut off from its group by a blank line"),
    "rule-before-group": ("error", "a rule before any user-agent line"),
    # Rules.
    "duplicate-rule": ("note", "the same rule as in an earlier line"),
    "empty-allow": ("warning", "an empty Allow, which has no effect"),
    "empty-disallow": ("warning", "an empty Disallow in a group that forbids something"),
    "redundant-rule": ("note", "a rule that another rule makes redundant"),
    "shadowed-rule": ("warning", "a rule that never decides, because another overrules it"),
    # Patterns.
    "absolute-url": ("error", "a full URL instead of a path"),
    "bad-percent": ("warning", "a % without two hexadecimal digits after it"),
    "dollar-inside": ("warning", "a $ that is not at the end, and is not special there"),
    "double-star": ("note", "several * in a row"),
    "encoded-slash": ("note", "%2F, which does not match /"),
    "encoded-unreserved": ("note", "a percent-encoded character that needs no encoding"),
    "encoded-wildcard": ("note", "%2A or %24, which is not a wildcard"),
    "fragment-in-pattern": ("error", "a # in a path, which begins a comment"),
    "glued-comment": ("note", "a comment without white space before it"),
    "host-in-pattern": ("warning", "a host name instead of a path"),
    "literal-wildcard": ("warning", "a * or $, which the dialect takes literally"),
    "lower-case-hex": ("note", "percent-encoding in lower case"),
    "pattern-ignored": ("error", "a pattern without a leading /, which matches nothing"),
    "slash-assumed": ("warning", "a pattern without a leading /"),
    "trailing-star": ("note", "a * at the end, which matches nothing more"),
    "white-space-in-pattern": ("warning", "a pattern with white space in it"),
    # Usage records.
    "bad-license": ("error", "a licence whose URL is not absolute"),
    "bad-preference": ("error", "a usage preference that crawlers cannot read"),
    "contradicting-preferences": (
        "warning", "a usage preference that another line contradicts",
    ),
    "no-preference": ("warning", "a usage record that states no preference"),
    "preference-path": ("error", "a usage record whose path has no leading /"),
    "unknown-label": ("warning", "an unknown or misspelt label of a usage preference"),
    "unknown-preference": ("error", "an unknown value of a usage preference"),
    # Other records.
    "bad-sitemap": ("error", "a sitemap that is not an http, https or ftp URL"),
    "bad-value": ("error", "a delay, rate or time that crawlers cannot read"),
    "relative-sitemap": ("warning", "a sitemap whose URL is not absolute"),
    "several-delays": ("warning", "a second, different Crawl-delay for the same crawler"),
    # Dialects.
    "dialects-differ": ("note", "a URL on which the dialects decide differently"),
}  # fmt: skip
"""Each code with its severity and meaning. *error*: the line has no effect, or not the
effect that it seems to have; *warning*: it may have another effect; *note*: it is harmless."""


class Finding(NamedTuple):
    """A mistake, or a possible mistake, in a robots.txt."""

    line: int
    """The number of the line, from 1; 0 for the file as a whole."""

    code: str
    """One of :data:`CODES`."""

    severity: Severity

    message: str
    """What is wrong, what crawlers make of it, and what to write instead."""

    text: str
    """The line as written, or its beginning; bytes that are not UTF-8 are U+FFFD."""


class LintedFile:
    """A robots.txt and its findings so far."""

    def __init__(self, body: bytes, dialect: Dialect, url: str | None) -> None:
        self.body = body
        self.dialect = dialect

        self.url = url
        """The URL that it was fetched from, or None for a local file. A fetched body may be
        cut at the end."""

        self.content = decoded_text(body, dialect)
        """The part of the body that crawlers read, decoded."""

        self.written = self.content.split(b"\n")
        """All lines of the content, as written."""

        self.read = [
            read_line(n, raw, dialect) for n, raw in enumerate(self.written, 1)
        ]
        """The field and value of each line; None for a line without a field."""

        self.lines = [line for line in self.read if line is not None]
        self.groups, _ = groups_of(self.lines, dialect)
        self._found: list[tuple[int, str, str]] = []
        self._counts: dict[str, int] = {}
        self._first_omitted: dict[str, int] = {}

    def add(self, line: int, code: str, message: str) -> None:
        count = self._counts[code] = self._counts.get(code, 0) + 1
        if count <= MAX_OF_A_CODE:
            self._found.append((line, code, message))
        else:
            self._first_omitted.setdefault(code, line)

    def findings(self) -> Iterator[Finding]:
        """All findings, in the order of lines."""
        for code, line in self._first_omitted.items():
            more = self._counts[code] - MAX_OF_A_CODE
            message = f"{more} more findings with this code from this line on"
            self._found.append((line, code, message))
        for number, code, message in sorted(self._found):
            octets = (
                self.written[number - 1] if 0 < number <= len(self.written) else b""
            )
            # No character takes more than four octets.
            shown = octets[: 4 * MAX_TEXT].decode("utf-8", "replace")[:MAX_TEXT]
            yield Finding(number, code, CODES[code][0], message, shown)


def quoted(octets: bytes) -> str:
    """Text of the file as a Python string literal, cut to 60 characters."""
    shown = octets[: 4 * _MAX_QUOTED].decode("utf-8", "replace")
    return repr(
        shown if len(shown) <= _MAX_QUOTED else shown[: _MAX_QUOTED - 3] + "..."
    )
