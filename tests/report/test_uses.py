"""The section on the permitted uses of content."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from scrapy_rep.report.ledgers import Ledgers, Limits
from scrapy_rep.report.render import render
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


COLUMNS = (
    "origin", "purpose", "verdict", "source", "statement", "line", "times", "file",
)  # fmt: skip


def test_by_host_and_purpose(tmp_path: Path) -> None:
    """Drops come first, with the statement, and its line is marked in the file."""
    with closing(Ledgers([used(tmp_path)], Limits())) as ledgers:
        purposes = ledgers.view("purpose").fetchall()
        text = "Content-Usage: /a/ train-ai=n"
        other = "https://b.example"
        assert [tuple(one[column] for column in COLUMNS) for one in purposes] == [
            (ORIGIN, "train-ai", "dropped", "robots.txt", text, 2, 3, 1),
            (other, "search", "dropped", None, None, None, 1, None),
            (other, "train-ai", "annotated", "header", "<b>noai", None, 1, None),
            (ORIGIN, "train-ai", "noted", "robots.txt", text, 2, 1, 1),
        ]
        assert list(map(ledgers.example, purposes)) == [
            f"{ORIGIN}/a/0", f"{other}/y", f"{other}/x", f"{ORIGIN}/a/9",
        ]  # fmt: skip
        columns = "line", "refused", "allowed", "about_use"
        marks = [
            tuple(mark[column] for column in columns) for mark in ledgers.view("mark")
        ]
        assert marks == [(2, 0, 0, 4), (3, 1, 0, 0)]


def test_on_the_page(tmp_path: Path) -> None:
    """Text of others stays text, and the lines of the file show their counts."""
    with closing(Ledgers([used(tmp_path)], Limits())) as ledgers:
        page = "".join(render(ledgers, START))
    assert '<h2 id="usage-heading">What the content may be used for</h2>' in page
    assert "<code>&lt;b&gt;noai</code>" in page
    assert "about use 4" in page
    assert "robots.txt, line 2; for example https://a.example/a/0" in page


def test_rows_that_are_left_out(tmp_path: Path) -> None:
    """The page says how many rows it leaves out."""
    with closing(Ledgers([used(tmp_path)], Limits(others=1))) as ledgers:
        page = "".join(render(ledgers, START))
    assert "3 more rows not shown" in page


def test_a_ledger_of_an_earlier_version(tmp_path: Path) -> None:
    """A ledger of an earlier version can be read, without the source of a statement."""
    path = used(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE decision RENAME COLUMN source TO other")
    with closing(Ledgers([path], Limits())) as ledgers:
        assert {one["source"] for one in ledgers.view("purpose")} == {None}
