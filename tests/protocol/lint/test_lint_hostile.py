"""Malicious files do not make the linter slow."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.lint.findings import MAX_OF_A_CODE
from scrapy_rep.protocol.lint.linter import CODES
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.growth import steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.protocol.lint.findings import Finding

# Other tests cover the code that these files run through.
pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

# Far more than any file takes on an idle machine, far less than a quadratic one would.
SECONDS = 15.0
KIB = 1_024
KIB_500 = 512_000
ANY = b"User-agent: *\n"


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
    "many rules with stars": lambda size: ANY + filled(b"Disallow: /*a*a*a*b\n", size),
    "many different wildcards": lambda size: ANY + each(b"Disallow: /*a*a*W*b\n", size),
    "two rules a name": lambda size: each(b"User-agent:W\nAllow:/*W\nAllow:/*b\n", size),
    "many groups of one name": lambda size: filled(b"User-agent:*\nAllow:\n", size),
    "many groups of many names": lambda size: each(b"User-agent:W\n\n", size),
    "names that begin alike": lambda size: each(b"User-agent:" + b"a" * 200 + b"W\nAllow:/\n", size),
    "nested literals": lambda size: ANY + nested(size),
    "pairs": lambda size: ANY + each(b"Allow:/W\nDisallow:/W\n", size),
    "fields": lambda size: each(b"W:\n", size),
    "fields like others": lambda size: each(b"DisWlow: /\n", size),
    "words": lambda size: filled(b"a b c\n", size),
    "no UTF-8": lambda size: filled(b"\xff\n", size),
    "encoded": lambda size: ANY + filled(b"Disallow: /%61%2f\xff#\n", size),
    "page": lambda size: b"<html>" + filled(b"<a:b>\n", size),
    "sitemaps": lambda size: filled(b"Sitemap:/\n", size),
    "delays": lambda size: ANY + filled(b"Crawl-delay:1\nCrawl-delay:2\n", size),
    "lines": lambda size: b"\n" * size, "CR": lambda size: b"\r" * size,
}  # fmt: skip
# Files of long lines, or of very many empty ones.
LONG: dict[str, Callable[[], bytes]] = {
    "one rule with many stars": lambda: ANY + b"Disallow: " + filled(b"/*a*a*a*b"),
    "nested literals": lambda: ANY + nested(KIB_500),
    "long wildcards": lambda: ANY + each(b"Allow: /*" + b"a*" * 400 + b"W\n", KIB_500),
    "one encoded": lambda: ANY + b"Disallow: /" + filled(b"%7e"),
    "a host name": lambda: ANY + b"Disallow: " + filled(b"a."),
    "slashes": lambda: ANY + b"Disallow: " + filled(b"/"),
    "a field in a value": lambda: ANY + b"Disallow: /" + filled(b"allow "),
    "spaces": lambda: ANY + b"Disallow: /allow" + filled(b" ") + b":",
    "brackets": lambda: b"User-agent: " + filled(b"("),
    "a sitemap": lambda: b"Sitemap:/" + filled(b"a"), "one line": lambda: filled(b"a"),
    "lines": lambda: b"\n" * KIB_500, "CR": lambda: b"\r" * KIB_500,
}  # fmt: skip


def lint(body: bytes, seconds: float = SECONDS) -> tuple[Finding, ...]:
    """Return the findings of a file, and check that time and number of findings are bounded."""
    dialect = replace(RFC9309, size_limit=max(len(body), KIB_500))
    start = process_time()
    found = RobotsTxt.parse(body, dialect).lint()
    assert process_time() - start < seconds
    assert len(found) < 10 * MAX_OF_A_CODE
    assert {finding.code for finding in found} <= set(CODES)
    return found


@pytest.mark.parametrize("name", LINES)
def test_twice_the_file_takes_twice_the_steps(name: str) -> None:
    """The cost of linting grows linearly with the number of lines, whatever they say."""
    bodies = [LINES[name](size) for size in (4 * KIB, 2 * KIB)]
    linted = [RobotsTxt.parse(body) for body in bodies]
    linted[1].lint()  # The first call fills the caches.
    twice, once = (steps(robots.lint) for robots in linted)
    assert twice < 2.3 * once


@pytest.mark.parametrize("name", LONG)
def test_a_file_as_long_as_is_read(name: str) -> None:
    lint(LONG[name]())
