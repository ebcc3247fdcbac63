"""How far a replay has come, in a file, so that it can go on after an interruption."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_APPLICATION_ID = 0x52455032
"""``REP2``, in ``PRAGMA application_id``: by this a file is known to be a state."""

_TABLES = """
CREATE TABLE run (question TEXT, origin TEXT, url TEXT, done INTEGER);
CREATE TABLE result (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
"""


class State:
    """The results of a replay, and the URL up to which they are complete.

    *question* tells one replay from another: a file is only good for its own.
    """

    def __init__(self, path: str, question: str) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, 0, isolation_level=None)
            self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._open(question)
        except sqlite3.Error as error:
            raise UsageError(f"--state {path}: {error}") from None
        row = self._connection.execute("SELECT origin, url, done FROM run").fetchone()
        self.origin, self.url, self.done = row

    def _open(self, question: str) -> None:
        execute = self._connection.execute
        # Takes the lock, and keeps it.
        execute("BEGIN IMMEDIATE")
        (application_id,) = execute("PRAGMA application_id").fetchone()
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not application_id and not tables:
            execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            for statement in _TABLES.strip().split("\n"):
                execute(statement)
            execute("INSERT INTO run VALUES (?, '', '', 0)", (question,))
        elif application_id != _APPLICATION_ID:
            raise UsageError(f"--state {self._path}: this is no state of a replay")
        elif execute("SELECT question FROM run").fetchone() != (question,):
            raise UsageError(
                f"--state {self._path} is of another replay, or the ledger has grown "
                "since; remove it to begin anew"
            )
        execute("COMMIT")

    def results(self) -> Iterator[dict[str, Any]]:
        """What was found before the interruption."""
        for (record,) in self._connection.execute(
            "SELECT record FROM result ORDER BY id"
        ):
            yield json.loads(record)

    def save(
        self, origin: str, url: str, done: int, records: list[dict[str, Any]]
    ) -> None:
        """Keep what was found up to a URL, all of it or nothing."""
        with self._connection:
            execute = self._connection.execute
            execute("BEGIN")
            execute("UPDATE run SET origin = ?, url = ?, done = ?", (origin, url, done))
            self._connection.executemany(
                "INSERT INTO result (record) VALUES (?)",
                [(json.dumps(record),) for record in records],
            )

    def remove(self) -> None:
        """To be called when there is nothing left to do."""
        self._connection.close()
        Path(self._path).unlink(missing_ok=True)

    def close(self) -> None:
        self._connection.close()
