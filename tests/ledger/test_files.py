"""What can be opened as a ledger, where one can be written, and when a crawl must not start."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep import sqlitefiles
from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger import writer as files
from scrapy_rep.ledger.reader import open_ledger
from scrapy_rep.ledger.schema import (
    ADDED,
    ADDED_TABLES,
    APPLICATION_ID,
    TABLES,
    VERSION,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def make(
    path: Path, application_id: int = APPLICATION_ID, version: int = VERSION
) -> str:
    connection = sqlite3.connect(path)
    connection.executescript(TABLES)
    connection.execute(f"PRAGMA application_id = {application_id}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    return str(path)


def test_a_new_one(tmp_path: Path) -> None:
    """A new file is made with its folder, and has the ids of a ledger."""
    path = tmp_path / "a" / "b" / "ledger.sqlite"
    files.prepare(path)
    files.prepare(path)
    with closing(open_ledger(str(path))) as ledger:
        assert tuple(*ledger.execute("PRAGMA user_version")) == (VERSION,)
        assert tuple(*ledger.execute("PRAGMA application_id")) == (APPLICATION_ID,)


def test_read_only(tmp_path: Path) -> None:
    """A ledger can be read by column name, and cannot be written."""
    with closing(open_ledger(make(tmp_path / "a ledger #1?.sqlite"))) as ledger:
        assert ledger.execute("SELECT count(*) AS n FROM decision").fetchone()["n"] == 0
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            ledger.execute("DELETE FROM decision")


def test_made_by_many_at_once(tmp_path: Path) -> None:
    """Of several processes that create a ledger, the later ones find the tables."""
    path = tmp_path / "ledger.sqlite"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(files.prepare, [path] * 16))
    open_ledger(str(path)).close()


@pytest.mark.parametrize("do", [files.prepare, open_ledger])
def test_what_is_none(tmp_path: Path, do: Callable[[Any], object]) -> None:
    """The message names the file that is no ledger, and the reason; the file stays unchanged."""
    (tmp_path / "text").write_text("User-agent: *\n" * 100)
    (tmp_path / "folder").mkdir()
    cases = {
        str(tmp_path / "text"): "not a database",
        str(tmp_path / "folder"): "directory|not a file",
        str(tmp_path / "text" / "below"): "Not a directory|File exists",
        make(tmp_path / "other", application_id=1): "of another program",
        make(tmp_path / "later", version=VERSION + 1): f"version {VERSION + 1};",
    }
    if do is open_ledger:
        cases[str(tmp_path / "missing")] = "No such file"
    for path, why in cases.items():
        before = tmp_path.joinpath(path)
        content = before.read_bytes() if before.is_file() else None
        with pytest.raises(LedgerError, match=why) as error:
            do(before if do is files.prepare else path)
        assert path in str(error.value)
        assert content == (before.read_bytes() if before.is_file() else None)


def test_made_by_another_in_the_meantime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may create the tables between the check and the lock."""
    path = tmp_path / "ledger.sqlite"
    make(path)
    answers = iter([0, VERSION])
    monkeypatch.setattr(sqlitefiles, "version_of", lambda *_: next(answers))
    files.open_to_write(path).close()


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (sqlite3.OperationalError("database or disk is full"), True),
        (sqlite3.OperationalError("database is locked"), True),
        (sqlite3.OperationalError("disk I/O error"), True),
        (sqlite3.OperationalError("attempt to write a readonly database"), False),
        (OSError(28, "No space left on device"), True),
        (PermissionError(13, "Permission denied"), False),
    ],
)
def test_what_may_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    passes: bool,
) -> None:
    """A full disk or a locked file does not stop the start of a crawl; a lasting error does."""

    def fail(path: Path) -> None:
        raise error

    monkeypatch.setattr(files, "open_to_write", fail)
    if passes:
        files.prepare(tmp_path / "x")
    else:
        with pytest.raises(LedgerError, match=str(error.args[-1])):
            files.prepare(tmp_path / "x")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_path_that_can_not_be(tmp_path: Path, name: str) -> None:
    """An impossible path raises LedgerError before the crawl starts."""
    with pytest.raises(LedgerError):
        files.prepare(tmp_path / name / "ledger")


def test_closed_for_good(tmp_path: Path) -> None:
    """After closing, one file remains unless another process has it open, and it is readable."""
    path = tmp_path / "ledger.sqlite"
    one, other = files.open_to_write(path), files.open_to_write(path)
    one.execute("INSERT INTO body VALUES ('a', x'62')")
    files.close_and_merge_log(one)
    files.close_and_merge_log(other)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    with closing(open_ledger(str(path))) as ledger:
        assert len(ledger.execute("SELECT * FROM body").fetchall()) == 1


def test_a_ledger_of_an_earlier_version(tmp_path: Path) -> None:
    """A ledger of an earlier version can be read without the columns and tables that it lacks, and
    gets them when a crawl writes to it. It keeps its rows.
    """
    path = tmp_path / "ledger.sqlite"
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        for table in ADDED_TABLES:
            connection.execute(f"DROP TABLE {table}")
        # SQLite cannot drop a column beside a comment.
        connection.executescript(
            "CREATE TABLE d AS SELECT * FROM decision; DROP TABLE decision;"
            "ALTER TABLE d RENAME TO decision"
        )
        for column in ADDED:
            connection.execute(f"ALTER TABLE decision DROP COLUMN {column}")
        connection.execute("INSERT INTO body VALUES ('a', x'62')")
        connection.commit()
    open_ledger(str(path)).close()
    for _ in range(2):
        files.open_to_write(path).close()
    with closing(open_ledger(str(path))) as found:
        columns = [row["name"] for row in found.execute("PRAGMA table_info(decision)")]
        assert columns[-4:] == ["form", "source", "via", "subject"]
        assert len(found.execute("SELECT * FROM body").fetchall()) == 1
        for table in ADDED_TABLES:
            assert found.execute(f"SELECT * FROM {table}").fetchall() == []
