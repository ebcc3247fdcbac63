"""Whether a compressed body is complete."""

from __future__ import annotations

import gzip
import zlib

import pytest
from scrapy.http import Response

from scrapy_rep.fetching import decompression
from scrapy_rep.fetching.decompression import IncompleteBody, check_complete

pytestmark = pytest.mark.newest

TEXT = b"User-agent: *\nDisallow: /private\n" * 1_000
LIMIT = 1_000_000

raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
PACKED = {
    "gzip": gzip.compress(TEXT),
    " GZip ": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT) + gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "Deflate": raw.compress(TEXT) + raw.flush(),
}


def check(encoding: str | None, body: bytes, flags: tuple[str, ...] = ()) -> None:
    headers = {} if encoding is None else {"Content-Encoding": encoding}
    url = "https://example.com/robots.txt"
    check_complete(Response(url, headers=headers, body=body, flags=flags))


@pytest.mark.parametrize(("encoding", "body"), PACKED.items())
def test_bodies(encoding: str, body: bytes) -> None:
    """A body is complete with its end, or if the download stopped at the limit."""
    check(encoding, body)
    cut = len(gzip.compress(TEXT)) // 2
    for broken in (body[:cut], body[:cut] + b"\xff" * 99, body[:1]):
        with pytest.raises(IncompleteBody, match="ends early or is damaged"):
            check(encoding, broken)
        check(encoding, broken, ("download_stopped",))


@pytest.mark.parametrize("encoding", [None, "gzip", "br", "zstd", "none", "gzip, br"])
def test_what_is_left_to_others(encoding: str | None) -> None:
    """Plain text, whatever its declared encoding, and an empty body are not checked."""
    check(encoding, TEXT)
    check(encoding, b"")


def test_a_bomb_is_not_unpacked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body is decompressed only up to the limit; the next component enforces the limit."""
    monkeypatch.setattr(decompression, "_MAX_DECOMPRESSED", LIMIT)
    check("gzip", gzip.compress(b"#" * 2 * LIMIT)[:-4])
