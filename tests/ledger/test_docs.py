"""Tests that docs/ledger.md agrees with the tables and views of a ledger."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.base.records import MAX_TEXT, MAX_URL
from scrapy_rep.crawl.ledger.reader import APPLICATION_ID, TABLES, VERSION
from scrapy_rep.protocol.access.results import HEADERS
from scrapy_rep.protocol.robotstxt.rules import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE_PATH = Path(__file__).parents[2] / "docs" / "ledger.md"
PAGE = PAGE_PATH.read_text()


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    """Yield an empty ledger in memory."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        yield connection


def test_each_table_and_column_is_documented(ledger: sqlite3.Connection) -> None:
    """Each table has a section with a row for each column, in the order of the table."""
    tables = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    for (table,) in tables.fetchall():
        section = PAGE.split(f"\n### {table}\n")[1].split("\n#")[0]
        documented = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        columns = ledger.execute(f"PRAGMA table_info({table})")
        assert documented == [name for _, name, *_ in columns]


def test_each_view_and_column_is_documented(ledger: sqlite3.Connection) -> None:
    """Each view has a row that lists its columns, in the order of the view."""
    section = PAGE.split("\n## Views\n")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.MULTILINE)
    views = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
    assert documented == [
        (view, ", ".join(f"`{column[1]}`" for column in columns))
        for (view,) in views.fetchall()
        for columns in [ledger.execute(f"PRAGMA table_info({view})")]
    ]


def test_the_page_has_the_constants_of_the_code() -> None:
    """The page has the version, the application id, the size limits, the reasons and the headers
    that are defined in the code.
    """
    assert f"of the tables, {VERSION} here" in PAGE
    assert f"`0x{APPLICATION_ID:x}`" in PAGE
    assert f"cut at {MAX_URL:,} characters" in PAGE
    assert f"statements at {MAX_TEXT:,};" in PAGE
    for name in [*Reason, *HEADERS]:
        assert f"`{name}`" in PAGE


def test_each_query_of_the_page_runs(ledger: sqlite3.Connection) -> None:
    queries = re.findall(r'sqlite3 [^"]*"(.*?)"', PAGE, re.DOTALL)
    assert len(queries) == 3
    for query in queries:
        ledger.execute(query)
