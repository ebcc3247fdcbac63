"""``scrapy rep diff`` on the ledgers of past crawls."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.commands import diff
from tests.commands.rep import ROBOTS, scrapy_rep, write_ledger

if TYPE_CHECKING:
    from tests.commands.conftest import Rep
    from tests.crawl.server import Site

FORBIDDEN = "https://shop.example/basket/1"
ALLOWED = "https://shop.example/tea"
ORIGIN = "https://shop.example"


def changes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the kind and URL of each change, in place of which a host may stand."""
    return [
        (each["kind"], each.get("url", each["origin"]))
        for each in records
        if "origin" in each
    ]


def with_robotstxt(ledger: str, body: str, *, at: float = 0.0, crawl: int = 1) -> None:
    """Add a robots.txt of the shop that was fetched, and that the decisions followed."""
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "INSERT OR IGNORE INTO body VALUES (?, ?)", (body, body.encode())
        )
        connection.execute(
            "INSERT INTO snapshot (crawl, origin, url, redirects, access, status, headers,"
            " fetched, expires, sha256)"
            " VALUES (?, ?, ?, '[]', 'successful', 200, '[]', ?, 0, ?)",
            (crawl, ORIGIN, f"{ORIGIN}/robots.txt", at, body),
        )


def test_what_changed(rep: Rep) -> None:
    """A ledger is compared with a robots.txt: fetched URLs that are now denied, and refused ones
    that are now allowed are shown, each with the recorded and the new reason.
    """
    ledger = write_ledger(
        Path("ledger"),
        [
            (FORBIDDEN, "allowed"),
            ("https://shop.example/basket/2", "refused"),
            (ALLOWED, "refused"),
            ("https://shop.example/coffee", "allowed"),
        ],
    )
    ended = rep("diff", ledger, "robots.txt")
    assert (ended.status, ended.err) == (1, "")
    assert ended.out == (
        f"now denied\t{FORBIDDEN}\twas: line 3, Disallow: /; now: line 5, Disallow: /basket/\n"
        f"now allowed\t{ALLOWED}\twas: line 3, Disallow: /; now: no rule matches\n"
        "4 URLs compared\n  now denied: 1\n  now allowed: 1\n"
    )


def test_forms_of_a_url(rep: Rep) -> None:
    """URLs are judged in all forms a server may see. A URL without an origin can't be judged."""
    around = FORBIDDEN.replace("/basket", "/tea/../basket")
    ledger = write_ledger(
        Path("ledger"),
        [(around, "refused"), (f"{around}2", "allowed"), ("http:\\bad", "allowed")],
    )
    record, summary = rep(
        "diff", ledger, "robots.txt", "--origin", ORIGIN, "--json"
    ).records("diff")
    assert (record["kind"], record["url"]) == ("denied", f"{around}2")
    assert record["new"]["form"] == f"{FORBIDDEN}2"
    assert summary["urls"] == 2


