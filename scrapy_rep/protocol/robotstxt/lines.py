"""From the bytes of a robots.txt to its numbered fields and values.

:mod:`~scrapy_rep.protocol.grammar` has the grammar. Any field name counts, and no content
is an error (RFC 9309, 2.3.1.5). Nothing but CR, LF and CRLF ends a line: not a form feed,
not U+2028.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.grammar import RULES, USER_AGENT, WS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.dialect import Dialect


class Line(NamedTuple):
    """A line with a field, or a blank line where that ends a group."""

    number: int
    """From 1."""

    field: str
    """The field in lower case and in its proper spelling; empty for a blank line."""

    value: bytes
    """The value as written, without the white space around it."""


# The prefixes by which Google's published parser recognizes a field, in its order.
_FIELD_PREFIXES = (
    (("user-agent", "useragent", "user agent"), "user-agent"),
    (("allow",), "allow"),
    (
        ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"),
        "disallow",
    ),
    (("sitemap", "site-map"), "sitemap"),
)

# A line that begins like a user-agent, allow or disallow line, but is spelt otherwise than
# in RFC 9309.
_TO_RESPELL = re.compile(
    rf"\n{WS}(?i:(?!(?:{'|'.join((USER_AGENT, *RULES))}){WS}:)"
    rf"(?:{'|'.join(name for names, _ in _FIELD_PREFIXES[:3] for name in names)}))[^\n]*".encode()
)


_CR_ALONE = re.compile(rb"\r(?!\n)").search
_FROM_NUL = re.compile(rb"\0[^\n]*")


def decoded_text(body: bytes, dialect: Dialect) -> bytes:
    """The part of *body* that is read: UTF-8 as far as it is valid, without a byte order
    mark, its lines ended by LF alone.
    """
    is_cut = len(body) > dialect.size_limit
    if is_cut:
        body = body[: dialect.size_limit]
    is_utf_16 = dialect.utf_16 and _is_utf_16(body)
    if is_utf_16:
        body = body.decode("utf-16", "replace").encode("utf-8", "replace")
    if is_cut:
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    if is_utf_16:
        pass
    elif body.startswith(BOM_UTF8):
        body = body[len(BOM_UTF8) :]
    elif dialect.partial_bom:
        for length in (2, 1):
            if body.startswith(BOM_UTF8[:length]):
                body = body[length:]
                break
    if b"\r" in body:
        if _CR_ALONE(body):
            return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        # Dropping octets is faster than replacing pairs of octets.
        return body.replace(b"\r", b"")
    return body


def _is_utf_16(body: bytes) -> bool:
    """Whether *body* has the byte order mark of UTF-16, and null bytes where UTF-16 has
    them in ASCII characters, of which a robots.txt consists but for comments.
    """
    if body.startswith(BOM_UTF16_LE):
        low, high = body[2::2], body[3::2]
    elif body.startswith(BOM_UTF16_BE):
        high, low = body[2::2], body[3::2]
    else:
        return False
    zeros = high.count(0)
    return zeros > max(low.count(0), len(high) // 8)


def canonical_text(text: bytes, dialect: Dialect) -> bytes:
    """*text* with the fields user-agent, allow and disallow spelt as in RFC 9309, so that a
    search for them needs no other spellings.
    """
    limit = dialect.line_limit
    if limit is not None and len(text) > limit:
        text = b"\n".join([line[:limit] for line in text.split(b"\n")])
    if dialect.nul_ends_line and b"\0" in text:
        text = _FROM_NUL.sub(b"", text)
    if not dialect.misspelt_fields:
        return text

    def respelt(match: re.Match[bytes]) -> bytes:
        line = read_line(0, match[0][1:], dialect)
        return b"\n%b:%b" % (line.field.encode(), line.value) if line else match[0]

    return _TO_RESPELL.sub(respelt, b"\n" + text)[1:]


def lines(body: bytes, dialect: Dialect) -> Iterator[Line]:
    """The lines of a robots.txt that have a field.

    Where a blank line ends a group, it is there too, as a line whose field is empty.
    """
    for number, raw in enumerate(decoded_text(body, dialect).split(b"\n"), 1):
        line = read_line(number, raw, dialect)
        if line is not None:
            yield line


def read_line(number: int, raw: bytes, dialect: Dialect) -> Line | None:
    """The field and value of a line of :func:`decoded_text`; None where it has none."""
    raw = raw[: dialect.line_limit]
    if dialect.nul_ends_line:
        raw = raw.partition(b"\0")[0]
    content, comment, _ = raw.partition(b"#")
    name, colon, value = content.partition(b":")
    name = name.strip()
    if colon:
        if name:
            return Line(number, _field(name, dialect), value.strip())
    elif name and dialect.misspelt_fields:
        # Two words without a colon are a field and its value. Only spaces and tabs separate
        # words.
        words = [word for word in name.replace(b"\t", b" ").split(b" ") if word]
        if len(words) == 2:
            return Line(number, _field(words[0].strip(), dialect), words[1].strip())
    elif dialect.blank_line_ends_group and not name and not comment:
        # A line with a comment alone is no blank line (1994, "The Format").
        return Line(number, "", b"")
    return None


def _field(name: bytes, dialect: Dialect) -> str:
    field = name.decode("utf-8", "replace").lower()
    if dialect.misspelt_fields:
        for prefixes, proper in _FIELD_PREFIXES:
            if field.startswith(prefixes):
                return proper
    return field
