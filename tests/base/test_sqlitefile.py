"""Tests of ``use_write_ahead_log()``, which switches an SQLite file to a write-ahead log."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.base.sqlitefile import use_write_ahead_log

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.newest


def connect(path: Path, **arguments: Any) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=60, **arguments)


def test_the_switch_to_a_write_ahead_log_waits_for_a_writer(tmp_path: Path) -> None:
    """SQLite itself does not wait for the lock of a writer when it switches."""
    path = tmp_path / "file"
    with (
        closing(connect(path, check_same_thread=False)) as writer,
        closing(connect(path)) as connection,
    ):
        writer.execute("CREATE TABLE a (b)")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO a VALUES (1)")
        commit = threading.Timer(0.1, writer.execute, ["COMMIT"])
        commit.start()
        use_write_ahead_log(connection)
        commit.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT * FROM a").fetchall() == [(1,)]


def test_after_several_failures_the_file_is_used_without_a_write_ahead_log(
    tmp_path: Path,
) -> None:
    attempts = []

    class Refused(sqlite3.Connection):
        """A connection that can never switch to a write-ahead log."""

        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql == "PRAGMA journal_mode = WAL":
                attempts.append(sql)
                raise sqlite3.OperationalError("database is locked")
            return super().execute(sql, *arguments)

    with closing(connect(tmp_path / "file", factory=Refused)) as connection:
        use_write_ahead_log(connection)
        assert 1 < len(attempts) < 100
        assert not connection.in_transaction
        connection.execute("CREATE TABLE a (b)")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
