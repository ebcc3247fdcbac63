"""Whether a compressed body is complete."""

from __future__ import annotations

import gzip
import sys
import zlib
from importlib import import_module

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


@pytest.mark.parametrize(
    ("encoding", "module"),
    [
        ("br", "brotli"),
        (
            "zstd",
            f"{'compression' if sys.version_info >= (3, 14) else 'backports'}.zstd",
        ),
    ],
)
def test_bodies_for_optional_libraries(encoding: str, module: str) -> None:
    """A truncated body is found with the optional libraries, too."""
    # Without repetitions, so that the body is decompressed in several parts.
    text = b"\n".join(b"Disallow: /%d" % (n * n) for n in range(20_000))
    body = pytest.importorskip(module).compress(text)
    check(encoding, body)
    for size in (len(body) // 2, len(body) - 1):
        with pytest.raises(IncompleteBody, match="ends early or is damaged"):
            check(encoding, body[:size])
        check(encoding, body[:size], ("download_stopped",))


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, even a truncated body is left to Scrapy."""

    def no_brotli(name: str) -> object:
        if name == "brotli":
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(decompression, "import_module", no_brotli)
    check("br", b"\x8b\x00")


@pytest.mark.parametrize("encoding", [None, "gzip", "br", "zstd", "none", "gzip, br"])
def test_what_is_left_to_others(encoding: str | None) -> None:
    """Plain text, whatever its declared encoding, and an empty body are not checked."""
    check(encoding, TEXT)
    check(encoding, b"")


def test_a_bomb_is_not_unpacked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body is decompressed only up to the limit; the next component enforces the limit."""
    monkeypatch.setattr(decompression, "_MAX_DECOMPRESSED", LIMIT)
    check("gzip", gzip.compress(b"#" * 2 * LIMIT)[:-4])
