"""RFC 9309: percent-encoding, special characters, other records, and the examples."""

from __future__ import annotations

import pytest
from w3lib.url import safe_url_string

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309
from tests.protocol.robotstxt.asking import ask, matches

# 2.2.2 The allow and disallow lines: percent-encoding


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        # The examples: path, encoded path, path to match.
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz", True),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar", True),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https%3a%2f%2ffoo.bar", True),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", True),
        ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar", True),
        ("/foo/bar/ツ", "/foo/bar/ツ", True),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%E3%83%84", "/foo/bar/ツ", True),
        ("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/%62%61%7a", True),
        # Unreserved characters match raw and encoded, reserved delimiters do not.
        ("/~a", "/%7Ea", True), ("/%7ea", "/~a", True), ("/%2D%2e%5F", "/-._", True),
        ("/a/b", "/a%2Fb", False), ("/a%2Fb", "/a/b", False),
        ("/a%2Fb", "/a%2fb", True), ("/a?b=%26", "/a?b=&", False),
        ("/a?b=&", "/a?b=%26", False), ("/a%3Fb", "/a?b", False),
        ("/a%23b", "/a%23b", True), ("/a%23b", "/a#b", False),
        # Characters that cannot stand in a URI are encoded.
        ("/a b", "/a%20b", True), ("/a%20b", "/a b", True), ('/"', "/%22", True),
        ("/<", "/%3c", True), ("/|", "/%7C", True), ("/\x01", "/%01", True),
        # A "%" that encodes nothing is itself, encoded or not, or begins an encoded octet.
        ("/100%", "/100%25", True), ("/100%25", "/100%", True), ("/%zz", "/%25zz", True),
        ("/%2", "/%252", True), ("/%2541", "/%41", False), ("/%", "/%E3%83%84", True),
        ("/a%", "/a%20b", True), ("/*%2", "/a/%2Fb", True), ("/%*3$", "/%e3", True),
        ("/%25", "/%20", False), ("/%E", "/a", False), ("/%", "/%61", False),
    ],
)  # fmt: skip
def test_2_2_2_octets_are_compared_encoded(
    pattern: str, path: str, expected: bool
) -> None:
    """Pattern and URL are brought to one encoding before they are compared."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("character", ":@!'(),;[]{}|^<>\"\\` ")
@pytest.mark.parametrize("place", ["/a{}b", "/a?b={}c"])
def test_2_2_2_characters_that_delimit_nothing(character: str, place: str) -> None:
    """Reserved characters that delimit nothing match raw and encoded, like illegal ones."""
    raw, encoded = place.format(character), place.format(f"%{ord(character):02x}")
    for pattern, path in (
        (raw, raw),
        (raw, encoded),
        (encoded, raw),
        (encoded, encoded),
    ):
        assert matches(pattern, path), (pattern, path)


@pytest.mark.parametrize("character", "/?&=+")
@pytest.mark.parametrize("place", ["/a{}b", "/*{}", "/*b{}c"])
def test_2_2_2_delimiters_are_not_their_encoded_forms(
    character: str, place: str
) -> None:
    """A delimiter differs from its encoded form."""
    encoded = f"%{ord(character):02X}"
    raw_path, encoded_path = f"/a{character}b{character}c", f"/a{encoded}b{encoded}c"
    assert matches(place.format(character), raw_path)
    assert matches(place.format(encoded), encoded_path)
    assert not matches(place.format(character), encoded_path)
    assert not matches(place.format(encoded), raw_path)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/a?b=/c", "/a?b=%2Fc", True), ("/a?b=%2Fc", "/a?b=/c", True),
        ("/a?b=%2fc", "/a?b=%2Fc", True), ("/a?b=/c$", "/a?b=%2fc", True),
        ("/a?b=/c$", "/a?b=%2fcd", False), ("/*?b=/c", "/a/x?b=%2Fc", True),
        ("/*?*/c", "/a?b=%2Fc", True), ("*?*%2Fc*/d$", "/a?b=/c%2Fd", True),
        ("/a?*=/*/c", "/a?b=%2F%2Fc", True), ("/a?b=/c?d=/e", "/a?b=%2Fc?d=%2Fe", True),
        # Before the question mark, and without one, raw and encoded slashes differ.
        ("/a%2Fb?c=/d", "/a/b?c=/d", False), ("/a/b?c=/d", "/a%2Fb?c=%2Fd", False),
        ("/a%2Fb?c=/d", "/a%2Fb?c=%2Fd", True), ("/*/c", "/a?b=%2Fc", False),
        ("/*%2Fc", "/a?b=%2Fc", True), ("/*%2Fc", "/a?b=/c", False),
        # Any "?" of the URL may match the one of the pattern.
        ("/*/x?y=/z", "/a?b=%2Fx?y=/z", False), ("/*/x?y=/z", "/a?b=/x?y=%2Fz", True),
        ("/*%2Fx?y=/z", "/a?b=%2Fx?y=/z", True), ("/*%3F/c", "/a%3F%2Fc", False),
    ],
)  # fmt: skip
def test_2_2_2_slash_behind_the_question_mark_of_a_pattern(
    pattern: str, path: str, expected: bool
) -> None:
    """After the question mark of a pattern, raw and encoded slashes match (RFC 3986, 3.4)."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    "text",
    [
        "/a b", "/100%", "/%zz?%", "/a[0]?b={|}", "/a:b@c!d'e(f),g;h", "/a?b=%2Fc/%3F",
        "/%2f/%3a?%26=%2B+&", "/ツ?é=%C3%a9", "/*", "/a*b$c", '/a\\b^`<>"', "/a//b?//",
    ],
)  # fmt: skip
def test_2_2_2_what_is_written_alike_matches(text: str) -> None:
    """A rule matches a URL of the same text. Only a final ``$`` means something else."""
    assert matches(text, text)


