"""``scrapy rep diff``, on files and on the ledgers of past crawls."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.commands import rulechanges
from tests.commands.rep import ROBOTS, scrapy_rep, write_ledger

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

ORIGIN = "https://shop.example"
FORBIDDEN = f"{ORIGIN}/basket/1"
ALLOWED = f"{ORIGIN}/tea"
CAFE = "https://cafe.example"
ADDRESS = "http://127.0.0.1:8080"
VIRTUAL_HOST = f"{ADDRESS}#Host:v.example"

NEW = """\
User-agent: mybot
Allow: /basket/help
Disallow: /basket/
Disallow: /private/
User-agent: newbot
Disallow:
User-agent: *
Disallow: /
Sitemap: https://shop.example/new.xml
"""
OLD_USAGE = "User-agent: *\nContent-Usage: /a/ train-ai=y\n"
NEW_USAGE = "Content-Signal: search=yes\nUser-agent: *\nContent-Usage: /a/ train-ai=n\n"
TEXTS = {
    "new.txt": NEW,
    "open.txt": "User-agent: *\nDisallow:\n",
    "order.txt": "User-agent: *\nDisallow: /basket\nAllow: /basket/1\n",
    "fast.txt": "User-agent: *\nCrawl-delay: 1\n",
    "slow.txt": "User-agent: *\nCrawl-delay: 901\n",
    "same.txt": "# New\n\nUser-agent: *\nDisallow: / # all\n\n" + ROBOTS[:-27],
    "old usage.txt": OLD_USAGE,
    "new usage.txt": NEW_USAGE,
    "urls": f"{ORIGIN}/private/1\n{CAFE}/private/2\n/private/3\n",
    "basket": FORBIDDEN,
}


def changes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the kind and URL of each change, in place of which a host may stand."""
    return [
        (each["kind"], each.get("url", each["origin"]))
        for each in records
        if "origin" in each
    ]


def shop(*decisions: tuple[str, str], path: str = "ledger", **more: Any) -> str:
    """Write a ledger: URLs, and the verdict on each."""
    return write_ledger(Path(path), decisions, **more)


