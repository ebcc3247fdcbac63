"""Errors of the file system while a command reads or writes a file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scrapy.exceptions import UsageError

from scrapy_rep.commands import report
from scrapy_rep.commands.output import output_file
from scrapy_rep.commands.urls import read_file
from tests.report import ledgers
from tests.report.making import run

if TYPE_CHECKING:
    from typing import NoReturn

pytestmark = pytest.mark.newest

# A file that opens, but whose first bytes cannot be read, not even by root.
UNREADABLE = Path("/proc/self/mem")

needs_it = pytest.mark.skipif(
    not UNREADABLE.is_file(), reason="There is no file that can't be read"
)


@pytest.mark.parametrize("error", [UsageError, KeyboardInterrupt])
def test_a_file_is_written_as_a_whole(
    tmp_path: Path, error: type[BaseException]
) -> None:
    """If a run fails or is interrupted, the file of an earlier run is kept, and no other file is
    left. The error names the option.
    """
    path = tmp_path / "urls"
    path.write_text("before")

    def write() -> None:
        with output_file(str(path), "--purge-list", []) as write_text:
            write_text("text")
            if error is KeyboardInterrupt:
                raise KeyboardInterrupt
            path.unlink()
            path.mkdir()

    with pytest.raises(error, match=r"^$|--purge"):
        write()
    assert list(tmp_path.iterdir()) == [path]
    assert path.is_dir() or path.read_text() == "before"


@needs_it
def test_a_file_that_cannot_be_read() -> None:
    """A read error is a UsageError with the path of the file."""
    with pytest.raises(UsageError, match=str(UNREADABLE)):
        read_file(str(UNREADABLE))


@needs_it
def test_an_unreadable_file_is_not_replaced() -> None:
    """A file whose mark cannot be read is not replaced."""
    path = str(UNREADABLE)
    with pytest.raises(UsageError, match=path), output_file(path, path, [], b"mark"):
        pass


def test_no_room_for_temporary_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """If the temporary files of a report fail, the error names the ledgers and no report is
    written.
    """

    def fail(*arguments: object, **named: object) -> NoReturn:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(report.Ledgers, "view", fail)
    path = ledgers.brief(tmp_path / "ledger")
    assert run(path, "-o", tmp_path / "report.html") == 2
    shown = capsys.readouterr().err
    assert str(tmp_path / "ledger") in shown
    assert "disk is full" in shown
    assert [each.name for each in tmp_path.iterdir()] == ["ledger"]
