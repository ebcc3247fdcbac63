"""Compares path patterns of rules with targets. A target is the path and query of a URL.

A pattern is compared with a target in normalized form (RFC 9309, 2.2.2): the pattern ``/~a`` matches the
target ``/%7Ea``. In most dialects, the pattern and the target are compared as written, too; the pattern
matches if one of the two comparisons succeeds. See
:attr:`~scrapy_rep.protocol.dialect.Dialect.path_encoding` for the normalization.

Targets and patterns are strings in which each character stands for one octet, so that ``str``
methods compare and count octets.
"""

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from scrapy_rep.protocol.dialect import Dialect

# Characters that represent themselves in a path or query: unreserved characters (RFC 3986, 2.3) and delimiters
# (RFC 3986, 2.2). Four other characters have a special meaning: "#" begins the fragment of a URL, "%" begins an
# encoded octet, and "*" and "$" are wildcards in patterns.
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_DELIMITERS = "/?&=+"

# Reserved characters that delimit nothing in a path or query.
_OTHER_RESERVED = ":@!(),;"

# More reserved characters that delimit nothing in a path or query. Only some URL libraries encode them: w3lib
# encodes brackets, which are not valid in a path or query, and WHATWG parsers encode the single quote in a query.
_ENCODED_BY_SOME = "[]'"

NORMAL = _UNRESERVED + _OTHER_RESERVED + _DELIMITERS
"""The normal characters, which represent themselves in patterns and URLs in every dialect."""

_DECODED = frozenset(_UNRESERVED + _OTHER_RESERVED + _ENCODED_BY_SOME)

NORMAL_CLASS = re.escape(NORMAL)
"""The characters in :data:`NORMAL`, escaped for a character class of a regular expression."""

PLAIN_PATTERN = re.compile(rf"[/*][{NORMAL_CLASS}*]*\$?").fullmatch
"""Matches a rule's value that consists only of wildcards and of characters in :data:`NORMAL`, and begins with ``/``
or ``*``. Such a value needs no normalization. Use this expression only for a dialect with wildcards."""

# None of the expressions below can backtrack: _NORMAL repeats a single class of characters, and each of the others
# matches a single octet, raw or encoded.
_NORMAL = re.compile(rf"[{NORMAL_CLASS}]*").fullmatch
_ABNORMAL = "".join(set(map(chr, range(128))).difference(NORMAL, "%*$"))
_ASCII_TO_NORMALIZE = re.compile(rf"%[0-9A-Fa-f]{{2}}|[{re.escape(_ABNORMAL)}]")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
PERCENT_ALONE = re.compile(r"%(?![0-9A-Fa-f]{2})")
"""Finds a ``%`` that is not followed by two hex digits. Such a ``%`` at the end of a pattern can match the ``%``
of an encoded octet in a target."""

SHORT = 2048
"""The maximum length, in octets, of a short target. Two optimizations are used only for short targets: the
expression :data:`NORMAL_URL`, and the function :func:`~scrapy_rep.protocol.robotstxt.rules.first_answer`. Nearly all
targets are short."""

# Matches a URL whose target is short and needs no normalization, and captures the target. Nearly every URL of a
# crawl matches, because Scrapy encodes URLs.
NORMAL_URL = re.compile(
    rf"https?://[A-Za-z0-9.:-]*(/[{NORMAL_CLASS}]{{0,{SHORT - 1}}})"
).fullmatch
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_AUTHORITY_END = re.compile(r"[/?#]")


class Pattern(NamedTuple):
    """The parsed and normalized path pattern of a rule."""

    segments: tuple[str, ...]
    """The normalized parts of the pattern between its ``*`` wildcards; one part if it has no ``*``."""

    anchored: bool
    """Whether the pattern ends with ``$``, so that it must match up to the end of the target."""

    octets: int
    """The length of the normalized pattern in octets, including ``*`` and ``$``."""

    needs_decoded_query: bool = False
    """Whether the pattern is compared with the result of :func:`with_decoded_query` in place of the normalized target.
    True if the pattern contains a ``?`` and the dialect's ``path_encoding`` is ``"rfc3986"``."""

    written: tuple[str, ...] = ()
    """The parts of the pattern between its ``*`` wildcards, as written in robots.txt. Empty if the dialect compares
    URLs only with the normalized pattern."""


