"""Meta tags of pages: html5lib, an HTML5 parser, is the judge of which there are.

It reads ``<template>`` as any other element, so meta elements in templates are left out here.
"""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING
from unittest.mock import patch

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.indexing import metatags
from scrapy_rep.protocol.indexing.metatags import real_tags
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import MAX_PAGE, MAX_STATEMENTS, MAX_TEXT
from tests import effort
from tests.protocol.growth import assert_linear

if TYPE_CHECKING:
    from collections.abc import Iterable

META = '<meta name="robots" content="noindex">'
TEXT_ELEMENTS = ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")  # fmt: skip
Metas = list[tuple[str, str]]


def read(html: str | bytes, encoding: str | None = None) -> IndexingRules:
    body = html.encode() if isinstance(html, str) else html
    return IndexingRules.parse((), body, ("mybot", "my_bot-2"), encoding=encoding)


def codes(rules: IndexingRules) -> list[str]:
    return [finding.code for finding in rules.findings]


def metas_of(metas: Iterable[tuple[str | None, str | None]]) -> Metas:
    # html5lib moves elements, for example out of tables.
    return sorted((name or "", content or "") for name, content in metas)


def ours(html: str) -> Metas:
    """Return the name and content of each meta tag that the package finds, sorted."""
    page = html.encode()
    starts = [match.start() for match in re.finditer(rb"(?i)<meta[\t\n\f\r />]", page)]
    tags = [
        {name: unescape(value.decode()) for name, value in values.items()}
        for _, values in (real_tags(page, page.lower(), starts) if starts else ())
    ]
    return metas_of((tag.get(b"name"), tag.get(b"content")) for tag in tags)


def judged(html: str) -> Metas:
    """Return the name and content of each meta element in html5lib's tree, sorted."""
    tree = html5lib.parse(html, namespaceHTMLElements=False)
    in_templates = {
        id(meta) for template in tree.iter("template") for meta in template.iter("meta")
    }
    metas = [meta for meta in tree.iter("meta") if id(meta) not in in_templates]
    return metas_of((meta.get("name"), meta.get("content")) for meta in metas)


# Pieces of broken markup.
SHARDS = st.sampled_from([
    "<", ">", "</", "/>", "/", "=", '"', "'", "-", "--", "!", "?", "x", "&amp;", "&#114;", " ",
    "\n", "\t", "\f", "robots", "noindex", "<!--", "-->", "--!>", "<!-->", "<!--->", "<!", "<?",
    "<![CDATA[", "<meta", "<META ", "<meta/", "</meta", "<p", "]]>", " name=", ' name="',
    " name='", " content=", "name", "content", "<script", "<script>", "</script>", "</script ",
    "<SCRIPT>", "<title", "</title", "<style", "</style", "<textarea", "</textarea",
])  # fmt: skip
# Pieces of a page.
PIECES = st.sampled_from([
    META, META.upper(), "<meta name=robots content=x>", "<meta>",
    "<meta content='y' name='z'/>", "<meta name=a name=b content=c>", "<!doctype html>",
    "<html>", "<head>", "</head>", "<p>", "</p>", "<body class=x>", "</body>", "</html>",
    "<br/>", "text", "a<b", "</div>", "<table>", "<tr>", "<td>", "</table>", "<noscript>",
    "</noscript>", "<style>", "<plaintext>", "</plaintext>", "<title/>", "<svg><style/></svg>",
    "<math><title/></math>", "<svg><g><script /></g></svg>", "</svg>", "<svg/>", "<svg><template></svg>", f"<svg><template>{META}</template></svg>",
    "<math><template><g></template></math>", "<svg><desc><template></template></desc></svg>", "<svg><template/><style/></svg>",
    f"<template><svg><template></template></svg>{META}</template>", "<p class=it's>", "<a href=/x?a='b'>",
    '<img alt="\'" src=x>', '<p ">', "</a b='>'>", "<div title='a > b'>", "<script src=x/>",
    "<!-- x -->", "<!-- > -->", "<!--->", "<!-- --!>", "<!-- <!-- -->", f"<!-- {META} -->",
    f"<p title='{META}'>", f'<p title="{META}">', f"<template>{META}</template>",
    *(f"<{name}>{content}</{name}>" for name in TEXT_ELEMENTS for content in (META, "x", "<!--", "<!-- <script> </script> -->", "</")),
])  # fmt: skip
PAGES = st.lists(st.one_of(PIECES, PIECES, SHARDS), max_size=25).map("".join)
BROKEN = st.lists(SHARDS, max_size=40).map("".join)

