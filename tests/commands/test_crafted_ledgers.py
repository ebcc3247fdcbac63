"""Malicious ledgers: a command that cannot read one prints one sentence, with status 2."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.ledger import reader
from tests.commands.rep import ROBOTS, write_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.commands.conftest import Rep

SECONDS = 60
"""Far more than any command takes."""

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
COLUMNS = (
    "i AS id, 1 AS crawl, 0.0 AS time, 'http://a.example' AS origin, 'http://a.example/' || i"
    " AS url, NULL AS page, '*' AS agent, 'robots.txt' AS layer, 'allowed' AS verdict,"
    " 'rule' AS reason, NULL AS snapshot, 1 AS line, '' AS statement, NULL AS form,"
    " NULL AS source"
)
DEEP = "[" * 100_000 + "]" * 100_000
NESTED = "[" * 400 + "]" * 400


def untyped(table: str, column: str, value: str) -> str:
    """Return SQL that recreates a table with columns of any type, and sets one of them."""
    return (
        f"PRAGMA writable_schema = ON;"
        f"UPDATE sqlite_master SET sql = replace(sql, '{column} TEXT', '{column}')"
        f" WHERE name = '{table}';"
        f"UPDATE sqlite_master SET sql = replace(sql, '{column} REAL', '{column}')"
        f" WHERE name = '{table}';"
        f"PRAGMA schema_version = 1000;"
        f"UPDATE {table} SET {column} = {value};"
    )


def as_json(table: str, column: str, value: str) -> str:
    return f"UPDATE {table} SET {column} = '{value}';"


CRAFTED = {
    "endless view": f"DROP TABLE decision; CREATE VIEW decision AS {ENDLESS} SELECT {COLUMNS} FROM n",
    "view of a table": "ALTER TABLE decision RENAME TO d; CREATE VIEW decision AS SELECT * FROM d",
    "endless view of crawls": "ALTER TABLE crawl RENAME TO c;"
    f"CREATE VIEW crawl AS {ENDLESS} SELECT c.* FROM c, n",
    "virtual table": "ALTER TABLE decision RENAME TO d;"
    "CREATE VIRTUAL TABLE decision USING fts5(origin, url)",
    "no table": "DROP TABLE snapshot",
    "no column": "ALTER TABLE decision DROP COLUMN line",
    "no column of crawls": "ALTER TABLE crawl DROP COLUMN agents",
    "column that computes": "ALTER TABLE decision DROP COLUMN statement;"
    "ALTER TABLE decision ADD COLUMN statement TEXT AS (printf('%*d', 100000000, 1))",
    "URL that is bytes": "UPDATE decision SET url = x'ff'",
    "origin that is bytes": "UPDATE snapshot SET origin = x'00'",
    "layer that is bytes": "UPDATE decision SET layer = x'00' WHERE id = 2",
    "time that is text": untyped("decision", "time", "'noon'"),
    "time without end": "UPDATE decision SET time = 9e999",
    "time that no date has": "UPDATE crawl SET started = 1e300",
    "line that is text": "UPDATE decision SET line = 'first'",
    "line below the first": "UPDATE decision SET line = -1",
    "number too large": "INSERT INTO crawl SELECT 9223372036854775807, spider, user_agent,"
    " agents, dialect, settings, versions, started, ended, finish_reason, counts FROM crawl",
    "status that is text": "UPDATE snapshot SET status = 'OK'",
    "body that is text": "UPDATE body SET body = 'User-agent: *'",
    "deep agents": as_json("crawl", "agents", DEEP),
    "agents of no list": as_json("crawl", "agents", '{"mybot": 1}'),
    "agents of no JSON": as_json("crawl", "agents", "mybot"),
    "deep settings": as_json("crawl", "settings", f'{{"a": {DEEP}}}'),
    "settings of no object": as_json("crawl", "settings", "[]"),
}
"""SQL for ledgers that neither a report nor a diff can read."""

OF_REPORTS = {
    "deep redirects": as_json("snapshot", "redirects", DEEP),
}  # fmt: skip

HARMLESS = {
    "key that is none": "CREATE TABLE s AS SELECT * FROM snapshot; DROP TABLE snapshot;"
    "ALTER TABLE s RENAME TO snapshot",
    "nested agents": as_json("crawl", "agents", NESTED),
    "agents of numbers": as_json("crawl", "agents", "[1]"),
    "nested settings": as_json("crawl", "settings", f'{{"a": {NESTED}}}'),
    "counts of texts": as_json("crawl", "counts", '{"downloader/response_count": "x"}'),
    "counts without end": as_json(
        "crawl", "counts", '{"robotstxt/response_count": 1e999}'
    ),
    "counts too large": as_json("crawl", "counts", f'{{"a": 1{"0" * 4000}}}'),
    "redirects of numbers": as_json("snapshot", "redirects", "[1]"),
    "triggers": "CREATE TRIGGER t AFTER INSERT ON decision BEGIN SELECT abs('x'); END",
    "another view": f"CREATE VIEW v AS {ENDLESS} SELECT i FROM n",
    "unknown words": "UPDATE decision SET verdict = 'x', layer = 'y', reason = 'z'",
    "unknown dialect": "UPDATE crawl SET dialect = 'x\ny'",
    "halves of pairs": as_json("crawl", "agents", r'["\ud800"]')
    + as_json("crawl", "settings", r'{"\ud800": "\udfff"}'),
    "control characters": "UPDATE decision SET url = 'http://a.example/\x1b]0;\x07' || id,"
    " statement = char(27, 7, 8232, 8238, 10)",
    "no origin": "UPDATE decision SET origin = ''; UPDATE snapshot SET origin = char(0)",
    "crawl of no crawl": "UPDATE decision SET crawl = 77; UPDATE snapshot SET crawl = 78",
    "long text": "UPDATE decision SET statement = hex(zeroblob(1000000)),"
    " reason = hex(zeroblob(1000000))",
}


@pytest.fixture
def ledger() -> Path:
    """Return a ledger with rows in each table."""
    urls = [(f"http://a.example/{number}", "allowed") for number in range(5)]
    path = Path(write_ledger(Path("ledger"), urls))
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO body VALUES ('00', x'557365722d6167656e743a202a')")
    connection.execute(
        "INSERT INTO snapshot VALUES (1, 1, 'http://a.example', 'http://a.example/robots.txt',"
        " '[]', 'successful', 200, NULL, '[]', 0, 1, NULL, '00')"
    )
    connection.execute("UPDATE decision SET snapshot = 1")
    connection.execute("UPDATE crawl SET counts = '{}'")
    connection.commit()
    connection.close()
    return path


def change(path: Path, script: str) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(script)
    except sqlite3.OperationalError as error:
        pytest.skip(f"This SQLite can't: {error}")
    finally:
        connection.close()


def check(rep: Rep, *arguments: str, statuses: set[int]) -> str:
    """Run a command under a time limit, and check that its status is one of *statuses*,
    with one sentence on standard error for status 2. Return the text on standard error.
    """
    start = time.monotonic()
    ended = rep(*arguments)
    assert time.monotonic() - start < SECONDS
    assert ended.status in statuses, ended
    if ended.status == 2:
        assert ended.out == ""
        assert ended.err.count("\n") == 1
        assert "Traceback" not in ended.err
    return ended.err


def report(path: object) -> tuple[str, ...]:
    return ("report", str(path), "-o", "report.html")


def diff(path: object) -> tuple[str, ...]:
    return ("diff", str(path), "robots.txt")


def diff_of_urls(path: object) -> tuple[str, ...]:
    return ("diff", "robots.txt", "robots.txt", "--urls", str(path))


def why(path: object) -> tuple[str, ...]:
    return ("why", "a.example", str(path), "--bundle", "bundle.zip")


def why_of_a_url(path: object) -> tuple[str, ...]:
    return ("why", "http://a.example/1", str(path))


def verify(path: object) -> tuple[str, ...]:
    return ("verify", str(path))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (command, name)
        for command in (report, diff, why, verify)
        for name, script in CRAFTED.items()
        # No JSON is parsed to verify it.
        if command is not verify
        or (
            not script.startswith("UPDATE crawl SET agents")
            and not script.startswith("UPDATE crawl SET settings")
        )
    ],
)
def test_what_is_no_ledger(
    rep: Rep, ledger: Path, command: Callable[[Path], tuple[str, ...]], name: str
) -> None:
    """For views, generated columns, wrong types or endless JSON, the
    message names the file, and no report is written.
    """
    change(ledger, CRAFTED[name])
    said = check(rep, *command(ledger), statuses={2})
    assert "ledger: " in said
    assert not Path("report.html").exists()


@pytest.mark.parametrize("name", OF_REPORTS)
def test_what_a_report_can_not_show(rep: Rep, ledger: Path, name: str) -> None:
    change(ledger, OF_REPORTS[name])
    check(rep, *report(ledger), statuses={2})
    check(rep, *diff(ledger), statuses={0, 1})


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_no_harm(rep: Rep, ledger: Path, name: str) -> None:
    """Unusual values of the right types are read, and triggers do not run."""
    change(ledger, HARMLESS[name])
    check(rep, *report(ledger), statuses={0})
    page = Path("report.html").read_text(encoding="utf-8")
    assert "\x1b" not in page
    check(rep, *diff(ledger), statuses={0, 1})
    check(rep, *why(ledger), statuses={0, 1})
    check(rep, *why_of_a_url(ledger), statuses={0, 1})
    check(rep, *verify(ledger), statuses={1})


@pytest.mark.parametrize(
    "kind", ["empty", "folder", "pipe", "device", "missing", "text"]
)
def test_what_is_no_file_of_sqlite(rep: Rep, kind: str) -> None:
    """A folder, a pipe without a writer and a device are refused without waiting."""
    path = Path("thing")
    match kind:
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/zero")
        case "text":
            path.write_text(ROBOTS * 100)
    assert str(path) in check(rep, *report(path), statuses={2})


def test_a_value_without_end(
    rep: Rep, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is larger than any ledger can have is not loaded into memory."""
    if not hasattr(sqlite3.Connection, "setlimit"):
        pytest.skip("Python 3.10 has no such limit")
    monkeypatch.setattr(reader, "_MAX_VALUE", 100_000)
    change(ledger, "UPDATE decision SET statement = hex(zeroblob(100000)) WHERE id = 3")
    for command in (report, diff):
        assert "too big" in check(rep, *command(ledger), statuses={2})