def execute(ledger: str, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute(sql, values)


def with_robotstxt(ledger: str, body: str, *, at: float = 0.0, crawl: int = 1) -> None:
    """Add a robots.txt of the shop that was fetched."""
    execute(ledger, "INSERT OR IGNORE INTO body VALUES (?, ?)", body, body.encode())
    execute(
        ledger,
        "INSERT INTO snapshot (crawl, origin, url, redirects, access, status, headers, fetched,"
        " expires, sha256) VALUES (?, ?, ?, '[]', 'successful', 200, '[]', ?, 0, ?)",
        *(crawl, ORIGIN, f"{ORIGIN}/robots.txt", at, body),
    )


def decide(ledger: str, url: str, layer: str, reason: str, **columns: object) -> None:
    """Add a decision to a ledger."""
    values = {
        "crawl": 1, "time": 0, "origin": ORIGIN, "url": url, "layer": layer,
        "verdict": "allowed", "reason": reason, **columns,
    }  # fmt: skip
    places = ", ".join("?" * len(values))
    sql = f"INSERT INTO decision ({', '.join(values)}) VALUES ({places})"
    execute(ledger, sql, *values.values())


@pytest.fixture(autouse=True)
def files(rep: Rep) -> None:
    for name, text in TEXTS.items():
        Path(name).write_text(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of ledgers of which the URLs, the hosts, the times or the rules matter."""
    folder = tmp_path_factory.mktemp("ledgers")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_ledgers()
    return folder


@pytest.fixture
def ledgers(files: None, made: Path) -> None:
    shutil.copytree(made, ".", dirs_exist_ok=True)


def make_ledgers() -> None:
    ours = f"{ORIGIN}/private/4", "allowed"
    shop(ours, path="one")
    shop(ours, (f"{CAFE}/private/5", "allowed"), path="two")
    odd = shop((FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed"), path="odd")
    decide(odd, f"{FORBIDDEN}/page", "override", "REP_NOINDEX", page=FORBIDDEN)
    virtual = shop(*[(f"{ADDRESS}/basket/", "allowed")] * 2, path="virtual")
    execute(virtual, "UPDATE decision SET origin = ? WHERE id = 1", VIRTUAL_HOST)
    ordered = shop((FORBIDDEN, "allowed"), path="ordered")
    with_robotstxt(ordered, TEXTS["order.txt"])
    first = [(FORBIDDEN, "allowed"), (ALLOWED, "allowed")]
    with_robotstxt(shop(*first, path="first", time=100), ROBOTS, at=100)
    last = [(ALLOWED, "refused"), (FORBIDDEN, "refused"), (FORBIDDEN, "allowed")]
    second = shop(*last, path="second", time=200)
    with_robotstxt(second, TEXTS["open.txt"], at=200)
    times = shop(*first, path="times", time=1000)
    with_robotstxt(times, "User-agent: *\nDisallow: /coffee\n", at=1000)
    with_robotstxt(times, ROBOTS, at=100_000)
    execute(
        times,
        "INSERT INTO crawl SELECT 2, spider, user_agent, agents, dialect, settings, versions,"
        " started, ended, finish_reason, counts FROM crawl",
    )
    with_robotstxt(times, "User-agent: *\nDisallow: /tea\n", at=200_000, crawl=2)


# Files.


def test_rules_and_verdicts(rep: Rep) -> None:
    """Rules that were added or removed are shown by group, and URLs made from the patterns
    whose verdict changes.
    """
    ended = rep("diff", "robots.txt", "new.txt")
    assert ended.status == 1
    assert ended.out == (
        "User-agent: otherbot   (group removed)\n"
        "  - Disallow: /basket/   (line 5)\n"
        "  - Allow: /basket/help   (line 6)\n"
        "  - Crawl-delay: 2   (line 4)\n"
        "User-agent: mybot   (group changed)\n"
        "  - Crawl-delay: 2   (line 4)\n"
        "  + Disallow: /private/   (line 4)\n"
        "User-agent: newbot   (group added)\n"
        "  + Disallow:    (line 6)\n"
        "Outside of the groups\n"
        "  - Sitemap: https://shop.example/sitemap.xml\n"
        "  + Sitemap: https://shop.example/new.xml\n"
        "now denied\t/private/\twas: no rule matches; now: line 4, Disallow: /private/\n"
        "now denied\t/private/x\twas: no rule matches; now: line 4, Disallow: /private/\n"
        "8 URLs compared\n"
        "  now denied: 2\n"
        "  unchanged: 6\n"
    )
    rule = {"field": "disallow", "value": "/basket/", "rule": "Disallow: /basket/"}
    first, *_ = rep.records("diff", "robots.txt", "new.txt")
    assert first["removed"][0] == rule | {"line": 5}


def test_nothing_changed(rep: Rep) -> None:
    """Changes to comments, blank lines and the order of groups are no difference."""
    ended = rep("diff", "robots.txt", "same.txt")
    assert (ended.status, ended.out) == (0, "6 URLs compared\n  unchanged: 6\n")
    assert rep.record("diff", "robots.txt", "same.txt")["changed"] is False


def test_usage(rep: Rep) -> None:
    """Usage records are compared like rules, and URLs are shown whose permitted purposes change."""
    ended = rep("diff", "old usage.txt", "new usage.txt")
    assert ended.status == 1
    assert ended.out.startswith(
        "User-agent: *   (group changed)\n"
        "  - Content-usage: /a/ train-ai=y   (line 2)\n"
        "  + Content-usage: /a/ train-ai=n   (line 3)\n"
        "Outside of the groups\n"
        "  + Content-signal: search=yes   (line 1)\n"
        "use changes\t/a/\ttrain-ai was allowed by Content-Usage: /a/ train-ai=y "
        "(robots.txt, line 2), is now disallowed by Content-Usage: /a/ train-ai=n "
        "(robots.txt, line 3); search was unknown, is now allowed by Content-Signal: "
        "search=yes (robots.txt, line 1)\n"
    )
    *_, usage, _, summary = rep.records("diff", "old usage.txt", "new usage.txt")
    assert usage["old"] == {"train-ai": True, "search": None}
    assert usage["new"] == {"train-ai": False, "search": True}
    assert (summary["usage"], summary["denied"]) == (2, 0)


def test_many_agents(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that share their groups are shown together; only the first few are named.
    Comparisons that would take too long are skipped, and the output says so.
    """
    agents = "".join(f"User-agent: a{'b' * n}\n" for n in range(500))
    Path("new.txt").write_text(ROBOTS + agents + "Disallow: /\n" * 5)
    out = rep("diff", "robots.txt", "new.txt").out
    assert "User-agent: a, ab, abb, abbb, abbbb and 495 more   (group added)" in out
    monkeypatch.setattr(rulechanges, "_MAX_COMPARED", 5)
    ended = rep("diff", "robots.txt", "new.txt")
    assert ended.status == 1
    assert "too many groups to compare" in ended.err


# The URLs.


DENIED = [("denied", FORBIDDEN)]
PRIVATE = [("denied", f"{ORIGIN}/private/4")]


@pytest.mark.usefixtures("ledgers")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(
            "robots.txt new.txt --urls urls",
            [
                ("denied", f"{ORIGIN}/private/1"),
                ("denied", f"{CAFE}/private/2"),
                ("denied", "/private/3"),
            ],
            id="a list of URLs and paths",
        ),
        pytest.param(
            f"robots.txt new.txt --urls urls --origin {ORIGIN}/",
            [("denied", f"{ORIGIN}/private/1"), ("denied", "/private/3")],
            id="a list, but one host",
        ),
        pytest.param("robots.txt new.txt --urls one", PRIVATE, id="URLs of a ledger"),
        pytest.param(f"robots.txt new.txt --urls two --origin {ORIGIN}", PRIVATE,
                     id="URLs of a ledger, but one host"),
        pytest.param("odd google", [("unknown", ORIGIN), ("unknown", "nonsense://a")],
                     id="a host without a robots.txt, and an invalid origin"),
        pytest.param(f"odd robots.txt --origin {ORIGIN}", DENIED, id="no decisions on pages"),
        pytest.param(f"virtual robots.txt --origin {ADDRESS}", [("denied", f"{ADDRESS}/basket/")],
                     id="a host, but no virtual one"),
        pytest.param(f"virtual robots.txt --origin {VIRTUAL_HOST}", [("denied", f"{ADDRESS}/basket/")],
                     id="a virtual host"),
        pytest.param("first second robots.txt", [*DENIED, ("allowed", ALLOWED)],
                     id="the last decision of several ledgers"),
        pytest.param("second first robots.txt", [*DENIED, ("allowed", ALLOWED)],
                     id="the last decision, in any order"),
        pytest.param("first second robots.txt --urls basket", DENIED,
                     id="the last robots.txt of several ledgers"),
        pytest.param("times@1970-01-01 times", [], id="a time before the first URL"),
        pytest.param("times#1 times#1", DENIED, id="the last robots.txt of a crawl"),
        pytest.param("times#1 times#2", [("denied", ALLOWED)], id="two crawls"),
        pytest.param("times#1 times", [("denied", ALLOWED)], id="one crawl and all"),
        pytest.param("ordered google", [], id="a dialect that reads a ledger alike"),
        pytest.param("ordered classic", DENIED, id="a dialect that reads a ledger otherwise"),
    ],
)  # fmt: skip
def test_what_is_compared(
    rep: Rep, arguments: str, expected: list[tuple[str, str]]
) -> None:
    """The URLs are those of a list or a ledger, and the rules those of the files, of the crawls or
    of the part of the crawls that is named.
    """
    assert changes(rep.records("diff", *arguments.split())) == expected


