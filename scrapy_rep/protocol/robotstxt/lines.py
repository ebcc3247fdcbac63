"""Parses the bytes of a robots.txt into numbered lines with a field and a value.

:mod:`~scrapy_rep.protocol.text` describes the grammar. Any field name is accepted, and no content
raises an exception (RFC 9309, 2.3.1.5). Only CR, LF and CRLF end a line; a form feed or U+2028 does
not.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from scrapy_rep.protocol.agents import agents_of_line
from scrapy_rep.protocol.dialect import Dialect
from scrapy_rep.protocol.text import (
    CR,
    NUL,
    PACE_FIELDS,
    RULES,
    SITEMAP,
    USER_AGENT,
    WHITE_SPACE,
    WS,
)

PlainLine: TypeAlias = tuple[int, str, str]
"""A partly parsed :class:`Line`, which takes less time to create: the number of the line, its field, and all text
after the colon, including white space and a comment. Each character of this text stands for one octet."""


GroupText: TypeAlias = tuple[bytes, int]
"""A part of the result of :func:`decoded_text` that contains one group or several adjacent groups, and the number of
the part's first line in the file."""


class Line(NamedTuple):
    """A line of a robots.txt that has a field, or a blank line in a dialect in which blank lines end groups."""

    number: int
    """The number of the line, from 1."""

    field: str
    """The field in lower case; empty for a blank line. If the dialect accepts misspelt fields, this is the
    correct spelling."""

    value: bytes
    """The value as written, without the white space around it."""


# The prefixes that Google's published parser accepts for each field, in the order of that parser.
_FIELD_PREFIXES = (
    (("user-agent", "useragent", "user agent"), "user-agent"),
    (("allow",), "allow"),
    (
        ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"),
        "disallow",
    ),
    (("sitemap", "site-map"), "sitemap"),
)

# The usual spellings of the most frequent fields, each with the field in lower case. All dialects read these spellings
# alike.
_USUAL = {
    spelt: field
    for field in (USER_AGENT, *RULES, SITEMAP, *PACE_FIELDS)
    for spelt in (field, field.capitalize(), field.title(), field.upper())
}

# Finds the lines that may be user-agent lines, in a text in lower case. Every spelling of the field begins with "user".
# If the line begins with the correct spelling, the expression also captures the value, so the line does not have to be
# parsed. The value is captured in the first group if it is a single token that all dialects read in the same way, and
# otherwise in the second group. Without these two groups, reading the crawl delay of a file and making the first
# decision on a URL would take 1.25 times as long.
_USER = re.compile(
    rf"user(?<![^\n{WHITE_SPACE}]user)(?:(?<![^\n]user)-agent{WS}:{WS}"
    rf"(?:(\*|[a-z_-]+){WS}(?![^\n#])|([^\n#]*)))?[^\n]*".encode()
).finditer

_UTF_16 = (BOM_UTF16_LE, BOM_UTF16_BE)

_CR_ALONE = re.compile(rb"\r(?!\n)").search


def decoded_text(body: bytes, dialect: Dialect) -> bytes:
    """Return the text of a robots.txt in UTF-8, without a byte order mark, and with LF as the only line end. The text
    is cut at the dialect's size limit. Invalid UTF-8 in *body* remains in the result.

    A browser that fetches a robots.txt wraps the text of the file in an HTML page. If *body* is a page from a browser,
    the result is the text without the HTML.
    """
    limit = dialect.size_limit
    is_cut = len(body) > limit
    if body.startswith(b"<"):
        # Imported here, because few files begin with a "<".
        from scrapy_rep.protocol.robotstxt.pages import shown_text  # noqa: PLC0415

        text = shown_text(body[: limit + 1])
        body = body if text is None else text
    is_utf_16 = dialect.utf_16 and body.startswith(_UTF_16) and _is_utf_16(body[:limit])
    if is_cut:
        # The octet after the limit is kept, because the last line is complete if this octet is a line end.
        body = body[: limit if is_utf_16 else limit + 1]
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
    if CR in body:
        if _CR_ALONE(body):
            return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        # Each CR is part of a CRLF, so it can be deleted. Replacing CRLF by LF would take three times as long.
        return body.replace(b"\r", b"")
    return body


def text_lines(body: bytes, dialect: Dialect) -> list[str]:
    """Return the lines of a robots.txt as text for display. The line with the number *n* has the index
    *n* - 1.
    """
    text = decoded_text(body, dialect).decode("utf-8", "backslashreplace")
    return text.removesuffix("\n").split("\n") if text else []


