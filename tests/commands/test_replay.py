"""``scrapy rep replay`` on ledgers, with robots.txt files given on the command line."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.commands import replay
from tests.commands.rep import scrapy_rep, write_ledger

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

FILE = ("--robots", "robots.txt")
FORBIDDEN = "https://shop.example/basket/1"
ALLOWED = "https://shop.example/tea"


def changes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["change"], each["url"]) for each in records[:-1]]


def test_what_changed(rep: Rep) -> None:
    """Replay shows fetched URLs that are now forbidden, and refused ones now allowed."""
    ledger = write_ledger(
        Path("ledger"),
        [
            (FORBIDDEN, "allowed"),
            ("https://shop.example/basket/2", "refused"),
            (ALLOWED, "refused"),
            ("https://shop.example/coffee", "allowed"),
        ],
    )
    ended = rep("replay", ledger, *FILE)
    assert ended.status == 1
    assert ended.out == (
        f"forbidden\t{FORBIDDEN}\tline 5, Disallow: /basket/\n"
        f"allowed\t{ALLOWED}\tno rule matches\n"
    )
    assert ended.err == (
        "scrapy rep: URLs that were fetched and are now forbidden: 1; URLs that were "
        "refused and are now allowed: 1\n"
    )


def test_forms_of_a_url(rep: Rep) -> None:
    """URLs are judged in all forms a server may see; those without an origin are skipped."""
    around = FORBIDDEN.replace("/basket", "/tea/../basket")
    ledger = write_ledger(
        Path("ledger"),
        [(around, "refused"), (f"{around}2", "allowed"), ("http:\\bad", "refused")],
    )
    ended = rep("replay", ledger, *FILE, "--format", "json")
    record, _ = ended.records("replay")
    assert (record["change"], record["url"]) == ("forbidden", f"{around}2")
    assert record["now"]["form"] == f"{FORBIDDEN}2"


def test_json(rep: Rep) -> None:
    """JSON output has the decision of the crawl and the decision of today."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    (record, summary) = rep("replay", ledger, *FILE, "--format", "json").records(
        "replay"
    )
    assert record["then"] == {
        "allowed": True,
        "time": "1970-01-01T00:00:00Z",
        "reason": "rule",
        "line": 3,
        "statement": "Disallow: /",
        "override": None,
    }
    assert record["now"]["rule"] == {
        "kind": "disallow",
        "pattern": "/basket/",
        "line": 5,
    }
    assert summary == {
        "change": "summary",
        "forbidden": 1,
        "allowed": 0,
        "unknown": 0,
        "usage": 0,
        "crawls": 1,
        "complete_crawls": 1,
    }


def test_newly_allowed_alone_is_clean(rep: Rep) -> None:
    """The exit status is 1 only if a fetched URL is now forbidden."""
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "refused")])
    assert rep("replay", ledger, *FILE).status == 0


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
        ended = rep("replay", *ledgers, *FILE, "--format", "json")
        assert changes(ended.records("replay")) == [
            ("forbidden", FORBIDDEN),
            ("allowed", ALLOWED),
        ]


def add_override(ledger: str, url: str, reason: str, statement: str | None) -> None:
    """Add a request that the user of the crawler allowed, whatever robots.txt says."""
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "INSERT INTO decision (crawl, time, origin, url, layer, verdict, reason,"
            " statement) VALUES (1, 0, 'https://shop.example', ?, 'override', 'allowed',"
            " ?, ?)",
            (url, reason, statement),
        )


