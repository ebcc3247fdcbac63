"""Reads the robots meta tags and the usage tags in the bytes of a page, as an HTML parser does.

Most pages have neither: if no ``<meta`` in a page has one of the names, the page is not read further.
Otherwise the tokenizer reads the page up to the last ``<meta`` with such a name, to see which of them
are tags, and not part of a comment or a script.

The tokenizer is that of the HTML Standard (WHATWG, 13.2.5), reduced to the states that decide whether
bytes are a ``<meta>`` or ``<link>`` tag: comments, elements that contain only text, ``<template>``,
and attributes with their quotes. It reads any encoding that extends ASCII. Its time is linear in
the size of the page: no expression below can match a byte in two ways, and a search without a
result ends the page.

The tokenizer does not build a tree. So it finds tags in ``<select>`` and ``<frameset>`` that a browser
leaves out of its tree. In ``<svg>`` and ``<math>``, it reads text elements and CDATA sections as
elsewhere. But there, an element that closes itself, such as ``<style/>``, has no text, and
``<template>`` is an element like any other (13.2.6.5).

lxml cannot replace the tokenizer, because its results depend on the version of libxml2. Versions before
2.14, which the wheels of lxml for Windows and many Linux distributions have, find tags in
``<textarea>`` and ``<iframe>``, and differ in where a comment ends. In all versions, ``<title/>`` has no
text, and the time to build a tree is quadratic in the number of attributes of a tag.
"""

from __future__ import annotations

import re
from functools import cached_property
from html import unescape
from typing import TYPE_CHECKING

from w3lib.encoding import html_body_declared_encoding, read_bom, resolve_encoding

from scrapy_rep.protocol.indexing.statements import (
    MAX_PAGE,
    MAX_STATEMENTS,
    MAX_TEXT,
    USAGE_TAGS,
    Tag,
)
from scrapy_rep.protocol.text import ESCAPE, NUL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.protocol.indexing.statements import Location, StatementReader


# Matches an attribute. If its value has no closing quote, the match ends before the "=".
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*([^\t\n\f\r />][^\t\n\f\r />=]*)[\t\n\f\r ]*"""
    rb"""(?:=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'])([^\t\n\f\r >]*)))?"""
)
_ATTRIBUTES = frozenset({b"name", b"content", b"rel", b"href"})
_NAME_END = rb"(?=[\t\n\f\r />])"

