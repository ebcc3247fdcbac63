"""Checks the fields of lines, and lines without a field."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy_rep.protocol.lint.findings import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.lint.findings import LintedFile
    from scrapy_rep.protocol.robotstxt.lines import Line

# The fields in their proper spelling.
_FIELDS = (
    "User-agent", "Allow", "Disallow", "Sitemap", "Crawl-delay", "Request-rate",
    "Visit-time",
)  # fmt: skip
_PROPER = {field.lower(): field for field in _FIELDS}

# Fields about the use of content (IETF AIPREF drafts, contentsignals.org, RSL 1.0).
_USAGE_FIELDS = {
    "content-signal": "Content-Signal",
    "content-usage": "Content-Usage",
    "license": "License",
}

_VENDORS = {"clean-param": "Yandex"}

_OBSOLETE = {
    "noindex": "write noindex in a meta tag or an X-Robots-Tag header",
    "nofollow": "write nofollow in a meta tag or an X-Robots-Tag header",
    "noarchive": "write noarchive in a meta tag or an X-Robots-Tag header",
    "host": "redirect to the preferred host, or name it in a rel=canonical link",
    "robot-version": "delete the line",
    "comment": "put a # before the text",
}  # fmt: skip
_ACAP = "acap-"

_ANOTHER_FIELD = re.compile(
    rb"(?:user-agent|allow|sitemap)[ \t]*:[ \t]*(?:[/*]|https?:)", re.IGNORECASE
).search

# The number and length of unknown fields that are compared with the known ones.
_MAX_NAMES = 300
_MAX_LENGTH = 20
_LETTERS = re.compile("[^a-z]")

# The least similarity of a misspelling and its word (see difflib.get_close_matches).
_MIN_LIKENESS = 0.8
_BY_LETTERS = {
    _LETTERS.sub("", field): proper
    for field, proper in (_PROPER | _USAGE_FIELDS).items()
}


class FieldCheck:
    """Checks the fields of one file."""

    known = frozenset(_PROPER)

    def __init__(self, file: LintedFile) -> None:
        self._dialect = file.dialect
        self._add = file.add
        self._meant: dict[str, str | None] = {}

    def check(self, number: int, raw: bytes, line: Line | None) -> None:
        content = raw[: self._dialect.line_limit].partition(b"#")[0]
        if not content.strip():
            return
        name, colon, value = content.partition(b":")
        if not colon:
            self._check_words(number, content.split(), line)
        elif not name.strip():
            message = "no field stands before the colon, so crawlers ignore the line:"
            message += " write a field, or put a # before a comment"
            self._add(number, "missing-field", message)
        elif line is not None:
            self._check_name(line, name.strip())
            if line.field in _PROPER and _ANOTHER_FIELD(value):
                message = f"crawlers read {quoted(value.strip())} as one value: write"
                message += " each field on a line of its own"
                self._add(number, "fields-in-value", message)

    def _check_words(self, number: int, words: list[bytes], line: Line | None) -> None:
        if line is not None and line.field in _PROPER:
            message = "few crawlers read a field without a colon: write"
            message += f" {_PROPER[line.field]}:"
            self._add(number, "tolerated-spelling", message)
            return
        word = words[0]
        name = word[:_MAX_LENGTH].decode("utf-8", "replace").lower()
        meant = (_PROPER | _USAGE_FIELDS).get(name) or self._field_meant(name)
        if meant and len(words) <= 2:
            message = "the line has no colon, so crawlers ignore it: write"
            message += f" {meant}: and the value"
        else:
            message = "this is not a field with a value, so crawlers ignore it: put a #"
            message += " before a comment"
        self._add(number, "missing-colon", message)

    def _check_name(self, line: Line, written: bytes) -> None:
        number, field, _ = line
        name = written[: 2 * _MAX_LENGTH].decode("utf-8", "replace").lower()
        add = self._add
        if field in _PROPER:
            if name != field:
                message = f"few crawlers read the misspelt field {quoted(written)}:"
                message += f" write {_PROPER[field]}"
                add(number, "tolerated-spelling", message)
            elif field == "crawl-delay" and not self._dialect.crawl_delay:
                message = f"the {self._dialect.name} dialect ignores this: answer 429"
                add(number, "unused-field", f"{message} or 503 to slow crawlers down")
        elif name in _OBSOLETE:
            message = f"search engines ignore {quoted(written)}: {_OBSOLETE[name]}"
            add(number, "obsolete-field", message)
        elif name.startswith(_ACAP):
            message = "search engines ignore ACAP: write Allow and Disallow lines"
            add(number, "obsolete-field", message)
        elif name in _VENDORS:
            message = f"only {_VENDORS[name]} reads this field: write Disallow lines"
            message += " for other crawlers"
            add(number, "vendor-field", message)
        elif name in {"http", "https"}:
            message = "crawlers ignore a URL without a field: write Sitemap: before it"
            add(number, "missing-field", message)
        elif name not in _USAGE_FIELDS:
            self._check_unknown(number, written, name)

    def _check_unknown(self, number: int, written: bytes, name: str) -> None:
        meant = self._field_meant(name)
        if meant:
            message = f"most crawlers ignore the field {quoted(written)}: write {meant}"
            self._add(number, "misspelt-field", message)
        else:
            message = f"most crawlers ignore the field {quoted(written)}: if it is"
            self._add(number, "unknown-field", f"{message} text, put a # before it")

    def _field_meant(self, name: str) -> str | None:
        """The known field that *name* probably misspells, or None."""
        if len(name) > _MAX_LENGTH:
            return None
        if name not in self._meant and len(self._meant) < _MAX_NAMES:
            self._meant[name] = _nearest(name)
        return self._meant.get(name)


def _nearest(name: str) -> str | None:
    letters = _LETTERS.sub("", name)
    for plain, proper in _BY_LETTERS.items():
        if letters.startswith(plain) and len(letters) <= len(plain) + 2:
            return proper
    if len(name) <= 3:
        return None
    meant = nearest(letters, _BY_LETTERS)
    return _BY_LETTERS[meant] if meant is not None else None


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of *words* that *word* probably misspells, or None. Slow for long words."""
    return next(iter(get_close_matches(word, words, n=1, cutoff=_MIN_LIKENESS)), None)
