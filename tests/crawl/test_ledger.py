"""The ledger of a crawl has what was asked and decided, by the server's own log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy_rep.ledger.reader import open_ledger
from tests.crawl.answers import Answer
from tests.crawl.crawl import run_crawl
from tests.crawl.test_indexing import html, meta

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from tests.crawl.server import Host, Site

RULES = "User-agent: *\nDisallow: /private/\nAllow: /private/open\n"
SPIDER = "tests.crawl.page_spiders.PageSpider"


def rows(path: Path, query: str) -> list[sqlite3.Row]:
    ledger = open_ledger(str(path))
    try:
        return ledger.execute(query).fetchall()
    finally:
        ledger.close()


def decisions(path: Path, **columns: str) -> list[dict[str, Any]]:
    found = rows(
        path,
        "SELECT d.*, s.access, s.error, s.origin AS snapshot_origin, b.body"
        " FROM decision d LEFT JOIN snapshot s ON s.id = d.snapshot"
        " LEFT JOIN body b USING (sha256) ORDER BY d.id",
    )
    return [
        dict(row)
        for row in found
        if all(row[name] == value for name, value in columns.items())
    ]


def site_with_everything(site: Site) -> Host:
    host = site.add(RULES)
    host.answers |= {
        "/": html(
            '<a href="/noindex"><a href="/nofollow"><a href="/header">'
            '<a href="/private/no"><a href="/private/open"><a rel="UGC x" href="/ugc">'
        ),
        "/noindex": html(head=meta("noindex, max-snippet:50")),
        "/nofollow": html('<a href="/from-nofollow">', meta("NoFollow", "testbot")),
        "/header": html('<a href="/from-header">', tag="none"),
        "/private/open": html(),
    }
    return host


def test_every_layer(site: Site, mode: str, tmp_path: Path) -> None:
    """Each decision is there once with its evidence, and the access log agrees: each page
    that was fetched has one decision that allowed it, and no other page has.
    """
    host, same = site_with_everything(site), site.add(RULES)
    ours, down = site.add(RULES), site.add(Answer(status=503))
    path = tmp_path / "ledger.sqlite"
    result = run_crawl(
        [
            host.url("/"),
            same.url("/private/also"),
            ours.url("/private/ours"),
            ours.url("/closed"),
            down.url("/page"),
            {"url": down.url("/anyway"), "meta": {"dont_obey_robotstxt": True}},
        ],
        mode=mode,
        spider=SPIDER,
        settings={
            "REP_LEDGER": str(path),
            "REP_LEDGER_LEVEL": "all",
            "REP_REL": ["ugc"],
            "REP_OVERRIDES": {
                f"127.0.0.1:{ours.port}": "User-agent: *\nDisallow: /closed"
            },
        },
    )
    assert "log_count/ERROR" not in result.stats, result.log
    assert "log_count/WARNING" in result.stats  # of the 503
    allowed = Counter(
        row["url"] for row in decisions(path, verdict="allowed") if not row["page"]
    )
    fetched = [h.url(p) for h in (host, same, ours, down) for p in h.pages]
    assert allowed == Counter(fetched)
    print([dict(r) for r in decisions(path)])
    print(result.stats)
    assert 0
