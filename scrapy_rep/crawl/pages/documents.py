"""Whether indexing rules act on a response of a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import HtmlResponse, JsonResponse, TextResponse, XmlResponse

from scrapy_rep.protocol.indexing.rules import is_document
from scrapy_rep.protocol.request_target import is_robotstxt

if TYPE_CHECKING:
    from scrapy.http import Headers, Response

_TYPES_OF_CLASSES = (
    (HtmlResponse, "text/html"),
    (XmlResponse, "application/xml"),
    (JsonResponse, "application/json"),
    (TextResponse, "text/plain"),
)


def has_document(response: Response) -> bool:
    """Whether *response* is a document, so that its indexing rules have an effect. Those of data
    are only exposed and recorded.

    Without a Content-Type, the class that Scrapy chose for the response decides. A robots.txt
    is data, although it is plain text: a SitemapSpider reads it.
    """
    if is_robotstxt(response.url):
        return False
    declared = _media_type(response.headers)
    classes = (name for each, name in _TYPES_OF_CLASSES if isinstance(response, each))
    return is_document(declared or next(classes, ""), response.body)


def _media_type(headers: Headers) -> str:
    """The media type in lower case; empty if the headers have none."""
    content_type = headers.get(b"Content-Type") or b""
    name = content_type.partition(b";")[0].partition(b",")[0]
    return name.decode("latin-1").strip().lower() if b"/" in name else ""
