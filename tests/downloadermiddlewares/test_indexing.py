"""The middleware that reads what responses allow, with fake responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.request import NO_CALLBACK

from scrapy_rep import stats
from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.exceptions import FileDenied
from scrapy_rep.fetching.request import RobotsTxtRequest
from scrapy_rep.protocol.indexing.metatags import MAX_PAGE
from tests.fakes import fake_crawler, records

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_rep.protocol.indexing.rules import IndexingRules

URL = "http://example.com/page"
NOINDEX_TAG = b'<meta name="robots" content="noindex">'
CLASSES = {"text/html": HtmlResponse, "text/plain": TextResponse}


def middleware(**settings: Any) -> tuple[IndexingMiddleware, Crawler]:
    crawler = fake_crawler({"USER_AGENT": "mybot", **settings})
    return IndexingMiddleware.from_crawler(crawler), crawler


def page(
    body: bytes = b"", *tags: str, content_type: str = "text/html", **fields: str
) -> Response:
    response_class = CLASSES.get(content_type.partition(";")[0], Response)
    headers = {"Content-Type": content_type, "X-Robots-Tag": list(tags), **fields}
    return response_class(URL, body=body, headers=headers)


def read(response: Response, **settings: Any) -> tuple[IndexingRules, list[str]]:
    mw, _ = middleware(**settings)
    request = Request(URL, headers={"User-Agent": "mybot"})
    mw.process_response(request, response)
    return request.meta["rep_indexing"], response.flags


@pytest.mark.parametrize(
    ("body", "tags", "expected"),
    [
        (b"<html>", [], (True, True, None)),
        # Rules of both sources are combined.
        (NOINDEX_TAG, ["nofollow", "max-snippet: 20"], (False, False, 20)),
    ],
)
def test_rules_of_a_page(
    body: bytes, tags: list[str], expected: tuple[bool, bool, int | None]
) -> None:
    """Spider code can read the rules of every response, and its flags summarize them."""
    rules, flags = read(page(body, *tags))
    assert (rules.index, rules.follow, rules.max_snippet) == expected
    assert flags == ["noindex"] * (not rules.index) + ["nofollow"] * (not rules.follow)


def test_the_end_of_a_long_page() -> None:
    """Pages that are too long to be read to their end are counted in the stats."""
    mw, crawler = middleware()
    for size in (MAX_PAGE, MAX_PAGE + 1):
        mw.process_response(Request(URL), page(b" " * size))
    assert crawler.stats.get_value(stats.PAGE_TOO_LONG) == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/pdf", "image/png"])
def test_only_pages_have_meta_tags(content_type: str) -> None:
    """The header counts for every content type, meta tags only in HTML."""
    rules, _ = read(page(NOINDEX_TAG, "nofollow", content_type=content_type))
    assert (rules.index, rules.follow) == (True, False)


@pytest.mark.parametrize(
    ("settings", "addressed"),
    [
        ({}, {"mybot"}),
        ({"ROBOTSTXT_USER_AGENT": "searcher"}, {"searcher"}),
        # A purpose without its own token has that of the crawler.
        (
            {
                "REP_PURPOSES": ["search", "train-ai", "tdm"],
                "REP_AGENTS": {"search": "searcher", "train-ai": "trainer"},
            },
            {"mybot", "searcher", "trainer"},
        ),
    ],
)
def test_whose_statements(settings: dict[str, Any], addressed: set[str]) -> None:
    """Statements for the crawler's own tokens, with those of its purposes, count; those for others
    do not.
    """
    for name in ("mybot", "searcher", "trainer", "other"):
        rules, _ = read(page(b"", f"{name}: noindex"), **settings)
        assert rules.index is (name not in addressed)


def test_declared_encoding() -> None:
    """The page is decoded with the encoding that the header declares."""
    body = NOINDEX_TAG.decode().encode("utf-16-le")
    rules, _ = read(page(body, content_type="text/html; charset=utf-16le"))
    assert rules.index is False


def test_our_own_requests_are_not_read() -> None:
    """The package's own requests for robots.txt are not read as pages."""
    mw, _ = middleware()
    response = page(b"", "noindex")
    mw.process_response(RobotsTxtRequest(URL), response)
    assert response.flags == []


PDF = "application/pdf"
TRAINING = {"REP_PURPOSES": ["train-ai"]}
DENIES = {"Content-Usage": "train-ai=n"}


@pytest.mark.parametrize(
    ("fields", "settings", "meta", "refused"),
    [
        ({"X-Robots-Tag": "noindex", "Content-Type": PDF}, {}, {}, "noindex"),
        ({"X-Robots-Tag": "noindex"}, {}, {"dont_obey_noindex": True}, None),
        ({"X-Robots-Tag": "noindex"}, {"REP_NOINDEX": "annotate"}, {}, None),
        ({"X-Robots-Tag": "noindex"}, {"REP_NOINDEX": "ignore"}, {}, None),
        ({"X-Robots-Tag": "noindex", "Content-Type": "text/xml"}, {}, {}, None),
        ({"X-Robots-Tag": "noimageindex"}, {}, {}, "noimageindex"),
        ({"X-Robots-Tag": "noimageindex", "Content-Type": PDF}, {}, {}, None),
        (DENIES, TRAINING, {}, "train-ai"),
        (DENIES, {"REP_PURPOSES": ["search"]}, {}, None),
        (DENIES, {}, {}, None),
        (DENIES, {**TRAINING, "REP_USAGE": "annotate"}, {}, None),
        ({"tdm-reservation": "1"}, {"REP_PURPOSES": ["search", "tdm"]}, {}, "tdm"),
        ({"X-Robots-Tag": "noimageai"}, TRAINING, {}, "train-ai"),
        ({"X-Robots-Tag": "noimageai", "Content-Type": PDF}, TRAINING, {}, None),
        ({}, {"REP_PURPOSES": ["search"], "REP_USAGE_UNKNOWN": "deny"}, {}, "search"),
    ],
)
def test_files_for_pipelines(
    fields: dict[str, str],
    settings: dict[str, Any],
    meta: dict[str, Any],
    refused: str | None,
) -> None:
    """A media pipeline does not get a file whose own headers say noindex, an image that says
    noimageindex, nor a file that must not serve a purpose of the crawl. Spiders get them.
    """
    mw, crawler = middleware(**settings)
    seen = records(crawler)
    response = Response(URL, headers={"Content-Type": "image/png", **fields})
    assert mw.process_response(Request(URL), response) is response
    request = Request(URL, callback=NO_CALLBACK, meta=meta)
    if refused is None:
        assert mw.process_response(request, response) is response
        assert seen == []
        return
    with pytest.raises(FileDenied) as caught:
        mw.process_response(request, response)
    assert isinstance(caught.value, IgnoreRequest)
    (record,) = seen
    assert record is caught.value.record
    assert (record.reason, record.verdict, record.url) == (refused, "dropped", URL)
    is_rule = refused.startswith("no")
    assert (record.layer == "usage") is not is_rule
    kind = "noindex" if is_rule else "usage"
    assert crawler.stats.get_value(f"rep/{kind}/media/{refused}") == 1
