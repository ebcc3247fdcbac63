"""Subcommands that send requests to live servers, through Scrapy's entry point."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import default_settings

from tests.commands.rep import ROBOTS, ROOT, scrapy_rep, write_ledger
from tests.crawl.answers import Answer, Then, redirect
from tests.crawl.lies import stages
from tests.crawl.server import PAGE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crawl.server import Site

PROJECT = ROOT / "example_project"
AS_MYBOT = ("--agent", "mybot")
JSON = ("--json",)

MODES = [
    pytest.param((), id="asyncio"),
    pytest.param(("-s", "TWISTED_REACTOR="), id="select"),
    pytest.param(
        ("-s", "TWISTED_REACTOR_ENABLED=False"),
        id="reactorless",
        marks=pytest.mark.skipif(
            not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"),
            reason="This Scrapy needs a Twisted reactor",
        ),
    ),
]


@pytest.mark.parametrize("mode", MODES)
def test_check(site: Site, tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Each robots.txt is fetched once, with the User-Agent of the settings, in any mode
    of Scrapy; the result includes the outcome.
    """
    shop = site.add(ROBOTS)
    moved = site.add(redirect(shop.robotstxt))
    none = site.add()
    down = site.add(Answer(status=503))
    html = site.add(Answer(b"<!doctype html>", headers={"Content-Type": "text/html"}))
    hosts = [shop, shop, moved, none, down, html]
    urls = [host.url(f"/basket/{number}") for number, host in enumerate(hosts)]
    ended = scrapy_rep(
        "check", "-", *AS_MYBOT, *JSON, *mode, "-s", "USER_AGENT=mybot/2.0",
        stdin="\n".join(urls), cwd=tmp_path,
    )  # fmt: skip
    assert ended.status == 1
    # Scrapy warns of features that need a reactor.
    said = [line for line in ended.err.splitlines() if "experimental" not in line]
    assert said == ["scrapy rep: 6 URLs: 2 allowed, 4 denied"]
    records = ended.records("check")
    assert [record["url"] for record in records] == urls
    assert [(record["access"]["outcome"], record["allowed"]) for record in records] == [
        ("successful", False),
        ("successful", False),
        ("successful", False),
        ("unavailable", True),
        ("unreachable", False),
        ("successful", True),
    ]
    assert records[2]["access"]["redirects"] == [shop.robotstxt]
    assert records[4]["access"]["status"] == 503
    assert records[5]["access"]["html"] is True
    assert [len(host.robots_hits) for host in (shop, moved, none, down, html)] == [
        2, 1, 1, 1, 1,
    ]  # fmt: skip
    assert not any(host.pages for host in hosts)
    assert {hit.headers["User-Agent"] for hit in site.log} == {"mybot/2.0"}


def test_check_for_people(site: Site, tmp_path: Path) -> None:
    """The text output says how the fetch of robots.txt ended, for each dialect if requested."""
    closed = site.add(Answer(status=403))
    moved = site.add(redirect(closed.robotstxt))
    ended = scrapy_rep("check", moved.url("/"), "--dialects", cwd=tmp_path)
    assert ended.status == 0
    assert ended.out == (
        f"allowed  {moved.url('/')}\n"
        "  the site gives out no robots.txt\n"
        f"  robots.txt: {moved.robotstxt}, no robots.txt (status 403), redirected to "
        f"{closed.robotstxt}\n"
        "  rfc9309                allowed  the site gives out no robots.txt\n"
        "  google                 allowed  the site gives out no robots.txt\n"
        "  classic                denied   the site gives out no robots.txt\n"
        "\n"
    )


def test_in_a_project(site: Site, tmp_path: Path) -> None:
    """In a project, requests use its settings, but no ledger, feed, job or log is written."""
    shop = site.add(ROBOTS.replace("otherbot", "demobot"))
    files = [tmp_path / name for name in ("ledger", "feed.json", "job", "store")]
    ended = scrapy_rep(
        "check", shop.url("/basket/1"), "--brief", "-s", "LOG_STDOUT=True",
        "-s", f"REP_LEDGER={files[0]}", "-s", f'FEEDS={{"{files[1]}": {{}}}}',
        "-s", f"JOBDIR={files[2]}", "-s", f"REP_STORE=sqlite:///{files[3]}", "-s", "CLOSESPIDER_TIMEOUT=0.001",
        # The middlewares of the project would send the requests to its offline site.
        "-s", "DOWNLOADER_MIDDLEWARES={}", cwd=PROJECT,
    )  # fmt: skip
    assert ended.out.startswith(f"denied\t{shop.url('/basket/1')}\tline 5, ")
    assert ended.status == 1
    assert "demobot" in shop.robots_hits[0].headers["User-Agent"]
    assert not any(path.exists() for path in files)


