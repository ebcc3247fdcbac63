"""Files that are meant to hurt: each must be done with in a moment."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Sequence

DIALECTS = pytest.mark.parametrize(
    "dialect", [RFC9309, GOOGLE, CLASSIC], ids=lambda d: d.name
)
# What they go through is covered by others.
pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

# Far more than any takes, far less than a blow-up would.
SECONDS = 5.0
KIB_500 = 512_000
LONG = "https://example.com/" + "a" * 8000


def in_time(
    body: bytes,
    dialect: Dialect,
    urls: Sequence[str] = (LONG, LONG + "b"),
    agents: Sequence[str] = ("bot",),
) -> RobotsTxt:
    start = process_time()
    robots = RobotsTxt.parse(body, dialect)
    for url in urls:
        for agent in agents:
            robots.decide(url, agent)
            robots.is_allowed(url, agent)
            robots.crawl_delay(agent)
    assert process_time() - start < SECONDS
    return robots


@DIALECTS
def test_many_user_agents_over_many_rules(dialect: Dialect) -> None:
    """Thousands of names for thousands of rules do not multiply."""
    names = b"".join(b"User-agent: a%s\n" % _letters(i) for i in range(12_000))
    rules = b"".join(b"Disallow: /%d\n" % i for i in range(12_000))
    agents = [f"a{_letters(i).decode()}" for i in range(0, 12_000, 4_000)]
    body = names + rules
    assert len(body) < KIB_500
    robots = in_time(body, dialect, ["https://example.com/11999"], agents)
    assert not robots.is_allowed("https://example.com/11999", agents[-1])


@DIALECTS
@pytest.mark.parametrize(
    "rule",
    [
        b"Disallow: /*a*a*a*b\n", b"Allow: /*a*a*a*a*a*a*a*a*c$\n",
        b"Disallow: /aaaaaaaaaaaaaaaaaaaaaaaab\n", b"Allow: *****$\n",
        b"Disallow: /*aaaaaaaaaaaaaaaaaaab\n", b"Disallow: /%61%61%2f%C3\n",
    ],
)  # fmt: skip
def test_many_rules(dialect: Dialect, rule: bytes) -> None:
    """A file full of one rule costs no more than its length."""
    body = b"User-agent: *\n" + rule * (KIB_500 // len(rule))
    in_time(body, dialect)


@DIALECTS
def test_many_different_wildcards(dialect: Dialect) -> None:
    """Nor does it help that each of them is another."""
    rules = b"".join(b"Disallow: /*a*a*%s*b\n" % _letters(i) for i in range(20_000))
    in_time(b"User-agent: *\n" + rules, dialect)


@DIALECTS
@pytest.mark.parametrize(
    "piece", [b"a", b"*a", b"a*", b"*", b"$", b"%61", b"%", b"\xff"]
)
def test_one_long_rule(dialect: Dialect, piece: bytes) -> None:
    """A pattern as long as the file may be is still one pattern."""
    pattern = b"/" + piece * (400_000 // len(piece)) + b"b"
    in_time(b"User-agent: *\nDisallow: " + pattern + b"\n", dialect)


@DIALECTS
@pytest.mark.parametrize(
    "piece", [b"a", b" ", b"#", b":", b"\t:", b"\x00", b"\xef\xbb\xbf"]
)
def test_one_long_line(dialect: Dialect, piece: bytes) -> None:
    """So is a line without any meaning."""
    in_time(piece * (KIB_500 // len(piece)), dialect)


@DIALECTS
@pytest.mark.parametrize(
    "piece",
    [
        b"\n", b"\r", b"\r\n", b":\n", b"a:\n", b"User-agent:bot\nAllow:\n",
        b"User-agent:*\nAllow:\n", b"User-agent:*\nCrawl-delay:1\nAllow:\n\n",
        b"Sitemap:/\n", b"Disallow:/\n",
    ],
)  # fmt: skip
def test_many_lines(dialect: Dialect, piece: bytes) -> None:
    """Many lines, and many groups of the same name, take no more than their number."""
    in_time(piece * (KIB_500 // len(piece)), dialect)


@DIALECTS
def test_many_groups_where_the_limit_is_raised(dialect: Dialect) -> None:
    """More empty groups than there are in 500 KiB are read, where a user wants that."""
    body = b"User-agent: bot\nAllow:\n" * 40_000
    assert len(body) > KIB_500
    in_time(body, replace(dialect, size_limit=len(body)))


@DIALECTS
def test_many_agents_ask(dialect: Dialect) -> None:
    """Asking in many names neither slows down nor goes wrong."""
    body = b"User-agent: *\nDisallow: /a\n"
    agents = [f"bot{_letters(i).decode()}" for i in range(2_000)]
    robots = in_time(body, dialect, ["https://example.com/a"], agents)
    assert not robots.is_allowed("https://example.com/a", agents[0])


def _letters(number: int) -> bytes:
    """Another word for every number, of letters alone."""
    return bytes(ord("a") + int(digit) for digit in str(number))
