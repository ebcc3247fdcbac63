"""An extension that prints a table of the results at the end of a crawl."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import signals

from demo.offline.judge import judge
from demo.offline.middleware import OfflineSite
from scrapy_rep import indexing_rules
from scrapy_rep.signals import decision_made

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep.record import Record

HEAD = ("outcome", "host", "line of robots.txt, or statement", "pages")
OUTCOMES = ["refused", "not followed", "dropped", "kept"]


class Report:
    """Prints a table at the end of a crawl. The table lists the pages that were refused, not followed or dropped, and
    the statement behind each decision. Below the table, the violations that the module ``judge`` finds in the access
    log are printed.

    The extension collects the decisions from signals of Scrapy and scrapy-rep.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.paths: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self.kept: list[str] = []
        connect = crawler.signals.connect
        connect(self.decided, signal=decision_made)
        connect(self.item_scraped, signal=signals.item_scraped)
        connect(self.engine_stopped, signal=signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Report:
        return cls(crawler)

    def note(self, url: str, outcome: str, statement: str) -> None:
        path = urlsplit(url)._replace(scheme="", netloc="").geturl()
        self.paths[outcome, name(url), statement].append(path)

    def decided(self, record: Record) -> None:
        statement = record.statement or f"nothing said about {record.reason}"
        if record.line:
            statement = f"line {record.line}: {statement}"
        if record.verdict == "refused":
            why = statement if record.line else f"robots.txt {record.reason}"
            self.note(record.url, "refused", why)
        elif record.verdict == "dropped" and record.subject == "link":
            source = "rel" if record.layer == "rel" else "page"
            self.note(record.url, "not followed", f"{source}: nofollow")
        elif record.verdict == "dropped":
            if not record.line and record.statement:
                statement = f"{record.source or record.layer}: {statement}"
            self.note(record.url, "dropped", statement)

    def item_scraped(self, item: dict[str, Any], response: Response) -> None:
        self.kept.append(item["url"])
        try:
            until = indexing_rules(response).restrictions().get("unavailable_after")
        except ValueError:
            return  # The project does not use the add-on.
        if until:
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
        print(f"{fetched} pages fetched. Items kept: {len(self.kept)} ({by_host})\n")
        judge(log, self.kept)


def name(url: str) -> str:
    """Return the host of *url* without the suffix ".example"."""
    return urlsplit(url).netloc.removesuffix(".example")
