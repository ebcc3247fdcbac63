"""What a report says of ledgers: its answers and headline, and the rows of its tables."""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.protocol.dialect import RFC9309
from scrapy_rep.protocol.robotstxt.lines import text_lines
from scrapy_rep.tools.report import answers
from scrapy_rep.tools.report.answers import overall
from scrapy_rep.tools.report.ledgers import ReportLedgers, ReportLimits, excerpt
from scrapy_rep.tools.report.page import render
from tests.tools.report.ledgers import (
    BACK_OFF,
    BUSY,
    NEWS,
    OLD,
    PRESS,
    PRESS_HOST,
    SHOP,
    START,
    USE,
    Ledger,
    eventful,
    measured,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORIGIN, OTHER = "https://a.example", "https://b.example"
DEFAULT = ReportLimits()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.rep")
    yield ledger
    ledger.connection.close()


def rows(
    view: str,
    columns: str,
    *paths: str,
    limits: ReportLimits = DEFAULT,
    **found_by: object,
) -> list[tuple[object, ...]]:
    """Return these columns of the rows of a view over the ledgers at *paths*."""
    with closing(ReportLedgers(paths, limits)) as ledgers:
        view_rows = ledgers.view(view, **found_by).fetchall()
    return [tuple(row[column] for column in columns.split()) for row in view_rows]


def answered(*paths: str) -> list[str]:
    """Return the answers, in order: fetched, refused, delays, pauses, crawlers."""
    with closing(ReportLedgers(paths, DEFAULT)) as ledgers:
        return [answer["answer"] for answer in overall(ledgers, START)["answers"]]


def report(*paths: str) -> dict[str, Any]:
    """Return what the report says of the crawls as a whole."""
    with closing(ReportLedgers(paths, DEFAULT)) as ledgers:
        return overall(ledgers, START)


def page(*paths: str, limits: ReportLimits = DEFAULT) -> str:
    with closing(ReportLedgers(paths, limits)) as ledgers:
        return "".join(render(ledgers, START))


# The answers, and the headline.


def test_each_question_about_a_measured_crawl_has_its_answer(tmp_path: Path) -> None:
    """Each question has its answer in a sentence or two, also if the ledger has only refusals."""
    path = measured(tmp_path / "measured")
    fetched, refused, delays, pauses, crawlers = answered(path)
    assert fetched == "4,124 pages (96.5 MB) from 7 hosts, on 1 day."
    assert refused == "68 requests refused, because a rule matches."
    kept = "Yes, at all 5 hosts with a delay. The shortest time from an answer to the next request "
    assert delays == (
        f"{kept}was 1.02 times the delay: 5.1 s at https://news.example, which asks for 5 s."
    )
    assert pauses == (
        "Yes, at the one host with a pause. The shortest time from an answer to the next request "
        "was 1.02 times the pause: 1 min 1 s at https://busy.example, which asks for 1 min. "
        "Hosts asked for 2 pauses, with a maximum length of 1 min."
    )
    assert crawlers == (
        "2 hosts name AI crawlers in robots.txt. 2 forbid everything to at least one of these crawlers: "
        "https://daily.example (CCBot, GPTBot, PerplexityBot), "
        "https://news.example (CCBot, GPTBot, PerplexityBot)."
    )
    assert rows("slow", "origin pages delay seconds", path)[:2] == [
        ("https://news.example", 1801, 5.0, 9005.0),
        ("https://daily.example", 901, 5.0, 4505.0),
    ]
    both, _, delays, *_ = answered(eventful(tmp_path / "eventful"), path)
    assert both == "4,231 pages (96.5 MB) from 15 hosts, on 1 day."
    assert delays.startswith(kept)
    assert "1 more host asks for a delay that no request had to keep to" in delays


def test_what_was_not_measured_is_not_called_kept(
    tmp_path: Path, ledger: Ledger
) -> None:
    """A delay that no request had to keep to is not "kept", nor is a pause that was not measured. A
    crawl that has fetched nothing says so.
    """
    no_request = "no request had to keep to it (a setting or a dry run ignores it, or none was sent)."
    fetched, refused, *others = answered(eventful(tmp_path / "eventful"))
    assert fetched == "107 pages (10.7 kB) from 10 hosts, on 1 day."
    assert refused.startswith("56 requests refused: 52 because a rule matches, ")
    assert others == [
        f"2 hosts ask for a delay; {no_request}",
        "1 host asked for 2 pauses; it was not measured whether the crawl kept to them.",
        "No robots.txt names a known AI crawler.",
    ]
    nothing = Ledger(tmp_path / "nothing")
    nothing.crawl()
    path = nothing.close()
    assert answered(path) == [
        "0 pages (0 bytes) from 0 hosts.",
        "0 requests refused.",
        "No host asks for a delay.",
        "No host asked for a pause (429, 503).",
        "No robots.txt names a known AI crawler.",
    ]
    ledger.crawl("denied")
    ledger.snapshot(ORIGIN, PRESS)
    ledger.traffic(ORIGIN, 0, pages=3, bytes=3)
    ledger.progress(0, pages=3)
    assert answered(ledger.close())[2] == f"1 host asks for a delay; {no_request}"


def test_delays_and_pauses_that_were_not_kept_are_named(ledger: Ledger) -> None:
    """The exceptions are named, with what was asked for; 0.999 of a delay is not rounded to 1."""
    ledger.crawl("denied")
    for number, gap in enumerate((1.997, 0.0, 2.0, 1.9995, None)):
        origin = f"https://{number}.example"
        ledger.snapshot(origin, PRESS)
        ledger.gap(origin, 5.0, number or None, kind="pause")
        ledger.gap(origin, 2.0, 9.0)
        ledger.gap(origin, 2.0, gap)
        ledger.decision(f"{origin}/", **BACK_OFF)
    ledger.snapshot(OTHER, PRESS)
    ledger.progress(0, pages=10)
    path = ledger.close()
    _, _, delays, pauses, _ = answered(path)
    assert delays == (
        "Not kept at 2 of 5 hosts with a delay: https://1.example (the next request after 0 s, "
        "asked for 2 s), https://0.example (the next request after 1.997 s, asked for 2 s). 1 more "
        "host asks for a delay that no request had to keep to."
    )
    assert pauses == (
        "Not kept at 4 of 5 hosts with a pause: https://1.example (the next request after 1 s, "
        "asked for 5 s), https://2.example (the next request after 2 s, asked for 5 s), "
        "https://3.example (the next request after 3 s, asked for 5 s) and 1 more host. "
        "Hosts asked for 5 pauses, with a maximum length of 5 s."
    )
    assert rows("delay", "origin kept gap", path) == [
        ("https://1.example", 0, 0.0), ("https://0.example", 0, 1.997),
        ("https://3.example", 1, 1.9995), ("https://2.example", 1, 2.0),
        ("https://4.example", 1, 9.0), (OTHER, None, None),
    ]  # fmt: skip


def test_the_notes_say_what_was_checked_again(tmp_path: Path) -> None:
    """The notes say which requests were checked again, and for which that is not possible."""
    path = eventful(tmp_path / "ledger")
    summary = report(path)
    assert summary["kept"]
    assert summary["headline"] == (
        "107 pages were fetched (3 because of an override, no other forbidden), and 56 requests were "
        "refused"
    )
    first, *others = summary["notes"]
    assert first.startswith("98 requests that robots.txt let through were checked")
    assert others == ["No robots.txt applied to 6 requests: 6 hosts had none."]
    figures = {
        "hosts": 13,
        "without": 6,
        "unreachable": 3,
        "refused": 56,
        "dropped": 13,
    }
    assert summary["figures"].items() >= figures.items()
    settings = {(setting["spider"], setting["name"]) for setting in summary["settings"]}
    assert ("press", "REP_NOFOLLOW") in settings
    assert ("press", "REP_DIALECT") not in settings, "it has its default"
    both = report(path, measured(tmp_path / "refusals"))
    assert both["headline"] == (
        "4,231 pages were fetched (3 because of an override), and 124 requests were refused"
    )
    assert "The ledger of 1 crawl contains only refusals" in " ".join(both["notes"])


def test_hosts_with_a_page_for_robotstxt_are_counted(ledger: Ledger) -> None:
    """Hosts whose robots.txt was an HTML page are counted, each once, and a note says so."""
    ledger.crawl()
    for origin in ("https://wall.example", "https://wall-2.example"):
        for time in (10, 60):
            challenge = {"status": 202, "is_page": 1, "fetched": START + time}
            ledger.snapshot(origin, b"<html>", **challenge)
    ledger.snapshot("https://plain.example", b"User-agent: *")
    ledger.connection.commit()
    summary = report(ledger.path)
    assert summary["figures"]["pages_for_robotstxt"] == 2
    assert (
        "The robots.txt of 2 hosts was an HTML page, such as a challenge of a bot wall. If such a page "
        "has no rules, everything is allowed on its host."
    ) in summary["notes"]


REFUSED = {
    "verdict": "refused",
    "reason": "rule",
    "line": 3,
    "statement": "Disallow: /private/",
}
WOULD = {**REFUSED, "verdict": "would-refuse"}
OBEY = {"layer": "override", "reason": "ROBOTSTXT_OBEY"}
OVERRIDE = {"layer": "override", "reason": "override"}
DRY, IGNORING = (
    {"settings": {name: on}}
    for name, on in (("REP_DRY_RUN", True), ("ROBOTSTXT_OBEY", False))
)
DENIED = {"level": "denied"}


def gone(not_sent: int) -> dict[str, Any]:
    """Return the columns of a crawl that ended without network, with so many requests *not sent*."""
    counts = json.dumps({"rep/network/not_sent": not_sent})
    return {"finish_reason": "network_gone", "counts": counts}


LEFT = "not sent because the network was gone"
AGAIN, NOT_AGAIN = "checked again", "could not be checked again"

HEADLINES: dict[str, Any] = {
    # Crawls, each with its pages and its decisions; the headline; what the notes say.
    "no crawl": ([], "No crawl has written to this ledger", ""),
    "nothing": ([({}, 0, [])], "No page was fetched, and no request was refused", ""),
    "everything refused": (
        [({}, 0, [("/private/1", REFUSED), ("/private/2", REFUSED)])],
        "No page was fetched, and 2 requests were refused", "",
    ),
    "no answer": (
        [({}, 0, [("/news", {}), ("/private/1", REFUSED)])],
        "No page was fetched, and 1 request was refused", AGAIN,
    ),
    "every decision": (
        [({}, 2, [("/news", {}), ("/", {}), ("/private/1", REFUSED)])],
        "2 pages were fetched (none forbidden), and 1 request was refused", AGAIN,
    ),
    "requests that robots.txt forbade, in any form, whatever was recorded": (
        [({}, 5, [("/private/1", {}), ("/news/../private/2", {}), ("/news/../open", {}),
         ("/news", {"agent": "aggregator"}), ("/", {"agent": None, "reason": "no-group"})])],
        "5 pages were fetched (3 forbidden), and no request was refused", AGAIN,
    ),
    "forbidden requests without an answer":
        ([({}, 0, [("/private/1", {})])], "No page was fetched (1 forbidden), and no request was refused", AGAIN),
    "a dialect that is not known":
        ([({"dialect": "lenient"}, 1, [("/private/", {})])], "1 page was fetched, and no request was refused", NOT_AGAIN),
    "a URL that was cut":
        ([({}, 1, [("/private/…", {})])], "1 page was fetched, and no request was refused", NOT_AGAIN),
    "refusals alone": (
        [(DENIED, 3, [("/private/", REFUSED), ("/", OVERRIDE)])],
        "3 pages were fetched, and 1 request was refused", "only refusals",
    ),
    "refusals alone, everything refused":
        ([(DENIED, 0, [("/private/", REFUSED)])], "No page was fetched, and 1 request was refused", ""),
    "ROBOTSTXT_OBEY = False": (
        [(IGNORING, 2, [("/private/1", OBEY), ("/", OBEY)])],
        "2 pages were fetched without regard to robots.txt", "1 crawl ignored robots.txt",
    ),
    "ROBOTSTXT_OBEY = False, one decision for each host": (
        [({**IGNORING, **DENIED}, 9, [("/private/1", OBEY)])],
        "9 pages were fetched without regard to robots.txt", "1 crawl ignored robots.txt",
    ),
    "ROBOTSTXT_OBEY = False, no page":
        ([(IGNORING, 0, [])], "No page was fetched, and no request was refused", ""),
    "overrides, of all and of some": (
        [({}, 2, [("/", OVERRIDE), ("/private/1", OVERRIDE)]), ({}, 1, [("/news", {})])],
        "3 pages were fetched (2 because of an override, no other forbidden), and no request was refused", AGAIN,
    ),
    "a dry run": (
        [(DRY, 2, [("/news", {}), ("/private/1", WOULD)])],
        "Dry run: 2 pages were fetched, and 1 request would have been refused",
        "fetches everything",
    ),
    "a dry run that would refuse nothing": (
        [(DRY, 1, [("/news", {})])],
        "Dry run: 1 page was fetched, and no request would have been refused", "fetches everything",
    ),
    "a dry run, and another crawl": (
        [(DRY, 2, [("/news", {}), ("/private/1", WOULD)]), ({}, 1, [("/", {}), ("/private/2", REFUSED)])],
        "3 pages were fetched (none forbidden), and 2 requests were or would have been refused", "1 other crawl",
    ),
    "a crawl that obeys, and one that does not": (
        [({}, 1, [("/news", {}), ("/private/2", REFUSED)]), (IGNORING, 1, [("/private/1", OBEY)])],
        "2 pages were fetched (1 because of an override, no other forbidden), and 1 request was refused",
        "1 crawl ignored robots.txt",
    ),
    "the network was gone": (
        [(gone(3), 2, [("/news", {}), ("/private/1", REFUSED)])],
        f"2 pages were fetched (none forbidden), 1 request was refused, and 3 requests were {LEFT}", "1 crawl ended because no host responded",
    ),
    "the network was gone, and robots.txt ignored": (
        [({**IGNORING, **gone(1)}, 2, [("/", OBEY)])],
        f"2 pages were fetched without regard to robots.txt, and 1 request was {LEFT}",
        "A new run with the same JOBDIR sends the remaining requests",
    ),
    "two crawls without network, and a later one": (
        [(gone(3), 1, [("/news", {})]), (gone(4), 0, []), ({}, 4, [("/", {})])],
        f"5 pages were fetched (none forbidden), no request was refused, and 7 requests were {LEFT}", "2 crawls ended because no host responded",
    ),
    "a forbidden page that a browser had been led to": (
        [({}, 2, [("/news", {}), ("/private/1", {**REFUSED, "via": f"redirect {ORIGIN}/news"}),
         ("/private/1", {**REFUSED, "via": f"browser {ORIGIN}/news"}), ("/private/1", REFUSED)])],
        "2 pages were fetched (1 forbidden), and 3 requests were refused", "led there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADLINES)
def test_the_headline_says_what_was_fetched_and_refused(
    ledger: Ledger, name: str
) -> None:
    """The headline is a sentence that says what was fetched and what was refused, and, where the ledger
    shows it, whether anything was forbidden.
    """
    crawls, headline, note = HEADLINES[name]
    for crawl, pages, decisions in crawls:
        ledger.crawl(**crawl)
        ledger.snapshot(ORIGIN, PRESS)
        ledger.traffic(ORIGIN, 0, pages=pages)
        for path, columns in decisions:
            ledger.allowed(f"{ORIGIN}{path}", **columns)
    summary = report(ledger.close())
    assert summary["headline"] == headline
    assert note in " ".join(summary["notes"])
    is_broken = re.search(r"\d forbidden", headline) is not None
    assert summary["kept"] is not is_broken
    urls = set(summary["checked_again"]["examples"])
    forbidden = {f"{ORIGIN}/private/1", f"{ORIGIN}/news/../private/2", f"{ORIGIN}/news"}
    assert urls == (forbidden if "3 forbidden" in headline else urls & forbidden)


# Several ledgers, and one that is still written.


@pytest.mark.parametrize("number", [2, 12])
def test_the_numbers_of_several_ledgers_are_added_up(
    tmp_path: Path, number: int
) -> None:
    """A report reads any number of ledgers, also more than SQLite attaches. Numbers of several
    are added up, by host and by line.
    """
    paths = [eventful(tmp_path / str(index)) for index in range(number)]
    both, alone = report(*paths), report(paths[0])
    for name in ("crawls", "refused", "dropped", "annotated", "let_through"):
        assert both["figures"][name] == number * alone["figures"][name] > 0
    checked = alone["checked_again"]["checked"]
    assert both["checked_again"]["checked"] == number * checked > 0
    for view, columns in (
        ("outcome", "layer verdict reason times"), ("rule", "origin statement refused")
    ):  # fmt: skip
        of_one = sorted(
            (*row[:-1], number * row[-1]) for row in rows(view, columns, paths[0])
        )
        assert sorted(rows(view, columns, *paths)) == of_one
    other_ledger = Ledger(tmp_path / "own")
    other_ledger.snapshot(ORIGIN, b"User-agent: *\nDisallow: /own/\n")
    other_ledger.refused(f"{ORIGIN}/own/1", 2, "Disallow: /own/")
    text = page(*paths, other_ledger.close())
    assert f"for example {ORIGIN}/own/1" in text
    assert "<mark>Disallow: /own/</mark>" in text


def test_a_report_reads_one_committed_state(ledger: Ledger) -> None:
    """The report reads one committed state, while the crawl continues to write."""
    ledger.connection.execute("PRAGMA journal_mode = WAL")
    ledger.crawl(ended=None)
    ledger.snapshot(ORIGIN, PRESS)
    ledger.allowed(f"{ORIGIN}/1")
    ledger.connection.commit()
    ledger.allowed(f"{ORIGIN}/2")
    with closing(ReportLedgers([ledger.path], DEFAULT)) as ledgers:
        ledger.connection.commit()
        summary = overall(ledgers, START)
    assert summary["crawls"][0]["ended_at"] is None
    assert summary["figures"]["let_through"] == summary["checked_again"]["checked"] == 1


# The tables.

RULE = "refused", "robots.txt", "rule"
LOOP = "redirected more than 5 times, in a loop"
OWN = "staging.example: ignore (our own; until 2027-01-01)"
ABOUT_USE = "robots.txt", "Content-Usage: /a/ train-ai=n", 2
STAGING = "https://staging.example"
GONE = "https://gone.example"


TABLES: dict[str, Any] = {
    "hosts, by refusals, each with the state of its robots.txt": (
        "host", "origin refused dropped access status file judged copy_of age gap", [
            (PRESS_HOST, 36, 0, "successful", 200, 1, 1, None, 997.0, None),
            (SHOP, 15, 10, "successful", 200, 2, 2, None, 590.0, None),
            (GONE, 2, 0, "unreachable", None, None, 3, None, -6600.0, None),
            (USE, 1, 3, "successful", 200, 3, 6, None, 590.0, None),
            ("https://bare-5.example", 1, 0, "unavailable", 499, None, 4, None, 540.0, None),
            (OLD, 1, 0, "unreachable", 503, 4, 5, START - 4000, 4600.0, None),
            (BUSY, 0, 0, "successful", 200, 5, None, None, 66.5, None),
            (STAGING, 0, 0, None, None, None, 7, None, None, None),
        ],
    ),
    "rules that refused": (
        "rule", "origin statement refused", [
            (PRESS_HOST, "Disallow: /private/", 20), (SHOP, "Disallow: /private/", 10),
            (PRESS_HOST, "Disallow: /archive/", 9), (PRESS_HOST, "Disallow: /*?print=", 7),
            (SHOP, "Disallow: /*?print=", 4), (OLD, "Disallow: /x", 1),
            (USE, "Disallow: /b/", 1),
        ],
    ),
    "robots.txt files, by decisions": (
        "file", "number origin refused allowed",
        [(1, PRESS_HOST, 36, 3), (2, SHOP, 14, 2), (3, USE, 1, 0), (4, OLD, 1, 0), (5, BUSY, 0, 0)],
    ),
    "reasons, by layer": (
        "outcome", "layer verdict reason times", [
            ("robots.txt", "allowed", "no-rule", 93), ("robots.txt", "refused", "rule", 52),
            ("robots.txt", "allowed", "unavailable", 6), ("robots.txt", "allowed", "rule", 5),
            ("robots.txt", "refused", "unreachable", 2), ("robots.txt", "refused", "unavailable", 1),
            ("header", "dropped", "noindex", 5), ("usage", "dropped", "train-ai", 2),
        ],
    ),
    "outages: first and last time, last reason, abandoned requests, recovery": (
        "outage", "origin error times first_at last_at given_up recovered copy_at", [
            (GONE, "refused", 3, START, START + 7200, 2, 0, None),
            (BUSY, None, 1, START + 10, START + 10, 0, 1, None),
            (OLD, None, 1, START + 10, START + 10, 0, 0, START - 4000),
        ],
    ),
    "pauses, and the shortest time to the next request to the host":
        ("pause", "origin times statement resumed refused", [(BUSY, 2, "429, Retry-After: 5", None, 0)]),
    "overrides":
        ("overridden", "reason statement verdict times hosts", [("override", OWN, "allowed", 3, 1)]),
    "hosts without a robots.txt, each by its last result": (
        "without", "status error hosts allowed refused origin", [
            (404, None, 3, 3, 0, "https://bare-0.example"),
            (404, None, 3, 3, 0, "https://bare-1.example"),
            (301, LOOP, 1, 1, 0, "https://bare-4.example"),
            (403, None, 1, 1, 0, "https://bare-3.example"),
            (499, None, 1, 1, 1, "https://bare-5.example"),
        ],
    ),
    "uses: what was dropped comes before what was noted": (
        "purpose", "origin purpose verdict source statement line times file", [
            (USE, "train-ai", "dropped", *ABOUT_USE, 2, 3),
            (SHOP, "train-ai", "annotated", "header", "<b>noai", None, 1, 2),
            (USE, "search", "dropped", None, None, None, 1, 3),
            (USE, "train-ai", "noted", *ABOUT_USE, 1, 3),
        ],
    ),
    "hosts with refusals or overrides": (
        "judged", "origin refused overridden of_all", [
            (PRESS_HOST, 36, 0, 7), (SHOP, 15, 0, 7), (GONE, 2, 0, 7),
            ("https://bare-5.example", 1, 0, 7), (OLD, 1, 0, 7), (USE, 1, 0, 7), (STAGING, 0, 3, 7),
        ],
    ),
    "URLs that were refused, each with its rule, the most frequent first": (
        "judged_url", "url verdict layer reason line statement times urls_of_host", [
            (f"{PRESS_HOST}/archive/7", *RULE, 4, "Disallow: /archive/", 2, 35),
            (f"{PRESS_HOST}/private/0", *RULE, 3, "Disallow: /private/", 1, 35),
            (f"{SHOP}/private/0", *RULE, 3, "Disallow: /private/", 1, 15),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_each_table_counts_the_decisions_of_all_crawls(
    tmp_path: Path, name: str
) -> None:
    """Each table counts the decisions of all crawls, the greatest number first."""
    view, columns, expected = TABLES[name]
    table = rows(
        view, columns, eventful(tmp_path / "ledger"), limits=ReportLimits(urls=2)
    )
    is_cut = view in {"host", "outcome", "judged_url"}
    assert (table[: len(expected)] if is_cut else table) == expected


def test_limits_say_what_is_left_out(tmp_path: Path) -> None:
    """With limits on hosts, files and rows, the omitted ones are counted."""
    limits = ReportLimits(hosts=3, files=2, others=1, urls=2)
    path = eventful(tmp_path / "ledger")
    assert rows("host", "file", path, limits=limits) == [(1,), (2,), (None,)]
    assert rows("file", "number of_all", path, limits=limits) == [(1, 5), (2, 5)]
    assert rows("outage", "of_all", path, limits=limits) == [(3,)]
    assert rows("judged", "of_all", path, limits=limits) == [(7,)]
    assert set(rows("version", "number", path, limits=limits)) == {(1,), (2,)}
    sections = page(path, limits=limits).split("<section")
    for name, message in (
        ("unreachable", "2 more hosts not shown"),
        ("without", "and 1 more host"),
        ("without", "3 more hosts not shown"),
        ("urls", "33 more URLs not shown"),
    ):
        assert message in next(
            section for section in sections if f'id="{name}"' in section
        ), name


def test_versions_of_a_robots_txt_are_listed_latest_first(tmp_path: Path) -> None:
    """Versions of a robots.txt are listed, latest first, with the decisions of their lines. An older
    copy that was followed has the date of its own fetch, not of the failed one.
    """
    path = eventful(tmp_path / "ledger")
    with closing(ReportLedgers([path], DEFAULT)) as ledgers:
        later, earlier, *_ = ledgers.view("version")
        marks = ledgers.view("mark", origin=earlier["origin"], sha256=earlier["sha256"])
        lines = excerpt(
            text_lines(ledgers.body(earlier["sha256"]), RFC9309), marks.fetchall()
        )
        examples = [row["example"] for row in ledgers.view("purpose")]
        sizes = [len(ledgers.body(version["sha256"])) for version in (later, earlier)]
    assert sizes == [len(PRESS) + 20, len(PRESS)]
    marked = [
        (number, text, mark["refused"], mark["allowed"])
        for number, text, mark in lines
        if mark
    ]
    assert marked == [
        (3, "Disallow: /private/", 20, 0),
        (4, "Disallow: /*?print=", 7, 0),
        (5, "Allow: /private/press-kit/", 0, 3),
    ]
    copied = rows("version", "first last copy_of", path, origin=OLD)
    assert copied == [(START - 4000,) * 3]
    of_use = rows("mark", "line refused allowed about_use", path, origin=USE)
    assert of_use == [(2, 0, 0, 3), (3, 1, 0, 0)]
    assert examples == [f"{USE}/a/0", f"{SHOP}/x", f"{USE}/usage/0", f"{USE}/a/2"]
    html = page(path)
    for message in (
        "<code>&lt;b&gt;noai</code>", "about use 3", f"line 2; for example {USE}/a/0",
        "404 Not Found", f"{LOOP} (301 Moved Permanently)", "403 Forbidden", "status 499",
    ):  # fmt: skip
        assert message in html


def test_the_file_whose_lines_decided_most_comes_first(ledger: Ledger) -> None:
    """The robots.txt whose lines decided most comes first, however many lines these are."""
    for origin, lines in ((ORIGIN, (2, 3)), (OTHER, (2, 2, 2))):
        ledger.snapshot(origin, PRESS)
        for line in lines:
            ledger.refused(f"{origin}/private/", line, "Disallow: /")
    assert rows("file", "origin refused", ledger.close()) == [(OTHER, 3), (ORIGIN, 2)]


BEGINNING = [*range(1, 41)]


@pytest.mark.parametrize(
    ("text", "times", "numbers"),
    [
        # A short file is shown whole; a mark on a line that does not exist is ignored.
        ("a\n\nb\n", {3: 1, 7: 1, 10**12: 1}, [1, 2, 3]),
        ("", {}, []),
        ("x\n" * 100_000, {50_000: 2, 100_000: 1, 10**12: 1},
         [*BEGINNING, *range(49_998, 50_003), 99_998, 99_999, 100_000]),
        # Of too many deciding lines, those with the most decisions are shown.
        ("x\n" * 100_000, {line: line for line in range(1, 100_001, 10)},
         [*BEGINNING, *(line + n for line in range(99_001, 100_001, 10) for n in range(-2, 3))]),
    ],
    ids=["short", "empty", "long", "many deciding lines"],
)  # fmt: skip
def test_a_long_file_is_cut_to_its_deciding_lines(
    text: str, times: dict[int, int], numbers: list[int]
) -> None:
    """A long file shows its beginning and the deciding lines; omitted lines are counted."""

    marks: Any = [{"line": line, "times": number} for line, number in times.items()]
    shown = excerpt(text.splitlines(), marks)
    all_lines = text.splitlines()
    there = [(number, line) for number, line, _ in shown if line is not None]
    assert there == [(number, all_lines[number - 1]) for number in numbers]
    assert sum(n for n, line, _ in shown if line is None) == len(all_lines) - len(there)
    marked = {number: mark["times"] for number, _, mark in shown if mark}
    assert marked == {line: times[line] for line in times if line in numbers}


def test_pages_and_bytes_are_added_up_by_host_and_day(ledger: Ledger) -> None:
    """Pages and bytes of several hours and crawls are added up by day; most pages come first."""
    for number in range(2):
        ledger.crawl("denied")
        for hour in (0, 1, 24):
            ledger.traffic(ORIGIN, hour, pages=1 + number, bytes=10)
        ledger.traffic(OTHER, 0, pages=50, bytes=5)
        ledger.traffic("https://none.example", 0)
        ledger.progress(0, pages=50)
    path = ledger.close()
    assert rows("fetched", "origin day pages bytes", path) == [
        (OTHER, "2026-09-21", 100, 10),
        (ORIGIN, "2026-09-21", 6, 40),
        (ORIGIN, "2026-09-22", 3, 20),
    ]
    assert rows("fetched", "origin of_all", path, limits=ReportLimits(others=1)) == [
        (OTHER, 3)
    ]
    assert rows("host", "origin pages", path) == [(ORIGIN, 9), (OTHER, 100)]


def test_the_timeline_has_a_bounded_number_of_bars(
    ledger: Ledger, tmp_path: Path
) -> None:
    """The bars have what was fetched and refused, and how many requests of all crawls waited. However
    long the crawls took, there are only so many bars.
    """
    for number in range(2):
        ledger.crawl("denied")
        for minute in (0, 1, 5):
            ledger.progress(minute, pages=10, waiting=minute + number)
    ledger.snapshot(ORIGIN, PRESS)
    first = int(START) // 60 * 60
    ledger.refused(f"{ORIGIN}/private/", 3, "Disallow: /", time=first + 61)
    assert rows("timeline", "start_at fetched refused waiting", ledger.close()) == [
        (first, 20, 0, 1), (first + 60, 20, 1, 3), (first + 300, 20, 0, 11)
    ]  # fmt: skip
    long = Ledger(tmp_path / "long")
    for span in range(12):
        long.progress(7**span, pages=1)
    bars: Any = rows("timeline", "start_at fetched", long.close())
    assert bars[-1][0] - bars[0][0] > 3600 * 24 * 365 * 1000
    assert len(bars) <= 72
    assert sum(fetched for _, fetched in bars) == 12


def test_each_named_ai_crawler_has_what_is_forbidden_to_it(ledger: Ledger) -> None:
    """Each AI crawler that a robots.txt names has what is forbidden to it, and the line."""
    ledger.snapshot(ORIGIN, b"User-agent: GPTBot\nDisallow:\n")
    ledger.snapshot(ORIGIN, NEWS, fetched=START + 60)
    ledger.snapshot(OTHER, b"# GPTBot\nUser-agent: *\nDisallow: /\n")
    forbidding = {
        "Disallow: *\nDisallow: /a": "everything",
        "Disallow: /\nAllow: /": "nothing",
        "Disallow: /\nDisallow: /a\nAllow: /*": "some paths",
        "Disallow: /a\nAllow: /": "some paths",
        "Allow: /a": "nothing",
    }
    for number, rules in enumerate(forbidding):
        ledger.snapshot(
            f"https://{number}.example", f"User-agent: CCBot\n{rules}".encode()
        )
    path = ledger.close()
    crawlers = rows("ai_crawler", "origin crawler forbids line file", path)
    assert [row for row in crawlers if row[0] in {ORIGIN, OTHER}] == [
        (ORIGIN, "CCBot", "everything", 2, 6),
        (ORIGIN, "GPTBot", "everything", 1, 6),
        (ORIGIN, "PerplexityBot", "everything but exceptions", 11, 6),
        (ORIGIN, "Google-Extended", "nothing", 8, 6),
        (ORIGIN, "ClaudeBot", "some paths", 5, 6),
    ]
    forbids = {row[0]: row[2] for row in crawlers if row[0] not in {ORIGIN, OTHER}}
    assert [forbids[origin] for origin in sorted(forbids)] == list(forbidding.values())
    assert rows("ai_crawlers_in_all", "hosts closing", path) == [(6, 2)]


def test_the_delay_shown_is_the_slower_of_delay_and_rate(ledger: Ledger) -> None:
    """The delay is the slower of Crawl-delay and Request-rate for the crawler's own
    group, even if only its User-Agent is known; none if the dialect ignores them.
    """
    body = b"User-agent: mybot\nCrawl-delay: 2\nRequest-rate: 1/10\n"
    for number, columns in enumerate(({"agents": "[]"}, {"dialect": "google"}, {})):
        ledger.crawl(**columns)
        ledger.snapshot(f"https://{number}.example", body)
    assert rows("host", "delay", ledger.close()) == [(10,), (None,), (10,)]


# How values are shown, above all those written by others.


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (answers.visible("x" * 5000, 10), "xxxxxxxxxx… (4,990 more characters)"),
        (answers.visible("x" * 10, 10), "x" * 10),
        (answers.visible("a\x1b[0m\u202eb"), "a\\x1b[0m\\u202eb"),
        # User and password of a URL are removed, wherever it is in a setting.
        (answers.setting("redis://me:secret@host/0"), "redis://***@host/0"),
        (answers.setting({"a": ["http://:secret@host/x@y"]}), '{"a": ["http://***@host/x@y"]}'),
        (answers.setting("https://host/a@b"), "https://host/a@b"),
        (answers.setting(True), "true"),
        # A duration has two units at most.
        (", ".join(map(answers.duration, (None, -3, 0.25, 2.0, 60, 61, 3599, 3600, 86399, 90000))),
         "–, 0 s, 0.25 s, 2 s, 1 min, 1 min 1 s, 59 min, 1 h, 23 h, 1 d 1 h"),
        # A span has a common day once, and its end only if it is in another minute.
        (", ".join(map(answers.moment, (0, 1e30, float("nan")))), "1970-01-01 00:00, –, –"),
        (answers.span(0, 59), "1970-01-01 00:00"),
        (answers.span(0, 3660), "1970-01-01 00:00 to 01:01"),
        (answers.span(0, 90000), "1970-01-01 00:00 to 1970-01-02 01:00"),
        (answers.span(0, 1e30), "1970-01-01 00:00 to –"),
        (answers.count(0, "entry", "entries"), "0 entries"),
        (", ".join(map(answers.octets, (9999, 512_000))), "9,999 bytes, 512 kB"),
    ],
)  # fmt: skip
def test_values_are_shown_short_and_without_passwords(
    written: str, expected: str
) -> None:
    """Values are short and readable, without control characters and passwords."""
    assert written == expected
