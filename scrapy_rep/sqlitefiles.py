"""Opens the SQLite files of this package, makes their tables, and lets processes share them."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Schema(NamedTuple):
    """The format of one kind of file."""

    application_id: int
    """Marks files of this kind, in ``PRAGMA application_id``."""

    version: int
    """The version of the tables, in ``PRAGMA user_version``."""

    statements: tuple[str, ...]
    """The SQL that makes the tables, in an empty file or in one of an earlier version."""


FAILURES = (sqlite3.Error, MemoryError, UnicodeDecodeError)
"""The errors that reading a damaged file can raise. MemoryError is raised for a row that
claims a huge size, and has no message."""


def cause_of(failure: BaseException) -> object:
    """The message for one of :data:`FAILURES`."""
    return str(failure) or "the file is damaged: a row claims more memory than there is"


class ForeignFile(Exception):
    """A file is a database of another program, or a later version of this package made it."""


def version_of(connection: sqlite3.Connection, schema: Schema) -> int:
    """The version of the tables in a file; 0 if it has none.

    Raises ForeignFile for a file of another kind, before anything is written to it.
    """
    # Read first: another process that makes the tables sets both numbers with them.
    [tables] = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables:
        return 0
    [application_id] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application_id != schema.application_id:
        raise ForeignFile("it is a database of another program")
    if version > schema.version:
        raise ForeignFile(
            f"a later version of scrapy-rep wrote it (version {version}; this one knows up "
            f"to {schema.version})"
        )
    return int(version)


def prepare_file(
    connection: sqlite3.Connection, schema: Schema, synchronous: str = "NORMAL"
) -> None:
    """Make the tables of a file that has none, or has those of an earlier version, and use a
    write-ahead log. With *synchronous* ``"NORMAL"``, transactions survive if the process is killed;
    with ``"FULL"``, also a power failure, for an fsync each.

    The connection must be in autocommit mode. Raises ForeignFile for a file of another kind.
    """
    if version_of(connection, schema) < schema.version:
        connection.execute("BEGIN IMMEDIATE")
        # Another process may have made them meanwhile.
        if version_of(connection, schema) < schema.version:
            for statement in schema.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {schema.version}")
        connection.execute("COMMIT")
    use_write_ahead_log(connection)
    connection.execute(f"PRAGMA synchronous = {synchronous}")


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log if the file system supports it: then readers and the
    writer do not wait for each other.
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
    """The device and inode of the file at *path*; None if there is no file. They change if
    another file takes its place.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
