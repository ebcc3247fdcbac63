"""Finds the robots meta tags and the usage tags in a page, and parses them.

Usage tags are the tags that state usage preferences: ``<meta>`` tags with the name ``tdm-reservation`` or
``tdm-policy``, and ``<link rel="license">``.

Most pages contain none of these tags. A fast search finds the offsets in the page at which such a tag
might begin. If the search finds any, a tokenizer reads the page up to the last of these offsets. It
determines at which of these offsets a real tag begins. Text in a comment or a script is not a real tag.

The tokenizer is that of the HTML Standard (WHATWG, 13.2.5), reduced to the states that determine whether
bytes are a ``<meta>`` or ``<link>`` tag: comments, elements that contain only text, ``<template>``,
and attributes with their quotes. It accepts any encoding that extends ASCII. Its time is linear in
the size of the page, for two reasons. No regular expression below has two ways to match the same text. And the
tokenizer stops at the first comment, text element or tag that has no end, so that it does not search the rest
of the page again.

The tokenizer does not build a tree. So it finds tags in ``<select>`` and ``<frameset>`` that a browser
would leave out of its tree. In ``<svg>`` and ``<math>``, it treats text elements and CDATA sections as in
the rest of the page, with two exceptions (13.2.6.5): a self-closing element, such as ``<style/>``,
contains no text, and ``<template>`` is an element like any other.

lxml cannot replace the tokenizer, because the results of lxml depend on the version of libxml2. Versions
before 2.14 find tags in ``<textarea>`` and ``<iframe>``, and not all of these versions end a comment where
the standard does. The lxml wheels for Windows and many Linux distributions contain such versions. Two
faults are in all versions: the time to build a tree is quadratic in the number of attributes of a tag,
and ``<title/>`` is an element without text. In the standard, the slash has no effect, so that the text of
``<title/>`` continues up to ``</title>``, and a tag in this text is not a real tag.
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


# Matches an attribute. If the value has no closing quote, the match ends before the "=".
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*([^\t\n\f\r />][^\t\n\f\r />=]*)[\t\n\f\r ]*"""
    rb"""(?:=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|(?!["'])([^\t\n\f\r >]*)))?"""
)
_ATTRIBUTES = frozenset({b"name", b"content", b"rel", b"href"})
_NAME_END = rb"(?=[\t\n\f\r />])"