def test_time(rep: Rep, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that takes more SQLite steps than its size justifies is abandoned."""
    urls = [(f"http://a.example/{number}", "allowed") for number in range(5_000)]
    path = write_ledger(Path("ledger"), urls)
    check(rep, *report(path), statuses={0})
    Path("report.html").unlink()
    monkeypatch.setattr(reader, "_STEPS", 0)
    monkeypatch.setattr(reader, "_STEPS_A_BYTE", 0)
    for command in (report, diff):
        said = check(rep, *command(path), statuses={2})
        assert "reading it takes too long for a ledger of its size" in said


def test_damaged(rep: Rep, ledger: Path) -> None:
    """With damaged bytes anywhere, a command either succeeds or reports the error."""
    whole = ledger.read_bytes()
    dice = random.Random(9309)
    for _ in range(60):
        octets = bytearray(whole)
        for _ in range(dice.randint(1, 8)):
            at = dice.randrange(len(octets))
            octets[at : at + 4] = dice.randbytes(4)
        ledger.write_bytes(octets)
        check(rep, *report(ledger), statuses={0, 2})
        Path("report.html").unlink(missing_ok=True)
        for command in (diff, why, why_of_a_url, verify):
            check(rep, *command(ledger), statuses={0, 1, 2})


def test_text_that_is_no_utf_8(rep: Rep, ledger: Path) -> None:
    """A report shows the readable part of an invalid URL; a diff needs the whole URL."""
    change(ledger, "UPDATE decision SET url = CAST(x'687474703a2f2f612fff' AS TEXT)")
    check(rep, *report(ledger), statuses={0})
    check(rep, *diff(ledger), statuses={2})


def test_urls_of_a_ledger(rep: Rep, ledger: Path) -> None:
    """``diff --urls`` refuses the same ledgers."""
    check(rep, *diff_of_urls(ledger), statuses={0})
    for name in ("endless view", "URL that is bytes", "no table"):
        copy = Path(name)
        copy.write_bytes(ledger.read_bytes())
        change(copy, CRAFTED[name])
        check(rep, *diff_of_urls(copy), statuses={2})


def test_json_of_our_own(rep: Rep, ledger: Path) -> None:
    """Settings with the deepest nesting that a ledger can contain are read."""
    value: object = "x"
    for _ in range(20):
        value = {"a": [value]}
    written = json.dumps({"A": value})
    change(ledger, as_json("crawl", "settings", written))
    check(rep, *report(ledger), statuses={0})