def test_json(rep: Rep) -> None:
    """JSON output has the decision of the crawl and the present decision."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    record, summary = rep("diff", ledger, "robots.txt", "--json").records("diff")
    assert record["old"] == {
        "allowed": True,
        "reason": "rule",
        "agent": None,
        "form": None,
        "why": "line 3, Disallow: /",
        "override": None,
        "time": "1970-01-01T00:00:00Z",
    }
    assert record["new"]["rule"] == {
        "kind": "disallow",
        "pattern": "/basket/",
        "line": 5,
    }
    assert record["new"]["time"] is None
    counts = {
        "denied": 1,
        "allowed": 0,
        "usage": 0,
        "delayed": 0,
        "overridden": 0,
        "unknown": 0,
    }
    assert counts.items() <= summary.items()
    assert (summary["crawls"], summary["complete_crawls"]) == (1, 1)


def test_several_ledgers(rep: Rep) -> None:
    """Several ledgers are read as one: each URL counts once, with its last decision."""
    first = write_ledger(
        Path("first"), [(FORBIDDEN, "allowed"), (ALLOWED, "allowed")], time=100
    )
    second = write_ledger(
        Path("second"),
        [(ALLOWED, "refused"), (FORBIDDEN, "refused"), (FORBIDDEN, "allowed")],
        time=200,
    )
    for ledgers in ([first, second], [second, first]):
        records = rep("diff", *ledgers, "robots.txt", "--json").records("diff")
        assert changes(records) == [("denied", FORBIDDEN), ("allowed", ALLOWED)]
    ended = rep("diff", first, "robots.txt", "robots.txt")
    assert (ended.status, ended.out) == (2, "")
    assert "of several OLD, each must be a ledger" in ended.err


def decide(ledger: str, url: str, layer: str, reason: str, **columns: object) -> None:
    """Add a decision to a ledger."""
    values = {
        "crawl": 1, "time": 0, "origin": ORIGIN, "url": url, "layer": layer,
        "verdict": "allowed", "reason": reason, **columns,
    }  # fmt: skip
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            f"INSERT INTO decision ({', '.join(values)})"
            f" VALUES ({', '.join('?' * len(values))})",
            list(values.values()),
        )


def test_what_was_overridden(rep: Rep) -> None:
    """URLs that were fetched because of an override are judged like the others, and the
    output says which override it was.
    """
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "allowed")])
    decide(
        ledger,
        f"{FORBIDDEN}/1",
        "override",
        "override",
        statement="shop.example: ignore",
    )
    decide(ledger, f"{FORBIDDEN}/2", "override", "dont_obey_robotstxt")
    decide(ledger, f"{ALLOWED}/3", "override", "ROBOTSTXT_OBEY")
    asked = ("diff", ledger, "robots.txt", "--purge-list", "purge")
    ended = rep(*asked)
    assert ended.status == 1
    assert ended.out == (
        f"now denied\t{FORBIDDEN}/1\twas: REP_OVERRIDES decides: shop.example: ignore; now: "
        "line 5, Disallow: /basket/\n"
        f"now denied\t{FORBIDDEN}/2\twas: the request ignores robots.txt; now: line 5, "
        "Disallow: /basket/\n"
        "4 URLs compared\n  now denied: 2\n"
    )
    assert Path("purge").read_text() == f"{FORBIDDEN}/1\n{FORBIDDEN}/2\n"
    records = rep(*asked, "--json").records("diff")
    overridden = [each["old"]["override"] for each in records[:-1]]
    assert overridden == ["shop.example: ignore", "dont_obey_robotstxt"]


def test_what_is_overridden_now(site: Site, tmp_path: Path) -> None:
    """What the site denies and the present REP_OVERRIDES allow is shown and marked. It is no
    change, and not purged. What REP_OVERRIDES themselves deny is.
    """
    shop = site.add("User-agent: *\nDisallow: /basket")
    urls = [shop.url("/basket/1"), shop.url("/tea")]
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
        "(overridden: 127.0.0.1: ignore (agreed; until 9000-01-01))\n2 URLs compared\n  overridden: 1\n"
    )
    rules = 'REP_OVERRIDES={"127.0.0.1": "User-agent: *\\nDisallow: /tea"}'
    ended = scrapy_rep(*asked, rules, "--json", cwd=tmp_path)
    assert changes(ended.records("diff")) == [
        ("overridden", urls[0]),
        ("denied", urls[1]),
    ]
    assert (ended.status, (tmp_path / "purge").read_text()) == (1, f"{urls[1]}\n")


def test_what_was_refused_for_a_delay(rep: Rep) -> None:
    """URLs that were refused for a delay are judged too: they are now allowed if the delay is
    gone. URLs that a crawl would now refuse for a delay are counted by host, and not purged.
    """
    ledger = write_ledger(
        Path("ledger"), [(f"{ALLOWED}/1", "allowed"), (f"{ALLOWED}/2", "allowed")]
    )
    delay = {"verdict": "refused", "line": 2, "statement": "Crawl-delay: 900"}
    decide(ledger, ALLOWED, "delay", "crawl-delay", **delay)
    Path("fast.txt").write_text("User-agent: *\nCrawl-delay: 1\n")
    ended = rep("diff", ledger, "fast.txt")
    assert ended.out == (
        f"now allowed\t{ALLOWED}\twas: the host asks for a longer delay than the crawl accepts: Crawl-delay: 900; now: no rule matches\n"
        "3 URLs compared\n  now allowed: 1\n"
    )
    Path("slow.txt").write_text("User-agent: *\nCrawl-delay: 901\n")
    ended = rep("diff", ledger, "slow.txt", "--purge-list", "purge")
    assert (ended.status, Path("purge").read_text()) == (1, "")
    assert ended.out == (
        f"now delayed\t{ORIGIN}\t2 URLs: line 2, Crawl-delay: 901 (the host asks for a longer "
        "delay than the crawl accepts; REP_CRAWL_DELAY_MAX is 180)\n"
        "3 URLs compared\n  now delayed: 2\n"
    )


def test_crawls_that_recorded_refusals_alone(rep: Rep) -> None:
    """If a crawl did not record the URLs that it fetched, the output says so, wherever the
    ledger gives the URLs.
    """
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "refused")], level="denied")
    full = write_ledger(Path("full"), [(f"{ALLOWED}/2", "refused")])
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
    *_, summary = rep("diff", ledger, "robots.txt", "--json").records("diff")
    assert (summary["crawls"], summary["complete_crawls"]) == (1, 0)
    assert rep("diff", full, "robots.txt").err == ""


def test_other_layers_do_not_count(rep: Rep) -> None:
    """Only decisions on requests are compared, not those on pages. An invalid origin can't be
    judged, and is shown.
    """
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed")]
    )
    decide(ledger, f"{FORBIDDEN}/page", "override", "REP_NOINDEX", page=FORBIDDEN)
    records = rep("diff", ledger, "google", "--json").records("diff")
    assert changes(records) == [("unknown", ORIGIN), ("unknown", "nonsense://a")]
    asked = ("diff", ledger, "robots.txt", "--origin", ORIGIN, "--json")
    assert changes(rep(*asked).records("diff")) == [("denied", FORBIDDEN)]


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
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")], **crawl)
    assert rep("diff", ledger, "robots.txt", *options).status == denied


def test_one_host_of_a_crawl(rep: Rep) -> None:
    """With --origin, only the URLs of one host count: also of a virtual host, as the ledger names
    it. A robots.txt for several hosts is refused.
    """
    Path("closed.txt").write_text("User-agent: *\nDisallow: /")
    address = "http://127.0.0.1:8080"
    virtual_host = f"{address}#Host:v.example"
    ledger = write_ledger(Path("ledger"), [(f"{address}/tea", "allowed")] * 2)
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "UPDATE decision SET origin = ? WHERE id = 1", (virtual_host,)
        )
    for origin in (address, virtual_host):
        options = ("--origin", origin, "--json")
        records = rep("diff", ledger, "closed.txt", *options).records("diff")
        found = [(each["kind"], each["origin"]) for each in records if "origin" in each]
        assert found == [("denied", origin)]
    ended = rep("diff", ledger, "closed.txt")
    assert (ended.status, ended.out) == (2, "")
    assert "several hosts" in ended.err


def test_two_times(rep: Rep) -> None:
    """The rules of a ledger are those that its crawls used: all, those of one crawl, or those
    until a time. The rules that changed are shown, and the URLs of the old side.
    """
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), (ALLOWED, "allowed")], time=1000
    )
    with_robotstxt(ledger, "User-agent: *\nDisallow: /coffee\n", at=1000)
    with_robotstxt(ledger, ROBOTS, at=100_000)
    ended = rep("diff", f"{ledger}@1970-01-02", ledger)
    assert ended.status == 1
    assert "User-agent: otherbot, mybot   (group added)\n" in ended.out
    assert "  - disallow: /coffee\n" in ended.out
    was = "was: line 3, Disallow: /; now: line 5, Disallow: /basket/"
    last = f"now denied\t{FORBIDDEN}\t{was}\n2 URLs compared\n  now denied: 1\n"
    assert ended.out.endswith(last)
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "INSERT INTO crawl SELECT 2, spider, user_agent, agents, dialect, settings, versions,"
            " started, ended, finish_reason, counts FROM crawl"
        )
    with_robotstxt(ledger, "User-agent: *\nDisallow: /tea\n", at=200_000, crawl=2)
    for new, url in (
        (f"{ledger}#1", FORBIDDEN),
        (f"{ledger}#2", ALLOWED),
        (ledger, ALLOWED),
    ):
        records = rep("diff", f"{ledger}#1", new, "--json").records("diff")
        assert changes(records) == [("denied", url)]
    assert rep("diff", f"{ledger}@1970-01-01", ledger).status == 0, "no URL yet"


def test_list_of_urls(rep: Rep) -> None:
    """URLs of a list are judged by the robots.txt files of a ledger, as whom it crawled. Hosts
    without one in the ledger are shown as unknown.
    """
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "allowed")], agents=("otherbot",))
    with_robotstxt(ledger, ROBOTS)
    urls = [
        f"{FORBIDDEN}/2",
        "https://cafe.example/1",
        "https://cafe.example/2",
        ALLOWED,
    ]
    Path("open.txt").write_text("User-agent: *\nDisallow:\n")
    asked = ("diff", ledger, "open.txt", "--urls", "-", "--json")
    records = rep(*asked, stdin="\n".join(urls)).records("diff")
    assert changes(records) == [("allowed", urls[0])], "the ledger has one host"
    assert records[-2]["agents"] == ["otherbot"]
    decide(
        ledger, "https://x.example/", "robots.txt", "rule", origin="https://x.example"
    )
    asked = ("diff", ledger, "google", "--urls", "-")
    ended = rep(*asked, stdin="\n".join(urls))
    assert ended.out == (
        "unknown\thttps://cafe.example\t2 URLs: no robots.txt of this host is known\n"
        "4 URLs compared\n  unknown: 2\n"
    )


def test_dialects(rep: Rep) -> None:
    """A dialect reads the rules of the other side: of a file, or of a ledger."""
    Path("order.txt").write_text("User-agent: *\nDisallow: /basket\nAllow: /basket/1\n")
    for sides, kind in (
        (("order.txt", "classic"), "denied"),
        (("classic", "order.txt"), "allowed"),
    ):
        records = rep("diff", *sides, "--json").records("diff")
        assert (kind, "/basket/1") in [
            (each["kind"], each["url"]) for each in records if "url" in each
        ]
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    with_robotstxt(ledger, Path("order.txt").read_text())
    assert changes(rep("diff", ledger, "google", "--json").records("diff")) == []
    found = changes(rep("diff", ledger, "classic", "--json").records("diff"))
    assert found == [("denied", FORBIDDEN)]


def test_purge_list(rep: Rep) -> None:
    """The purge list contains exactly the fetched URLs that are now denied. It appears
    at the end of the run, and its temporary file is removed.
    """
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), (ALLOWED, "refused")]
    )
    assert rep("diff", ledger, "robots.txt", "--purge-list", "purge").status == 1
    assert Path("purge").read_text() == f"{FORBIDDEN}\n"
    assert {path.name for path in Path().iterdir()} == {"ledger", "purge", "robots.txt"}


class Killed(BaseException):
    """Raised in place of a signal."""


def test_interrupted(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted run keeps the purge list of an earlier run, and leaves no other file."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    Path("purge").write_text("before")

    def killed(*arguments: Any) -> None:
        raise Killed

    monkeypatch.setattr(diff.Differences, "_compare", killed)
    with pytest.raises(Killed):
        rep("diff", ledger, "robots.txt", "--purge-list", "purge")
    assert Path("purge").read_text() == "before"
    assert {path.name for path in Path().iterdir()} == {"ledger", "purge", "robots.txt"}


def test_the_purge_list_is_no_file_that_is_read(rep: Rep) -> None:
    """A ledger or robots.txt is refused as the purge list, whatever path leads to it."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    Path("link").symlink_to("robots.txt")
    before = Path(ledger).read_bytes()
    for old in (ledger, f"{ledger}#1"):
        for output in ("ledger", "./ledger", "link"):
            ended = rep("diff", old, "robots.txt", "--purge-list", output)
            assert (ended.status, ended.out) == (2, "")
            assert f"--purge-list {output}: this is an input file" in ended.err
    assert Path(ledger).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["ledger"], "the following arguments are required"),
        (["nowhere", "robots.txt"], "nowhere: No such file"),
        (["ledger", "nowhere"], "nowhere: No such file"),
        (["ledger", "."], ".: Is a directory"),
        (["ledger", "robots.txt", "--purge-list", "no/such"], "no/such: No such"),
        (
            ["ledger", "robots.txt", "--purge-list", "."],
            "--purge-list .: Is a directory",
        ),
        (["badcrawl", "robots.txt"], "badcrawl: "),
        (["badtable", "robots.txt"], "badtable: "),
        (["ledger#7", "robots.txt"], "ledger has no crawl 7"),
        (["ledger@noon", "robots.txt"], "'noon' is not a time"),
    ],
)
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """Files that are no ledgers, or cannot be read or written, are reported."""
    for name, statement in (
        ("ledger", "SELECT 1"),
        ("badcrawl", "UPDATE crawl SET agents = 'nonsense'"),
        ("badtable", "DROP TABLE decision"),
    ):
        path = write_ledger(Path(name), [(FORBIDDEN, "allowed")])
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
    ended = rep("diff", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert why in ended.err
