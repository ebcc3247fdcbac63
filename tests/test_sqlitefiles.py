"""The write-ahead log of a file that another process writes, or that can have none."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.sqlitefiles import use_write_ahead_log

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.newest


def connect(path: Path, **arguments: Any) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=60, **arguments)


def test_another_process_writes(tmp_path: Path) -> None:
    """The switch, which does not wait by itself, is made when the other has written."""
    path = tmp_path / "file"
    with (
        closing(connect(path, check_same_thread=False)) as other,
        closing(connect(path)) as connection,
    ):
        other.execute("CREATE TABLE a (b)")
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO a VALUES (1)")
        ends = threading.Timer(0.1, other.execute, ["COMMIT"])
        ends.start()
        use_write_ahead_log(connection)
        ends.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT * FROM a").fetchall() == [(1,)]


def test_the_switch_never_works(tmp_path: Path) -> None:
    """After some attempts the file is used without one."""
    attempts = []

    class Refused(sqlite3.Connection):
        """Is never the only one that uses the file."""

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
