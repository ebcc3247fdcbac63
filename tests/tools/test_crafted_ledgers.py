"""Tests of the commands on malicious ledgers. A command that cannot read a ledger prints one
sentence, with exit status 2.

Ledgers with damaged bytes are in ``tests/fuzz``.
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
"""The time limit of a command, far more than any takes."""

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

# report and diff read a ledger with different code. The other commands use that of diff.
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
    "generated column": "ALTER TABLE decision DROP COLUMN statement;"
    "ALTER TABLE decision ADD COLUMN statement TEXT AS (printf('%*d', 100000000, 1))",
    "URL that is bytes": "UPDATE decision SET url = x'ff'",
    "time that is text": UNTYPED_TIME,
    "infinite time": "UPDATE decision SET time = 9e999",
    "time before the year 0": "UPDATE decision SET time = -1e12",
    "line that is text": "UPDATE decision SET line = 'first'",
    "number too large": f"INSERT INTO crawl SELECT 9223372036854775807, {CRAWL} FROM crawl",
    "body that is text": "UPDATE body SET body = 'User-agent: *'",
    "agents that are no list": """UPDATE crawl SET agents = '{"mybot": 1}'""",
    "agents that are no JSON": "UPDATE crawl SET agents = 'mybot'",
    "deep versions": f"""UPDATE crawl SET versions = '{{"a": {DEEP}}}'""",
    "status that is text": "UPDATE snapshot SET status = 'many'",
    "deep settings": f"""UPDATE crawl SET settings = '{{"a": {DEEP}}}'""",
    "settings that are no object": "UPDATE crawl SET settings = '[]'",
}
"""SQL that makes a ledger that no command accepts."""

HARMLESS = {
    "id that is no primary key": "CREATE TABLE s AS SELECT * FROM snapshot; DROP TABLE snapshot;"
    "ALTER TABLE s RENAME TO snapshot",
    "nested agents": f"UPDATE crawl SET agents = '{DEEP[:400]}{DEEP[-400:]}'",
    "redirects of numbers": "UPDATE snapshot SET redirects = '[1]'",
    "markup": "UPDATE snapshot SET origin = 'javascript:alert(1)', access = '<script>',"
    " error = '</td>' || char(8238), headers = '[[1, 2, 3]]'",
    "triggers": "CREATE TRIGGER t AFTER INSERT ON decision BEGIN SELECT abs('x'); END",
    "another view": f"CREATE VIEW v AS {ENDLESS} SELECT i FROM n",
    "unknown words": "UPDATE decision SET verdict = 'x', layer = 'y', reason = 'z'",
    "unknown dialect": "UPDATE crawl SET dialect = 'x\ny'",
    "lone surrogates":
    r"""UPDATE crawl SET agents = '["\ud800"]', settings = '{"\ud800": "\udfff"}'""",
    "control characters": "UPDATE decision SET url = 'http://a.example/\x1b]0;\x07' || id,"
    " statement = char(27, 7, 8232, 8238, 10)",
    "no origin": "UPDATE decision SET origin = ''; UPDATE snapshot SET origin = char(0)",
    "unknown crawl id": "UPDATE decision SET crawl = 77; UPDATE snapshot SET crawl = 78",
    "long text": "UPDATE decision SET statement = hex(zeroblob(1000000)),"
    " reason = hex(zeroblob(1000000))",
}  # fmt: skip
"""SQL that makes a ledger with unusual values, which every command accepts."""


@pytest.fixture(autouse=True)
def ledger(rep: Rep) -> None:
    """Write a ledger with some rows, but without its views. SQLite refuses to rename a table, or to drop a column, that
    a view uses. Some tests do this.
    """
    origin = "http://a.example"
    ledger = new_ledger(LEDGER, [])
    ledger.snapshot(origin, b"User-agent: *", fetched=0, expires=1)
    for number in range(5):
        ledger.allowed(f"{origin}/{number}", line=3, statement="Disallow: /")
    views = "SELECT name FROM sqlite_master WHERE type = 'view'"
    for (view,) in ledger.connection.execute(views).fetchall():
        ledger.connection.execute(f"DROP VIEW {view}")
    ledger.close()


def change_ledger(script: str) -> None:
    """Run SQL on the ledger. Skip the test if this version of SQLite does not support it."""
    with closing(sqlite3.connect(LEDGER)) as connection:
        try:
            connection.executescript(script)
        except sqlite3.OperationalError as error:
            pytest.skip(f"This SQLite can't: {error}")


def check_commands(rep: Rep, *commands: str, statuses: set[int]) -> str:
    """Run commands with a time limit, and check that the exit status of each is in *statuses*. With
    status 2, a command must print nothing but one sentence on standard error. Return the standard
    error of the last command.
    """
    for command in commands:
        start = time.monotonic()
        result = rep(*COMMANDS[command])
        assert time.monotonic() - start < SECONDS
        assert result.status in statuses, (command, result)
        if result.status == 2:
            assert (result.out, result.err.count("\n")) == ("", 1)
            assert "Traceback" not in result.err
    return result.err


@pytest.mark.parametrize("name", CRAFTED)
def test_a_malicious_ledger_is_refused_by_name(rep: Rep, name: str) -> None:
    """The message names the ledger, and no report is written."""
    change_ledger(CRAFTED[name])
    assert "ledger: " in check_commands(
        rep, "report", "diff", "urls", "why", statuses={2}
    )
    assert not PAGE.exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_unusual_values_of_the_right_types_are_read(rep: Rep, name: str) -> None:
    """Values that are unusual, but of the right type, are accepted, and triggers do not run."""
    change_ledger(HARMLESS[name])
    check_commands(rep, "report", statuses={0})
    assert "\x1b" not in PAGE.read_text(encoding="utf-8")
    check_commands(rep, "diff", "why", "why url", statuses={0, 1, 3})


@pytest.mark.parametrize(
    ("script", "report_statuses", "diff_statuses"),
    [
        (f"UPDATE snapshot SET redirects = '{DEEP}'", {2}, {2}),
        ("UPDATE decision SET url = CAST(x'687474703a2f2f612fff' AS TEXT)", {0}, {2}),
    ],
    ids=["deep redirects", "a URL that is not UTF-8"],
)
def test_a_report_accepts_an_invalid_url_that_a_diff_refuses(
    rep: Rep, script: str, report_statuses: set[int], diff_statuses: set[int]
) -> None:
    """A report shows the readable part of an invalid URL, but a diff needs the whole URL. Both need
    the redirects of a robots.txt, so both refuse JSON that is nested too deeply.
    """
    change_ledger(script)
    check_commands(rep, "report", statuses=report_statuses)
    check_commands(rep, "diff", statuses=diff_statuses)


def test_a_memory_error_is_reported_with_the_name_of_the_file() -> None:
    """SQLite raises MemoryError for some damaged rows, which claim to be larger than the memory."""
    with (
        pytest.raises(LedgerError, match=r"ledger.*more memory"),
        reader.reading("ledger"),
    ):
        raise MemoryError


@pytest.mark.parametrize(
    "make_file", [Path.touch, os.mkfifo, lambda path: path.symlink_to("/dev/zero")]
)
def test_an_empty_file_a_pipe_and_a_device_are_refused_at_once(
    rep: Rep, make_file: Callable[[Path], None]
) -> None:
    """A pipe without a writer would block the command for ever, and a device may never end."""
    LEDGER.unlink()
    make_file(LEDGER)
    assert "ledger" in check_commands(rep, "report", "why", statuses={2})


def test_too_large_values_and_too_slow_ledgers_are_refused(
    rep: Rep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is larger than a ledger can have is not loaded into memory. Reading stops if it
    takes more steps of SQLite than the size of the ledger justifies.
    """
    if hasattr(sqlite3.Connection, "setlimit"):  # Python 3.10 has no such limit.
        monkeypatch.setattr(reader, "_MAX_VALUE", 100_000)
        change_ledger(
            "UPDATE decision SET statement = hex(zeroblob(100000)) WHERE id = 3"
        )
        for command in ("report", "diff"):
            assert "too big" in check_commands(rep, command, statuses={2})
    LEDGER.unlink()
    urls = [(f"http://a.example/{number}", "allowed") for number in range(5_000)]
    new_ledger(LEDGER, urls).close()
    check_commands(rep, "report", statuses={0})
    monkeypatch.setattr(reader, "_STEPS", 0)
    monkeypatch.setattr(reader, "_STEPS_A_BYTE", 0)
    for command in ("report", "diff"):
        message = check_commands(rep, command, statuses={2})
        assert "reading the ledger takes too long for a file of its size" in message
