"""Which responses are documents. Indexing rules act on documents only.

An indexing rule says what an index may show of a page or a file. A JSON answer, a feed or a
sitemap is no page of an index: ``noindex`` on it keeps the bare file out of search results,
and says nothing about what it lists. WordPress sends ``X-Robots-Tag: noindex`` with every
answer of its REST API and of ``admin-ajax.php`` (class-wp-rest-server.php, admin-ajax.php),
and SEO plugins send ``noindex, follow`` with the sitemap that they publish for crawlers.
"""

from __future__ import annotations

import re

DOCUMENTS = (
    # Pages.
    "text/html",
    "application/xhtml+xml",
    "application/vnd.wap.xhtml+xml",
    # Texts to read. Other text types are data or code: text/csv, text/css, text/javascript.
    "text/plain",
    "text/markdown",
    # PDF, PostScript and books.
    "application/pdf",
    "application/x-pdf",
    "application/postscript",
    "application/epub+zip",
    # Office files.
    "application/rtf",
    "text/rtf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.ms-word",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    # Media.
    "image/",
    "audio/",
    "video/",
)
"""What the media types of documents begin with. Every other type is data, an unknown one and
``application/octet-stream`` included: data that is withheld by mistake is lost in silence."""

# Servers send these types by default, whatever the body is.
_DEFAULT_TYPES = frozenset({"text/html", "text/plain"})
_JSON = re.compile(rb"(?:\xef\xbb\xbf)?\s*[\[{]")
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s")
_XHTML = re.compile(rb"<(?:!doctype )?html\b", re.IGNORECASE)
_MAX_PROLOGUE = 4_096
"""The number of bytes at the start of a file in which the first bracket of JSON, or the root
element of XML, is looked for, and at the end of a JSON file in which its last bracket is. A
page can begin with megabytes of white space, and is looked at for each of its items."""


def is_document(media_type: str, body: bytes = b"") -> bool:
    """Whether a response is a document: a page, a text, an office file, an image, a sound or a
    video.

    :param media_type: its media type in lower case, without parameters; empty if unknown
    :param body: its body. JSON and XML count as data even if they are sent as ``text/html`` or
        ``text/plain``, as ``admin-ajax.php`` of WordPress does
    """
    if not media_type.startswith(DOCUMENTS):
        return False
    return media_type not in _DEFAULT_TYPES or not _is_data(body)


def _is_data(body: bytes) -> bool:
    """Whether a body is JSON, or XML other than XHTML, by how it begins and ends."""
    if _JSON.match(body, 0, _MAX_PROLOGUE) is not None:
        return body[-_MAX_PROLOGUE:].rstrip().endswith((b"]", b"}"))
    is_xml = _XML.match(body, 0, _MAX_PROLOGUE) is not None
    return is_xml and not _XHTML.search(body, 0, _MAX_PROLOGUE)