@pytest.mark.usefixtures("ledgers")
def test_two_times(rep: Rep) -> None:
    """The rules that changed between two times are shown, with what becomes of the URLs."""
    ended = rep("diff", "times#1@1970-01-02", "times#1")
    assert ended.status == 2, "a crawl or a time"
    ended = rep("diff", "times@1970-01-02", "times@1970-01-03")
    assert ended.status == 1
    assert "User-agent: otherbot, mybot   (group added)\n" in ended.out
    assert "  - Disallow: /coffee   (line 2)\n" in ended.out
    was = "was: line 3, Disallow: /; now: line 5, Disallow: /basket/"
    last = f"now denied\t{FORBIDDEN}\t{was}\n2 URLs compared\n  now denied: 1\n  unchanged: 1\n"
    assert ended.out.endswith(last)


def test_a_list_with_what_is_no_url(rep: Rep) -> None:
    """A line of a list that is no URL makes the exit status 2; the others are compared."""
    with Path("urls").open("a") as file:
        file.write("nonsense\n")
    ended = rep("diff", "robots.txt", "new.txt", "--urls", "urls")
    assert ended.status == 2
    assert "urls, line 4: 'nonsense' is not a URL" in ended.err
    assert ended.out.endswith("\n3 URLs compared\n  now denied: 3\n")


