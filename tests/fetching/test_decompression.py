"""Tests of :func:`decoded`, which decodes a body with a Content-Encoding. The body can be complete, truncated, damaged,
in an unknown encoding, or not encoded at all.
"""

from __future__ import annotations

import gzip
import random
import sys
import zlib

import pytest
from scrapy.http import Response

from scrapy_rep.crawl.fetching.request import UndecodableBody, decoded

pytestmark = pytest.mark.newest

URL = "https://example.com/robots.txt"
TEXT = "User-agent: *\nDisallow: /straße\n"
LIMIT = 512_001
# A skippable frame of Zstandard, with two bytes of data that are not part of the text.
SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18\x02\0\0\0\xff\xff"

# A text of different numbers, which compresses badly. So half of the compressed text decodes to a large part of LONG.
LONG = b"\n".join(b"Disallow: /%d" % (n * n) for n in range(20_000))
ZSTD = f"{'compression' if sys.version_info >= (3, 14) else 'backports'}.zstd"
GZIPPED = ("gzip", " GZip, ", "identity, gzip", "gzip, identity", "x-gzip")
MODULES = dict.fromkeys(GZIPPED, "gzip") | {
    "deflate": "zlib",
    "br": "brotli",
    "zstd": ZSTD,
}
"""Maps each Content-Encoding to the module that compresses in this encoding."""


def compress(encoding: str, text: bytes) -> bytes:
    """Return *text* in *encoding*. The test is skipped if the library for the encoding is not installed."""
    fast = {"quality": 5} if encoding == "br" else {}
    body: bytes = pytest.importorskip(MODULES[encoding]).compress(text, **fast)
    return body


def decode(
    body: bytes, *encodings: str, flags: tuple[str, ...] = (), status: int = 200
) -> bytes:
    """Decode a response with *body* and the Content-Encoding headers *encodings*. Return the decoded body. Check that
    the decoded response has no Content-Encoding header.
    """
    headers = {"Content-Encoding": list(encodings)}
    response = Response(URL, status, headers=headers, body=body, flags=flags)
    result = decoded(response, LIMIT)
    assert "Content-Encoding" not in result.headers
    return bytes(result.body)


def check_truncated(encoding: str, body: bytes) -> None:
    """Check that *body* is decoded to LONG. Check that a truncated body is refused, and that its text is returned if
    the download was stopped at the size limit.
    """
    assert decode(body, encoding) == LONG
    for size in (30, len(body) // 2, len(body) - 200):
        for damaged in (body[:size], body[:size] + b"\xff" * 99):
            with pytest.raises(UndecodableBody, match="ends early, is damaged"):
                decode(damaged, encoding)
    part = decode(body[: len(body) // 2], encoding, flags=("download_stopped",))
    assert LONG.startswith(part)
    assert len(part) > 1_000


@pytest.mark.parametrize("encoding", MODULES)
def test_a_truncated_body_is_refused_unless_the_size_limit_has_cut_it(
    encoding: str,
) -> None:
    check_truncated(encoding, compress(encoding, LONG))


def test_deflate_without_its_header_is_decoded() -> None:
    """Some servers send deflate data without the zlib header that RFC 9110 requires."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    check_truncated("Deflate", raw.compress(LONG) + raw.flush())


@pytest.mark.parametrize(
    ("encoding", "before", "after"),
    [("gzip", b"", bytes(99)), ("zstd", SKIPPABLE_FRAME, SKIPPABLE_FRAME)],
)
def test_all_members_of_a_body_are_decoded(
    encoding: str, before: bytes, after: bytes
) -> None:
    """A gzip body can have several members, and a Zstandard body several frames. Zero bytes after the last gzip member
    are skipped, and so are the skippable frames of Zstandard.
    """
    body = compress(encoding, LONG[:9_000]) + compress(encoding, LONG[9_000:])
    check_truncated(encoding, before + body)
    assert decode(before + body + after, encoding) == LONG


@pytest.mark.parametrize("flags", [(), ("download_stopped",)])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_very_many_members_is_refused(
    encoding: str, flags: tuple[str, ...]
) -> None:
    """Each member takes time to decode. So a body with more members than compression tools write is refused, even if
    the size limit has cut it. A thousand members are still decoded.
    """
    member = compress(encoding, b"#\n")
    assert decode(member * 1_000, encoding) == b"#\n" * 1_000
    with pytest.raises(UndecodableBody, match="has too many members"):
        decode(member * (LIMIT // len(member)), encoding, flags=flags)


def test_an_encoding_without_its_library_is_unsupported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    with pytest.raises(UndecodableBody, match="unsupported encoding: br"):
        decode(b"\x8b\x00", "br")


@pytest.mark.parametrize(
    "header",
    ["gzip, gzip", "deflate, gzip", "br, br", "utf-8, gzip", "lzma", "x" * 9_999],
)
@pytest.mark.parametrize("flags", [(), ("download_stopped",)])
def test_a_combination_of_encodings_or_an_unknown_encoding_is_refused(
    header: str, flags: tuple[str, ...]
) -> None:
    """The encodings may be in one Content-Encoding header or in several. A body that the size limit has cut is refused
    too.
    """
    body = gzip.compress(gzip.compress(LONG))
    for headers in ([header], header.split(", ")):
        with pytest.raises(UndecodableBody, match="unsupported encoding: ") as error:
            decode(body, *headers, flags=flags)
        assert len(str(error.value)) < 200


def test_a_body_that_is_not_compressed_is_refused_even_at_the_size_limit() -> None:
    noise = random.Random(9309).randbytes(LIMIT)
    for encoding in MODULES:
        with pytest.raises(UndecodableBody):
            decode(noise, encoding, flags=("download_stopped",))


@pytest.mark.parametrize("encoding", MODULES)
def test_a_decompression_bomb_is_decoded_only_up_to_the_size_limit(
    encoding: str,
) -> None:
    text = b"User-agent: *\n" + b"#" * 8_000_000
    assert decode(compress(encoding, text), encoding) == text[:LIMIT]


@pytest.mark.parametrize("status", [301, 404, 503])
def test_the_body_of_an_unsuccessful_response_is_removed(status: int) -> None:
    """The body is removed without decoding, so an invalid body is not an error."""
    for encoding in ("gzip", "lzma", "gzip, gzip"):
        assert decode(gzip.compress(LONG)[:99], encoding, status=status) == b""


BODIES = {
    "empty": b"",
    "utf-8": TEXT.encode(),
    "truncated in the last character": TEXT.encode()[:-3],
    "latin-1": TEXT.encode("latin-1"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-8 with a byte order mark": TEXT.encode("utf-8-sig"),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("encoding", ["gzip", "aws-chunked", "utf-8", "gzip, gzip"])
def test_plain_text_is_not_decoded_despite_its_content_encoding(
    body: bytes, encoding: str
) -> None:
    """Some servers send a wrong Content-Encoding with plain text. The text can be in any character encoding."""
    assert decode(body, encoding) == body


@pytest.mark.parametrize("encodings", [(), ("identity",), ("Identity, ", "identity")])
def test_a_body_without_content_encoding_is_not_decoded(
    encodings: tuple[str, ...],
) -> None:
    """The header may be missing, or name only the encoding ``identity``."""
    body = bytes(range(0x80, 0x100)) + TEXT.encode()
    assert decode(body, *encodings) == body
