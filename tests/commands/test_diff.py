"""``scrapy rep diff``, on files and on the ledgers of past crawls."""

from __future__ import annotations

import json
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
ORIGIN = "https://shop.example"
FORBIDDEN = f"{ORIGIN}/basket/1"
ALLOWED = f"{ORIGIN}/tea"


def changes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the kind and URL of each change, in place of which a host may stand."""
    return [
        (each["kind"], each.get("url", each["origin"]))
        for each in records
        if "origin" in each
    ]


def found(rep: Rep, *arguments: str, **more: Any) -> list[dict[str, Any]]:
    return rep("diff", *arguments, "--json", **more).records("diff")


def shop(*decisions: tuple[str, str], path: str = "ledger", **more: Any) -> str:
    """Write a ledger: URLs, and the verdict on each."""
    return write_ledger(Path(path), decisions, **more)


def execute(ledger: str, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute(sql, values)


def with_robotstxt(ledger: str, body: str, *, at: float = 0.0, crawl: int = 1) -> None:
    """Add a robots.txt of the shop that was fetched, and that the decisions followed."""
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
    Path("new.txt").write_text(NEW)


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


def test_rules_as_json(rep: Rep) -> None:
    """A changed rule is a field, a value and a line, apart from each other."""
    first, *_ = map(
        json.loads, rep("diff", "robots.txt", "new.txt", "--json").out.splitlines()
    )
    rule = {"field": "disallow", "value": "/basket/", "rule": "Disallow: /basket/"}
    assert first["removed"][0] == rule | {"line": 5}


def test_nothing_changed(rep: Rep) -> None:
    """Changes to comments, blank lines and the order of groups are no difference."""
    old = "User-agent: *\nDisallow: /a\nUser-agent: b\nDisallow: /\n"
    Path("old.txt").write_text(old)
    new = "# New\n\nUser-agent: b\nDisallow: / # all\nUser-agent: *\nDisallow: /a\n"
    ended = rep("diff", "old.txt", "-", stdin=new)
    assert (ended.status, ended.out) == (0, "4 URLs compared\n  unchanged: 4\n")
    (summary,) = found(rep, "old.txt", "-", stdin=new)
    assert summary["changed"] is False


def test_list_of_urls(rep: Rep) -> None:
    """A list contains URLs or paths; with an origin, URLs of other origins are ignored."""
    urls = f"{ORIGIN}/private/1\nhttps://a.example/private/2\n/private/3\n"
    Path("urls").write_text(urls)
    arguments = ("robots.txt", "new.txt", "--urls", "urls")
    assert found(rep, *arguments)[-1]["denied"] == 3
    assert found(rep, *arguments, "--origin", f"{ORIGIN}/")[-1]["denied"] == 2
    Path("urls").write_text(f"{urls}nonsense\n")
    ended = rep("diff", *arguments, "--json")
    assert ended.status == 2
    assert "urls, line 4: 'nonsense' is not a URL" in ended.err
    assert ended.records("diff")[-1]["denied"] == 3


def test_urls_of_a_ledger(rep: Rep) -> None:
    """The URLs of a ledger are compared; if it has several hosts, the user must choose one."""
    verdicts = [(f"{ORIGIN}/private/{n}", "allowed") for n in range(3)]
    arguments = ["robots.txt", "new.txt", "--urls"]
    assert found(rep, *arguments, shop(*verdicts))[-1]["denied"] == 3
    two = shop(*verdicts, ("http://a.example/", "allowed"), path="two")
    ended = rep("diff", *arguments, two)
    assert (ended.status, ended.out) == (2, "")
    assert "several hosts, and a robots.txt is for one; choose" in ended.err
    assert found(rep, *arguments, two, "--origin", ORIGIN)[-1]["urls"] == 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["robots.txt"], "the following arguments are required"),
        (["robots.txt", "nowhere"], "nowhere: No such file"),
        (["nowhere", "robots.txt"], "nowhere: No such file"),
        (["-", "-"], "- reads all of standard input"),
        (["-", "new.txt", "--urls", "-"], "- reads all of standard input"),
        (["robots.txt", "new.txt", "--urls", "nowhere"], "nowhere: No such file"),
        (["robots.txt", "new.txt", "--urls", "."], ".: Is a directory"),
        (["robots.txt", "new.txt", "--urls", "a\0b"], "null"),
        (["robots.txt", "new.txt", "--urls", "broken"], "broken: "),
        (["robots.txt", "new.txt", "--origin", "shop"], "'shop' is not a URL"),
        (["google", "ledger", "--urls", "nowhere"], "nowhere: No such file"),
        (["ledger", "."], ".: Is a directory"),
        (["ledger", "robots.txt", "robots.txt"], "of several OLD, each must be a ledger"),
        (["ledger", "robots.txt", "--purge-list", "no/such"], "no/such: No such"),
        (["ledger", "robots.txt", "--purge-list", "."], "--purge-list .: Is a directory"),
        (["badcrawl", "robots.txt"], "badcrawl: "),
        (["badtable", "robots.txt"], "badtable: "),
        (["ledger#7", "robots.txt"], "ledger has no crawl 7"),
        (["ledger@noon", "robots.txt"], "'noon' is not a time"),
    ],
)  # fmt: skip
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """Wrong usage, and files that can't be read or written, are reported before any output."""
    Path("broken").write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    for name, sql in (
        ("ledger", "SELECT 1"),
        ("badcrawl", "UPDATE crawl SET agents = 'nonsense'"),
        ("badtable", "DROP TABLE decision"),
    ):
        execute(shop((FORBIDDEN, "allowed"), path=name), sql)
    ended = rep("diff", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert why in ended.err


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


# Ledgers.


def test_what_changed(rep: Rep) -> None:
    """A ledger is compared with a robots.txt: fetched URLs that are now denied, and refused ones
    that are now allowed are shown, each with the recorded and the new reason.
    """
    ledger = shop(
        (FORBIDDEN, "allowed"),
        (f"{ORIGIN}/basket/2", "refused"),
        (ALLOWED, "refused"),
        (f"{ORIGIN}/coffee", "allowed"),
    )
    ended = rep("diff", ledger, "robots.txt")
    assert (ended.status, ended.err) == (1, "")
    assert ended.out == (
        f"now denied\t{FORBIDDEN}\twas: line 3, Disallow: /; now: line 5, Disallow: /basket/\n"
        f"now allowed\t{ALLOWED}\twas: line 3, Disallow: /; now: no rule matches\n"
        "4 URLs compared\n"
        "  now denied: 1\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    record, _, summary = found(rep, ledger, "robots.txt")
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
    counts = {"denied": 1, "allowed": 1, "usage": 0, "crawls": 1, "complete_crawls": 1}
    assert counts.items() <= summary.items()


def test_forms_of_a_url(rep: Rep) -> None:
    """URLs are judged in all forms a server may see. A URL without an origin can't be judged."""
    around = FORBIDDEN.replace("/basket", "/tea/../basket")
    ledger = shop(
        (around, "refused"), (f"{around}2", "allowed"), ("http:\\bad", "allowed")
    )
    record, summary = found(rep, ledger, "robots.txt", "--origin", ORIGIN)
    assert (record["kind"], record["url"]) == ("denied", f"{around}2")
    assert record["new"]["form"] == f"{FORBIDDEN}2"
    assert summary["urls"] == 2


def test_several_ledgers(rep: Rep) -> None:
    """Several ledgers are read as one: each URL counts once, with its last decision."""
    first = shop((FORBIDDEN, "allowed"), (ALLOWED, "allowed"), path="first", time=100)
    last = [(ALLOWED, "refused"), (FORBIDDEN, "refused"), (FORBIDDEN, "allowed")]
    second = shop(*last, path="second", time=200)
    for ledgers in ([first, second], [second, first]):
        records = found(rep, *ledgers, "robots.txt")
        assert changes(records) == [("denied", FORBIDDEN), ("allowed", ALLOWED)]
    with_robotstxt(first, ROBOTS, at=100)
    with_robotstxt(second, "User-agent: *\nDisallow:\n", at=200)
    for ledgers in ([first, second], [second, first]):
        records = found(rep, *ledgers, "robots.txt", "--urls", "-", stdin=FORBIDDEN)
        assert changes(records) == [("denied", FORBIDDEN)], "the last robots.txt counts"


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
    asked = (ledger, "robots.txt", "--purge-list", "purge")
    ended = rep("diff", *asked)
    assert ended.status == 1
    now = "now: line 5, Disallow: /basket/"
    assert (
        f"now denied\t{FORBIDDEN}/1\twas: REP_OVERRIDES decides: {entry}; {now}\n"
        f"now denied\t{FORBIDDEN}/2\twas: the request ignores robots.txt; {now}\n"
    ) in ended.out
    assert Path("purge").read_text() == f"{FORBIDDEN}/1\n{FORBIDDEN}/2\n"
    names = {"ledger", "new.txt", "purge", "robots.txt"}
    assert {path.name for path in Path().iterdir()} == names
    overridden = [each["old"]["override"] for each in found(rep, *asked)[:2]]
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
    Path("fast.txt").write_text("User-agent: *\nCrawl-delay: 1\n")
    why = "the host asks for a longer delay than the crawl accepts"
    assert rep("diff", ledger, "fast.txt").out == (
        f"now allowed\t{ALLOWED}\twas: line 2, Crawl-delay: 900 ({why}); "
        "now: no rule matches\n"
        "3 URLs compared\n"
        "  now allowed: 1\n"
        "  unchanged: 2\n"
    )
    Path("slow.txt").write_text("User-agent: *\nCrawl-delay: 901\n")
    ended = rep("diff", ledger, "slow.txt", "--purge-list", "purge")
    assert (ended.status, Path("purge").read_text()) == (1, "")
    assert ended.out == (
        f"now delayed\t{ORIGIN}\t2 URLs: line 2, Crawl-delay: 901 ({why}; "
        "REP_CRAWL_DELAY_MAX is 180)\n"
        "3 URLs compared\n"
        "  now delayed: 2\n"
        "  unchanged: 1\n"
    )


def test_crawls_that_recorded_refusals_alone(rep: Rep) -> None:
    """If a crawl did not record the URLs that it fetched, the output says so, wherever the
    ledger gives the URLs.
    """
    ledger = shop((ALLOWED, "refused"), level="denied")
    full = shop((f"{ALLOWED}/2", "refused"), path="full")
    not_known = (
        "recorded only what was refused or overridden (REP_LEDGER_LEVEL was not 'all'): what "
        "becomes of the other URLs is not known\n"
    )
    for arguments, of in (
        ([ledger, "robots.txt"], "1 of 1"),
        ([ledger, full, "robots.txt"], "1 of 2"),
        (["robots.txt", "robots.txt", "--urls", ledger], "1 of 1"),
    ):
        assert rep("diff", *arguments).err == f"scrapy rep: {of} crawls {not_known}"
    summary = found(rep, ledger, "robots.txt")[-1]
    assert (summary["crawls"], summary["complete_crawls"]) == (1, 0)
    assert rep("diff", full, "robots.txt").err == ""


def test_other_layers_do_not_count(rep: Rep) -> None:
    """Only decisions on requests are compared, not those on pages. An invalid origin can't be
    judged, and is shown.
    """
    ledger = shop((FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed"))
    decide(ledger, f"{FORBIDDEN}/page", "override", "REP_NOINDEX", page=FORBIDDEN)
    expected = [("unknown", ORIGIN), ("unknown", "nonsense://a")]
    assert changes(found(rep, ledger, "google")) == expected
    records = found(rep, ledger, "robots.txt", "--origin", ORIGIN)
    assert changes(records) == [("denied", FORBIDDEN)]


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


def test_one_host_of_a_crawl(rep: Rep) -> None:
    """With --origin, only the URLs of one host count: also of a virtual host, as the ledger names
    it.
    """
    Path("closed.txt").write_text("User-agent: *\nDisallow: /")
    address = "http://127.0.0.1:8080"
    virtual_host = f"{address}#Host:v.example"
    ledger = shop(*[(f"{address}/tea", "allowed")] * 2)
    execute(ledger, "UPDATE decision SET origin = ? WHERE id = 1", virtual_host)
    for origin in (address, virtual_host):
        record, _ = found(rep, ledger, "closed.txt", "--origin", origin)
        assert (record["kind"], record["origin"]) == ("denied", origin)


def test_two_times(rep: Rep) -> None:
    """The rules of a ledger are those that its crawls used: all, those of one crawl, or those
    until a time. The rules that changed are shown, and the URLs of the old side.
    """
    ledger = shop((FORBIDDEN, "allowed"), (ALLOWED, "allowed"), time=1000)
    with_robotstxt(ledger, "User-agent: *\nDisallow: /coffee\n", at=1000)
    with_robotstxt(ledger, ROBOTS, at=100_000)
    ended = rep("diff", f"{ledger}@1970-01-02", ledger)
    assert ended.status == 1
    assert "User-agent: otherbot, mybot   (group added)\n" in ended.out
    assert "  - Disallow: /coffee   (line 2)\n" in ended.out
    was = "was: line 3, Disallow: /; now: line 5, Disallow: /basket/"
    last = f"now denied\t{FORBIDDEN}\t{was}\n2 URLs compared\n  now denied: 1\n  unchanged: 1\n"
    assert ended.out.endswith(last)
    execute(
        ledger,
        "INSERT INTO crawl SELECT 2, spider, user_agent, agents, dialect, settings, versions,"
        " started, ended, finish_reason, counts FROM crawl",
    )
    with_robotstxt(ledger, "User-agent: *\nDisallow: /tea\n", at=200_000, crawl=2)
    for new, url in (
        (f"{ledger}#1", FORBIDDEN),
        (f"{ledger}#2", ALLOWED),
        (ledger, ALLOWED),
    ):
        assert changes(found(rep, f"{ledger}#1", new)) == [("denied", url)]
    assert rep("diff", f"{ledger}@1970-01-01", ledger).status == 0, "no URL yet"


def test_list_of_urls_for_a_ledger(rep: Rep) -> None:
    """URLs of a list are judged by the robots.txt files of a ledger, as whom it crawled. Hosts
    without one in the ledger are shown as unknown.
    """
    ledger = shop((ALLOWED, "allowed"), agents=("otherbot",))
    with_robotstxt(ledger, ROBOTS)
    cafe = "https://cafe.example"
    urls = "\n".join([f"{FORBIDDEN}/2", f"{cafe}/1", f"{cafe}/2", ALLOWED])
    Path("open.txt").write_text("User-agent: *\nDisallow:\n")
    records = found(rep, ledger, "open.txt", "--urls", "-", stdin=urls)
    assert changes(records) == [("allowed", f"{FORBIDDEN}/2")], "it has one host"
    assert records[-2]["agents"] == ["otherbot"]
    url = "https://x.example/"
    decide(ledger, url, "robots.txt", "rule", origin=url[:-1])
    assert rep("diff", ledger, "google", "--urls", "-", stdin=urls).out == (
        f"unknown\t{cafe}\t2 URLs: no robots.txt of this host is known\n"
        "4 URLs compared\n"
        "  unknown: 2\n"
        "  unchanged: 2\n"
    )


def test_dialects(rep: Rep) -> None:
    """A dialect reads the rules of the other side: of a file, or of a ledger."""
    Path("order.txt").write_text("User-agent: *\nDisallow: /basket\nAllow: /basket/1\n")
    for sides, kind in (
        (("order.txt", "classic"), "denied"),
        (("classic", "order.txt"), "allowed"),
    ):
        assert (kind, "/basket/1") in changes(found(rep, *sides))
    ledger = shop((FORBIDDEN, "allowed"))
    with_robotstxt(ledger, Path("order.txt").read_text())
    assert changes(found(rep, ledger, "google")) == []
    assert changes(found(rep, ledger, "classic")) == [("denied", FORBIDDEN)]


def test_the_purge_list_is_no_file_that_is_read(rep: Rep) -> None:
    """A ledger or robots.txt is refused as the purge list, whatever path leads to it."""
    ledger = shop((FORBIDDEN, "allowed"))
    Path("link").symlink_to("robots.txt")
    before = Path(ledger).read_bytes()
    for old in (ledger, f"{ledger}#1"):
        for output in ("ledger", "./ledger", "link"):
            ended = rep("diff", old, "robots.txt", "--purge-list", output)
            assert (ended.status, ended.out) == (2, "")
            assert f"--purge-list {output}: this is an input file" in ended.err
    assert Path(ledger).read_bytes() == before
