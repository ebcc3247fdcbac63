"""Malicious files: each is processed within the time limit."""

from __future__ import annotations

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


def repeated(piece: bytes, start: bytes = b"") -> bytes:
    return start + piece * (KIB_500 // len(piece))


BODIES = {
    # Rules, again and again
    **{
        rule: repeated(b"%s\n" % rule, b"User-agent: *\n")
        for rule in (
            b"Disallow: /*a*a*a*b", b"Allow: /*a*a*a*a*a*a*a*a*c$", b"Allow: *****$",
            b"Disallow: /*aaaaaaaaaaaaaaaaaaab", b"Disallow: /%61%61%2f%C3",
        )
    },
    # One rule as long as the file
    **{
        b"%s..." % piece: repeated(piece, b"User-agent: *\nDisallow: /")[:-30] + b"b\n"
        for piece in (b"a", b"*a", b"*", b"$", b"%61", b"%", b"\xff")
    },
    # Lines and parts of lines, again and again
    **{
        piece: repeated(piece)
        for piece in (
            b" ", b"#", b":", b"\t:", b"\x00", b"\xef\xbb\xbf", b"\n", b"\r", b"a:\n",
            b"User-agent:bot\nAllow:\n", b"Sitemap:/\n", b"Disallow:/\n",
            b"User-agent:*\nCrawl-delay:1\nAllow:\n\n",
        )
    },
}  # fmt: skip


@DIALECTS
@pytest.mark.parametrize("piece", BODIES, ids=repr)
def test_a_whole_file_of_it(dialect: Dialect, piece: bytes) -> None:
    """A file of 500 KiB is read, and decided on, in time, whatever it repeats."""
    in_time(BODIES[piece], dialect)


@DIALECTS
def test_many_different_wildcards(dialect: Dialect) -> None:
    """The cost of many different wildcard rules is bounded too."""
    rules = b"".join(b"Disallow: /*a*a*%s*b\n" % _letters(i) for i in range(20_000))
    in_time(b"User-agent: *\n" + rules, dialect)


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
