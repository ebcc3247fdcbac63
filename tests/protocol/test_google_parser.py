"""The Google dialect: what Google's published parser does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309

from . import asking

if TYPE_CHECKING:
    from scrapy_rep.protocol.robotstxt import Decision

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
    """Fields are known by their beginning, in the spellings of the parser."""
    assert not ask(f"User-agent: *\n{field}: /", "/").allowed


@pytest.mark.parametrize("field", ["disllow", "dis-allow", "diaslow", "xdisallow", "d"])
def test_unknown_disallow(field: str) -> None:
    """No spelling is taken that the parser does not take."""
    assert ask(f"User-agent: *\n{field}: /", "/").allowed


@pytest.mark.parametrize(
    "field", ["user-agent", "useragent", "User agent", "USER-AGENTS", "user-agent-x"]
)
def test_misspelt_user_agent(field: str) -> None:
    """So are user-agent lines."""
    assert not ask(f"{field}: googlebot\nDisallow: /", "/").allowed


@pytest.mark.parametrize("rule", ["allow", "Allowed", "ALLOWANCE", "allow-x"])
def test_misspelt_allow(rule: str) -> None:
    """So are allow lines."""
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
    """Two words, with spaces or tabs between, do without a colon; no other line does."""
    assert ask(f"user-agent *\n{line}", "/").line == (2 if line_counts else 0)


def test_missing_colon_and_other_white_space() -> None:
    """A form feed does not part two words, but it ends the name of a crawler."""
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
    """Letters, hyphens and underscores name a crawler, what follows them does not."""
    assert ask(f"User-agent: {value}\nDisallow: /", "/").agent == agent


def test_group_for_everyone_and_for_the_agent() -> None:
    """The crawler that a shared group names is still not everyone."""
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
    """To allow an index.html is to allow its directory, and only itself."""
    decision = ask(f"User-agent: *\nDisallow: /\nAllow: {allow}", path)
    assert decision.allowed is allowed
    if allowed:
        assert (decision.rule.pattern, decision.line) == (allow, 3)


def test_index_html_has_the_length_of_its_directory() -> None:
    """The rule that is derived from index.html is as long as the directory and ``$``."""
    body = "User-agent: *\nAllow: /a/index.html\nDisallow: "
    assert not ask(body + "/a/*$", "/a/").allowed
    assert ask(body + "/a/$", "/a/").allowed


@pytest.mark.parametrize("pattern", ["index.html", "/index.html", "index.htm*"])
def test_index_html_below_an_assumed_slash(pattern: str) -> None:
    """A dialect that assumes the slash of a pattern assumes it here too."""
    dialect = replace(RFC9309, index_html_quirk=True)
    body = f"User-agent: *\nDisallow: /\nAllow: {pattern}"
    assert asking.ask(body, "/", dialect=dialect).line == 3
    assert asking.ask(body, "/a", dialect=dialect).line == 2


def test_disallowed_index_html() -> None:
    """A disallowed index.html is only itself."""
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
        ("/a$b", "/a$b", True), ("/a b", "/a%20b", False),
        ("a", "/a", False), ("%2Fa", "/a", False), ("$", "/", False),
        ("*a", "/b/a", True),
    ],
)  # fmt: skip
def test_escaping(pattern: str, path: str, expected: bool) -> None:
    """High octets are encoded and hex is in upper case, in patterns alone."""
    assert matches(pattern, path) is expected


def test_octets_are_counted_after_escaping() -> None:
    """An encoded octet counts as three."""
    assert ask("User-agent: *\nAllow: /%61\nDisallow: /aa*", "/%61").line == 2
    assert ask("User-agent: *\nDisallow: /é\nAllow: /*****", "/%C3%A9").line == 2
    assert ask("User-agent: *\nDisallow: /é\nAllow: /******", "/%C3%A9").line == 3


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b""])
def test_part_of_a_byte_order_mark(start: bytes) -> None:
    """A byte order mark is skipped, and so is the beginning of one."""
    assert not ask(start + b"User-Agent: *\nDisallow: /", "/").allowed


def test_broken_byte_order_mark() -> None:
    """Other octets, and a mark elsewhere, spoil their line."""
    assert ask(b"\xef\x11\xbfUser-Agent: *\nDisallow: /", "/").allowed
    assert ask(b"User-Agent: *\n\xef\xbb\xbfDisallow: /", "/").allowed


def test_long_line() -> None:
    """What stands in a line after 16,663 octets is ignored."""
    path = "/x/" + "a" * (LIMIT - len("disallow: /x/"))
    body = f"user-agent: *\ndisallow: {path}/qux\nallow: /x/b"
    assert not ask(body, path + "/fux").allowed
    assert not ask(body, path).allowed
    assert ask(body, path[:-1]).allowed
    assert ask(body, "/fux").allowed
