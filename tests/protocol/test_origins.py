"""Tests of origins: the scheme, host and port that a robots.txt applies to."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.origins import origin_of, parse_origin, split_virtual_host


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
        # DNS has no such hosts, but a proxy accepts them.
        ("http://ex%61mple.test/", "http://example.test"),
        ("http://EX%41MPLE.test/", "http://example.test"),
        ("http://a%2eb.test/", "http://a.b.test"), ("http://a+b.test/", "http://a+b.test"),
        ("http://a!b.test/", "http://a!b.test"), ("http://*.test/", "http://*.test"),
        ("http://%2a.test/", "http://*.test"),
        ("http://a~b,(c);d='e'&$.test/", "http://a~b,(c);d='e'&$.test"),
        ("http://b%C3%BCcher.example/", "http://xn--bcher-kva.example"),
        ("http://a..b/", "http://a..b"), ("http://a.test./", "http://a.test."),
        # Unusual ports, userinfo, and characters that URL parsers remove.
        ("http://a.test:080/", "http://a.test"), ("http://a.test:0/", "http://a.test:0"),
        ("http://a.test:65535/", "http://a.test:65535"),
        ("http://u:80@a.test/", "http://a.test"), ("http://a@b@a.test/", "http://a.test"),
        (" http://a.test/", "http://a.test"), ("http://a\n.test:8\t0/", "http://a.test"),
        ("http://[fe80::1%25eth0]/", "http://[fe80::1%25eth0]"),
        (f"http://a.test:{'0' * 5000}80/", "http://a.test"),
        (f"http://a.test:{'0' * 5000}/", "http://a.test:0"),
    ],
)  # fmt: skip
def test_scheme_host_and_port_make_an_origin(url: str, expected: str) -> None:
    """The default port, case and userinfo do not matter."""
    origin = origin_of(url)
    assert str(origin) == expected
    assert origin is not None
    assert origin.robotstxt_url == f"{expected}/robots.txt"
    assert origin_of(origin.robotstxt_url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/key", "data:,x", "file:///etc/passwd", "about:blank", "http:///path",
        "http://[", "http://example.com:99999/", "http://example.com:port/",
        "http://not a host/", "http://%zz/", "http://exa<mple.com/",
        f"http://{'ü' * 70}.example/", "http://example.com:+80/", "http://example.com:4_7909/",
        "http://example.com:-1/", "http://example.com: 80/", "http://example.com:80 /",
        "http://example.com:８０/", "http://example.com:65536/", "http://example.com:80:80/",
        f"http://example.com:{'9' * 5000}/", "http://a%20b.test/", "http://a%2fb.test/",
        "http://a%2Fb.test/", "http://a%3ab.test/", "http://a%40b.test/", "http://a%25b.test/",
        "http://a%00b.test/", "http://a%FFb.test/", "http://a％41.test/", "http://a|b.test/",
        "http://a\\b.test/", "http://[127.0.0.1/", "http://a[::1]/", "http://[::1]b/",
        "http://[::x]/", "http://user@/", "http://:80/", "",
        f"http://a.test:8{'0' * 5000}/",
    ],
)  # fmt: skip
def test_a_url_with_another_scheme_or_an_invalid_host_or_port_has_no_origin(
    url: str,
) -> None:
    """The schemes that have origins are http, https and ftp."""
    assert origin_of(url) is None


SERVER = origin_of("http://127.0.0.1:8080/")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("v.example", "#Host:v.example"),
        (" V.Example:80 ", "#Host:v.example"),
        ("v.example:8080", "#Host:v.example:8080"),
        ("127.0.0.1", "#Host:127.0.0.1"),
        ("[2001:db8::1]:8080", "#Host:[2001:db8::1]:8080"),
        ("127.0.0.1:8080", ""),
        ("127.0.0.1:08080", ""),
    ],
)
def test_a_host_header_of_another_site_makes_another_origin(
    header: str, expected: str
) -> None:
    """The string of such an origin can be parsed again."""
    assert SERVER is not None
    origin = SERVER.at_virtual_host(header)
    assert origin is not None
    assert str(origin) == f"{SERVER}{expected}"
    assert parse_origin(str(origin)) == origin
    name = expected.removeprefix("#Host:")
    assert split_virtual_host(origin.robotstxt_url) == (f"{SERVER}/robots.txt", name)
    assert origin.named == (origin_of(f"http://{name}") if name else SERVER)
    # The fragment of a link must not choose the robots.txt that decides on the link.
    assert origin_of(str(origin)) == SERVER


@pytest.mark.parametrize(
    "header",
    [
        "", " ", "a b", "u@a.test", "a.test/", "a.test:x", "a%2etest",
        "b\xfccher.test", "[::1",
    ],
)  # fmt: skip
def test_an_ambiguous_host_header_makes_no_origin(header: str) -> None:
    """Servers could read such a header in different ways."""
    assert SERVER is not None
    assert SERVER.at_virtual_host(header) is None
