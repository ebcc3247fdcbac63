"""Content-Encoding headers that do not fit the body."""

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
    """A body that is text in any character encoding is not decoded, whatever Content-Encoding
    says.
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
    """A body with control characters, or with too many bytes above ASCII, counts as encoded."""
    assert is_encoded(response(body, "br"))
    kept = without_false_encoding(response(body, "br"))
    assert kept.headers["Content-Encoding"] == b"br"


@pytest.mark.parametrize("encodings", [(), ("identity",), ("Identity, ", "identity")])
def test_no_encoding_is_named(encodings: tuple[str, ...]) -> None:
    """Without an encoding in the header, no body counts as encoded."""
    assert not is_encoded(response(BROTLI_LIKE, *encodings))
