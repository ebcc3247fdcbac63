"""Meta tags that are read from a page, whatever its markup."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.indexing.metatags import MAX_PAGE
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.indexing.statements import MAX_STATEMENTS, MAX_TEXT
from tests.protocol.growth import assert_linear

META = '<meta name="robots" content="noindex">'


def read(html: str) -> IndexingRules:
    return IndexingRules.parse((), html.encode(), ("mybot", "my_bot-2"))


COUNTS = {
    "in the head": f"<html><head>{META}</head><body></body>",
    "in the body": f"<p>{META}</p>",
    "last of all": f"{'<p title=x>text</p>' * 500}{META}",
    "upper case": '<META NAME="ROBOTS" CONTENT="NOINDEX">',
    "mixed case": '<mEtA nAmE="rObOtS" cOnTeNt="nOiNdEx">',
    "content first": '<meta content="noindex" name="robots">',
    "other attributes": '<meta id="x" data-y name="robots" lang=en content="noindex"/>',
    "many other attributes": f"<meta {'a ' * 60}name=robots content=noindex>",
    "a long attribute": f'<meta a="{"x" * 2000}" name=robots content=noindex>',
    "behind other properties": (
        '<meta property="a" content="b"><meta content="noindex" name="robots">'
    ),
    "behind a property": '<meta property="a" name="robots" content="noindex">',
    "behind very many others": f"{'<meta name=x content=y>' * 2000}{META}",
    "slashes": '<meta/name="robots"/content="noindex"/>',
    "single quotes": "<meta name='robots' content='noindex'>",
    "no quotes": "<meta name=robots content=noindex>",
    "white space": '<meta\n\tname =\f"robots"\r\ncontent= " noindex ">',
    "white space in the name": '<meta name=" robots " content="noindex">',
    "own token": '<meta name="MyBot" content="noindex">',
    "own token with marks": '<meta name="my_bot-2" content="noindex">',
    "entities in the name": '<meta name="&#114;ob&#x6f;ts" content="noindex">',
    "entities in the content": '<meta name="robots" content="no&#105;ndex&#44;x">',
    "an entity without end": '<meta name="robots" content="&#110oindex">',
    "an entity of many digits": (
        f'<meta name="robots" content="noindex &#{"1" * 5000};">'
    ),
    "a > in quotes": '<meta content="noindex" title="a > b" name="robots">',
    "a > in another tag": f'<p title=">"{META}">{META}',
    "no-break space": '<meta name="robots" content="nofollow,\xa0noindex">',
    "in noscript": f"<head><noscript>{META}</noscript>",
    "behind a comment": f"<!-- x -->{META}",
    "behind an empty comment": f"<!-->{META}-->",
    "behind another empty comment": f"<!--->{META}-->",
    "behind a comment with a bang": f"<!-- --!>{META}",
    "behind a comment in a comment": f"<!-- <!-- x -->{META}",
    "behind a doctype": f'<!DOCTYPE html PUBLIC "-//W3C//DTD HTML 4.01//EN" "x">{META}',
    "behind CDATA": f"<![CDATA[x>{META}",
    "behind an instruction": f"<?xml version='1.0'?>{META}",
    "behind a script": f"<script>'<p>'</script>{META}",
    "behind a script, its end odd": f"<SCRIPT>x</script\n a='>'>{META}",
    "behind a script with a comment": f"<script><!-- x </script>{META}",
    "behind a script in a script": (
        f"<script><!-- <script> </script> --></script>{META}"
    ),
    "behind a style": f"<style>p > a {{}}</style>{META}",
    "behind a title": f"<title>a < b</title>{META}",
    "behind a template": f"<template><template></template>x</template>{META}",
    "behind the end of a template": f"</template>{META}",
    "behind a quote in text": f"<p>it's 5 < 6 \" {META}",
    "behind a quote in a tag": f"<p class=it's>{META}",
    "behind a quote as an attribute": f'<p ">{META}',
    "behind an empty value": f"<p class=>{META}",
    "behind an end tag with a quote": f"</p title='>'>{META}",
    "behind <>": f"<> </> < a >{META}",
    "first of two names": (
        '<meta name="robots" name="x" content="noindex" content="index">'
    ),
    "two tags": '<meta name="robots" content="all"><meta name=robots content=noindex>',
}


@pytest.mark.parametrize("html", COUNTS.values(), ids=COUNTS)
def test_counts(html: str) -> None:
    """A meta tag counts wherever an HTML parser sees one, in any spelling."""
    assert not read(html).index


IGNORED = {
    "in a comment": f"<!-- {META} -->",
    "in a comment with a tag's end": f"<!--> --> <!-- > {META} -->",
    "in a comment that does not end": f"<!-- {META} --",
    "in a comment that seems to end": f"<!--!> {META} -->",
    "in a template": f"<template>{META}</template>",
    "in a template in a template": f"<template><template></template>{META}</template>",
    "in a template that does not end": f"<template>{META}",
    "in a script": f"<script>document.write('{META}')</script>",
    "in a script that does not end": f"<script>{META}",
    "in a script's comment": f"<script><!-- <script> </script>{META} --></script>",
    "in a nested script that does not end": f"<script><!-- <script> </script>{META}",
    "in a style": f"<style>{META}</style>",
    "in a title": f"<title>{META}</title>",
    "in a title of upper case": f"<TITLE>{META}</Title>",
    "in a textarea": f"<textarea>{META}</textarea>",
    "in an iframe": f"<iframe>{META}</iframe>",
    "in noembed": f"<noembed>{META}</noembed>",
    "in noframes": f"<noframes>{META}</noframes>",
    "in xmp": f"<xmp>{META}</xmp>",
    "in plaintext": f"<plaintext></plaintext>{META}",
    "behind an end that is none": f"<title></titles>{META}</title>",
    "in an attribute": f"<p title='{META}'>",
    "in an attribute without end": f"<p title='{META}",
    "in a doctype": "<!DOCTYPE <meta name=robots content=noindex>",
    "in an end tag": '</meta name="robots" content="noindex">',
    "another name": '<meta name="robot" content="noindex">',
    "a longer name": '<meta name="robots-policy" content="noindex">',
    "another agent": '<meta name="googlebot" content="noindex">',
    "second of two names": '<meta name="x" name="robots" content="noindex">',
    "behind very many others, in a comment": (
        f"<!--{'<meta name=x content=y>' * 2000}{META}-->"
    ),
    "self-closing text": f"<title/>{META}",
    "a self-closing frame": f"<iframe src=x />{META}",
    "another attribute": '<meta property="robots" content="noindex">',
    "http-equiv": '<meta http-equiv="robots" content="noindex">',
    "another element": '<metadata name="robots" content="noindex">',
    "a link's name": '<link rel="no-license" name="robots" content="noindex">',
    "a name in the name": '<meta data-name="robots" content="noindex">',
    "no closing quote": '<meta name="robots content="noindex">',
    "cut in the name": '<p><meta name="rob',
    "cut in the content": '<p><meta name="robots" content="noindex',
    "cut before the end": '<p><meta name="robots" content="noindex"',
    "content without a value": "<meta name=robots content=>",
    "a zero byte in the name": '<meta name="rob\0ots" content="noindex">',
    "empty": "",
}


@pytest.mark.parametrize("html", IGNORED.values(), ids=IGNORED)
def test_ignored(html: str) -> None:
    """Bytes that look like a robots meta tag are ignored where an HTML parser sees no tag."""
    assert read(html) is IndexingRules.parse()


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("noindex nofollow", ["noindex", "nofollow"]),
        ("noindex,nofollow\n,\tnoai", ["noindex", "nofollow", "noai"]),
        ("max-snippet : 5 noindex", ["max-snippet : 5", "noindex"]),
        (
            "unavailable_after: Fri, 25 Jun 2010 15:00:00 PST noindex",
            ["unavailable_after: Fri, 25 Jun 2010 15:00:00 PST", "noindex"],
        ),
        (
            "unavailable_after: 25 Jun 2010 15:00:00 NONE",
            ["unavailable_after: 25 Jun 2010 15:00:00", "NONE"],
        ),
        # Like "max-image-preview: none" to a crawler that does not know it.
        ("max-something: none", ["max-something: none"]),
        ("googlebot: noindex, nofollow", ["googlebot: noindex", "nofollow"]),
        ("all: noindex", ["all:", "noindex"]),
        (": noindex :", ["noindex :"]),
    ],
)
def test_content(content: str, texts: list[str]) -> None:
    """In a meta tag, white space separates statements too, but not a name from its value."""
    rules = read(f'<meta name="robots" content="{content}">')
    assert [each.text for each in rules.statements if each.text] == texts


def test_evidence() -> None:
    """A statement has the line of its tag, and the agent that it addresses."""
    html = (
        '<p>é</p>\r\n\r<link rel=license href="/l">\n'
        '<meta name="MyBot"\ncontent="noindex"><meta name=ROBOTS\n content=noai>'
    )
    rules = read(html)
    assert [(each.agent, each.position) for each in rules.statements] == [
        ("MyBot", 4),
        (None, 5),
    ]
    assert [each.line for each in rules.tags] == [3]


def test_the_line_in_a_wide_encoding() -> None:
    """The line is the same in every encoding."""
    page = f"<p>\u4e2d</p>\n\n{META}"
    for encoding in ("utf-8", "utf-16", "utf-16-be", "iso2022_jp", "shift_jis"):
        octets = page.encode(encoding)
        rules = IndexingRules.parse((), octets, "mybot", encoding=encoding)
        assert [each.position for each in rules.statements] == [3], encoding


def test_unclosed_quote() -> None:
    """Content with an unclosed quote is read up to the next tags, and is a finding."""
    rules = read('<meta name="robots" content="noindex>\n<link rel="canonical">')
    assert not rules.index
    assert [finding.code for finding in rules.findings] == ["unclosed-quote"]


def test_no_content() -> None:
    """A robots meta tag without content is a finding."""
    rules = read("<meta name=robots value=noindex>")
    assert rules == IndexingRules()
    assert [finding.code for finding in rules.findings] == ["no-content"]


def test_bounds() -> None:
    """A very long page takes a bounded amount of memory."""
    rules = read(
        "<meta name=robots>" * 5000 + f"<meta name=robots content='{'a ' * 9999}'>"
    )
    assert len(rules.statements) == MAX_STATEMENTS
    assert len(rules.findings) <= MAX_STATEMENTS + 1
    rules = read(f"<meta name=robots content='{' ' * MAX_TEXT}noindex'>")
    assert rules.index
    assert [finding.code for finding in rules.findings] == ["too-long"]


def test_the_end_of_a_long_page() -> None:
    """The first 4 MiB of a page are read, however long its server makes it. A finding says so."""
    whole, cut = (read(" " * size + META) for size in (MAX_PAGE - len(META), MAX_PAGE))
    assert (whole.index, whole.findings) == (False, ())
    assert (cut.index, [one.code for one in cut.findings]) == (True, ["long-page"])


def test_tags_beyond_the_limit() -> None:
    """Statements beyond the limit are not read, and one finding says so."""
    many = ", ".join(["noarchive"] * (MAX_STATEMENTS + 1))
    rules = read(f"<meta name=robots content='{many}'>" * 2 + META)
    assert rules.index
    assert [finding.code for finding in rules.findings] == ["too-many"]
    headers = [f"mybot: {many}".encode(), b"mybot: noindex, x"]
    both = IndexingRules.parse(headers, META.encode(), ("mybot",))
    assert len(both.statements) == MAX_STATEMENTS
    assert [finding.code for finding in both.findings] == ["too-many"]


def test_tags_of_use() -> None:
    """The number of tags about use is limited; tags without a value do not count."""
    tag = '<meta name="tdm-reservation" content="1">'
    rules = read("<meta name=tdm-reservation>" + tag * 500)
    assert {(each.name, each.content) for each in rules.tags} == {
        ("tdm-reservation", "1")
    }
    assert len(rules.tags) == 100
    assert read("<meta name=tdm-reservation><link rel=license>").tags == ()


@pytest.mark.parametrize(
    "unit",
    [
        "<", "<!--", "<!-->", "</", "<meta", "<meta ", "<meta>", "<meta name='",
        '<meta name="', "<meta a=\"' b='\"", "<meta a='\" c=' d=' b=\"",
        "<meta a b c d e f", "<meta name=robots content=noindex>",
        "<meta name=robots content='unavailable_after:1 1 1 1 1 1 1 1 1'>", "<script>",
        "<script></script>", "<script><!--", "<title></title>", "</titlex",
        "<template>", '<a b="', " a='", "name=&", "\0", "\x1b",
    ],
)  # fmt: skip
@pytest.mark.unmeasured
def test_hostile_page(unit: str) -> None:
    """Very many incomplete tags take linear time."""
    for prefix in ("", "<meta name=robots ", "<meta name=robots content='"):

        def page(size: int, prefix: str = prefix) -> bytes:
            return f"{prefix}{unit * (size // len(unit))}{META}".encode()

        assert_linear(lambda page: IndexingRules.parse(html=page), page)
