"""The octets that are compared: the target of a URL, and the pattern of a rule.

Both become strings in which each character stands for one octet, so that ``str`` methods
compare octets and count them. RFC 9309, 2.2.2, says that both are normalized first; how is
the dialect's:attr:`~scrapy_rep.protocol.dialect.Dialect.path_encoding`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scrapy_rep.protocol.dialect import Dialect

# RFC 3986, 2.3 and 2.2. "#" ends a path, "%" begins an encoding, and "*" and "$" must be
# told from the special characters of a pattern, so these four are never left as they are.
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_DELIMITERS = "/?&=+"

# Reserved characters that delimit nothing in a path or query. Brackets may not even stand
# there, but many leave them raw.
_OTHER_RESERVED = ":@!'(),;[]"

# Of those that may stand raw in a URL, the ones that one URL library encodes and another
# does not: w3lib the brackets, and the WHATWG's parser the quote in a query.
_ENCODED_BY_SOME = "[]'"

NORMAL = _UNRESERVED + _OTHER_RESERVED + _DELIMITERS
"""The characters that stand for themselves, in every dialect and on both sides."""

_DECODED = frozenset(_UNRESERVED + _OTHER_RESERVED)

NORMAL_CLASS = re.escape(NORMAL)
"""The normal characters, escaped for a character class of a regular expression."""

PLAIN_PATTERN = re.compile(rf"[/*][{NORMAL_CLASS}*]*\$?").fullmatch
"""Matches a value that is a pattern without anything to normalize, where wildcards are
special."""

# Each expression takes one octet, or one encoded octet, at a time: no backtracking.
_NORMAL = re.compile(rf"[{NORMAL_CLASS}]*").fullmatch
_TO_NORMALIZE = re.compile(rf"%[0-9A-Fa-f]{{2}}|[^{NORMAL_CLASS}]")
_HIGH_OR_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}|[\x80-\xff]")
_ASCII_TO_NORMALIZE = re.compile(
    rf"%[0-9A-Fa-f]{{2}}|[^{NORMAL_CLASS}*$\x80-\U0010ffff]"
)
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")

SHORT = 2048
"""The longest target, in octets, that is searched for one word after the other. Nearly all
are shorter."""

# The URLs of Scrapy are encoded already. Nearly every one matches this: its target is
# short, has no "%" and needs no normalization.
NORMAL_URL = re.compile(
    rf"https?://[A-Za-z0-9.:-]*(/[{NORMAL_CLASS}]{{0,{SHORT - 1}}})"
).fullmatch
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_AUTHORITY_END = re.compile(r"[/?#]")

# The number of question marks in a target that are tried as the beginning of the query.
# Each costs a comparison.
QUESTION_MARKS_TRIED = 8


class Pattern(NamedTuple):
    """The pattern of a rule, ready to be compared."""

    segments: tuple[str, ...]
    """The parts between the ``*``; one if there is no ``*``."""

    anchored: bool
    """Whether the target must end where the pattern does."""

    octets: int
    """The length of the normalised pattern, its special characters included."""

    halves: tuple[Pattern, Pattern] | None = None
    """If a ``/`` stands behind the first raw ``?``: the pattern up to this ``?``, and
    what follows it, in which a ``/`` matches ``%2F`` too."""


def target(url: str, dialect: Dialect) -> str:
    """The target of *url*, which is compared with patterns: its path and query, normalized.

    User information and fragment are not part of it; an empty path is ``/``.
    """
    normal = NORMAL_URL(url)
    return normal[1] if normal else plain_target(url, dialect)


def plain_target(url: str, dialect: Dialect) -> str:
    """The target of any *url*: :func:`target` without its fast path."""
    scheme = _SCHEME.match(url)
    end_of_authority = _AUTHORITY_END.search(url, scheme.end() if scheme else 0)
    if end_of_authority is None:
        return "/"
    start = end_of_authority.start()
    fragment = url.find("#", start)
    found = url[start:] if fragment < 0 else url[start:fragment]
    if not found.startswith("/"):
        found = "/" + found
    if _NORMAL(found):
        return found
    if dialect.path_encoding == "high-octets":
        return _ASCII_TO_NORMALIZE.sub(_encoded_by_some, found)
    return _normalized(
        found.encode("utf-8", "surrogatepass").decode("latin-1"), dialect
    )


def with_slashes(target: str, dialect: Dialect) -> str:
    """*target* as it is compared with patterns that have no ``*``: with ``/`` for ``%2F``
    in its query, in a dialect where the two are equal there.
    """
    if dialect.path_encoding != "rfc3986" or "%2F" not in target:
        return target
    path, mark, query = target.partition("?")
    return path + mark + query.replace("%2F", "/")


def pattern(value: str, dialect: Dialect) -> Pattern | None:
    """The pattern of a rule whose value, an octet a character, is *value*; None if it is
    one that matches nothing.
    """
    if (
        dialect.wildcards
        and PLAIN_PATTERN(value)
        and "/" not in value.partition("?")[2]
    ):
        # Most values need no normalization in any dialect, and this path takes a third of
        # the time.
        segments = value.removesuffix("$").split("*")
        return Pattern(_without_runs(segments), value[-1] == "$", len(value))
    found = _segments(value, dialect)
    return found and _pattern(*found, dialect)


def directory_of_index(value: str, dialect: Dialect) -> Pattern | None:
    """The pattern of a directory alone, where *value* is the pattern of its index page."""
    found = _segments(value, dialect)
    if found is None:
        return None
    segments, _ = found
    for last in reversed(range(len(segments))):
        directory, slash, page = segments[last].rpartition("/")
        if slash:
            if not page.startswith("index.htm"):
                return None
            kept = [*segments[:last], directory + slash]
            return _pattern(kept, anchored=True, dialect=dialect)
    return None


def _segments(value: str, dialect: Dialect) -> tuple[list[str], bool] | None:
    """The parts between the ``*``, with the octets that are counted, and whether a ``$``
    ends the pattern.
    """
    if not value.startswith("/") and not (dialect.wildcards and value[:1] == "*"):
        if not dialect.leading_slash_assumed:
            return None
        value = "/" + value
    if not dialect.wildcards:
        return [_normalized(value, dialect)], False
    anchored = value.endswith("$")
    if anchored:
        value = value[:-1]
    segments = value.split("*")
    if not _NORMAL("".join(segments)):
        segments = [_normalized(segment, dialect) for segment in segments]
    return segments, anchored


def _pattern(segments: list[str], anchored: bool, dialect: Dialect) -> Pattern:
    split = None
    if dialect.path_encoding == "rfc3986":
        split = _decode_query_slashes(segments)
    octets = sum(map(len, segments)) + len(segments) - 1 + anchored
    if dialect.path_encoding == "high-octets":
        # Google's parser counts the octets first, so they are normalized after that.
        segments = [
            _ASCII_TO_NORMALIZE.sub(_encoded_by_some, part) for part in segments
        ]
    halves = None
    if split is not None:
        number, mark = split
        before = [*segments[:number], segments[number][:mark]]
        after = [segments[number][mark:], *segments[number + 1 :]]
        halves = (
            Pattern(_without_runs(before), anchored=True, octets=0),
            Pattern(_without_runs(after), anchored, octets=0),
        )
    return Pattern(_without_runs(segments), anchored, octets, halves)


def _decode_query_slashes(segments: list[str]) -> tuple[int, int] | None:
    """Decode each ``%2F`` behind the first ``?``. If there is a ``/`` behind it then,
    return the index of the segment with the ``?`` and the position behind the ``?``.
    """
    for number, segment in enumerate(segments):
        path, question_mark, query = segment.partition("?")
        if question_mark:
            behind = [query, *segments[number + 1 :]]
            behind = [part.replace("%2F", "/") for part in behind]
            segments[number:] = [path + question_mark + behind[0], *behind[1:]]
            has_slash = any("/" in part for part in behind)
            return (number, len(path) + 1) if has_slash else None
    return None


def _without_runs(segments: list[str]) -> tuple[str, ...]:
    """*segments* with each run of ``*`` between them made one ``*``, which is equivalent."""
    if len(segments) < 3:
        return tuple(segments)
    first, *inner, last = segments
    return first, *filter(None, inner), last


def matches(pattern: Pattern, target: str) -> bool:
    """Whether *pattern* matches *target*."""
    if pattern.halves is None or "%2F" not in target:
        return _matches(pattern, target)
    before, after = pattern.halves
    end = 0
    for _ in range(QUESTION_MARKS_TRIED):
        end = target.find("?", end) + 1
        if not end:
            return False
        if _matches(before, target[:end]):
            query = target[end:].replace("%2F", "/")
            if _matches(after, query):
                return True
    return False


def _matches(pattern: Pattern, target: str) -> bool:
    """Whether *pattern* matches *target*, ``%2F`` and ``/`` being different.

    Each segment is taken at its first occurrence: that leaves most room for the following
    ones, so no other needs to be tried, and the target is read once.
    """
    segments = pattern.segments
    if not target.startswith(segments[0]):
        return False
    position = len(segments[0])
    if len(segments) == 1:
        return not pattern.anchored or position == len(target)
    for segment in segments[1:-1]:
        found = target.find(segment, position)
        if found < 0:
            return False
        position = found + len(segment)
    last = segments[-1]
    if pattern.anchored:
        return position + len(last) <= len(target) and target.endswith(last)
    return target.find(last, position) >= 0


def _normalized(octets: str, dialect: Dialect) -> str:
    if dialect.path_encoding == "rfc3986":
        return octets if _NORMAL(octets) else _TO_NORMALIZE.sub(_rfc3986, octets)
    if dialect.path_encoding == "high-octets":
        return _HIGH_OR_ENCODED.sub(_high_octets, octets)
    return _ENCODED.sub(_decoded, octets)


def _rfc3986(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return f"%{ord(found):02X}"
    octet = chr(int(found[1:], 16))
    return octet if octet in _DECODED else found.upper()


def _encoded_by_some(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return f"%{ord(found):02X}"
    octet = chr(int(found[1:], 16))
    if octet in _ENCODED_BY_SOME:
        return octet
    may_stand_raw = octet in NORMAL + "*$#" or octet > "\x7f"
    return found if may_stand_raw else found.upper()


def _high_octets(match: re.Match[str]) -> str:
    found = match[0]
    return f"%{ord(found):02X}" if len(found) == 1 else found.upper()


def _decoded(match: re.Match[str]) -> str:
    octet = chr(int(match[0][1:], 16))
    return "%2F" if octet == "/" else octet
