"""Usage statements, and the parsers for their text.

::

    content-usage  = [ path 1*WS ] dictionary        ; RFC 9651, 3.2
    content-signal = [ path 1*WS ] pair *( "," pair )
    pair           = label "=" value
    path           = "/" *non-white-space

The first grammar is from draft-ietf-aipref-attach-05, 3.2; header field lines have no path.
No text specifies the second one. It covers the examples of contentsignals.org and what sites
write.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.grammar import WHITE_SPACE
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_TEXT = 65_536
"""The longest dictionary, list of pairs or field line that is read, in octets."""

MAX_SHOWN = 1_024
"""The number of characters of a statement's text that are kept."""

_MAX_PAIRS = 1_000

# How many equal statements about one category are kept, and how many about no category.
_MAX_ALIKE = 10
_MAX_OTHERS = 100

_WHITE_SPACE = WHITE_SPACE.encode()


class UsageStatement(NamedTuple):
    """A site's statement about the use of its content."""

    source: Source
    signal: Signal
    """The kind of header, record or tag."""

    agent: str | None
    """The agent that it is addressed to: a product token or ``*``; None for everyone."""

    position: int
    """The number of the line in robots.txt, of the field line among equal headers, or of the
    rule in tdmrep.json; in a page, the line of the tag. All count from 1."""

    text: str
    """The text as written, cut to 1,024 characters."""

    label: str
    """The label, which may be unknown."""

    category: str = ""
    """The category of use; empty if it is about none."""

    value: bool | None = None
    """Whether it allows the use; None if it neither allows nor disallows it."""

    images: bool = False
    """Whether it is only about the images of a page."""

    is_overridden: bool = False
    """Whether another statement overrides it (TDMRep, "Processing priority")."""

    def __str__(self) -> str:
        place = "line" if self.source is Source.ROBOTS_TXT else "rule"
        numbered = self.source in {Source.ROBOTS_TXT, Source.TDMREP}
        where = f"{self.source}, {place} {self.position}" if numbered else self.source
        return f"{self.text} ({where})"


class Occurrence(NamedTuple):
    """A line, header field or tag with statements: the fields that they share."""

    source: Source
    signal: Signal
    agent: str | None
    position: int
    text: str

    def statements(self, label: str, value: str | None) -> Iterator[UsageStatement]:
        """Yield the statements that *label* with *value* makes, one for each category."""
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
    """The labels and values of a parsed text, and its findings."""

    pairs: tuple[tuple[str, str | None], ...] = ()
    """Pairs of a label and a value; the value is None if its type fits no label."""

    findings: tuple[tuple[str, str], ...] = ()
    """Pairs of a code and a message for the linter."""


def split_path(value: bytes) -> tuple[bytes, bytes]:
    """Split a record's value into its path, which may be empty, and the rest."""
    if not value.startswith(b"/"):
        return b"", value
    for end, octet in enumerate(value):
        if octet in _WHITE_SPACE:
            return value[:end], value[end:].strip(_WHITE_SPACE)
    return value, b""


def read_expression(signal: Signal, octets: bytes) -> Expression:
    """Parse the value of a ``Content-Usage`` (draft-ietf-aipref-vocab-08, 6.5) or
    ``Content-Signal`` without its path.
    """
    if not octets.strip():
        return Expression(findings=(("no-preference", "the line states nothing"),))
    if len(octets) > MAX_TEXT:
        message = f"crawlers ignore a line of more than {MAX_TEXT} bytes"
        return Expression(findings=(("bad-preference", message),))
    if signal is Signal.CONTENT_SIGNAL:
        return _read_pairs(octets)
    read = _read_dictionary_cached if len(octets) <= MAX_SHOWN else _read_dictionary
    return read(octets)


def _read_dictionary(octets: bytes) -> Expression:
    # Imported here, because few sites have such a field.
    from http_sf import Token, parse  # noqa: PLC0415

    try:
        found: Any = parse(octets, tltype="dictionary")
    except Exception as error:  # noqa: BLE001  whatever the library raises
        message = f"crawlers ignore this, as it is no RFC 9651 dictionary: {error}"
        return Expression(findings=(("bad-preference", message[:200]),))
    pairs: list[tuple[str, str | None]] = []
    for label, member in found.items():
        value = member[0] if isinstance(member, tuple) else member
        pairs.append((label, str(value) if isinstance(value, Token) else None))
    return Expression(tuple(pairs))


# Sites often send the same field with every page.
_read_dictionary_cached = lru_cache(maxsize=256)(_read_dictionary)


def _read_pairs(octets: bytes) -> Expression:
    pairs: list[tuple[str, str | None]] = []
    findings: list[tuple[str, str]] = []
    for part in octets.decode("utf-8", "replace").split(",", _MAX_PAIRS)[:_MAX_PAIRS]:
        label, equals, value = (each.strip().lower() for each in part.partition("="))
        if equals and label:
            pairs.append((label, value))
        elif part.strip():
            message = f"crawlers ignore {part.strip()[:60]!r}, which is not label=value"
            findings.append(("bad-preference", message))
    return Expression(tuple(pairs), tuple(findings))


def limited(statements: Iterable[UsageStatement]) -> tuple[UsageStatement, ...]:
    """Return *statements* without duplicates, and only the first of many alike."""
    alike: dict[object, int] = {}
    found: dict[UsageStatement, None] = {}
    for each in statements:
        key = (each.category, each.value, each.images, each.is_overridden)
        most = _MAX_ALIKE if each.category else _MAX_OTHERS
        if each not in found and alike.get(key, 0) < most:
            alike[key] = alike.get(key, 0) + 1
            found[each] = None
    return tuple(found)
