"""The Google dialect follows Google's published parser."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309
from tests.protocol.robotstxt import asking

if TYPE_CHECKING:
    from scrapy_rep.protocol.robotstxt.decisions import Decision

LIMIT = 2083 * 8 - 1


def ask(body: str | bytes, path: str, agents: object = "googlebot") -> Decision:
    return asking.ask(body, path, agents, GOOGLE)


def matches(pattern: str | bytes, path: str, kind: str = "disallow") -> bool:
    return asking.matches(pattern, path, GOOGLE, kind)


@pytest.mark.parametrize(
    "field",
    [
        "Disallow", "disallowed", "Disallow-all", "dissallow", "Dissalow", "disalow",
        "diasllow", "DISALLAW", "disalow2",
    ],
)  # fmt: skip
def test_misspelt_disallow(field: str) -> None:
    """Misspelt Disallow fields count in the spellings that Google's parser accepts."""
    assert not ask(f"User-agent: *\n{field}: /", "/").allowed


@pytest.mark.parametrize("field", ["disllow", "dis-allow", "diaslow", "xdisallow", "d"])
def test_unknown_disallow(field: str) -> None:
    """Spellings that Google's parser does not accept are ignored."""
    assert ask(f"User-agent: *\n{field}: /", "/").allowed


@pytest.mark.parametrize(
    "field", ["user-agent", "useragent", "User agent", "USER-AGENTS", "user-agent-x"]
)
def test_misspelt_user_agent(field: str) -> None:
    """Misspelt user-agent fields count in the spellings that Google's parser accepts."""
    assert not ask(f"{field}: googlebot\nDisallow: /", "/").allowed


@pytest.mark.parametrize("rule", ["allow", "Allowed", "ALLOWANCE", "allow-x"])
def test_misspelt_allow(rule: str) -> None:
    """Misspelt Allow fields count in the spellings that Google's parser accepts."""
    assert ask(f"User-agent: *\nDisallow: /\n{rule}: /a", "/a").line == 3


@pytest.mark.parametrize(
    ("line", "line_counts"),
    [
        ("disallow /", True), ("disallow\t/", True), ("disallow \t  /", True),
        (" disallow / # a b", True), ("disallow", False), ("disallow / a", False),
        ("disallow/", False), ("disallow\x0c/", False), ("# disallow /", False),
    ],
)  # fmt: skip
def test_missing_colon(line: str, line_counts: bool) -> None:
    """The colon may be missing between two words with spaces or tabs between them."""
    assert ask(f"user-agent *\n{line}", "/").line == (2 if line_counts else 0)


def test_missing_colon_and_other_white_space() -> None:
    """A form feed does not separate field and value, but it ends the name of a crawler."""
    assert not ask("User-agent googlebot\x0cnews\nDisallow: /", "/").allowed


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
def test_whom_a_line_names(value: str, agent: str | None) -> None:
    """A crawler's name consists of letters, hyphens and underscores; the rest is ignored."""
    assert ask(f"User-agent: {value}\nDisallow: /", "/").agent == agent


@pytest.mark.parametrize(
    ("agent", "is_named"),
    [("MJ12bot", True), ("mj12BOT", True), ("MJ", True), ("mj99bot", False)],
)
def test_names_with_digits_are_compared_whole_first(agent: str, is_named: bool) -> None:
    """A user-agent line with a full name that Google's parser would cut still names that
    crawler; for other crawlers the line is cut.
    """
    body = "User-agent: *\nDisallow: /\n\nUser-agent: MJ12bot\nDisallow:"
    assert ask(body, "/", agent).allowed is is_named


def test_several_names_in_one_line() -> None:
    """Of several names in one line, only the first is read, as in Google's parser."""
    body = "User-agent: One, Two\nDisallow: /"
    assert not ask(body, "/", "one").allowed
    assert ask(body, "/", "two").allowed


def test_group_for_everyone_and_for_the_agent() -> None:
    """A crawler that shares a group with ``*`` still has a group of its own."""
    body = "User-agent: *\nUser-agent: googlebot\nDisallow: /a\nUser-agent: *\nDisallow: /b"
    assert [ask(body, path).line for path in ("/a", "/b")] == [3, 0]
    assert [ask(body, path, "x").line for path in ("/a", "/b")] == [3, 5]


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
def test_index_html(allow: str, path: str, allowed: bool) -> None:
    """An allowed index.html also allows its directory, and nothing else in it."""
    decision = ask(f"User-agent: *\nDisallow: /\nAllow: {allow}", path)
    assert decision.allowed is allowed
    if allowed:
        assert (decision.rule.pattern, decision.line) == (allow, 3)


def test_index_html_has_the_length_of_its_directory() -> None:
    """The rule derived from index.html is as long as the directory and ``$``."""
    body = "User-agent: *\nAllow: /a/index.html\nDisallow: "
    assert not ask(body + "/a/*$", "/a/").allowed
    assert ask(body + "/a/$", "/a/").allowed


