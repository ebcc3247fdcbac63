"""docs/ledger.md agrees with the tables."""

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

DOCS = Path(__file__).parents[2] / "docs" / "ledger.md"
TEXT = DOCS.read_text()


@pytest.fixture
def ledger() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES)
        yield connection


def test_each_table_and_column_is_documented(ledger: sqlite3.Connection) -> None:
    """Each table has a section, and each column a row, in the same order."""
    names = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    for (table,) in names.fetchall():
        section = TEXT.split(f"\n### {table}\n")[1].split("\n#")[0]
        shown = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        columns = ledger.execute(f"PRAGMA table_info({table})")
        assert shown == [name for _, name, *_ in columns]


def test_each_view_and_column_is_documented(ledger: sqlite3.Connection) -> None:
    """Each view has a row, with its columns in the same order."""
    section = TEXT.split("\n## Views\n")[1].split("\n## ")[0]
    shown = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.MULTILINE)
    names = ledger.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
    assert shown == [
        (view, ", ".join(f"`{column[1]}`" for column in columns))
        for (view,) in names.fetchall()
        for columns in [ledger.execute(f"PRAGMA table_info({view})")]
    ]


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    """The docs have the version, the id, the bounds, the reasons and the headers of the code."""
    assert f"of the tables, {VERSION} here" in TEXT
    assert f"`0x{APPLICATION_ID:x}`" in TEXT
    assert f"cut at {MAX_URL:,} characters" in TEXT
    assert f"statements at {MAX_TEXT:,};" in TEXT
    for name in [*Reason, *HEADERS]:
        assert f"`{name}`" in TEXT


def test_each_query_of_the_page_runs(ledger: sqlite3.Connection) -> None:
    """Each query of the docs runs."""
    queries = re.findall(r'sqlite3 [^"]*"(.*?)"', TEXT, re.DOTALL)
    assert len(queries) == 3
    for query in queries:
        ledger.execute(query)