def test_2_2_2_an_encoded_octet_that_is_the_same_raw_counts_once() -> None:
    """Encoding an octet that is equal to the raw one does not make a rule longer."""
    for encoded in ("%3A", "%5B", "%62", "?%2F"):
        raw = encoded.replace("%2F", "/").replace("%3A", ":")
        raw = raw.replace("%5B", "[").replace("%62", "b")
        body = f"User-agent: *\nAllow: /a{encoded}\nDisallow: /a{raw}*"
        assert ask(body, f"/a{raw}c").line == 3
        assert ask(body, f"/a{encoded}c").line == 3


def test_2_2_2_as_w3lib_writes_urls() -> None:
    """A rule with raw brackets matches the URL that Scrapy requests."""
    rule = "/*country[0]"
    asked = "https://www.example.com/a?country[0]=x&b='c'"
    for dialect in (RFC9309, GOOGLE):
        for url in (asked, safe_url_string(asked)):
            assert matches(rule, url, dialect)
            assert matches("/*b='c", url, dialect)


def test_2_2_2_invalid_utf_8_is_compared_octet_by_octet() -> None:
    """A file that is not UTF-8 is compared octet by octet."""
    assert matches(b"/caf\xe9", "/caf%E9")
    assert not matches(b"/caf\xe9", "/caf%C3%A9")


# 2.2.3 Special characters


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/this/path/exactly$", "/this/path/exactly", True),
        ("/this/path/exactly$", "/this/path/exactly/", False),
        ("/this/path/exactly$", "/this/path/exactly?a", False),
        ("/this/*/exactly", "/this/path/exactly", True),
        ("/this/*/exactly", "/this/a/b/exactly/c", True),
        ("/this/*/exactly", "/this//exactly", True),
        ("/this/*/exactly", "/this/exactly", False),
        ("*", "/", True), ("/*", "/", True), ("*a", "/b/a", True), ("**a", "/a", True),
        ("*.gif$", "/a.gif", True), ("*.gif$", "/a.gif.png", False),
        ("/*.html$", "/a.html.html", True), ("/*a*b$", "/abab", True),
        ("/a*a", "/a", False), ("/a*a$", "/a", False), ("/a*a$", "/aa", True),
        ("/*aa*a$", "/aa", False), ("/*ab*bc", "/abc", False), ("/*$", "/a", True),
        ("/$", "/", True), ("/$", "/a", False), ("/$", "/?a", False),
        ("$", "/", True), ("$", "/a", False),
        ("/a*$", "/ab", True), ("/a$*", "/ab", False), ("/a$*", "/a$b", True),
        # A "$" that is not at the end is not special.
        ("/a$b", "/a$b", True), ("/a$b", "/a", False), ("/a$b", "/a%24b", True),
        ("/a$$", "/a$", True), ("/a$$", "/a$b", False),
        # In the URL they are never special.
        ("/a.", "/a*", False), ("/*b", "/*b", True), ("/ab", "/*", False),
    ],
)  # fmt: skip
def test_2_2_3_special_characters(pattern: str, path: str, expected: bool) -> None:
    """``*`` stands for any characters, a final ``$`` for the end of the URL."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-%2a.html", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-b.html", False),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/path/foo-%24", "/path/foo-%24/a", True),
        ("/path/foo-%24", "/path/foo-", False),
    ],
)
def test_2_2_3_special_characters_are_meant_literally_when_encoded(
    pattern: str, path: str, expected: bool
) -> None:
    """``%2A`` and ``%24`` match the literal characters."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("comment", ["#", " # text", "#/b", "\t# Allow: /"])
