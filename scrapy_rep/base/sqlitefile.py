"""Prepares the SQLite files of this package: their folder, their tables, and their write-ahead log."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    from pathlib import Path


class Schema(NamedTuple):
    """The format of a kind of file, such as a ledger."""

    application_id: int
    """The number in ``PRAGMA application_id`` that marks files of this kind."""

    version: int
    """The version of the tables, in ``PRAGMA user_version``."""

    statements: tuple[str, ...]
    """The SQL statements that create the tables in an empty file."""


FAILURES = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""The exceptions that can be raised when a damaged file is read. A row that claims a huge size raises a
MemoryError, which has no message."""


def cause_of(failure: BaseException) -> object:
    """Return the message of an exception in :data:`FAILURES`, for the user."""
    return str(failure) or "the file is damaged: a row claims more memory than there is"


class ForeignFile(Exception):
    """A file is a database of another program, or of another version of this package."""


def has_tables(connection: sqlite3.Connection, schema: Schema) -> bool:
    """Whether a file has the tables of *schema*. Return False for an empty file. Raises ForeignFile for a
    file with other tables, so that nothing is written to it.
    """
    # The tables are read before the two numbers, because another process may be creating the tables: it
    # sets the numbers in the same transaction.
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
    """Create the tables of *schema* if the file is empty, and switch to a write-ahead log.

    With *synchronous* ``"NORMAL"``, a committed transaction survives the death of the process; with
    ``"FULL"``, it also survives a power failure, at the cost of an fsync. The connection must be in
    autocommit mode. Raises ForeignFile for a file of another kind.
    """
    if not has_tables(connection, schema):
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have created the tables meanwhile.
        if not has_tables(connection, schema):
            for statement in schema.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {schema.version}")
        connection.execute("COMMIT")
    use_write_ahead_log(connection)
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def make_folder(path: Path, setting: str, value: str) -> bool:
    """Create the folder of the file at *path*, if only this folder is missing, and return whether it was
    created. *setting* and *value* are the setting that names the file, and its value.

    Raises SettingError if more folders are missing. Any other failure is left to the caller, who
    cannot open the file.
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
    """Switch to a write-ahead log, if the file system supports one, so that readers and the writer do not
    wait for each other.
    """
    for _ in range(10):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # The switch fails at once if another process writes or switches. An empty transaction
            # waits for the other process.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at *path*; None if there is no file. If they change,
    another file has taken the place of the file.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