# The tag in each place and spelling that an author, a template or an attacker gives it.
WRITTEN = [
    f"<html><head>{META}</head><body></body>", f"<p>{META}</p>",
    f"<head><noscript>{META}</noscript>", f"{'<p title=x>text</p>' * 500}{META}",
    f"{'<meta name=x content=y>' * 2000}{META}",
    f"<!--{'<meta name=x content=y>' * 2000}{META}-->", "", META.upper(),
    '<mEtA nAmE="rObOtS" cOnTeNt="nOiNdEx">', '<meta content="noindex" name="robots">',
    '<meta id="x" data-y name="robots" lang=en content="noindex"/>',
    f"<meta {' '.join(f'a{i}' for i in range(60))} name=robots content=noindex>",
    f'<meta a="{"x" * 2000}" name=robots content=noindex>',
    f'<meta property="a" content="b">{META}',
    '<meta property="a" name="robots" content="noindex">',
    '<meta/name="robots"/content="noindex"/>', "<meta name='robots' content='noindex'>",
    "<meta name=robots content=noindex>", '<meta\n\tname =\f"robots"\ncontent= " noindex ">',
    '<meta name=" robots " content="noindex">', '<meta name="MyBot" content="noindex">',
    '<meta name="my_bot-2" content="noindex">',
    '<meta name="&#114;ob&#x6f;ts" content="no&#105;ndex&#44;x">',
    '<meta name=robots content="&#110oindex">',
    '<meta content="noindex" title="a > b" name="robots">', f'<p title=">"{META}">{META}',
    f"<!-- x -->{META}", f"<!-->{META}-->", f"<!--->{META}-->", f"<!-- --!>{META}",
    f"<!-- <!-- x -->{META}", f'<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN" "x">{META}',
    f"<![CDATA[x>{META}", f"<?xml version='1.0'?>{META}", f"<script>'<p>'</script>{META}",
    f"<SCRIPT>x</script\n a='>'>{META}", f"<script><!-- x </script>{META}",
    f"<script><!-- <script> </script> --></script>{META}", f"<style>p > a {{}}</style>{META}",
    f"<title>a < b</title>{META}", f"</template>{META}",
    f"<template><template></template>x</template>{META}", f"<p>it's 5 < 6 \" {META}",
    f"<p class=it's>{META}", f'<p ">{META}', f"<p class=>{META}", f"</p title='>'>{META}",
    f"<> </> < a >{META}", '<meta name="robots" name="x" content="noindex" content="index">',
    f"<meta name=robots content=all>{META}", f"<!-- {META} -->", f"<!--> --> <!-- > {META} -->",
    f"<!-- {META} --", f"<!--!> {META} -->", f"<template>{META}</template>",
    f"<template>{META}", f"<template><template></template>{META}</template>",
    f"<script>document.write('{META}')</script>", f"<script>{META}",
    f"<script><!-- <script> </script>{META} --></script>",
    f"<script><!-- <script> </script>{META}",
    *(f"<{name}>{META}</{name}>" for name in TEXT_ELEMENTS), f"<TITLE>{META}</Title>",
    f"<plaintext></plaintext>{META}", f"<title></titles>{META}</title>", f"<p title='{META}'>",
    f"<p title='{META}", "<!DOCTYPE <meta name=robots content=noindex>",
    '</meta name="robots" content="noindex">', '<meta name="robot" content="noindex">',
    '<meta name="robots-policy" content="noindex">',
    '<meta name="googlebot" content="noindex">',
    '<meta name="x" name="robots" content="noindex">', f"<title/>{META}",
    f"<iframe src=x />{META}", '<meta property="robots" content="noindex">',
    '<meta http-equiv="robots" content="noindex">',
    '<metadata name="robots" content="noindex">',
    '<link rel="no-license" name="robots" content="noindex">',
    '<meta data-name="robots" content="noindex">', '<meta name="robots content="noindex">',
    '<p><meta name="rob', '<p><meta name="robots" content="noindex',
    '<p><meta name="robots" content="noindex"', "<meta name=robots content=>",
    "<meta <meta name=robots>", "<meta ='><meta name=robots content=x>", "<meta a=b'c>'<meta>",
    f"<script><!--<script></script>{META}</script>{META}", f"</plaintext>{META}",
    *(f"<svg><{name}/></svg>{META}" for name in TEXT_ELEMENTS), f"<svg><title /><path d=a></svg>{META}",
    f"<math><style/></math>{META}", f"<svg/><title/>{META}",
    f"<svg><foreignObject><title/>{META}</title></foreignObject></svg>", f"<svg><p><title/>{META}</title>",
    f"<svg><foreignObject></foreignObject><title/></svg>{META}", f"<svg></svg><title/>{META}",
    f"<svg><template>{META}</template></svg>", f"<svg><template><title/>{META}",
    f"<math><mi><template>{META}</template></mi></math>", f"<math><template><template></template>{META}",
    f"<template><svg><template></template></svg>{META}</template>", f"<template><svg></template>{META}",
    f"<template><svg></template><template>{META}</template>", f"<svg><desc><template>{META}</template></desc></svg>",
    f"<div><svg></div><template>{META}</template>", f"<svg><template></svg><template>{META}</template>",
    f"<svg><template></p></svg><template>{META}</template>", f"<svg><template/></svg><template>{META}</template>",
    f"<svg><svg></svg><script/></svg>{META}", f"<svg><template/></svg>{META}",
    f"<svg><style/>{META}<style/>{META}", f"<math><mi><style/>{META}</style></mi><style/></math>{META}",
]  # fmt: skip


