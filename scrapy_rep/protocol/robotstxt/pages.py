"""Recognises HTML pages in place of a robots.txt: the page in which a browser shows its text, and others.

A browser shows plain text as the only ``<pre>`` of an otherwise empty page. A crawl that fetches
robots.txt through a browser gets that page::

    <html><head><meta name="color-scheme" content="light dark"></head><body><pre style="...">
    <html><head><link rel="stylesheet" href="resource://...plaintext.css"></head><body><pre>
    <html><head></head><body><pre style="...">

The first form is that of Chromium, the second of Firefox, the last of WebKit, each on one line with
the text. Behind the text, Chromium may add an empty ``<div>``. For an empty file, there is no ``<pre>``.
"""

import html
import re

# How many bytes before and behind the text are read.
_MAX_AROUND = 4_096

# Match the page before and behind the text. Each part begins with a "<", which no part before it
# matches, so there is no backtracking.
_BEFORE = re.compile(
    rb"(?:<!doctype html>\s*)?<html[^<>]*>\s*<head[^<>]*>\s*(?:<(?:meta|link)\b[^<>]*>\s*)*</head>"
    rb"\s*<body[^<>]*>(?:\s*<pre[^<>]*>|(?=\s*</body>))",
    re.IGNORECASE,
).match
_BEHIND = re.compile(
    rb"\s*(?:</pre>\s*)?(?:<div[^<>]*>\s*</div>\s*)?</body>\s*</html>\s*", re.IGNORECASE
).fullmatch

# The references of HTML that a browser writes, and numbers, which other programs write.
_REFERENCE = re.compile(
    rb"&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
)

begins_page = re.compile(
    rb"\s*(?:<!--|<(?:!doctype|html|head|body|title|meta|script|\?xml)[\s>])",
    re.IGNORECASE,
).match
"""Match the beginning of an HTML page."""

# How many bytes are searched for the beginning of a page.
_MAX_BEGINNING = 1_024


def shown_text(body: bytes) -> bytes | None:
    """Return the text that a browser shows in the page *body*, in UTF-8; None if *body* is no such page.
    If *body* is cut off within the text, return the text up to the cut.
    """
    if not body.startswith(b"<"):
        return None
    before = _BEFORE(body, 0, _MAX_AROUND)
    if before is None:
        return None
    start = before.end()
    # A browser encodes each "<" of the text.
    end = body.find(b"<", start)
    if end < 0:
        end = len(body)
    elif len(body) - end > _MAX_AROUND or not _BEHIND(body, end):
        return None
    return _REFERENCE.sub(_decoded, body[start:end])


def _decoded(reference: re.Match[bytes]) -> bytes:
    character = html.unescape(reference[0].decode())
    return character.encode("utf-8", "replace")


def is_page(body: bytes) -> bool:
    """Whether *body* is an HTML page, such as the challenge of a bot wall, and neither a robots.txt nor
    the page in which a browser shows one.
    """
    return begins_page(body, 0, _MAX_BEGINNING) is not None and shown_text(body) is None
