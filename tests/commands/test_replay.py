"""``scrapy rep replay`` on ledgers, with robots.txt files that are given."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.commands.replay import replaying
from scrapy_rep.commands.replay.state import State
from tests.commands.rep import write_ledger

if TYPE_CHECKING:
    from tests.commands.conftest import Rep

FILE = ("--robots", "robots.txt")
FORBIDDEN = "https://shop.example/basket/1"
ALLOWED = "https://shop.example/tea"


def changes(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["change"], each["url"]) for each in records[:-1]]


def test_what_changed(rep: Rep) -> None:
    """What was fetched and is now forbidden is shown, and what was refused and is now
    allowed; what is as it was is not.
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
    ended = rep("replay", ledger, *FILE)
    assert ended.status == 1
    assert ended.out == (
        f"forbidden\t{FORBIDDEN}\tline 5, Disallow: /basket/\n"
        f"allowed\t{ALLOWED}\tno rule of the group matches\n"
    )
    assert ended.err == (
        "scrapy rep: URLs that were fetched and are now forbidden: 1; that were refused "
        "and are now allowed: 1\n"
    )


def test_forms_of_a_url(rep: Rep) -> None:
    """URLs are judged in all the forms that a server may see, as the crawl did; what has
    no origin is passed over.
    """
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
    """JSON has what was decided then, and what is decided now."""
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
    """The exit status is 1 only where something is now forbidden."""
    ledger = write_ledger(Path("ledger"), [(ALLOWED, "refused")])
    assert rep("replay", ledger, *FILE).status == 0


def test_several_ledgers(rep: Rep) -> None:
    """Several ledgers are read as one: each URL counts once, by its last decision."""
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
    """Only what robots.txt decided can change with it; a broken origin is left out."""
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
    """The agents and the dialect are those of the crawl, unless others are asked for."""
    Path("robots.txt").write_text(
        "User-agent: *\nAllow: /basket\nDisallow: /basket/1\n\n"
        "User-agent: openbot\nDisallow:\n"
    )
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")], **crawl)
    assert rep("replay", ledger, *FILE, *options).status == forbidden


def test_robots_of_origins(rep: Rep) -> None:
    """A robots.txt can be given for an origin, and one for all others."""
    Path("closed.txt").write_text("User-agent: *\nDisallow: /")
    urls = [f"https://{host}.example/tea" for host in ("cafe", "shop")]
    ledger = write_ledger(Path("ledger"), [(url, "allowed") for url in urls])
    options = ["--robots", "https://cafe.example=closed.txt", *FILE, "--format", "json"]
    ended = rep("replay", ledger, *options)
    assert changes(ended.records("replay")) == [("forbidden", urls[0])]


def test_purge_list(rep: Rep) -> None:
    """The purge list has what was fetched and is now forbidden, and nothing else; it is
    there at the end, and its half-written form is not.
    """
    ledger = write_ledger(
        Path("ledger"), [(FORBIDDEN, "allowed"), (ALLOWED, "refused")]
    )
    assert rep("replay", ledger, *FILE, "--purge-list", "purge").status == 1
    assert Path("purge").read_text() == f"{FORBIDDEN}\n"
    assert not Path("purge.partial").exists()


class Killed(BaseException):
    """In the place of a signal."""


@pytest.mark.parametrize("survived", [0, 1, 2, 3, 50, 119])
def test_resumed(rep: Rep, monkeypatch: pytest.MonkeyPatch, survived: int) -> None:
    """A run that was interrupted goes on where it was, and comes to the same results; in
    the end the state is gone, and an interrupted run leaves no purge list.
    """
    hosts = [
        f"https://{letter}{number}.example" for letter in "ab" for number in range(20)
    ]
    urls = [f"{host}/basket/{page}" for host in hosts for page in range(3)]
    ledger = write_ledger(Path("ledger"), [(url, "allowed") for url in urls])
    monkeypatch.setattr(replaying, "_SAVED_EVERY", 2)
    monkeypatch.setattr(replaying, "_ORIGINS_AT_ONCE", 7)
    options = (*FILE, "--state", "state", "--purge-list", "purge", "--format", "json")
    whole = rep("replay", ledger, *options)
    assert len(changes(whole.records("replay"))) == 120
    Path("purge").unlink()
    compare = replaying.Replaying._compare
    judged = 0

    def limited(*arguments: Any) -> None:
        nonlocal judged
        judged += 1
        if judged > survived:
            raise Killed
        compare(*arguments)

    monkeypatch.setattr(replaying.Replaying, "_compare", limited)
    with pytest.raises(Killed):
        rep("replay", ledger, *options)
    assert not Path("purge").exists()
    assert not Path("purge.partial").exists()
    judged, survived = 0, 120 - survived + 1
    resumed = rep("replay", ledger, *options)
    # What the first run had printed comes before.
    assert resumed.out.endswith(whole.out)
    assert not Path("state").exists()
    assert sorted(Path("purge").read_text().split()) == sorted(urls)


def test_state_of_something_else(rep: Rep, tmp_path: Path) -> None:
    """A state is good for its own question alone, and no other file is touched."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    State("state", "another question").close()
    ended = rep("replay", ledger, *FILE, "--state", "state")
    assert (ended.status, ended.out) == (2, "")
    assert "--state state is of another replay" in ended.err
    before = Path("ledger").read_bytes()
    ended = rep("replay", ledger, *FILE, "--state", ledger)
    assert "this is no state of a replay" in ended.err
    assert Path("ledger").read_bytes() == before
    for bad in ("robots.txt", "no/such/folder", str(tmp_path)):
        ended = rep("replay", ledger, *FILE, "--state", bad)
        assert (ended.status, ended.out) == (2, "")
        assert f"--state {bad}: " in ended.err


def test_state_in_use(rep: Rep) -> None:
    """Of two runs with one state, the second is told."""
    ledger = write_ledger(Path("ledger"), [(FORBIDDEN, "allowed")])
    holder = State("state", "question")
    try:
        ended = rep("replay", ledger, *FILE, "--state", "state")
    finally:
        holder.close()
    assert ended.status == 2
    assert "locked" in ended.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "the following arguments are required"),
        (["nowhere"], "nowhere: "),
        (["robots.txt"], "robots.txt: "),
        (["ledger", "--robots", "nowhere"], "nowhere: No such file"),
        (["ledger", *FILE, "--purge-list", "no/such"], "--purge-list no/such: No such"),
        (["badcrawl", *FILE], "badcrawl: "),
        (["badtable", *FILE], "badtable: "),
    ],
)
def test_wrong_usage(rep: Rep, arguments: list[str], why: str) -> None:
    """What is no ledger, and what can't be read or written, is said."""
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
    """On a terminal there is a bar, which makes room for the results; without its library
    there is none, and all else is the same.
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
