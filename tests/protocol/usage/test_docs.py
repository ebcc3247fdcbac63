"""docs/usage.md agrees with the table in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scrapy_rep.protocol.usage import vocabulary
from scrapy_rep.protocol.usage.vocabulary import CATEGORIES, ROWS, Row, Signal

TEXT = (Path(__file__).parents[3] / "docs" / "usage.md").read_text()


def written(row: Row, value: str) -> str:
    """Return a value as the docs show it."""
    if row.signal is Signal.ROBOTS_TAG:
        images = " (images)" if row.images else ""
        return f"`{value}`{images}"
    colon = ": " if row.signal is Signal.TDM_RESERVATION else "="
    return f"`{row.label}{colon}{value}`"


@pytest.mark.parametrize("category", CATEGORIES)
def test_by_purpose(category: str) -> None:
    """The rows of a purpose in the docs list all that disallows and allows it."""
    (line,) = re.findall(rf"^\| `{category}` \| (`.*) \| (.*) \|$", TEXT, re.MULTILINE)
    rows = [row for row in ROWS if category in row.categories]
    disallows = {written(row, row.disallows) for row in rows if row.disallows}
    allows = {written(row, row.allows) for row in rows if row.allows}
    assert set(line[0].split(", ")) == disallows
    assert set(line[1].split(", ")) == allows


def test_sources() -> None:
    """The docs give the date of each source of the table."""
    dates = re.findall(r"\(\d{4}-\d\d-\d\d\)", vocabulary.__doc__)
    assert len(dates) == 7
    assert [date for date in dates if date not in TEXT] == []


def test_purposes() -> None:
    """The docs explain each purpose in the words of the code."""
    for category, meaning in CATEGORIES.items():
        assert f"| `{category}` | {meaning} |" in TEXT
