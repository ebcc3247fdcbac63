"""Which responses of a crawl are documents."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from scrapy_rep.responses.documents import has_document

pytestmark = pytest.mark.newest

URL = "http://example.com/page"


@pytest.mark.parametrize(
    ("response_class", "content_type", "expected"),
    [
        (HtmlResponse, None, True),
        (TextResponse, None, True),
        (XmlResponse, None, False),
        (JsonResponse, None, False),
        (Response, None, False),
        (HtmlResponse, "html", True),
        (Response, "IMAGE/PNG; q=1", True),
        (Response, "text/html, text/html", True),
        (HtmlResponse, "application/json", False),
        (TextResponse, "application/octet-stream", False),
        (Response, b"\xff/\xff", False),
    ],
)
def test_the_type_and_the_class(
    response_class: type[Response], content_type: str | None, expected: bool
) -> None:
    """The Content-Type decides; without one, what Scrapy took the response for."""
    headers = {"Content-Type": content_type} if content_type else {}
    assert has_document(response_class(URL, headers=headers)) is expected


def test_a_robotstxt_is_no_document() -> None:
    """A robots.txt that says nofollow leads to its sitemaps nevertheless."""
    headers = {"Content-Type": "text/plain"}
    assert has_document(TextResponse("http://example.com/a.txt", headers=headers))
    for url in ("http://example.com/robots.txt", "http://example.com:80/robots.txt"):
        assert not has_document(TextResponse(url, headers=headers))
