"""Normalizes and compares the targets of URLs and the patterns of rules.

Targets and patterns become strings in which each character stands for one octet, so that ``str``
methods compare and count octets. RFC 9309, 2.2.2, normalizes both before they are compared; see
:attr:`~scrapy_rep.protocol.dialect.Dialect.path_encoding`. A pattern matches a target if the two
match as written, or if they match after both are normalized.
"""

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from scrapy_rep.protocol.dialect import Dialect

# Characters that stand for themselves in a path: unreserved ones (RFC 3986, 2.3) and delimiters (2.2).
# Four characters do not: "#" ends a path, "%" begins an encoded octet, and patterns have "*" and "$".
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_DELIMITERS = "/?&=+"

# Reserved characters that delimit nothing in a path or query.
_OTHER_RESERVED = ":@!(),;"

# More characters that delimit nothing, and that only some URL libraries encode: w3lib encodes brackets,
# which are not valid in a path or query, and WHATWG parsers encode the quote in a query.
_ENCODED_BY_SOME = "[]'"

NORMAL = _UNRESERVED + _OTHER_RESERVED + _DELIMITERS
"""The characters that stand for themselves in patterns and URLs, in every dialect."""

_DECODED = frozenset(_UNRESERVED + _OTHER_RESERVED + _ENCODED_BY_SOME)

NORMAL_CLASS = re.escape(NORMAL)
"""The normal characters, escaped for a character class of a regular expression."""

PLAIN_PATTERN = re.compile(rf"[/*][{NORMAL_CLASS}*]*\$?").fullmatch
"""Matches the value of a rule that needs no normalization, if wildcards are special."""

# These expressions match one octet, or one encoded octet, at a time, and do not backtrack.
_NORMAL = re.compile(rf"[{NORMAL_CLASS}]*").fullmatch
_ABNORMAL = "".join(set(map(chr, range(128))).difference(NORMAL, "%*$"))
_ASCII_TO_NORMALIZE = re.compile(rf"%[0-9A-Fa-f]{{2}}|[{re.escape(_ABNORMAL)}]")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
PERCENT_ALONE = re.compile(r"%(?![0-9A-Fa-f]{2})")
"""A ``%`` that begins no encoded octet. At the end of a pattern, it matches the ``%`` of an encoded
octet in a target."""

SHORT = 2048
"""The length in octets up to which targets take the fast paths, :data:`NORMAL_URL` and
:func:`~scrapy_rep.protocol.robotstxt.rules.first_answer`. Nearly all targets are shorter."""

# Matches a URL with a short target that needs no normalization, and captures the target. Nearly every
# URL of a crawl matches, since Scrapy encodes URLs.
NORMAL_URL = re.compile(
    rf"https?://[A-Za-z0-9.:-]*(/[{NORMAL_CLASS}]{{0,{SHORT - 1}}})"
).fullmatch
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_AUTHORITY_END = re.compile(r"[/?#]")


class Pattern(NamedTuple):
    """The parsed and normalized pattern of a rule."""

    segments: tuple[str, ...]
    """The parts between the ``*``; only one part if there is no ``*``."""

    anchored: bool
    """Whether the pattern ends with ``$``, so the target must end there too."""

    octets: int
    """The length of the normalized pattern, including its special characters."""

    has_query: bool = False
    """Whether the pattern has a raw ``?``, after which ``/`` and ``?`` also match their encoded forms."""

    written: tuple[str, ...] = ()
    """The segments as written, without normalization; empty in a dialect that compares only normalized
    segments."""


EVERYTHING = Pattern(("",), anchored=False, octets=0)
"""The shortest pattern, which matches every target."""


class Target(NamedTuple):
    """The path and query of a URL, to compare with patterns."""

    normal: str
    """The normalized target."""

    written: str = ""
    """The target as written; empty if the target has no ``%``, since then every pattern that matches the
    target as written also matches the normalized target.
    """


def target(url: str, dialect: Dialect) -> Target:
    """Return the target of *url*: its path and query, without a fragment. An empty path becomes ``/``."""
    normal = NORMAL_URL(url)
    return Target(normal[1]) if normal else plain_target(url, dialect)


