"""Decodes a robots.txt that was sent compressed, although it was requested unencoded.

Scrapy returns what it could decode of a body whose end is missing. Then rules would be
missing, and the crawler would fetch what they disallow.
"""

from __future__ import annotations

import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt.lines import decoded_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.http import Response

# The members of a gzip file, or the frames of Zstandard. Each takes time, also an empty one, and
# 500 KiB can have 60,000 of them. Servers send one; tools that compress in parallel make one for
# each 64 KiB or more.
_MAX_MEMBERS = 1_000

# The number of characters of an unknown encoding in an error message.
_SHOWN = 80

# A module of the standard library, or a package that Scrapy 2.19 requires.
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    "x-gzip": lambda _: zlib.decompressobj(16 + zlib.MAX_WBITS),
    # With the zlib header or, as some servers send it, without.
    "deflate": lambda body: zlib.decompressobj(15 if body[0] & 15 == 8 else -15),
    "zstd": lambda _: import_module(_ZSTD).ZstdDecompressor(),
}

# Bytes that no text has. Half of the bytes of compressed data are above ASCII; a text that is
# not UTF-8 has only a few of those.
_NO_TEXT = bytes({*range(0x20), 0x7F} - {*b"\t\n\f\r"})
_MAX_ABOVE_ASCII = 0.3


class UndecodableBody(Exception):
    """A body has an unknown encoding or several, is damaged, its end is missing, or it has too
    many members."""


def decoded(response: Response, limit: int) -> Response:
    """*response* with a body that is not encoded, and without its ``Content-Encoding``. After
    *limit* bytes the rest is not decoded, so that a decompression bomb takes no memory.

    A body that is text was never encoded, or a service has decoded it, whatever the header
    says: servers send names that are not encodings (``utf-8``), names meant for a proxy
    (``aws-chunked``), and names of encodings that they did not apply. Only the body of a
    successful response matters; others are removed.

    Raises UndecodableBody. A body that was cut at the size limit may lack its end.
    """
    fields = b",".join(response.headers.getlist("Content-Encoding")).decode("latin-1")
    names = [name.strip() for name in fields.lower().split(",")]
    coding = ", ".join(name for name in names if name not in {"", "identity"})
    response.headers.pop("Content-Encoding", None)
    if response.status // 100 != 2:
        return response.replace(body=b"")
    if not coding or _is_text(response.body):
        return response
    try:
        text, is_whole = _decode(coding, response.body, limit)
    except (ImportError, KeyError):
        raise UndecodableBody(f"unsupported encoding: {coding[:_SHOWN]}") from None
    except Exception:  # noqa: BLE001  each library has its own errors
        text, is_whole = b"", False
    if not is_whole and not (text and "download_stopped" in response.flags):
        raise UndecodableBody(
            f"the {coding} body ends early, is damaged or has too many members"
        )
    return response.replace(body=text)


def _decode(coding: str, body: bytes, limit: int) -> tuple[bytes, bool]:
    """The first *limit* bytes of what *body* decodes to, with all members of a gzip file and all
    frames of Zstandard; and whether nothing of it is missing.

    Raises KeyError for an unknown or several *coding*, another error for a damaged body.
    """
    if coding == "br":
        brotli = import_module("brotli").Decompressor()
        text = brotli.process(body, output_buffer_limit=limit)
        return text[:limit], len(text) >= limit or brotli.is_finished()
    text = b""
    for _ in range(_MAX_MEMBERS):
        decoder = _DECODERS[coding](body)
        text += decoder.decompress(body, limit)
        # Zero bytes may fill up the last block of a gzip file.
        body = decoder.unused_data.lstrip(b"\0")
        if len(text) >= limit or not decoder.eof or not body:
            return text[:limit], len(text) >= limit or decoder.eof
    return b"", False


def _is_text(body: bytes) -> bool:
    """Whether *body* is text, not compressed data. It may be cut."""
    text = body
    if body.startswith((BOM_UTF16_BE, BOM_UTF16_LE)):
        text = decoded_text(body, RFC9309)
    if len(text.translate(None, _NO_TEXT)) < len(text):
        return False
    try:
        # The last character may be cut.
        getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        above = sum(byte > 0x7F for byte in text)
        return above < _MAX_ABOVE_ASCII * len(text)
    return True
