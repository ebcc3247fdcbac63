"""Malicious ledgers: a command that cannot read one prints one sentence, with status 2."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.ledger import reader
from tests.commands.rep import write_ledger

if TYPE_CHECKING:
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
    "virtual table": "ALTER TABLE decision RENAME TO d;"
    "CREATE VIRTUAL TABLE decision USING fts5(origin, url)",
    "no table": "DROP TABLE snapshot",
    "no column": "ALTER TABLE decision DROP COLUMN line",
    "column that computes": "ALTER TABLE decision DROP COLUMN statement;"
    "ALTER TABLE decision ADD COLUMN statement TEXT AS (printf('%*d', 100000000, 1))",
    "URL that is bytes": "UPDATE decision SET url = x'ff'",
    "time that is text": untyped("decision", "time", "'noon'"),
    "time without end": "UPDATE decision SET time = 9e999",
    "line that is text": "UPDATE decision SET line = 'first'",
    "number too large": "INSERT INTO crawl SELECT 9223372036854775807, spider, user_agent,"
    " agents, dialect, settings, versions, started, ended, finish_reason, counts FROM crawl",
    "body that is text": "UPDATE body SET body = 'User-agent: *'",
    "agents of no list": as_json("crawl", "agents", '{"mybot": 1}'),
    "agents of no JSON": as_json("crawl", "agents", "mybot"),
    "deep settings": as_json("crawl", "settings", f'{{"a": {DEEP}}}'),
    "settings of no object": as_json("crawl", "settings", "[]"),
}
"""SQL for ledgers that neither a report nor a diff can read."""

HARMLESS = {
    "key that is none": "CREATE TABLE s AS SELECT * FROM snapshot; DROP TABLE snapshot;"
    "ALTER TABLE s RENAME TO snapshot",
    "nested agents": as_json("crawl", "agents", NESTED),
    "counts of texts": as_json("crawl", "counts", '{"downloader/response_count": "x"}'),
    "counts without end": as_json(
        "crawl", "counts", '{"robotstxt/response_count": 1e999}'
    ),
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


# Report and diff read a ledger in different ways. The others open it as diff does.
COMMANDS = {
    "report": ("report", "ledger", "-o", "report.html"),
    "diff": ("diff", "ledger", "robots.txt"),
    "urls": ("diff", "robots.txt", "robots.txt", "--urls", "ledger"),
    "why": ("why", "a.example", "ledger", "--bundle", "bundle.zip"),
    "why url": ("why", "http://a.example/1", "ledger"),
    "verify": ("verify", "ledger"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a ledger with rows in each table."""
    urls = [(f"http://a.example/{number}", "allowed") for number in range(5)]
    path = Path(write_ledger(tmp_path_factory.mktemp("crafted") / "ledger", urls))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "INSERT INTO body VALUES ('00', x'557365722d6167656e743a202a');"
            "INSERT INTO snapshot VALUES (1, 1, 'http://a.example',"
            " 'http://a.example/robots.txt', '[]', 'successful', 200, NULL, '[]', 0, 1, NULL,"
            " '00');"
            "UPDATE decision SET snapshot = 1; UPDATE crawl SET counts = '{}'"
        )
    return path.read_bytes()


@pytest.fixture
def ledger(rep: Rep, whole: bytes) -> Path:
    path = Path("ledger")
    path.write_bytes(whole)
    return path


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.executescript(script)
        except sqlite3.OperationalError as error:
            pytest.skip(f"This SQLite can't: {error}")


def check(rep: Rep, *commands: str, statuses: set[int]) -> str:
    """Run commands under a time limit, and check that the status of each is one of *statuses*,
    with one sentence on standard error for status 2. Return the text on standard error.
    """
    for command in commands:
        start = time.monotonic()
        ended = rep(*COMMANDS[command])
        assert time.monotonic() - start < SECONDS
        assert ended.status in statuses, (command, ended)
        if ended.status == 2:
            assert ended.out == ""
            assert ended.err.count("\n") == 1
            assert "Traceback" not in ended.err
    return ended.err


