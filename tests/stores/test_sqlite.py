"""The SQLite store: several processes on a file, and damage to the file."""

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
    from pathlib import Path

    from tests.forks import Forked

NUMBERS = count()
DATA = b"data"
UNTIL = 2**33


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "robots.db"


def process(code: str, path: Path, *arguments: object) -> Forked:
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
    return forks.start(command, **pipes, text=True, cwd=path.parent, env=env)


def output(of: Forked) -> list[str]:
    """Return the output of a process that has succeeded."""
    printed, _ = of.communicate(timeout=120)
    assert of.returncode == 0
    return printed.splitlines()


def sql(path: Path, *statements: str) -> Any:
    """Return the first value of the result of the last of *statements*, if it has one."""
    with closing(sqlite3.connect(path)) as connection:
        row = None
        for statement in statements:
            row = connection.execute(statement).fetchone()
        connection.commit()
        return None if row is None else row[0]


class TestProcesses:
    CONTEND = """
print("ready", flush=True)
sys.stdin.readline()
for number in range(40):
    origin = f"http://{number}.example"
    if lock(store, origin, sys.argv[2], 30):
        print(number)
        store.put(origin, sys.argv[2].encode() * 1000, UNTIL, "writer")
"""

    @pytest.mark.slow
    def test_one_of_them_has_each_lock(self, path: Path) -> None:
        """Of processes that start together on a new file, exactly one gets the lock of
        each origin, and all see its entry.
        """
        processes = {name: process(self.CONTEND, path, name) for name in "abcd"}
        for one in processes.values():
            assert one.stdout.readline() == "ready\n"
        for one in processes.values():
            one.stdin.write("\n")
            one.stdin.flush()
        won = {name: output(one) for name, one in processes.items()}
        numbers = [int(number) for one in won.values() for number in one]
        assert sorted(numbers) == list(range(40))
        with closing(SqliteStore(path)) as store:
            for name, numbers in won.items():
                for number in numbers:
                    found = read(store, f"http://{number}.example")
                    assert found == name.encode() * 1000

    WRITE = """
for number in range(int(sys.argv[2]), 1_000_000):
    store.put(f"http://{number}.example", b"%d\\n" % number * 3000, UNTIL, "writer")
    print(number, flush=True)
"""

    @pytest.mark.slow
    def test_killed_while_writing(self, path: Path) -> None:
        """Entries written before a process is killed are intact, and the next one continues."""
        written = 0
        for enough in (1, 7, 20, 30):
            writer = process(self.WRITE, path, written)
            for _ in range(enough):
                assert int(writer.stdout.readline()) == written
                written += 1
            writer.kill()
            written += len(writer.communicate(timeout=120)[0].splitlines())
            with closing(SqliteStore(path)) as store:
                for number in range(written):
                    found = read(store, f"http://{number}.example")
                    assert found == b"%d\n" % number * 3000
        assert sql(path, "PRAGMA integrity_check") == "ok"

    def test_a_file_that_stays_locked(self, path: Path) -> None:
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
            assert lock(store, ORIGIN, "one", 30)
            store.put(ORIGIN, b"after", UNTIL, "writer")
            assert read(store, ORIGIN) == b"after"

    def test_calls_that_wait_for_one_that_waits(self, path: Path) -> None:
        """While the file is locked, the calls that queue behind one another do not each wait for
        the file as long as the first one."""
        count, timeout = 8, 0.5
        with closing(SqliteStore(path, timeout=timeout)) as store:
            store.put(ORIGIN, DATA, UNTIL, "writer")
            ready = threading.Barrier(count)

            def put(_: int) -> str:
                ready.wait(60)
                with pytest.raises(StoreError) as raised:
                    store.put(ORIGIN, b"after", UNTIL, "writer")
                return str(raised.value)

            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                start = time.monotonic()
                with ThreadPoolExecutor(count) as pool:
                    errors = list(pool.map(put, range(count)))
                took = time.monotonic() - start
            assert sum("another call takes too long" in each for each in errors) > 0
            assert sum("is locked" in each for each in errors) > 0
            assert took < count * timeout
            store.put(ORIGIN, b"after", UNTIL, "writer")
            assert read(store, ORIGIN) == b"after"

    def test_a_lock_from_before_the_clock_was_set_back(self, path: Path) -> None:
        """A lock that expires much later than any made now is not waited for."""
        with closing(SqliteStore(path)) as store:
            assert lock(store, ORIGIN, "one", 30)
            assert not lock(store, ORIGIN, "other", 30)
            sql(path, "UPDATE entries SET until = until + 301")
            assert lock(store, ORIGIN, "other", 30)

    def test_a_call_after_closing(self, path: Path) -> None:
        """A thread that was about to call a store as it was closed does not open it again."""
        store = SqliteStore(path)
        store.put(ORIGIN, DATA, UNTIL, "writer")
        store.close()
        with pytest.raises(StoreError, match="it is closed"):
            read(store, ORIGIN)


