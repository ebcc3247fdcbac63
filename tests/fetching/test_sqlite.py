"""Tests of :class:`SqliteStore`: failing writes, files that other processes use, and files of other programs."""

from __future__ import annotations

import re
import resource
import shutil
import sqlite3
import tracemalloc
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.crawl.fetching.memory import MAX_SIZE
from scrapy_rep.crawl.fetching.sqlitestore import SCHEMA, SqliteStore
from scrapy_rep.exceptions import StoreError
from tests.fetching.places import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.newest

DATA = b"data"
UNTIL = 2**33


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "robots.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store whose file does not exist yet. The first call of the store creates it."""
    with closing(SqliteStore(path)) as store:
        yield store


def put(store: SqliteStore, key: str = ORIGIN, data: bytes = DATA) -> None:
    store.put(key, data, UNTIL)


def sql(path: Path, *statements: str) -> Any:
    """Execute *statements* on the database at *path*. Return the first value that the last statement returns; None if
    it returns no row.
    """
    with closing(sqlite3.connect(path)) as connection:
        row = None
        for statement in statements:
            row = connection.execute(statement).fetchone()
        connection.commit()
        return None if row is None else row[0]


def check_works(store: SqliteStore) -> None:
    """Check that an entry can be written to *store* and read again."""
    put(store, data=b"after")
    assert store.get(ORIGIN) == b"after"


# Failing writes.


def test_all_entries_that_a_killed_process_has_written_can_be_read(
    path: Path, store: SqliteStore, tmp_path: Path
) -> None:
    """A killed process leaves the database file and a write-ahead log. The test copies both, and opens the copies."""
    put(store)
    copies = tmp_path / "copies"
    copies.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copies)
    with closing(SqliteStore(copies / path.name)) as copied_store:
        assert copied_store.get(ORIGIN) == DATA
        check_works(copied_store)