# Ledgers.


def test_what_changed(rep: Rep) -> None:
    """A ledger is compared with a robots.txt: fetched URLs that are now denied, and refused ones
    that are now allowed are shown, each with the recorded and the new reason.
    """
    around = FORBIDDEN.replace("/basket", "/tea/../basket")
    ledger = shop(
        (FORBIDDEN, "allowed"),
        (f"{ORIGIN}/basket/2", "refused"),
        (ALLOWED, "refused"),
        (f"{around}2", "allowed"),
    )
    ended = rep("diff", ledger, "robots.txt", "--purge-list", "purge")
    assert (ended.status, ended.err) == (1, "")
    was = "was: line 3, Disallow: /; now"
    now = "line 5, Disallow: /basket/"
    assert ended.out == (
        f"now denied\t{FORBIDDEN}\t{was}: {now}\n"
        f"now allowed\t{ALLOWED}\t{was}: no rule matches\n"
        f"now denied\t{around}2\t{was}: {now} (as {FORBIDDEN}2)\n"
        "4 URLs compared\n"
        "  now denied: 2\n"
        "  now allowed: 1\n"
        "  unchanged: 1\n"
    )
    assert Path("purge").read_text() == f"{FORBIDDEN}\n{around}2\n"
    record, *_, summary = rep.records("diff", ledger, "robots.txt")
    assert record["old"] == {
        "allowed": True,
        "reason": "rule",
        "agent": None,
        "form": None,
        "why": "line 3, Disallow: /",
        "override": None,
        "time": "1970-01-01T00:00:00Z",
    }
    rule = {"kind": "disallow", "pattern": "/basket/", "line": 5}
    assert (record["new"]["rule"], record["new"]["time"]) == (rule, None)
    counts = {"denied": 2, "allowed": 1, "usage": 0, "crawls": 1, "complete_crawls": 1}
    assert counts.items() <= summary.items()


def test_what_was_overridden(rep: Rep) -> None:
    """URLs that were fetched because of an override are judged like the others, and the
    output says which override it was. The purge list has exactly the fetched URLs that are now
    denied.
    """
    ledger = shop((ALLOWED, "allowed"), (f"{ORIGIN}/coffee", "refused"))
    entry = "shop.example: ignore"
    decide(ledger, f"{FORBIDDEN}/1", "override", "override", statement=entry)
    decide(ledger, f"{FORBIDDEN}/2", "override", "dont_obey_robotstxt")
    decide(ledger, f"{ALLOWED}/3", "override", "ROBOTSTXT_OBEY")
    before = {path.name for path in Path().iterdir()}
    asked = ("diff", ledger, "robots.txt", "--purge-list", "purge")
    ended = rep(*asked)
    assert ended.status == 1
    now = "now: line 5, Disallow: /basket/"
    assert (
        f"now denied\t{FORBIDDEN}/1\twas: REP_OVERRIDES decides: {entry}; {now}\n"
        f"now denied\t{FORBIDDEN}/2\twas: the request ignores robots.txt; {now}\n"
    ) in ended.out
    assert Path("purge").read_text() == f"{FORBIDDEN}/1\n{FORBIDDEN}/2\n"
    assert {path.name for path in Path().iterdir()} == before | {"purge"}
    overridden = [each["old"]["override"] for each in rep.records(*asked)[:2]]
    assert overridden == [entry, "dont_obey_robotstxt"]


