"""Many patterns with wildcards, and URLs beyond the limits, with low limits."""

from __future__ import annotations

import pytest

from scrapy_rep.protocol.dialect import GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt import rules as rules_
from scrapy_rep.protocol.robotstxt.decisions import Reason

pytestmark = pytest.mark.newest

ORIGIN = "https://example.com"
BY_DIALECT = pytest.mark.parametrize("dialect", [RFC9309, GOOGLE], ids=lambda d: d.name)
PATTERNS = [
    "/*abcdefgh",
    "/*abcdefgh/ijklmnop",
    "/*a/b",
    "/*a%2Fb*c",
    "/*xy$",
    "/*?q=/*z",
    "/*?a/b",
    "/head*abcdef",
    "/head*needle*needle",
    "/other*abcdef",
    "/*1*2*3",
]
PATHS = [
    "",
    "abcdefgh",
    "abcdefbcdefgcdefgh",  # has all parts of a needle, and not the needle
    "abcdefgh%2Fijklmnop",
    "abcdefgh/ijklmnop",
    "abcdefgh%2fijklmno",
    "%2F" * 50,
    "a%2Fb",
    "a%2Fb%2Fc",
    "a/b/c",
    "xy",
    "xyz",
    "?q=/z",
    "?q=%2Fz",
    "%2F?q=%2F",
    "%2F?x?a%2Fb",
    "%2F?x?b/a",
    "%2F" + "?a" * 40 + "%2Fb",
    "%2F" + "?b" * 40,
    "headabcdef",
    "head-abcde-needle-needle",
    "head-needle",
    "otherabcde",
    "321123",
    "3 2 1",
]


def parse(rules: list[str], dialect: Dialect = RFC9309) -> RobotsTxt:
    return RobotsTxt.parse("\n".join(["User-agent: *", *rules]).encode(), dialect)


@BY_DIALECT
def test_many_wildcards_are_compared_as_each_alone(
    monkeypatch: pytest.MonkeyPatch, dialect: Dialect
) -> None:
    """Of many patterns, the same rule decides as if they are compared one by one."""
    rules = [f"Disallow: {pattern}" for pattern in PATTERNS]
    alone = [parse([rule], dialect) for rule in rules]
    longest = [len(pattern) for pattern in PATTERNS]
    monkeypatch.setattr(rules_, "_MAX_SEARCHED", -1)
    together = parse(rules, dialect)
    for path in PATHS:
        url = f"{ORIGIN}/{path}"
        matching = [
            number
            for number, robots in enumerate(alone)
            if not robots.is_allowed(url, "bot")
        ]
        decision = together.decide(url, "bot")
        assert decision.allowed is together.is_allowed(url, "bot")
        assert decision.allowed is not bool(matching)
        if decision.rule is not None and "%" not in path:
            number = PATTERNS.index(decision.rule.pattern)
            assert number in matching
            assert longest[number] == max(longest[each] for each in matching)


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [("/ab", True), ("/abb", False), ("/ba", True), ("/acd", False)],
)
def test_a_needle_that_is_in_the_head_alone(path: str, is_allowed: bool) -> None:
    """The text after a ``*`` must match behind the text before it."""
    robots = parse(["Disallow: /ab*b", "Disallow: /a*d"])
    for _ in range(4):
        assert robots.is_allowed(ORIGIN + path, "bot") is is_allowed


def test_what_a_decision_may_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that needs too many comparisons is refused as too long; a shorter URL is not."""
    robots = parse([f"Disallow: /*{n:02}*{n:02}*z" for n in range(50)])
    digits = "".join(f"{n:02}" for n in range(50))
    near, short = f"{ORIGIN}/{digits * 20}%2F", f"{ORIGIN}/{digits}%2F"
    assert robots.decide(near, "bot").reason is Reason.NO_RULE
    monkeypatch.setattr(rules_, "MAX_COMPARED", 50_000)
    decision = robots.decide(near, "bot")
    assert (decision.allowed, decision.reason) == (False, Reason.TOO_LONG)
    assert not robots.is_allowed(near, "bot")
    assert robots.is_allowed(short, "bot")
