"""What is printed at the end of the crawl."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import signals

from demo.offline.judge import judge
from demo.offline.middleware import OfflineSite
from scrapy_rep.exceptions import ItemDenied, UsageDenied
from scrapy_rep.signals import link_dropped, request_denied

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_rep import Decision

HEAD = ("outcome", "host", "line of robots.txt, or statement", "pages")
OUTCOMES = ["refused", "not followed", "dropped", "kept"]


class Report:
    """Prints which pages were refused, not followed or dropped, by which statement, and the
    verdict of the judge. It gets the statements from the signals of Scrapy and scrapy-rep.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.paths: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self.kept: list[str] = []
        connect = crawler.signals.connect
        connect(self.request_denied, signal=request_denied)
        connect(self.link_dropped, signal=link_dropped)
        connect(self.item_dropped, signal=signals.item_dropped)
        connect(self.item_scraped, signal=signals.item_scraped)
        connect(self.engine_stopped, signal=signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Report:
        return cls(crawler)

    def note(self, url: str, outcome: str, statement: str) -> None:
        path = urlsplit(url)._replace(scheme="", netloc="").geturl()
        self.paths[outcome, name(url), statement].append(path)

    def request_denied(self, request: Request, decision: Decision) -> None:
        why = f"robots.txt {decision.reason}"
        if rule := decision.rule:
            why = f"line {rule.line}: {rule.kind.capitalize()}: {rule.pattern}"
        self.note(request.url, "refused", why)

    def link_dropped(self, request: Request, reason: str) -> None:
        self.note(request.url, "not followed", f"{reason}: nofollow")

    def item_dropped(self, item: dict[str, Any], exception: Exception) -> None:
        if isinstance(exception, UsageDenied):
            self.note(item["url"], "dropped", said_of_use(exception))
        elif isinstance(exception, ItemDenied) and (said := exception.statement):
            self.note(item["url"], "dropped", f"{said.source}: {said.text}")

    def item_scraped(self, item: dict[str, Any]) -> None:
        self.kept.append(item["url"])
        if until := item.get("robots", {}).get("unavailable_after"):
            self.note(item["url"], "kept", f"until {until}")

    def engine_stopped(self) -> None:
        rows = [(*key, ", ".join(sorted(paths))) for key, paths in self.paths.items()]
        rows.sort(key=lambda row: (OUTCOMES.index(row[0]), row))
        table = [HEAD, *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
        log = self.crawler.get_downloader_middleware(OfflineSite).site.log
        fetched = sum(not (hit.is_robotstxt or hit.retry_after) for hit in log)
        kept = sorted(Counter(map(name, self.kept)).items())
        by_host = ", ".join(f"{host} {count}" for host, count in kept)
        print(f"{fetched} pages fetched, {len(self.kept)} items kept: {by_host}\n")
        judge(log, self.kept)


def name(url: str) -> str:
    """Return the name of a host without the ".example" of all."""
    return urlsplit(url).netloc.removesuffix(".example")


def said_of_use(exception: UsageDenied) -> str:
    """Return the place and the text of the statement that disallows a purpose."""
    statement = exception.denial.statement
    if statement is None:
        return f"nothing said about {exception.denial.purpose}"
    if statement.source == "robots.txt":
        return f"line {statement.position}: {statement.text}"
    return f"{statement.source}: {statement.text}"