def test_what_was_overridden(rep: Rep) -> None:
    """URLs that were fetched because of an override are judged like the others, and the
    output says which override it was.
    """
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "allowed")])
    add_override(ledger, f"{FORBIDDEN}/1", "override", "shop.example: ignore")
    add_override(ledger, f"{FORBIDDEN}/2", "dont_obey_robotstxt", None)
    add_override(ledger, f"{ALLOWED}/3", "ROBOTSTXT_OBEY", None)
    options = (*FILE, "--purge-list", "purge")
    ended = rep("replay", ledger, *options)
    assert ended.status == 1
    assert ended.out == (
        f"forbidden\t{FORBIDDEN}/1\tline 5, Disallow: /basket/ (overridden in the crawl: "
        "shop.example: ignore)\n"
        f"forbidden\t{FORBIDDEN}/2\tline 5, Disallow: /basket/ (overridden in the crawl: "
        "dont_obey_robotstxt)\n"
    )
    assert "fetched and are now forbidden: 2;" in ended.err
    assert Path("purge").read_text() == f"{FORBIDDEN}/1\n{FORBIDDEN}/2\n"
    records = rep("replay", ledger, *options, "--format", "json").records("replay")
    overridden = [each["then"]["override"] for each in records[:-1]]
    assert overridden == ["shop.example: ignore", "dont_obey_robotstxt"]


def test_an_override_that_still_holds(tmp_path: Path) -> None:
    """With the override of the crawl in the settings, its URLs are still allowed."""
    ledger = write_ledger(tmp_path / "ledger", [])
    add_override(ledger, FORBIDDEN, "override", "shop.example: ignore")
    overrides = 'REP_OVERRIDES={"shop.example": "ignore"}'
    ended = scrapy_rep("replay", ledger, "-s", overrides)
    assert (ended.status, ended.out) == (0, "")


def test_crawls_that_recorded_refusals_alone(rep: Rep) -> None:
    """If no crawl recorded the URLs that it fetched, the output says so, and does not claim
    that none is now forbidden. If only some did, it says how many.
    """
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "refused")], level="denied")
    full = write_ledger(Path("full"), [(f"{ALLOWED}/2", "refused")])
    of_all = (
        "recorded only what was refused or overridden (REP_LEDGER_LEVEL was not 'all')"
    )
    not_known = f"{of_all}: which of the other URLs are now forbidden is not known\n"
    allowed = "URLs that were refused and are now allowed"
    ended = rep("replay", ledger, *FILE)
    assert ended.status == 0
    assert ended.err == (
        f"scrapy rep: {allowed}: 1\nscrapy rep: 1 of 1 crawls {not_known}"
    )
    *_, summary = rep("replay", ledger, *FILE, "--format", "json").records("replay")
    assert (summary["crawls"], summary["complete_crawls"]) == (1, 0)
    ended = rep("replay", ledger, full, *FILE)
    assert ended.err == (
        f"scrapy rep: URLs that were fetched and are now forbidden: 0; {allowed}: 2\n"
        f"scrapy rep: 1 of 2 crawls {not_known}"
    )
    ended = rep("replay", full, *FILE)
    assert "REP_LEDGER_LEVEL" not in ended.err


def test_other_layers_do_not_count(rep: Rep) -> None:
    """Only decisions on requests are replayed, not those on pages; invalid origins are
    skipped.
    """
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed")]
    )
    add_override(ledger, f"{FORBIDDEN}/page", "REP_NOINDEX", "noindex")
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "UPDATE decision SET page = url WHERE reason = 'REP_NOINDEX'"
        )
    ended = rep("replay", ledger, *FILE, "--format", "json")
    assert changes(ended.records("replay")) == [("forbidden", FORBIDDEN)]


@pytest.mark.parametrize(
    ("options", "crawl", "forbidden"),
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
    rep: Rep, options: list[str], crawl: dict[str, Any], forbidden: bool
) -> None:
    """The agents and the dialect are those of the crawl, unless options change them."""
    Path("robots.txt").write_text(
        "User-agent: *\nAllow: /basket\nDisallow: /basket/1\n\n"
        "User-agent: openbot\nDisallow:\n"
    )
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")], **crawl)
    assert rep("replay", ledger, *FILE, *options).status == forbidden


