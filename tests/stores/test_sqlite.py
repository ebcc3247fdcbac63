"""The SQLite store: several processes on a file, a file that fails, and files of others."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.entries import MAX_SIZE
from scrapy_rep.stores.sqlite import SCHEMA, SqliteStore
from scrapy_rep.stores.testing import lock, read
from tests import forks
from tests.stores.places import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


NUMBERS = count()
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


@pytest.fixture
def filled(path: Path) -> bytes:
    """The content of a file with a hundred entries, and one of ORIGIN."""
    with closing(SqliteStore(path)) as store:
        for number in range(100):
            store.put(f"http://{number}.example", DATA, UNTIL, "writer")
        store.put(ORIGIN, DATA, UNTIL, "writer")
    return path.read_bytes()


def sql(path: Path, *statements: str) -> Any:
    """Return the first value of the result of the last of *statements*, if it has one."""
    with closing(sqlite3.connect(path)) as connection:
        row = None
        for statement in statements:
            row = connection.execute(statement).fetchone()
        connection.commit()
        return None if row is None else row[0]


def check_works(store: SqliteStore) -> None:
    """Check that *store* keeps data and locks."""
    store.put(ORIGIN, b"after", UNTIL, "writer")
    assert read(store, ORIGIN) == b"after"
    assert lock(store, ORIGIN, "one", 30)


# A process that is killed, or cannot write.


def process(code: str, path: Path, *arguments: object) -> forks.Popen:
    prelude = (
        "import sys\n"
        "from tests.stores.test_sqlite import *\n"
        "from scrapy_rep.exceptions import StoreError\n"
        "store = SqliteStore(sys.argv[1])\n"
    )
    # A name of its own, so that no other process reads it while it is written.
    module = f"its_module_{next(NUMBERS)}"
    (path.parent / f"{module}.py").write_text(prelude + code)
    # Other tests measure the coverage of this code in this process.
    env = {name: value for name, value in os.environ.items() if "COV" not in name}
    command = [module, *map(str, [path, *arguments])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return forks.Popen(command, **pipes, text=True, cwd=path.parent, env=env)


def output(of: forks.Popen) -> list[str]:
    """Return the output of a process that has succeeded."""
    printed, _ = of.communicate(timeout=120)
    assert of.returncode == 0
    return printed.splitlines()


WRITE = """
for number in range(int(sys.argv[2]), 1_000_000):
    store.put(f"http://{number}.example", b"%d\\n" % number * 3000, UNTIL, "writer")
    print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_while_writing(path: Path) -> None:
    """Entries written before a process is killed are intact, and the next one continues."""
    written = 0
    for enough in (1, 7, 20, 30):
        with process(WRITE, path, written) as writer:
            for _ in range(enough):
                assert int(writer.stdout.readline()) == written
                written += 1
            writer.kill()
            # Not ``communicate``, which forgets what ``readline`` has read ahead.
            written += len(writer.stdout.readlines())
        with closing(SqliteStore(path)) as store:
            for number in range(written):
                found = read(store, f"http://{number}.example")
                assert found == b"%d\n" % number * 3000
    assert sql(path, "PRAGMA integrity_check") == "ok"


