"""Tests of :class:`Links`, which finds the links of a page with rel values such as nofollow."""

from __future__ import annotations

import time

import pytest
from scrapy.http import HtmlResponse, Response, TextResponse
from w3lib.url import canonicalize_url

from scrapy_rep.crawl.pages.output import Links

RELS = frozenset({"nofollow", "ugc"})
PAGE = "http://example.com/dir/page"
X = "http://example.com/x"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Each URL comes with the rel of its first link, as written.
        ('<a rel="UGC x" href="/x"><a rel="nofollow" href="/x">', {X: "UGC x"}),
        # A value is found in upper or lower case, and among other values, after white space or a comma.
        ('<a rel="NoFollow" href="/x">', {X: "NoFollow"}),
        ('<a rel="external nofollow" href="/x">', {X: "external nofollow"}),
        ('<a rel="nofollow, noopener" href="/x">', {X: "nofollow, noopener"}),
        ('<a rel="ugc,external" href="/x">', {X: "ugc,external"}),
        ('<a rel="\n ugc\t" href="/x">', {X: "\n ugc\t"}),
        # Other values do not mark a link, even if they contain a value of RELS.
        ('<a rel="" href="/x"> nofollow', {}),
        ('<a rel="follow" href="/x"> nofollow', {}),
        ('<a rel="nofollowed" href="/x">', {}),
        ('<a rel="no-follow" href="/x"> nofollow', {}),
        ('<a rel="sponsored" href="/x"> nofollow', {}),
        # A URL is not returned if one of its links is unmarked. Links have the same URL even if they differ in the
        # fragment or in the order of the query.
        ('<a rel=ugc href="/x"><a href="/x">', {}),
        ('<a href="/x"><a rel=ugc href="/x">', {}),
        ('<area rel=ugc href="/x"><a href="/x">', {}),
        ('<a rel=ugc href="/x#a"><a href="/x#b">', {}),
        ('<a href="/u?b=2&a=1"><a rel=ugc href="/u?a=1&b=2">', {}),
        # Elements and URLs that are links, and some that are not.
        ('<area rel=ugc href="/x">', {X: "ugc"}),
        ('<link rel=nofollow href="/x">', {}),
        ('<a rel=ugc href="x">', {"http://example.com/dir/x": "ugc"}),
        ('<base href="http://b.example/b/"><a rel=ugc href="x">', {"http://b.example/b/x": "ugc"}),
        ('<a rel=ugc href=" ../x ">', {X: "ugc"}),
        ('<a rel=ugc href="">', {PAGE: "ugc"}),
        ('<a rel=ugc href="http://[">', {}),
        ("<a rel=ugc>nofollow", {}),
    ],
)  # fmt: skip
def test_urls_with_only_marked_links_are_found(
    body: str, expected: dict[str, str]
) -> None:
    """A link is marked if its rel attribute contains a value of RELS. ``only_marked`` returns a URL if all links to it
    are marked.
    """
    links = Links.of(HtmlResponse(PAGE, body=body.encode()))
    assert links.only_marked(RELS) == expected


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("/x?q=é", "http://example.com/x?q=%E9"),  # As response.follow() writes it.
        ("/x?q=é", "http://example.com/x?q=%C3%A9"),
        ("/é#b", "http://example.com/%C3%A9"),
        ("HTTP://Example.com/x", X),
    ],
)
def test_a_link_is_found_by_each_form_of_its_url_that_scrapy_requests(
    href: str, url: str
) -> None:
    body = f"<a href='{href}'>".encode("latin-1")
    links = Links.of(HtmlResponse(PAGE, body=body, encoding="latin-1"))
    assert canonicalize_url(url) in links.urls


@pytest.mark.newest
@pytest.mark.parametrize(
    "body",
    [
        b'<a href="/%d">' * 100_000,
        b'<a href="%s">' % (b"a&" * 2_000_000),
        b'<a href="?%s">' % ("é&".encode() * 1_000_000),
        b'<base href="/%s">' % (b"a/" * 1900) + b"<a href=../x>" * 10_000,
    ],
)
def test_the_time_to_read_the_links_of_a_page_is_bounded(body: bytes) -> None:
    """Reading stops after about a second. Then ``is_whole`` is False."""
    began = time.process_time()
    assert not Links.of(HtmlResponse(PAGE, body=body)).is_whole
    assert time.process_time() - began < 20


@pytest.mark.parametrize("response_class", [Response, TextResponse])
def test_only_html_is_searched_for_links(response_class: type[Response]) -> None:
    response = response_class(PAGE, body=b'<a rel=ugc href="/u">')
    links = Links.of(response)
    assert links.only_marked(RELS) == {}
    assert links.is_whole