def test_robots_of_origins(rep: Rep) -> None:
    """A robots.txt can be given for one origin, and another for all other origins."""
    Path("closed.txt").write_text("User-agent: *\nDisallow: /")
    urls = [f"https://{host}.example/tea" for host in ("cafe", "shop")]
    ledger = write_ledger(Path("ledger"), [(url, "allowed") for url in urls])
    options = ["--robots", "https://cafe.example=closed.txt", *FILE, "--format", "json"]
    ended = rep("replay", ledger, *options)
    assert changes(ended.records("replay")) == [("forbidden", urls[0])]


def test_robots_of_a_virtual_host(rep: Rep) -> None:
    """A robots.txt can be given for a virtual host, as the ledger names it: not for its address."""
    Path("closed.txt").write_text("User-agent: *\nDisallow: /")
    address, virtual_host = (
        "http://127.0.0.1:8080",
        "http://127.0.0.1:8080#Host:v.example",
    )
    ledger = write_ledger(Path("ledger"), [(f"{address}/tea", "allowed")] * 2)
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "UPDATE decision SET origin = ? WHERE id = 1", (virtual_host,)
        )
    options = ["--robots", f"{virtual_host}=closed.txt", *FILE, "--format", "json"]
    records = rep("replay", ledger, *options).records("replay")
    found = [(each["change"], each["origin"]) for each in records[:-1]]
    assert found == [("forbidden", virtual_host)]


def test_purge_list(rep: Rep) -> None:
    """The purge list contains exactly the fetched URLs that are now forbidden. It appears
    at the end of the run, and its temporary file is removed.
    """
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), (ALLOWED, "refused")]
    )
    assert rep("replay", ledger, *FILE, "--purge-list", "purge").status == 1
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

    monkeypatch.setattr(replay.Replayer, "_compare", killed)
    with pytest.raises(Killed):
        rep("replay", ledger, *FILE, "--purge-list", "purge")
    assert Path("purge").read_text() == "before"
    assert {path.name for path in Path().iterdir()} == {"ledger", "purge", "robots.txt"}


def test_the_purge_list_is_no_file_that_is_read(rep: Rep) -> None:
    """A ledger or robots.txt is refused as the purge list, whatever path leads to it."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    Path("link").symlink_to("robots.txt")
    before = Path(ledger).read_bytes()
    for output in ("ledger", "./ledger", "link"):
        ended = rep("replay", ledger, *FILE, "--purge-list", output)
        assert (ended.status, ended.out) == (2, "")
        assert f"--purge-list {output}: this is an input file" in ended.err
    assert Path(ledger).read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "the following arguments are required"),
        (["nowhere"], "nowhere: "),
        (["robots.txt"], "robots.txt: "),
        (["ledger", "--robots", "nowhere"], "nowhere: No such file"),
        (["."], ".: this is a folder, not a ledger"),
        (["ledger", *FILE, "--purge-list", "no/such"], "--purge-list no/such: No such"),
        (["ledger", *FILE, "--purge-list", "."], "--purge-list .: Is a directory"),
        (["badcrawl", *FILE], "badcrawl: "),
        (["badtable", *FILE], "badtable: "),
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
    ended = rep("replay", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert why in ended.err


class Terminal:
    """Standard error, as a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.shown = ""

    def write(self, text: str) -> int:
        self.shown += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


def test_progress(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, a progress bar is shown above which results appear; without its
    library, only the bar is missing.
    """
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    out = rep("replay", ledger, *FILE).out
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert rep("replay", ledger, *FILE).out == out
    assert "1/1 [" in terminal.shown
    terminal.shown = ""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert rep("replay", ledger, *FILE).out == out
    assert "1/1" not in terminal.shown


def test_what_was_crawled_is_shown_visibly(rep: Rep) -> None:
    """Escape sequences in the URLs of a ledger are shown as escapes."""
    url = "https://shop.example/basket/\x1bc\u202e\x9b"
    ledger = write_ledger(Path("ledger"), [(url, "allowed")])
    out = rep("replay", ledger, *FILE).out
    assert r"/basket/\x1bc\u202e\x9b" in out
    assert out.replace("\n", "").replace("\t", "").isprintable()