FILL = """
import resource
store.put(ORIGIN, DATA, UNTIL, "writer")
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
failed = 0
for number in range(200):
    body = b"".join(b"%d" % (line ** 3 * number) for line in range(1000))
    try:
        store.put(f"http://{number}.example", body, UNTIL, "writer")
    except StoreError as error:
        failed += 1
        message = str(error)
assert read(store, ORIGIN) == DATA
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
check_works(store)
print(failed, message)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_no_space(path: Path) -> None:
    """When the disk is full, calls raise StoreError, entries can be read, and writing
    resumes when there is space.
    """
    [printed] = output(process(FILL, path))
    failed, message = printed.split(" ", 1)
    assert 0 < int(failed) < 200
    assert message.startswith(f"{path}: ")
    assert sql(path, "PRAGMA integrity_check") == "ok"


def test_a_file_that_stays_locked(path: Path) -> None:
    """A process that cannot write in time gets a StoreError, can still read, and
    writes again once the lock is free.
    """
    with closing(SqliteStore(path, timeout=0.01)) as store:
        store.put(ORIGIN, DATA, UNTIL, "writer")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="database is locked"):
                store.put(ORIGIN, b"after", UNTIL, "writer")
            with pytest.raises(StoreError, match="database is locked"):
                lock(store, ORIGIN, "one", 30)
            assert read(store, ORIGIN) == DATA
        check_works(store)


def test_calls_that_wait_for_one_that_waits(path: Path) -> None:
    """While the file is locked, the calls that queue behind one another do not each wait for
    the file as long as the first one."""
    calls, timeout = 8, 0.5
    with closing(SqliteStore(path, timeout=timeout)) as store:
        store.put(ORIGIN, DATA, UNTIL, "writer")
        ready = threading.Barrier(calls)

        def put(_: int) -> str:
            ready.wait(60)
            with pytest.raises(StoreError) as raised:
                store.put(ORIGIN, b"after", UNTIL, "writer")
            return str(raised.value)

        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            start = time.monotonic()
            with ThreadPoolExecutor(calls) as pool:
                errors = list(pool.map(put, range(calls)))
            took = time.monotonic() - start
        assert sum("another call takes too long" in each for each in errors) > 0
        assert sum("is locked" in each for each in errors) > 0
        assert took < calls * timeout
        check_works(store)


# The time of entries and locks.


def test_a_lock_from_before_the_clock_was_set_back(
    path: Path, store: SqliteStore
) -> None:
    """A lock that expires much later than any made now is not waited for."""
    assert lock(store, ORIGIN, "one", 30)
    sql(path, "UPDATE entries SET until = until + 301")
    assert lock(store, ORIGIN, "other", 30)


def test_what_is_out_of_use_goes(path: Path) -> None:
    """Entries and locks whose time is over are removed, a bounded number at once."""
    with closing(SqliteStore(path)) as store:
        for number in range(700):
            store.put(f"http://{number}.example", DATA, UNTIL, "writer")
            lock(store, f"http://{number}.example", "dead", 30)
        sql(path, "UPDATE entries SET until = 1800000")
    with closing(SqliteStore(path)) as store:
        for left in (900, 400, 0):
            store.put(ORIGIN, DATA, UNTIL, "writer")
            assert sql(path, "SELECT count(*) FROM entries") == left + 1
            for _ in range(99):
                store.put(ORIGIN, DATA, UNTIL, "writer")
        assert read(store, ORIGIN) == DATA


# The file.


def test_it_is_kept(path: Path) -> None:
    """Entries are there when the file is opened again, and no other file is left. While it is open,
    readers do not wait for the writer. A call after closing does not open it again.
    """
    with closing(SqliteStore(path)) as store:
        store.put(ORIGIN, DATA, UNTIL, "writer")
        assert sql(path, "PRAGMA journal_mode") == "wal"
    with pytest.raises(StoreError, match="it is closed"):
        read(store, ORIGIN)
    assert [file.name for file in path.parent.iterdir()] == ["robots.db"]
    with closing(SqliteStore(path)) as store:
        assert read(store, ORIGIN) == DATA


def test_no_folder(path: Path) -> None:
    """A folder that cannot be made is a StoreError with its path, until it can be."""
    path.write_text("a file")
    with closing(SqliteStore(path / "robots.db")) as store:
        with pytest.raises(StoreError) as raised:
            read(store, ORIGIN)
        assert str(raised.value).startswith(f"{path / 'robots.db'}: ")
        path.unlink()
        check_works(store)


def test_removed_while_it_is_open(path: Path, store: SqliteStore) -> None:
    """SQLite would go on writing to the deleted file. Instead the call fails, and the
    next one creates the file again.
    """
    store.put(ORIGIN, DATA, UNTIL, "writer")
    path.unlink()
    with pytest.raises(StoreError, match="it was moved or removed"):
        read(store, ORIGIN)
    assert read(store, ORIGIN) is None
    check_works(store)
    with closing(SqliteStore(path)) as other:
        assert read(other, ORIGIN) == b"after"


def test_names_that_are_no_text(store: SqliteStore) -> None:
    """An origin that cannot be encoded is a StoreError."""
    with pytest.raises(StoreError, match="surrogates not allowed"):
        store.put("http://\udc80", DATA, UNTIL, "writer")


def results(store: SqliteStore) -> list[object]:
    """Return the result of each call, or its StoreError; other errors are raised."""
    found: list[object] = []
    for call in (
        lambda: read(store, ORIGIN),
        lambda: read(store, "http://50.example"),
        lambda: store.put(ORIGIN, b"after", UNTIL, "writer"),
        lambda: lock(store, ORIGIN, "one", 30),
        lambda: store.unlock(ORIGIN, "one"),
    ):
        try:
            found.append(call())
        except StoreError:
            found.append(StoreError)
    return found


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("damage", [b"\xa5" * 5000, None], ids=["changed", "cut"])
def test_damaged(
    path: Path, store: SqliteStore, filled: bytes, tenth: int, damage: bytes | None
) -> None:
    """A read of a damaged or truncated file gives a whole entry, none, or a StoreError."""
    at = len(filled) * tenth // 10
    rest = b"" if damage is None else damage + filled[at + 5000 :]
    path.write_bytes(filled[:at] + rest)
    for answer in results(store)[:2]:
        assert answer in {None, StoreError, DATA}


@pytest.mark.usefixtures("filled")
def test_a_row_of_any_length(path: Path) -> None:
    """Data that are too long for an entry are not read."""
    for length, found in ((MAX_SIZE, bytes(MAX_SIZE)), (50 * MAX_SIZE, "too long")):
        sql(
            path,
            f"UPDATE entries SET data = zeroblob({length}) WHERE key = '{ORIGIN}'",
        )
        tracemalloc.start()
        try:
            with closing(SqliteStore(path)) as store:
                assert read(store, ORIGIN) == found
            assert tracemalloc.get_traced_memory()[1] < 10 * MAX_SIZE
        finally:
            tracemalloc.stop()


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("value", ["NULL", "7", "'text'", "zeroblob(900)"])
def test_a_damaged_row(path: Path, store: SqliteStore, value: str) -> None:
    """A row with other data than bytes is replaced by the next write."""
    sql(path, f"UPDATE entries SET data = {value}")
    read(store, ORIGIN)
    check_works(store)


# Files of others.


TABLE = "CREATE TABLE entries (precious TEXT)"
OURS = f"PRAGMA application_id = {SCHEMA.application_id}"


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (
            [TABLE, OURS, "PRAGMA user_version = 99"],
            rf"a later version of scrapy-rep wrote it \(version 99; .* {SCHEMA.version}\)",
        ),
        ([TABLE], "it is a database of another program"),
        ([], "file is not a database"),
    ],
    ids=["a later version", "another program", "no database"],
)
def test_a_file_of_others(
    path: Path, store: SqliteStore, statements: list[str], error: str
) -> None:
    """Each call raises StoreError with the reason, and leaves the file unchanged, until it is gone."""
    if statements:
        sql(path, *statements)
    else:
        path.write_bytes(b"User-agent: *\n" * 1000)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=rf"robots\.db: {error}"):
        store.put(ORIGIN, DATA, UNTIL, "writer")
    assert results(store) == [StoreError] * 5
    assert path.read_bytes() == before
    path.unlink()
    assert results(store) == [None, None, None, True, None]


def test_an_earlier_version(path: Path, store: SqliteStore) -> None:
    """A file of an earlier version is emptied: all its entries can be fetched again."""
    sql(
        path,
        "CREATE TABLE entries (origin TEXT PRIMARY KEY, until REAL, data BLOB)",
        "CREATE INDEX entries_until ON entries (until)",
        "CREATE TABLE locks (origin TEXT PRIMARY KEY, owner TEXT, until REAL)",
        f"INSERT INTO entries VALUES ('{ORIGIN}', {UNTIL}, x'00')",
        OURS,
        "PRAGMA user_version = 1",
    )
    assert read(store, ORIGIN) is None
    check_works(store)
    assert sql(path, "PRAGMA user_version") == SCHEMA.version
    assert sql(path, "SELECT count(*) FROM sqlite_master WHERE type = 'table'") == 1


def test_an_empty_file(path: Path, store: SqliteStore) -> None:
    """An empty file is used like a missing one."""
    path.touch()
    check_works(store)
