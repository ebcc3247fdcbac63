"""What is checked before Scrapy decompresses a robots.txt: its size, and that it is whole.

What unpacks responses in Scrapy takes what it can get: of a body whose end is missing it
returns the beginning, and where that is too short, nothing. Half of a robots.txt is not
to be taken for all of it, nor nothing for permission.
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

# The largest size of a decompressed robots.txt. Compression is not requested, and the
# dialect limits what is read. This is the limit for malicious servers that compress all the
# same.
_MAX_DECOMPRESSED = 16 * 1024 * 1024

_CHUNK = 65_536


class IncompleteBody(Exception):
    """The end of a compressed body is missing, or can't be read."""


def before_decompression(request: Request, response: Response) -> None:
    """Limit the decompression of a robots.txt, and raise IncompleteBody where its end is
    missing.

    Called between download and decompression: as a limit of the download it would make long
    files fail rather than cut them.
    """
    check_complete(response)
    request.meta["download_maxsize"] = _MAX_DECOMPRESSED


def check_complete(response: Response) -> None:
    """Raise IncompleteBody where the body of *response* is the beginning of a compressed
    one.

    What is compressed in a way that is not known here, or not at all, whatever its header
    says, is left to whoever unpacks it.
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
    except Exception as error:  # noqa: BLE001  each library has errors of its own
        if size or isinstance(error, EOFError):
            why = f"the {encoding} body ends early or is damaged"
            raise IncompleteBody(why) from None


# Each of these yields the sizes of the parts that a body unpacks to, and raises EOFError
# where its end is missing.


def _gzip(body: bytes) -> Iterator[int]:
    return _inflated(body, 16 + zlib.MAX_WBITS)


def _deflate(body: bytes) -> Iterator[int]:
    # With the header of zlib or, as some servers send it, without.
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
