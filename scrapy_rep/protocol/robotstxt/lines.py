"""Parses the bytes of a robots.txt into numbered lines with a field and a value.

See :mod:`~scrapy_rep.protocol.grammar`. Any field name is accepted, and no content is an
error (RFC 9309, 2.3.1.5). Only CR, LF and CRLF end a line; a form feed or U+2028 does not.
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
    """A line with a field, or, if the dialect ends groups with them, a blank line."""

    number: int
    """From 1."""

    field: str
    """The field in lower case and correct spelling; empty for a blank line."""

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

# A line that begins like a user-agent, allow or disallow line, but whose field is not spelt
# as in RFC 9309.
_TO_RESPELL = re.compile(
    rf"\n{WS}(?i:(?!(?:{'|'.join((USER_AGENT, *RULES))}){WS}:)"
    rf"(?:{'|'.join(name for names, _ in _FIELD_PREFIXES[:3] for name in names)}))[^\n]*".encode()
)


_CR_ALONE = re.compile(rb"\r(?!\n)").search
_FROM_NUL = re.compile(rb"\0[^\n]*")


def decoded_text(body: bytes, dialect: Dialect) -> bytes:
    """Return the part of *body* within the size limit, decoded for the dialect.

    The result is in UTF-8, as far as *body* is valid, without a byte order mark, and with LF
    as the only line end.
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
        # Deleting octets is faster than replacing pairs of octets.
        return body.replace(b"\r", b"")
    return body


def _is_utf_16(body: bytes) -> bool:
    """Whether *body* has the byte order mark of UTF-16, and null bytes where ASCII characters
    have them in UTF-16. Nearly all of a robots.txt except comments is ASCII.
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
    """Return *text* with the fields user-agent, allow and disallow spelt as in RFC 9309, so
    that a search needs no other spellings, and with lines cut where the dialect cuts them.
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
    """Yield the lines of a robots.txt that have a field.

    If blank lines end groups in the dialect, yield these too, with an empty field.
    """
    for number, raw in enumerate(decoded_text(body, dialect).split(b"\n"), 1):
        line = read_line(number, raw, dialect)
        if line is not None:
            yield line


def read_line(number: int, raw: bytes, dialect: Dialect) -> Line | None:
    """Return the field and value of a line of :func:`decoded_text`, or None."""
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
        # Two words without a colon are a field and a value. Only spaces and tabs separate
        # words.
        words = [word for word in name.replace(b"\t", b" ").split(b" ") if word]
        if len(words) == 2:
            return Line(number, _field(words[0].strip(), dialect), words[1].strip())
    elif dialect.blank_line_ends_group and not name and not comment:
        # A line with only a comment is not a blank line (1994, "The Format").
        return Line(number, "", b"")
    return None


def _field(name: bytes, dialect: Dialect) -> str:
    field = name.decode("utf-8", "replace").lower()
    if dialect.misspelt_fields:
        for prefixes, proper in _FIELD_PREFIXES:
            if field.startswith(prefixes):
                return proper
    return field
