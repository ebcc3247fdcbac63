"""Output that the project adds to its crawls: a table at the end, and a verdict."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals
from scrapy.exceptions import NotConfigured

from demo.judge import forbidden_hits, gaps, noindex_pages, untimely_hits
from demo.middlewares import BundledSite
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.signals import link_dropped, request_denied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from demo.server import Hit
    from scrapy_rep import Decision


class Row(NamedTuple):
    page: str
    outcome: str
    item: str = ""
    said_by: str = ""
    statement: str = ""


class Report:
    """Prints the outcome of each page and of its item, and the statement that decided."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Report:
        if crawler.settings["BUNDLED_SITE"]:
            raise NotConfigured  # The process that serves the site has its log.
        report = cls(crawler)
        connect = crawler.signals.connect
        connect(report.note_refusal, signal=request_denied)
        connect(report.note_dropped_link, signal=link_dropped)
        connect(report.note_dropped_item, signal=signals.item_dropped)
        connect(report.note_kept_item, signal=signals.item_scraped)
        connect(report.print_report, signal=signals.engine_stopped)
        return report

    def __init__(self, crawler: Crawler):
        self.crawler = crawler
        self.not_sent: list[Row] = []
        self.items: dict[str, tuple[str, ...]] = {}  # By URL: the end of its row

    def note_refusal(
        self, request: Request, decision: Decision, robotstxt_url: str
    ) -> None:
        line = decision.reason.value
        if rule := decision.rule:
            line = f"{rule.line}: {rule.kind.capitalize()}: {rule.pattern}"
        self.not_sent.append(Row(request.url, "refused", "", robotstxt_url, line))

    def note_dropped_link(
        self, request: Request, response: Response, reason: str
    ) -> None:
        why = f"nofollow ({reason})"
        self.not_sent.append(Row(request.url, "not followed", "", response.url, why))

    def note_dropped_item(self, item: dict[str, Any], exception: Exception) -> None:
        if isinstance(exception, UsageDenied):
            self.items[item["url"]] = ("dropped", *said_of_use(exception))
        elif isinstance(exception, ItemDenied):
            statement = exception.statement
            said = f"{statement.text} ({statement.source})" if statement else ""
            self.items[item["url"]] = ("dropped", "itself", said)

    def note_kept_item(self, item: dict[str, Any]) -> None:
        until = item.get("robots", {}).get("unavailable_after")
        expiring = ("expiring", "itself", f"until {until}")
        self.items[item["url"]] = expiring if until else ("kept",)

    def print_report(self) -> None:
        # The fetched pages come from the log of the site, not from the crawl.
        log = self.crawler.get_downloader_middleware(BundledSite).server.log
        pages = [hit for hit in log if not hit.url.endswith("/robots.txt")]
        rows = list(self.not_sent)
        for hit in pages:
            item = self.items.get(hit.url, ())
            rows.append(Row(hit.url, f"fetched {hit.status}", *item))
        head = Row("page", "outcome", "item", "said by", "statement")
        print(table([head, *sorted(rows)]))
        print(f"\nrequests for a robots.txt: {len(log) - len(pages)}")
        self.print_verdict(log)
        ledger = self.crawler.settings["REP_LEDGER"] or ""
        ledger = ledger.replace("%(pid)s", str(os.getpid()))
        if Path(ledger).is_file():
            print(f"\nThe ledger: scrapy rep report {ledger}")

    def print_verdict(self, log: list[Hit]) -> None:
        agent = self.crawler.settings["USER_AGENT"]
        judge_hits(log, agent)
        kept = (url for url, row in self.items.items() if row[0] != "dropped")
        accuse("items kept that said noindex", noindex_pages(kept, agent))


def judge_hits(log: list[Hit], agent: str) -> int:
    """Print the findings in the site's log of a crawl. Return the number of errors."""
    pages = [hit for hit in log if not hit.url.endswith("/robots.txt")]
    forbidden = (hit.url for hit in forbidden_hits(pages, agent))
    wrong = accuse("requests that reached a forbidden path", forbidden)
    untimely = (hit.url for hit in untimely_hits(pages, agent))
    wrong += accuse("requests outside of a Visit-time", untimely)
    found = gaps(log, agent)
    short = (gap.host.origin for gap in found if gap.seen < gap.asked)
    wrong += accuse("hosts asked faster than their Crawl-delay", short)
    for gap in found:
        name, asked, seen = gap.host.origin, gap.asked, gap.seen
        print(f"smallest gap at {name}: {seen:.3f} s, asked for: {asked:g} s")
    return wrong


def said_of_use(exception: UsageDenied) -> tuple[str, str]:
    """Return the place and the text of the statement that forbids a purpose."""
    statement = exception.denial.statement
    if statement is None:
        return "nobody", f"{exception.denial.purpose}: unknown"
    line = f"{statement.position}: " if statement.source == "robots.txt" else ""
    return statement.source.value, line + statement.text


def table(rows: list[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def accuse(of_what: str, urls: Iterable[str]) -> int:
    urls = sorted(urls)
    print(f"{of_what}: {len(urls)}", *urls, sep="\n  ")
    return len(urls)