@pytest.mark.parametrize("name", CRAFTED)
def test_what_is_no_ledger(rep: Rep, ledger: Path, name: str) -> None:
    """For views, generated columns, wrong types or endless JSON, the
    message names the file, and no report is written.
    """
    script = CRAFTED[name]
    change(ledger, script)
    assert "ledger: " in check(rep, "report", "diff", "urls", "why", statuses={2})
    # No JSON is parsed to verify it.
    is_json = "crawl SET agents" in script or "crawl SET settings" in script
    check(rep, "verify", statuses={1, 2} if is_json else {2})
    assert not Path("report.html").exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_what_does_no_harm(rep: Rep, ledger: Path, name: str) -> None:
    """Unusual values of the right types are read, and triggers do not run."""
    change(ledger, HARMLESS[name])
    check(rep, "report", statuses={0})
    assert "\x1b" not in Path("report.html").read_text(encoding="utf-8")
    check(rep, "diff", "why", "why url", statuses={0, 1})
    check(rep, "verify", statuses={1})


@pytest.mark.parametrize("kind", ["empty", "pipe", "device"])
def test_what_is_no_file_of_sqlite(rep: Rep, kind: str) -> None:
    """An empty file, a pipe without a writer and a device are refused without waiting."""
    path = Path("ledger")
    match kind:
        case "empty":
            path.touch()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
    assert "ledger" in check(rep, "report", "why", statuses={2})


def test_limits(rep: Rep, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is larger than any ledger can have is not loaded into memory, and a ledger
    that takes more SQLite steps than its size justifies is abandoned.
    """
    if hasattr(sqlite3.Connection, "setlimit"):  # Python 3.10 has no such limit.
        monkeypatch.setattr(reader, "_MAX_VALUE", 100_000)
        change(
            ledger, "UPDATE decision SET statement = hex(zeroblob(100000)) WHERE id = 3"
        )
        for command in ("report", "diff"):
            assert "too big" in check(rep, command, statuses={2})
    ledger.unlink()
    urls = [(f"http://a.example/{number}", "allowed") for number in range(5_000)]
    write_ledger(ledger, urls)
    check(rep, "report", statuses={0})
    monkeypatch.setattr(reader, "_STEPS", 0)
    monkeypatch.setattr(reader, "_STEPS_A_BYTE", 0)
    for command in ("report", "diff"):
        said = check(rep, command, statuses={2})
        assert "reading it takes too long for a ledger of its size" in said


def test_damaged(rep: Rep, whole: bytes) -> None:
    """With damaged bytes anywhere, a command either succeeds or reports the error."""
    dice = random.Random(9309)
    for number in range(60):
        octets = bytearray(whole)
        for _ in range(dice.randint(1, 8)):
            at = dice.randrange(len(octets))
            octets[at : at + 4] = dice.randbytes(4)
        Path("ledger").write_bytes(octets)
        check(rep, "diff", "why", "why url", "verify", statuses={0, 1, 2})
        if number % 4 == 0:
            check(rep, "report", statuses={0, 2})


@pytest.mark.parametrize(
    "script",
    [
        as_json("snapshot", "redirects", DEEP),
        "UPDATE decision SET url = CAST(x'687474703a2f2f612fff' AS TEXT)",
    ],
    ids=["deep redirects", "a URL that is no UTF-8"],
)
def test_what_matters_to_one_command(rep: Rep, ledger: Path, script: str) -> None:
    """A report shows the readable part of an invalid URL, of which a diff needs the whole; the
    redirects of a robots.txt do not matter to a diff.
    """
    change(ledger, script)
    is_url = "CAST" in script
    check(rep, "report", statuses={0 if is_url else 2})
    check(rep, "diff", statuses={2} if is_url else {0, 1})
