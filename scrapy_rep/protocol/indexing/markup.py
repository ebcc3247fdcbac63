"""Finds ``<meta>`` and ``<link>`` start tags in the bytes of a page, as an HTML parser does.

This is the tokenizer of the HTML Standard (WHATWG, 13.2.5), reduced to what decides whether
bytes are a tag: comments, elements whose content is text, ``<template>``, and attributes
with their quotes. It reads any encoding that extends ASCII. Its time is linear in the size
of the page: no pattern below can match the same byte in two ways, and a search without a
result ends the page.

It does not build a tree. So its result differs from a browser's tree: it finds tags in
``<select>`` and ``<frameset>``, and in ``<svg>`` and ``<math>`` it reads text elements and
CDATA sections as it does elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACE = rb"[\t\n\f\r ]"

# One plain attribute: without a value, with a value in quotes, or with one that has no quotes.
_PLAIN_ATTRIBUTE = (
    SPACE + rb"""+[^\t\n\f\r />="'<]+(?:="[^"]*"|='[^']*'|=[^\t\n\f\r "'=<>`]+)?"""
)
# The plain attributes of a tag and its end. A repeated group takes stack, hence the limit.
_PLAIN_REST = rb"(?:" + _PLAIN_ATTRIBUTE + rb"){0,50}" + SPACE + rb"*/?>"

# A start tag, an end tag, a comment, or a bogus comment, such as a doctype, which ends at the
# next ">".
_MARKUP = re.compile(
    rb"<(?:(/)?([a-zA-Z][^\t\n\f\r />]*)(" + _PLAIN_REST + rb")?|(!--)|[!?/])"
)
_COMMENT_END = re.compile(rb"--!?>")
_ATTRIBUTE = re.compile(
    rb"[\t\n\f\r /]*([^\t\n\f\r />][^\t\n\f\r />=]*)[\t\n\f\r ]*(=[\t\n\f\r ]*)?"
)
_UNQUOTED = re.compile(rb"[^\t\n\f\r >]*")
_ATTRIBUTES = frozenset({b"name", b"content", b"rel", b"href"})


def any_case(word: bytes) -> bytes:
    """Return a pattern for *word* in upper or lower case.

    A search with IGNORECASE takes five times as long, because it cannot look for the first
    byte of the pattern.
    """
    letters = [bytes([byte]) for byte in word.lower()]
    return b"".join(
        b"[" + letter + letter.upper() + b"]" if letter.isalpha() else re.escape(letter)
        for letter in letters
    )


# Elements whose content is text. <noscript> is not among them: scripts do not run here.
_TEXT_ENDS = {
    name: re.compile(rb"</" + any_case(name) + rb"(?=[\t\n\f\r />])")
    for name in (
        b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title",
        b"xmp",
    )
}  # fmt: skip
_SCRIPT_MARK = re.compile(
    rb"(<!--)|(-->)|<(/?)" + any_case(b"script") + rb"(?=[\t\n\f\r />])"
)

# Several pieces of text and plain tags that can be skipped at once.
_SKIPPABLE = re.compile(
    rb"(?:[^<]*</?(?!(?:plaintext|template|"
    + b"|".join(_TEXT_ENDS)
    + rb")[\t\n\f\r />])[a-z][a-z0-9-]*" + _PLAIN_REST + rb"){1,50}"
)  # fmt: skip


class StartTag(NamedTuple):
    """A start tag that :func:`find_tags` found."""

    start: int
    """The offset of its ``<``."""
    element: bytes
    """The name of its element, in lower case."""
    attributes: dict[bytes, bytes]
    """Its name, content, rel and href attributes, as written. Of duplicates, the first."""


def find_tags(html: bytes, starts: list[int]) -> Iterator[StartTag]:
    """Yield the tags that start at one of the offsets *starts*, except in templates.

    The offsets must be in ascending order. The page is not read after the last one.
    """
    ahead = iter(starts)
    next_start = next(ahead, -1)
    position = templates = 0
    while position >= 0:
        # Everything before the next offset can be skipped, even a ``<meta>``.
        while 0 <= next_start < position:
            next_start = next(ahead, -1)
        if next_start < 0:
            return
        if (skipped := _SKIPPABLE.match(html, position, next_start)) is not None:
            position = skipped.end()
        match = _MARKUP.search(html, position)
        if match is None or match.start() > starts[-1]:
            return
        closing, name, plain, comment = match.groups()
        position = match.end()
        if name is None:
            position = _comment_end(html, position, comment is not None)
            continue
        name = name.lower()
        if match.start() == next_start:
            attributes, position = _read_attributes(html, match.end(2))
            if not templates and position >= 0:
                yield StartTag(match.start(), name, attributes)
            continue
        if plain is None:
            _, position = _read_attributes(html, position)
        if position < 0 or name == b"plaintext":
            return
        if name == b"template":
            templates = max(0, templates - 1) if closing else templates + 1
        elif name in _TEXT_ENDS and not closing:
            position = _text_end(html, position, name)


# Each of these functions returns -1 as the offset if the page ends first.


def _comment_end(html: bytes, position: int, proper: bool) -> int:
    """Return the offset after the comment whose opening ends at *position*."""
    if not proper:
        return html.find(b">", position) + 1 or -1
    for empty in (b">", b"->"):
        if html.startswith(empty, position):
            return position + len(empty)
    match = _COMMENT_END.search(html, position)
    return -1 if match is None else match.end()


def _read_attributes(html: bytes, position: int) -> tuple[dict[bytes, bytes], int]:
    """Return the attributes of a tag, which begin at *position*, and the offset after it."""
    values: dict[bytes, bytes] = {}
    while (match := _ATTRIBUTE.match(html, position)) is not None:
        position = match.end()
        value = b""
        if match[2] is not None:
            quote = html[position : position + 1]
            if quote in {b'"', b"'"}:
                end = html.find(quote, position + 1)
                if end < 0:
                    return values, -1
                value = html[position + 1 : end]
                position = end + 1
            elif (unquoted := _UNQUOTED.match(html, position)) is not None:
                value = unquoted[0]
                position = unquoted.end()
        attribute = match[1].lower()
        if attribute in _ATTRIBUTES:
            values.setdefault(attribute, value)
    return values, html.find(b">", position) + 1 or -1


def _text_end(html: bytes, position: int, name: bytes) -> int:
    """Return the offset of the end tag of an element whose content is text."""
    match = _TEXT_ENDS[name].search(html, position)
    if match is None:
        return -1
    if name == b"script" and html.find(b"<!--", position, match.start()) >= 0:
        return _script_end(html, position)
    return match.start()


def _script_end(html: bytes, position: int) -> int:
    """Return the offset of the end tag of a script that has a comment.

    A ``<script>`` inside the comment needs an end tag of its own (13.2.5.22 to 13.2.5.31,
    "script data double escaped").
    """
    escaped = nested = False
    while (match := _SCRIPT_MARK.search(html, position)) is not None:
        opens, closes, slash = match.groups()
        position = match.end()
        if opens:
            escaped = True
            position -= 2  # "<!-->" is a whole comment
        elif closes:
            escaped = nested = False
        elif not slash:
            nested = escaped
        elif nested:
            nested = False
        else:
            return match.start()
    return -1
