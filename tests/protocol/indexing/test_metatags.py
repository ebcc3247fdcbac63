"""Tests of the search for meta tags in pages. They compare the result with that of html5lib, a complete
HTML5 parser.

html5lib parses ``<template>`` like any other element. Therefore the tests ignore its meta elements in
templates.
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


def parse(html: str | bytes, encoding: str | None = None) -> IndexingRules:
    """Return the rules of a page, for two product tokens of a crawler."""
    body = html.encode() if isinstance(html, str) else html
    return IndexingRules.parse((), body, ("mybot", "my_bot-2"), encoding=encoding)


def codes(rules: IndexingRules) -> list[str]:
    return [finding.code for finding in rules.findings]


def sorted_metas(metas: Iterable[tuple[str | None, str | None]]) -> Metas:
    """Return meta tags in an order that does not depend on html5lib, which moves elements, for example out
    of tables.
    """
    return sorted((name or "", content or "") for name, content in metas)


def package_metas(html: str) -> Metas:
    """Return the name and content of each meta tag that the package finds, sorted."""
    page = html.encode()
    starts = [match.start() for match in re.finditer(rb"(?i)<meta[\t\n\f\r />]", page)]
    tags = [
        {name: unescape(value.decode()) for name, value in values.items()}
        for _, values in (real_tags(page, page.lower(), starts) if starts else ())
    ]
    return sorted_metas((tag.get(b"name"), tag.get(b"content")) for tag in tags)


def html5lib_metas(html: str) -> Metas:
    """Return the name and content of each meta element that html5lib finds, sorted."""
    tree = html5lib.parse(html, namespaceHTMLElements=False)
    in_templates = {
        id(meta) for template in tree.iter("template") for meta in template.iter("meta")
    }
    metas = [meta for meta in tree.iter("meta") if id(meta) not in in_templates]
    return sorted_metas((meta.get("name"), meta.get("content")) for meta in metas)


# Pieces of broken markup.
BROKEN_PIECES = st.sampled_from([
    "<", ">", "</", "/>", "/", "=", '"', "'", "-", "--", "!", "?", "x", "&amp;", "&#114;", " ",
    "\n", "\t", "\f", "robots", "noindex", "<!--", "-->", "--!>", "<!-->", "<!--->", "<!", "<?",
    "<![CDATA[", "<meta", "<META ", "<meta/", "</meta", "<p", "]]>", " name=", ' name="',
    " name='", " content=", "name", "content", "<script", "<script>", "</script>", "</script ",
    "<SCRIPT>", "<title", "</title", "<style", "</style", "<textarea", "</textarea",
])  # fmt: skip
# Larger pieces of pages.
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
PAGES = st.lists(st.one_of(PIECES, PIECES, BROKEN_PIECES), max_size=25).map("".join)
BROKEN_PAGES = st.lists(BROKEN_PIECES, max_size=40).map("".join)

# Pages with the tag in the places and spellings that authors, templates and attackers give it.
WRITTEN_PAGES = [
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


@pytest.mark.parametrize(
    "html", WRITTEN_PAGES, ids=[html[:80] for html in WRITTEN_PAGES]
)
def test_a_page_has_the_rules_of_the_meta_tags_that_html5lib_finds(html: str) -> None:
    assert package_metas(html) == html5lib_metas(html)
    crawler_names = {"robots", "mybot", "my_bot-2"}
    contents = [
        content.lower()
        for name, content in html5lib_metas(html)
        if name.strip().lower() in crawler_names
    ]
    assert parse(html).index is not any("noindex" in content for content in contents)


@given(st.one_of(PAGES, BROKEN_PAGES))
def test_the_package_and_html5lib_find_the_same_meta_tags_in_any_page(
    html: str,
) -> None:
    assert package_metas(html) == html5lib_metas(html)


@pytest.mark.parametrize(
    ("html", "package_count", "html5lib_count"),
    [
        # html5lib drops this meta element, but a site that writes it wants it to count.
        (f"<select>{META}</select>", 1, 0),
        (f"<frameset>{META}</frameset>", 1, 0),
        # By the current standard, this end tag ends SVG. html5lib follows an older standard.
        (f"<svg></p><style/>{META}", 0, 1),
        # In HTML, an element such as <title> contains only text. In SVG and MathML, it can contain other
        # elements, but the package reads its content as text.
        (f"<svg><title>{META}</title></svg>", 0, 1),
        # For the package, a CDATA section, which only SVG and MathML have, ends at the first ">".
        (f"<svg><![CDATA[ > {META} ]]></svg>", 1, 0),
    ],
)
def test_the_known_differences_from_html5lib(
    html: str, package_count: int, html5lib_count: int
) -> None:
    counts = (len(package_metas(html)), len(html5lib_metas(html)))
    assert counts == (package_count, html5lib_count)


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
        # A crawler that does not know max-image-preview would parse "max-image-preview: none" like this.
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
    """White space after the colon of a statement does not separate the name from its value."""
    rules = parse(f'<meta name="robots" content="{content}">')
    assert [statement.text for statement in rules.statements if statement.text] == texts


@pytest.mark.parametrize(
    ("html", "code"),
    [
        ('<meta name="robots" content="noindex>\n<link rel="canonical">', "unclosed-quote"),
        ("<meta name=robots value=noindex>", "no-content"),
        (f"<meta name=robots content='{' ' * MAX_TEXT}noindex'>", "too-long"),
    ],
)  # fmt: skip
def test_a_tag_without_the_effect_that_its_author_wanted_is_a_finding(
    html: str, code: str
) -> None:
    """If the closing quote is missing, the content up to the first angle bracket counts."""
    assert codes(parse(html)) == [code]
    assert parse(html).index is (code != "unclosed-quote")


def test_a_statement_has_its_agent_and_the_line_of_its_tag_in_each_encoding() -> None:
    html = (
        '<p>中</p>\r\n\r<link rel=license href="/l">\n'
        '<meta name="MyBot"\ncontent="noindex"><meta name=ROBOTS\n content=noai>'
    )
    for encoding in ("utf-8", "utf-16", "utf-16-be", "iso2022_jp", "shift_jis"):
        rules = parse(html.encode(encoding), encoding)
        evidence = [
            (statement.agent, statement.position) for statement in rules.statements
        ]
        assert evidence == [("MyBot", 4), (None, 5)], encoding
        assert [statement.line for statement in rules.tags] == [3]


def test_only_the_first_4_mib_of_a_page_are_parsed() -> None:
    """A tag after the first 4 MiB has no effect. A page that is longer has a finding."""
    whole = parse(" " * (MAX_PAGE - len(META)) + META)
    assert (whole.index, codes(whole)) == (False, [])
    longer = parse(" " * MAX_PAGE + META)
    assert (longer.index, codes(longer)) == (True, ["page-too-long"])
    assert longer.findings[0].position == 1


def test_statements_and_findings_of_a_page_are_bounded() -> None:
    """The number of tags about usage preferences is bounded, too. One finding says that there are more
    statements.
    """
    many = parse(
        "<meta name=robots>" * 900 + f"<meta name=robots content='{'a ' * 9999}'>"
    )
    assert len(many.statements) == MAX_STATEMENTS
    assert len(many.findings) <= MAX_STATEMENTS + 1
    for empty in ("<meta name=robots>", "<meta name=robots content=' &nbsp;'>"):
        whole = parse(empty * (MAX_STATEMENTS - 1) + META)
        assert (whole.index, "too-many" in codes(whole)) == (False, False)
        longer = parse(empty * MAX_STATEMENTS + META * 2)
        assert (longer.index, codes(longer)[-1]) == (True, "too-many")
    line = ", ".join(["noarchive"] * (MAX_STATEMENTS + 1))
    rules = parse(f"<meta name=robots content='{line}'>" * 2 + META)
    assert (rules.index, codes(rules)) == (True, ["too-many"])
    headers = [f"mybot: {line}".encode(), b"mybot: noindex, x"]
    rules = IndexingRules.of_page(headers, META.encode(), ("mybot",))
    assert (len(rules.statements), codes(rules)) == (MAX_STATEMENTS, ["too-many"])
    # Three findings for two statements: one for each bad value, and one for the missing comma.
    header = b"max-snippet: x; max-snippet: y, " * 999
    rules = IndexingRules.of_page([header], b"", ())
    assert len(rules.statements) == MAX_STATEMENTS
    assert (len(codes(rules)), codes(rules)[-1]) == (MAX_STATEMENTS + 1, "too-many")
    long_page = b" " * (MAX_PAGE + 1)
    rules = IndexingRules.of_page([header], long_page, ())
    assert codes(rules)[-2:] == ["too-many", "page-too-long"]
    html = '<meta name="tdm-reservation" content="1">'
    tags = parse("<meta name=tdm-reservation><link rel=license>" + html * 500).tags
    assert [(tag.name, tag.content) for tag in tags] == [("tdm-reservation", "1")] * 100


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
    prefixes = ("", "<meta name=robots content='", "<meta name=robots ")
    for prefix in prefixes[: 3 if effort.is_long else 2]:

        def page(size: int, prefix: str = prefix) -> bytes:
            return f"{prefix}{unit * (size // len(unit))}{META}".encode()

        assert_linear(lambda page: IndexingRules.parse(html=page), page)


def test_a_tag_named_robot_is_a_finding_unless_it_is_the_name_of_the_crawler() -> None:
    """A tag named ``robot`` has an effect only if ``robot`` is a product token of the crawler."""
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
    """The encoding of the page is looked up only once, not once for each tag."""
    for blank in ("\xa0", "\u3000", "\u3000noindex,"):
        if encoding == "euc-kr" and blank == "\xa0":
            continue  # The encoding does not have this character.
        tag = f'<meta name=robots content="&nbsp;{blank}">'

        def page(size: int, tag: str = tag) -> bytes:
            return (tag * (size // len(tag))).encode(encoding)

        def parse_page(page: bytes) -> IndexingRules:
            return IndexingRules.parse(html=page, encoding=encoding)

        assert_linear(parse_page, page, size=512 * 1_024)
        with patch.object(metatags, "_codec", wraps=metatags._codec) as find_codec:
            parse_page(page(64 * 1_024))
        assert find_codec.call_count <= 1 + (encoding == "utf-16")


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
def test_utf_16_and_utf_32_are_detected_by_mark_first_character_or_header(
    page: str, codec: str, declared: str | None
) -> None:
    """The encoding that the header declares is ignored if the page cannot be in this encoding. Without a
    byte order mark, UTF-16 is little-endian, unless the page begins with a null byte.
    """
    assert not parse(page.encode(codec), declared).index


@pytest.mark.parametrize("prefix", [b"\0", b"<\0", b"\0\0", b"a\0"])
def test_null_bytes_before_a_page_do_not_make_it_utf_16(prefix: bytes) -> None:
    """A null byte among the first characters is not enough to detect UTF-16."""
    assert not parse(prefix + META.encode()).index


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
def test_a_statement_is_decoded_with_the_encoding_that_header_or_page_declares(
    charset: str, codec: str, word: str
) -> None:
    tail = f'<p title="{word}">{word}</p><meta content="{word}, noindex" name=robots>'
    for head, encoding in ((f"<meta charset={charset}>", None), ("", charset)):
        rules = parse((head + tail).encode(codec), encoding)
        assert not rules.index
        assert [statement.text for statement in rules.unknown] == [word]


@pytest.mark.parametrize(
    "charset",
    ["undefined", "idna", "punycode", "base64", "utf-7", "utf-16", "unicode_escape", "x"],
)  # fmt: skip
def test_an_impossible_charset_is_ignored(charset: str) -> None:
    page = f"<meta charset={charset}><meta name=robots content='noindex, \xe9'>"
    for declared in (None, charset, charset + "\0"):
        assert not parse(page, declared).index
