"""Which responses are documents, by their media type and body."""

from __future__ import annotations

import time

import pytest

from scrapy_rep.protocol.indexing.documents import is_document


@pytest.mark.parametrize(
    "media_type",
    [
        "text/html", "application/xhtml+xml", "text/plain", "application/pdf",
        "application/msword", "application/vnd.ms-excel.sheet.macroenabled.12",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.oasis.opendocument.text", "application/epub+zip",
        "image/png", "image/svg+xml", "audio/mpeg", "video/mp4",
    ],
)  # fmt: skip
def test_documents(media_type: str) -> None:
    """Pages, texts, PDF, office files, images, sounds and videos are documents."""
    assert is_document(media_type)


@pytest.mark.parametrize(
    "media_type",
    [
        "", "application/json", "application/ld+json", "application/geo+json",
        "application/xml", "text/xml", "application/rss+xml", "application/atom+xml",
        "application/javascript", "text/javascript", "text/css", "text/csv",
        "application/octet-stream", "application/zip", "application/gzip",
        "application/vnd.ms-fontobject", "font/woff2", "text/htm", "html",
    ],
)  # fmt: skip
def test_data(media_type: str) -> None:
    """JSON, XML, feeds, scripts, style sheets, archives and unknown types are data."""
    assert not is_document(media_type)


XML = b'<?xml version="1.0"?>\n'


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
    ],
)
@pytest.mark.parametrize("media_type", ["text/html", "text/plain"])
def test_what_servers_take_for_a_page(
    media_type: str, body: bytes, is_data: bool
) -> None:
    """A body that begins and ends as JSON, or begins as XML and is no XHTML, is data, although
    its server calls it a page or a text.
    """
    assert is_document(media_type, body) is not is_data


def test_only_default_types_are_doubted() -> None:
    """A type that a server has to choose counts whatever the body is."""
    assert is_document("application/pdf", b"{}")
    assert is_document("application/xhtml+xml", XML + b"<x:html/>")


def test_much_white_space() -> None:
    """Megabytes of white space at the start of a page do not slow down each of its items."""
    page = b" " * 4_000_000 + b"<html></html>"
    began = time.monotonic()
    assert all(is_document("text/html", page) for _ in range(100))
    assert time.monotonic() - began < 5
