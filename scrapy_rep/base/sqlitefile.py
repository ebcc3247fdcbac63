"""Prepares SQLite files for this package: creates their folders and tables, and turns on write-ahead logs."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.exceptions import SettingError

if TYPE_CHECKING:
    from pathlib import Path


class Schema(NamedTuple):
    """The format of an SQLite file of this package, such as a ledger."""

    application_id: int
    """The value of ``PRAGMA application_id``, which identifies files in this format."""

    version: int
    """The version of the tables, which is the value of ``PRAGMA user_version``."""

    statements: tuple[str, ...]
    """The SQL statements that create the tables in an empty file."""


FAILURES = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""The exceptions that reading a damaged file can raise. If a damaged row states a huge size, reading the row
causes a MemoryError, which has no message."""


def cause_of(failure: BaseException) -> str:
    """Return the message of *failure*, one of :data:`FAILURES`. For a MemoryError, which has no message and is caused by
    a damaged row, return a message that says that the file is damaged.
    """
    return str(failure) or "the file is damaged: a row claims more memory than is free"


class ForeignFile(Exception):
    """Raised for an SQLite file that another program, or another version of this package, created."""


def has_tables(connection: sqlite3.Connection, schema: Schema) -> bool:
    """Whether the database file of *connection* contains the tables of *schema*. Return False for an empty file.
    Raises ForeignFile for a file with other tables, so that the caller writes nothing into a foreign file.
    """
    # Another process may be creating the tables. It sets application_id and user_version in the same transaction.
    # So if this query sees tables, the two PRAGMA queries below see the values that the process has set.
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return False
    [application_id] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application_id != schema.application_id:
        raise ForeignFile("the file is a database of another program")
    if version != schema.version:
        raise ForeignFile(
            f"another version of scrapy-rep wrote the file (in format {version}; this version needs format "
            f"{schema.version}); use the other version, or a new file"
        )
    return True


def prepare_file(
    connection: sqlite3.Connection, schema: Schema, synchronous: str = "NORMAL"
) -> None:
    """Create the tables of *schema* if the database file is empty, and switch to a write-ahead log.

    If *synchronous* is ``"NORMAL"``, committed transactions survive the death of the process. If it is
    ``"FULL"``, they also survive a power failure, at the cost of one fsync each. *connection* must be in
    autocommit mode. Raises ForeignFile for a file with other tables.
    """
    if not has_tables(connection, schema):
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have created the tables before BEGIN IMMEDIATE locked the file.
        if not has_tables(connection, schema):
            for statement in schema.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {schema.version}")
        connection.execute("COMMIT")
    use_write_ahead_log(connection)
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def make_folder(path: Path, setting: str, value: str) -> bool:
    """Create the folder of the file at *path* if the folder does not exist. Its parent folder must exist. Return
    whether this call created the folder.

    Raises SettingError if the parent folder does not exist. *setting* and *value* are the name and value of the
    setting, for the error message. Return False if the folder cannot be created for another reason, such as a
    missing permission; the caller gets an error when it opens the file.
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
        allowed = f"the path of a file in an existing folder; create {missing} first"
        raise SettingError(setting, value, allowed) from None
    except (OSError, ValueError):
        return False
    return True


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the database to a write-ahead log, so that readers and the writer do not wait for each other. Do
    nothing if the file system does not support write-ahead logs.
    """
    for _ in range(10):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # PRAGMA journal_mode does not wait for a lock, but fails while another process writes or changes the
            # mode. BEGIN IMMEDIATE waits for the other process, so an empty transaction delays the next attempt.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return


def identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode numbers of the file at *path*; None if there is no file. If the numbers
    change, the path leads to another file.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