@pytest.mark.parametrize("html", WRITTEN, ids=[html[:80] for html in WRITTEN])
def test_a_tag_counts_where_a_browser_sees_one(html: str) -> None:
    """A page has the rules of those meta tags that an HTML parser sees, and of no other."""
    assert ours(html) == judged(html)
    addressed = {"robots", "mybot", "my_bot-2"}
    contents = [
        word.lower() for name, word in judged(html) if name.strip().lower() in addressed
    ]
    assert read(html).index is not any("noindex" in word for word in contents)


@given(st.one_of(PAGES, BROKEN))
def test_any_page_has_the_tags_that_a_browser_sees(html: str) -> None:
    """The package and html5lib find the same meta elements in any page."""
    assert ours(html) == judged(html)


@pytest.mark.parametrize(
    ("html", "here", "there"),
    [
        # html5lib drops the meta element here, but a site that writes one means it.
        (f"<select>{META}</select>", 1, 0),
        (f"<frameset>{META}</frameset>", 1, 0),
        # html5lib is older than the standard here: this end tag ends SVG.
        (f"<svg></p><style/>{META}", 0, 1),
        # Text elements are read in SVG and MathML as outside, where they hold markup.
        (f"<svg><title>{META}</title></svg>", 0, 1),
        # A CDATA section, which only SVG and MathML have, ends at the first ">".
        (f"<svg><![CDATA[ > {META} ]]></svg>", 1, 0),
    ],
)
def test_only_known_differences_from_html5lib_exist(
    html: str, here: int, there: int
) -> None:
    """Only these differences from the tree of html5lib are known."""
    assert (len(ours(html)), len(judged(html))) == (here, there)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("noindex nofollow", ["noindex", "nofollow"]),
        ("noindex,nofollow\n,\tnoai", ["noindex", "nofollow", "noai"]),
        ("nofollow,\xa0noindex", ["nofollow", "noindex"]),
        ("max-snippet : 5 noindex", ["max-snippet : 5", "noindex"]),
        ("unavailable_after: Fri, 25 Jun 2010 15:00:00 PST noindex",
         ["unavailable_after: Fri, 25 Jun 2010 15:00:00 PST", "noindex"]),
        ("unavailable_after: 25 Jun 2010 15:00:00 NONE",
         ["unavailable_after: 25 Jun 2010 15:00:00", "NONE"]),
        ("unavailable_after: 1 Jan 2010 (or so)",
         ["unavailable_after: 1 Jan 2010", "(or", "so)"]),
        # Like "max-image-preview: none" to a crawler that does not know it.
        ("max-something: none", ["max-something: none"]),
        ("googlebot: noindex, nofollow", ["googlebot: noindex", "nofollow"]),
        ("all: noindex", ["all:", "noindex"]),
        (": noindex :", ["noindex :"]),
        (f"noindex &#{'1' * 5000};", ["noindex", f"&#{'1' * 5000};"]),
    ],
)  # fmt: skip
def test_white_space_separates_statements_in_a_tag(
    content: str, texts: list[str]
) -> None:
    """In a meta tag, white space separates statements too, but not a name from its value."""
    rules = read(f'<meta name="robots" content="{content}">')
    assert [statement.text for statement in rules.statements if statement.text] == texts


