"""``scrapy rep why``: what is found, and how it is shown."""

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
    decided,
    flush,
    put,
    snapshot,
    write_crawl,
)

if TYPE_CHECKING:
    from tests.tools.rep import Rep

RULES = b"User-agent: *\nAllow: /basket/help\nDisallow: /basket/ # \xff no robots\n"
HEADERS = (("content-type", "text/plain"),)
FETCHED = snapshot(RULES, headers=HEADERS)
ALLOWED: dict[str, Any] = {
    "verdict": "allowed", "statement": "Allow: /basket/help", "line": 2,
}  # fmt: skip
REFUSED: dict[str, Any] = {"statement": "Disallow: /basket/", "line": 3}
NO_RULE: dict[str, Any] = {"statement": None, "line": None}


def written(*records: Any, path: str = "ledger", level: str = "all") -> str:
    settings = json.dumps({"REP_LEDGER_LEVEL": level})
    crawl = (f"crawl in {path}", *CRAWL[1:5], settings, *CRAWL[6:])
    write_crawl(Path(path), records, crawl=crawl)
    return path


def on(path: str, number: int = 10, **fields: Any) -> Any:
    return decided(number, **{"url": f"{ORIGIN}{path}", **fields})


def answer_of(rep: Rep, *arguments: str) -> dict[str, Any]:
    return rep.record("why", *arguments)


def test_a_refusal_is_shown_with_the_robots_txt_of_that_time(rep: Rep) -> None:
    """The decision is shown with the robots.txt of that time, and the lines around its rule."""
    written(FETCHED, on("/basket/1", **REFUSED), on("/other", number=11))
    ended = rep("why", f"{ORIGIN}/basket/1", "ledger")
    assert ended.status == 1
    assert ended.out == (
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
    ("asked", "recorded"),
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
    rep: Rep, asked: str, recorded: str
) -> None:
    """A URL is found without its scheme, with a fragment, with or without a password."""
    others = ("http://example.com/a/", "http://example.com/A", "http://example.com/?a")
    secure = "https://example.com:8443/a"
    written(
        decided(1, url=recorded, origin="" if "99999" in recorded else ORIGIN),
        *(decided(2, url=url) for url in others),
        decided(3, url=secure, origin=secure[:-2]),
    )
    record = answer_of(rep, asked, "ledger")
    assert "secret" not in json.dumps(record)
    any_port = [secure] if asked == "EXAMPLE.com./a" else []
    assert [decision["url"] for decision in record["decisions"]] == [
        recorded,
        *any_port,
    ]


def test_of_an_unknown_url_nothing_is_known(rep: Rep) -> None:
    """Of a URL that no ledger has, nothing is known: the status is 3."""
    written(FETCHED, on("/1"), level="denied")
    ended = rep("why", f"{ORIGIN}/2", "ledger")
    assert (ended.status, ended.err) == (3, "")
    assert ended.out.startswith("http://example.com/2: 0 decisions\n")
    assert answer_of(rep, "a.example", "ledger")["found"] == 0


def test_a_crawl_in_a_copy_counts_once(rep: Rep) -> None:
    """A crawl that is in a ledger and in a copy of it counts once, with what it has in the latest
    copy.
    """
    written(FETCHED, on("/a", 1))
    shutil.copy("ledger", "copy")
    shutil.copy("ledger", "early")
    with closing(sqlite3.connect("early")) as early, early:
        early.execute("UPDATE crawl SET ended = NULL")
        early.execute("UPDATE decision SET time = 0")
    for paths in ("early", "ledger"), ("ledger", "early"), ("copy", "ledger", "ledger"):
        record = answer_of(rep, f"{ORIGIN}/a", *paths)
        assert [decision["time"] for decision in record["decisions"]] == [
            "1970-01-01T00:00:01Z"
        ]
        counts = [len(record[name]) for name in ("crawls", "robotstxts")]
        assert (record["found"], *counts) == (1, 1, 1)
        assert record["crawls"][0]["ledger"] == paths["early" in paths[:1]]


def test_what_came_after_a_backup_counts(rep: Rep) -> None:
    """What a crawl has written since a backup of its ledger counts, although the backup is the larger
    file: SQLite keeps beside the ledger what was written last.
    """
    writer = LedgerWriter(Path("ledger"))
    writer.start(CRAWL)
    for record in (FETCHED, *(on(f"/{number}", number) for number in range(400))):
        put(writer, record)
    flush(writer)
    with (
        closing(sqlite3.connect("ledger")) as ledger,
        closing(sqlite3.connect("backup")) as backup,
    ):
        ledger.backup(backup)
    put(writer, on("/b"))
    flush(writer)
    assert Path("backup").stat().st_size > Path("ledger").stat().st_size
    for paths in ("ledger", "backup"), ("backup", "ledger"):
        assert answer_of(rep, f"{ORIGIN}/b", *paths, "--limit", "9" * 30)["found"] == 1
    writer.close(END)


def test_all_decisions_on_a_url_are_shown_in_order(rep: Rep) -> None:
    """Statements of a page, requests of a browser, other forms, pauses: all are shown, in order,
    from several ledgers.
    """
    url = f"{ORIGIN}/page"
    plain = {"fetched": None, "line": None}
    written(
        on("/page", 3, subject="page", verdict="noted", layer="meta", reason="noindex",
           page=url, statement="NoIndex", agent=None, **plain),
        on("/page", 2, subject="request", verdict="noted", layer="delay", reason="back-off",
           statement="429, Retry-After: 9", **plain),
        on("/b/../page", 4, form=url, via="browser http://a.example/from"),
    )  # fmt: skip
    written(
        on("/page", 1, subject="link", verdict="dropped", layer="rel", reason="nofollow",
           page=f"{ORIGIN}/from", statement="ugc", **plain),
        on("/page", 9, fetched=None, subject="item", verdict="dropped", layer="usage",
           reason="train-ai", source="tdmrep.json", page=url, statement="x"),
        path="second",
    )  # fmt: skip
    out = rep("why", url, "ledger", "second", "ledger").out
    assert out.startswith(f"{url}: 5 decisions\n")
    starts = [line[:20] for line in out.splitlines() if line.startswith("1970")]
    assert starts == [f"1970-01-01T00:00:0{n}Z" for n in (1, 2, 3, 4, 9)]
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
    """The exit status is 1 if something was withheld, else 0."""
    written(FETCHED, on("/1", verdict=verdict))
    assert rep("why", f"{ORIGIN}/1", "ledger").status == status