def plain_target(url: str, dialect: Dialect) -> Target:
    """Return the target of *url* as :func:`target` does, but without the fast path for most URLs."""
    scheme = _SCHEME.match(url)
    end_of_authority = _AUTHORITY_END.search(url, scheme.end() if scheme else 0)
    if end_of_authority is None:
        return Target("/")
    start = end_of_authority.start()
    fragment = url.find("#", start)
    written = url[start:] if fragment < 0 else url[start:fragment]
    if not written.startswith("/"):
        written = "/" + written
    if _NORMAL(written):
        return Target(written)
    if dialect.path_encoding == "high-octets":
        return Target(_ASCII_TO_NORMALIZE.sub(_encoded_by_some, written))
    written = written.encode("utf-8", "surrogatepass").decode("latin-1")
    normal = _normalized(written, dialect)
    return Target(normal, written) if "%" in written else Target(normal)


def may_delimit_nothing(target: str) -> bool:
    """Whether *target* has an encoded ``/`` or ``?``. In a query, where these two delimit nothing
    (RFC 3986, 3.4), the encoded character may match a raw one.
    """
    return "%2F" in target or "%3F" in target


def with_decoded_query(target: str, dialect: Dialect) -> str:
    """Return the normalized *target* with each encoded ``/`` and ``?`` of its query decoded, for the
    comparison with patterns that have a ``?``.

    In a dialect in which encoded and raw characters differ there, return *target* unchanged. A
    pattern without ``?`` and ``*`` matches both *target* and the result, or neither.
    """
    if "%" not in target or dialect.path_encoding != "rfc3986":
        return target
    return _with_decoded_query(target)


def _with_decoded_query(text: str) -> str:
    """Return a target or pattern with each ``%2F`` and ``%3F`` decoded after its first ``?``."""
    path, mark, query = text.partition("?")
    return path + mark + query.replace("%2F", "/").replace("%3F", "?")


def pattern(value: str, dialect: Dialect) -> Pattern | None:
    """Parse the value of a rule, in which each character stands for one octet. Return None for a
    pattern that matches nothing.
    """
    if dialect.wildcards and PLAIN_PATTERN(value):
        # Most values need no normalization in any dialect. Without this branch, to read and sort all
        # rules takes 1.13 times as long.
        segments = value.removesuffix("$").split("*")
        parts = _without_runs(segments) if "**" in value else tuple(segments)
        has_query = "?" in value and dialect.path_encoding == "rfc3986"
        written = () if dialect.path_encoding == "high-octets" else parts
        return Pattern(parts, value[-1] == "$", len(value), has_query, written)
    parsed = _segments(value, dialect)
    if parsed is None:
        return None
    segments, anchored = parsed
    normal = _pattern(_normalized_segments(segments, dialect), anchored, dialect)
    if dialect.path_encoding == "high-octets":
        return normal
    return normal._replace(written=_without_runs(segments))


def directory_of_index(value: str, dialect: Dialect) -> Pattern | None:
    """Return the pattern that matches exactly the directory of an index page: ``/dir/$`` for the *value*
    ``/dir/index.html``. Return None for all other values.
    """
    parsed = _segments(value, dialect)
    if parsed is None:
        return None
    segments = _normalized_segments(parsed[0], dialect)
    for last in reversed(range(len(segments))):
        directory, slash, page = segments[last].rpartition("/")
        if slash:
            if not page.startswith("index.htm"):
                return None
            kept = [*segments[:last], directory + slash]
            return _pattern(kept, anchored=True, dialect=dialect)
    return None


def _segments(value: str, dialect: Dialect) -> tuple[list[str], bool] | None:
    """Return the parts of *value* between the ``*``, as written, and whether the pattern ends with a
    ``$``; None for a pattern that matches nothing.
    """
    if not value.startswith("/") and not (dialect.wildcards and value[:1] == "*"):
        if not dialect.leading_slash_assumed:
            return None
        value = "/" + value
    if not dialect.wildcards:
        return [value], False
    anchored = value.endswith("$")
    return value.removesuffix("$").split("*"), anchored


def _normalized_segments(segments: list[str], dialect: Dialect) -> list[str]:
    if _NORMAL("".join(segments)):
        return segments
    return [_normalized(segment, dialect) for segment in segments]


