"""Usage preferences in the output of the commands, by purpose, with the evidence."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from tests.commands.rep import scrapy_rep, write_ledger
from tests.crawl.answers import Answer

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

ROBOTS = """\
Content-Signal: ai-input=no
License: https://shop.example/license.xml
User-agent: mybot
Content-Usage: train-ai=n
Content-Usage: /open/ train-ai=y, search=y
Content-Signal: /open/ ai-train=no

User-agent: mybot-train
Content-Usage: train-ai=y
"""
URL = "https://shop.example/open/a"


def test_check(rep: Rep) -> None:
    """Each purpose is shown with its statement; requested purposes set the exit status."""
    Path("robots.txt").write_text(ROBOTS)
    ended = rep("check", URL, "--robots", "robots.txt")
    assert ended.status == 0
    start = ended.out.index("  for train-ai")
    assert ended.out[start:] == (
        "  for train-ai: disallowed by Content-Signal: /open/ ai-train=no (robots.txt, line 6)\n"
        "  for ai-use: disallowed by Content-Signal: ai-input=no (robots.txt, line 1)\n"
        "  for search: allowed by Content-Usage: /open/ train-ai=y, search=y (robots.txt, line 5)\n"
        "  licences and policies: https://shop.example/license.xml\n"
        "\n"
    )
    for purposes, status in ("search", 0), ("search,ai-use", 1), ("tdm", 0):
        asked = ("check", URL, "--robots", "robots.txt", "--purpose", purposes)
        assert rep(*asked).status == status
    # A crawl that accepts only stated permissions.
    settings = {"REP_USAGE_UNKNOWN": "deny"}
    assert rep(*asked, **settings).status == 1


def test_check_by_name(rep: Rep) -> None:
    """A purpose with a product token of its own is decided for that token."""
    Path("robots.txt").write_text(ROBOTS)
    settings = {"REP_AGENTS": {"train-ai": "mybot-train"}, "REP_PURPOSES": ["train-ai"]}
    ended = rep(*("check", URL, "--robots", "robots.txt", "--json"), **settings)
    (record,) = ended.records("check")
    assert record["usage"]["purposes"] == {
        "train-ai": {
            "allowed": True,
            "because": {
                "source": "robots.txt",
                "signal": "Content-Usage",
                "agent": "mybot-train",
                "position": 9,
                "text": "Content-Usage: train-ai=y",
                "label": "train-ai",
                "category": "train-ai",
                "value": True,
                "images": False,
                "is_overridden": False,
                "why": "Content-Usage: train-ai=y (robots.txt, line 9)",
            },
            "why": "allowed by Content-Usage: train-ai=y (robots.txt, line 9)",
        }
    }


def test_page(rep: Rep) -> None:
    """Headers and meta tags of a file are shown, with the statement that decides."""
    Path("page.html").write_text(
        '<meta name="tdm-reservation" content="0"><meta name="robots" content="noimageai">'
        '<link rel="license" href="https://l.example/">'
    )
    asked = (
        *("page", "page.html", "--header", "Content-Usage: train-ai=y, search=n"),
        *("--header", "tdm-reservation: 1", "--header", "X-Robots-Tag: mybot: noai"),
    )
    ended = rep(*asked)
    assert ended.status == 0
    start = ended.out.index("  for train-ai")
    assert ended.out[start:] == (
        "  for train-ai: disallowed by noai (header)\n"
        "  for search: disallowed by Content-Usage: train-ai=y, search=n (header)\n"
        "  for tdm: allowed by tdm-reservation: 0 (meta)\n"
        "  licences and policies: https://l.example/\n"
        "  in a crawl: items are kept, links are followed\n"
    )
    assert rep(*asked, "--purpose", "search").status == 1
    (record,) = rep(*asked, "--json", "--purpose", "tdm").records("page")
    assert record["usage"]["purposes"]["tdm"]["allowed"] is True
    overridden = {
        each["text"] for each in record["usage"]["statements"] if each["is_overridden"]
    }
    assert overridden == {"tdm-reservation: 1"}
    assert record["usage"]["licenses"] == ["https://l.example/"]


def test_page_on_the_web(site: Site) -> None:
    """For a page on the Web, its robots.txt and tdmrep.json count as well."""
    host = site.add("User-agent: *\nContent-Usage: /a search=n\n")
    file = b'[{"location": "/a", "tdm-reservation": 1}]'
    host.answers["/.well-known/tdmrep.json"] = Answer(file)
    asked = "page", host.url("/a"), "--agent", "mybot", "--purpose"
    ended = scrapy_rep(*asked, "tdm,search")
    assert ended.status == 1
    for line in (
        "  for tdm: disallowed by /a: tdm-reservation 1 (tdmrep.json, rule 1)",
        "  for search: disallowed by Content-Usage: /a search=n (robots.txt, line 2)",
    ):
        assert line in ended.out.splitlines()
    ended = scrapy_rep(
        "page", host.url("/a"), "--agent", "mybot", "--purpose", "search"
    )
    assert ended.status == 1
    assert len(host.hits_on("/.well-known/tdmrep.json")) == 1


def test_page_that_says_nothing(rep: Rep) -> None:
    """Purposes that were neither requested nor stated are not shown."""
    Path("page.html").write_text("<p>")
    assert "  for " not in rep("page", "page.html").out
    assert "for search: unknown" in rep("page", "page.html", "--purpose", "search").out


def test_diff(rep: Rep) -> None:
    """Added and removed records are shown, and URLs whose permitted purposes change."""
    Path("old.txt").write_text("User-agent: *\nContent-Usage: /a/ train-ai=y\n")
    Path("new.txt").write_text(
        "Content-Signal: search=yes\nUser-agent: *\nContent-Usage: /a/ train-ai=n\n"
    )
    ended = rep("diff", "old.txt", "new.txt")
    assert ended.status == 1
    assert "  - Content-usage: /a/ train-ai=y   (line 2)\n" in ended.out
    assert "  + Content-usage: /a/ train-ai=n   (line 3)\n" in ended.out
    assert "  + Content-signal: search=yes   (line 1)\n" in ended.out
    assert (
        "use changes\t/a/\ttrain-ai was allowed by Content-Usage: /a/ train-ai=y "
        "(robots.txt, line 2), is now disallowed by Content-Usage: /a/ train-ai=n "
        "(robots.txt, line 3); search was unknown, is now allowed by Content-Signal: "
        "search=yes (robots.txt, line 1)"
    ) in ended.out
    assert ended.out.endswith("\n2 URLs compared\n  use changes: 2\n")
    records = rep("diff", "old.txt", "new.txt", "--json").records("diff")
    assert (records[-1]["usage"], records[-1]["denied"]) == (2, 0)
    usage = [record for record in records if record["kind"] == "usage"]
    assert usage[0]["old"] == {"train-ai": True, "search": None}
    assert usage[0]["new"] == {"train-ai": False, "search": True}
    assert rep("diff", "old.txt", "old.txt").status == 0


def test_diff_of_a_crawl(rep: Rep) -> None:
    """``diff`` shows fetched URLs whose permitted purposes have changed since the crawl."""
    Path("robots.txt").write_text("User-agent: *\nContent-Usage: /a/ train-ai=n\n")
    urls = [f"https://shop.example/{path}" for path in ("a/1", "b/1", "c/1")]
    ledger = write_ledger(Path("x.ledger"), [(url, "allowed") for url in urls])
    with sqlite3.connect(ledger) as connection:
        connection.execute("INSERT INTO body VALUES ('a', ?)", (b"Content-Signal: /c/ ai-train=no",))  # fmt: skip
        connection.execute(
            "INSERT INTO snapshot (id, crawl, origin, url, redirects, access, headers,"
            " fetched, expires, sha256) VALUES (7, 1, '', '', '[]', 'successful', '[]',"
            " 0, 0, 'a')"
        )
        connection.execute("UPDATE decision SET snapshot = 7")
    ended = rep("diff", ledger, "robots.txt")
    assert ended.status == 1
    start = ended.out.index("use changes")
    assert ended.out[start:] == (
        f"use changes\t{urls[0]}\ttrain-ai was unknown, is now disallowed by Content-Usage: /a/ "
        "train-ai=n (robots.txt, line 2)\n"
        f"use changes\t{urls[2]}\ttrain-ai was disallowed by Content-Signal: /c/ ai-train=no "
        "(robots.txt, line 1), is now unknown\n"
        "3 URLs compared\n  use changes: 2\n  unchanged: 1\n"
    )
    *records, summary = rep("diff", ledger, "robots.txt", "--json").records("diff")
    assert [each["new"] for each in records if each["kind"] == "usage"] == [
        {"train-ai": False},
        {"train-ai": None},
    ]
    assert summary["usage"] == 2
