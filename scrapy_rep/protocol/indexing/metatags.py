"""Reads the statements in the robots meta tags of a page.

Most pages have none, and take only one fast search. If that finds a ``<meta>`` tag that may
be addressed to the crawler, ``markup`` reads the page up to that tag.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from typing import TYPE_CHECKING

from w3lib.encoding import html_body_declared_encoding, read_bom, resolve_encoding

from scrapy_rep.protocol.indexing.markup import SPACE, find_tags
from scrapy_rep.protocol.indexing.statements import MAX_TEXT, TAGS_OF_USE, Tag

if TYPE_CHECKING:
    from scrapy_rep.protocol.indexing.markup import StartTag
    from scrapy_rep.protocol.indexing.statements import Location, StatementReader

_EVERYONE = "robots"
_SPACES = "\t\n\f\r "

# A word, and after a colon the first word of its value; white space may surround the colon.
_WORD = re.compile(r"[^\s,:]+(?:\s*:\s*[^\s,]*)?")

_ANGLE_BRACKET = re.compile(rb"[<>]")
"""No statement has these characters, so content with one has no closing quote."""

# A ``<link`` with "license" in it, in a page in lower case.
_LICENSE = re.compile(rb"<link(?=[\t\n\f\r /])(?=[^<>]{0,1000}license)").finditer
_MAX_LICENSES = 100
_MAX_TAGS = 100
_MAX_VALUE = 4_096
"""The number of bytes that are read of the content of a usage tag."""

_WIDE = re.compile("utf-(?:16|32)(?:-[bl]e)?")
_NARROW = re.compile(
    r"utf-8|ascii|cp(?:125\d|866|874|932|949)|iso8859-\d+|koi8-\w|mac-\w+|gb18030|"
    r"big5\w*|euc_\w+|shift_jis\w*|iso2022_\w+"
)
"""The encodings of the Web, by their Python names. Python's other codecs are not for pages,
and some (punycode) take more than linear time."""


def read_page(
    html: bytes, agents: tuple[str, ...], encoding: str | None, reading: StatementReader
) -> None:
    """Add the statements of meta tags that are addressed to *agents* or to everyone.

    *agents* are the crawler's product tokens in lower case; *encoding* is the one that the
    transport declares.
    """
    # In UTF-16 and UTF-32, markup has zero bytes. Searching for one costs less than
    # determining the encoding.
    if b"\0" in html:
        codec = _wide_codec(html, encoding)
        if codec is not None:
            html, encoding = _to_utf8(html, codec)
    names = (_EVERYONE, *TAGS_OF_USE, *agents)
    starts = _candidates(html, names)
    if starts and b"\x1b" in html:
        codec = _codec(html, encoding)
        if codec.startswith("iso2022"):
            html, encoding = _to_utf8(html, codec)
            starts = _candidates(html, names)
    if starts:
        _TagReader(html, encoding, reading).read(starts, names)


def _candidates(html: bytes, names: tuple[str, ...]) -> list[int]:
    """Return the offsets of tags to read, in ascending order.

    They are each ``<meta`` that might have one of the names, and each ``<link`` that might
    name a licence.
    """
    # Lowering and searching takes a third of the time of a search that ignores case.
    lowered = html.lower()
    might_be_ours = _candidate(names).match
    candidates = []
    at = lowered.rfind(b"<meta")
    while at >= 0:
        if might_be_ours(lowered, at) is not None:
            candidates.append(at)
        at = lowered.rfind(b"<meta", 0, at)
    candidates.reverse()
    # Licences are only evidence: a search of the head saves a third pass over the page.
    body = lowered.find(b"<body")
    end = len(lowered) if body < 0 else body
    if lowered.find(b"license", 0, end) >= 0:
        licenses = [match.start() for match in _LICENSE(lowered, 0, end)]
        candidates = sorted((*candidates, *licenses[:_MAX_LICENSES]))
    return candidates


@lru_cache(maxsize=32)
def _candidate(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """Return a pattern for a ``<meta`` tag that might have one of the names.

    It rejects a tag only if ordinary attributes lead up to another name, or to the end of
    the tag. Its repetitions are bounded, so its time is linear even on pages that consist of
    beginnings of tags. The page must be in lower case.
    """
    ours = b"|".join(re.escape(name.encode("utf-8", "replace")) for name in names)
    ours = rb"(?!" + SPACE + rb"{0,100}(?:" + ours + rb"))"
    other_name = (
        rb'name=(?:"' + ours + rb'[^"&\x1b]{0,100}"|'
        rb"'" + ours + rb"[^'&\x1b]{0,100}'|"
        + ours + rb"""[^\t\n\f\r "'&<=>`\x1b]{1,100}(?=[\t\n\f\r >]))"""
    )  # fmt: skip
    attribute = (
        rb"(?!name[^a-z:-])[a-z:-]{1,30}(?:=(?:"
        rb'"[^"\x1b]{0,1000}"|'
        rb"'[^'\x1b]{0,1000}'|"
        rb"""[^\t\n\f\r "'<=>`\x1b]{1,100}))?"""
    )
    return re.compile(
        rb"<meta(?=[\t\n\f\r /])(?!"
        rb"(?:" + SPACE + rb"{1,100}" + attribute + rb"){0,20}"
        rb"(?:" + SPACE + rb"{1,100}" + other_name + rb"|" + SPACE + rb"{0,100}/?>))"
    )  # fmt: skip


