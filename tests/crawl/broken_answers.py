"""Answers of servers as raw bytes, most of them broken or incomplete."""

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
    """Return an answer that sends *parts* one after the other."""
    return Answer(raw=lambda: parts)


def head(*fields: bytes, length: int | None = None) -> bytes:
    """Return a status line and headers: *fields*, and Content-Length if *length* is given."""
    content_length = [] if length is None else [b"Content-Length: %d" % length]
    lines = (field + b"\r\n" for field in (*fields, *content_length))
    return STATUS + b"".join(lines) + b"\r\n"


def whole(body: bytes, *fields: bytes) -> bytes:
    """Return a complete and correct answer."""
    return head(*fields, length=len(body)) + body


def chunk(body: bytes) -> bytes:
    """Return one chunk of the chunked transfer coding."""
    return b"%x\r\n%b\r\n" % (len(body), body)


def byte_by_byte(octets: bytes) -> Answer:
    """Return an answer that sends each byte of *octets* on its own."""
    return Answer(
        raw=lambda: (octets[index : index + 1] for index in range(len(octets)))
    )


def endless(octets: bytes, filling: bytes) -> Answer:
    """Return an answer that sends *octets*, and then *filling* again and again until the client closes the
    connection.
    """
    return Answer(raw=lambda: chain([octets], repeat(filling)))


def stages(stop: Then | None) -> dict[str, Answer]:
    """Return answers that break off early, by the place where they break off.

    They end with *stop*, or with an orderly close of the connection if *stop* is None.

    The part of robots.txt that they send permits everything. A crawler must not rely on this part.
    """
    end = () if stop is None else (stop,)
    incomplete = head(length=len(PERMITS) + 1000)
    return {
        "before the status": raw(*end),
        "in the status": raw(STATUS[:9], *end),
        "in the headers": raw(STATUS + b"Content-Le", *end),
        "in the body": raw(incomplete + PERMITS, *end),
        "in a chunk": raw(CHUNKED + b"ffff\r\n" + PERMITS, *end),
        "between chunks": raw(CHUNKED + chunk(PERMITS), *end),
    }


def compressed(body: Iterable[bytes]) -> dict[str, bytes]:
    """Return *body* in each compression that Scrapy accepts. The keys are Content-Encodings, such as "gzip".

    *body* is an iterable of the parts of the body.
    """
    # Only the newest Scrapy requires these packages, so other tests must be able to import this module without them.
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
