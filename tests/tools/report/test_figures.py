"""Tests of the content of a report: its answers and headline, and the rows of its tables."""

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
    write_eventful_ledger,
    write_measured_ledger,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORIGIN, OTHER_ORIGIN = "https://a.example", "https://b.example"
DEFAULT = ReportLimits()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Yield an open ledger without rows."""
    ledger = Ledger(tmp_path / "ledger.rep")
    yield ledger
    ledger.connection.close()


def rows(
    view: str,
    columns: str,
    *paths: str,
    limits: ReportLimits = DEFAULT,
    **parameters: object,
) -> list[tuple[object, ...]]:
    """Return the rows of a *view* of the report on the ledgers at *paths*. *columns* are the names of the wanted
    columns, such as "origin pages". *parameters* are those of the view.
    """
    with closing(ReportLedgers(paths, limits)) as ledgers:
        view_rows = ledgers.view(view, **parameters).fetchall()
    return [tuple(row[column] for column in columns.split()) for row in view_rows]


def answers_of(*paths: str) -> list[str]:
    """Return the report's answers for the ledgers at *paths*, in order: pages fetched, requests
    refused, delays, pauses, AI crawlers.
    """
    with closing(ReportLedgers(paths, DEFAULT)) as ledgers:
        return [answer["answer"] for answer in overall(ledgers, START)["answers"]]


def summary_of(*paths: str) -> dict[str, Any]:
    """Return the data of the report that are not in tables: headline, notes, figures, settings."""
    with closing(ReportLedgers(paths, DEFAULT)) as ledgers:
        return overall(ledgers, START)


def page_of(*paths: str, limits: ReportLimits = DEFAULT) -> str:
    """Return the report on the ledgers at *paths* in HTML."""
    with closing(ReportLedgers(paths, limits)) as ledgers:
        return "".join(render(ledgers, START))


# Answers and headline.


def test_a_measured_crawl_answers_each_question_of_the_report(tmp_path: Path) -> None:
    """The report answers five questions, each in a few sentences. The answers do not need the allowed requests, which
    ledgers with the level "denied" do not have.
    """
    path = write_measured_ledger(tmp_path / "measured")
    fetched, refused, delays, pauses, crawlers = answers_of(path)
    assert fetched == "4,124 pages (96.5 MB) from 7 hosts, on 1 day."
    assert refused == "68 requests refused, because a rule matches."
    start = "Yes, at all 5 hosts with a delay. The shortest time from an answer to the next request "
    assert delays == (
        f"{start}was 1.02 times the delay: 5.1 s at https://news.example, which asks for 5 s."
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
    fetched_by_both, _, delays, *_ = answers_of(
        write_eventful_ledger(tmp_path / "eventful"), path
    )
    assert fetched_by_both == "4,231 pages (96.5 MB) from 15 hosts, on 1 day."
    assert delays.startswith(start)
    assert "1 more host asks for a delay that no request had to keep to" in delays


def test_delays_and_pauses_that_were_not_measured_are_not_called_kept(
    tmp_path: Path, ledger: Ledger
) -> None:
    """If no request had to keep to a delay, or if it was not measured whether the crawl kept to a pause, the report
    says so. The report on a crawl that fetched nothing is also tested.
    """
    no_request = "no request had to keep to it (a setting or a dry run ignores it, or none was sent)."
    fetched, refused, *other_answers = answers_of(
        write_eventful_ledger(tmp_path / "eventful")
    )
    assert fetched == "107 pages (10.7 kB) from 10 hosts, on 1 day."
    assert refused.startswith("56 requests refused: 52 because a rule matches, ")
    assert other_answers == [
        f"2 hosts ask for a delay; {no_request}",
        "1 host asked for 2 pauses; it was not measured whether the crawl kept to them.",
        "No robots.txt names a known AI crawler.",
    ]
    empty_ledger = Ledger(tmp_path / "nothing")
    empty_ledger.crawl()
    path = empty_ledger.close()
    assert answers_of(path) == [
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
    assert answers_of(ledger.close())[2] == f"1 host asks for a delay; {no_request}"


def test_delays_and_pauses_that_were_not_kept_are_named(ledger: Ledger) -> None:
    """The report names hosts whose delay or pause the crawl did not keep, with the shortest time between two requests
    and the time that the host asked for. A wait of 1.997 s for a delay of 2 s is too short.
    """
    ledger.crawl("denied")
    for number, gap in enumerate((1.997, 0.0, 2.0, 1.9995, None)):
        origin = f"https://{number}.example"
        ledger.snapshot(origin, PRESS)
        ledger.gap(origin, 5.0, number or None, kind="pause")
        ledger.gap(origin, 2.0, 9.0)
        ledger.gap(origin, 2.0, gap)
        ledger.decision(f"{origin}/", **BACK_OFF)
    ledger.snapshot(OTHER_ORIGIN, PRESS)
    ledger.progress(0, pages=10)
    path = ledger.close()
    _, _, delays, pauses, _ = answers_of(path)
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
        ("https://4.example", 1, 9.0), (OTHER_ORIGIN, None, None),
    ]  # fmt: skip


def test_the_notes_say_what_was_checked_again(tmp_path: Path) -> None:
    """For each request that robots.txt allowed, the report repeats the decision with the robots.txt in the ledger. The
    notes of the report say how many requests were checked, and why other requests could not be checked.
    """
    path = write_eventful_ledger(tmp_path / "ledger")
    summary = summary_of(path)
    assert summary["kept"]
    assert summary["headline"] == (
        "107 pages were fetched (3 because of an override, no other forbidden), and 56 requests were "
        "refused"
    )
    first, *other_notes = summary["notes"]
    assert first.startswith("98 requests that robots.txt let through were checked")
    assert other_notes == ["No robots.txt applied to 6 requests: 6 hosts had none."]
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
    assert ("press", "REP_DIALECT") not in settings, (
        "a setting with its default value is not listed"
    )
    summary_of_both = summary_of(path, write_measured_ledger(tmp_path / "refusals"))
    assert summary_of_both["headline"] == (
        "4,231 pages were fetched (3 because of an override), and 124 requests were refused"
    )
    assert "The ledger of 1 crawl contains only refusals" in " ".join(
        summary_of_both["notes"]
    )


def test_hosts_with_a_page_for_robotstxt_are_counted(ledger: Ledger) -> None:
    """A host whose robots.txt was an HTML page is counted once, however often it was fetched, and a
    note explains the number.
    """
    ledger.crawl()
    for origin in ("https://wall.example", "https://wall-2.example"):
        for time in (10, 60):
            challenge = {"status": 202, "is_page": 1, "fetched": START + time}
            ledger.snapshot(origin, b"<html>", **challenge)
    ledger.snapshot("https://plain.example", b"User-agent: *")
    ledger.connection.commit()
    summary = summary_of(ledger.path)
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
WOULD_REFUSE = {**REFUSED, "verdict": "would-refuse"}
NOT_OBEYED = {"layer": "override", "reason": "ROBOTSTXT_OBEY"}
OVERRIDE = {"layer": "override", "reason": "override"}
DRY_RUN, IGNORES_ROBOTSTXT = (
    {"settings": {name: value}}
    for name, value in (("REP_DRY_RUN", True), ("ROBOTSTXT_OBEY", False))
)
ONLY_REFUSALS = {"level": "denied"}


def network_gone(not_sent: int) -> dict[str, Any]:
    """Return the columns of a crawl that ended because the network was gone, with *not_sent*
    requests left.
    """
    counts = json.dumps({"rep/network/not_sent": not_sent})
    return {"finish_reason": "network_gone", "counts": counts}


NOT_SENT = "not sent because the network was gone"
CHECKED, NOT_CHECKED = "checked again", "could not be checked again"

HEADLINES: dict[str, Any] = {
    # Name: the crawls, each as (columns, number of pages, decisions); the headline; a part of the notes.
    "no crawl": ([], "No crawl has written to this ledger", ""),
    "a crawl without requests": ([({}, 0, [])], "No page was fetched, and no request was refused", ""),
    "everything refused": (
        [({}, 0, [("/private/1", REFUSED), ("/private/2", REFUSED)])],
        "No page was fetched, and 2 requests were refused", "",
    ),
    "an allowed request without a response": (
        [({}, 0, [("/news", {}), ("/private/1", REFUSED)])],
        "No page was fetched, and 1 request was refused", CHECKED,
    ),
    "a ledger with all decisions": (
        [({}, 2, [("/news", {}), ("/", {}), ("/private/1", REFUSED)])],
        "2 pages were fetched (none forbidden), and 1 request was refused", CHECKED,
    ),
    "requests that were recorded as allowed, but are forbidden in some form of their URL": (
        [({}, 5, [("/private/1", {}), ("/news/../private/2", {}), ("/news/../open", {}),
         ("/news", {"agent": "aggregator"}), ("/", {"agent": None, "reason": "no-group"})])],
        "5 pages were fetched (3 forbidden), and no request was refused", CHECKED,
    ),
    "a forbidden request without a response":
        ([({}, 0, [("/private/1", {})])], "No page was fetched (1 forbidden), and no request was refused", CHECKED),
    "an unknown dialect":
        ([({"dialect": "lenient"}, 1, [("/private/", {})])], "1 page was fetched, and no request was refused", NOT_CHECKED),
    "a URL that was cut":
        ([({}, 1, [("/private/…", {})])], "1 page was fetched, and no request was refused", NOT_CHECKED),
    "a ledger with refusals only": (
        [(ONLY_REFUSALS, 3, [("/private/", REFUSED), ("/", OVERRIDE)])],
        "3 pages were fetched, and 1 request was refused", "only refusals",
    ),
    "a ledger with refusals only, everything refused":
        ([(ONLY_REFUSALS, 0, [("/private/", REFUSED)])], "No page was fetched, and 1 request was refused", ""),
    "ROBOTSTXT_OBEY = False": (
        [(IGNORES_ROBOTSTXT, 2, [("/private/1", NOT_OBEYED), ("/", NOT_OBEYED)])],
        "2 pages were fetched without regard to robots.txt", "1 crawl ignored robots.txt",
    ),
    "ROBOTSTXT_OBEY = False, one decision for each host": (
        [({**IGNORES_ROBOTSTXT, **ONLY_REFUSALS}, 9, [("/private/1", NOT_OBEYED)])],
        "9 pages were fetched without regard to robots.txt", "1 crawl ignored robots.txt",
    ),
    "ROBOTSTXT_OBEY = False, no page":
        ([(IGNORES_ROBOTSTXT, 0, [])], "No page was fetched, and no request was refused", ""),
    "overrides for all requests of a crawl, and none in another": (
        [({}, 2, [("/", OVERRIDE), ("/private/1", OVERRIDE)]), ({}, 1, [("/news", {})])],
        "3 pages were fetched (2 because of an override, no other forbidden), and no request was refused", CHECKED,
    ),
    "a dry run": (
        [(DRY_RUN, 2, [("/news", {}), ("/private/1", WOULD_REFUSE)])],
        "Dry run: 2 pages were fetched, and 1 request would have been refused",
        "fetches everything",
    ),
    "a dry run that would refuse nothing": (
        [(DRY_RUN, 1, [("/news", {})])],
        "Dry run: 1 page was fetched, and no request would have been refused", "fetches everything",
    ),
    "a dry run, and another crawl": (
        [(DRY_RUN, 2, [("/news", {}), ("/private/1", WOULD_REFUSE)]), ({}, 1, [("/", {}), ("/private/2", REFUSED)])],
        "3 pages were fetched (none forbidden), and 2 requests were or would have been refused", "1 other crawl",
    ),
    "a crawl that obeys, and one that does not": (
        [({}, 1, [("/news", {}), ("/private/2", REFUSED)]), (IGNORES_ROBOTSTXT, 1, [("/private/1", NOT_OBEYED)])],
        "2 pages were fetched (1 because of an override, no other forbidden), and 1 request was refused",
        "1 crawl ignored robots.txt",
    ),
    "the network was gone": (
        [(network_gone(3), 2, [("/news", {}), ("/private/1", REFUSED)])],
        f"2 pages were fetched (none forbidden), 1 request was refused, and 3 requests were {NOT_SENT}", "1 crawl ended because no host responded",
    ),
    "the network was gone, and robots.txt ignored": (
        [({**IGNORES_ROBOTSTXT, **network_gone(1)}, 2, [("/", NOT_OBEYED)])],
        f"2 pages were fetched without regard to robots.txt, and 1 request was {NOT_SENT}",
        "A new run with the same JOBDIR sends the remaining requests",
    ),
    "two crawls without network, and a later one": (
        [(network_gone(3), 1, [("/news", {})]), (network_gone(4), 0, []), ({}, 4, [("/", {})])],
        f"5 pages were fetched (none forbidden), no request was refused, and 7 requests were {NOT_SENT}", "2 crawls ended because no host responded",
    ),
    "refusals of a page to which a redirect and a browser led": (
        [({}, 2, [("/news", {}), ("/private/1", {**REFUSED, "via": f"redirect {ORIGIN}/news"}),
         ("/private/1", {**REFUSED, "via": f"browser {ORIGIN}/news"}), ("/private/1", REFUSED)])],
        "2 pages were fetched (1 forbidden), and 3 requests were refused", "led there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADLINES)
def test_the_headline_says_what_was_fetched_and_refused(
    ledger: Ledger, name: str
) -> None:
    """The headline is a sentence with the number of fetched pages and of refused requests. If the
    ledger has all decisions, the headline also says whether forbidden pages were fetched.
    """
    crawls, headline, note = HEADLINES[name]
    for crawl, pages, decisions in crawls:
        ledger.crawl(**crawl)
        ledger.snapshot(ORIGIN, PRESS)
        ledger.traffic(ORIGIN, 0, pages=pages)
        for path, columns in decisions:
            ledger.allowed(f"{ORIGIN}{path}", **columns)
    summary = summary_of(ledger.close())
    assert summary["headline"] == headline
    assert note in " ".join(summary["notes"])
    fetched_forbidden_pages = re.search(r"\d forbidden", headline) is not None
    assert summary["kept"] is not fetched_forbidden_pages
    urls = set(summary["checked_again"]["examples"])
    forbidden = {f"{ORIGIN}/private/1", f"{ORIGIN}/news/../private/2", f"{ORIGIN}/news"}
    assert urls == (forbidden if "3 forbidden" in headline else urls & forbidden)


# Several ledgers, and a ledger that is still being written.


@pytest.mark.parametrize("number", [2, 12])
def test_the_numbers_of_several_ledgers_are_added_up(
    tmp_path: Path, number: int
) -> None:
    """Numbers of several ledgers are added up, by host and by line. SQLite can attach ten
    databases, so more than ten ledgers are tested, too.
    """
    paths = [write_eventful_ledger(tmp_path / str(index)) for index in range(number)]
    summary, summary_of_first = summary_of(*paths), summary_of(paths[0])
    for name in ("crawls", "refused", "dropped", "annotated", "let_through"):
        assert (
            summary["figures"][name] == number * summary_of_first["figures"][name] > 0
        )
    checked = summary_of_first["checked_again"]["checked"]
    assert summary["checked_again"]["checked"] == number * checked > 0
    for view, columns in (
        ("outcome", "layer verdict reason times"), ("rule", "origin statement refused")
    ):  # fmt: skip
        expected = sorted(
            (*row[:-1], number * row[-1]) for row in rows(view, columns, paths[0])
        )
        assert sorted(rows(view, columns, *paths)) == expected
    other_ledger = Ledger(tmp_path / "own")
    other_ledger.snapshot(ORIGIN, b"User-agent: *\nDisallow: /own/\n")
    other_ledger.refused(f"{ORIGIN}/own/1", 2, "Disallow: /own/")
    text = page_of(*paths, other_ledger.close())
    assert f"for example {ORIGIN}/own/1" in text
    assert "<mark>Disallow: /own/</mark>" in text


def test_a_report_reads_one_committed_state(ledger: Ledger) -> None:
    """The crawl can write while the report is made. The report has one committed state of the
    ledger, so that its numbers agree with each other.
    """
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


# Tables.

RULE = "refused", "robots.txt", "rule"
LOOP = "redirected more than 5 times, in a loop"
OVERRIDE_NOTE = "staging.example: ignore (our own; until 2027-01-01)"
USAGE_STATEMENT = "robots.txt", "Content-Usage: /a/ train-ai=n", 2
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
        ("overridden", "reason statement verdict times hosts", [("override", OVERRIDE_NOTE, "allowed", 3, 1)]),
    "hosts without a robots.txt, by the result of their latest fetch": (
        "without", "status error hosts allowed refused origin", [
            (404, None, 3, 3, 0, "https://bare-0.example"),
            (404, None, 3, 3, 0, "https://bare-1.example"),
            (301, LOOP, 1, 1, 0, "https://bare-4.example"),
            (403, None, 1, 1, 0, "https://bare-3.example"),
            (499, None, 1, 1, 1, "https://bare-5.example"),
        ],
    ),
    "purposes: dropped items come before noted ones": (
        "purpose", "origin purpose verdict source statement line times file", [
            (USE, "train-ai", "dropped", *USAGE_STATEMENT, 2, 3),
            (SHOP, "train-ai", "annotated", "header", "<b>noai", None, 1, 2),
            (USE, "search", "dropped", None, None, None, 1, 3),
            (USE, "train-ai", "noted", *USAGE_STATEMENT, 1, 3),
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
    """In each table, the row with the greatest number comes first."""
    view, columns, expected = TABLES[name]
    table = rows(
        view,
        columns,
        write_eventful_ledger(tmp_path / "ledger"),
        limits=ReportLimits(urls=2),
    )
    is_cut = view in {"host", "outcome", "judged_url"}
    assert (table[: len(expected)] if is_cut else table) == expected


def test_rows_beyond_the_limits_are_left_out_and_counted(tmp_path: Path) -> None:
    """ReportLimits limits hosts, files and other rows."""
    limits = ReportLimits(hosts=3, files=2, others=1, urls=2)
    path = write_eventful_ledger(tmp_path / "ledger")
    assert rows("host", "file", path, limits=limits) == [(1,), (2,), (None,)]
    assert rows("file", "number of_all", path, limits=limits) == [(1, 5), (2, 5)]
    assert rows("outage", "of_all", path, limits=limits) == [(3,)]
    assert rows("judged", "of_all", path, limits=limits) == [(7,)]
    assert set(rows("version", "number", path, limits=limits)) == {(1,), (2,)}
    sections = page_of(path, limits=limits).split("<section")
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
    """Each line of a version has the number of its decisions. If robots.txt was unreachable and an older copy was used,
    the report shows the time at which the copy was fetched, not the time of the failed fetch.
    """
    path = write_eventful_ledger(tmp_path / "ledger")
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
    times_of_copy = rows("version", "first last copy_of", path, origin=OLD)
    assert times_of_copy == [(START - 4000,) * 3]
    usage_marks = rows("mark", "line refused allowed about_use", path, origin=USE)
    assert usage_marks == [(2, 0, 0, 3), (3, 1, 0, 0)]
    assert examples == [f"{USE}/a/0", f"{SHOP}/x", f"{USE}/usage/0", f"{USE}/a/2"]
    html = page_of(path)
    for message in (
        "<code>&lt;b&gt;noai</code>", "about use 3", f"line 2; for example {USE}/a/0",
        "404 Not Found", f"{LOOP} (301 Moved Permanently)", "403 Forbidden", "status 499",
    ):  # fmt: skip
        assert message in html


def test_robots_txt_files_are_sorted_by_the_number_of_their_decisions(
    ledger: Ledger,
) -> None:
    """The order depends on the number of decisions of all lines together, not on the number of
    lines that decided.
    """
    for origin, lines in ((ORIGIN, (2, 3)), (OTHER_ORIGIN, (2, 2, 2))):
        ledger.snapshot(origin, PRESS)
        for line in lines:
            ledger.refused(f"{origin}/private/", line, "Disallow: /")
    assert rows("file", "origin refused", ledger.close()) == [
        (OTHER_ORIGIN, 3),
        (ORIGIN, 2),
    ]


FIRST_LINES = [*range(1, 41)]


@pytest.mark.parametrize(
    ("text", "decisions_by_line", "numbers"),
    [
        # A short file is shown completely. Decisions on a line that does not exist are ignored.
        ("a\n\nb\n", {3: 1, 7: 1, 10**12: 1}, [1, 2, 3]),
        ("", {}, []),
        ("x\n" * 100_000, {50_000: 2, 100_000: 1, 10**12: 1},
         [*FIRST_LINES, *range(49_998, 50_003), 99_998, 99_999, 100_000]),
        # If there are too many deciding lines, those with the most decisions are shown.
        ("x\n" * 100_000, {line: line for line in range(1, 100_001, 10)},
         [*FIRST_LINES, *(line + n for line in range(99_001, 100_001, 10) for n in range(-2, 3))]),
    ],
    ids=["short", "empty", "long", "many deciding lines"],
)  # fmt: skip
def test_a_long_file_is_cut_to_its_deciding_lines(
    text: str, decisions_by_line: dict[int, int], numbers: list[int]
) -> None:
    """The beginning of a long file is shown, and the deciding lines with the lines around them.
    Omitted lines are counted.
    """

    marks: Any = [
        {"line": line, "times": number} for line, number in decisions_by_line.items()
    ]
    shown = excerpt(text.splitlines(), marks)
    all_lines = text.splitlines()
    shown_lines = [(number, line) for number, line, _ in shown if line is not None]
    assert shown_lines == [(number, all_lines[number - 1]) for number in numbers]
    assert sum(n for n, line, _ in shown if line is None) == len(all_lines) - len(
        shown_lines
    )
    marked = {number: mark["times"] for number, _, mark in shown if mark}
    assert marked == {
        line: number for line, number in decisions_by_line.items() if line in numbers
    }


def test_pages_and_bytes_are_added_up_by_host_and_day(ledger: Ledger) -> None:
    """The traffic of several hours and crawls is added up by host and day. The host with the most
    pages comes first.
    """
    for number in range(2):
        ledger.crawl("denied")
        for hour in (0, 1, 24):
            ledger.traffic(ORIGIN, hour, pages=1 + number, bytes=10)
        ledger.traffic(OTHER_ORIGIN, 0, pages=50, bytes=5)
        ledger.traffic("https://none.example", 0)
        ledger.progress(0, pages=50)
    path = ledger.close()
    assert rows("fetched", "origin day pages bytes", path) == [
        (OTHER_ORIGIN, "2026-09-21", 100, 10),
        (ORIGIN, "2026-09-21", 6, 40),
        (ORIGIN, "2026-09-22", 3, 20),
    ]
    assert rows("fetched", "origin of_all", path, limits=ReportLimits(others=1)) == [
        (OTHER_ORIGIN, 3)
    ]
    assert rows("host", "origin pages", path) == [(ORIGIN, 9), (OTHER_ORIGIN, 100)]


def test_the_timeline_has_a_bounded_number_of_bars(
    ledger: Ledger, tmp_path: Path
) -> None:
    """Each bar shows the pages that all crawls fetched in a period, and the numbers of refused and waiting requests.
    The number of bars is limited, however long the crawls took.
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
    long_ledger = Ledger(tmp_path / "long")
    for exponent in range(12):
        long_ledger.progress(7**exponent, pages=1)
    bars: Any = rows("timeline", "start_at fetched", long_ledger.close())
    assert bars[-1][0] - bars[0][0] > 3600 * 24 * 365 * 1000
    assert len(bars) <= 72
    assert sum(fetched for _, fetched in bars) == 12


