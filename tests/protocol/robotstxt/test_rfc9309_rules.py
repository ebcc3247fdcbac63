"""RFC 9309, sentence by sentence: which rule decides, and which lines are parsed."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Reason
from tests.protocol.robotstxt.asking import ask, matches

ALL = "User-agent: *\nDisallow: /"

# 2.2.2 The allow and disallow lines


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/a", "/a", True), ("/a", "/ab", True), ("/a", "/a/b", True),
        ("/a", "/a?b", True), ("/a?b=c", "/a?b=c&d", True), ("/a?b", "/a", False),
        ("/a", "/b/a", False), ("/a/", "/a", False), ("/", "/a", True),
        ("/a;b", "/a;b=c", True), ("/A", "/a", False), ("/a", "/A", False),
        ("a", "/a", True), ("a", "/b/a", False), ("%61", "/a", True),
    ],
)  # fmt: skip
def test_2_2_2_match_starts_with_the_first_octet(
    pattern: str, path: str, expected: bool
) -> None:
    """A pattern is compared, case-sensitively, with the beginning of path and query."""
    assert matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("rules", "path", "line"),
    [
        (["Allow: /a/", "Disallow: /a/b"], "/a/b", 3),
        (["Disallow: /a/b", "Allow: /a/"], "/a/b", 2),
        (["Disallow: /a/b", "Allow: /a/"], "/a/c", 3),
        (["Allow: /a", "Disallow: /*.htm"], "/a.htm", 3),
        (["Allow: /a/b", "Disallow: /*b"], "/a/b", 2),
        # Octets, not characters: the rule with fewer characters has more octets.
        (["Allow: /aaaaaa", "Disallow: /*é"], "/aaaaaaé", 3),
        (["Allow: /aaaaaaaa", "Disallow: /*é"], "/aaaaaaaaé", 2),
        # An encoded character that need not be encoded is one octet.
        (["Allow: /aa", "Disallow: /%61"], "/aa", 2),
    ],
)
def test_2_2_2_rule_with_the_most_octets_is_used(
    rules: list[str], path: str, line: int
) -> None:
    """Of the matching rules, the one with the longest pattern decides."""
    assert ask("User-agent: *\n" + "\n".join(rules), path).line == line


def test_2_2_2_longest_rule_is_chosen_among_all_groups() -> None:
    """The longest pattern decides across all groups of a crawler."""
    body = "User-agent: a\nAllow: /x/y\nUser-agent: b\n\nUser-agent: a\nDisallow: /x"
    assert ask(body, "/x/y/z", "a").line == 2


@pytest.mark.parametrize("pattern", ["/a", "/a*", "/*$", "/%C3%A9*"])
def test_2_2_2_equivalent_rules_allow(pattern: str) -> None:
    """If an allow and a disallow rule are equivalent, allow wins, in either order."""
    rules = [f"Disallow: {pattern}", f"Allow: {pattern}"]
    path = "/a" if "a" in pattern else "/é"
    assert ask("\n".join(["User-agent: *", *rules]), path).line in (0, 3)
    assert ask("\n".join(["User-agent: *", *rules[::-1]]), path).line in (0, 2)
    assert ask("\n".join(["User-agent: *", *rules]), path).allowed


def test_2_2_2_duplicate_rules_are_one() -> None:
    """A duplicate rule changes nothing; the first one is reported."""
    assert ask("User-agent: *\nDisallow: /\nDisallow: /", "/").line == 2


def test_2_2_2_no_match_allows() -> None:
    """If no rule matches, the URL is allowed."""
    decision = ask("User-agent: *\nDisallow: /a", "/b")
    assert decision.allowed
    assert (decision.rule, decision.line, decision.agent) == (None, 0, "*")
    assert decision.reason is Reason.NO_RULE


@pytest.mark.parametrize("dialect", [RFC9309, CLASSIC], ids=lambda d: d.name)
@pytest.mark.parametrize("path", ["/robots.txt", "/robots.txt#a", "/%72obots.txt"])
def test_2_2_2_robots_txt_itself_is_allowed(dialect: Dialect, path: str) -> None:
    """/robots.txt is allowed whatever the rules say, in any spelling."""
    decision = ask(ALL, path, dialect=dialect)
    assert decision.allowed
    assert (decision.rule, decision.agent) == (None, None)
    assert decision.reason is Reason.ROBOTS_TXT


@pytest.mark.parametrize("path", ["/robots.txt.bak", "/a/robots.txt", "/robots.txt/"])
def test_2_2_2_robots_txt_alone_is_allowed(path: str) -> None:
    """Paths that only resemble /robots.txt are not exempt."""
    assert not ask(ALL, path).allowed
    assert not ask(ALL, "/robots.txt", dialect=GOOGLE).allowed


def test_2_2_2_rules_outside_of_groups_are_ignored() -> None:
    """A rule before the first user-agent line is ignored."""
    body = "Disallow: /a\nUser-agent: *\nDisallow: /b"
    assert ask(body, "/a").allowed
    assert not ask(body, "/b").allowed


@pytest.mark.parametrize("kind", ["Allow", "Disallow"])
def test_2_2_2_empty_pattern_is_no_rule(kind: str) -> None:
    """A rule without a pattern matches nothing."""
    assert ask(f"User-agent: *\n{kind}:\nDisallow: /a", "/a").line == 3
    assert ask(f"User-agent: *\n{kind}: # text", "/").reason is Reason.NO_RULE


def test_2_3_1_1_parseable_rules_are_followed() -> None:
    """Valid lines count, whatever invalid lines surround them."""
    body = b"<html>\n\xff\xfe\nUser-agent: *\n\x00\x01: \xff\n:\nDisallow: /a\n}}"
    assert ask(body, "/a").line == 6


def test_2_3_1_5_every_line_is_tried() -> None:
    """An invalid line does not affect the lines around it."""
    lines = [b"User-agent: *", b"Disallow: /a", b"Allow: /a/b"]
    for junk in (b"text", b": /", b"\xff\xff\xff", b"Disallow", b"\x00", b"User-agent"):
        robots = RobotsTxt.parse((b"\n" + junk + b"\n").join(lines))
        assert robots.decide("https://example.com/a", "bot").line == 3
        assert robots.decide("https://example.com/a/b", "bot").line == 5


def test_2_5_at_least_500_kibibytes_are_read() -> None:
    """A rule that ends 500 KiB into the file still counts."""
    rule = b"\nUser-agent: *\nDisallow: /"
    body = b"#" * (500 * 1024 - len(rule)) + rule
    assert len(body) == 512_000
    assert not ask(body, "/").allowed
