"""What each dialect matches, and whom a group is for, beyond the cases of the conformance suite."""

from __future__ import annotations

from dataclasses import replace

import pytest
from w3lib.url import safe_url_string

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robotstxt.decisions import Reason
from tests.protocol.robotstxt.asking import ask, matches

# RFC 9309, 2.2.2


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        # A "%" that encodes nothing is itself, encoded or not, or begins an encoded octet.
        ("/100%", "/100%25", True), ("/100%25", "/100%", True), ("/%zz", "/%25zz", True),
        ("/%2", "/%252", True), ("/%2541", "/%41", False), ("/%", "/%E3%83%84", True),
        ("/a%", "/a%20b", True), ("/*%2", "/a/%2Fb", True), ("/%*3$", "/%e3", True),
        ("/%25", "/%20", False), ("/%E", "/a", False), ("/%", "/%61", False),
        # After the question mark of a pattern, raw and encoded slashes match (RFC 3986, 3.4).
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
        # Octets, stars and dollar signs.
        (b"/caf\xe9", "/caf%E9", True), (b"/caf\xe9", "/caf%C3%A9", False),
        ("/a$$", "/a$", True), ("/a$*", "/ab", False), ("/a$*", "/a$b", True),
        ("/*ab*bc", "/abc", False), ("/a*a$", "/a", False), ("/a-%24", "/a-", False),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(
    pattern: str | bytes, path: str, expected: bool
) -> None:
    """Pattern and URL are brought to one encoding before they are compared."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
@pytest.mark.parametrize("character", "[]{}|^<>\"'\\` \x01\x7f:@!(),;")
@pytest.mark.parametrize("place", ["/a{}b", "/a?b={}c", "/*{}"])
def test_a_character_that_only_some_libraries_encode(
    character: str, place: str, dialect: Dialect
) -> None:
    """A character that only some URL libraries encode is the same raw and encoded; in RFC 9309's
    dialect, so are reserved characters that delimit nothing.

    Google's parser compares the given text, so there the library determines the result.
    """
    raw, encoded = place.format(character), place.format(f"%{ord(character):02x}")
    are_same = dialect is RFC9309 or character not in ":@!(),;"
    assert matches(raw, raw, dialect)
    assert matches(raw, encoded, dialect) is are_same
    assert matches(encoded, raw, dialect) is are_same


@pytest.mark.parametrize(
    "text",
    [
        "/a b", "/100%", "/%zz?%", "/a[0]?b={|}", "/a:b@c!d'e(f),g;h", "/a?b=%2Fc/%3F",
        "/%2f/%3a?%26=%2B+&", "/ツ?é=%C3%a9", "/*", "/a*b$c", '/a\\b^`<>"', "/a//b?//",
    ],
)  # fmt: skip
def test_what_is_written_alike_matches(text: str) -> None:
    """A rule matches a URL of the same text. Only a final ``$`` means something else."""
    assert matches(text, text)


@pytest.mark.parametrize(
    ("encoded", "raw"), [("%3A", ":"), ("%5B", "["), ("%62", "b"), ("?%2F", "?/")]
)
def test_an_encoded_octet_that_is_the_same_raw_counts_once(
    encoded: str, raw: str
) -> None:
    """Encoding an octet that is equal to the raw one does not make a rule longer."""
    body = f"User-agent: *\nAllow: /a{encoded}\nDisallow: /a{raw}*"
    assert ask(body, f"/a{raw}c").line == ask(body, f"/a{encoded}c").line == 3


@pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
def test_as_w3lib_writes_urls(dialect: Dialect) -> None:
    """A rule with raw brackets matches the URL that Scrapy requests."""
    asked = "https://www.example.com/a?country[0]=x&b='c'"
    for url in (asked, safe_url_string(asked)):
        assert matches("/*country[0]", url, dialect)
        assert matches("/*b='c", url, dialect)


def test_assumed_slash_counts_as_an_octet() -> None:
    """A pattern without its leading slash is as long as one with it."""
    assert ask("User-agent: *\nDisallow: /a\nAllow: a", "/a").line == 3
    assert ask("User-agent: *\nDisallow: /ab\nAllow: ab$", "/ab").line == 3


# Google's published parser


@pytest.mark.parametrize(
    ("value", "agent"),
    [
        ("* foo", "*"), ("*\tfoo", "*"), ("*", "*"), ("*foo", None), ("**", None),
        ("googlebot foo", "googlebot"), ("googlebot/2.1", "googlebot"),
        ("googlebot2", "googlebot"), ("googlebot;", "googlebot"),
        ("Googlebot.", "googlebot"), ("googlebot-", None), ("googlebot_", None),
        ("2googlebot", None), ("", None), ("googlé", None), ("goo glebot", None),
    ],
)  # fmt: skip
def test_google_whom_a_line_names(value: str, agent: str | None) -> None:
    """A crawler's name consists of letters, hyphens and underscores; the rest is ignored."""
    body = f"User-agent: {value}\nDisallow: /"
    assert ask(body, "/", "googlebot", GOOGLE).agent == agent