def test_on_a_full_disk_entries_can_be_read_and_writing_resumes(
    path: Path, store: SqliteStore
) -> None:
    """On a full disk, a write raises StoreError. Writes work again when there is free space. Here a limit on the size
    of files replaces the full disk.
    """
    put(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(StoreError, match=rf"^{re.escape(str(path))}: "):
            put(store, "http://long.example", bytes(400_000))
        assert store.get(ORIGIN) == DATA
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check_works(store)
    assert sql(path, "PRAGMA integrity_check") == "ok"


def test_a_locked_file_can_be_read_and_is_writable_after_the_lock_is_released(
    path: Path,
) -> None:
    """If another process does not release its lock before the time-out, a write raises StoreError."""
    with closing(SqliteStore(path, timeout=0.01)) as store:
        put(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="database is locked"):
                put(store, data=b"after")
            assert store.get(ORIGIN) == DATA
        check_works(store)


# Expired entries.


def test_expired_entries_are_removed_in_batches(path: Path) -> None:
    """At most 500 expired entries are removed at once, with every hundredth write. So no write takes long."""
    with closing(SqliteStore(path)) as store:
        for number in range(1400):
            put(store, f"http://{number}.example")
        sql(path, "UPDATE entries SET until = 1800000")
    with closing(SqliteStore(path)) as store:
        for remaining in (900, 400, 0):
            put(store)
            assert sql(path, "SELECT count(*) FROM entries") == remaining + 1
            for _ in range(99):
                put(store)
        assert store.get(ORIGIN) == DATA


# The file.


def test_a_closed_store_leaves_one_file_with_all_entries(path: Path) -> None:
    """An empty file is used like a missing file. While the file is open, it has a write-ahead log, so that readers do
    not wait for a writer.
    """
    path.touch()
    with closing(SqliteStore(path)) as store:
        put(store)
        assert sql(path, "PRAGMA journal_mode") == "wal"
    assert [file.name for file in path.parent.iterdir()] == ["robots.db"]
    with closing(SqliteStore(path)) as store:
        assert store.get(ORIGIN) == DATA


def test_a_folder_that_cannot_be_created_raises_store_error(path: Path) -> None:
    """The store works as soon as the folder can be created."""
    path.write_text("a file")
    with closing(SqliteStore(path / "robots.db")) as store:
        with pytest.raises(StoreError) as raised:
            store.get(ORIGIN)
        assert str(raised.value).startswith(f"{path / 'robots.db'}: ")
        path.unlink()
        check_works(store)


def test_a_file_that_is_deleted_while_open_is_created_again(
    path: Path, store: SqliteStore
) -> None:
    """SQLite would continue to write to the deleted file. So the first call after the deletion raises StoreError, and
    the next call creates a new file.
    """
    put(store)
    path.unlink()
    with pytest.raises(StoreError, match="the file was moved or removed"):
        store.get(ORIGIN)
    assert store.get(ORIGIN) is None
    check_works(store)
    with closing(SqliteStore(path)) as second_store:
        assert second_store.get(ORIGIN) == b"after"


def test_a_key_that_cannot_be_encoded_raises_store_error(store: SqliteStore) -> None:
    with pytest.raises(StoreError, match="surrogates not allowed"):
        put(store, "http://\udc80")


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize(
    "damage", [b"\xa5" * 5000, None], ids=["overwritten", "truncated"]
)
def test_a_damaged_file_raises_no_error_except_store_error(
    path: Path, store: SqliteStore, tenth: int, damage: bytes | None
) -> None:
    """The file is overwritten or truncated at one of ten positions. An entry that can be read is complete."""
    for number in range(100):
        put(store, f"http://{number}.example")
    store.close()
    content = path.read_bytes()
    start = len(content) * tenth // 10
    end = b"" if damage is None else damage + content[start + 5000 :]
    path.write_bytes(content[:start] + end)
    with closing(SqliteStore(path)) as damaged:
        for key in ("http://0.example", "http://50.example"):
            with suppress(StoreError):
                assert damaged.get(key) in {None, DATA}
            with suppress(StoreError):
                put(damaged, key)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"zeroblob({MAX_SIZE})", bytes(MAX_SIZE)),
        (f"zeroblob({50 * MAX_SIZE})", "too long"),
        (
            "NULL",
            "too long",
        ),  # NULL has no length, so it is treated like a value that is too long.
        ("7", 7),
        ("'text'", "text"),
    ],
    ids=["as long as an entry", "too long", "NULL", "a number", "text"],
)
def test_an_invalid_value_in_the_database_is_replaced_by_the_next_write(
    path: Path, store: SqliteStore, value: str, expected: object
) -> None:
    """A value that is too long for an entry is not read into memory."""
    put(store)
    sql(path, f"UPDATE entries SET data = {value}")
    tracemalloc.start()
    try:
        assert store.get(ORIGIN) == expected
        assert tracemalloc.get_traced_memory()[1] < 10 * MAX_SIZE
    finally:
        tracemalloc.stop()
    check_works(store)


# Files of other programs.

TABLE = "CREATE TABLE entries (precious TEXT)"
SET_APPLICATION_ID = f"PRAGMA application_id = {SCHEMA.application_id}"


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (
            [TABLE, SET_APPLICATION_ID, "PRAGMA user_version = 99"],
            rf"another version of scrapy-rep wrote the file \(in format 99; .* {SCHEMA.version}\)",
        ),
        ([TABLE], "the file is a database of another program"),
        ([], "file is not a database"),
    ],
    ids=["another version", "another program", "no database"],
)
def test_a_file_of_another_program_is_left_unchanged(
    path: Path, store: SqliteStore, statements: list[str], error: str
) -> None:
    """Each call raises StoreError with the reason. After the file was deleted, the store works."""
    if statements:
        sql(path, *statements)
    else:
        path.write_bytes(b"User-agent: *\n" * 1000)
    before = path.read_bytes()
    for call in (
        lambda: put(store),
        lambda: store.get(ORIGIN),
    ):
        with pytest.raises(StoreError, match=rf"robots\.db: {error}"):
            call()
    assert path.read_bytes() == before
    path.unlink()
    check_works(store)