def test_what_is_overridden_now(site: Site, tmp_path: Path) -> None:
    """What the site denies and the present REP_OVERRIDES allow is shown and marked. It is no
    change, and not purged. What REP_OVERRIDES themselves deny is.
    """
    host = site.add("User-agent: *\nDisallow: /basket")
    urls = [host.url("/basket/1"), host.url("/tea")]
    ledger = write_ledger(tmp_path / "ledger", [(url, "allowed") for url in urls])
    asked = ("diff", ledger, "live", "--purge-list", "purge", "-s")
    entry = '{"obey": false, "reason": "agreed", "until": "9000-01-01"}'
    over = '"shop.example": {"obey": false, "until": "2026-01-01"}'
    override = f'REP_OVERRIDES={{"127.0.0.1": {entry}, {over}}}'
    ended = scrapy_rep(*asked, override, cwd=tmp_path)
    assert (ended.status, (tmp_path / "purge").read_text()) == (0, "")
    assert "REP_OVERRIDES['shop.example'] has ended and decides nothing" in ended.err
    assert ended.out == (
        f"overridden\t{urls[0]}\twas: line 3, Disallow: /; now: line 2, Disallow: /basket "
        "(overridden: 127.0.0.1: ignore (agreed; until 9000-01-01))\n"
        "2 URLs compared\n"
        "  overridden: 1\n"
        "  unchanged: 1\n"
    )
    rules = 'REP_OVERRIDES={"127.0.0.1": "User-agent: *\\nDisallow: /tea"}'
    ended = scrapy_rep(*asked, rules, "--json", cwd=tmp_path)
    expected = [("overridden", urls[0]), ("denied", urls[1])]
    assert changes(ended.records("diff")) == expected
    assert (ended.status, (tmp_path / "purge").read_text()) == (1, f"{urls[1]}\n")