@pytest.mark.parametrize(
    ("agent", "is_named"),
    [("MJ12bot", True), ("mj12BOT", True), ("MJ", True), ("mj99bot", False)],
)
def test_google_names_with_digits_are_compared_whole_first(
    agent: str, is_named: bool
) -> None:
    """A user-agent line with a full name that Google's parser would cut still names that
    crawler; for other crawlers the line is cut.
    """
    body = "User-agent: *\nDisallow: /\n\nUser-agent: MJ12bot\nDisallow:"
    assert ask(body, "/", agent, GOOGLE).allowed is is_named


@pytest.mark.parametrize(
    ("line", "line_counts"),
    [
        ("disallow /", True), ("disallow\t/", True), ("disallow \t  /", True),
        (" disallow / # a b", True), ("disallow", False), ("disallow / a", False),
        ("disallow/", False), ("disallow\x0c/", False), ("# disallow /", False),
        ("Disallow-all: /", True), ("diaslow: /", False), ("xdisallow: /", False),
        ("disallow: /\0b", True), ("disallow\0: /", False), ("disallow\0 /", False),
    ],
)  # fmt: skip
def test_google_spelling(line: str, line_counts: bool) -> None:
    """The colon may be missing between two words with spaces or tabs between them, a field may
    have more letters, and a null byte ends a line.
    """
    body = f"user-agent *\n{line}"
    assert ask(body, "/", dialect=GOOGLE).line == (2 if line_counts else 0)


@pytest.mark.parametrize(
    ("allow", "path", "allowed"),
    [
        ("/a/index.html", "/a/", True), ("/a/index.htm", "/a/", True),
        ("/a/index.html5", "/a/", True), ("/index.html", "/", True),
        ("/a/index.html", "/a/index.html", True), ("/a/index.html", "/a/b", False),
        ("/a/index.html", "/a/index.htm", False), ("/a/index.html", "/a", False),
        ("/a/index.html", "/a/?b", False), ("/a/index.ht", "/a/", False),
        ("/a/xindex.html", "/a/", False), ("/a/index.html/b", "/a/", False),
        ("/*/index.html", "/a/b/", True), ("index.html", "/", False),
        ("/a/Index.html", "/a/", False),
    ],
)  # fmt: skip
def test_google_index_html(allow: str, path: str, allowed: bool) -> None:
    """An allowed index.html also allows its directory, and nothing else in it."""
    body = f"User-agent: *\nDisallow: /\nAllow: {allow}"
    decision = ask(body, path, dialect=GOOGLE)
    assert decision.allowed is allowed
    if allowed:
        assert (decision.rule.pattern, decision.line) == (allow, 3)
    assert ask(f"User-agent: *\nDisallow: {allow}", "/a/", dialect=GOOGLE).allowed


