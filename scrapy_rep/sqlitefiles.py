"""SQLite files of this package: recognised, made, and shared by processes."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Schema(NamedTuple):
    """What one kind of file has in it."""

    application_id: int
    """Marks files of this kind, in ``PRAGMA application_id``."""

    version: int
    """The version of the tables, in ``PRAGMA user_version``."""

    statements: tuple[str, ...]
    """What makes the tables, in a file without any or in one of an earlier version."""


FAILURES = (sqlite3.Error, MemoryError)
"""What reading a damaged file can raise: SQLite has no memory for a row that claims to be of a
huge size. The second has no message: :func:`cause_of`."""


def cause_of(failure: BaseException) -> object:
    """What to say of one of :data:`FAILURES`."""
    return str(failure) or "the file is damaged: a row claims more memory than there is"


class ForeignFile(Exception):
    """A file is a database of another program, or a later version of this package made it."""


def version_of(connection: sqlite3.Connection, schema: Schema) -> int:
    """The version of the tables in a file; 0 where it has none.

    Raises ForeignFile for a file of another kind, before anything is written to it.
    """
    # First: another process may be making the tables, and the rest comes with them.
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


def make_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    """Make the tables of a file that has none, or those of an earlier version.

    The connection is in autocommit mode. Raises ForeignFile.
    """
    if version_of(connection, schema) == schema.version:
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been faster.
    if version_of(connection, schema) < schema.version:
        for statement in schema.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {schema.version}")
    connection.execute("COMMIT")


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, where the file system can have one: then readers and
    the one writer do not wait for each other.
    """
    for _ in range(10):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            # The switch fails at once where another process is about to make it or writes;
            # this waits for that process.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        else:
            return


def identity(path: Path) -> tuple[int, int] | None:
    """What tells the file at *path* from any other, which may have been put in its place
    while it is open; None where there is none.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