def test_settings_that_scrapy_cannot_start_with(site: Site, tmp_path: Path) -> None:
    """A crawl that cannot start is reported as an error, not as a denial."""
    ended = scrapy_rep(
        "check", site.add().url("/"),
        "-s", 'DOWNLOADER_MIDDLEWARES={"no.such.Middleware": 1}', cwd=tmp_path,
    )  # fmt: skip
    assert ended.status == 2
    assert "Scrapy could not start with these settings" in ended.err


def test_lint(site: Site, tmp_path: Path) -> None:
    """A URL of a host means its robots.txt; a missing file is clean, an unreachable one not."""
    bad = site.add("User-agent: *\nDisalow: /basket/\n")
    bad.answers["/old.txt"] = Answer(b"User-agent: *\nDissallow: /\n")
    none = site.add()
    down = site.add(Answer(status=503))
    asked = ("lint", bad.origin, bad.url("/old.txt"), none.url("/"), down.robotstxt)
    ended = scrapy_rep(*asked, *JSON, cwd=tmp_path)
    assert ended.status == 1
    assert [
        (each["file"], each["clean"], each["findings"][0]["code"])
        for each in ended.records("lint")
    ] == [
        (bad.robotstxt, False, "misspelt-field"),
        (bad.url("/old.txt"), False, "misspelt-field"),
        (none.robotstxt, True, "unavailable"),
        (down.robotstxt, False, "unreachable"),
    ]
    none.answers["/robots.txt"] = Answer(status=403)
    ended = scrapy_rep("lint", none.origin, "--dialect", "classic", cwd=tmp_path)
    assert ended.status == 1, "in the texts of the time, 403 is a prohibition"


def page(body: str, **headers: str) -> Answer:
    return Answer(body.encode(), headers={"Content-Type": "text/html", **headers})


def test_page(site: Site, tmp_path: Path) -> None:
    """A page that robots.txt allows is fetched, with redirects, and its rules are read. What its
    robots.txt and its tdmrep.json state about its use counts as well.
    """
    shop = site.add("User-agent: *\nContent-Usage: /tea search=n\n")
    shop.answers["/old"] = redirect("/tea")
    tea = page("<meta name=robots content=nofollow>", **{"X-Robots-Tag": "noindex"})
    shop.answers["/tea"] = tea
    rules = b'[{"location": "/tea", "tdm-reservation": 1}]'
    shop.answers["/.well-known/tdmrep.json"] = Answer(rules)
    asked = ("page", shop.url("/old"), *AS_MYBOT, *JSON, "--purpose")
    ended = scrapy_rep(*asked, "tdm,search", cwd=tmp_path)
    assert ended.status == 1
    (record,) = ended.records("page")
    assert record["page"] == shop.url("/tea")
    assert record["redirects"] == [shop.url("/tea")]
    assert (record["status"], record["decision"]["allowed"]) == (200, True)
    assert record["access"]["outcome"] == "successful"
    sources = {
        each["rule"]: each["statements"][0]["source"] for each in record["evidence"]
    }
    assert (sources["index"], sources["follow"]) == ("header", "meta")
    purposes = record["usage"]["purposes"]
    assert {name: each["why"] for name, each in purposes.items()} == {
        "tdm": "disallowed by /tea: tdm-reservation 1 (tdmrep.json, rule 1)",
        "search": "disallowed by Content-Usage: /tea search=n (robots.txt, line 2)",
    }
    scrapy_rep(*asked, "search", cwd=tmp_path)
    assert len(shop.hits_on("/.well-known/tdmrep.json")) == 1, "only tdm needs it"


def test_page_that_robots_txt_forbids(site: Site, tmp_path: Path) -> None:
    """A forbidden page is not fetched, even after a redirect; --force fetches both."""
    shop, other = site.add(ROBOTS), site.add()
    other.answers["/"] = redirect(shop.url("/basket/1"))
    for url in (shop.url("/basket/1"), other.url("/")):
        ended = scrapy_rep("page", url, *AS_MYBOT, cwd=tmp_path)
        assert ended.status == 1
        assert ended.out.startswith("not fetched")
        assert "  fetching it is denied: line 5, Disallow: /basket/\n" in ended.out
    assert shop.pages == []
    ended = scrapy_rep("page", url, *AS_MYBOT, "--force", *JSON, cwd=tmp_path)
    (record,) = ended.records("page")
    assert ended.status == 1, "robots.txt forbids it all the same"
    assert (record["fetched"], record["indexable"]) == (True, True)
    assert record["crawl"] is None, "a crawl does not fetch it"
    off = ("--force", "-s", "ROBOTSTXT_OBEY=False")
    ended = scrapy_rep("page", shop.url("/basket/1"), *AS_MYBOT, *off, cwd=tmp_path)
    assert "  in a crawl: items are kept, links are followed\n" in ended.out
    assert shop.pages == ["/basket/1"] * 2


