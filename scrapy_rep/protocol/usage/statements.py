"""Statements about use, and the reading of each signal's text.

::

    content-usage  = [ path 1*WS ] dictionary        ; RFC 9651, 3.2
    content-signal = [ path 1*WS ] pair *( "," pair )
    pair           = label "=" value
    path           = "/" *non-white-space

The first is the grammar of draft-ietf-aipref-attach-05, 3.2, and of a field line without
the path. The second grammar is not specified anywhere. This one reads what
contentsignals.org and sites write.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.grammar import WHITE_SPACE
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, labels_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_TEXT = 65_536
"""In octets: a longer dictionary, list of pairs or field line is not read."""

MAX_SHOWN = 1_024
"""The characters of a statement's text that are kept."""

_MAX_PAIRS = 1_000

# The number of equal statements about one category that are kept, and of others.
_MAX_ALIKE = 10
_MAX_OTHERS = 100

_WHITE_SPACE = WHITE_SPACE.encode()


class UsageStatement(NamedTuple):
    """One statement of a site about the use of its content."""

    source: Source
    """The place of the statement."""

    signal: Signal
    """The kind of header, record or tag."""

    agent: str | None
    """The agent that it is addressed to: a product token or ``*``; None for everyone."""

    position: int
    """In robots.txt the line, in a header the number of the field line, in tdmrep.json
    the number of the rule, each from 1; in a page the offset of the tag in bytes."""

    text: str
    """The text as written, cut to the limit."""

    label: str
    """The label: one of its signal, or an unknown one."""

    category: str = ""
    """The category of use; empty where it is about none."""

    value: bool | None = None
    """Whether it allows the use; None where it neither allows nor disallows it."""

    images: bool = False
    """Whether it is about the images of a page alone."""

    is_overridden: bool = False
    """Whether another statement overrides it (TDMRep, "Processing priority")."""

    def __str__(self) -> str:
        place = "line" if self.source is Source.ROBOTS_TXT else "rule"
        numbered = self.source in {Source.ROBOTS_TXT, Source.TDMREP}
        where = f"{self.source}, {place} {self.position}" if numbered else self.source
        return f"{self.text} ({where})"


class Where(NamedTuple):
    """The part that the statements of one line, field or tag have in common."""

    source: Source
    signal: Signal
    agent: str | None
    position: int
    text: str

    def says(self, label: str, value: str | None) -> Iterator[UsageStatement]:
        """The statements that a *label* of the signal with a *value* makes."""
        where = self._replace(text=self.text[:MAX_SHOWN])
        row = row_of(self.signal, label)
        if row is None or not row.categories:
            yield UsageStatement(*where, label[:MAX_SHOWN])
            return
        allowed = None
        if value is not None and value in {row.allows, row.disallows}:
            allowed = value == row.allows
        for category in row.categories:
            yield UsageStatement(*where, label, category, allowed, row.images)


class Expression(NamedTuple):
    """A text that was read: labels with their values, and findings."""

    pairs: tuple[tuple[str, str | None], ...] = ()
    """Pairs of a label and a value. The value is None where it is of a type that no label
    has."""

    findings: tuple[tuple[str, str], ...] = ()
    """Pairs of a code and a message."""


def split_path(value: bytes) -> tuple[bytes, bytes]:
    """The path of a record's value, empty where it has none, and what follows it."""
    if not value.startswith(b"/"):
        return b"", value
    for end, octet in enumerate(value):
        if octet in _WHITE_SPACE:
            return value[:end], value[end:].strip(_WHITE_SPACE)
    return value, b""


def read_usage(octets: bytes) -> Expression:
    """A usage preference of AIPREF (draft-ietf-aipref-vocab-08, 6.5)."""
    return (_read_again if len(octets) <= MAX_SHOWN else _read_usage)(octets)


def _read_usage(octets: bytes) -> Expression:
    if not octets.strip():
        return Expression(findings=(("no-preference", "it states no preference"),))
    if len(octets) > MAX_TEXT:
        message = f"longer than {MAX_TEXT} bytes, and not read"
        return Expression(findings=(("bad-preference", message),))
    # Imported here, since few sites have such a field.
    from http_sf import Token, parse  # noqa: PLC0415

    try:
        found: Any = parse(octets, tltype="dictionary")
    except Exception as error:  # noqa: BLE001  whatever the library raises
        message = f"no dictionary of RFC 9651, so that nothing is known: {error}"
        return Expression(findings=(("bad-preference", message[:200]),))
    pairs: list[tuple[str, str | None]] = []
    findings: list[tuple[str, str]] = []
    for label, member in found.items():
        value = member[0] if isinstance(member, tuple) else member
        token = str(value) if isinstance(value, Token) else None
        pairs.append((label, token))
        findings += _findings(Signal.CONTENT_USAGE, label, token)
    return Expression(tuple(pairs), tuple(findings))


# A site has the same field on all of its pages.
_read_again = lru_cache(maxsize=256)(_read_usage)


def read_signal(octets: bytes) -> Expression:
    """The pairs of a ``Content-Signal``."""
    if not octets.strip():
        return Expression(findings=(("no-preference", "it states no preference"),))
    if len(octets) > MAX_TEXT:
        message = f"longer than {MAX_TEXT} bytes, and not read"
        return Expression(findings=(("bad-preference", message),))
    pairs: list[tuple[str, str | None]] = []
    findings: list[tuple[str, str]] = []
    for part in octets.decode("utf-8", "replace").split(",", _MAX_PAIRS)[:_MAX_PAIRS]:
        label, equals, value = part.partition("=")
        label, value = label.strip().lower(), value.strip().lower()
        if not equals or not label:
            if part.strip():
                findings.append(("bad-preference", f"{part.strip()[:60]!r} is no pair"))
            continue
        pairs.append((label, value))
        findings += _findings(Signal.CONTENT_SIGNAL, label, value)
    return Expression(tuple(pairs), tuple(findings))


def _findings(
    signal: Signal, label: str, value: str | None
) -> Iterator[tuple[str, str]]:
    row = row_of(signal, label)
    if row is None:
        known = ", ".join(labels_of(signal))
        yield "unknown-label", f"{label[:60]!r} is none of {known}"
    elif label == "use" and signal is Signal.CONTENT_SIGNAL:
        levels = ("immediate", "reference", "full")
        if value not in levels:
            yield "unknown-preference", f"{label} is one of {', '.join(levels)}"
    elif value not in {row.allows, row.disallows}:
        message = f"{label} is {row.allows} or {row.disallows}; all else says nothing"
        yield "unknown-preference", message


def kept(statements: Iterable[UsageStatement]) -> tuple[UsageStatement, ...]:
    """*statements* without those beyond the number of equal ones that are kept."""
    alike: dict[object, int] = {}
    found: dict[UsageStatement, None] = {}
    for each in statements:
        key = (each.category, each.value, each.images, each.is_overridden)
        most = _MAX_ALIKE if each.category else _MAX_OTHERS
        if each not in found and alike.get(key, 0) < most:
            alike[key] = alike.get(key, 0) + 1
            found[each] = None
    return tuple(found)