class _TagReader:
    """Reads the tags of one page."""

    def __init__(
        self, html: bytes, encoding: str | None, reading: StatementReader
    ) -> None:
        self._html = html
        self._encoding = encoding
        self._reading = reading

    def read(self, starts: list[int], names: tuple[str, ...]) -> None:
        for tag in find_tags(self._html, starts):
            if self._reading.is_full:
                return
            if tag.element == b"link":
                if b"license" in tag.attributes.get(b"rel", b"").lower().split():
                    self._read_tag_of_use(tag, "license", b"href")
                continue
            written = tag.attributes.get(b"name", b"").decode("ascii", "replace")
            name = _unescape(written).strip(_SPACES)
            if name.lower() in TAGS_OF_USE:
                self._read_tag_of_use(tag, name.lower(), b"content")
            elif name.lower() in names:
                self._read_meta(tag, None if name.lower() == _EVERYONE else name)

    def _read_meta(self, tag: StartTag, agent: str | None) -> None:
        location: Location = ("meta", agent, tag.start)
        add_finding = self._reading.add_finding
        content = tag.attributes.get(b"content")
        if content is None:
            message = "the meta tag has no content attribute: it has no effect"
            add_finding("no-content", message, location)
            return
        if (mark := _ANGLE_BRACKET.search(content)) is not None:
            message = "the content has no closing quote: only its first part counts"
            add_finding("unclosed-quote", message, location)
            content = content[: mark.start()]
        if len(content) > MAX_TEXT:
            message = f"the crawler reads only {MAX_TEXT} of {len(content)} bytes"
            add_finding("too-long", message, location)
        text = self._text(content[:MAX_TEXT])
        spans = [word.span() for word in _WORD.finditer(text)]
        self._reading.read(location, text, spans)

    def _read_tag_of_use(self, tag: StartTag, name: str, attribute: bytes) -> None:
        content = tag.attributes.get(attribute)
        if content is not None and len(self._reading.tags) < _MAX_TAGS:
            text = self._text(content[:_MAX_VALUE]).strip(_SPACES)
            self._reading.tags.append(Tag(name, text, tag.start))

    def _text(self, content: bytes) -> str:
        is_ascii = content.isascii()
        codec = "ascii" if is_ascii else _codec(self._html, self._encoding)
        return _unescape(content.decode(codec, "replace"))


def _unescape(text: str) -> str:
    """Return the text with character references decoded."""
    if "&" not in text:
        return text
    try:
        return unescape(text)
    except ValueError:  # a number with more digits than Python converts
        return text


# The tokenizer needs a page in an encoding that extends ASCII.


def _to_utf8(html: bytes, codec: str) -> tuple[bytes, str]:
    return html.decode(codec, "replace").encode("utf-8", "replace"), "utf-8"


def _wide_codec(html: bytes, encoding: str | None) -> str | None:
    """Return the codec of a page in UTF-16 or UTF-32, or None for other encodings."""
    codec, _ = read_bom(html)
    codec = codec or (resolve_encoding(encoding) if encoding else None)
    if codec is None and html[:2] in {b"<\0", b"\0<"}:
        codec = "utf-16"
    if codec is None or not _WIDE.fullmatch(codec):
        return None
    if codec in {"utf-16", "utf-32"}:
        # Little-endian, as the Encoding Standard says, unless the first character shows
        # otherwise.
        codec += "-be" if html.startswith(b"\0") else "-le"
    return codec


def _codec(html: bytes, encoding: str | None) -> str:
    """Return the codec of a page that is in neither UTF-16 nor UTF-32."""
    bom, _ = read_bom(html)
    declared = resolve_encoding(encoding) if encoding else None
    for codec in (bom, declared, html_body_declared_encoding(html)):
        if codec is not None and _NARROW.fullmatch(codec) is not None:
            return codec
    return "utf-8"