BUSY = Answer(PAGE, status=503, headers={"X-Robots-Tag": "index"})


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (redirect("/"), "The page was not fetched: redirected more than 20 times"),
        (
            redirect("gopher://\x80["),
            "The page was not fetched: redirected to what is not a URL",
        ),
        (redirect("http://["), "redirected to http://[\n"),
        (
            stages(Then.RESET)["in the body"],
            "The page was not fetched: connection closed by the server",
        ),
        (BUSY, "  google     no page "),
    ],
    ids=["a loop", "a foreign scheme", "no URL", "a broken answer", "an error"],
)
def test_page_that_the_server_cannot_send(
    site: Site, tmp_path: Path, answer: Answer, shown: str
) -> None:
    """Without a page, nothing may be indexed, in any dialect, and the output says why."""
    host = site.add()
    host.answers["/"] = answer
    asked = ("page", host.url("/"), "-s", "RETRY_ENABLED=False")
    ended = scrapy_rep(*asked, cwd=tmp_path)
    assert ended.status == 1
    assert shown in ended.out
    assert "in a crawl" not in ended.out


def test_diff(site: Site, tmp_path: Path) -> None:
    """Two URLs are compared; URLs of other hosts do not count. If one robots.txt is unreachable,
    the verdicts are unknown.
    """
    old = site.add(ROBOTS)
    new = site.add("User-agent: *\nDisallow: /tea")
    urls = "\n".join([new.url("/tea"), new.url("/basket/"), old.url("/tea"), "/coffee"])
    asked = ("diff", old.origin, new.origin, *AS_MYBOT)
    ended = scrapy_rep(*asked, "--urls", "-", *JSON, stdin=urls, cwd=tmp_path)
    assert ended.status == 1
    records = ended.records("diff")
    changed = [(each["kind"], each["url"]) for each in records if "url" in each]
    assert changed[-2:] == [
        ("denied", new.url("/tea")),
        ("allowed", new.url("/basket/")),
    ]
    assert records[-1]["urls"] == 3
    new.answers["/robots.txt"] = Answer(status=503)
    ended = scrapy_rep(*asked, "--urls", "-", stdin=urls, cwd=tmp_path)
    assert ended.status == 1
    assert ended.out == (
        f"unknown\t{new.origin}\t3 URLs: robots.txt is unreachable (status 503)\n"
        "3 URLs compared\n  unknown: 3\n"
    )


def test_diff_of_a_crawl(site: Site, tmp_path: Path) -> None:
    """``diff LEDGER live`` compares a crawl with the present robots.txt files, each fetched once.
    A robots.txt that is unreachable now adds nothing to the purge list, and nothing at
    all if it was unreachable before.
    """
    shop = site.add(ROBOTS)
    down = site.add(Answer(status=500))
    ledger = write_ledger(
        tmp_path / "ledger",
        [
            (shop.url("/basket/1"), "allowed"),
            (shop.url("/tea"), "refused"),
            (shop.url("/coffee"), "allowed"),
            (down.url("/a"), "allowed"),
            (down.url("/b"), "allowed"),
            (down.url("/c"), "refused"),
        ],
    )
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute(
            "UPDATE decision SET reason = 'unreachable' WHERE url = ?",
            [down.url("/c")],
        )
    ended = scrapy_rep(
        "diff", ledger, "live", *JSON, "--purge-list", "purge",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.status == 1
    *records, summary = ended.records("diff")
    changes = {(each["kind"], each.get("url", each["origin"])) for each in records}
    assert changes == {
        ("denied", shop.url("/basket/1")),
        ("allowed", shop.url("/tea")),
        ("unknown", down.origin),
    }
    counts = {"denied": 1, "allowed": 1, "unknown": 2, "urls": 6}
    assert counts.items() <= summary.items()
    assert (tmp_path / "purge").read_text() == shop.url("/basket/1") + "\n"
    assert (len(shop.robots_hits), len(shop.pages)) == (1, 0)


def test_a_compressed_robotstxt(site: Site) -> None:
    """A command takes a compressed robots.txt without its end for unreachable, as a crawl does."""
    cut = gzip.compress(b"User-agent: *\nDisallow: /a\n")[:-9]
    host = site.add(Answer(cut, headers={"Content-Encoding": "gzip"}))
    assert "ends early, is damaged" in scrapy_rep("check", host.url("/a")).out
