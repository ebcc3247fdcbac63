"""What the project adds to its crawls: the site to be crawled, and a table at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import signals

from demo.hosts import HOSTS
from demo.judge import forbidden_hits, noindex_pages
from demo.server import SiteServer
from scrapy_rep.signals import link_dropped, request_denied

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from scrapy_rep import Decision


class BundledSite:
    """Serves the site from before the first request until after the last."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BundledSite:
        site = cls()
        crawler.signals.connect(site.server.stop, signal=signals.engine_stopped)
        return site

    def __init__(self) -> None:
        self.server = SiteServer(HOSTS)
        self.server.start()
        self.start_url = self.server.real("http://open.example/")


class Row(NamedTuple):
    page: str
    outcome: str
    item: str = ""
    said_by: str = ""
    statement: str = ""


class Report:
    """Prints what became of each page and of its item, and who wanted it so."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Report:
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
        self.items: dict[str, tuple[str, ...]] = {}  # by URL: the end of its page's row

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
        statement = str(exception).removeprefix("Not for an index: ")
        self.items[item["url"]] = ("dropped", "itself", statement)

    def note_kept_item(self, item: dict[str, Any]) -> None:
        until = item.get("robots", {}).get("unavailable_after")
        expiring = ("expiring", "itself", f"until {until}")
        self.items[item["url"]] = expiring if until else ("kept",)

    def print_report(self) -> None:
        # What was fetched is not asked of the crawl, but of the site it reached.
        server = self.crawler.get_extension(BundledSite).server
        pages = [hit for hit in server.log if hit.path != "/robots.txt"]
        rows = [Row(*map(server.named, row)) for row in self.not_sent]
        for hit in pages:
            item = self.items.get(server.real(hit.url), ())
            rows.append(Row(hit.url, f"fetched {hit.status}", *item))
        head = Row("page", "outcome", "item", "said by", "statement")
        print(table([head, *sorted(rows)]))
        print(f"\nrequests for a robots.txt: {len(server.log) - len(pages)}")
        agent = self.crawler.settings["USER_AGENT"]
        forbidden = (hit.url for hit in forbidden_hits(pages, agent))
        accuse("requests that reached a forbidden path", forbidden)
        kept = (url for url, row in self.items.items() if row[0] != "dropped")
        said_noindex = noindex_pages(map(server.named, kept), agent)
        accuse("items kept that said noindex", said_noindex)


def table(rows: list[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def accuse(of_what: str, urls: Iterable[str]) -> None:
    urls = sorted(urls)
    print(f"{of_what}: {len(urls)}", *urls, sep="\n  ")
