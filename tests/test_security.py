"""SECURITY.md agrees with the code, and names existing tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_rep.ledger import reader
from scrapy_rep.protocol.dialect import DIALECTS, RFC9309
from scrapy_rep.protocol.indexing import dates, statements
from scrapy_rep.protocol.robotstxt import rules

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def test_tests() -> None:
    """Each row of the table of defences names existing tests."""
    section = PAGE.split("\n## What is defended\n")[1].split("\n### ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row.split(" | ")[2])
        assert named, row
        for path in named:
            assert (ROOT / path).is_file(), path


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("500 KiB are read ({:,} bytes)", RFC9309.size_limit),
        ("more than {:,} octets is refused", rules.MAX_TARGET),
        ("more than {:,} octets would be", rules.MAX_COMPARED),
        ("{:,} characters of a field", statements.MAX_TEXT),
        ("{:,} statements of a response", statements.MAX_STATEMENTS),
        ("{} characters of a date", dates._MAX_LENGTH),
        ("{} are followed", RFC9309.max_redirects),
        ("a value is {} MiB long at most", reader._MAX_VALUE >> 20),
    ],
)
def test_bounds(sentence: str, value: int) -> None:
    """The limits in SECURITY.md are those of the code."""
    assert sentence.format(value) in WORDS


def test_dialects() -> None:
    """All dialects have the limits that SECURITY.md states."""
    for dialect in DIALECTS.values():
        assert dialect.size_limit == RFC9309.size_limit
        assert dialect.max_redirects == RFC9309.max_redirects
