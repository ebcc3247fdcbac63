"""What can be opened as a ledger, and the errors for all other files."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from scrapy_rep.exceptions import LedgerError
from scrapy_rep.ledger.reader import open_ledger
from scrapy_rep.ledger.schema import APPLICATION_ID, TABLES, VERSION

if TYPE_CHECKING:
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


def test_a_ledger(tmp_path: Path) -> None:
    """A ledger can be read by column name, and cannot be written."""
    ledger = open_ledger(make(tmp_path / "a ledger #1?.sqlite"))
    assert ledger.execute("SELECT count(*) AS n FROM decision").fetchone()["n"] == 0
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        ledger.execute("DELETE FROM decision")
    ledger.close()


def test_what_is_none(tmp_path: Path) -> None:
    """The message names the file that is no ledger, and the reason."""
    (tmp_path / "text").write_text("User-agent: *\n" * 100)
    cases = {
        str(tmp_path / "missing"): "No such file",
        str(tmp_path / "text"): "not a database",
        make(
            tmp_path / "other", application_id=1
        ): "it is a database of another program",
        make(tmp_path / "later", version=VERSION + 1): f"version {VERSION + 1};",
    }
    for path, why in cases.items():
        with pytest.raises(LedgerError, match=why) as error:
            open_ledger(path)
        assert path in str(error.value)
    assert not (tmp_path / "missing").exists()