def test_decisions_on_links_and_files_come_with_their_page(rep: Rep) -> None:
    """With the decisions on a URL are those on the links, items and files of the page at that
    URL, after them if --limit cuts.
    """
    other = "http://b.example"
    on_page: dict[str, Any] = {
        "page": "http://EXAMPLE.com/page", "fetched": None, "line": None, "origin": other,
        "layer": "meta", "statement": "nofollow", "subject": "link", "verdict": "dropped",
    }  # fmt: skip
    written(
        on("/page", number=1, verdict="allowed"),
        *(decided(n, url=f"{other}/{end}", **on_page) for n, end in ((2, 1), (3, 2), (4, 2))),
        decided(5, **on_page | {"url": f"{other}/a.png", "subject": "file", "verdict": "refused"}),
        decided(6, url=f"{other}/3", **on_page | {"page": f"{ORIGIN}/other"}),
        decided(7, url=f"{other}/4", **on_page | {"page": f"{other}/page"}),
    )  # fmt: skip
    decisions = answer_of(rep, f"{ORIGIN}/page", "ledger")["decisions"]
    assert [(decision["url"], decision["times"]) for decision in decisions] == [
        (f"{ORIGIN}/page", 1), (f"{other}/1", 1), (f"{other}/2", 2), (f"{other}/a.png", 1),
    ]  # fmt: skip
    record = answer_of(rep, "example.com/page", "ledger", "--limit", "1")
    assert [decision["url"] for decision in record["decisions"]] == [f"{ORIGIN}/page"]
    assert record["left_out"]["decisions"] == 4
    assert answer_of(rep, "example.com", "ledger")["found"] == 1
    out = rep("why", f"{ORIGIN}/page", "ledger").out
    assert "  subject: link, page: http://EXAMPLE.com/page\n" in out


def test_like_decisions_on_a_host_are_one(rep: Rep) -> None:
    """Like decisions on a host are one, with a count; what --limit cuts is counted."""
    virtual = "http://10.0.0.1#Host:example.com"
    written(
        snapshot(b"old", fetched=1.0),
        FETCHED,
        *(on(f"/basket/{n}", number=10 + n, **REFUSED) for n in range(40)),
        *(on(f"/{n}", number=90, statement=f"Disallow: /{n}") for n in range(5)),
        decided(1, url="http://b.example/", origin="http://b.example"),
        decided(2, url="https://example.com/", origin="https://example.com"),
        decided(3, url="http://10.0.0.1/", origin=virtual),
    )
    record = answer_of(rep, "example.com", "ledger")
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
    assert answer_of(rep, "http://example.com", "ledger")["found"] == 46
    assert answer_of(rep, "example.com:443", "ledger")["found"] == 1
    out = rep("why", "example.com", "ledger", "--limit", "2").out
    assert (
        "  the first of 40 equal decisions, the last at 1970-01-01T00:00:49Z\n" in out
    )
    assert "Decisions left out (--limit): 6, in groups: 6\n" in out
    record = answer_of(rep, "example.com", "ledger", "--limit", "1")
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
def test_a_missing_robots_txt_is_shown_with_what_came_instead(
    rep: Rep, reason: str, fields: dict[str, Any], shown: str
) -> None:
    """A robots.txt that is missing or unreachable is shown with what came instead."""
    written(snapshot(b"", **fields), on("/", reason=reason, **NO_RULE))
    assert shown in rep("why", "example.com", "ledger").out


@pytest.mark.parametrize("asked", [f"{ORIGIN}/2", "other.example"])
def test_the_text_says_what_the_level_of_a_ledger_leaves_out(
    rep: Rep, asked: str
) -> None:
    """Of a URL or a host that a ledger with the level "denied" does not have, the text says what that
    means, and which setting records it.
    """
    written(FETCHED, on("/1", **REFUSED), level="denied")
    ended = rep("why", asked, "ledger")
    assert ended.status == 3
    assert ended.out == (
        f"{asked}: 0 decisions\n"
        "Ledgers that contain only refusals (REP_LEDGER_LEVEL): ledger\n"
        "So no request was refused: requests were allowed, or were not made. With "
        "REP_LEDGER_LEVEL = 'all', a ledger also contains allowed requests.\n"
    )
    assert "no request was refused" not in rep("why", f"{ORIGIN}/1", "ledger").out
    written(FETCHED, on("/1", **REFUSED), path="all")
    assert rep("why", asked, "all").out == f"{asked}: 0 decisions\n"


def test_control_characters_do_not_reach_the_terminal(rep: Rep) -> None:
    """Control characters of a site do not reach the terminal."""
    rules = b"User-agent: *\nDisallow: /\x1b[2J\xe2\x80\xae\n"
    statement = "Disallow: /\x1b[2J\u202e"
    written(snapshot(rules), on("/%1B\u202e", line=2, statement=statement))
    ended = rep("why", "example.com", "ledger")
    assert ended.status == 1
    assert not {"\x1b", "\u202e"} & {*ended.out}
    assert "\\x1b[2J\\u202e" in ended.out
