"""Checks that a compressed robots.txt is complete, before Scrapy decompresses it.

If the end of a compressed body is missing, Scrapy returns what it could decompress, or an
empty body. Then rules would be missing, and the crawler would fetch what they disallow.
"""

from __future__ import annotations

import sys
import zlib
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.http import Response

# The limit for a decompressed robots.txt, in bytes. The crawler does not request compression,
# and the dialect limits how much is parsed; this limit stops a decompression bomb.
_MAX_DECOMPRESSED = 16 * 1024 * 1024

_CHUNK = 65_536


class IncompleteBody(Exception):
    """The end of a compressed body is missing or damaged."""


def before_decompression(request: Request, response: Response) -> None:
    """Limit the decompression of a robots.txt, and raise IncompleteBody if its end is
    missing or damaged.

    Called between download and decompression, since a limit that is set before the download
    makes long files fail instead of cutting them.
    """
    check_complete(response)
    request.meta["download_maxsize"] = _MAX_DECOMPRESSED


def check_complete(response: Response) -> None:
    """Raise IncompleteBody if the body of *response* is compressed, and its end is missing
    or damaged.

    Does nothing if the download was stopped at the size limit. Leaves the body to Scrapy if
    its encoding is unknown here, or is not the one that the header names.
    """
    named = response.headers.get("Content-Encoding") or b""
    encoding = named.strip().lower().decode("latin-1")
    is_cut = "download_stopped" in response.flags
    if encoding not in _SIZES or is_cut or not response.body:
        return
    size = 0
    try:
        for part in _SIZES[encoding](response.body):
            size += part
            if size > _MAX_DECOMPRESSED:
                return
    except ImportError:
        return
    except Exception as error:  # noqa: BLE001  each library has its own errors
        if size or isinstance(error, EOFError):
            why = f"the {encoding} body ends early or is damaged"
            raise IncompleteBody(why) from None


# Each of these functions decompresses a body in parts, yields the size of each part, and
# raises EOFError if the end of the body is missing.


def _gzip(body: bytes) -> Iterator[int]:
    return _inflated(body, 16 + zlib.MAX_WBITS)


def _deflate(body: bytes) -> Iterator[int]:
    # With the zlib header or, as some servers send it, without.
    has_header = body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    return _inflated(body, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _inflated(body: bytes, bits: int) -> Iterator[int]:
    unpacker = zlib.decompressobj(bits)
    while body and not unpacker.eof:
        yield len(unpacker.decompress(body, _CHUNK))
        body = unpacker.unconsumed_tail
    if not unpacker.eof:
        raise EOFError


def _brotli(body: bytes) -> Iterator[int]:
    unpacker = import_module("brotli").Decompressor()
    while not unpacker.is_finished():
        part = unpacker.process(body, output_buffer_limit=_CHUNK)
        if not part and not body:
            raise EOFError
        body = b""
        yield len(part)


def _zstd(body: bytes) -> Iterator[int]:
    package = "compression" if sys.version_info >= (3, 14) else "backports"
    unpacker = import_module(f"{package}.zstd").ZstdDecompressor()
    while not unpacker.eof:
        part = unpacker.decompress(body, _CHUNK)
        if not part and not body:
            raise EOFError
        body = b""
        yield len(part)


_SIZES: dict[str, Callable[[bytes], Iterator[int]]] = {
    "br": _brotli,
    "deflate": _deflate,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "zstd": _zstd,
}
