"""The tables of a report for programs: as one dict, or as CSV files."""

from __future__ import annotations

import csv
from dataclasses import asdict, fields
from datetime import datetime, timezone
from io import StringIO
from typing import TYPE_CHECKING, Any

from scrapy_rep.protocol.display import visible
from scrapy_rep.report import words
from scrapy_rep.report.answers import answers
from scrapy_rep.report.summary import changed_settings, summarise

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sqlite3 import Row

    from scrapy_rep.report.ledgers import Ledgers

TABLES = {
    "fetched": "fetched",
    "delays": "delay",
    "pauses": "pause",
    "timeline": "timeline",
    "reasons": "outcome",
    "robotstxt-answers": "answer",
    "hosts": "host",
    "rules": "rule",
    "urls": "judged_url",
    "ai-crawlers": "ai_crawler",
    "usage": "purpose",
    "without-robotstxt": "without",
    "unreachable": "outage",
    "overridden": "overridden",
    "differences": "difference",
}
"""The view of each table, by the name of its file. Its columns are those of the view."""

# The columns that only make or limit the page; so do those that end with "_of_host".
_OF_PAGE = frozenset({
    "ledger", "crawl", "first", "file", "number", "judged", "place", "of_all", "much",
})  # fmt: skip

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that a spreadsheet may read as a formula."""


def as_dict(ledgers: Ledgers, now: float) -> dict[str, Any]:
    """Return the whole report, with the rows of all tables. *now* is the time of the report."""
    summary = summarise(ledgers)
    headline = words.headline(summary)
    values = {field.name: getattr(summary, field.name) for field in fields(summary)}
    figures = {name: value for name, value in values.items() if isinstance(value, int)}
    return {
        "made_at": _moment(now),
        "headline": headline.sentence,
        "kept": headline.kept,
        "notes": list(headline.notes),
        "answers": [
            {"question": one.question, "answer": one.sentences, "kept": not one.is_bad}
            for one in answers(ledgers, summary)
        ],
        "figures": figures,
        "checked_again": asdict(summary.check),
        "crawls": [
            {
                **{name: crawl[name] for name in ("spider", "user_agent", "agents")},
                **{name: crawl[name] for name in ("dialect", "versions", "path")},
                "started_at": _moment(crawl["started"]),
                "ended_at": crawl["ended"] and _moment(crawl["ended"]),
                "finish_reason": crawl["finish_reason"],
                "has_every_decision": crawl["every_decision"],
            }
            for crawl in ledgers.crawls
        ],
        "settings": [
            {"name": name, "value": value, "spider": spider}
            for name, value, spider in changed_settings(ledgers.crawls)
        ],
        "tables": {name: list(rows(ledgers, name)) for name in TABLES},
    }


def rows(ledgers: Ledgers, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, by column."""
    for row in ledgers.view(TABLES[table]):
        yield {name: _value(row, name) for name in columns(row.keys())}


def columns(names: list[str]) -> list[str]:
    """Return the columns of a view that a table has."""
    return [
        name for name in names if not (name in _OF_PAGE or name.endswith("_of_host"))
    ]


def as_csv(ledgers: Ledgers, table: str) -> Iterator[str]:
    """Yield the lines of a CSV file. No cell is a formula for a spreadsheet."""
    names = [column[0] for column in ledgers.view(TABLES[table]).description]
    yield _line(columns(names))
    for row in rows(ledgers, table):
        yield _line([_cell(value) for value in row.values()])


def _value(row: Row, name: str) -> Any:
    value = row[name]
    return _moment(value) if name.endswith("_at") and value is not None else value


def _moment(seconds: float) -> str | None:
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None  # No crawl was at that time.
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _cell(value: Any) -> Any:
    """Return a value as a cell has it, on one line. A text that a spreadsheet may read as a formula
    begins with a quote.
    """
    if isinstance(value, str):
        written = visible(value)
        return f"'{written}" if written.lstrip().startswith(_FORMULA) else written
    return "" if value is None else value


def _line(cells: list[Any]) -> str:
    written = StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()