def test_ai_crawlers_in_robots_txt_are_listed_with_what_is_forbidden(
    ledger: Ledger,
) -> None:
    """The table has each AI crawler that the latest robots.txt of a host names, how much is
    forbidden to it, and the line.
    """
    ledger.snapshot(ORIGIN, b"User-agent: GPTBot\nDisallow:\n")
    ledger.snapshot(ORIGIN, NEWS, fetched=START + 60)
    ledger.snapshot(OTHER_ORIGIN, b"# GPTBot\nUser-agent: *\nDisallow: /\n")
    extent_by_rules = {
        "Disallow: *\nDisallow: /a": "everything",
        "Disallow: /\nAllow: /": "nothing",
        "Disallow: /\nDisallow: /a\nAllow: /*": "some paths",
        "Disallow: /a\nAllow: /": "some paths",
        "Allow: /a": "nothing",
    }
    for number, rules in enumerate(extent_by_rules):
        ledger.snapshot(
            f"https://{number}.example", f"User-agent: CCBot\n{rules}".encode()
        )
    path = ledger.close()
    crawlers = rows("ai_crawler", "origin crawler forbids line file", path)
    assert [row for row in crawlers if row[0] in {ORIGIN, OTHER_ORIGIN}] == [
        (ORIGIN, "CCBot", "everything", 2, 6),
        (ORIGIN, "GPTBot", "everything", 1, 6),
        (ORIGIN, "PerplexityBot", "everything but exceptions", 11, 6),
        (ORIGIN, "Google-Extended", "nothing", 8, 6),
        (ORIGIN, "ClaudeBot", "some paths", 5, 6),
    ]
    extent_by_origin = {
        row[0]: row[2] for row in crawlers if row[0] not in {ORIGIN, OTHER_ORIGIN}
    }
    assert [extent_by_origin[origin] for origin in sorted(extent_by_origin)] == list(
        extent_by_rules.values()
    )
    assert rows("ai_crawlers_in_all", "hosts closing", path) == [(6, 2)]