class TestFile:
    def test_it_is_kept(self, path: Path) -> None:
        """Entries are there when the file is opened again, and no other file is left."""
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, DATA, UNTIL, "writer")
        assert [file.name for file in path.parent.iterdir()] == ["robots.db"]
        with closing(SqliteStore(path)) as store:
            assert read(store, ORIGIN) == DATA

    def test_it_writes_ahead(self, path: Path) -> None:
        """The file is in WAL mode, so readers do not wait for the writer."""
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, DATA, UNTIL, "writer")
        assert sql(path, "PRAGMA journal_mode") == "wal"

    def test_no_folder(self, path: Path) -> None:
        """A folder that cannot be made is a StoreError with its path."""
        path.write_text("a file")
        with closing(SqliteStore(path / "robots.db")) as store:
            with pytest.raises(StoreError) as raised:
                read(store, ORIGIN)
            assert str(raised.value).startswith(f"{path / 'robots.db'}: ")
            path.unlink()
            store.put(ORIGIN, DATA, UNTIL, "writer")
            assert read(store, ORIGIN) == DATA

    def test_removed_while_it_is_open(self, path: Path) -> None:
        """SQLite would go on writing to the deleted file. Instead the call fails, and the
        next one creates the file again.
        """
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, DATA, UNTIL, "writer")
            path.unlink()
            with pytest.raises(StoreError, match="it was moved or removed"):
                read(store, ORIGIN)
            assert read(store, ORIGIN) is None
            store.put(ORIGIN, DATA, UNTIL, "writer")
            with closing(SqliteStore(path)) as other:
                assert read(other, ORIGIN) == DATA

    def test_names_that_are_no_text(self, path: Path) -> None:
        """An origin that cannot be encoded is a StoreError."""
        with (
            closing(SqliteStore(path)) as store,
            pytest.raises(StoreError, match="surrogates not allowed"),
        ):
            store.put("http://\udc80", DATA, UNTIL, "writer")

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
store.put(ORIGIN, b"after", UNTIL, "writer")
assert read(store, ORIGIN) == b"after"
print(failed, message)
"""

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
    def test_no_space(self, path: Path) -> None:
        """When the disk is full, calls raise StoreError, entries can be read, and writing
        resumes when there is space.
        """
        [printed] = output(process(self.FILL, path))
        failed, message = printed.split(" ", 1)
        assert 0 < int(failed) < 200
        assert message.startswith(f"{path}: ")
        assert sql(path, "PRAGMA integrity_check") == "ok"


class TestDamage:
    def calls(self, store: SqliteStore) -> list[object]:
        """Return the result of each call, or its StoreError; other errors are raised."""
        came_to: list[object] = []
        for call in (
            lambda: read(store, ORIGIN),
            lambda: read(store, "http://50.example"),
            lambda: store.put(ORIGIN, b"after", UNTIL, "writer"),
            lambda: lock(store, ORIGIN, "one", 30),
            lambda: store.unlock(ORIGIN, "one"),
        ):
            try:
                came_to.append(call())
            except StoreError:
                came_to.append(StoreError)
        return came_to

    def filled(self, path: Path) -> bytes:
        with closing(SqliteStore(path)) as store:
            for number in range(100):
                store.put(f"http://{number}.example", DATA, UNTIL, "writer")
            store.put(ORIGIN, DATA, UNTIL, "writer")
        return path.read_bytes()

    def test_something_else(self, path: Path) -> None:
        """A file that is no database makes every call raise StoreError, until it is gone."""
        path.write_bytes(b"User-agent: *\n" * 1000)
        with closing(SqliteStore(path)) as store:
            with pytest.raises(StoreError, match=r"robots\.db: file is not a database"):
                read(store, ORIGIN)
            assert self.calls(store) == [StoreError] * 5
            path.unlink()
            assert self.calls(store) == [None, None, None, True, None]

    @pytest.mark.parametrize("tenth", range(10))
    @pytest.mark.parametrize("damage", [b"\xa5" * 5000, None], ids=["changed", "cut"])
    def test_damaged(self, path: Path, tenth: int, damage: bytes | None) -> None:
        """A read of a damaged or truncated file gives a whole entry, none, or a StoreError."""
        whole = self.filled(path)
        at = len(whole) * tenth // 10
        rest = b"" if damage is None else damage + whole[at + 5000 :]
        path.write_bytes(whole[:at] + rest)
        with closing(SqliteStore(path)) as store:
            for answer in self.calls(store)[:2]:
                assert answer in {None, StoreError, DATA}

    def test_a_row_of_any_length(self, path: Path) -> None:
        """Data that are too long for an entry are not read."""
        self.filled(path)
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

    @pytest.mark.parametrize("value", ["NULL", "7", "'text'", "x'00'", "zeroblob(900)"])
    def test_a_damaged_row(self, path: Path, value: str) -> None:
        """A row with other data than bytes is replaced by the next write."""
        self.filled(path)
        sql(path, f"UPDATE entries SET data = {value}")
        with closing(SqliteStore(path)) as store:
            read(store, ORIGIN)
            store.put(ORIGIN, DATA, UNTIL, "writer")
            assert read(store, ORIGIN) == DATA


class TestSchema:
    def test_a_later_version(self, path: Path) -> None:
        """A file of a later version stays unchanged, and the error says so."""
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, DATA, UNTIL, "writer")
        sql(path, f"PRAGMA user_version = {SCHEMA.version + 1}")
        before = path.read_bytes()
        sentence = (
            rf"robots\.db: a later version of scrapy-rep wrote it \(version {SCHEMA.version + 1};"
            rf" this one knows up to {SCHEMA.version}\)"
        )
        with (
            closing(SqliteStore(path)) as store,
            pytest.raises(StoreError, match=sentence),
        ):
            store.put(ORIGIN, b"after", UNTIL, "writer")
        assert path.read_bytes() == before

    def test_an_earlier_version(self, path: Path) -> None:
        """A file of an earlier version is emptied: all its entries can be fetched again."""
        sql(
            path,
            "CREATE TABLE entries (origin TEXT PRIMARY KEY, until REAL, data BLOB)",
            "CREATE INDEX entries_until ON entries (until)",
            "CREATE TABLE locks (origin TEXT PRIMARY KEY, owner TEXT, until REAL)",
            f"INSERT INTO entries VALUES ('{ORIGIN}', {UNTIL}, x'00')",
            f"PRAGMA application_id = {SCHEMA.application_id}",
            "PRAGMA user_version = 1",
        )
        with closing(SqliteStore(path)) as store:
            assert read(store, ORIGIN) is None
            store.put(ORIGIN, DATA, UNTIL, "writer")
            assert read(store, ORIGIN) == DATA
        assert sql(path, "PRAGMA user_version") == SCHEMA.version
        assert sql(path, "SELECT count(*) FROM sqlite_master WHERE type = 'table'") == 1

    def test_another_program(self, path: Path) -> None:
        """The database of another program stays unchanged."""
        sql(path, "CREATE TABLE entries (precious TEXT)")
        before = path.read_bytes()
        with (
            closing(SqliteStore(path)) as store,
            pytest.raises(StoreError, match="it is a database of another program"),
        ):
            store.put(ORIGIN, DATA, UNTIL, "writer")
        assert path.read_bytes() == before

    def test_an_empty_file(self, path: Path) -> None:
        """An empty file is used like a missing one."""
        path.touch()
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, DATA, UNTIL, "writer")
            assert read(store, ORIGIN) == DATA


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
