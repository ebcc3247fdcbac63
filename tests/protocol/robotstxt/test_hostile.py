"""Malicious files: to decide on them and to lint them takes bounded, and linear, time."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309, Dialect
from scrapy_rep.protocol.lint.findings import MAX_OF_A_CODE
from scrapy_rep.protocol.lint.linter import CODES
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.growth import assert_linear, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DIALECTS = pytest.mark.parametrize(
    "dialect", [RFC9309, GOOGLE, CLASSIC], ids=lambda d: d.name
)
# Other tests cover the code that these files run through.
pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

# Far more than any file takes on an idle machine, far less than a quadratic one would.
SECONDS, SECONDS_TO_LINT = 5.0, 15.0
KIB = 1_024
KIB_500 = 512_000
ANY = b"User-agent: *\n"
LONG = "https://example.com/" + "a" * 8000


def word(number: int) -> bytes:
    """Return a different word of letters for each number."""
    return bytes(ord("a") + int(digit) for digit in str(number))


def filled(piece: bytes, size: int = KIB_500) -> bytes:
    return piece * (size // len(piece))


def each(piece: bytes, size: int) -> bytes:
    """Lines that differ in one word."""
    lines = (piece.replace(b"W", word(i)) for i in range(size // len(piece)))
    return b"".join(lines)[:size]


def nested(size: int) -> bytes:
    count = int((2 * size) ** 0.5)
    return b"".join(b"Allow: /%b\n" % (b"a" * i) for i in range(count))[:size]


# Files of many lines, by their size.
LINES: dict[str, Callable[[int], bytes]] = {
    "agents over rules": lambda size: each(b"User-agent: W\n", size // 2)
    + each(b"Disallow: /W\n", size // 2),
    "runs of one name": lambda size: filled(ANY, size // 2) + filled(b"Sitemap: /\n", size // 4) + each(b"Disallow: /W\n", size // 4),
    "many rules with stars": lambda size: ANY + filled(b"Disallow: /*a*a*a*b\n", size),
    "many different wildcards": lambda size: ANY + each(b"Disallow: /*a*a*W*b\n", size),
    "two rules a name": lambda size: each(b"User-agent:W\nAllow:/*W\nAllow:/*b\n", size),
    "many groups of one name": lambda size: filled(b"User-agent:*\nAllow:\n", size),
    "many groups of two names": lambda size: filled(b"User-agent:*\nAllow:\nUser-agent:b\nAllow:/\n", size),
    "many groups of many names": lambda size: each(b"User-agent:W\n\n", size),
    "blank lines in groups": lambda size: filled(b"User-agent:*\n\nUser-agent:*\nDisallow:/a\n\n", size),
    "names that begin alike": lambda size: each(b"User-agent:" + b"a" * 200 + b"W\nAllow:/\n", size),
    "nested literals": lambda size: ANY + nested(size),
    "pairs": lambda size: ANY + each(b"Allow:/W\nDisallow:/W\n", size),
    "rules unlike each other": lambda size: ANY + each(b"disallow :/W\n ALLOW: /%7eW#\n", size),
    "fields": lambda size: each(b"W:\n", size),
    "fields like others": lambda size: each(b"DisWlow: /\n", size),
    "words": lambda size: filled(b"a b c\n", size),
    "no UTF-8": lambda size: filled(b"\xff\n", size),
    "encoded": lambda size: ANY + filled(b"Disallow: /%61%2f\xff#\n", size),
    "page": lambda size: b"<html>" + filled(b"<a:b>\n", size),
    "sitemaps": lambda size: filled(b"Sitemap:/\n", size),
    "delays": lambda size: ANY + filled(b"Crawl-delay:1\nCrawl-delay:2\n", size),
    "delays of groups": lambda size: filled(b"User-agent:*\nCrawl-delay:1\nAllow:\n\n", size),
    "lines": lambda size: b"\n" * size, "CR": lambda size: b"\r" * size,
}  # fmt: skip
# Files of long lines, or of very many.
FILES: dict[str, Callable[[], bytes]] = {
    **{
        f"one rule of {piece!r}": lambda piece=piece: ANY + b"Disallow: /" + filled(piece)[:-30] + b"b\n"
        for piece in (
            b"a", b"*a", b"/*a*a*a*b", b"*", b"$", b"%61", b"%7e", b"%", b"\xff", b"a.",
            b"/", b"allow ",
        )
    },
    **{
        f"nothing but {piece!r}": lambda piece=piece: filled(piece)
        for piece in (b"a", b" ", b"#", b":", b"\t:", b"\x00", b"\xef\xbb\xbf", b"\n", b"\r")
    },
    **{
        f"rules {rule!r}": lambda rule=rule: ANY + filled(rule + b"\n")
        for rule in (
            b"Disallow: /*a*a*a*b", b"Allow: /*a*a*a*a*a*a*a*a*c$", b"Allow: *****$",
            b"Disallow: /*aaaaaaaaaaaaaaaaaaab", b"Disallow: /%61%61%2f%C3",
        )
    },
    "nested literals": lambda: ANY + nested(KIB_500),
    "many different wildcards": lambda: ANY + each(b"Disallow: /*a*a*W*b\n", KIB_500),
    "long wildcards": lambda: ANY + each(b"Allow: /*" + b"a*" * 400 + b"W\n", KIB_500),
    "spaces": lambda: ANY + b"Disallow: /allow" + filled(b" ") + b":",
    "brackets": lambda: b"User-agent: " + filled(b"("),
    "a sitemap": lambda: b"Sitemap:/" + filled(b"a"),
    "groups": lambda: filled(b"User-agent:bot\nAllow:\n"),
}  # fmt: skip


def decide(
    robots: RobotsTxt,
    urls: Sequence[str] = (LONG, LONG + "b"),
    agents: Sequence[str] = ("bot",),
) -> None:
    for url in urls:
        for agent in agents:
            robots.is_allowed(url, agent)
            robots.decide(url, agent)
            robots.crawl_delay(agent)


@DIALECTS
@pytest.mark.parametrize("name", LINES)
def test_twice_the_file_takes_twice_the_steps(name: str, dialect: Dialect) -> None:
    """The cost grows linearly with the number of lines, whatever they say."""
    bodies = [LINES[name](size) for size in (4 * KIB, 2 * KIB)]
    shorter = [
        LONG[:2_000],
        LONG[:2_000] + "b",
    ]  # All take one way through the wildcards.
    # The first call fills the caches.
    decide(RobotsTxt.parse(bodies[1], dialect), shorter)
    twice, once = (
        steps(lambda body=body: decide(RobotsTxt.parse(body, dialect), shorter))
        for body in bodies
    )
    assert twice < 2.3 * once
    if dialect is RFC9309:
        linted = [RobotsTxt.parse(body) for body in bodies]
        linted[1].lint()
        twice, once = (steps(robots.lint) for robots in linted)
        assert twice < 2.3 * once


def test_groups_in_turns_take_linear_time() -> None:
    """The time for groups of two crawlers in turns is in proportion to their number."""
    dialect = replace(RFC9309, size_limit=2**20)
    assert_linear(
        lambda body: decide(RobotsTxt.parse(body, dialect)),
        LINES["many groups of two names"],
        2**20,
    )


@DIALECTS
@pytest.mark.parametrize("name", FILES)
def test_a_file_as_long_as_is_read(name: str, dialect: Dialect) -> None:
    """A file of 500 KiB is decided on and linted in time, with a bounded number of findings."""
    start = process_time()
    robots = RobotsTxt.parse(FILES[name](), replace(dialect, size_limit=2 * KIB_500))
    decide(robots)
    assert process_time() - start < SECONDS
    if dialect is RFC9309:
        found = robots.lint()
        assert process_time() - start < SECONDS_TO_LINT
        assert len(found) < 10 * MAX_OF_A_CODE
        assert {finding.code for finding in found} <= set(CODES)


@DIALECTS
@pytest.mark.parametrize(
    ("body", "path"),
    [
        (LINES["agents over rules"](KIB_500), "/b"),
        (b"User-agent: *\nDisallow: /a\n", "/a"),
    ],
    ids=("thousands of names", "nobody's name"),
)
def test_many_agents_ask(dialect: Dialect, body: bytes, path: str) -> None:
    """Decisions for very many product tokens are fast and correct."""
    agents = [word(number).decode() for number in range(0, 12_000, 8)]
    robots = RobotsTxt.parse(body, dialect)
    url = f"https://example.com{path}"
    start = process_time()
    if len(body) > KIB:
        agents = agents[::500]
    decide(robots, [url], agents)
    assert process_time() - start < SECONDS
    assert not robots.is_allowed(url, agents[0])