def test_what_was_refused_for_a_delay(rep: Rep) -> None:
    """URLs that were refused for a delay are judged too: they are now allowed if the delay is
    gone. URLs that a crawl would now refuse for a delay are counted by host, and not purged.
    """
    ledger = shop((f"{ALLOWED}/1", "allowed"), (f"{ALLOWED}/2", "allowed"))
    delay = {"verdict": "refused", "line": 2, "statement": "Crawl-delay: 900"}
    decide(ledger, ALLOWED, "delay", "crawl-delay", **delay)
    why = "the host asks for a longer delay than the crawl accepts"
    assert rep("diff", ledger, "fast.txt").out == (
        f"now allowed\t{ALLOWED}\twas: line 2, Crawl-delay: 900 ({why}); now: no rule matches\n"
        "3 URLs compared\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    ended = rep("diff", ledger, "slow.txt", "--purge-list", "purge")
    assert (ended.status, Path("purge").read_text()) == (1, "")
    assert ended.out == (
        f"now delayed\t{ORIGIN}\t2 URLs: line 2, Crawl-delay: 901 ({why}; "
        "REP_CRAWL_DELAY_MAX is 180)\n"
        "3 URLs compared\n"
        "  now delayed: 2\n"
        "  unchanged: 1\n"
    )


def test_usage_of_what_was_fetched(rep: Rep) -> None:
    """Fetched URLs are shown whose permitted purposes have changed since the crawl."""
    ledger = shop(*[(f"{ORIGIN}/{each}/1", "allowed") for each in "abc"])
    with_robotstxt(ledger, "Content-Signal: /c/ ai-train=no")
    execute(ledger, "UPDATE decision SET snapshot = 1")
    *records, summary = rep.records(
        "diff", ledger, "new usage.txt", "--purpose=train-ai"
    )
    changed = [
        (each["url"], each["new"]) for each in records if each["kind"] == "usage"
    ]
    assert changed == [
        (f"{ORIGIN}/a/1", {"train-ai": False}),
        (f"{ORIGIN}/c/1", {"train-ai": None}),
    ]
    assert summary["usage"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("partial robots.txt", "1 of 1"),
        ("partial full robots.txt", "1 of 2"),
        ("robots.txt robots.txt --urls partial", "1 of 1"),
        ("full robots.txt", ""),
    ],
)
def test_crawls_that_recorded_refusals_alone(
    rep: Rep, arguments: str, said: str
) -> None:
    """If a crawl did not record the URLs that it fetched, the output says so, wherever the
    ledger gives the URLs.
    """
    shop((ALLOWED, "refused"), path="partial", level="denied")
    shop((f"{ALLOWED}/2", "refused"), path="full")
    message = (
        f"scrapy rep: {said} crawls recorded only what was refused or overridden "
        "(REP_LEDGER_LEVEL was not 'all'): what becomes of the other URLs is not known\n"
    )
    assert rep("diff", *arguments.split()).err == (message if said else "")
    summary = rep.records("diff", *arguments.split())[-1]
    assert (summary["complete_crawls"] < summary["crawls"]) is bool(said)


@pytest.mark.parametrize(
    ("options", "crawl", "denied"),
    [
        ([], {}, True),
        ([], {"agents": ("nobot",)}, True),
        ([], {"agents": ()}, True),
        (["--agent", "openbot"], {}, False),
        ([], {"dialect": "classic"}, False),
        (["--dialect", "rfc9309"], {"dialect": "classic"}, True),
        ([], {"dialect": "of a project"}, True),
    ],
)
def test_as_whom(
    rep: Rep, options: list[str], crawl: dict[str, Any], denied: bool
) -> None:
    """The agents and the dialect are those of the crawl, unless options change them."""
    Path("robots.txt").write_text(
        "User-agent: *\nAllow: /basket\nDisallow: /basket/1\n\n"
        "User-agent: openbot\nDisallow:\n"
    )
    ledger = shop((FORBIDDEN, "allowed"), **crawl)
    assert rep("diff", ledger, "robots.txt", *options).status == denied


def test_list_of_urls_for_a_ledger(rep: Rep) -> None:
    """URLs of a list are judged by the robots.txt files of a ledger, as whom it crawled."""
    ledger = shop((ALLOWED, "allowed"), agents=("otherbot",))
    with_robotstxt(ledger, ROBOTS)
    urls = "\n".join([f"{FORBIDDEN}/2", f"{CAFE}/1", f"{CAFE}/2", ALLOWED])
    asked = ("diff", ledger, "open.txt", "--urls", "-")
    *_, record, _ = rep.records(*asked, stdin=urls)
    assert changes([record]) == [("allowed", f"{FORBIDDEN}/2")]
    assert record["agents"] == ["otherbot"]
    url = "https://x.example/"
    decide(ledger, url, "robots.txt", "rule", origin=url[:-1])
    assert rep("diff", ledger, "google", "--urls", "-", stdin=urls).out == (
        f"unknown\t{CAFE}\t2 URLs: no robots.txt of this host is known\n"
        "4 URLs compared\n"
        "  unknown: 2\n"
        "  unchanged: 2\n"
    )


@pytest.mark.parametrize(
    ("sides", "kind"),
    [("order.txt classic", "denied"), ("classic order.txt", "allowed")],
)
def test_dialects(rep: Rep, sides: str, kind: str) -> None:
    """A dialect reads the rules of the file on the other side."""
    assert (kind, "/basket/1") in changes(rep.records("diff", *sides.split()))