def test_2_2_3_number_sign_begins_a_comment(comment: str) -> None:
    """A ``#`` begins a comment anywhere in a line."""
    body = f"User-agent: *{comment}\n{comment}\nDisallow: /a{comment}"
    assert ask(body, "/ab").line == 3


def test_2_2_3_special_characters_count_as_octets() -> None:
    """``*`` and ``$`` count as octets of the pattern."""
    assert ask("User-agent: *\nAllow: /a\nDisallow: /a*", "/ab").line == 3
    assert ask("User-agent: *\nAllow: /a\nDisallow: /a$", "/a").line == 3


def test_assumed_slash_counts_as_an_octet() -> None:
    """A pattern without its leading slash is as long as one with it."""
    assert ask("User-agent: *\nDisallow: /a\nAllow: a", "/a").line == 3
    assert ask("User-agent: *\nDisallow: /ab\nAllow: ab$", "/ab").line == 3


# 2.2.4 Other records

RECORDS = [
    "Sitemap: https://www.example.com/sitemap.xml",
    "Sitemaps: https://www.example.com/sitemap.xml",
    *("Crawl-delay: 1", "Crawl-delay: x", "Request-rate: 1/5", "Visit-time: 0-1"),
    *("Host: example.com", "Clean-param: a /", "Noindex: /", "Content-Signal: a=yes"),
    *("Unknown: /", "Unknown:", "allowed: /", "Dis allow: /", "text", ": /"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_2_2_4_other_records_do_not_end_a_run_of_user_agent_lines(record: str) -> None:
    """Another record between two user-agent lines leaves them in one group."""
    body = f"User-agent: a\n{record}\nUser-agent: b\n{record}\nDisallow: /"
    assert ask(body, "/", "a").line == 5
    assert ask(body, "/", "b").line == 5


@pytest.mark.parametrize("record", RECORDS)
def test_2_2_4_other_records_do_not_end_a_group(record: str) -> None:
    """Another record does not end a group: rules before and after it belong together."""
    body = f"User-agent: a\nDisallow: /x\n{record}\nDisallow: /y"
    assert [ask(body, path, "a").line for path in ("/x", "/y", "/z")] == [2, 4, 0]


# 5 Examples

SIMPLE = """\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("agent", "path", "allowed", "line"),
    [
        ("anybot", "/publications/a", True, 4), ("anybot", "/a", True, 0),
        ("anybot", "/example/a", False, 3), ("anybot", "/a/b.gif", False, 2),
        ("anybot", "/publications/a.gif", True, 4), ("anybot", "/a.gif?b", True, 0),
        ("foobot", "/", False, 7), ("foobot", "/publications/", False, 7),
        ("foobot", "/example/page.html", True, 8),
        ("foobot", "/example/allowed.gif", True, 9),
        ("foobot", "/example/disallowed.gif", False, 7),
        ("barbot", "/example/page.html", False, 13), ("barbot", "/example/", True, 0),
        ("bazbot", "/example/page.html", False, 13), ("bazbot", "/a.gif", True, 0),
        ("quxbot", "/example/page.html", True, 0), ("quxbot", "/a.gif", True, 0),
    ],
)  # fmt: skip
def test_5_1_simple_example(agent: str, path: str, allowed: bool, line: int) -> None:
    """The first example decides as its explanation says."""
    decision = ask(SIMPLE, path, agent)
    assert (decision.allowed, decision.line) == (allowed, line)


def test_5_2_longest_match() -> None:
    """In the second example, the longer of two matching rules decides."""
    body = (
        "User-Agent: foobot\nAllow: /example/page/\n"
        "Disallow: /example/page/disallowed.gif"
    )
    assert ask(body, "/example/page/disallowed.gif", "foobot").line == 3
    assert ask(body, "/example/page/allowed.gif", "foobot").line == 2
