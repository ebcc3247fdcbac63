"""Links of a page that its author marks with rel values such as nofollow."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse, Response, TextResponse

from scrapy_rep.responses.links import only_marked

RELS = frozenset({"nofollow", "ugc", "sponsored"})
PAGE = "http://example.com/dir/page"


def marked(body: str, rels: frozenset[str] = RELS) -> set[str]:
    return set(only_marked(HtmlResponse(PAGE, body=body.encode()), rels))


@pytest.mark.parametrize(
    "rel",
    [
        "nofollow",
        "NoFollow",
        "external nofollow",
        "nofollow, noopener",
        "ugc,external",
        "\n sponsored\t",
    ],
)
def test_rel_as_it_is_written(rel: str) -> None:
    """A rel value counts in any case, among others, separated by spaces or commas."""
    assert marked(f'<a rel="{rel}" href="x">') == {"http://example.com/dir/x"}


@pytest.mark.parametrize("rel", ["", "follow", "nofollowed", "no-follow", "noopener"])
def test_other_values_mark_nothing(rel: str) -> None:
    """A value is compared as a whole word."""
    assert marked(f'<a rel="{rel}" href="x"> nofollow') == set()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<a rel=ugc href="/x"><a href="/x">', set()),
        ('<a href="/x"><a rel=ugc href="/x">', set()),
        ('<a rel=ugc href="/x"><a rel=nofollow href="/x">', {"http://example.com/x"}),
        ('<a rel=ugc href="/x#a"><a href="/x#b">', set()),
        ('<area rel=ugc href="/x">', {"http://example.com/x"}),
        ('<area rel=ugc href="/x"><a href="/x">', set()),
        ('<link rel=nofollow href="/x">', set()),
        ('<base href="http://other.example/b/"><a rel=ugc href="x">',
         {"http://other.example/b/x"}),
        ('<a rel=ugc href=" ../x ">', {"http://example.com/x"}),
        ('<a rel=ugc href="http://[">', set()),
        ("<a rel=ugc>nofollow", set()),
        ('<a rel=ugc href="">', {"http://example.com/dir/page"}),
    ],
)  # fmt: skip
def test_only_through_marked_links(body: str, expected: set[str]) -> None:
    """A URL counts if all links of the page to it are marked, relative to any base."""
    assert marked(body) == expected


def test_the_rel_as_evidence() -> None:
    """Each URL comes with the rel of its first link, as written."""
    body = b'<a rel="UGC x" href="/u"><a rel="nofollow" href="/u">'
    found = only_marked(HtmlResponse(PAGE, body=body), RELS)
    assert found == {"http://example.com/u": "UGC x"}


def test_only_the_values_that_are_asked_for() -> None:
    """Links with values that the setting does not list are followed."""
    body = '<a rel=ugc href="/u"><a rel=sponsored href="/s">'
    assert marked(body, frozenset({"ugc"})) == {"http://example.com/u"}


@pytest.mark.parametrize("response_class", [Response, TextResponse])
def test_what_is_no_page_has_no_links(response_class: type[Response]) -> None:
    """Only HTML is searched for links."""
    body = b'<a rel=ugc href="/u">'
    assert only_marked(response_class(PAGE, body=body), RELS) == {}


def test_urls_are_compared_in_one_form() -> None:
    """Links that differ only in the order of the query or in the fragment are the same."""
    body = b'<a href="/u?b=2&a=1#top">u</a> <a rel=ugc href="/u?a=1&b=2">'
    assert only_marked(HtmlResponse(PAGE, body=body), RELS) == {}
