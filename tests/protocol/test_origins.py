"""Origins: what one robots.txt speaks for."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.origins import origin_of


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com/a", "http://example.com"),
        ("http://example.com:80/a", "http://example.com"),
        ("https://example.com:443", "https://example.com"),
        ("http://example.com:443/", "http://example.com:443"),
        ("https://example.com:80/", "https://example.com:80"),
        ("ftp://example.com:21/f", "ftp://example.com"),
        ("HTTP://EXAMPLE.com/A", "http://example.com"),
        ("http://user:secret@example.com/", "http://example.com"),
        ("http://example.com:/", "http://example.com"),
        ("http://bücher.example/", "http://xn--bcher-kva.example"),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]"),
        ("http://[2001:db8::1]:8080/", "http://[2001:db8::1]:8080"),
        ("http://a_b.example/", "http://a_b.example"),
        ("http://192.0.2.1:8000/", "http://192.0.2.1:8000"),
    ],
)
def test_origin(url: str, expected: str) -> None:
    """Scheme, host and port count; default ports, case and userinfo are folded."""
    origin = origin_of(url)
    assert str(origin) == expected
    assert origin is not None
    assert origin.robotstxt_url == f"{expected}/robots.txt"
    assert origin_of(origin.robotstxt_url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/key",
        "data:,x",
        "file:///etc/passwd",
        "about:blank",
        "http:///path",
        "http://[",
        "http://example.com:99999/",
        "http://example.com:port/",
        "http://not a host/",
        "http://%zz/",
        "http://exa<mple.com/",
        f"http://{'ü' * 70}.example/",
        "",
    ],
)
def test_no_origin(url: str) -> None:
    """What has no robots.txt, or no place that could be asked for one, has no origin."""
    assert origin_of(url) is None
