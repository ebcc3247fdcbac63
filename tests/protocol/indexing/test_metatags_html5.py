"""Meta elements of a page, compared with html5lib, an HTML5 parser.

html5lib reads ``<template>`` as any other element, so meta elements in templates are left
out here. The accepted differences have a test each, and are not generated.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

import html5lib
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_rep.protocol.indexing.markup import real_tags

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Metas = list[tuple[str | None, str | None]]


def ours(html: str) -> Metas:
    """Return the name and content of each meta tag that the package finds, sorted."""
    page = html.encode()
    starts = [match.start() for match in re.finditer(rb"(?i)<meta[\t\n\f\r />]", page)]
    tags = real_tags(page, page.lower(), starts) if starts else ()
    found = [
        {name: unescape(value.decode()) for name, value in values.items()}
        for _, values in tags
    ]
    return sorted_metas((tag.get(b"name"), tag.get(b"content")) for tag in found)


def judged(html: str) -> Metas:
    """Return the name and content of each meta element in html5lib's tree, sorted."""
    tree = html5lib.parse(html, namespaceHTMLElements=False)
    in_templates = {
        id(meta) for template in tree.iter("template") for meta in template.iter("meta")
    }
    metas: list[Element] = [
        meta for meta in tree.iter("meta") if id(meta) not in in_templates
    ]
    return sorted_metas((meta.get("name"), meta.get("content")) for meta in metas)


def sorted_metas(metas: object) -> Metas:
    # html5lib moves elements, for example out of tables.
    return sorted(metas, key=repr)  # type: ignore[call-overload, no-any-return]


META = '<meta name="robots" content="noindex">'

# Pieces of broken markup.
SHARDS = st.one_of(
    st.sampled_from(["<", ">", "</", "/>", "/", "=", '"', "'", "-", "--", "!", "?"]),
    st.sampled_from(
        [" ", "\n", "\t", "\f", "x", "&amp;", "&#114;", "robots", "noindex"]
    ),
    st.sampled_from(
        ["<!--", "-->", "--!>", "<!-->", "<!--->", "<!", "<![CDATA[", "<?"]
    ),
    st.sampled_from(["<meta", "<META ", "<meta/", "</meta", "<p", "]]>"]),
    st.sampled_from([" name=", ' name="', " name='", " content=", "name", "content"]),
    st.sampled_from(["<script", "<script>", "</script>", "</script ", "<SCRIPT>"]),
    st.sampled_from(
        ["<title", "</title", "<style", "</style", "<textarea", "</textarea"]
    ),
)

# Pieces of a page.
TEXT_ELEMENTS = [
    f"<{name}>{content}</{name}>"
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed")
    for content in (META, "x", "<!--", "<!-- <script> </script> -->", "</")
]
PIECES = st.one_of(
    st.sampled_from([META, META.upper(), "<meta name=robots content=x>", "<meta>"]),
    st.sampled_from(["<meta content='y' name='z'/>", "<meta name=a name=b content=c>"]),
    st.sampled_from(
        ["<!doctype html>", "<html>", "<head>", "</head>", "<body class=x>"]
    ),
    st.sampled_from(
        ["</body>", "</html>", "<p>", "</p>", "<br/>", "text", "a<b", "</div>"]
    ),
    st.sampled_from(["<table>", "<tr>", "<td>", "</td>", "</table>"]),
    st.sampled_from(
        ["<noscript>", "</noscript>", "<style>", "<plaintext>", "<title/>"]
    ),
    st.sampled_from(["<a href=/x?a='b'>", '<img alt="\'" src=x>', "<p class=it's>"]),
    st.sampled_from(['<p ">', "</a b='>'>", "<div title='a > b'>", "<script src=x/>"]),
    st.sampled_from(
        ["<!-- x -->", "<!-- > -->", "<!--->", "<!-- --!>", "<!-- <!-- -->"]
    ),
    st.sampled_from([f"<!-- {META} -->", f"<p title='{META}'>", f'<p title="{META}">']),
    st.sampled_from([f"<template>{META}</template>", f"<noframes>{META}</noframes>"]),
    st.sampled_from(TEXT_ELEMENTS),
)

PAGES = st.lists(st.one_of(PIECES, PIECES, SHARDS), max_size=25).map("".join)
BROKEN = st.lists(SHARDS, max_size=40).map("".join)


@given(st.one_of(PAGES, BROKEN))
@example("<meta <meta name=robots>")
@example("<meta ='><meta name=robots content=x>")
@example("<meta a=b'c>'<meta>")
@example("<!--><meta name=a>-->")
@example(f"<script><!--<script></script>{META}</script>{META}")
def test_same_metas(html: str) -> None:
    """The package and html5lib find the same meta elements in any page."""
    assert ours(html) == judged(html)


@pytest.mark.parametrize(
    ("html", "here", "there"),
    [
        # html5lib drops the meta element here, but a site that writes one means it.
        (f"<select>{META}</select>", 1, 0),
        (f"<frameset>{META}</frameset>", 1, 0),
        # Text elements are read in SVG and MathML as outside, where they hold markup.
        (f"<svg><title>{META}</title></svg>", 0, 1),
        (f"<svg><style/></svg>{META}", 0, 1),
        # A CDATA section, which only SVG and MathML have, ends at the first ">".
        (f"<svg><![CDATA[ > {META} ]]></svg>", 1, 0),
    ],
)
def test_accepted_difference(html: str, here: int, there: int) -> None:
    """Only these differences from the tree of html5lib are known."""
    assert len(ours(html)) == here
    assert len(judged(html)) == there