# Matches the start of a tag, of a comment, or of another construct, such as a doctype, which ends at the next ">".
_MARKUP = re.compile(rb"<(?:(/?)([a-z][^\t\n\f\r />]*)|(!--)|[!?/])")
_COMMENT_END = re.compile(rb"--!?>")
# The elements that contain only text, each with an expression for its end tag. <noscript> is not included, because it
# contains elements if scripts are not run, and crawlers do not run scripts.
_TEXT_ENDS = {
    name: re.compile(rb"</" + name + _NAME_END)
    for name in (
        b"iframe", b"noembed", b"noframes", b"script", b"style", b"textarea", b"title",
        b"xmp",
    )
}  # fmt: skip
# Three sets of element names (HTML Standard, 13.2.6.5): the root elements of SVG and MathML; the elements in SVG and
# MathML whose content is HTML (integration points); and the HTML elements whose tags close all open elements of SVG and
# MathML.
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
# Matches a sequence of text and of tags with simple attributes. The tokenizer skips the sequence in one step. The
# numbers of repetitions are limited, because each repetition takes space on the stack.
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
    """Parse the attributes of a tag. Return a dict of the attributes, the offset after the tag, and whether the
    tag ends with ``/>``.

    The dict contains only the attributes name, content, rel and href, with their values as written. If an
    attribute appears twice, the first value counts.

    *position* is the offset after the name of the tag. *html* is read up to the offset *end*, or completely
    if *end* is None. If the tag does not end in this part, the returned offset is -1.
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
    """Yield each offset in *starts* at which a start tag begins, with the attributes of the tag. Offsets within
    comments, scripts or other text are left out, and so are tags in templates.

    *lowered* is the page *html* in lower case. *starts* must be in ascending order. The page is not read
    beyond the last of these offsets.
    """
    ahead = iter(starts)
    next_start = next(ahead, -1)
    position = 0
    opened = _OpenElements()
    while position >= 0:
        # Skip the offsets before the current position. They are within a comment, a text element or another tag.
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
    """The open templates, SVG and MathML elements at a position in a page. Tags in templates are ignored, and
    tags in SVG and MathML are tokenized differently.
    """

    __slots__ = ("_foreign_templates", "foreign", "templates")

    def __init__(self) -> None:
        self.foreign: list[bytes] = []
        """The names of the open elements that switch between HTML and SVG or MathML: ``svg`` and ``math``, and
        the elements inside them whose content is HTML again, such as ``foreignobject``. The innermost element is
        the last."""

        self.templates: list[int] = []
        """For each open template, the number of items in ``foreign`` when the template began."""

        self._foreign_templates = 0
        """The number of open elements with the name ``template`` in the innermost SVG or MathML element. In SVG
        and MathML, an element with this name is not a template."""

    @property
    def is_in_foreign(self) -> bool:
        """Whether the next element belongs to SVG or MathML instead of HTML."""
        return bool(self.foreign) and self.foreign[-1] in _FOREIGN

    def note(self, name: bytes, *, is_end: bool, closes_itself: bool) -> None:
        """Update the lists of open elements after the tokenizer has read a tag of the element *name*. *is_end* is
        whether this is an end tag, and *closes_itself* is whether the tag ends with ``/>``.
        """
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
            # This start tag or end tag closes the open SVG and MathML elements, but not the innermost open integration
            # point, such as <foreignObject>, nor the elements outside it.
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
            # The end tag of a template also ends the SVG and MathML elements that were opened in the template.
            del self.foreign[self.templates.pop() :]


# The following three functions return -1 if the comment, doctype or text does not end within the page.


def _comment_end(html: bytes, position: int, is_comment: bool) -> int:
    """Return the offset after a comment, or after a doctype or similar markup that ends at the next ``>``.

    If *is_comment* is True, *position* is the offset after the ``<!--`` of the comment. Otherwise, *position* is the
    offset after the ``<!``, ``<?`` or ``</`` at the start of the markup.
    """
    if not is_comment:
        return html.find(b">", position) + 1 or -1
    for empty in (b">", b"->"):
        if html.startswith(empty, position):
            return position + len(empty)
    match = _COMMENT_END.search(html, position)
    return -1 if match is None else match.end()


def _text_end(html: bytes, position: int, name: bytes) -> int:
    """Return the offset of the end tag of the element *name*, whose text begins at *position*."""
    match = _TEXT_ENDS[name].search(html, position)
    if match is None:
        return -1
    if name == b"script" and html.find(b"<!--", position, match.start()) >= 0:
        return _script_end(html, position)
    return match.start()


def _script_end(html: bytes, position: int) -> int:
    """Return the offset of the end tag of a script that contains a comment. The text of the script begins at
    *position*.

    Each ``<script>`` inside the comment has its own end tag, which does not end the outer script
    (HTML Standard, 13.2.5.22 to 13.2.5.31, "script data double escaped").
    """
    escaped = nested = False
    while (match := _SCRIPT_MARK.search(html, position)) is not None:
        opens, closes, slash = match.groups()
        position = match.end()
        if opens:
            escaped = True
            position -= (
                2  # So that "-->" is found in "<!-->", which is a complete comment.
            )
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

# Matches a word. If a colon follows the word, the match includes the colon and the next word, and white space around
# the colon.
_WORD = re.compile(r"[^\s,:]+(?:\s*:\s*[^\s,]*)?")

_ANGLE_BRACKET = re.compile(rb"[<>]")
"""Finds a ``<`` or ``>``. No statement contains these characters. If the attribute ``content`` of a tag contains one,
the closing quote of the attribute is missing, so the value includes markup that follows the tag."""

_PLAIN = re.compile(
    rb'<meta(?:[\t\n\f\r ]+(?:charset|content|http-equiv|itemprop|property)="[^"]{0,1000}")'
    rb'{0,5}[\t\n\f\r ]*(?:[\t\n\f\r ]name="([^"&]{0,100})"|/?>)'
)
"""Matches a ``<meta`` tag in a page in lower case, up to the end of the attribute ``name``. If the tag has no attribute
``name``, the match extends to the end of the tag. Only tags in the usual form match: ``name`` and the attributes before
it are in double quotes, and these attributes are common ones."""

_AFTER_NAME = frozenset({b"\t", b"\n", b"\f", b"\r", b" ", b"/"})
"""The bytes that may follow ``<meta`` or ``<link`` in a tag with attributes."""
_MAX_NAMES_CHECKED = 500
"""The fast search checks the attribute ``name`` of at most this number of ``<meta`` tags in a page. Further ``<meta``
tags are left to the tokenizer, which is slower."""
_MAX_BYTES_CHECKED = 2_000
"""If a ``<meta`` tag does not match :data:`_PLAIN`, the fast search parses at most this number of its bytes to find the
attribute ``name``. A longer tag is left to the tokenizer, which is slower."""

_MAX_ROBOTS_TAGS = MAX_STATEMENTS
"""The maximum number of robots meta tags of a page that are read, including tags without a statement."""
_MAX_VALUE = 4_096
"""The maximum number of bytes that are read of the content of a usage tag, such as ``<meta name="tdm-policy">``."""

_WIDE = re.compile("utf-(?:16|32)(?:-[bl]e)?")
_NARROW = re.compile(
    r"utf-8|ascii|cp(?:125\d|866|874|932|949)|iso8859-\d+|koi8-\w|mac-\w+|gb18030|"
    r"big5\w*|euc_\w+|shift_jis\w*|iso2022_\w+"
)
"""Matches the Python names of the encodings that are used on the Web, without UTF-16 and UTF-32. Other codecs of Python
are not used, because some, such as punycode, take more than linear time."""


def read_page(
    html: bytes, agents: frozenset[str], encoding: str | None, reader: StatementReader
) -> None:
    """Parse the robots meta tags and the usage tags of a page. Add the indexing statements, the usage tags and the
    findings about mistakes to *reader*. Only the first :data:`MAX_PAGE` bytes of the page are read.

    *agents* are the crawler's product tokens, in lower case. Only statements that are addressed to one of
    *agents*, or to everyone, are added. *encoding* is the encoding in the ``Content-Type`` header, if any.
    """
    if len(html) > MAX_PAGE:
        message = (
            f"the crawler reads only the first {MAX_PAGE} of {len(html)} bytes of the page: "
            "later meta tags have no effect"
        )
        html = html[:MAX_PAGE]
        end: Location = "meta", None, html.count(b"\n") + 1
        reader.add_finding("page-too-long", message, end)
    # Markup in UTF-16 and UTF-32 contains null bytes, and text in ISO-2022 contains escapes. To search for these two
    # bytes takes less time than to determine the encoding.
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
        # LF, CR, and CR LF each end one line.
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
                message = f"the crawler reads only the first {_MAX_ROBOTS_TAGS} robots meta tags"
                reader.add_finding("too-many", message, location)
                return
            text = decoder.text(_checked(content, location, reader))
            spans = [word.span() for word in _WORD.finditer(text)]
            reader.read(location, text, spans)
        elif name == _MISSPELT:
            message = 'a meta tag with the name "robot" has no effect: write "robots"'
            reader.add_finding("misspelt-tag", message, ("meta", None, line))


def _candidates(html: bytes, lowered: bytes, names: frozenset[str]) -> list[int]:
    """Return the offsets at which a robots meta tag or a usage tag might begin, in ascending order. *lowered* is the
    page *html* in lower case.

    The result contains the offsets of all ``<meta`` tags whose attribute ``name`` is one of *names*. It also
    contains the offsets of the ``<meta`` tags whose ``name`` is not checked, because the tag is too long or the
    page has too many ``<meta`` tags. If the head of the page contains the word "license", the result contains
    the offsets of the ``<link`` tags in the head too.
    """
    metas = _offsets(lowered, b"<meta", len(lowered))
    starts = [
        at
        for at in metas[:_MAX_NAMES_CHECKED]
        if _may_be_ours(html, lowered, at, names)
    ]
    starts += metas[_MAX_NAMES_CHECKED:]
    # Licences are searched for only in the head. A licence neither allows nor disallows a use, so a missed one changes
    # no decision.
    body = lowered.find(b"<body")
    head = len(lowered) if body < 0 else body
    if lowered.find(b"license", 0, head) >= 0:
        starts = sorted(starts + _offsets(lowered, b"<link", head))
    return starts


def _offsets(lowered: bytes, tag: bytes, end: int) -> list[int]:
    """Return the offsets of *tag*, ``<meta`` or ``<link``, before the offset *end* in a page in lower case. The
    offsets are in ascending order. Longer names, such as ``<metadata``, are not included.
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
    """Whether the attribute ``name`` of the ``<meta`` tag at the offset *start* is one of *names*. Also True if the
    tag is too long to be checked. *lowered* is the page *html* in lower case.
    """
    if (plain := _PLAIN.match(lowered, start)) is not None:
        return (plain[1] or b"").decode("ascii", "replace").strip(_SPACES) in names
    values, end, _ = attributes(html, start + len(b"<meta"), start + _MAX_BYTES_CHECKED)
    return end < 0 or _name(values).lower() in names


