"""Finds the ``<meta>`` and ``<link>`` start tags in the bytes of a page, as an HTML parser does.

This is the tokenizer of the HTML Standard (WHATWG, 13.2.5), reduced to what decides whether
bytes are a tag: comments, elements whose content is text, ``<template>``, and attributes
with their quotes. It reads any encoding that extends ASCII, and takes time linear in the
page: no pattern below can match the same byte in two ways, and a search that finds nothing
ends the page.

It does not build a tree. So three things differ from a browser's tree: tags in ``<select>``
and ``<frameset>`` count, which a tree leaves out; and in ``<svg>`` and ``<math>``, text
elements (and CDATA sections) are read as they are outside.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SPACE = rb"[\t\n\f\r ]"

# One plain attribute: without a value, or with a value in quotes or without any quotes in
# it.
_PLAIN_ATTRIBUTE = (
    SPACE + rb"""+[^\t\n\f\r />="'<]+(?:="[^"]*"|='[^']*'|=[^\t\n\f\r "'=<>`]+)?"""
)
# The plain attributes of a tag, at most 50 because a repeated group takes stack, and its
# end.
_PLAIN_REST = rb"(?:" + _PLAIN_ATTRIBUTE + rb"){0,50}" + SPACE + rb"*/?>"

# Either a start or end tag, or else a comment, or a bogus one, such as a doctype, which
# ends at the next ">".
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
    """Return the pattern of a word in upper or lower case.

    The IGNORECASE flag does the same, but makes a search five times as slow, since it
    cannot look for the pattern's first byte.
    """
    letters = [bytes([byte]) for byte in word.lower()]
    return b"".join(
        b"[" + letter + letter.upper() + b"]" if letter.isalpha() else re.escape(letter)
        for letter in letters
    )


# Elements whose content is text. The content of <noscript> is not, as scripts do not run
# here.
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

# Text and plain tags, several at once, up to a tag that matters.
_SKIPPABLE = re.compile(
    rb"(?:[^<]*</?(?!(?:plaintext|template|"
    + b"|".join(_TEXT_ENDS)
    + rb")[\t\n\f\r />])[a-z][a-z0-9-]*" + _PLAIN_REST + rb"){1,50}"
)  # fmt: skip


class StartTag(NamedTuple):
    """A start tag that was looked for."""

    start: int
    """The offset of its ``<``."""
    element: bytes
    """The name of its element, in lower case."""
    attributes: dict[bytes, bytes]
    """Those of its attributes that matter, as written. The first of several with one name
    counts."""


def find_tags(html: bytes, starts: list[int]) -> Iterator[StartTag]:
    """Yield the tags that start at one of the offsets, but in templates.

    The offsets are in ascending order; behind the last of them, the page is not read.
    """
    ahead = iter(starts)
    next_start = next(ahead, -1)
    position = templates = 0
    while position >= 0:
        # Everything up to the next of the offsets can be skipped, even a ``<meta>``.
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


# Each of these returns -1 where the page ends first.


def _comment_end(html: bytes, position: int, proper: bool) -> int:
    """Return the offset behind the comment whose opening ends at the offset."""
    if not proper:
        return html.find(b">", position) + 1 or -1
    for empty in (b">", b"->"):
        if html.startswith(empty, position):
            return position + len(empty)
    match = _COMMENT_END.search(html, position)
    return -1 if match is None else match.end()


def _read_attributes(html: bytes, position: int) -> tuple[dict[bytes, bytes], int]:
    """Read a tag's attributes from the offset; return the offset behind its ``>`` too."""
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
    """Return the offset of a script's end tag, where the script has a comment.

    A start tag of a script inside a comment of a script needs an end tag of its own
    (13.2.5.22 to 13.2.5.31, "script data double escaped").
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
