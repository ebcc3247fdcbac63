"""Finds ``<meta>`` and ``<link>`` start tags in the bytes of a page, as an HTML parser does.

This is the tokenizer of the HTML Standard (WHATWG, 13.2.5), reduced to what decides whether
bytes are a tag: comments, elements whose content is text, ``<template>``, and attributes
with their quotes. It reads any encoding that extends ASCII. Its time is linear in the size
of the page: no pattern below can match the same byte in two ways, and a search without a
result ends the page.

It does not build a tree. So its result differs from a browser's tree: it finds tags in
``<select>`` and ``<frameset>``, and in ``<svg>`` and ``<math>`` it reads text elements and
CDATA sections as it does elsewhere. But there, an element that closes itself, as ``<style/>``,
has no text (13.2.6.5).

lxml cannot replace it: its verdicts depend on the version of libxml2. Before 2.14, which is
newer than what the wheels of lxml for Windows and many Linux distributions have, that finds
tags in ``<textarea>`` and ``<iframe>``, and comments end elsewhere. In all versions
``<title/>`` has no text, and the time for a tree is quadratic in the attributes of a tag.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# One attribute. A value with an opening quote and no closing one matches nothing, and so
# leaves the "=" for the caller to see.
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*([^\t\n\f\r />][^\t\n\f\r />=]*)[\t\n\f\r ]*"""
    rb"""(?:=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'])([^\t\n\f\r >]*)))?"""
)
_ATTRIBUTES = frozenset({b"name", b"content", b"rel", b"href"})
_NAME_END = rb"(?=[\t\n\f\r />])"

# A tag, a comment, or a bogus comment, such as a doctype, which ends at the next ">".
_MARKUP = re.compile(rb"<(?:(/?)([a-z][^\t\n\f\r />]*)|(!--)|[!?/])")
_COMMENT_END = re.compile(rb"--!?>")
# Elements whose content is text. <noscript> is not among them: scripts do not run here.
_TEXT_ENDS = {
    name: re.compile(rb"</" + name + _NAME_END)
    for name in (
        b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title",
        b"xmp",
    )
}  # fmt: skip
# Elements of SVG and MathML, those of their elements in which HTML is read, and the elements
# of HTML that end them (13.2.6.5).
_FOREIGN = frozenset({b"svg", b"math"})
_HTML_IN_FOREIGN = frozenset({
    b"foreignobject", b"desc", b"mi", b"mo", b"mn", b"ms", b"mtext",
})  # fmt: skip
_ENDS_FOREIGN = frozenset(
    b"b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i "
    b"img li listing menu meta nobr ol p pre ruby s small span strong strike sub sup table tt "
    b"u ul var".split()
)
_SCRIPT_MARK = re.compile(rb"(<!--)|(-->)|<(/?)script" + _NAME_END)
# Pieces of text and tags with plain attributes, which can be skipped at once. A repeated group
# takes stack, hence the limits.
_SKIPPABLE = re.compile(
    rb"(?:[^<]*</?(?!(?:math|plaintext|svg|template|"
    + b"|".join(_TEXT_ENDS)
    + rb")[\t\n\f\r />])"
    rb"[a-z][a-z0-9-]*(?:[\t\n\f\r ]+[^\t\n\f\r />=\"'<]+"
    rb"""(?:="[^"]*"|='[^']*'|=[^\t\n\f\r "'=<>`]+)?){0,50}[\t\n\f\r ]*/?>){1,50}"""
)


def attributes(
    html: bytes, position: int, end: int | None = None
) -> tuple[dict[bytes, bytes], int, bool]:
    """Return the attributes of a tag, which begin at *position*; the offset after it, -1 if the
    page, or its part up to *end*, ends first; and whether the tag ends with ``/>``.

    They are its name, content, rel and href, with values as written. Of duplicates, the first
    counts.
    """
    end = len(html) if end is None else end
    values: dict[bytes, bytes] = {}
    while (match := _ATTRIBUTE.match(html, position, end)) is not None:
        name, double, single, bare = match.groups()
        position = match.end()
        if html[position : position + 1] == b"=" and double is single is bare is None:
            return values, -1, False
        if (name := name.lower()) in _ATTRIBUTES:
            values.setdefault(name, double or single or bare or b"")
    after = html.find(b">", position, end) + 1 or -1
    return values, after, html.endswith(b"/>", position, max(after, 0))


def real_tags(
    html: bytes, lowered: bytes, starts: list[int]
) -> Iterator[tuple[int, dict[bytes, bytes]]]:
    """Yield those of the offsets *starts* at which a start tag begins, except in templates, each
    with the attributes of the tag.

    *lowered* is the page in lower case. The offsets must be in ascending order; the page is
    not read after the last one.
    """
    ahead = iter(starts)
    wanted = next(ahead, -1)
    position = templates = 0
    nested: list[bytes] = []
    while position >= 0:
        # Everything before the next offset can be skipped, even a ``<meta>``.
        while 0 <= wanted < position:
            wanted = next(ahead, -1)
        if wanted < 0:
            return
        if not nested and (skipped := _SKIPPABLE.match(lowered, position, wanted)):
            position = skipped.end()
        match = _MARKUP.search(lowered, position)
        if match is None or match.start() > starts[-1]:
            return
        closing, name, comment = match.groups()
        position = match.end()
        if name is None:
            position = _comment_end(lowered, position, comment is not None)
            continue
        values, position, closes_itself = attributes(html, position)
        if position < 0 or (name == b"plaintext" and not closing):
            return
        if nested or name in _FOREIGN:
            _nest(nested, name, closing=bool(closing), closes_itself=closes_itself)
        is_empty = closes_itself and _is_foreign(nested)
        if match.start() == wanted and not templates:
            yield wanted, values
        elif name == b"template" and not is_empty:
            templates = max(0, templates - 1) if closing else templates + 1
        elif name in _TEXT_ENDS and not closing and not is_empty:
            position = _text_end(lowered, position, name)


def _is_foreign(nested: list[bytes]) -> bool:
    """Whether an element inside these is one of SVG or MathML."""
    return bool(nested) and nested[-1] in _FOREIGN


def _nest(
    nested: list[bytes], name: bytes, *, closing: bool, closes_itself: bool
) -> None:
    """Note the tag of an element in *nested*: the open elements of SVG and MathML, and those in
    them in which HTML is read.
    """
    if closing:
        if nested[-1:] == [name]:
            nested.pop()
    elif name in _ENDS_FOREIGN:
        while _is_foreign(nested):
            nested.pop()
    elif closes_itself:
        pass
    elif name in _FOREIGN or (name in _HTML_IN_FOREIGN and _is_foreign(nested)):
        nested.append(name)


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
