"""The answers of a report, and the rows behind them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.report.answers import answers
from scrapy_rep.report.ledgers import Ledgers, Limits
from scrapy_rep.report.robotstxt import _forbids
from tests.report.ledgers import NEWS, PRESS, START, Ledger, measured, realistic
from tests.report.test_views import ORIGIN, row, rows, values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER = "https://b.example"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.rep")
    yield ledger
    ledger.connection.close()


def answered(*paths: str) -> list[str]:
    """Return the answers, in order: fetched, refused, delays, pauses, crawlers."""
    with closing(Ledgers(paths, Limits())) as ledgers:
        (total,) = ledgers.view("total")
        return [one["answer"] for one in answers(ledgers, total)]


def test_of_a_crawl_that_was_measured(tmp_path: Path) -> None:
    """Each question has its answer in a sentence or two, also if the ledger has only refusals."""
    fetched, refused, delays, pauses, crawlers = answered(measured(tmp_path / "ledger"))
    assert fetched == "4,124 pages (96.5 MB) from 7 hosts, on 1 day."
    assert refused == "68 requests refused, because a rule matches."
    assert delays == (
        "Yes, at all 5 hosts with a delay. The shortest time from an answer to the next request "
        "was 1.02 times the delay: 5.1 s at https://news.example, which asks for 5 s."
    )
    assert pauses == (
        "Yes, at the one host with a pause. The shortest time from an answer to the next request "
        "was 1.02 times the pause: 1 min 1 s at https://busy.example, which asks for 1 min. "
        "Asked for: 2 pauses, of 1 min at most."
    )
    assert crawlers == (
        "2 hosts name AI crawlers in robots.txt. 2 forbid at least one of them everything: "
        "https://daily.example (CCBot, GPTBot, PerplexityBot), "
        "https://news.example (CCBot, GPTBot, PerplexityBot)."
    )


def test_of_a_crawl_that_was_not_measured(tmp_path: Path) -> None:
    """A ledger that has not measured says that it does not know, not that nothing happened."""
    path = realistic(tmp_path / "ledger")
    fetched, refused, delays, pauses, crawlers = answered(path)
    earlier = "since an earlier version of scrapy-rep wrote the ledger."
    assert fetched == f"Not known for 2 crawls, {earlier}"
    assert refused.startswith("687 requests refused: 653 because a rule matches, ")
    assert delays == (
        f"5 hosts ask for a delay; whether it was kept is not known, {earlier}"
    )
    assert pauses == "No host asked for a pause (429, 503)."
    assert crawlers == "None names a known AI crawler."


@pytest.mark.parametrize(
    "change",
    ["DROP TABLE traffic", "DROP TABLE progress",
     "ALTER TABLE decision RENAME source TO other", "ALTER TABLE decision RENAME via TO other"],
)  # fmt: skip
def test_a_ledger_of_an_earlier_version(ledger: Ledger, change: str) -> None:
    """A ledger of an earlier version lacks tables and columns. It can be read."""
    ledger.connection.execute(change)
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/")
    path = ledger.close()
    assert answered(path)[0].startswith("Not known for 1 crawl")
    assert values(rows("decision", path), "source", "via") == [(None, None)]


def test_both_kinds_of_ledgers(tmp_path: Path) -> None:
    old, new = realistic(tmp_path / "old"), measured(tmp_path / "new")
    fetched, _, delays, *_ = answered(old, new)
    assert fetched.startswith(
        "4,124 pages (96.5 MB) from 7 hosts, on 1 day. Not known for 2"
    )
    assert delays.startswith("Yes, at all 5 hosts with a delay.")
    assert "3 more hosts ask for a delay that no request had to keep to" in delays


def test_nothing_at_all(ledger: Ledger) -> None:
    """A crawl that has fetched nothing knows that."""
    ledger.crawl()
    assert answered(ledger.close()) == [
        "0 pages (0 bytes) from 0 hosts.",
        "0 requests refused.",
        "No host asks for a delay.",
        "No host asked for a pause (429, 503).",
        "None names a known AI crawler.",
    ]


def test_what_was_not_kept(ledger: Ledger) -> None:
    """The exceptions are named, with what was asked for; 0.999 of a delay is not rounded to 1."""
    ledger.crawl("denied")
    asked = {"layer": "delay", "verdict": "noted", "reason": "back-off"}
    for number, gap in enumerate((1.997, 0.0, 2.0, 1.9995, None)):
        origin = f"https://{number}.example"
        ledger.snapshot(origin, PRESS)
        resumed = {"pauses": 1, "pause": 5.0, "resumed": number or None}
        ledger.traffic(origin, 0, pages=1, delay=2.0, gap=gap, **resumed)
        ledger.traffic(origin, 1, pages=1, delay=2.0, gap=9.0)
        ledger.decision(f"{origin}/", agent=None, **asked)
    ledger.snapshot(OTHER, PRESS)
    ledger.progress(0, pages=10)
    path = ledger.close()
    _, _, delays, pauses, _ = answered(path)
    assert delays == (
        "Not kept at 2 of 5 hosts with a delay: https://1.example (the next request after 0 s, "
        "asked for 2 s), https://0.example (the next request after 1.997 s, asked for 2 s). 1 more "
        "host asks for a delay that no request had to keep to."
    )
    assert values(rows("delay", path), "origin", "kept", "gap") == [
        ("https://1.example", 0, 0.0),
        ("https://0.example", 0, 1.997),
        ("https://3.example", 1, 1.9995),
        ("https://2.example", 1, 2.0),
        ("https://4.example", 1, 9.0),
        (OTHER, None, None),
    ]
    assert pauses == (
        "Not kept at 4 of 5 hosts with a pause: https://1.example (the next request after 1 s, "
        "asked for 5 s), https://2.example (the next request after 2 s, asked for 5 s), "
        "https://3.example (the next request after 3 s, asked for 5 s) and 1 more host. "
        "Asked for: 5 pauses, of 5 s at most."
    )


def test_a_delay_that_the_crawl_ignores(ledger: Ledger) -> None:
    ledger.crawl("denied")
    ledger.snapshot(ORIGIN, PRESS)
    ledger.traffic(ORIGIN, 0, pages=3, bytes=3)
    ledger.progress(0, pages=3, bytes=3)
    assert answered(ledger.close())[2] == (
        "1 host asks for a delay; no request had to keep to it (a setting or a dry run ignores "
        "it, or none was sent)."
    )


def test_fetched_by_host_and_day(ledger: Ledger) -> None:
    """Pages and bytes of several hours and crawls are added up by day; most pages come first."""
    for number in range(2):
        ledger.crawl("denied")
        for hour in (0, 1, 24):
            ledger.traffic(ORIGIN, hour, pages=1 + number, bytes=10)
        ledger.traffic(OTHER, 0, pages=50, bytes=5)
        ledger.traffic("https://none.example", 0)
        ledger.progress(0, pages=50)
    path = ledger.close()
    assert values(rows("fetched", path), "origin", "day", "pages", "bytes") == [
        (OTHER, "2026-09-21", 100, 10),
        (ORIGIN, "2026-09-21", 6, 40),
        (ORIGIN, "2026-09-22", 3, 20),
    ]
    few = rows("fetched", path, limits=Limits(others=1))
    assert values(few, "origin", "of_all") == [(OTHER, 3)]
    assert values(rows("host", path), "origin", "pages") == [(ORIGIN, 9), (OTHER, 100)]


def test_timeline(ledger: Ledger) -> None:
    """The bars have what was fetched and refused, and how many requests of all crawls waited."""
    for number in range(2):
        ledger.crawl("denied")
        for minute in (0, 1, 5):
            ledger.progress(minute, pages=10, waiting=minute + number)
    ledger.snapshot(ORIGIN, PRESS)
    time = START // 60 * 60 + 61
    ledger.refused(f"{ORIGIN}/private/", 3, "Disallow: /", time=time)
    path = ledger.close()
    first = int(START) // 60 * 60
    assert values(
        rows("timeline", path), "start_at", "fetched", "refused", "waiting"
    ) == [
        (first, 20, 0, 1),
        (first + 60, 20, 1, 3),
        (first + 300, 20, 0, 11),
    ]


def test_a_long_timeline(ledger: Ledger) -> None:
    """However long the crawls took, there are only so many bars."""
    ledger.crawl("denied")
    for span in range(12):
        ledger.progress(7**span, pages=1)
    bars = rows("timeline", ledger.close())
    assert bars[-1]["start_at"] - bars[0]["start_at"] > 3600 * 24 * 365 * 1000
    assert len(bars) <= 72
    assert sum(bar["fetched"] for bar in bars) == 12


def test_timeline_of_an_earlier_version(tmp_path: Path) -> None:
    """What was let through stands for what was fetched, if the ledger has every decision."""
    bars = rows("timeline", realistic(tmp_path / "ledger"))
    assert sum(bar["fetched"] for bar in bars) == 1560 + 14
    assert {bar["waiting"] for bar in bars} == {None}


def test_ai_crawlers(ledger: Ledger) -> None:
    """Each AI crawler that a robots.txt names has what is forbidden to it, and the line."""
    ledger.snapshot(ORIGIN, b"User-agent: GPTBot\nDisallow:\n")
    later = {"fetched": START + 60}
    ledger.snapshot(ORIGIN, NEWS, **later)
    ledger.snapshot(OTHER, b"# GPTBot\nUser-agent: *\nDisallow: /\n")
    path = ledger.close()
    found = rows("ai_crawler", path)
    assert values(found, "origin", "crawler", "forbids", "line", "file") == [
        (ORIGIN, "CCBot", "everything", 2, 1),
        (ORIGIN, "GPTBot", "everything", 1, 1),
        (ORIGIN, "PerplexityBot", "everything but exceptions", 11, 1),
        (ORIGIN, "Google-Extended", "nothing", 8, 1),
        (ORIGIN, "ClaudeBot", "some paths", 5, 1),
    ]
    assert values([row("ai_crawlers_in_all", path)], "hosts", "closing") == [(1, 1)]


@pytest.mark.parametrize(
    ("forbidden", "allowed", "said"),
    [
        ({"/"}, set(), "everything"),
        ({"*", "/a"}, set(), "everything"),
        ({"/"}, {"/a"}, "everything but exceptions"),
        ({"/"}, {"/"}, "nothing"),
        ({"/", "/a"}, {"/*"}, "some paths"),
        ({"/a"}, {"/"}, "some paths"),
        (set(), {"/a"}, "nothing"),
    ],
)
def test_what_is_forbidden(forbidden: set[str], allowed: set[str], said: str) -> None:
    assert _forbids(forbidden, allowed) == said
