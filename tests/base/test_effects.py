"""Tests of the check whether a response is a document, to which indexing rules apply, or data. The check reads the
media type and the body.
"""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from scrapy_rep.base.effects import has_document
from scrapy_rep.protocol.indexing.rules import is_document

pytestmark = pytest.mark.newest

DOCUMENTS = [
    "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "image/png",
    "application/msword", "application/vnd.ms-excel.sheet.macroenabled.12", "audio/mpeg",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "video/mp4",
    "application/vnd.oasis.opendocument.text", "application/epub+zip", "image/svg+xml",
]  # fmt: skip
DATA = [
    "", "application/json", "application/ld+json", "application/geo+json", "application/xml",
    "text/xml", "application/rss+xml", "application/atom+xml", "application/javascript",
    "text/javascript", "text/css", "text/csv", "application/octet-stream", "application/zip",
    "application/gzip", "application/vnd.ms-fontobject", "font/woff2", "text/htm", "html",
]  # fmt: skip
XML = b'<?xml version="1.0"?>\n'
URL = "http://example.com/page"


def test_the_media_type_distinguishes_documents_from_data() -> None:
    """Pages, texts, PDFs, office files, images, sounds and videos are documents. JSON, XML, feeds, scripts, style
    sheets, archives and unknown types are data.
    """
    media_types = DOCUMENTS + DATA
    assert [name for name in media_types if is_document(name)] == DOCUMENTS
    # The body matters only for text/html and text/plain, which servers send by default.
    assert is_document("application/pdf", b"{}")
    assert is_document("application/xhtml+xml", XML + b"<x:html/>")


@pytest.mark.parametrize(
    ("body", "is_data"),
    [
        (b'{"a": 1}', True),
        (b'\xef\xbb\xbf\r\n [{"a": "<html>"}] \n', True),
        (b"{ a page of a shop with braces", False),
        (b"[Chorus] A song", False),
        (b"0", False),
        (b"", False),
        (b"<p>{}</p>", False),
        (XML + b"<urlset><url></url></urlset>", True),
        (XML + b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0"><html>', False),
        (XML + b"<!-- a comment --><HTML lang=en>", False),
        (b"<html><?xml version='1.0'?></html>", False),
        (b"{" + b" " * 1_000_000 + b"}", True),
        (b"[" * 1_000_000, False),
        # White space at the start is read only up to a limit, because the check is repeated for each item of a page. So
        # this body counts as a page.
        (b" " * 1_000_000 + b"{}", False),
    ],
)
@pytest.mark.parametrize("media_type", ["text/html", "text/plain"])
def test_a_body_of_json_or_xml_is_data_even_with_the_media_type_of_a_page(
    media_type: str, body: bytes, is_data: bool
) -> None:
    """A body counts as JSON if it begins and ends as JSON does, and as XML if it begins as XML and is no XHTML."""
    assert is_document(media_type, body) is not is_data


@pytest.mark.parametrize(
    ("response_class", "content_type", "url", "expected"),
    [
        (HtmlResponse, None, URL, True),
        (TextResponse, None, URL, True),
        (XmlResponse, None, URL, False),
        (JsonResponse, None, URL, False),
        (Response, None, URL, False),
        (HtmlResponse, "html", URL, True),
        (Response, "IMAGE/PNG; q=1", URL, True),
        (Response, "text/html, text/html", URL, True),
        (HtmlResponse, "application/json", URL, False),
        (TextResponse, "application/octet-stream", URL, False),
        (Response, b"\xff/\xff", URL, False),
        (TextResponse, "text/plain", "http://example.com/a.txt", True),
        # The sitemaps of a robots.txt are followed even if its X-Robots-Tag header says nofollow.
        (TextResponse, "text/plain", "http://example.com/robots.txt", False),
        (TextResponse, "text/plain", "http://example.com:80/robots.txt", False),
    ],
)
def test_the_content_type_takes_precedence_over_the_class_of_the_response(
    response_class: type[Response], content_type: str | None, url: str, expected: bool
) -> None:
    """If a response has no Content-Type, its class decides whether it is a document: an HtmlResponse is a document, and
    a JsonResponse is not. A robots.txt is never a document.
    """
    headers = {"Content-Type": content_type} if content_type else {}
    assert has_document(response_class(url, headers=headers)) is expected