@pytest.mark.parametrize(
    ("html", "code"),
    [
        ('<meta name="robots" content="noindex>\n<link rel="canonical">', "unclosed-quote"),
        ("<meta name=robots value=noindex>", "no-content"),
        (f"<meta name=robots content='{' ' * MAX_TEXT}noindex'>", "too-long"),
    ],
)  # fmt: skip
def test_a_tag_that_is_not_read_as_meant_is_a_finding(html: str, code: str) -> None:
    """A tag that is not read as it was meant is a finding; up to there it counts."""
    assert codes(read(html)) == [code]
    assert read(html).index is (code != "unclosed-quote")


def test_a_statement_has_the_line_of_its_tag_and_its_agent() -> None:
    """A statement has the line of its tag, in every encoding, and the agent that it addresses."""
    html = (
        '<p>中</p>\r\n\r<link rel=license href="/l">\n'
        '<meta name="MyBot"\ncontent="noindex"><meta name=ROBOTS\n content=noai>'
    )
    for encoding in ("utf-8", "utf-16", "utf-16-be", "iso2022_jp", "shift_jis"):
        rules = read(html.encode(encoding), encoding)
        evidence = [
            (statement.agent, statement.position) for statement in rules.statements
        ]
        assert evidence == [("MyBot", 4), (None, 5)], encoding
        assert [statement.line for statement in rules.tags] == [3]


def test_the_first_4_mib_of_a_page_are_read() -> None:
    """The first 4 MiB of a page are read, however long its server makes it. A page with more has a
    finding, as a tag behind them has no effect.
    """
    whole = read(" " * (MAX_PAGE - len(META)) + META)
    assert (whole.index, codes(whole)) == (False, [])
    longer = read(" " * MAX_PAGE + META)
    assert (longer.index, codes(longer)) == (True, ["page-too-long"])
    assert longer.findings[0].position == 1


def test_statements_and_findings_of_a_page_are_bounded() -> None:
    """A page gives a bounded number of statements, findings and tags about use; one finding says
    that there were more.
    """
    many = read(
        "<meta name=robots>" * 900 + f"<meta name=robots content='{'a ' * 9999}'>"
    )
    assert len(many.statements) == MAX_STATEMENTS
    assert len(many.findings) <= MAX_STATEMENTS + 1
    for tag in ("<meta name=robots>", "<meta name=robots content=' &nbsp;'>"):
        whole = read(tag * (MAX_STATEMENTS - 1) + META)
        assert (whole.index, "too-many" in codes(whole)) == (False, False)
        longer = read(tag * MAX_STATEMENTS + META * 2)
        assert (longer.index, codes(longer)[-1]) == (True, "too-many")
    line = ", ".join(["noarchive"] * (MAX_STATEMENTS + 1))
    rules = read(f"<meta name=robots content='{line}'>" * 2 + META)
    assert (rules.index, codes(rules)) == (True, ["too-many"])
    headers = [f"mybot: {line}".encode(), b"mybot: noindex, x"]
    both = IndexingRules.of_page(headers, META.encode(), ("mybot",))
    assert (len(both.statements), codes(both)) == (MAX_STATEMENTS, ["too-many"])
    tag = '<meta name="tdm-reservation" content="1">'
    tags = read("<meta name=tdm-reservation><link rel=license>" + tag * 500).tags
    assert [(kept.name, kept.content) for kept in tags] == [
        ("tdm-reservation", "1")
    ] * 100


@pytest.mark.parametrize(
    "unit",
    [
        "<", "<!--", "<!-->", "</", "<meta", "<meta ", "<meta>", "<meta name='",
        '<meta name="', "<meta a=\"' b='\"", "<meta a='\" c=' d=' b=\"",
        "<meta a b c d e f", "<meta name=robots content=noindex>",
        "<meta name=robots content='unavailable_after:1 1 1 1 1 1 1 1 1'>", "<script>",
        "<script></script>", "<script><!--", "<title></title>", "</titlex",
        "<template>", "<svg>", "<svg><template>", "<template><svg>", "<svg><desc>", '<a b="', " a='", "name=&", "\0", "\x1b",
    ],
)  # fmt: skip
@pytest.mark.unmeasured
def test_very_many_incomplete_tags_take_linear_time(unit: str) -> None:
    """Very many incomplete tags take linear time."""
    prefixes = ("", "<meta name=robots content='", "<meta name=robots ")
    for prefix in prefixes[: 3 if effort.is_long else 2]:

        def page(size: int, prefix: str = prefix) -> bytes:
            return f"{prefix}{unit * (size // len(unit))}{META}".encode()

        assert_linear(lambda page: IndexingRules.parse(html=page), page)