@pytest.mark.parametrize("pattern", ["index.html", "/index.html", "index.htm*"])
def test_index_html_below_an_assumed_slash(pattern: str) -> None:
    """A dialect that adds a missing slash to a pattern also adds it for index.html."""
    dialect = replace(RFC9309, index_html_quirk=True)
    body = f"User-agent: *\nDisallow: /\nAllow: {pattern}"
    assert asking.ask(body, "/", dialect=dialect).line == 3
    assert asking.ask(body, "/a", dialect=dialect).line == 2


def test_disallowed_index_html() -> None:
    """A disallowed index.html disallows only itself."""
    assert ask("User-agent: *\nDisallow: /a/index.html", "/a/").allowed
    body = "User-agent: *\nDisallow: /a/index.html\nDisallow: /"
    assert ask(body, "/a/").line == 3


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/foo/bar?qux=taz&baz=http://foo.bar?tar&par",
         "/foo/bar?qux=taz&baz=http://foo.bar?tar&par", True),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/ツ", "/foo/bar/ツ", False),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/%62%61%7A", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", False),
        ("/foo/bar/baz", "/foo/bar/%62%61%7A", False),
        ("/%aa", "/%AA", True), ("/%aa", "/%aa", False), ("/%2A", "/*", False),
        ("/a$b", "/a$b", True),
        ("a", "/a", False), ("%2Fa", "/a", False), ("$", "/", False),
        ("*a", "/b/a", True),
    ],
)  # fmt: skip
def test_escaping(pattern: str, path: str, expected: bool) -> None:
    """High octets are encoded and hex digits are in upper case, in patterns only."""
    assert matches(pattern, path) is expected


def test_octets_are_counted_after_escaping() -> None:
    """An encoded octet counts as three."""
    assert ask("User-agent: *\nAllow: /%61\nDisallow: /aa*", "/%61").line == 2
    assert ask("User-agent: *\nDisallow: /é\nAllow: /*****", "/%C3%A9").line == 2
    assert ask("User-agent: *\nDisallow: /é\nAllow: /******", "/%C3%A9").line == 3


RAW_OR_ENCODED = [*"[]{}|^<>\"'\\` ", "\x01", "\x7f"]


@pytest.mark.parametrize("character", RAW_OR_ENCODED)
@pytest.mark.parametrize("place", ["/a{}b", "/a?b={}c"])
def test_what_url_libraries_write_differently(character: str, place: str) -> None:
    """A character that only some URL libraries encode matches raw and encoded.

    Google's parser compares the given text, so there the library determines the result.
    """
    raw, encoded = place.format(character), place.format(f"%{ord(character):02x}")
    for pattern, path in (
        (raw, raw),
        (raw, encoded),
        (encoded, raw),
        (encoded, encoded),
    ):
        assert matches(pattern, path), (pattern, path)


def test_octets_are_counted_as_written() -> None:
    """The length of a pattern counts an encoded octet as three, as in Google's parser."""
    body = "User-agent: *\nAllow: /a%5B\nDisallow: /a[**"
    assert ask(body, "/a[b").line == 2
    assert ask(body, "/a%5Bb").line == 2
    assert ask(body.replace("%5B", "["), "/a%5Bb").line == 3


def test_utf_16_is_read_as_bytes() -> None:
    """UTF-16 is read as bytes, since Google's parser reads only UTF-8."""
    body = "User-agent: *\nDisallow: /".encode("utf-16")
    assert ask(body, "/").allowed


def test_nul_ends_a_line() -> None:
    """A null byte ends a line, since lines are C strings in Google's parser."""
    body = b"User-agent: *\0x\nDisallow: /a\0b\nDisallow\0: /c\nDisallow\0 /d"
    assert [ask(body, path).line for path in ("/a", "/ax", "/c", "/d")] == [2, 2, 0, 0]


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b""])
def test_part_of_a_byte_order_mark(start: bytes) -> None:
    """A byte order mark is skipped, and so is the beginning of one."""
    assert not ask(start + b"User-Agent: *\nDisallow: /", "/").allowed


def test_broken_byte_order_mark() -> None:
    """A wrong byte order mark, or one elsewhere, invalidates its line."""
    assert ask(b"\xef\x11\xbfUser-Agent: *\nDisallow: /", "/").allowed
    assert ask(b"User-Agent: *\n\xef\xbb\xbfDisallow: /", "/").allowed


def test_long_line() -> None:
    """The part of a line after 16,663 octets is ignored."""
    path = "/x/" + "a" * (LIMIT - len("disallow: /x/"))
    body = f"user-agent: *\ndisallow: {path}/qux\nallow: /x/b"
    assert not ask(body, path + "/fux").allowed
    assert not ask(body, path).allowed
    assert ask(body, path[:-1]).allowed
    assert ask(body, "/fux").allowed
