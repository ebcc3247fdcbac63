"""Tests of ``scrapy rep why``: which decisions it finds in ledgers, and how it shows them."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.crawl.ledger.writer import LedgerWriter
from tests.ledger.records import (
    CRAWL,
    END,
    ORIGIN,
    flush,
    make_decision,
    make_snapshot,
    write_crawl,
    write_record,
)

if TYPE_CHECKING:
    from tests.tools.rep import Rep

RULES = b"User-agent: *\nAllow: /basket/help\nDisallow: /basket/ # \xff no robots\n"
HEADERS = (("content-type", "text/plain"),)
FETCHED = make_snapshot(RULES, headers=HEADERS)
ALLOWED: dict[str, Any] = {
    "verdict": "allowed", "statement": "Allow: /basket/help", "line": 2,
}  # fmt: skip
REFUSED: dict[str, Any] = {"statement": "Disallow: /basket/", "line": 3}
NO_RULE: dict[str, Any] = {"statement": None, "line": None}


def write_ledger(*records: Any, path: str = "ledger", level: str = "all") -> str:
    """Write the ledger of one crawl with *records* at *path*, and return *path*. *level* is the
    REP_LEDGER_LEVEL of the crawl.
    """
    settings = json.dumps({"REP_LEDGER_LEVEL": level})
    crawl = (f"crawl in {path}", *CRAWL[1:5], settings, *CRAWL[6:])
    write_crawl(Path(path), records, crawl=crawl)
    return path


def decision_on(path: str, number: int = 10, **fields: Any) -> Any:
    """Return a decision on the URL with this *path*, made at second *number*."""
    return make_decision(number, **{"url": f"{ORIGIN}{path}", **fields})


def why_record(rep: Rep, *arguments: str) -> dict[str, Any]:
    """Return the JSON object that the command prints."""
    return rep.record("why", *arguments)


def test_a_refusal_is_shown_with_the_robots_txt_of_that_time(rep: Rep) -> None:
    """The output has the robots.txt that was in effect when the request was refused, and the lines
    around the rule.
    """
    write_ledger(
        FETCHED, decision_on("/basket/1", **REFUSED), decision_on("/other", number=11)
    )
    result = rep("why", f"{ORIGIN}/basket/1", "ledger")
    assert result.status == 1
    assert result.out == (
        "http://example.com/basket/1: 1 decision\n"
        "\n"
        "1970-01-01T00:00:10Z  refused  http://example.com/basket/1\n"
        "  line 3, Disallow: /basket/ (robots.txt)\n"
        "  for *\n"
        "  crawl 1 of ledger\n"
        "  robots.txt 1 below\n"
        "    1  User-agent: *\n"
        "    2  Allow: /basket/help\n"
        "    3  Disallow: /basket/ # \\xff no robots\n"
        "\n"
        "robots.txt 1: http://example.com/robots.txt\n"
        "  fetched 1970-01-01T00:00:05Z: successful (status 200)\n"
        "  content-type: text/plain\n"
        f"  67 bytes, sha256 {sha256(RULES).hexdigest()}\n"
        "\n"
        "crawl 1 of ledger: spider, as bot, dialect rfc9309\n"
    )


@pytest.mark.parametrize(
    ("url", "recorded_url"),
    [
        ("http://example.com/a", "http://example.com/a"),
        ("http://example.com/a#part", "http://example.com/a"),
        ("http://example.com/a", "http://example.com/a#part"),
        ("http://me:secret@example.com/a", "http://***@example.com/a"),
        ("example.com:80/a", "http://example.com/a"),
        ("EXAMPLE.com./a", "http://example.com:80/a"),
        ("http://example.com/a b?ü", "http://example.com/a%20b?%C3%BC"),
        ("example.com/", "http://example.com"),
        ("http://example.com?x", "http://example.com/?x"),
        # An invalid port.
        ("http://example.com:99999/x", "http://example.com:99999/x"),
    ],
)
def test_a_url_is_found_however_it_is_written(
    rep: Rep, url: str, recorded_url: str
) -> None:
    """A URL is found without its scheme, with a fragment, and with or without a password."""
    other_urls = (
        "http://example.com/a/",
        "http://example.com/A",
        "http://example.com/?a",
    )
    https_url = "https://example.com:8443/a"
    write_ledger(
        make_decision(
            1, url=recorded_url, origin="" if "99999" in recorded_url else ORIGIN
        ),
        *(make_decision(2, url=other_url) for other_url in other_urls),
        make_decision(3, url=https_url, origin=https_url[:-2]),
    )
    record = why_record(rep, url, "ledger")
    assert "secret" not in json.dumps(record)
    urls_on_other_ports = [https_url] if url == "EXAMPLE.com./a" else []
    assert [decision["url"] for decision in record["decisions"]] == [
        recorded_url,
        *urls_on_other_ports,
    ]


def test_the_exit_status_is_3_for_a_url_that_no_ledger_has(rep: Rep) -> None:
    write_ledger(FETCHED, decision_on("/1"), level="denied")
    result = rep("why", f"{ORIGIN}/2", "ledger")
    assert (result.status, result.err) == (3, "")
    assert result.out.startswith("http://example.com/2: 0 decisions\n")
    assert why_record(rep, "a.example", "ledger")["found"] == 0


def test_a_crawl_in_a_copy_counts_once(rep: Rep) -> None:
    """If several ledgers have the same crawl, because one is a copy of the other, the decisions are
    those of the latest copy.
    """
    write_ledger(FETCHED, decision_on("/a", 1))
    shutil.copy("ledger", "copy")
    shutil.copy("ledger", "early")
    with closing(sqlite3.connect("early")) as early, early:
        early.execute("UPDATE crawl SET ended = NULL")
        early.execute("UPDATE decision SET time = 0")
    for paths in ("early", "ledger"), ("ledger", "early"), ("copy", "ledger", "ledger"):
        record = why_record(rep, f"{ORIGIN}/a", *paths)
        assert [decision["time"] for decision in record["decisions"]] == [
            "1970-01-01T00:00:01Z"
        ]
        counts = [len(record[name]) for name in ("crawls", "robotstxts")]
        assert (record["found"], *counts) == (1, 1, 1)
        assert record["crawls"][0]["ledger"] == paths["early" in paths[:1]]


def test_decisions_that_are_not_in_a_backup_are_found(rep: Rep) -> None:
    """The command takes the later of a ledger and its backup, not the larger file. The backup can
    be the larger one, since SQLite keeps the latest changes in a separate file, the write-ahead
    log.
    """
    writer = LedgerWriter(Path("ledger"))
    writer.start(CRAWL)
    for record in (
        FETCHED,
        *(decision_on(f"/{number}", number) for number in range(400)),
    ):
        write_record(writer, record)
    flush(writer)
    with (
        closing(sqlite3.connect("ledger")) as ledger,
        closing(sqlite3.connect("backup")) as backup,
    ):
        ledger.backup(backup)
    write_record(writer, decision_on("/b"))
    flush(writer)
    assert Path("backup").stat().st_size > Path("ledger").stat().st_size
    for paths in ("ledger", "backup"), ("backup", "ledger"):
        assert why_record(rep, f"{ORIGIN}/b", *paths, "--limit", "9" * 30)["found"] == 1
    writer.close(END)


def test_all_decisions_on_a_url_are_shown_in_order(rep: Rep) -> None:
    """The decisions come from two ledgers, and are of all kinds: statements of a page, requests of
    a browser, another form of the URL, and a pause. They are shown in the order of their times.
    """
    url = f"{ORIGIN}/page"
    no_robots_txt = {"fetched": None, "line": None}
    write_ledger(
        decision_on("/page", 3, subject="page", verdict="noted", layer="meta", reason="noindex",
           page=url, statement="NoIndex", agent=None, **no_robots_txt),
        decision_on("/page", 2, subject="request", verdict="noted", layer="delay", reason="back-off",
           statement="429, Retry-After: 9", **no_robots_txt),
        decision_on("/b/../page", 4, form=url, via="browser http://a.example/from"),
    )  # fmt: skip
    write_ledger(
        decision_on("/page", 1, subject="link", verdict="dropped", layer="rel", reason="nofollow",
           page=f"{ORIGIN}/from", statement="ugc", **no_robots_txt),
        decision_on("/page", 9, fetched=None, subject="item", verdict="dropped", layer="usage",
           reason="train-ai", source="tdmrep.json", page=url, statement="x"),
        path="second",
    )  # fmt: skip
    out = rep("why", url, "ledger", "second", "ledger").out
    assert out.startswith(f"{url}: 5 decisions\n")
    times = [line[:20] for line in out.splitlines() if line.startswith("1970")]
    assert times == [f"1970-01-01T00:00:0{n}Z" for n in (1, 2, 3, 4, 9)]
    for words in (
        "  links with this rel must not be followed: ugc (rel)\n  for *\n  subject: link, page: http://example.com/from\n",
        "  the host requested a pause with status 429 or 503: 429, Retry-After: 9 (delay",
        "  the page must not be in an index: NoIndex (meta)\n  subject: page, page: http://example.com/page\n",
        "(as http://example.com/page) (robots.txt)\n  for *\n  requested via browser http://a.example/from\n",
        "  subject: item, page: http://example.com/page\n  stated in tdmrep.json\n",
        "  crawl 1 of second\n",
    ):
        assert words in out


@pytest.mark.parametrize(
    ("verdict", "status"), [("allowed", 0), ("noted", 0), ("would-drop", 1)]
)
def test_the_exit_status_is_1_if_something_was_withheld(
    rep: Rep, verdict: str, status: int
) -> None:
    """Something was withheld if a request was refused, or an item, link or file was dropped. In a dry run, decisions
    that would withhold something in a real crawl count, too.
    """
    write_ledger(FETCHED, decision_on("/1", verdict=verdict))
    assert rep("why", f"{ORIGIN}/1", "ledger").status == status


def test_decisions_on_links_and_files_come_with_their_page(rep: Rep) -> None:
    """The decisions on a URL are followed by those on the links, items and files of the page at
    that URL. ``--limit`` first leaves out the decisions on links, items and files.
    """
    other_origin = "http://b.example"
    on_page: dict[str, Any] = {
        "page": "http://EXAMPLE.com/page", "fetched": None, "line": None, "origin": other_origin,
        "layer": "meta", "statement": "nofollow", "subject": "link", "verdict": "dropped",
    }  # fmt: skip
    write_ledger(
        decision_on("/page", number=1, verdict="allowed"),
        *(make_decision(n, url=f"{other_origin}/{end}", **on_page) for n, end in ((2, 1), (3, 2), (4, 2))),
        make_decision(5, **on_page | {"url": f"{other_origin}/a.png", "subject": "file", "verdict": "refused"}),
        make_decision(6, url=f"{other_origin}/3", **on_page | {"page": f"{ORIGIN}/other"}),
        make_decision(7, url=f"{other_origin}/4", **on_page | {"page": f"{other_origin}/page"}),
    )  # fmt: skip
    decisions = why_record(rep, f"{ORIGIN}/page", "ledger")["decisions"]
    assert [(decision["url"], decision["times"]) for decision in decisions] == [
        (f"{ORIGIN}/page", 1), (f"{other_origin}/1", 1), (f"{other_origin}/2", 2), (f"{other_origin}/a.png", 1),
    ]  # fmt: skip
    record = why_record(rep, "example.com/page", "ledger", "--limit", "1")
    assert [decision["url"] for decision in record["decisions"]] == [f"{ORIGIN}/page"]
    assert record["left_out"]["decisions"] == 4
    assert why_record(rep, "example.com", "ledger")["found"] == 1
    out = rep("why", f"{ORIGIN}/page", "ledger").out
    assert "  subject: link, page: http://EXAMPLE.com/page\n" in out


def test_equal_decisions_on_a_host_are_grouped(rep: Rep) -> None:
    """Decisions on a host with the same reason are shown once, with a count. The output says
    how many decisions and groups ``--limit`` leaves out.
    """
    virtual = "http://10.0.0.1#Host:example.com"
    write_ledger(
        make_snapshot(b"old", fetched=1.0),
        FETCHED,
        *(decision_on(f"/basket/{n}", number=10 + n, **REFUSED) for n in range(40)),
        *(
            decision_on(f"/{n}", number=90, statement=f"Disallow: /{n}")
            for n in range(5)
        ),
        make_decision(1, url="http://b.example/", origin="http://b.example"),
        make_decision(2, url="https://example.com/", origin="https://example.com"),
        make_decision(3, url="http://10.0.0.1/", origin=virtual),
    )
    record = why_record(rep, "example.com", "ledger")
    assert (record["kind"], record["found"]) == ("host", 47)
    sizes = [
        (decision["times"], decision["origin"]) for decision in record["decisions"]
    ]
    assert sizes[:3] == [(1, "https://example.com"), (1, virtual), (40, ORIGIN)]
    assert record["decisions"][2]["last"] == "1970-01-01T00:00:49Z"
    assert [
        decision["access"]["fetched"][-3:] for decision in record["robotstxts"]
    ] == [
        "05Z",
        "01Z",
    ]
    assert record["left_out"] == {"groups": 0, "decisions": 0, "robotstxts": 0}
    assert why_record(rep, "http://example.com", "ledger")["found"] == 46
    assert why_record(rep, "example.com:443", "ledger")["found"] == 1
    out = rep("why", "example.com", "ledger", "--limit", "2").out
    assert (
        "  the first of 40 equal decisions, the last at 1970-01-01T00:00:49Z\n" in out
    )
    assert "Decisions left out (--limit): 6, in groups: 6\n" in out
    record = why_record(rep, "example.com", "ledger", "--limit", "1")
    assert record["left_out"] == {"groups": 7, "decisions": 7, "robotstxts": 1}
    out = rep("why", "example.com", "ledger", "--limit", "1").out
    assert "Earlier robots.txt files left out (--limit): 1\n" in out


@pytest.mark.parametrize(
    ("reason", "fields", "shown"),
    [
        ("unavailable", {"status": 404}, "Z: no robots.txt (status 404)\n"),
        ("unreachable",
         {"status": None, "error": "no route", "redirects": ("http://c.example/",)},
         "Z: unreachable (no answer: no route), redirected to http://c.example/\n"),
    ],
)  # fmt: skip
def test_a_missing_or_unreachable_robots_txt_is_shown_with_its_cause(
    rep: Rep, reason: str, fields: dict[str, Any], shown: str
) -> None:
    write_ledger(
        make_snapshot(b"", **fields), decision_on("/", reason=reason, **NO_RULE)
    )
    assert shown in rep("why", "example.com", "ledger").out


@pytest.mark.parametrize("url_or_host", [f"{ORIGIN}/2", "other.example"])
def test_the_text_says_what_the_level_of_a_ledger_leaves_out(
    rep: Rep, url_or_host: str
) -> None:
    """A ledger with the level "denied" has no allowed requests. If it has no decision on a URL or
    host, the output says what that means, and which setting records the requests.
    """
    write_ledger(FETCHED, decision_on("/1", **REFUSED), level="denied")
    result = rep("why", url_or_host, "ledger")
    assert result.status == 3
    assert result.out == (
        f"{url_or_host}: 0 decisions\n"
        "Ledgers that contain only refusals (REP_LEDGER_LEVEL): ledger\n"
        "So no request was refused: requests were allowed, or were not made. With "
        "REP_LEDGER_LEVEL = 'all', a ledger also contains allowed requests.\n"
    )
    assert "no request was refused" not in rep("why", f"{ORIGIN}/1", "ledger").out
    write_ledger(FETCHED, decision_on("/1", **REFUSED), path="all")
    assert rep("why", url_or_host, "all").out == f"{url_or_host}: 0 decisions\n"


def test_control_characters_do_not_reach_the_terminal(rep: Rep) -> None:
    rules = b"User-agent: *\nDisallow: /\x1b[2J\xe2\x80\xae\n"
    statement = "Disallow: /\x1b[2J\u202e"
    write_ledger(
        make_snapshot(rules), decision_on("/%1B\u202e", line=2, statement=statement)
    )
    result = rep("why", "example.com", "ledger")
    assert result.status == 1
    assert not {"\x1b", "\u202e"} & {*result.out}
    assert "\\x1b[2J\\u202e" in result.out
