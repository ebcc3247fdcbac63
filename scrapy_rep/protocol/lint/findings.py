"""The codes of findings, and the findings of one robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from scrapy_rep.protocol.robotstxt.groups import groups_of
from scrapy_rep.protocol.robotstxt.lines import decoded_text, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect

Severity = Literal["error", "warning", "note"]

MAX_OF_A_CODE = 100
"""The number of findings of one code that are listed. One more says how many there are
beyond."""
MAX_TEXT = 200
"""The characters of a line that a finding shows."""
_MAX_QUOTED = 60

CODES: dict[str, tuple[Severity, str]] = {
    # The file.
    "broken-byte-order-mark": (
        "warning", "the file begins with a part of a byte order mark",
    ),
    "byte-order-mark": ("note", "the file begins with a byte order mark"),
    "html": ("error", "the file is a page, not a robots.txt"),
    "invalid-utf-8": ("warning", "a line is not in UTF-8"),
    "line-too-long": ("warning", "a line is longer than Google reads"),
    "not-compared": ("note", "the file has too many patterns to compare them all"),
    "null-characters": ("error", "a line has null characters in it"),
    "stray-byte-order-mark": ("error", "a byte order mark that does not begin the file"),
    "too-large": ("error", "from this line on, the file is not read"),
    "utf-16": ("warning", "the file is in UTF-16"),
    # Fields.
    "fields-in-value": ("error", "a value has another field in it, as of a lost line end"),
    "misspelt-field": ("error", "a misspelt field, which is not read"),
    "missing-colon": ("error", "a line without a colon, which is not read"),
    "missing-field": ("error", "a value without a field before it"),
    "obsolete-field": ("warning", "a field that no large search engine reads any more"),
    "tolerated-spelling": ("warning", "a field that is read although it is misspelt"),
    "unknown-field": ("note", "a field that means nothing to this package"),
    "unused-field": ("note", "a field that this dialect does not read"),
    "vendor-field": ("note", "a field that one vendor alone reads"),
    # User-agent lines and groups.
    "agent-cut": ("warning", "a user-agent line of which only the beginning is read"),
    "agent-list": ("error", "several names in one user-agent line"),
    "agent-version": ("note", "a version or a * after a name, which is not read"),
    "browser-header": ("error", "a User-Agent header in place of a product token"),
    "group-without-rules": ("warning", "a group that allows everything, as it has no rule"),
    "hidden-group": ("error", "a group that nobody follows, as an earlier one comes first"),
    "merged-group": ("note", "a group that counts as one with an earlier one"),
    "no-agent": ("error", "a user-agent line that names nobody"),
    "record-outside-group": ("warning", "a record that is in no group"),
    "repeated-agent": ("note", "a name that the same group has twice"),
    "rule-after-blank-line": ("error", "a rule cut off from its group by a blank line"),
    "rule-before-group": ("error", "a rule before any user-agent line"),
    # Rules.
    "duplicate-rule": ("note", "the same rule as in an earlier line"),
    "empty-allow": ("warning", "an empty Allow, which says nothing"),
    "empty-disallow": ("warning", "an empty Disallow beside one that forbids something"),
    "redundant-rule": ("note", "a rule that never decides, as another says the same"),
    "shadowed-rule": ("warning", "a rule that never decides, as another says the opposite"),
    # Patterns.
    "absolute-url": ("error", "a URL in place of a path"),
    "bad-percent": ("warning", "a % that no two hexadecimal digits follow"),
    "dollar-inside": ("warning", "a $ that is not at the end, and stands for itself"),
    "double-star": ("note", "several * in a row"),
    "encoded-slash": ("note", "%2F, which is not /"),
    "encoded-unreserved": ("note", "a character that needs no percent-encoding"),
    "encoded-wildcard": ("note", "%2A or %24, which is not * or $"),
    "fragment-in-pattern": ("error", "a # in a path, which ends it"),
    "glued-comment": ("note", "a comment without white space before it"),
    "host-in-pattern": ("warning", "the name of a host in place of a path"),
    "literal-wildcard": ("warning", "a * or $ where these stand for themselves"),
    "lower-case-hex": ("note", "percent-encoding in lower case"),
    "pattern-ignored": ("error", "a pattern that matches nothing, as it begins with no /"),
    "slash-assumed": ("warning", "a pattern without the / that paths begin with"),
    "trailing-star": ("note", "a * at the end, which adds nothing"),
    "white-space-in-pattern": ("warning", "a pattern with white space in it"),
    # Records of use.
    "bad-license": ("error", "a licence whose URL is not absolute"),
    "bad-preference": ("error", "a statement of use that can't be read"),
    "contradicting-preferences": (
        "warning", "a statement of use that another contradicts",
    ),
    "no-preference": ("warning", "a record of use that states no preference"),
    "preference-path": ("error", "a path of use that begins with no /"),
    "unknown-label": ("warning", "a label of use that says nothing, or is misspelt"),
    "unknown-preference": ("error", "a value of use that says nothing"),
    # Other records.
    "bad-sitemap": ("error", "a sitemap that is no URL of the Web"),
    "bad-value": ("error", "a delay, rate or time that can't be read"),
    "relative-sitemap": ("warning", "a sitemap whose URL is not absolute"),
    "several-delays": ("warning", "another Crawl-delay than before, for the same crawler"),
    # Dialects.
    "dialects-differ": ("note", "a URL that dialects decide on differently"),
}  # fmt: skip
"""Every code, its severity and its meaning. An *error* marks a line that has no effect, or
another one than it seems to have; a *warning* one that may have; a *note* one that does no
harm."""


class Finding(NamedTuple):
    """Something that is wrong with a robots.txt, or may be."""

    line: int
    """The number of the line, from 1; 0 for the file as a whole."""

    code: str
    """One of :data:`CODES`."""

    severity: Severity

    message: str
    """What is wrong, and what to write instead."""

    text: str
    """The line as written, or its beginning; bytes that are not UTF-8 are U+FFFD."""


class LintedFile:
    """A robots.txt, and what is found in it."""

    def __init__(self, body: bytes, dialect: Dialect, url: str | None) -> None:
        self.body = body
        self.dialect = dialect

        self.url = url
        """The address that it was fetched from; None where it was not. The end of a file
        that was fetched may be missing."""

        self.content = decoded_text(body, dialect)
        """The part that is read."""

        self.written = self.content.split(b"\n")
        """All lines as written."""

        self.read = [
            read_line(n, raw, dialect) for n, raw in enumerate(self.written, 1)
        ]
        """For each line its field and value; None where it has none."""

        self.lines = [line for line in self.read if line is not None]
        self.groups, _ = groups_of(self.lines, dialect)
        self._found: list[tuple[int, str, str]] = []
        self._counts: dict[str, int] = {}
        self._last: dict[str, int] = {}

    def add(self, line: int, code: str, message: str) -> None:
        count = self._counts[code] = self._counts.get(code, 0) + 1
        if count <= MAX_OF_A_CODE:
            self._found.append((line, code, message))
        else:
            self._last.setdefault(code, line)

    def findings(self) -> Iterator[Finding]:
        """All findings, by line."""
        for code, line in self._last.items():
            more = self._counts[code] - MAX_OF_A_CODE
            self._found.append((line, code, f"{more} more like this, from here on"))
        for number, code, message in sorted(self._found):
            octets = b""
            if 0 < number <= len(self.written):
                octets = self.written[number - 1]
            # No character takes more than four octets.
            shown = octets[: 4 * MAX_TEXT].decode("utf-8", "replace")[:MAX_TEXT]
            yield Finding(number, code, CODES[code][0], message, shown)


def quoted(octets: bytes) -> str:
    """Text of a file in quotes, cut to a displayable length."""
    shown = octets[: 4 * _MAX_QUOTED].decode("utf-8", "replace")
    return repr(
        shown if len(shown) <= _MAX_QUOTED else shown[: _MAX_QUOTED - 3] + "..."
    )
