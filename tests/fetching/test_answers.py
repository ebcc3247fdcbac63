"""Whether a body is in the encoding that its header names."""

from __future__ import annotations

import gzip

import pytest
from scrapy.http import Response

from scrapy_rep.fetching.answers import is_encoded, without_false_encoding

pytestmark = pytest.mark.newest

TEXT = "User-agent: *\nDisallow: /straße\n"
BROTLI_LIKE = bytes(range(0x80, 0x100)) + TEXT.encode()


def response(body: bytes, *encodings: str) -> Response:
    headers = {"Content-Encoding": list(encodings)}
    return Response("https://example.com/robots.txt", headers=headers, body=body)


BODIES = {
    "empty": b"",
    "utf-8": TEXT.encode(),
    "cut in its last character": TEXT.encode()[:-3],
    "latin-1": TEXT.encode("latin-1"),
    "utf-16": TEXT.encode("utf-16"),
    "utf-8 with a mark": TEXT.encode("utf-8-sig"),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_text_was_never_encoded(body: bytes) -> None:
    """A body that is text, in any encoding of characters, is read as it is, whatever the
    header says.
    """
    for named in ("gzip", "aws-chunked", "utf-8"):
        assert not is_encoded(response(body, named))
    found = without_false_encoding(response(body, "gzip"))
    assert "Content-Encoding" not in found.headers
    assert found.body == body


@pytest.mark.parametrize(
    "body", [gzip.compress(TEXT.encode()), BROTLI_LIKE], ids=["gzip", "brotli"]
)
def test_what_is_no_text_is_encoded(body: bytes) -> None:
    """Bytes that no text has, or too many above ASCII, are left to the decompression."""
    assert is_encoded(response(body, "br"))
    kept = without_false_encoding(response(body, "br"))
    assert kept.headers["Content-Encoding"] == b"br"


@pytest.mark.parametrize("encodings", [(), ("identity",), ("Identity, ", "identity")])
def test_no_encoding_is_named(encodings: tuple[str, ...]) -> None:
    """A body of any bytes is not encoded where the header names no encoding."""
    assert not is_encoded(response(BROTLI_LIKE, *encodings))