EVERYTHING = Pattern(("",), anchored=False, octets=0)
"""The shortest pattern, which matches every target."""


class Target(NamedTuple):
    """The path and query of a URL, normalized and as written: ``Target("/~a", "/%7Ea")``. A pattern matches the URL if
    it matches one of the two forms.
    """

    normal: str
    """The normalized target."""

    written: str = ""
    """The target as written. Empty if patterns need to be compared only with the normalized target, because the target
    contains no ``%``, or because the dialect compares only normalized targets."""


def target(url: str, dialect: Dialect) -> Target:
    """Return the path and query of *url*, without the fragment. An empty path becomes ``/``."""
    normal = NORMAL_URL(url)
    return Target(normal[1]) if normal else plain_target(url, dialect)


def plain_target(url: str, dialect: Dialect) -> Target:
    """Return the same as :func:`target`, without its fast path for URLs that need no normalization."""
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
    # For a target without a "%", the comparison in normalized form is enough: if a pattern and the target match as
    # written, they match in normalized form, too.
    return Target(normal, written) if "%" in written else Target(normal)


def has_encoded_delimiter(target: str) -> bool:
    """Whether the normalized *target* contains ``%2F`` or ``%3F``, which encode ``/`` and ``?``. If False,
    :func:`with_decoded_query` returns *target* unchanged.
    """
    return "%2F" in target or "%3F" in target


def with_decoded_query(target: str, dialect: Dialect) -> str:
    """Return the normalized *target* with each ``%2F`` and ``%3F`` in its query decoded. For example, return
    ``/a%2Fb?c/d`` for ``/a%2Fb?c%2Fd``. If the dialect's ``path_encoding`` is not ``"rfc3986"``, return *target*
    unchanged.

    The caller must compare a pattern that contains a ``?`` with the result, and a pattern that contains a ``*`` but no
    ``?`` with *target* itself. For a pattern with neither ``?`` nor ``*``, these two comparisons give the same answer.
    """
    # In a query, "/" and "?" do not delimit anything (RFC 3986, 3.4). So the pattern "/a?c/d" should match the target
    # "/a?c%2Fd". But the last "/" of the pattern "/*/d" is a delimiter of the path. It should not match the "%2F" in
    # the query of this target, so a pattern with a "*" but no "?" is compared with the target itself. A pattern with
    # neither "?" nor "*" can match only the text before the query, where nothing is decoded.
    if "%" not in target or dialect.path_encoding != "rfc3986":
        return target
    return _with_decoded_query(target)


def _with_decoded_query(text: str) -> str:
    """Return *text*, a target or a pattern, with each ``%2F`` and ``%3F`` after the first ``?`` decoded."""
    path, mark, query = text.partition("?")
    return path + mark + query.replace("%2F", "/").replace("%3F", "?")


def pattern(value: str, dialect: Dialect) -> Pattern | None:
    """Parse the *value* of a rule as a pattern. Each character of *value* stands for one octet.

    Return None for a value without a leading slash, such as ``a/b``, if the dialect ignores rules with this value
    (see :attr:`~scrapy_rep.protocol.dialect.Dialect.leading_slash_assumed`).
    """
    if dialect.wildcards and PLAIN_PATTERN(value):
        # A fast path for the values that need no normalization, which are most values. Without this branch,
        # parsing and sorting the rules of a file would take 1.13 times as long.
        segments = value.removesuffix("$").split("*")
        parts = _without_runs(segments) if "**" in value else tuple(segments)
        needs_decoded_query = "?" in value and dialect.path_encoding == "rfc3986"
        written = () if dialect.path_encoding == "high-octets" else parts
        return Pattern(
            parts, value[-1] == "$", len(value), needs_decoded_query, written
        )
    parsed = _segments(value, dialect)
    if parsed is None:
        return None
    segments, anchored = parsed
    normal = _pattern(_normalized_segments(segments, dialect), anchored, dialect)
    if dialect.path_encoding == "high-octets":
        return normal
    return normal._replace(written=_without_runs(segments))


