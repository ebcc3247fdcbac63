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

# Fields about the use of content, which other texts define (IETF AIPREF drafts,
# contentsignals.org, RSL 1.0).
_ELSEWHERE = {
    "content-signal": "Content-Signal",
    "content-usage": "Content-Usage",
    "license": "License",
}

_VENDORS = {"clean-param": "Yandex"}

_OBSOLETE = {
    "noindex": "say noindex in the page or in an X-Robots-Tag header",
    "nofollow": "say nofollow in the page or in an X-Robots-Tag header",
    "noarchive": "say noarchive in the page or in an X-Robots-Tag header",
    "host": "redirect to the host that is meant, or name it in rel=canonical",
    "robot-version": "delete it",
    "comment": "write it after a #",
}  # fmt: skip
_ACAP = "acap-"

_ANOTHER_FIELD = re.compile(
    rb"(?:user-agent|allow|sitemap)[ \t]*:[ \t]*(?:[/*]|https?:)", re.IGNORECASE
).search

# The number and the length of names that are compared with the known ones.
_MAX_NAMES = 300
_MAX_LENGTH = 20
_LETTERS = re.compile("[^a-z]")

# The share of letters that a misspelling has in common with the word that is meant.
_MIN_LIKENESS = 0.8
_BY_LETTERS = {
    _LETTERS.sub("", field): proper for field, proper in (_PROPER | _ELSEWHERE).items()
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
            message = "nothing stands before the colon: write a field, or put a # first"
            self._add(number, "missing-field", message)
        elif line is not None:
            self._check_name(line, name.strip())
            if line.field in _PROPER and _ANOTHER_FIELD(value):
                message = (
                    f"{quoted(value.strip())} has a field in it: one line for each"
                )
                self._add(number, "fields-in-value", message)

    def _check_words(self, number: int, words: list[bytes], line: Line | None) -> None:
        if line is not None and line.field in _PROPER:
            message = f"read without its colon by few: write {_PROPER[line.field]}:"
            self._add(number, "tolerated-spelling", message)
            return
        word = words[0]
        name = word[:_MAX_LENGTH].decode("utf-8", "replace").lower()
        meant = (_PROPER | _ELSEWHERE).get(name) or self._field_meant(name)
        if meant and len(words) <= 2:
            message = f"no colon, so that it is not read: write {meant}: and the value"
        else:
            message = "neither a field and a value nor a comment: put a # before it"
        self._add(number, "missing-colon", message)

    def _check_name(self, line: Line, written: bytes) -> None:
        number, field, _ = line
        name = written[: 2 * _MAX_LENGTH].decode("utf-8", "replace").lower()
        add = self._add
        if field in _PROPER:
            if name != field:
                message = f"{quoted(written)} is read by few: write {_PROPER[field]}"
                add(number, "tolerated-spelling", message)
            elif field == "crawl-delay" and not self._dialect.crawl_delay:
                message = f"not read by {self._dialect.name}: the server's 429 or 503"
                add(number, "unused-field", f"{message} slows its crawler down")
        elif name in _OBSOLETE:
            message = f"{quoted(written)} is not read any more: {_OBSOLETE[name]}"
            add(number, "obsolete-field", message)
        elif name.startswith(_ACAP):
            message = "ACAP is not read by search engines: say it in Allow and Disallow"
            add(number, "obsolete-field", message)
        elif name in _VENDORS:
            message = f"read by {_VENDORS[name]} alone: others need rules of their own"
            add(number, "vendor-field", message)
        elif name in {"http", "https"}:
            message = "a URL without a field says nothing: write Sitemap: before it"
            add(number, "missing-field", message)
        elif name not in _ELSEWHERE:
            self._check_unknown(number, written, name)

    def _check_unknown(self, number: int, written: bytes, name: str) -> None:
        meant = self._field_meant(name)
        if meant:
            message = f"{quoted(written)} is not read: write {meant}"
            self._add(number, "misspelt-field", message)
        else:
            message = (
                f"{quoted(written)} is no field known here: if it is text, put a #"
            )
            self._add(number, "unknown-field", f"{message} before it")

    def _field_meant(self, name: str) -> str | None:
        """The field of which *name* is a misspelling."""
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
    """The one of *words* that a short *word* is a misspelling of, if there is one."""
    return next(iter(get_close_matches(word, words, n=1, cutoff=_MIN_LIKENESS)), None)
