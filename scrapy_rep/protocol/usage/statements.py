"""One statement about use, and how the text of each signal is read into statements.

::

    content-usage  = [ path 1*WS ] dictionary        ; RFC 9651, 3.2
    content-signal = [ path 1*WS ] pair *( "," pair )
    pair           = label "=" value
    path           = "/" *non-white-space

The first is the grammar of draft-ietf-aipref-attach-05, 3.2, and of a field line without
the path. The second is written down nowhere; this is what contentsignals.org and the sites
write, read leniently.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_rep.protocol.grammar import WHITE_SPACE
from scrapy_rep.protocol.usage.vocabulary import Signal, Source, labels_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_TEXT = 65_536
"""Octets of a dictionary, a list of pairs or a field line; a longer one is not read."""

MAX_SHOWN = 1_024
"""Characters of a statement's text that are kept."""

_MAX_PAIRS = 1_000

# So many statements are kept that say the same of one category: there may be thousands.
_MAX_ALIKE = 10
_MAX_OTHERS = 100

_WHITE_SPACE = WHITE_SPACE.encode()


class UsageStatement(NamedTuple):
    """One thing that a site says about the use of its content."""

    source: Source
    """Where it stands."""

    signal: Signal
    """What it is made with."""

    agent: str | None
    """To whom it is addressed: the product token, ``*``; None for everyone."""

    position: int
    """In robots.txt the line, in a header the number of the field line, in tdmrep.json
    the number of the rule, each from 1; in a page the offset of the tag in bytes."""

    text: str
    """As written, as far as it is kept."""

    label: str
    """What it names: a label of its signal, or one that nobody knows."""

    category: str = ""
    """The category of use; empty where it speaks of none."""

    value: bool | None = None
    """Whether it allows the use; None where it says neither."""

    images: bool = False
    """Whether it speaks of the images of a page alone."""

    is_overridden: bool = False
    """Whether another statement counts in its place (TDMRep, "Processing priority")."""

    def __str__(self) -> str:
        place = "line" if self.source is Source.ROBOTS_TXT else "rule"
        numbered = self.source in {Source.ROBOTS_TXT, Source.TDMREP}
        where = f"{self.source}, {place} {self.position}" if numbered else self.source
        return f"{self.text} ({where})"


class Where(NamedTuple):
    """What the statements of one line, field or tag have in common."""

    source: Source
    signal: Signal
    agent: str | None
    position: int
    text: str

    def says(self, label: str, value: str | None) -> Iterator[UsageStatement]:
        """What it means that a *label* of the signal has a *value*."""
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
    """What a text says: labels with their values, and what is wrong with it."""

    pairs: tuple[tuple[str, str | None], ...] = ()
    """None for a value that is of no kind that any row has."""

    findings: tuple[tuple[str, str], ...] = ()
    """A code and a message each."""


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
    # Few sites have one, so that the others need not load what reads it.
    from http_sf import Token, parse  # noqa: PLC0415

    try:
        found: Any = parse(octets, tltype="dictionary")
    except Exception as error:  # noqa: BLE001  whatever it makes of what a stranger wrote
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


# A site says the same of all of its pages.
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
    """*statements* without those that say once more what enough others say."""
    alike: dict[object, int] = {}
    found: dict[UsageStatement, None] = {}
    for each in statements:
        key = (each.category, each.value, each.images, each.is_overridden)
        most = _MAX_ALIKE if each.category else _MAX_OTHERS
        if each not in found and alike.get(key, 0) < most:
            alike[key] = alike.get(key, 0) + 1
            found[each] = None
    return tuple(found)
