"""Bodies with a Content-Encoding: complete, cut, damaged, unknown, or not encoded at all."""

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
# A frame of Zstandard with two bytes that are no text.
SKIPPED = b"\x50\x2a\x4d\x18\x02\0\0\0\xff\xff"

# Without repetitions, so that a part of the packed text is a part of the text.
LONG = b"\n".join(b"Disallow: /%d" % (n * n) for n in range(20_000))
ZSTD = f"{'compression' if sys.version_info >= (3, 14) else 'backports'}.zstd"
GZIPPED = ("gzip", " GZip, ", "identity, gzip", "gzip, identity", "x-gzip")
MODULES = dict.fromkeys(GZIPPED, "gzip") | {
    "deflate": "zlib",
    "br": "brotli",
    "zstd": ZSTD,
}
"""The module that compresses for each Content-Encoding."""


def compress(encoding: str, text: bytes) -> bytes:
    """Return *text* in *encoding*. The test is skipped where its library is not installed."""
    fast = {"quality": 5} if encoding == "br" else {}
    packed: bytes = pytest.importorskip(MODULES[encoding]).compress(text, **fast)
    return packed


def decode(
    body: bytes, *encodings: str, flags: tuple[str, ...] = (), status: int = 200
) -> bytes:
    """Return the decoded body of a response, whose header must be gone."""
    headers = {"Content-Encoding": list(encodings)}
    response = Response(URL, status, headers=headers, body=body, flags=flags)
    plain = decoded(response, LIMIT)
    assert "Content-Encoding" not in plain.headers
    return bytes(plain.body)


def check_cuts(encoding: str, body: bytes) -> None:
    assert decode(body, encoding) == LONG
    for size in (30, len(body) // 2, len(body) - 200):
        for cut in (body[:size], body[:size] + b"\xff" * 99):
            with pytest.raises(UndecodableBody, match="ends early, is damaged"):
                decode(cut, encoding)
    part = decode(body[: len(body) // 2], encoding, flags=("download_stopped",))
    assert LONG.startswith(part)
    assert len(part) > 1_000


@pytest.mark.parametrize("encoding", MODULES)
def test_a_body_is_decoded_to_its_end_and_refused_without_it(encoding: str) -> None:
    """A body is decoded to its end. One without its end is refused, unless the download was stopped
    at the size limit.
    """
    check_cuts(encoding, compress(encoding, LONG))


def test_deflate_without_its_header_is_decoded() -> None:
    """Some servers send deflate without the header of zlib."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    check_cuts("Deflate", raw.compress(LONG) + raw.flush())


@pytest.mark.parametrize(
    ("encoding", "before", "after"),
    [("gzip", b"", bytes(99)), ("zstd", SKIPPED, SKIPPED)],
)
def test_all_members_of_a_body_are_decoded(
    encoding: str, before: bytes, after: bytes
) -> None:
    """All members of a gzip file and all frames of Zstandard are decoded; zero bytes at the end of
    the one, and frames of the other that are no text, are skipped.
    """
    body = compress(encoding, LONG[:9_000]) + compress(encoding, LONG[9_000:])
    check_cuts(encoding, before + body)
    assert decode(before + body + after, encoding) == LONG


@pytest.mark.parametrize("flags", [(), ("download_stopped",)])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_very_many_members_is_refused(
    encoding: str, flags: tuple[str, ...]
) -> None:
    """A body of more members than any tool makes is refused, since each takes time; also if the
    size limit has cut it. As many as tools make are decoded.
    """
    member = compress(encoding, b"#\n")
    assert decode(member * 1_000, encoding) == b"#\n" * 1_000
    with pytest.raises(UndecodableBody, match="has too many members"):
        decode(member * (LIMIT // len(member)), encoding, flags=flags)


def test_an_encoding_without_its_library_is_unsupported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without its library, an encoding is unsupported."""
    monkeypatch.setitem(sys.modules, "brotli", None)
    with pytest.raises(UndecodableBody, match="unsupported encoding: br"):
        decode(b"\x8b\x00", "br")


@pytest.mark.parametrize(
    "header",
    ["gzip, gzip", "deflate, gzip", "br, br", "utf-8, gzip", "lzma", "x" * 9_999],
)
@pytest.mark.parametrize("flags", [(), ("download_stopped",)])
def test_several_or_unknown_encodings_are_unsupported(
    header: str, flags: tuple[str, ...]
) -> None:
    """Several encodings, in one header or two, or one that is unknown, are unsupported, also in a
    part of a body.
    """
    body = gzip.compress(gzip.compress(LONG))
    for headers in ([header], header.split(", ")):
        with pytest.raises(UndecodableBody, match="unsupported encoding: ") as error:
            decode(body, *headers, flags=flags)
        assert len(str(error.value)) < 200


def test_what_is_no_compressed_data_is_refused_at_the_limit_too() -> None:
    """What is no compressed data is refused, also if the size limit has cut it."""
    noise = random.Random(9309).randbytes(LIMIT)
    for encoding in MODULES:
        with pytest.raises(UndecodableBody):
            decode(noise, encoding, flags=("download_stopped",))


@pytest.mark.parametrize("encoding", MODULES)
def test_no_more_of_a_bomb_is_decoded_than_is_read_of_a_file(encoding: str) -> None:
    """Of a decompression bomb, no more is decoded than is read of any file."""
    text = b"User-agent: *\n" + b"#" * 8_000_000
    assert decode(compress(encoding, text), encoding) == text[:LIMIT]


@pytest.mark.parametrize("status", [301, 404, 503])
def test_the_body_of_an_error_is_removed(status: int) -> None:
    """The body of a response without success is not decoded, but removed."""
    for encoding in ("gzip", "lzma", "gzip, gzip"):
        assert decode(gzip.compress(LONG)[:99], encoding, status=status) == b""


BODIES = {
    "empty": b"",
    "utf-8": TEXT.encode(),
    "cut in its last character": TEXT.encode()[:-3],
    "latin-1": TEXT.encode("latin-1"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-8 with a mark": TEXT.encode("utf-8-sig"),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("named", ["gzip", "aws-chunked", "utf-8", "gzip, gzip"])
def test_text_is_not_decoded_whatever_content_encoding_says(
    body: bytes, named: str
) -> None:
    """A body that is text in any character encoding is not decoded, whatever Content-Encoding
    says.
    """
    assert decode(body, named) == body


@pytest.mark.parametrize("encodings", [(), ("identity",), ("Identity, ", "identity")])
def test_without_content_encoding_nothing_is_decoded(
    encodings: tuple[str, ...],
) -> None:
    """Without an encoding in the header, no body counts as encoded."""
    body = bytes(range(0x80, 0x100)) + TEXT.encode()
    assert decode(body, *encodings) == body
