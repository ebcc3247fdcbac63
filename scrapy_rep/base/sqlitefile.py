"""Opens the SQLite files of this package, makes their tables, and lets processes share them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    from pathlib import Path


class Schema(NamedTuple):
    """The format of one kind of file."""

    application_id: int
    """Marks files of this kind, in ``PRAGMA application_id``."""

    version: int
    """The version of the tables, in ``PRAGMA user_version``."""

    statements: tuple[str, ...]
    """The SQL that makes the tables in an empty file."""


FAILURES = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""The errors that reading a damaged file can raise. MemoryError is raised for a row that
claims a huge size, and has no message."""


def cause_of(failure: BaseException) -> object:
    """Return the message for one of :data:`FAILURES`."""
    return str(failure) or "the file is damaged: a row claims more memory than there is"


class ForeignFile(Exception):
    """A file is a database of another program, or another version of this package made it."""


def has_tables(connection: sqlite3.Connection, schema: Schema) -> bool:
    """Whether a file has the tables of *schema*. Raises ForeignFile for a file with other tables, before
    anything is written to it.
    """
    # Read first: another process that makes the tables sets both numbers with them.
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return False
    [application_id] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application_id != schema.application_id:
        raise ForeignFile("it is a database of another program")
    if version != schema.version:
        raise ForeignFile(
            f"another version of scrapy-rep wrote it (its format is {version}, that of this version "
            f"{schema.version}); use that version, or a new file"
        )
    return True


def prepare_file(
    connection: sqlite3.Connection, schema: Schema, synchronous: str = "NORMAL"
) -> None:
    """Make the tables of *schema* in a file that has none, and switch to a write-ahead log.

    With *synchronous* ``"NORMAL"``, a transaction survives the end of the process; with ``"FULL"``,
    it also survives a power failure, for one fsync. The connection must be in autocommit mode.
    Raises ForeignFile for a file of another kind.
    """
    if not has_tables(connection, schema):
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have made the tables meanwhile.
        if not has_tables(connection, schema):
            for statement in schema.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {schema.version}")
        connection.execute("COMMIT")
    use_write_ahead_log(connection)
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def make_folder(path: Path, setting: str, value: str) -> bool:
    """Make the folder of the file at *path*, if that folder alone is missing. Return whether the folder
    was made. *value* is the value of *setting*, which names the file.

    Raises SettingError if more folders are missing. Any other failure shows when the file is opened.
    """
    folder = path.absolute().parent
    try:
        if folder.exists():
            return False
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        missing = folder
        while not missing.parent.exists():
            missing = missing.parent
        allowed = f"the path of a file in a folder that exists: make {missing} first"
        raise SettingError(setting, value, allowed) from None
    except (OSError, ValueError):
        return False
    return True


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, with which readers and the writer do not wait for each other, if the
    file system supports it.
    """
    for _ in range(10):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # The switch fails at once if another process writes or switches; a transaction
            # waits for that process.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at *path*; None if there is no file. They tell whether
    another file has taken its place.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
