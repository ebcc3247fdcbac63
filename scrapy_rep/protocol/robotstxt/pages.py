"""Extracts a robots.txt from the HTML page that a browser creates to show the file, and recognizes other HTML pages
that were sent in place of a robots.txt.

A browser shows plain text in the ``<pre>`` of an otherwise empty page. A crawl that fetches
robots.txt through a browser receives a page with one of these beginnings::

    <html><head><meta name="color-scheme" content="light dark"></head><body><pre style="...">
    <html><head><link rel="stylesheet" href="resource://...plaintext.css"></head><body><pre>
    <html><head></head><body><pre style="...">

The first is that of Chromium, the second that of Firefox, the third that of WebKit. The text follows on
the same line. Chromium may add an empty ``<div>`` after the text. If the robots.txt is empty, the page
has no ``<pre>``.
"""

import html
import re

# The maximum number of bytes of markup before the plain text in a page, and of markup after the plain text. A page with
# more markup is not one that a browser created to show plain text.
_MAX_MARKUP = 4_096

# These two expressions match the markup before and after the plain text in a page. A "<" can match only at the
# beginning of a tag, so there is only one way to divide the markup into tags, and no backtracking.
_BEFORE = re.compile(
    rb"(?:<!doctype html>\s*)?<html[^<>]*>\s*<head[^<>]*>\s*(?:<(?:meta|link)\b[^<>]*>\s*)*</head>"
    rb"\s*<body[^<>]*>(?:\s*<pre[^<>]*>|(?=\s*</body>))",
    re.IGNORECASE,
).match
_AFTER = re.compile(
    rb"\s*(?:</pre>\s*)?(?:<div[^<>]*>\s*</div>\s*)?</body>\s*</html>\s*", re.IGNORECASE
).fullmatch

# Matches a character reference, such as "&lt;" for "<". A browser that wraps plain text in a page writes the named
# references. Numeric references come from other programs.
_REFERENCE = re.compile(
    rb"&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
)

begins_page = re.compile(
    rb"\s*(?:<!--|<(?:!doctype|html|head|body|title|meta|script|\?xml)[\s>])",
    re.IGNORECASE,
).match
"""Matches the beginning of an HTML page."""

# The maximum number of bytes at the start of a body that are searched for the beginning of a page.
_MAX_BEGINNING = 1_024


def shown_text(body: bytes) -> bytes | None:
    """If *body* is an HTML page that a browser created to show plain text, return this plain text in UTF-8.
    Otherwise, return None. If *body* is cut off within the plain text, return the text up to the cut.
    """
    if not body.startswith(b"<"):
        return None
    before = _BEFORE(body, 0, _MAX_MARKUP)
    if before is None:
        return None
    start = before.end()
    # A browser that shows a text file puts the text into HTML, and encodes each "<" of the text. So the first raw "<"
    # ends the text.
    end = body.find(b"<", start)
    if end < 0:
        end = len(body)
    elif len(body) - end > _MAX_MARKUP or not _AFTER(body, end):
        return None
    return _REFERENCE.sub(_decoded, body[start:end])


def _decoded(reference: re.Match[bytes]) -> bytes:
    character = html.unescape(reference[0].decode())
    return character.encode("utf-8", "replace")


def is_page(body: bytes) -> bool:
    """Whether *body* is an HTML page that was sent in place of a robots.txt, such as the challenge of a bot wall. If
    *body* is a page that a browser created to show a robots.txt, return False (see :func:`shown_text`).
    """
    return begins_page(body, 0, _MAX_BEGINNING) is not None and shown_text(body) is None
