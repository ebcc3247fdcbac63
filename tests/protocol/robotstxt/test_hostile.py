"""Malicious files: each is processed within the time limit."""

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
# Other tests cover the code that these files run through.
pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

# Far more than any file takes, far less than a quadratic one would.
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
    """Thousands of names for thousands of rules do not multiply the cost."""
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
    """The cost of a file that repeats one rule is linear in its length."""
    body = b"User-agent: *\n" + rule * (KIB_500 // len(rule))
    in_time(body, dialect)


@DIALECTS
def test_many_different_wildcards(dialect: Dialect) -> None:
    """The cost of many different wildcard rules is bounded too."""
    rules = b"".join(b"Disallow: /*a*a*%s*b\n" % _letters(i) for i in range(20_000))
    in_time(b"User-agent: *\n" + rules, dialect)


@DIALECTS
@pytest.mark.parametrize(
    "piece", [b"a", b"*a", b"a*", b"*", b"$", b"%61", b"%", b"\xff"]
)
def test_one_long_rule(dialect: Dialect, piece: bytes) -> None:
    """A pattern as long as the whole file is processed in time."""
    pattern = b"/" + piece * (400_000 // len(piece)) + b"b"
    in_time(b"User-agent: *\nDisallow: " + pattern + b"\n", dialect)


@DIALECTS
@pytest.mark.parametrize(
    "piece", [b"a", b" ", b"#", b":", b"\t:", b"\x00", b"\xef\xbb\xbf"]
)
def test_one_long_line(dialect: Dialect, piece: bytes) -> None:
    """A meaningless line as long as the whole file is processed in time."""
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
    """The cost of many lines, or many groups of the same name, is linear in their number."""
    in_time(piece * (KIB_500 // len(piece)), dialect)


@DIALECTS
def test_many_groups_where_the_limit_is_raised(dialect: Dialect) -> None:
    """With a raised size limit, the parser reads more empty groups than fit into 500 KiB."""
    body = b"User-agent: bot\nAllow:\n" * 40_000
    assert len(body) > KIB_500
    in_time(body, replace(dialect, size_limit=len(body)))


@DIALECTS
def test_many_agents_ask(dialect: Dialect) -> None:
    """Decisions for very many product tokens are fast and correct."""
    body = b"User-agent: *\nDisallow: /a\n"
    agents = [f"bot{_letters(i).decode()}" for i in range(2_000)]
    robots = in_time(body, dialect, ["https://example.com/a"], agents)
    assert not robots.is_allowed("https://example.com/a", agents[0])


def _letters(number: int) -> bytes:
    """Return a different word of letters for each number."""
    return bytes(ord("a") + int(digit) for digit in str(number))
