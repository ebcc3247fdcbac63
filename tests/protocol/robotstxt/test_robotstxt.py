"""RobotsTxt: bytes and lines, decisions, unusual URLs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt.decisions import Reason
from tests.protocol.robotstxt.asking import ask

DIALECTS = pytest.mark.parametrize(
    "dialect", [RFC9309, GOOGLE, CLASSIC], ids=lambda d: d.name
)


# Lines


@DIALECTS
@pytest.mark.parametrize("white", [" ", "\t", "\x0b", "\x0c", " \t\x0b\x0c"])
def test_ascii_white_space_is_stripped(dialect: Dialect, white: str) -> None:
    """White space around field and value is ignored."""
    body = f"User-agent: *\n{white}Disallow{white}:{white}/a{white}"
    decision = ask(body, "/a", dialect=dialect)
    assert decision.line == 2
    assert decision.rule.pattern == "/a"


@pytest.mark.parametrize("white", ["\xa0", "\u2003", "\u3000", "\x1f", "\x85"])
def test_other_white_space_is_not(white: str) -> None:
    """White space outside of ASCII is part of a pattern."""
    assert ask(f"User-agent: *\nDisallow: /a{white}", "/a").allowed


# Bytes


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_a_mark_of_utf_16_alone_does_not_make_it_that(mark: bytes) -> None:
    """A UTF-16 byte order mark is ignored if the file has no null bytes as in UTF-16."""
    body = mark + b"\nUser-agent: *\nDisallow: /a\nDisallow: /\0"
    assert ask(body, "/a").line == 3


def test_utf_16_that_is_cut() -> None:
    """The last whole line of a truncated UTF-16 file is read as written."""
    line = "Disallow: /{:06}\n"
    rules = "".join(line.format(n) for n in range(20_000))
    for encoding in ("utf-16-le", "utf-16-be"):
        body = ("\ufeffUser-agent: *\n" + rules).encode(encoding)
        last = (RFC9309.size_limit // 2 - 1 - len("User-agent: *\n")) // len(
            line.format(0)
        )
        assert ask(body, f"/{last - 1:06}").line == last + 1
        assert ask(body, f"/{last:06}").allowed


@DIALECTS
def test_what_follows_500_kib_is_ignored(dialect: Dialect) -> None:
    """The last line within 500 KiB is the last one read."""
    head = b"User-agent: *\nDisallow: /a\n"
    fill = b"#" * (dialect.size_limit - len(head) - len(b"\nDisallow: /b\n")) + b"\n"
    body = head + fill + b"Disallow: /b\nDisallow: /c\n"
    paths = ("/a", "/b", "/c")
    lines = [ask(body, path, dialect=dialect).line for path in paths]
    assert lines == [2, 4, 0]
    # A truncated line is ignored, rather than read as another rule.
    body = head + fill + b"Disallow: /bb\n"
    assert ask(body, "/b", dialect=dialect).allowed
    smaller = replace(dialect, size_limit=len(head))
    assert ask(body, "/a", dialect=smaller).line == 2


# Decisions


def test_a_rule_is_reported_as_written() -> None:
    """The winning rule is reported in its original spelling."""
    decision = ask("User-agent: *\ndisALLOW:  %7eé* # text", "/~%C3%A9")
    rule = decision.rule
    assert (rule.kind, rule.pattern, rule.line) == ("disallow", "%7eé*", 2)
    assert decision.reason is Reason.RULE


def test_reasons_are_words() -> None:
    """Reasons compare and print as strings."""
    assert Reason.NO_GROUP == "no-group"
    assert f"{Reason.ROBOTS_TXT}" == "robots-txt"


def test_results_are_immutable() -> None:
    """Results are immutable."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /\nSitemap: https://a.example/")
    decision = robots.decide("https://example.com/", "bot")
    assert isinstance(robots.sitemaps, tuple)
    for thing, name in (
        (decision, "allowed"), (decision.rule, "pattern"), (robots, "sitemaps"),
    ):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(thing, name, None)
    assert robots.decide("https://example.com/", "bot") == decision


@DIALECTS
@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", "/"), ("https://example.com?a", "/?a"),
        ("https://example.com#a", "/"), ("https://example.com/#a", "/"),
        ("https://example.com/a#/b", "/a"), ("https://example.com/a?b#c?d", "/a?b"),
        ("https://example.com/a;b=c?d", "/a;b=c?d"), ("https://[::1]:8080/a", "/a"),
        ("https://user:pass@example.com:80/a", "/a"), ("HTTPS://EXAMPLE.COM/a", "/a"),
        ("https://example.com//a", "//a"), ("https://example.com/a//b", "/a//b"),
        ("https://example.com/a?b=https://c/d", "/a?b=https://c/d"),
        ("https://example.com?a=https://c/d", "/?a=https://c/d"),
        ("https://example.com/?", "/?"), ("", "/"),
    ],
)  # fmt: skip
def test_what_of_a_url_is_compared(dialect: Dialect, url: str, target: str) -> None:
    """Path, parameters and query of a URL are compared; scheme, host and fragment are not."""
    body = f"User-agent: *\nDisallow: {target}$\nDisallow: {target}\nAllow: /"
    robots = RobotsTxt.parse(body.encode(), dialect)
    assert robots.decide(url, "bot").line == (2 if dialect.wildcards else 3)


@DIALECTS
@pytest.mark.parametrize(
    "path", ["/\udc80", "/\x00", "/\u2028", "/%", "/[", "/ \n", "/\\"]
)
def test_any_url_is_decided_on(dialect: Dialect, path: str) -> None:
    """A decision is made for any text, even if it is no URL."""
    assert not ask("User-agent: *\nDisallow: /", path, dialect=dialect).allowed


def test_no_tokens_and_everyone() -> None:
    """A crawler without a token, or named ``*``, follows the group for everyone."""
    body = "User-agent: bot\nDisallow: /\nUser-agent: *\nDisallow: /a"
    assert ask(body, "/a", []).line == 4
    assert ask(body, "/a", "*").agent == "*"
    assert ask(body, "/", ()).allowed


def test_text_is_taken_as_utf_8() -> None:
    """A robots.txt may be given as text, even with lone surrogates."""
    text = "User-agent: bot\nDisallow: /ツ\n# \ud800"
    robots = RobotsTxt.parse(text)
    assert robots.body == text.encode("utf-8", "surrogatepass")
    assert robots.decide("https://h/%E3%83%84", "bot").line == 2
