"""Malicious ledgers: a command that cannot read one prints one sentence, with status 2.

Damaged bytes are in ``tests/fuzz``.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.crawl.ledger import reader
from scrapy_rep.exceptions import LedgerError
from tests.tools.rep import Rep, new_ledger

if TYPE_CHECKING:
    from collections.abc import Callable


LEDGER, PAGE = Path("ledger"), Path("report.html")
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
UNTYPED_TIME = (
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'time REAL', 'time')"
    " WHERE name = 'decision'; PRAGMA schema_version = 1000; UPDATE decision SET time = 'noon'"
)
CRAWL = "uuid, spider, user_agent, agents, dialect, settings, versions, started, ended, finish_reason, counts"

# Report and diff read a ledger in different ways. The others open it as diff does.
COMMANDS = {
    "report": ("report", "ledger", "-o", "report.html"),
    "diff": ("diff", "ledger", "robots.txt"),
    "urls": ("diff", "robots.txt", "robots.txt", "--urls", "ledger"),
    "why": ("why", "a.example", "ledger"),
    "why url": ("why", "http://a.example/1", "ledger"),
}

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
    "time that is text": UNTYPED_TIME,
    "time without end": "UPDATE decision SET time = 9e999",
    "time before the year 0": "UPDATE decision SET time = -1e12",
    "line that is text": "UPDATE decision SET line = 'first'",
    "number too large": f"INSERT INTO crawl SELECT 9223372036854775807, {CRAWL} FROM crawl",
    "body that is text": "UPDATE body SET body = 'User-agent: *'",
    "agents of no list": """UPDATE crawl SET agents = '{"mybot": 1}'""",
    "agents of no JSON": "UPDATE crawl SET agents = 'mybot'",
    "deep versions": f"""UPDATE crawl SET versions = '{{"a": {DEEP}}}'""",
    "status that is text": "UPDATE snapshot SET status = 'many'",
    "deep settings": f"""UPDATE crawl SET settings = '{{"a": {DEEP}}}'""",
    "settings of no object": "UPDATE crawl SET settings = '[]'",
}
"""SQL for ledgers that neither a report nor a diff can read."""

HARMLESS = {
    "key that is none": "CREATE TABLE s AS SELECT * FROM snapshot; DROP TABLE snapshot;"
    "ALTER TABLE s RENAME TO snapshot",
    "nested agents": f"UPDATE crawl SET agents = '{DEEP[:400]}{DEEP[-400:]}'",
    "redirects of numbers": "UPDATE snapshot SET redirects = '[1]'",
    "markup": "UPDATE snapshot SET origin = 'javascript:alert(1)', access = '<script>',"
    " error = '</td>' || char(8238), headers = '[[1, 2, 3]]'",
    "triggers": "CREATE TRIGGER t AFTER INSERT ON decision BEGIN SELECT abs('x'); END",
    "another view": f"CREATE VIEW v AS {ENDLESS} SELECT i FROM n",
    "unknown words": "UPDATE decision SET verdict = 'x', layer = 'y', reason = 'z'",
    "unknown dialect": "UPDATE crawl SET dialect = 'x\ny'",
    "halves of pairs":
    r"""UPDATE crawl SET agents = '["\ud800"]', settings = '{"\ud800": "\udfff"}'""",
    "control characters": "UPDATE decision SET url = 'http://a.example/\x1b]0;\x07' || id,"
    " statement = char(27, 7, 8232, 8238, 10)",
    "no origin": "UPDATE decision SET origin = ''; UPDATE snapshot SET origin = char(0)",
    "crawl of no crawl": "UPDATE decision SET crawl = 77; UPDATE snapshot SET crawl = 78",
    "long text": "UPDATE decision SET statement = hex(zeroblob(1000000)),"
    " reason = hex(zeroblob(1000000))",
}  # fmt: skip


@pytest.fixture(autouse=True)
def ledger(rep: Rep) -> None:
    """Write a ledger with rows in each table. Its views would keep SQLite from changing them."""
    origin = "http://a.example"
    made = new_ledger(LEDGER, [])
    made.snapshot(origin, b"User-agent: *", fetched=0, expires=1)
    for number in range(5):
        made.allowed(f"{origin}/{number}", line=3, statement="Disallow: /")
    views = "SELECT name FROM sqlite_master WHERE type = 'view'"
    for (view,) in made.connection.execute(views).fetchall():
        made.connection.execute(f"DROP VIEW {view}")
    made.close()


def change(script: str) -> None:
    with closing(sqlite3.connect(LEDGER)) as connection:
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
            assert (ended.out, ended.err.count("\n")) == ("", 1)
            assert "Traceback" not in ended.err
    return ended.err


@pytest.mark.parametrize("name", CRAFTED)
def test_a_malicious_ledger_is_named_and_not_read(rep: Rep, name: str) -> None:
    """For views, generated columns, wrong types or endless JSON, the message names the file, and no
    report is written.
    """
    change(CRAFTED[name])
    assert "ledger: " in check(rep, "report", "diff", "urls", "why", statuses={2})
    assert not PAGE.exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_unusual_values_of_the_right_types_are_read(rep: Rep, name: str) -> None:
    """Unusual values of the right types are read, and triggers do not run."""
    change(HARMLESS[name])
    check(rep, "report", statuses={0})
    assert "\x1b" not in PAGE.read_text(encoding="utf-8")
    check(rep, "diff", "why", "why url", statuses={0, 1, 3})


@pytest.mark.parametrize(
    ("script", "of_report", "of_diff"),
    [
        (f"UPDATE snapshot SET redirects = '{DEEP}'", {2}, {2}),
        ("UPDATE decision SET url = CAST(x'687474703a2f2f612fff' AS TEXT)", {0}, {2}),
    ],
    ids=["deep redirects", "a URL that is no UTF-8"],
)
def test_a_report_reads_what_a_diff_refuses(
    rep: Rep, script: str, of_report: set[int], of_diff: set[int]
) -> None:
    """A report shows the readable part of an invalid URL, of which a diff needs the whole. Redirects
    are a part of what is known of a robots.txt, for each command that reads it.
    """
    change(script)
    check(rep, "report", statuses=of_report)
    check(rep, "diff", statuses=of_diff)


def test_a_row_that_claims_too_much_memory_names_the_file() -> None:
    """Also the MemoryError that SQLite raises for some damaged rows names the file."""
    with (
        pytest.raises(LedgerError, match=r"ledger.*more memory"),
        reader.reading("ledger"),
    ):
        raise MemoryError


@pytest.mark.parametrize(
    "make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("/dev/zero")]
)
def test_a_pipe_or_a_device_is_refused_without_waiting(
    rep: Rep, make: Callable[[Path], None]
) -> None:
    """An empty file, a pipe without a writer and a device are refused without waiting."""
    LEDGER.unlink()
    make(LEDGER)
    assert "ledger" in check(rep, "report", "why", statuses={2})


def test_too_large_values_and_too_slow_ledgers_are_refused(
    rep: Rep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is larger than any ledger can have is not loaded into memory, and a ledger
    that takes more SQLite steps than its size justifies is abandoned.
    """
    if hasattr(sqlite3.Connection, "setlimit"):  # Python 3.10 has no such limit.
        monkeypatch.setattr(reader, "_MAX_VALUE", 100_000)
        change("UPDATE decision SET statement = hex(zeroblob(100000)) WHERE id = 3")
        for command in ("report", "diff"):
            assert "too big" in check(rep, command, statuses={2})
    LEDGER.unlink()
    urls = [(f"http://a.example/{number}", "allowed") for number in range(5_000)]
    new_ledger(LEDGER, urls).close()
    check(rep, "report", statuses={0})
    monkeypatch.setattr(reader, "_STEPS", 0)
    monkeypatch.setattr(reader, "_STEPS_A_BYTE", 0)
    for command in ("report", "diff"):
        message = check(rep, command, statuses={2})
        assert "reading the ledger takes too long for a file of its size" in message