def directory_of_index(value: str, dialect: Dialect) -> Pattern | None:
    """Return the pattern that matches only the directory of an index page, if *value* is the path of an index
    page: ``/dir/$`` for ``/dir/index.html``. Return None for all other values.
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
    """Split *value* at its ``*`` wildcards. Return the segments as written, and whether the pattern ends with
    ``$``. Return None if the dialect ignores rules with this value, because the value has no leading slash.
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
    """Return the pattern that consists of *segments*, separated by ``*``. The caller must pass normalized segments.
    *anchored* is whether the pattern ends with ``$``.
    """
    needs_decoded_query = False
    if dialect.path_encoding == "rfc3986" and any("?" in part for part in segments):
        needs_decoded_query = True
        segments = _with_decoded_query("*".join(segments)).split("*")
    octets = sum(map(len, segments)) + len(segments) - 1 + anchored
    if dialect.path_encoding == "high-octets":
        # Characters such as brackets and spaces are encoded here, as in targets, so that they match their encoded
        # forms. `octets`, the length that determines the precedence of a rule, is calculated before, because Google's
        # parser does not encode these characters.
        segments = [
            _ASCII_TO_NORMALIZE.sub(_encoded_by_some, part) for part in segments
        ]
    return Pattern(_without_runs(segments), anchored, octets, needs_decoded_query)


def _without_runs(segments: list[str]) -> tuple[str, ...]:
    """Return *segments* without the empty segments between adjacent ``*``: two or more ``*`` in a row are
    equivalent to one.
    """
    if len(segments) < 3:
        return tuple(segments)
    first, *inner, last = segments
    return first, *filter(None, inner), last


def matches(pattern: Pattern, target: str, decoded: str, written: str) -> bool:
    """Whether *pattern* matches the target of a URL, in normalized form or as written.

    - *target* is the normalized target (:attr:`Target.normal`).
    - *decoded* is the result of :func:`with_decoded_query` for *target*. A pattern with a query is compared with
      *decoded* in place of *target*.
    - *written* is the target as written (:attr:`Target.written`). If it is empty, only the normalized forms are
      compared.
    """
    normal = decoded if pattern.needs_decoded_query else target
    if _matches(pattern.segments, pattern.anchored, normal):
        return True
    if not written or not pattern.written:
        return False
    return _matches(pattern.written, pattern.anchored, written)


def _matches(segments: tuple[str, ...], anchored: bool, target: str) -> bool:
    """Whether a pattern that consists of *segments*, separated by ``*``, matches *target*. *anchored* is
    whether the pattern ends with ``$``.
    """
    # The first segment must be at the start of the target. The last segment of an anchored pattern must be at the end.
    # Each other segment is searched after the end of the previous segment. Its first occurrence leaves the longest text
    # for the following segments. So no other occurrence needs to be tried, and the target is read only once.
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
    """Return a replacement function for ``re.sub``. Each match must be one octet, raw or encoded.

    The function percent-encodes raw octets. It decodes the encoded octets in *decoded*, leaves the encoded octets in
    *kept* unchanged, and writes the hex digits of all other encoded octets in upper case. *decoded* and *kept* contain
    raw octets: if *decoded* contains ``"~"``, ``%7E`` is decoded.
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


def _table(characters: AbstractSet[str]) -> dict[int, str]:
    """Return a table for ``str.translate`` that percent-encodes *characters*. Each character, from U+0000 to U+00FF,
    stands for the octet with the same number: U+00E9 becomes ``%E9``.
    """
    return {ord(character): f"%{ord(character):02X}" for character in characters}


_OCTETS = frozenset(map(chr, range(256)))
_ENCODINGS = {
    "rfc3986": (
        _writer(decoded=_DECODED),
        _table(_OCTETS - {*NORMAL, *_ENCODED_BY_SOME, "%"}),
    ),
    "high-octets": (_writer(), _table({*map(chr, range(0x80, 0x100))})),
    "decoded": (_writer(decoded=_OCTETS - {"/"}), {}),
}
"""A function and a table for each value of ``path_encoding``, with which targets and patterns are normalized. The
function decodes some percent-encoded octets, and writes the hex digits of the others in upper case. The table, for
``str.translate``, percent-encodes raw octets."""

_encoded_by_some = _writer(kept={*NORMAL, *"*$#", *map(chr, range(0x80, 0x100))})
