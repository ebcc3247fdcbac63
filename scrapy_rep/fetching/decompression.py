"""Decodes a robots.txt that was sent compressed, although it was requested unencoded.

Scrapy returns what it could decode of a body whose end is missing. Then rules would be
missing, and the crawler would fetch what they disallow.
"""

from __future__ import annotations

import sys
import zlib
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scrapy_rep.fetching.answers import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.http import Response

# The members of a gzip file, or the frames of Zstandard. Each takes time, also an empty one, and
# 500 KiB can have 60,000 of them. Servers send one; tools that compress in parallel make one for
# each 64 KiB or more.
_MAX_MEMBERS = 1_000

# The number of characters of an unknown encoding in an error message.
_SHOWN = 80

# A module of the standard library, or a package that Scrapy 2.19 requires.
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


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
    fields = b",".join(response.headers.getlist("Content-Encoding")).split(b",")
    names = [field.strip().lower().decode("latin-1") for field in fields]
    coding = ", ".join(name for name in names if name not in {"", "identity"})
    response.headers.pop("Content-Encoding", None)
    if response.status // 100 != 2:
        return response.replace(body=b"")
    if not coding or is_text(response.body):
        return response
    body = b""
    try:
        for part in _parts(coding, response.body, limit):
            body += part
            if len(body) >= limit:
                break
    except (ImportError, LookupError):
        raise UndecodableBody(f"unsupported encoding: {coding[:_SHOWN]}") from None
    except UndecodableBody:
        raise
    except Exception:  # noqa: BLE001  each library has its own errors
        if not body or "download_stopped" not in response.flags:
            raise UndecodableBody(
                f"the {coding} body ends early or is damaged"
            ) from None
    return response.replace(body=body[:limit])


def _parts(coding: str, body: bytes, limit: int) -> Iterator[bytes]:
    """Decode *body* in parts, with all members of a gzip file and all frames of Zstandard.
    Each part has at most *limit* bytes; if it has that many, the next one must not be read.

    Raises LookupError for an unknown or several *coding*, another error for a damaged body or
    one without its end, and UndecodableBody for one with too many members.
    """
    if coding == "br":
        decoder = import_module("brotli").Decompressor()
        yield decoder.process(body, output_buffer_limit=limit)
        if not decoder.is_finished():
            raise EOFError
        return
    unpacker = _unpacker_of(coding, body)
    for _ in range(_MAX_MEMBERS):
        member = unpacker()
        yield member.decompress(body, limit)
        if not member.eof:
            raise EOFError
        # Zero bytes may fill up the last block of a gzip file.
        body = member.unused_data.lstrip(b"\0")
        if not body or coding == "deflate":
            return
    raise UndecodableBody(f"the {coding} body has more than {_MAX_MEMBERS} members")


def _unpacker_of(coding: str, body: bytes) -> Callable[[], Any]:
    if coding in {"gzip", "x-gzip"}:
        return partial(zlib.decompressobj, 16 + zlib.MAX_WBITS)
    if coding == "zstd":
        unpacker: Callable[[], Any] = import_module(_ZSTD).ZstdDecompressor
        return unpacker
    if coding == "deflate":
        # With the zlib header or, as some servers send it, without.
        has_header = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        return partial(
            zlib.decompressobj, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
        )
    raise LookupError(coding)