def _pattern(segments: list[str], anchored: bool, dialect: Dialect) -> Pattern:
    """Return the pattern of normalized *segments*."""
    has_query = False
    if dialect.path_encoding == "rfc3986" and any("?" in part for part in segments):
        has_query = True
        segments = _with_decoded_query("*".join(segments)).split("*")
    octets = sum(map(len, segments)) + len(segments) - 1 + anchored
    if dialect.path_encoding == "high-octets":
        # Google's parser does not have this normalization, so it is not counted in the octets.
        segments = [
            _ASCII_TO_NORMALIZE.sub(_encoded_by_some, part) for part in segments
        ]
    return Pattern(_without_runs(segments), anchored, octets, has_query)


def _without_runs(segments: list[str]) -> tuple[str, ...]:
    """Return the segments of the equivalent pattern in which each run of ``*`` is a single ``*``."""
    if len(segments) < 3:
        return tuple(segments)
    first, *inner, last = segments
    return first, *filter(None, inner), last


def matches(pattern: Pattern, target: str, decoded: str, written: str) -> bool:
    """Whether *pattern* matches a target, either with both normalized, or with both as written.

    *target* and *written* are the two parts of a :class:`Target`; *decoded* is the result of
    :func:`with_decoded_query` for *target*.
    """
    normal = decoded if pattern.has_query else target
    if _matches(pattern.segments, pattern.anchored, normal):
        return True
    if not written or not pattern.written:
        return False
    return _matches(pattern.written, pattern.anchored, written)


def _matches(segments: tuple[str, ...], anchored: bool, target: str) -> bool:
    """Whether *segments* with a ``*`` between them match *target*, octet by octet.

    Each segment is searched after the one before. Its first occurrence leaves most room for the next
    segments, so there is no backtracking, and the target is read once.
    """
    if not target.startswith(segments[0]):
        return False
    position = len(segments[0])
    if len(segments) == 1:
        return not anchored or position == len(target)
    for segment in segments[1:-1]:
        start = target.find(segment, position)
        if start < 0:
            return False
        position = start + len(segment)
    last = segments[-1]
    if anchored:
        return position + len(last) <= len(target) and target.endswith(last)
    return target.find(last, position) >= 0


def _normalized(octets: str, dialect: Dialect) -> str:
    if _NORMAL(octets):
        return octets
    if dialect.path_encoding == "rfc3986":
        octets = PERCENT_ALONE.sub("%25", octets)
    written, encoded = _ENCODINGS[dialect.path_encoding]
    if "%" in octets:
        octets = _ENCODED.sub(written, octets)
    return octets.translate(encoded)


def _writer(
    decoded: AbstractSet[str] = frozenset(), kept: AbstractSet[str] = frozenset()
) -> Callable[[re.Match[str]], str]:
    """Return a function for ``re.sub`` that rewrites one octet, raw or encoded. It encodes a raw octet,
    decodes an encoded octet in *decoded*, keeps an encoded octet in *kept* as it is, and writes the
    hex digits of all others in upper case.
    """

    def write(match: re.Match[str]) -> str:
        text = match[0]
        if len(text) == 1:
            return f"%{ord(text):02X}"
        octet = chr(int(text[1:], 16))
        if octet in decoded:
            return octet
        return text if octet in kept else text.upper()

    return write


def _table(raw: AbstractSet[str]) -> dict[int, str]:
    """Return the table for ``str.translate`` that encodes the octets *raw*."""
    return {ord(octet): f"%{ord(octet):02X}" for octet in raw}


_OCTETS = frozenset(map(chr, range(256)))
_ENCODINGS = {
    "rfc3986": (
        _writer(decoded=_DECODED),
        _table(_OCTETS - {*NORMAL, *_ENCODED_BY_SOME, "%"}),
    ),
    "high-octets": (_writer(), _table({*map(chr, range(0x80, 0x100))})),
    "decoded": (_writer(decoded=_OCTETS - {"/"}), {}),
}
"""For each path encoding, the function that rewrites encoded octets, and the table that encodes raw
octets."""

_encoded_by_some = _writer(kept={*NORMAL, *"*$#", *map(chr, range(0x80, 0x100))})
