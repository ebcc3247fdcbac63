"""The SQLite store: a file that fails, one that other processes use, and files of others."""

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
    """A store on a file that it makes at its first call."""
    with closing(SqliteStore(path)) as store:
        yield store


def put(store: SqliteStore, key: str = ORIGIN, data: bytes = DATA) -> None:
    store.put(key, data, UNTIL)


def sql(path: Path, *statements: str) -> Any:
    """Return the first value of the result of the last of *statements*, if it has one."""
    with closing(sqlite3.connect(path)) as connection:
        row = None
        for statement in statements:
            row = connection.execute(statement).fetchone()
        connection.commit()
        return None if row is None else row[0]


def check_works(store: SqliteStore) -> None:
    """Check that *store* keeps data."""
    put(store, data=b"after")
    assert store.get(ORIGIN) == b"after"


# Writes that fail.


def test_a_killed_process_leaves_all_entries_that_it_has_put(
    path: Path, store: SqliteStore, tmp_path: Path
) -> None:
    """The files that a killed process leaves behind, of which one is a write-ahead log, have all
    entries that it has put.
    """
    put(store)
    copies = tmp_path / "left"
    copies.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, copies)
    with closing(SqliteStore(copies / path.name)) as other:
        assert other.get(ORIGIN) == DATA
        check_works(other)


def test_on_a_full_disk_entries_can_be_read_and_writing_resumes(
    path: Path, store: SqliteStore
) -> None:
    """When the disk is full, calls raise StoreError, entries can be read, and writing
    resumes when there is space.
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


def test_a_locked_file_can_be_read_and_is_written_once_it_is_free(path: Path) -> None:
    """A process that cannot write in time gets a StoreError, can still read, and
    writes again once the lock is free.
    """
    with closing(SqliteStore(path, timeout=0.01)) as store:
        put(store)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="database is locked"):
                put(store, data=b"after")
            assert store.get(ORIGIN) == DATA
        check_works(store)


# The time of entries.


def test_entries_whose_time_is_over_are_removed(path: Path) -> None:
    """Entries whose time is over are removed, a bounded number at once."""
    with closing(SqliteStore(path)) as store:
        for number in range(1400):
            put(store, f"http://{number}.example")
        sql(path, "UPDATE entries SET until = 1800000")
    with closing(SqliteStore(path)) as store:
        for rest in (900, 400, 0):
            put(store)
            assert sql(path, "SELECT count(*) FROM entries") == rest + 1
            for _ in range(99):
                put(store)
        assert store.get(ORIGIN) == DATA


# The file.


def test_entries_are_kept_and_no_other_file_is_left(path: Path) -> None:
    """An empty file is used like a missing one. Entries are there when the file is opened again, and
    no other file is left. While it is open, readers do not wait for the writer.
    """
    path.touch()
    with closing(SqliteStore(path)) as store:
        put(store)
        assert sql(path, "PRAGMA journal_mode") == "wal"
    assert [file.name for file in path.parent.iterdir()] == ["robots.db"]
    with closing(SqliteStore(path)) as store:
        assert store.get(ORIGIN) == DATA


def test_a_folder_that_cannot_be_made_is_a_store_error(path: Path) -> None:
    """A folder that cannot be made is a StoreError with its path, until it can be."""
    path.write_text("a file")
    with closing(SqliteStore(path / "robots.db")) as store:
        with pytest.raises(StoreError) as raised:
            store.get(ORIGIN)
        assert str(raised.value).startswith(f"{path / 'robots.db'}: ")
        path.unlink()
        check_works(store)


def test_a_file_that_is_removed_while_open_is_created_again(
    path: Path, store: SqliteStore
) -> None:
    """SQLite would go on writing to a file that was deleted while it is open. Instead the call
    fails, and the next one creates the file again.
    """
    put(store)
    path.unlink()
    with pytest.raises(StoreError, match="the file was moved or removed"):
        store.get(ORIGIN)
    assert store.get(ORIGIN) is None
    check_works(store)
    with closing(SqliteStore(path)) as other:
        assert other.get(ORIGIN) == b"after"


def test_an_origin_that_cannot_be_encoded_is_a_store_error(store: SqliteStore) -> None:
    """An origin that cannot be encoded is a StoreError."""
    with pytest.raises(StoreError, match="surrogates not allowed"):
        put(store, "http://\udc80")


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("damage", [b"\xa5" * 5000, None], ids=["changed", "cut"])
def test_a_damaged_file_raises_nothing_but_store_error(
    path: Path, store: SqliteStore, tenth: int, damage: bytes | None
) -> None:
    """A call on a damaged or truncated file raises nothing but StoreError. What is read is a whole
    entry.
    """
    for number in range(100):
        put(store, f"http://{number}.example")
    store.close()
    whole = path.read_bytes()
    at = len(whole) * tenth // 10
    rest = b"" if damage is None else damage + whole[at + 5000 :]
    path.write_bytes(whole[:at] + rest)
    with closing(SqliteStore(path)) as damaged:
        for key in ("http://0.example", "http://50.example"):
            with suppress(StoreError):
                assert damaged.get(key) in {None, DATA}
            with suppress(StoreError):
                put(damaged, key)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (f"zeroblob({MAX_SIZE})", bytes(MAX_SIZE)),
        (f"zeroblob({50 * MAX_SIZE})", "too long"),
        ("NULL", "too long"),  # It has no length, and is no entry either.
        ("7", 7),
        ("'text'", "text"),
    ],
    ids=["as long as an entry", "too long", "NULL", "a number", "text"],
)
def test_a_row_of_another_kind_is_replaced_by_the_next_write(
    path: Path, store: SqliteStore, value: str, read: object
) -> None:
    """Data that are too long for an entry are not read. Data of any kind are replaced by the next
    write.
    """
    put(store)
    sql(path, f"UPDATE entries SET data = {value}")
    tracemalloc.start()
    try:
        assert store.get(ORIGIN) == read
        assert tracemalloc.get_traced_memory()[1] < 10 * MAX_SIZE
    finally:
        tracemalloc.stop()
    check_works(store)


# Files of others.

TABLE = "CREATE TABLE entries (precious TEXT)"
OURS = f"PRAGMA application_id = {SCHEMA.application_id}"


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (
            [TABLE, OURS, "PRAGMA user_version = 99"],
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
    """Each call raises StoreError with the reason, and leaves the file unchanged, until it is gone."""
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
