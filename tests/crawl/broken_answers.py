"""Broken answers of a server, byte for byte."""

from __future__ import annotations

import sys
import zlib
from itertools import chain, repeat
from typing import TYPE_CHECKING

from tests.crawl.answers import Answer, Then

if TYPE_CHECKING:
    from collections.abc import Iterable

RULES = b"User-agent: *\nDisallow: /private\n"
PERMITS = b"User-agent: *\nAllow: /\n"

STATUS = b"HTTP/1.1 200 OK\r\n"
CHUNKED = STATUS + b"Transfer-Encoding: chunked\r\n\r\n"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"


def raw(*parts: bytes | Then) -> Answer:
    return Answer(raw=lambda: parts)


def head(*fields: bytes, length: int | None = None) -> bytes:
    """Return the head of an answer, with or without a Content-Length."""
    sized = [] if length is None else [b"Content-Length: %d" % length]
    return STATUS + b"".join(field + b"\r\n" for field in (*fields, *sized)) + b"\r\n"


def whole(body: bytes, *fields: bytes) -> bytes:
    """Return a correct answer."""
    return head(*fields, length=len(body)) + body


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def byte_by_byte(octets: bytes) -> Answer:
    return Answer(raw=lambda: (octets[at : at + 1] for at in range(len(octets))))


def endless(octets: bytes, filling: bytes) -> Answer:
    """Return an answer of *octets*, and then *filling* until the
    client closes the connection.
    """
    return Answer(raw=lambda: chain([octets], repeat(filling)))


def stages(stop: Then | None) -> dict[str, Answer]:
    """Return answers that end in each of their parts: with *stop*, or with an orderly
    close.

    The part of robots.txt that is sent permits everything. The crawler must not rely on it.
    """
    end = () if stop is None else (stop,)
    begun = head(length=len(PERMITS) + 1000)
    return {
        "before the status": raw(*end),
        "in the status": raw(STATUS[:9], *end),
        "in the headers": raw(STATUS + b"Content-Le", *end),
        "in the body": raw(begun + PERMITS, *end),
        "in a chunk": raw(CHUNKED + b"ffff\r\n" + PERMITS, *end),
        "between chunks": raw(CHUNKED + chunk(PERMITS), *end),
    }


def compressed(body: Iterable[bytes]) -> dict[str, bytes]:
    """Return a body in each compression that Scrapy accepts."""
    # The newest Scrapy requires these packages; the oldest one does not.
    import brotli  # noqa: PLC0415

    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415
    else:
        from backports import zstd  # noqa: PLC0415

    parts = list(body)
    gzip, br = zlib.compressobj(1, zlib.DEFLATED, 31), brotli.Compressor(quality=1)
    deflate, zst = zlib.compressobj(1), zstd.ZstdCompressor(level=1)
    return {
        "gzip": b"".join([*map(gzip.compress, parts), gzip.flush()]),
        "deflate": b"".join([*map(deflate.compress, parts), deflate.flush()]),
        "br": b"".join([*map(br.process, parts), br.finish()]),
        "zstd": b"".join([*map(zst.compress, parts), zst.flush()]),
    }