@pytest.mark.parametrize(
    ("rules", "path", "line"),
    [
        # The rule derived from index.html is as long as the directory and "$".
        ("Allow: /a/index.html\nDisallow: /a/*$", "/a/", 3),
        ("Allow: /a/index.html\nDisallow: /a/$", "/a/", 2),
        # An encoded octet counts as three, and so does one over 0x7F.
        ("Allow: /%61\nDisallow: /aa*", "/%61", 2),
        ("Disallow: /é\nAllow: /*****", "/%C3%A9", 2),
        ("Disallow: /é\nAllow: /******", "/%C3%A9", 3),
        ("Allow: /a%5B\nDisallow: /a[**", "/a[b", 2),
        ("Allow: /a[\nDisallow: /a[**", "/a%5Bb", 3),
    ],
)
def test_google_octets_are_counted_as_written(rules: str, path: str, line: int) -> None:
    """The length of a pattern counts its octets as Google's parser escapes them."""
    assert ask(f"User-agent: *\n{rules}", path, dialect=GOOGLE).line == line


@pytest.mark.parametrize("pattern", ["index.html", "/index.html", "index.htm*"])
def test_index_html_below_an_assumed_slash(pattern: str) -> None:
    """A dialect that adds a missing slash to a pattern also adds it for index.html."""
    dialect = replace(RFC9309, index_html_quirk=True)
    body = f"User-agent: *\nDisallow: /\nAllow: {pattern}"
    assert ask(body, "/", dialect=dialect).line == 3
    assert ask(body, "/a", dialect=dialect).line == 2


def test_google_long_line() -> None:
    """The part of a line after 16,663 octets is ignored."""
    path = "/x/" + "a" * (2083 * 8 - 1 - len("disallow: /x/"))
    body = f"user-agent: *\ndisallow: {path}/qux\nallow: /x/b"
    paths = (path + "/f", path, path[:-1])
    assert [ask(body, each, dialect=GOOGLE).line for each in paths] == [2, 2, 0]


# The texts of 1994 and 1996


@pytest.mark.parametrize("comment", ["#", "# text", "  # text"])
def test_1994_comment_is_no_blank_line(comment: str) -> None:
    """A line with only a comment is discarded, and ends no record."""
    body = f"User-agent: examplebot\n{comment}\nDisallow: /a\n{comment}\nDisallow: /b"
    lines = [ask(body, path, dialect=CLASSIC).line for path in ("/a", "/b")]
    assert lines == [3, 5]


def test_1994_empty_disallow_allows_all() -> None:
    """An empty Disallow allows every URL that no earlier rule disallows; an empty Allow is no
    rule.
    """
    body = "User-agent: *\nDisallow: /a\nAllow:\nDisallow:\nDisallow: /"
    assert not ask(body, "/a", dialect=CLASSIC).allowed
    decision = ask(body, "/b", dialect=CLASSIC)
    assert decision.allowed
    assert (decision.line, decision.reason) == (4, Reason.RULE)
    assert (decision.rule.kind, decision.rule.pattern) == ("disallow", "")


@pytest.mark.parametrize(
    ("value", "agent", "named"),
    [
        ("google", "googlebot", True), ("Google", "GOOGLEBOT", True),
        ("google", "MyGoogle", False), ("googlebot", "google", False),
        ("figtree/1.0", "FigTree", True), ("figtree robot", "FigTree", True),
        ("", "figtree", False), ("/", "figtree", False), ("*fig", "figtree", False),
        ("*", "figtree", False),
    ],
)  # fmt: skip
def test_1996_name_is_a_beginning(value: str, agent: str, named: bool) -> None:
    """A record is for crawlers whose name begins with the record's name, in any case."""
    decision = ask(f"User-agent: {value}\nDisallow: /", "/", agent, CLASSIC)
    assert (decision.agent == agent) is named
