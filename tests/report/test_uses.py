"""The section on the permitted uses of content."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from scrapy_rep.report.collect import Limits, collect
from scrapy_rep.report.documents import ShownLine
from scrapy_rep.report.model import Use
from scrapy_rep.report.render import render
from scrapy_rep.report.scratch import Scratch
from tests.report.ledgers import START, Ledger

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = "https://a.example"
ROBOTS = b"User-agent: *\nContent-Usage: /a/ train-ai=n\nDisallow: /b/\n"


def used(tmp_path: Path) -> str:
    """A ledger with drops for several reasons."""
    ledger = Ledger(tmp_path / "ledger.rep")
    crawl = ledger.crawl(settings={"REP_PURPOSES": ["train-ai"]})
    snapshot = ledger.snapshot(crawl, ORIGIN, ROBOTS)
    ledger.refused(crawl, snapshot, f"{ORIGIN}/b/1", 3, "Disallow: /b/")
    common = {"layer": "usage", "reason": "train-ai"}
    in_file = {
        **common, "line": 2, "statement": "Content-Usage: /a/ train-ai=n",
        "source": "robots.txt", "agent": "*",
    }  # fmt: skip
    for number in range(3):
        url = f"{ORIGIN}/a/{number}"
        ledger.decision(crawl, snapshot, url, verdict="dropped", page=url, **in_file)
    ledger.decision(crawl, snapshot, f"{ORIGIN}/a/9", verdict="noted", **in_file)
    header = {"statement": "<b>noai", "source": "header", "verdict": "annotated"}
    ledger.decision(crawl, None, "https://b.example/x", **common, **header)
    unknown = {"reason": "search", "layer": "usage", "verdict": "dropped"}
    ledger.decision(crawl, None, "https://b.example/y", **unknown)
    return ledger.close()


def test_by_host_and_purpose(tmp_path: Path) -> None:
    """Drops come first, with the statement, and its line is marked in the file."""
    with closing(Scratch([used(tmp_path)])) as scratch:
        report = collect(scratch, Limits())
        text = "Content-Usage: /a/ train-ai=n"
        other = "https://b.example"
        assert report.uses == (
            Use(ORIGIN, "train-ai", "dropped", "robots.txt", text, 2, 3, f"{ORIGIN}/a/0", 1),
            Use(other, "search", "dropped", None, None, None, 1, f"{other}/y", None),
            Use(other, "train-ai", "annotated", "header", "<b>noai", None, 1, f"{other}/x", None),
            Use(ORIGIN, "train-ai", "noted", "robots.txt", text, 2, 1, f"{ORIGIN}/a/9", 1),
        )  # fmt: skip
        assert report.uses_left_out == 0
        (document,) = report.documents
        marked = {
            line.number: line.mark
            for line in document.versions[0].shown
            if isinstance(line, ShownLine) and line.mark
        }
        assert (marked[2].use, marked[2].refused, marked[2].allowed) == (4, 0, 0)
        assert (marked[3].use, marked[3].refused) == (0, 1)
        limited = collect(scratch, Limits(rows=1))
        assert (len(limited.uses), limited.uses_left_out) == (1, 3)
        page = "".join(render(limited, START))
        assert "3 more rows with lower counts not shown" in page


def test_on_the_page(tmp_path: Path) -> None:
    """Text of others stays text, and the lines of the file show their counts."""
    with closing(Scratch([used(tmp_path)])) as scratch:
        page = "".join(render(collect(scratch, Limits()), START))
    assert '<h2 id="usage-heading">What the content may be used for</h2>' in page
    assert "<code>&lt;b&gt;noai</code>" in page
    assert "about use 4" in page
    assert "robots.txt, line 2; for example https://a.example/a/0" in page


def test_a_stopped_download(tmp_path: Path) -> None:
    """The page says that a download was stopped, and not that nothing was stated."""
    ledger = Ledger(tmp_path / "ledger.rep")
    given = {"layer": "usage", "reason": "stopped", "verdict": "dropped"}
    ledger.decision(ledger.crawl(), None, f"{ORIGIN}/x", page=f"{ORIGIN}/x", **given)
    with closing(Scratch([ledger.close()])) as scratch:
        page = "".join(render(collect(scratch, Limits()), START))
    section = page.partition('<section id="usage"')[2].partition("</section>")[0]
    assert "<td>the download was stopped after the headers</td>" in section
    assert "<td>not recorded <" in section


def test_a_ledger_of_an_earlier_version(tmp_path: Path) -> None:
    """A ledger of an earlier version can be read, without the source of a statement."""
    path = used(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE decision RENAME COLUMN source TO other")
    with closing(Scratch([path])) as scratch:
        report = collect(scratch, Limits())
        assert {one.source for one in report.uses} == {None}
