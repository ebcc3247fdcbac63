"""The figures of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy.settings import default_settings

from scrapy_rep.report.check import Check, check
from scrapy_rep.settings import DEFAULTS, OBEY
from scrapy_rep.stats import RESPONSE_COUNT

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from scrapy_rep.report.ledgers import Ledgers


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    crawls: int

    complete: int
    """Crawls whose ledgers have every decision, not only refusals."""

    dry_runs: int
    """Crawls that only say what would have been refused and dropped."""

    uncounted: int
    """Crawls whose ledgers do not have what was fetched: an earlier version wrote them."""

    let_through: int
    """Requests of such crawls, without overrides."""

    let_through_by_override: int

    arrived: int
    """Responses that were refused because a browser had been led to a forbidden URL."""

    pages: int
    """Responses that the ledgers have counted, without those to robots.txt; for crawls that have
    not counted them, those in their stats.
    """

    hosts: int
    without: int
    """Hosts that were treated as having no robots.txt."""
    unreachable: int

    outcomes: list[sqlite3.Row]
    """The number of decisions for each layer, verdict and reason."""

    check: Check

    def total(self, verdict: str) -> int:
        return sum(row["times"] for row in self.outcomes if row["verdict"] == verdict)


def summarise(ledgers: Ledgers) -> Summary:
    let_through = []
    requesting = set()
    for row in ledgers.view("let_through"):
        crawl = ledgers.crawl_of(row)
        if crawl and crawl["every_decision"]:
            let_through.append(row)
            requesting.add((row["ledger"], row["crawl"]))
    counted = {(row["ledger"], row["crawl"]) for row in ledgers.view("progress")}
    (total,) = ledgers.view("total")
    (moved,) = ledgers.view("moved_in_all")
    return Summary(
        crawls=len(ledgers.crawls),
        complete=sum(crawl["every_decision"] for crawl in ledgers.crawls),
        dry_runs=sum(crawl["is_dry_run"] for crawl in ledgers.crawls),
        uncounted=sum(
            (crawl["ledger"], crawl["id"]) not in counted
            and (
                (crawl["ledger"], crawl["id"]) in requesting
                or crawl["ended"] is None
                or _responses(crawl["counts"]) > 0
            )
            for crawl in ledgers.crawls
        ),
        let_through=sum(row["by_robotstxt"] for row in let_through),
        let_through_by_override=sum(row["by_override"] for row in let_through),
        pages=moved["pages"]
        + sum(
            _responses(crawl["counts"])
            for crawl in ledgers.crawls
            if (crawl["ledger"], crawl["id"]) not in counted
        ),
        outcomes=ledgers.view("outcome").fetchall(),
        check=check(ledgers),
        **total,
    )


def _responses(counts: dict[str, Any]) -> int:
    received, own = (
        value if isinstance(value, int) else 0
        for value in map(counts.get, ("downloader/response_count", RESPONSE_COUNT))
    )
    return max(0, received - own)


def changed_settings(crawls: list[dict[str, Any]]) -> Iterator[tuple[str, object, str]]:
    """Yield name, value and spider of each setting that differs from its default."""
    for crawl in crawls:
        for name, value in crawl["settings"].items():
            default = DEFAULTS.get(name, getattr(default_settings, name, None))
            # The add-on sets this one to True.
            default = True if name == OBEY else default
            if value != default:
                yield name, value, crawl["spider"]
