"""Decodes a robots.txt that was sent compressed, although it was requested unencoded.

Scrapy returns what it could decode of a body whose end is missing. Then rules would be
missing, and the crawler would fetch what they disallow.
"""

from __future__ import annotations

import sys
import zlib
from functools import partial
from gzip import GzipFile
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING

from scrapy_rep.fetching.answers import is_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

_CHUNK = 65_536

# The number of characters of an unknown encoding in an error message.
_SHOWN = 80

# A module of the standard library, or a package that Scrapy 2.19 requires.
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


class UndecodableBody(Exception):
    """A body has an unknown encoding or several, is damaged, or its end is missing."""


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
    except Exception:  # noqa: BLE001  each library has its own errors
        if not body or "download_stopped" not in response.flags:
            raise UndecodableBody(
                f"the {coding} body ends early or is damaged"
            ) from None
    return response.replace(body=body[:limit])


def _parts(coding: str, body: bytes, limit: int) -> Iterator[bytes]:
    """Decode *body* in parts, with all members of a gzip file and all frames of Zstandard.

    Raises LookupError for an unknown or several *coding*, another error for a damaged body or
    one without its end.
    """
    if coding in {"gzip", "x-gzip"}:
        yield from iter(partial(GzipFile(fileobj=BytesIO(body)).read1, _CHUNK), b"")
    elif coding == "zstd":
        file = import_module(_ZSTD).ZstdFile(BytesIO(body))
        yield from iter(partial(file.read1, _CHUNK), b"")
    elif coding == "deflate":
        # With the zlib header or, as some servers send it, without.
        has_header = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        unpacker = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        yield unpacker.decompress(body, limit)
        if not unpacker.eof:
            raise EOFError
    elif coding == "br":
        decoder = import_module("brotli").Decompressor()
        yield decoder.process(body, output_buffer_limit=limit)
        if not decoder.is_finished():
            raise EOFError
    else:
        raise LookupError(coding)