def test_a_tag_named_robot_has_no_effect() -> None:
    """``<meta name="robot">`` has no effect, and is a finding, unless that is the crawler's name."""
    html = b"<p>\n<META name=' Robot' content=noindex>"
    rules = IndexingRules.parse(html=html, agents="mybot")
    assert rules == IndexingRules()
    (finding,) = rules.findings
    assert (finding.code, finding.source, finding.position) == (
        "misspelt-tag",
        "meta",
        2,
    )
    assert finding.message.endswith('write "robots"')
    assert not IndexingRules.parse(html=html, agents="robot").index


@pytest.mark.parametrize("encoding", ["utf-8", "euc-kr", "utf-16"])
@pytest.mark.unmeasured
def test_tags_beyond_ascii_take_linear_time(encoding: str) -> None:
    """Very many tags with characters above ASCII take linear time, with words in them or without,
    and the encoding of a page is found once.
    """
    for blank in ("\xa0", "\u3000", "\u3000noindex,"):
        if encoding == "euc-kr" and blank == "\xa0":
            continue  # It has no such character.
        tag = f'<meta name=robots content="&nbsp;{blank}">'

        def page(size: int, tag: str = tag) -> bytes:
            return (tag * (size // len(tag))).encode(encoding)

        def parse(page: bytes) -> IndexingRules:
            return IndexingRules.parse(html=page, encoding=encoding)

        assert_linear(parse, page, size=512 * 1_024)
        with patch.object(metatags, "_codec", wraps=metatags._codec) as find:
            parse(page(64 * 1_024))
        assert find.call_count <= 1 + (encoding == "utf-16")


@pytest.mark.parametrize(
    ("page", "codec", "declared"),
    [
        (META, "utf-16", None), (f"\ufeff{META}", "utf-16-be", None), (META, "utf-16-le", None),
        (META, "utf-16-be", None), (META, "utf-32", None), (META, "utf-8-sig", None),
        (f" {META}", "utf-16", "utf-16"), (f" {META}", "utf-16-le", "UTF-16LE"),
        (f" {META}", "utf-16-be", "utf-16-be"), (f" {META}", "utf-32", "utf-32"),
        (f" {META}", "utf-32-le", "utf-32le"), (f" {META}", "utf-16-le", "utf-16"),
        (f" {META}", "utf-16-be", "utf-16"), (META, "utf-8", "utf-16"), (META, "utf-8", "utf-32le"),
    ],
)  # fmt: skip
def test_utf_16_and_utf_32_are_known_by_mark_character_or_header(
    page: str, codec: str, declared: str | None
) -> None:
    """UTF-16 and UTF-32 are known by a byte order mark, the first character or the header, if the
    page can be in what the header declares. Without a mark, UTF-16 is little-endian.
    """
    assert not read(page.encode(codec), declared).index


@pytest.mark.parametrize("before", [b"\0", b"<\0", b"\0\0", b"a\0"])
def test_zero_bytes_are_no_encoding(before: bytes) -> None:
    """A page with zero bytes in front is read in the encoding that it is in."""
    assert not read(before + META.encode()).index


@pytest.mark.parametrize(
    ("charset", "codec", "word"),
    [
        ("utf-8", "utf-8", "表示"), ("iso-8859-1", "cp1252", "café"),
        ("windows-1251", "cp1251", "слово"), ("koi8-r", "koi8-r", "слово"),
        ("shift_jis", "cp932", "表示"), ("euc-jp", "euc_jp", "表示"),
        ("iso-2022-jp", "iso2022_jp", "表示"), ("gb2312", "gb18030", "表示"),
        ("gbk", "gb18030", "表示"), ("big5", "big5hkscs", "表示"), ("euc-kr", "cp949", "한국"),
    ],
)  # fmt: skip
def test_a_statement_is_decoded_with_the_declared_encoding(
    charset: str, codec: str, word: str
) -> None:
    """The text of a statement is decoded with the encoding that header or page declares."""
    tail = f'<p title="{word}">{word}</p><meta content="{word}, noindex" name=robots>'
    for head, encoding in ((f"<meta charset={charset}>", None), ("", charset)):
        rules = read((head + tail).encode(codec), encoding)
        assert not rules.index
        assert [statement.text for statement in rules.unknown] == [word]


@pytest.mark.parametrize(
    "charset",
    ["undefined", "idna", "punycode", "base64", "utf-7", "utf-16", "unicode_escape", "x"],
)  # fmt: skip
def test_an_impossible_charset_is_ignored(charset: str) -> None:
    """A charset that pages cannot have is ignored."""
    page = f"<meta charset={charset}><meta name=robots content='noindex, \xe9'>"
    for declared in (None, charset, charset + "\0"):
        assert not read(page, declared).index
