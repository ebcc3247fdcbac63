"""A report for programs, as one dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.settings import default_settings

from scrapy_rep.base.settings import DEFAULTS, OBEY
from scrapy_rep.tools.report.answers import answers, headline
from scrapy_rep.tools.report.robotstxt import check
from scrapy_rep.tools.report.shown import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_rep.tools.report.ledgers import Ledgers

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
}
"""The view of each table, by its name. Its columns are those of the view."""

# The columns that only make or limit the page; so do those that end with "_of_host".
_OF_PAGE = frozenset({
    "crawl", "example", "first", "file", "number", "judged", "place", "of_all",
})  # fmt: skip


def as_dict(ledgers: Ledgers, now: float) -> dict[str, Any]:
    """Return the whole report, with the rows of all tables. *now* is the time of the report."""
    return {
        **overall(ledgers, now),
        "tables": {name: list(rows(ledgers, name)) for name in TABLES},
    }


def overall(ledgers: Ledgers, now: float) -> dict[str, Any]:
    """Return what a report says of the crawls as a whole."""
    total, checked = figures(ledgers), check(ledgers)
    same = "spider", "user_agent", "agents", "dialect", "versions", "path"
    return {
        "made_at": iso_time(now),
        **headline(total, checked),
        "answers": answers(ledgers, total),
        "figures": total,
        "checked_again": checked,
        "crawls": [
            {
                **{name: crawl[name] for name in same},
                "started_at": iso_time(crawl["started"]),
                "ended_at": iso_time(crawl["ended"]),
                "finish_reason": crawl["finish_reason"],
                "has_every_decision": crawl["every_decision"],
            }
            for crawl in ledgers.crawls
        ],
        "settings": _changed_settings(ledgers),
    }


def figures(ledgers: Ledgers) -> dict[str, int]:
    """Return the figures of the whole. Requests that were let through are those of crawls whose
    ledger has every decision.
    """
    crawls, through = ledgers.crawls, [0, 0]
    for row in ledgers.view("let_through"):
        crawl = ledgers.by_number.get(row["crawl"])
        if crawl and crawl["every_decision"]:
            through[row["by_override"]] += row["times"]
    (total,) = ledgers.view("total")
    return {
        "crawls": len(crawls),
        "complete": sum(each["every_decision"] for each in crawls),
        "dry_runs": sum(each["is_dry_run"] for each in crawls),
        "ignoring": sum(each["ignores"] for each in crawls),
        "let_through": through[0],
        "let_through_by_override": through[1],
        **dict(total),
    }


def _changed_settings(ledgers: Ledgers) -> list[dict[str, Any]]:
    """Return the settings that differ from their defaults, with the spider of each."""
    found = []
    for crawl in ledgers.crawls:
        for name, value in crawl["settings"].items():
            default = DEFAULTS.get(name, getattr(default_settings, name, None))
            # The add-on sets this one to True.
            if value != (True if name == OBEY else default):
                found.append({"name": name, "value": value, "spider": crawl["spider"]})
    return found


def rows(ledgers: Ledgers, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, by column."""
    for row in ledgers.view(TABLES[table]):
        yield {
            name: iso_time(row[name]) if name.endswith("_at") else row[name]
            for name in columns(row.keys())
        }


def columns(names: list[str]) -> list[str]:
    """Return the columns of a view that a table has."""
    return [
        name for name in names if not (name in _OF_PAGE or name.endswith("_of_host"))
    ]
