"""The middleware that reads indexing rules, with fake responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.request import NO_CALLBACK

from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.exceptions import FileDenied
from scrapy_rep.fetching.request import RobotsTxtRequest
from tests.fakes import fake_crawler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.indexing.rules import IndexingRules

URL = "http://example.com/page"
NOINDEX_TAG = b'<meta name="robots" content="noindex">'


def middleware(**settings: Any) -> tuple[IndexingMiddleware, Crawler]:
    crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
    return IndexingMiddleware.from_crawler(crawler), crawler


def page(body: bytes = b"", *tags: str, content_type: str = "text/html") -> Response:
    classes = {"text/html": HtmlResponse, "text/plain": TextResponse}
    response_class = classes.get(content_type.partition(";")[0], Response)
    headers = {"Content-Type": content_type, "X-Robots-Tag": list(tags)}
    return response_class(URL, body=body, headers=headers)


def read(
    response: Response, request: Request | None = None, **settings: Any
) -> tuple[IndexingRules, list[str]]:
    mw, _ = middleware(**settings)
    request = request or Request(URL, headers={"User-Agent": "mybot"})
    mw.process_response(request, response)
    return request.meta["rep_indexing"], response.flags


def test_header_and_meta_are_added_up() -> None:
    """Rules of both sources are combined, and the flags of the response summarize them."""
    rules, flags = read(page(NOINDEX_TAG, "nofollow", "max-snippet: 20"))
    assert (rules.index, rules.follow, rules.max_snippet) == (False, False, 20)
    assert flags == ["noindex", "nofollow"]


def test_a_response_that_says_nothing() -> None:
    """Spider code can read the rules of every response."""
    rules, flags = read(page(b"<html>"))
    assert (rules.index, rules.follow, flags) == (True, True, [])


@pytest.mark.parametrize("content_type", ["text/plain", "application/pdf", "image/png"])
def test_only_pages_have_meta_tags(content_type: str) -> None:
    """The header counts for every content type, meta tags only in HTML."""
    rules, _ = read(page(NOINDEX_TAG, "nofollow", content_type=content_type))
    assert (rules.index, rules.follow) == (True, False)


@pytest.mark.parametrize(
    ("settings", "index"),
    [({}, False), ({"ROBOTSTXT_USER_AGENT": "other"}, True)],
)
def test_whose_statements(settings: dict[str, Any], index: bool) -> None:
    """Statements for the crawler's own token count, and those for others do not."""
    rules, _ = read(page(b"", "mybot: noindex"), **settings)
    assert rules.index is index


def test_declared_encoding() -> None:
    """The page is decoded with the encoding that the header declares."""
    body = NOINDEX_TAG.decode().encode("utf-16-le")
    rules, _ = read(page(body, content_type="text/html; charset=utf-16le"))
    assert rules.index is False


def test_our_own_requests_are_not_read() -> None:
    """The package's own requests for robots.txt are not read as pages."""
    request = RobotsTxtRequest(URL)
    mw, _ = middleware()
    response = page(b"", "noindex")
    mw.process_response(request, response)
    assert response.flags == []


@pytest.mark.parametrize(
    ("settings", "meta", "refused"),
    [
        ({}, {}, True),
        ({}, {"dont_obey_noindex": True}, False),
        ({"REP_NOINDEX": "annotate"}, {}, False),
        ({"REP_NOINDEX": "ignore"}, {}, False),
    ],
)
def test_media_with_noindex(
    settings: dict[str, Any], meta: dict[str, Any], refused: bool
) -> None:
    """A file with noindex does not reach the pipeline."""
    mw, crawler = middleware(**settings)
    request = Request(URL, callback=NO_CALLBACK, meta=meta)
    response = page(b"%PDF", "noindex", content_type="application/pdf")
    if refused:
        with pytest.raises(FileDenied) as caught:
            mw.process_response(request, response)
        assert isinstance(caught.value, IgnoreRequest)
        assert caught.value.record.reason == "noindex"
    else:
        assert mw.process_response(request, response) is response
    count = crawler.stats.get_value("rep/noindex/media/noindex")
    assert count == (1 if refused else None)


@pytest.mark.parametrize(
    ("content_type", "refused"), [("image/png", True), ("application/pdf", False)]
)
def test_an_image_that_says_noimageindex(content_type: str, refused: bool) -> None:
    """An image whose own header says noimageindex does not reach the pipeline."""
    mw, crawler = middleware()
    response = page(b"", "noimageindex", content_type=content_type)
    assert mw.process_response(Request(URL), response) is response
    request = Request(URL, callback=NO_CALLBACK)
    if refused:
        with pytest.raises(FileDenied, match="noimageindex"):
            mw.process_response(request, response)
    else:
        assert mw.process_response(request, response) is response
    count = crawler.stats.get_value("rep/noindex/media/noimageindex")
    assert count == (1 if refused else None)