# Matches the beginning of a tag, of a comment, or of a construct that ends at the next ">" whatever it
# contains, such as a doctype.
_MARKUP = re.compile(rb"<(?:(/?)([a-z][^\t\n\f\r />]*)|(!--)|[!?/])")
_COMMENT_END = re.compile(rb"--!?>")
# The elements that contain only text, with an expression for their end. Since the crawler does not run
# scripts, <noscript> is not one of them.
_TEXT_ENDS = {
    name: re.compile(rb"</" + name + _NAME_END)
    for name in (
        b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title",
        b"xmp",
    )
}  # fmt: skip
# The roots of SVG and MathML; the elements in them that contain HTML; and the elements of HTML that end
# an SVG or MathML (13.2.6.5).
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
# Matches a run of text and of tags with plain attributes, which the tokenizer skips in one step. The
# repetitions are limited because each takes space on the stack.
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
    """Read the attributes of a tag. Return their values, the offset after the tag, and whether the tag
    ends with ``/>``.

    Only name, content, rel and href are returned, with their values as written; of duplicates, the
    first counts. *position* is the offset after the name of the tag. The returned offset is -1 if
    the page, or its part up to *end*, ends within the tag.
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
    """Yield the offsets in *starts* at which there is a start tag outside of templates, with the
    attributes of the tag. The other offsets are in comments, scripts or other text.

    *lowered* is the page in lower case. The offsets must be in ascending order; the page is
    not read beyond the last of them.
    """
    ahead = iter(starts)
    next_start = next(ahead, -1)
    position = 0
    opened = _OpenElements()
    while position >= 0:
        # Offsets before this position are within a comment, a text or another tag.
        while 0 <= next_start < position:
            next_start = next(ahead, -1)
        if next_start < 0:
            return
        if not opened.foreign and (
            skipped := _SKIPPABLE.match(lowered, position, next_start)
        ):
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
        opened.note(name, is_end=bool(closing), closes_itself=closes_itself)
        is_empty = closes_itself and opened.is_in_foreign
        if match.start() == next_start and not opened.templates:
            yield next_start, values
        elif name in _TEXT_ENDS and not closing and not is_empty:
            position = _text_end(lowered, position, name)


class _OpenElements:
    """The open elements in which a tag may not count, or is read differently: templates, SVG and MathML."""

    __slots__ = ("_foreign_templates", "foreign", "templates")

    def __init__(self) -> None:
        self.foreign: list[bytes] = []
        """The open roots of SVG and MathML, and the open elements in them that contain HTML."""

        self.templates: list[int] = []
        """For each open template, how many elements of ``foreign`` were open when it began."""

        self._foreign_templates = 0
        """How many elements with the name ``template`` are open in the innermost SVG or MathML, where
        such an element is not a template."""

    @property
    def is_in_foreign(self) -> bool:
        """Whether the next element belongs to SVG or MathML, and not to HTML."""
        return bool(self.foreign) and self.foreign[-1] in _FOREIGN

    def note(self, name: bytes, *, is_end: bool, closes_itself: bool) -> None:
        """Update the open elements for the start tag or end tag of an element *name*."""
        if self.foreign or name in _FOREIGN:
            depth = len(self.foreign)
            self._note_foreign(name, is_end=is_end, closes_itself=closes_itself)
            if len(self.foreign) != depth:
                self._foreign_templates = 0
        if name == b"template":
            self._note_template(is_end=is_end, closes_itself=closes_itself)

    def _note_foreign(self, name: bytes, *, is_end: bool, closes_itself: bool) -> None:
        foreign = self.foreign
        if is_end and foreign[-1:] == [name]:
            foreign.pop()
        elif name in _ENDS_FOREIGN:
            # Both the start tag and the end tag of an element in _ENDS_FOREIGN end all SVG and MathML
            # around it.
            while self.is_in_foreign:
                foreign.pop()
        elif is_end or closes_itself:
            pass
        elif name in _FOREIGN or (name in _HTML_IN_FOREIGN and self.is_in_foreign):
            foreign.append(name)

    def _note_template(self, *, is_end: bool, closes_itself: bool) -> None:
        if self.is_in_foreign and not is_end:
            self._foreign_templates += not closes_itself
        elif self.is_in_foreign and self._foreign_templates:
            self._foreign_templates -= 1
        elif not is_end:
            self.templates.append(len(self.foreign))
        elif self.templates:
            # The end of a template also ends SVG and MathML in the template.
            del self.foreign[self.templates.pop() :]


# Each of these functions returns -1 if the page ends before the offset that it looks for.


def _comment_end(html: bytes, position: int, is_comment: bool) -> int:
    """Return the offset after a comment, which begins with ``<!--`` before *position*. If it is not a
    real comment, but a doctype or the like, return the offset after the next ``>``.
    """
    if not is_comment:
        return html.find(b">", position) + 1 or -1
    for empty in (b">", b"->"):
        if html.startswith(empty, position):
            return position + len(empty)
    match = _COMMENT_END.search(html, position)
    return -1 if match is None else match.end()


def _text_end(html: bytes, position: int, name: bytes) -> int:
    """Return the offset of the end tag of an element that contains only text."""
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
            position -= 2  # "<!-->" is a complete comment.
        elif closes:
            escaped = nested = False
        elif not slash:
            nested = escaped
        elif nested:
            nested = False
        else:
            return match.start()
    return -1


_EVERYONE = "robots"
_FOR_EVERYONE = frozenset({_EVERYONE, *USAGE_TAGS})
_MISSPELT = "robot"
_SPACES = "\t\n\f\r "

# Matches a word. If a colon follows, even with white space around it, the first word of the value too.
_WORD = re.compile(r"[^\s,:]+(?:\s*:\s*[^\s,]*)?")

_ANGLE_BRACKET = re.compile(rb"[<>]")
"""Finds characters that a statement never has: content with such a character has no closing quote."""

_PLAIN = re.compile(
    rb'<meta(?:[\t\n\f\r ]+(?:charset|content|http-equiv|itemprop|property)="[^"]{0,1000}")'
    rb'{0,5}[\t\n\f\r ]*(?:[\t\n\f\r ]name="([^"&]{0,100})"|/?>)'
)
"""Matches a common ``<meta`` in lower case, up to its name, or up to its end if it has no name."""

_AFTER_NAME = frozenset({b"\t", b"\n", b"\f", b"\r", b" ", b"/"})
"""The bytes that may follow the name of an element."""
_MAX_GLANCES = 500
"""The number of ``<meta`` in a page that are checked for their name before the tokenizer reads the page.
The tokenizer checks all others."""
_MAX_GLANCE = 2_000
"""The number of bytes of a ``<meta`` that are read to find its name."""

_MAX_ROBOTS_TAGS = MAX_STATEMENTS
"""The number of robots meta tags of a page that are read, with or without a statement."""
_MAX_VALUE = 4_096
"""The number of bytes of the content of a usage tag that are read."""

_WIDE = re.compile("utf-(?:16|32)(?:-[bl]e)?")
_NARROW = re.compile(
    r"utf-8|ascii|cp(?:125\d|866|874|932|949)|iso8859-\d+|koi8-\w|mac-\w+|gb18030|"
    r"big5\w*|euc_\w+|shift_jis\w*|iso2022_\w+"
)
"""Matches the Python names of the encodings of the Web. Pages do not use Python's other codecs, and some
of those, such as punycode, take more than linear time."""


def read_page(
    html: bytes, agents: frozenset[str], encoding: str | None, reader: StatementReader
) -> None:
    """Read a page, and add its statements and usage tags to *reader*. Only the first :data:`MAX_PAGE`
    bytes of the page are read.

    *agents* are the product tokens of the crawler, in lower case: statements count if they are
    addressed to one of these or to everyone. *encoding* is that of the HTTP header, if any.
    """
    if len(html) > MAX_PAGE:
        message = (
            f"the crawler reads {MAX_PAGE} of {len(html)} bytes of the page: meta tags "
            "behind these have no effect"
        )
        html = html[:MAX_PAGE]
        end: Location = "meta", None, html.count(b"\n") + 1
        reader.add_finding("page-too-long", message, end)
    # In UTF-16 and UTF-32, markup has null bytes; ISO-2022 has escapes. To search for these two bytes
    # takes less time than to determine the encoding.
    if NUL in html or ESCAPE in html:
        codec = _codec(html, encoding)
        if codec.startswith(("utf-16", "utf-32", "iso2022")):
            # The tokenizer needs an encoding that extends ASCII.
            html = html.decode(codec, "replace").encode("utf-8", "replace")
            encoding = "utf-8"
    names = _FOR_EVERYONE | agents
    decoder = _TagText(html, encoding)
    lowered = html.lower()
    starts = _candidates(html, lowered, names | {_MISSPELT})
    line, before, robots_tags = 1, 0, 0
    for start, values in real_tags(html, lowered, starts) if starts else ():
        if reader.is_full:
            return
        # CR LF ends one line.
        line += html.count(b"\n", before, start) + html.count(b"\r", before, start)
        line -= html.count(b"\r\n", before, start)
        before = start
        written = _name(values)
        name, content = written.lower(), values.get(b"content")
        is_link = html[start + 1 : start + 2] in b"Ll"
        if is_link:
            if b"license" not in values.get(b"rel", b"").lower().split():
                continue
            name, content = "license", values.get(b"href")
        if is_link or name in USAGE_TAGS:
            if content is not None:
                text = decoder.text(content[:_MAX_VALUE]).strip(_SPACES)
                reader.add_tag(Tag(name, text, line))
        elif name in names:
            agent = None if name == _EVERYONE else written
            location: Location = "meta", agent, line
            robots_tags += 1
            if robots_tags > _MAX_ROBOTS_TAGS:
                message = f"the crawler reads only {_MAX_ROBOTS_TAGS} robots meta tags"
                reader.add_finding("too-many", message, location)
                return
            text = decoder.text(_checked(content, location, reader))
            spans = [word.span() for word in _WORD.finditer(text)]
            reader.read(location, text, spans)
        elif name == _MISSPELT:
            message = (
                "the name of the meta tag is robot: it has no effect; write robots"
            )
            reader.add_finding("misspelt-tag", message, ("meta", None, line))


def _candidates(html: bytes, lowered: bytes, names: frozenset[str]) -> list[int]:
    """Return the offsets, in ascending order, at which there may be a robots meta tag or a usage tag.

    These are the offsets of each ``<meta`` with one of *names*, of each ``<meta`` beyond the limits
    for this check, and, if the head of the page has the word "license", of each ``<link`` there.
    """
    metas = _offsets(lowered, b"<meta", len(lowered))
    starts = [
        at for at in metas[:_MAX_GLANCES] if _may_be_ours(html, lowered, at, names)
    ]
    starts += metas[_MAX_GLANCES:]
    # Licences do not decide anything, so it is enough to search the head for them.
    body = lowered.find(b"<body")
    head = len(lowered) if body < 0 else body
    if lowered.find(b"license", 0, head) >= 0:
        starts = sorted(starts + _offsets(lowered, b"<link", head))
    return starts


def _offsets(lowered: bytes, tag: bytes, end: int) -> list[int]:
    """Return the offsets before *end* at which *tag* (``<meta`` or ``<link``) begins in a page in lower case. A
    longer name, such as ``<metadata``, does not count.
    """
    offsets = []
    at = lowered.rfind(tag, 0, end)
    while at >= 0:
        if lowered[at + len(tag) : at + len(tag) + 1] in _AFTER_NAME:
            offsets.append(at)
        at = lowered.rfind(tag, 0, at)
    return offsets[::-1]


def _may_be_ours(
    html: bytes, lowered: bytes, start: int, names: frozenset[str]
) -> bool:
    """Whether the ``<meta`` at the offset *start* may be a tag with one of *names*."""
    if (plain := _PLAIN.match(lowered, start)) is not None:
        return (plain[1] or b"").decode("ascii", "replace").strip(_SPACES) in names
    values, end, _ = attributes(html, start + len(b"<meta"), start + _MAX_GLANCE)
    return end < 0 or _name(values).lower() in names


def _name(values: dict[bytes, bytes]) -> str:
    written = values.get(b"name", b"").decode("ascii", "replace")
    return _unescape(written).strip(_SPACES)


def _checked(
    content: bytes | None, location: Location, reader: StatementReader
) -> bytes:
    """Return the part of the *content* of a robots meta tag that has an effect. Add a finding to *reader*
    if some or all of the content has no effect.
    """
    if content is None:
        message = "the meta tag has no content attribute: it has no effect"
        reader.add_finding("no-content", message, location)
        return b""
    if (mark := _ANGLE_BRACKET.search(content)) is not None:
        message = "the content has no closing quote: only its first part counts"
        reader.add_finding("unclosed-quote", message, location)
        content = content[: mark.start()]
    if len(content) > MAX_TEXT:
        message = f"the crawler reads only {MAX_TEXT} of {len(content)} bytes"
        reader.add_finding("too-long", message, location)
    return content[:MAX_TEXT]


class _TagText:
    """Decodes the content of the tags of a page. It determines the encoding of the page when a tag with
    other characters than ASCII needs it.
    """

    def __init__(self, html: bytes, encoding: str | None) -> None:
        self._html = html
        self._encoding = encoding

    @cached_property
    def _codec(self) -> str:
        return _codec(self._html, self._encoding)

    def text(self, content: bytes) -> str:
        """Return the *content* of a tag of the page as text."""
        codec = "ascii" if content.isascii() else self._codec
        return _unescape(content.decode(codec, "replace"))


def _unescape(text: str) -> str:
    """Return *text* with its character references (``&amp;``) decoded."""
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except (
        ValueError
    ):  # The number of a reference has more digits than Python converts.
        return text


def _codec(html: bytes, encoding: str | None) -> str:
    """Return the name of Python's codec for a page: UTF-16 or UTF-32 only if the page has null bytes."""
    bom, _ = read_bom(html)
    declared = resolve_encoding(encoding) if encoding else None
    is_little = html.startswith(b"<\0") and html[3:4] == b"\0"
    guessed = "utf-16" if is_little or html.startswith(b"\0<\0") else ""
    wide = bom or declared or guessed
    if NUL in html and _WIDE.fullmatch(wide):
        if wide in {"utf-16", "utf-32"}:
            # By default, the Encoding Standard takes little-endian. The first byte may show big-endian.
            wide += "-be" if html.startswith(b"\0") else "-le"
        return wide
    for codec in (bom, declared, html_body_declared_encoding(html)):
        if codec is not None and _NARROW.fullmatch(codec) is not None:
            return codec
    return "utf-8"