def test_the_delay_of_a_host_is_the_longer_of_crawl_delay_and_request_rate(
    ledger: Ledger,
) -> None:
    """The delay is that of the crawler's own group. If the ledger has no product tokens, the group
    is found by the User-Agent. There is no delay if the dialect ignores both fields.
    """
    body = b"User-agent: mybot\nCrawl-delay: 2\nRequest-rate: 1/10\n"
    for number, columns in enumerate(({"agents": "[]"}, {"dialect": "google"}, {})):
        ledger.crawl(**columns)
        ledger.snapshot(f"https://{number}.example", body)
    assert rows("host", "delay", ledger.close()) == [(10,), (None,), (10,)]


# Display of values, above all of values from sites.


@pytest.mark.parametrize(
    ("displayed", "expected"),
    [
        (answers.visible("x" * 5000, 10), "xxxxxxxxxx… (4,990 more characters)"),
        (answers.visible("x" * 10, 10), "x" * 10),
        (answers.visible("a\x1b[0m\u202eb"), "a\\x1b[0m\\u202eb"),
        # User name and password are removed from each URL in a setting.
        (answers.setting("redis://me:secret@host/0"), "redis://***@host/0"),
        (answers.setting({"a": ["http://:secret@host/x@y"]}), '{"a": ["http://***@host/x@y"]}'),
        (answers.setting("https://host/a@b"), "https://host/a@b"),
        (answers.setting(True), "true"),
        # A duration has at most two units.
        (", ".join(map(answers.duration, (None, -3, 0.25, 2.0, 60, 61, 3599, 3600, 86399, 90000))),
         "–, 0 s, 0.25 s, 2 s, 1 min, 1 min 1 s, 59 min, 1 h, 23 h, 1 d 1 h"),
        # If a span begins and ends on one day, the day is shown once. If it begins and ends in one minute, only
        # the start is shown.
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
    displayed: str, expected: str
) -> None:
    """Control characters are shown as escapes, too."""
    assert displayed == expected
