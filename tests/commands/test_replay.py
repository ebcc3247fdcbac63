"""``scrapy rep replay`` on ledgers, with robots.txt files given on the command line."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.commands import replay
from tests.commands.rep import write_ledger

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


def test_other_layers_do_not_count(rep: Rep) -> None:
    """Only decisions of robots.txt are replayed; invalid origins are skipped."""
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), ("nonsense://a/b", "allowed")]
    )
    with sqlite3.connect(ledger) as connection:
        connection.execute(
            "INSERT INTO decision (crawl, time, origin, url, layer, verdict, reason)"
            " VALUES (1, 0, 'https://shop.example', ?, 'override', 'allowed', 'override')",
            (f"{FORBIDDEN}/override",),
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