def _name(values: dict[bytes, bytes]) -> str:
    written = values.get(b"name", b"").decode("ascii", "replace")
    return _unescape(written).strip(_SPACES)


def _checked(
    content: bytes | None, location: Location, reader: StatementReader
) -> bytes:
    """Return the part of a robots meta tag's *content* that has an effect. If some or all of the content has no
    effect, add a finding to *reader*. *content* is None if the attribute is missing.
    """
    if content is None:
        message = "a meta tag without a content attribute has no effect"
        reader.add_finding("no-content", message, location)
        return b""
    if (mark := _ANGLE_BRACKET.search(content)) is not None:
        message = "the closing quote of the content is missing: only the text before the first < or > has an effect"
        reader.add_finding("unclosed-quote", message, location)
        content = content[: mark.start()]
    if len(content) > MAX_TEXT:
        message = f"the crawler reads only the first {MAX_TEXT} of {len(content)} bytes"
        reader.add_finding("too-long", message, location)
    return content[:MAX_TEXT]


class _TagText:
    """Decodes the content of a page's tags. The encoding of the page is determined when the first tag with non-ASCII
    characters is decoded.
    """

    def __init__(self, html: bytes, encoding: str | None) -> None:
        self._html = html
        self._encoding = encoding

    @cached_property
    def _codec(self) -> str:
        return _codec(self._html, self._encoding)

    def text(self, content: bytes) -> str:
        """Return the *content* of a tag as text, with its character references decoded."""
        codec = "ascii" if content.isascii() else self._codec
        return _unescape(content.decode(codec, "replace"))


def _unescape(text: str) -> str:
    """Return *text* with its character references, such as ``&amp;``, decoded."""
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:
        # A numeric character reference has more digits than Python converts to an integer.
        return text


def _codec(html: bytes, encoding: str | None) -> str:
    """Return the name of the Python codec for a page. *encoding* is the encoding in the ``Content-Type`` header,
    if any. A codec for UTF-16 or UTF-32 is returned only if the page contains null bytes.
    """
    bom, _ = read_bom(html)
    declared = resolve_encoding(encoding) if encoding else None
    is_little = html.startswith(b"<\0") and html[3:4] == b"\0"
    guessed = "utf-16" if is_little or html.startswith(b"\0<\0") else ""
    wide = bom or declared or guessed
    if NUL in html and _WIDE.fullmatch(wide):
        if wide in {"utf-16", "utf-32"}:
            # Without a byte order mark, the Encoding Standard assumes little-endian. But a null byte at the start shows
            # that the page is big-endian.
            wide += "-be" if html.startswith(b"\0") else "-le"
        return wide
    for codec in (bom, declared, html_body_declared_encoding(html)):
        if codec is not None and _NARROW.fullmatch(codec) is not None:
            return codec
    return "utf-8"
