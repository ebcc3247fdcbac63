"""Malicious files, which must not make the linter slow."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.protocol.dialect import RFC9309, Dialect
from scrapy_rep.protocol.lint.findings import CODES, MAX_OF_A_CODE
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Callable

# What they go through is covered by others.
pytestmark = [pytest.mark.unmeasured, pytest.mark.slow]

# Far more than any takes on a machine at rest, far less than a blow-up would.
SECONDS = 15.0
KIB_500 = 512_000
ANY = b"User-agent: *\n"


def word(number: int) -> bytes:
    """Another word for every number, of letters alone."""
    return bytes(ord("a") + int(digit) for digit in str(number))


def filled(piece: bytes) -> bytes:
    return piece * (KIB_500 // len(piece))


def each(piece: bytes) -> bytes:
    """Lines that differ in a word, as many as are read."""
    lines = (piece.replace(b"W", word(i)) for i in range(KIB_500 // len(piece)))
    return b"".join(lines)[:KIB_500]


FILES: dict[str, Callable[[], bytes]] = {
    "agents over rules": lambda: each(b"User-agent: W\n")[:250_000]
    + each(b"Disallow: /W\n")[:250_000],
    "one rule with many stars": lambda: ANY + b"Disallow: " + filled(b"/*a*a*a*b"),
    "many rules with stars": lambda: ANY + filled(b"Disallow: /*a*a*a*b\n"),
    "many different wildcards": lambda: ANY + each(b"Disallow: /*a*a*W*b\n"),
    "long different wildcards": lambda: ANY + each(b"Allow: /*" + b"a*" * 400 + b"W\n"),
    "two rules a name": lambda: each(b"User-agent:W\nAllow:/*W\nAllow:/*b\n"),
    "many groups of one name": lambda: filled(b"User-agent:*\nAllow:\n"),
    "many groups of many names": lambda: each(b"User-agent:W\n\n"),
    "names that begin alike": lambda: each(b"User-agent:" + b"a" * 200 + b"W\nAllow:/\n"),
    "nested literals": lambda: ANY + b"".join(b"Allow: /%b\n" % (b"a" * i) for i in range(990)),
    "pairs": lambda: ANY + each(b"Allow:/W\nDisallow:/W\n"),
    "fields": lambda: each(b"W:\n"), "fields like others": lambda: each(b"DisWlow: /\n"),
    "words": lambda: filled(b"a b c\n"), "no UTF-8": lambda: filled(b"\xff\n"),
    "encoded": lambda: ANY + filled(b"Disallow: /%61%2f\xff#\n"),
    "one encoded": lambda: ANY + b"Disallow: /" + filled(b"%7e"),
    "a host name": lambda: ANY + b"Disallow: " + filled(b"a."),
    "slashes": lambda: ANY + b"Disallow: " + filled(b"/"),
    "a field in a value": lambda: ANY + b"Disallow: /" + filled(b"allow "),
    "spaces": lambda: ANY + b"Disallow: /allow" + filled(b" ") + b":",
    "brackets": lambda: b"User-agent: " + filled(b"("), "page": lambda: b"<html>" + filled(b"<a:b>\n"),
    "sitemaps": lambda: filled(b"Sitemap:/\n"), "a sitemap": lambda: b"Sitemap:/" + filled(b"a"),
    "delays": lambda: ANY + filled(b"Crawl-delay:1\nCrawl-delay:2\n"),
    "one line": lambda: filled(b"a"), "lines": lambda: b"\n" * 1_000_000, "CR": lambda: b"\r" * 1_000_000,
}  # fmt: skip


@pytest.mark.parametrize("dialect", [RFC9309], ids=lambda d: d.name)
@pytest.mark.parametrize("name", FILES)
def test_done_in_time(name: str, dialect: Dialect) -> None:
    """No file of 500 KiB takes more than a moment, or has findings without number."""
    body = FILES[name]()
    start = process_time()
    found = RobotsTxt.parse(body, dialect).lint()
    assert process_time() - start < SECONDS
    assert len(found) < 10 * MAX_OF_A_CODE
    assert {finding.code for finding in found} <= set(CODES)


def test_many_groups_where_the_limit_is_raised() -> None:
    """A hundred thousand groups are looked at, where a user wants them to be."""
    body = b"User-agent: bot\nAllow:\n" * 100_000
    start = process_time()
    found = RobotsTxt.parse(body, replace(RFC9309, size_limit=len(body))).lint()
    assert process_time() - start < 2 * SECONDS
    assert len(found) == 2 * (MAX_OF_A_CODE + 1)
