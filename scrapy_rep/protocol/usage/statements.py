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
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, row_of

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


class Occurrence(NamedTuple):
    """One line, field or tag that makes statements: what they have in common."""

    source: Source
    signal: Signal
    agent: str | None
    position: int
    text: str

    def statements(self, label: str, value: str | None) -> Iterator[UsageStatement]:
        """The statements that a *label* of the signal with a *value* makes."""
        common = self._replace(text=self.text[:MAX_SHOWN])
        row = row_of(self.signal, label)
        if row is None or not row.categories:
            yield UsageStatement(*common, label[:MAX_SHOWN])
            return
        allowed = None
        if value is not None and value in {row.allows, row.disallows}:
            allowed = value == row.allows
        for category in row.categories:
            yield UsageStatement(*common, label, category, allowed, row.images)


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


def read_expression(signal: Signal, octets: bytes) -> Expression:
    """The labels and values of a ``Content-Usage`` (draft-ietf-aipref-vocab-08, 6.5) or a
    ``Content-Signal``, without its path.
    """
    if not octets.strip():
        return Expression(findings=(("no-preference", "it states no preference"),))
    if len(octets) > MAX_TEXT:
        message = f"longer than {MAX_TEXT} bytes, and not read"
        return Expression(findings=(("bad-preference", message),))
    if signal is Signal.CONTENT_SIGNAL:
        return _read_pairs(octets)
    read = _read_dictionary_again if len(octets) <= MAX_SHOWN else _read_dictionary
    return read(octets)


def _read_dictionary(octets: bytes) -> Expression:
    # Imported here, since few sites have such a field.
    from http_sf import Token, parse  # noqa: PLC0415

    try:
        found: Any = parse(octets, tltype="dictionary")
    except Exception as error:  # noqa: BLE001  whatever the library raises
        message = f"no dictionary of RFC 9651, so that nothing is known: {error}"
        return Expression(findings=(("bad-preference", message[:200]),))
    pairs: list[tuple[str, str | None]] = []
    for label, member in found.items():
        value = member[0] if isinstance(member, tuple) else member
        pairs.append((label, str(value) if isinstance(value, Token) else None))
    return Expression(tuple(pairs))


# A site has the same field on all of its pages.
_read_dictionary_again = lru_cache(maxsize=256)(_read_dictionary)


def _read_pairs(octets: bytes) -> Expression:
    pairs: list[tuple[str, str | None]] = []
    findings: list[tuple[str, str]] = []
    for part in octets.decode("utf-8", "replace").split(",", _MAX_PAIRS)[:_MAX_PAIRS]:
        label, equals, value = (each.strip().lower() for each in part.partition("="))
        if equals and label:
            pairs.append((label, value))
        elif part.strip():
            findings.append(("bad-preference", f"{part.strip()[:60]!r} is no pair"))
    return Expression(tuple(pairs), tuple(findings))


def limited(statements: Iterable[UsageStatement]) -> tuple[UsageStatement, ...]:
    """*statements*, each once, and of equal ones no more than the limit."""
    alike: dict[object, int] = {}
    found: dict[UsageStatement, None] = {}
    for each in statements:
        key = (each.category, each.value, each.images, each.is_overridden)
        most = _MAX_ALIKE if each.category else _MAX_OTHERS
        if each not in found and alike.get(key, 0) < most:
            alike[key] = alike.get(key, 0) + 1
            found[each] = None
    return tuple(found)