def _is_utf_16(body: bytes) -> bool:
    """Whether *body*, which begins with a byte order mark of UTF-16, really is UTF-16. Most characters of a
    robots.txt are ASCII, so *body* must contain null bytes where UTF-16 has them for ASCII characters.
    """
    low, high = body[2::2], body[3::2]
    if body.startswith(BOM_UTF16_BE):
        high, low = low, high
    zeros = high.count(0)
    return zeros > max(low.count(0), len(high) // 8)


def lines(body: bytes, dialect: Dialect) -> Iterator[Line]:
    """Yield the lines of a robots.txt that have a field. In a dialect in which blank lines end groups, also
    yield the blank lines, with an empty field.
    """
    for number, field, rest in plain_lines(decoded_text(body, dialect), dialect):
        yield Line(number, field, octets(rest))


def plain_lines(
    text: bytes, dialect: Dialect, first: int = 1, *, to_blank: bool = False
) -> list[PlainLine]:
    """Return the same lines as :func:`lines`, but as tuples (:data:`PlainLine`) whose values are not parsed yet.
    :func:`lines` takes 1.75 times as long.

    *text* is a part of a result of :func:`decoded_text`, and *first* is the number of its first line. If
    *to_blank* is True, the result ends with the first blank line that ends a group.
    """
    usual = {} if _may_be_cut(text, dialect) else _USUAL
    needs_no_colon = dialect.misspelt_fields or dialect.blank_line_ends_group
    lines: list[PlainLine] = []
    for number, raw in enumerate(text.decode("latin-1").split("\n"), first):
        name, colon, rest = raw.partition(":")
        if colon and name in usual:  # True for most lines.
            lines.append((number, usual[name], rest))
        elif colon or needs_no_colon:
            line = _plain_line(number, raw, dialect)
            if line is not None:
                lines.append(line)
                if to_blank and not line[1]:
                    break
    return lines


def user_agent_lines(
    text: bytes, dialect: Dialect
) -> list[tuple[int, tuple[str, ...]]]:
    """Return two values for each user-agent line in *text*: its offset in *text*, and its product tokens. *text* is the
    content of a robots.txt, as :func:`decoded_text` returns it.
    """
    # For speed, lines without the word "user" are skipped without being parsed.
    lowered = text.lower()
    is_plain = not _may_be_cut(text, dialect)
    lines: list[tuple[int, tuple[str, ...]]] = []
    for match in _USER(lowered):
        token, value = match.groups()
        if is_plain and (token or value):
            names = (token.decode(),) if token else agents_of_line(value, dialect)
            lines.append((match.start(), names))
            continue
        start = lowered.rfind(b"\n", 0, match.start()) + 1
        line = read_line(0, lowered[start : match.end()], dialect)
        if line is not None and line.field == USER_AGENT:
            lines.append((start, agents_of_line(line.value, dialect)))
    return lines


def _may_be_cut(text: bytes, dialect: Dialect) -> bool:
    """Whether *text* contains a line that the dialect cuts off, because the line is too long or contains a null
    byte.
    """
    limit = dialect.line_limit
    if limit is not None and len(text) > limit < max(map(len, text.split(b"\n"))):
        return True
    return dialect.nul_ends_line and NUL in text


def octets(rest: str) -> bytes:
    """Return the value of a line, without the comment and the surrounding white space. *rest* is the text
    after the colon, with one character for each octet.
    """
    return rest.partition("#")[0].strip(WHITE_SPACE).encode("latin-1")


def read_line(number: int, raw: bytes, dialect: Dialect) -> Line | None:
    """Parse *raw*, the line with this *number* in a result of :func:`decoded_text`. Return None if the line has no
    field. If it is a blank line, and blank lines end groups in the dialect, return a line with an empty field.
    """
    line = _plain_line(number, raw.decode("latin-1"), dialect)
    return line and Line(number, line[1], octets(line[2]))


def _plain_line(number: int, raw: str, dialect: Dialect) -> PlainLine | None:
    """Find the field and the value in *raw*, the text of the line with this *number*. Return the number, the field, and
    the value, which may still be surrounded by white space. Return None if the line has no field. If it is a blank
    line, and blank lines end groups in the dialect, return a line with an empty field.
    """
    raw = raw[: dialect.line_limit]
    if dialect.nul_ends_line:
        raw = raw.partition("\0")[0]
    content, comment, _ = raw.partition("#")
    name, colon, value = content.partition(":")
    name = name.strip(WHITE_SPACE)
    if colon:
        if name:
            return number, _field(name, dialect), value
    elif name and dialect.misspelt_fields:
        # Two words without a colon are a field and its value. Only spaces and tabs separate words.
        words = [word for word in name.replace("\t", " ").split(" ") if word]
        if len(words) == 2:
            return number, _field(words[0].strip(WHITE_SPACE), dialect), words[1]
    elif dialect.blank_line_ends_group and not name and not comment:
        # A line with only a comment is not a blank line (1994 standard, "The Format").
        return number, "", ""
    return None


def _field(name: str, dialect: Dialect) -> str:
    field = name.encode("latin-1").decode("utf-8", "replace").lower()
    if dialect.misspelt_fields:
        for prefixes, proper in _FIELD_PREFIXES:
            if field.startswith(prefixes):
                return proper
    return field
