"""The SQLite store: several processes on a file, and damage to the file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.base import KEEP
from scrapy_rep.stores.sqlite import SCHEMA, SqliteStore
from tests import forks
from tests.stores.places import DAY, ORIGIN, START, entry

if TYPE_CHECKING:
    from pathlib import Path

    from tests.forks import Forked

NUMBERS = count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "robots.db"


def process(code: str, path: Path, *arguments: object) -> Forked:
    prelude = (
        "import sys\n"
        "from tests.stores.places import *\n"
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
    if store.lock(origin, sys.argv[2], 30, START):
        print(number)
        store.put(origin, entry(sys.argv[2].encode() * 1000), START)
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
                    found = store.get(f"http://{number}.example", START)
                    assert found == entry(name.encode() * 1000)

    WRITE = """
for number in range(int(sys.argv[2]), 1_000_000):
    store.put(f"http://{number}.example", entry(b"%d\\n" % number * 3000), START)
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
                    found = store.get(f"http://{number}.example", START)
                    assert found == entry(b"%d\n" % number * 3000)
        assert sql(path, "PRAGMA integrity_check") == "ok"

    def test_killed_with_the_lock(self, path: Path) -> None:
        """The lock of a killed process expires."""
        code = "print(store.lock(ORIGIN, 'dead', 30, START), flush=True); input()"
        owner = process(code, path)
        assert owner.stdout.readline() == "True\n"
        owner.kill()
        owner.communicate(timeout=120)
        with closing(SqliteStore(path)) as store:
            assert not store.lock(ORIGIN, "next", 30, START + 29)
            assert store.lock(ORIGIN, "next", 30, START + 30)

    def test_a_file_that_stays_locked(self, path: Path) -> None:
        """A process that cannot write in time gets a StoreError, can still read, and
        writes again once the lock is free.
        """
        with closing(SqliteStore(path, timeout=0.01)) as store:
            store.put(ORIGIN, entry(), START)
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreError, match="database is locked"):
                    store.put(ORIGIN, entry(b"after"), START)
                with pytest.raises(StoreError, match="database is locked"):
                    store.lock(ORIGIN, "one", 30, START)
                assert store.get(ORIGIN, START) == entry()
            assert store.lock(ORIGIN, "one", 30, START)
            store.put(ORIGIN, entry(b"after"), START)
            assert store.get(ORIGIN, START) == entry(b"after")

    def test_calls_that_wait_for_one_that_fails(self, path: Path) -> None:
        """While the file is locked, one call waits for the timeout, and the calls that queue
        behind it fail at the same time instead of waiting again.
        """
        count, timeout = 4, 0.5
        with closing(SqliteStore(path, timeout=timeout)) as store:
            store.put(ORIGIN, entry(), START)
            ready = threading.Barrier(count)

            def put(_: int) -> str:
                ready.wait(60)
                with pytest.raises(StoreError) as raised:
                    store.put(ORIGIN, entry(b"after"), START)
                return str(raised.value)

            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                start = time.monotonic()
                with ThreadPoolExecutor(count) as pool:
                    errors = list(pool.map(put, range(count)))
                took = time.monotonic() - start
            assert sum("another call has just failed" in each for each in errors) > 0
            assert sum("is locked" in each for each in errors) > 0
            assert took < count * timeout
            store.put(ORIGIN, entry(b"after"), START)
            assert store.get(ORIGIN, START) == entry(b"after")


class TestFile:
    def test_it_is_kept(self, path: Path) -> None:
        """Entries are there when the file is opened again, and no other file is left."""
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, entry(), START)
        assert [file.name for file in path.parent.iterdir()] == ["robots.db"]
        with closing(SqliteStore(path)) as store:
            assert store.get(ORIGIN, START) == entry()

    def test_it_writes_ahead(self, path: Path) -> None:
        """The file is in WAL mode, so readers do not wait for the writer."""
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, entry(), START)
        assert sql(path, "PRAGMA journal_mode") == "wal"

    def test_no_folder(self, path: Path) -> None:
        """A folder that cannot be made is a StoreError with its path."""
        path.write_text("a file")
        with closing(SqliteStore(path / "robots.db")) as store:
            with pytest.raises(StoreError) as raised:
                store.get(ORIGIN, START)
            assert str(raised.value).startswith(f"{path / 'robots.db'}: ")
            path.unlink()
            store.put(ORIGIN, entry(), START)
            assert store.get(ORIGIN, START) == entry()

    def test_removed_while_it_is_open(self, path: Path) -> None:
        """SQLite would go on writing to the deleted file. Instead the call fails, and the
        next one creates the file again.
        """
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, entry(), START)
            path.unlink()
            with pytest.raises(StoreError, match="it was moved or removed"):
                store.get(ORIGIN, START)
            assert store.get(ORIGIN, START) is None
            store.put(ORIGIN, entry(), START)
            with closing(SqliteStore(path)) as other:
                assert other.get(ORIGIN, START) == entry()

    def test_names_that_are_no_text(self, path: Path) -> None:
        """An origin that cannot be encoded is a StoreError."""
        with (
            closing(SqliteStore(path)) as store,
            pytest.raises(StoreError, match="surrogates not allowed"),
        ):
            store.put("http://\udc80", entry(), START)

    FILL = """
import resource
store.put(ORIGIN, entry(), START)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
failed = 0
for number in range(200):
    body = b"".join(b"%d" % (line ** 3 * number) for line in range(1000))
    try:
        store.put(f"http://{number}.example", entry(body), START)
    except StoreError as error:
        failed += 1
        message = str(error)
assert store.get(ORIGIN, START) == entry()
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.put(ORIGIN, entry(b"after"), START)
assert store.get(ORIGIN, START) == entry(b"after")
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
            lambda: store.get(ORIGIN, START),
            lambda: store.get("http://50.example", START),
            lambda: store.put(ORIGIN, entry(b"after"), START),
            lambda: store.lock(ORIGIN, "one", 30, START),
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
                store.put(f"http://{number}.example", entry(), START)
            store.put(ORIGIN, entry(), START)
        return path.read_bytes()

    def test_something_else(self, path: Path) -> None:
        """A file that is no database makes every call raise StoreError, until it is gone."""
        path.write_bytes(b"User-agent: *\n" * 1000)
        with closing(SqliteStore(path)) as store:
            with pytest.raises(StoreError, match=r"robots\.db: file is not a database"):
                store.get(ORIGIN, START)
            assert self.calls(store) == [StoreError] * 5
            path.unlink()
            assert self.calls(store) == [None, None, None, True, None]

    @pytest.mark.parametrize("tenth", range(10))
    def test_damaged(self, path: Path, tenth: int) -> None:
        """A read of a damaged file gives a whole entry, none, or a StoreError."""
        whole = self.filled(path)
        at = len(whole) * tenth // 10
        path.write_bytes(whole[:at] + b"\xa5" * 5000 + whole[at + 5000 :])
        with closing(SqliteStore(path)) as store:
            for answer in self.calls(store)[:2]:
                assert answer in {None, StoreError, entry()}

    @pytest.mark.parametrize("tenth", range(1, 10))
    def test_cut_off(self, path: Path, tenth: int) -> None:
        """A read of a truncated file gives a whole entry, none, or a StoreError."""
        whole = self.filled(path)
        path.write_bytes(whole[: len(whole) * tenth // 10])
        with closing(SqliteStore(path)) as store:
            for answer in self.calls(store)[:2]:
                assert answer in {None, StoreError, entry()}

    @pytest.mark.parametrize("value", ["NULL", "7", "'text'", "x'00'", "zeroblob(900)"])
    def test_a_damaged_row(self, path: Path, value: str) -> None:
        """An invalid row is ignored, and replaced by the next write."""
        self.filled(path)
        sql(path, f"UPDATE entries SET data = {value}")
        with closing(SqliteStore(path)) as store:
            assert store.get(ORIGIN, START) is None
            store.put(ORIGIN, entry(), START)
            assert store.get(ORIGIN, START) == entry()


class TestSchema:
    def test_a_later_version(self, path: Path) -> None:
        """A file of a later version stays unchanged, and the error says so."""
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, entry(), START)
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
            store.put(ORIGIN, entry(b"after"), START)
        assert path.read_bytes() == before

    def test_an_earlier_version(self, path: Path) -> None:
        """A file of an earlier version is emptied: all its entries can be fetched again."""
        sql(
            path,
            "CREATE TABLE entries (host TEXT, body BLOB)",
            f"PRAGMA application_id = {SCHEMA.application_id}",
        )
        with closing(SqliteStore(path)) as store:
            assert store.get(ORIGIN, START) is None
            store.put(ORIGIN, entry(), START)
            assert store.get(ORIGIN, START) == entry()
        assert sql(path, "PRAGMA user_version") == SCHEMA.version

    def test_another_program(self, path: Path) -> None:
        """The database of another program stays unchanged."""
        sql(path, "CREATE TABLE entries (precious TEXT)")
        before = path.read_bytes()
        with (
            closing(SqliteStore(path)) as store,
            pytest.raises(StoreError, match="it is a database of another program"),
        ):
            store.put(ORIGIN, entry(), START)
        assert path.read_bytes() == before

    def test_an_empty_file(self, path: Path) -> None:
        """An empty file is used like a missing one."""
        path.touch()
        with closing(SqliteStore(path)) as store:
            store.put(ORIGIN, entry(), START)
            assert store.get(ORIGIN, START) == entry()


class TestSweep:
    def rows(self, path: Path, table: str) -> int:
        return int(sql(path, f"SELECT count(*) FROM {table}"))

    def test_what_is_out_of_use_goes(self, path: Path) -> None:
        """Unusable entries are removed after some time, a bounded number at once."""
        later = START + DAY + KEEP
        with closing(SqliteStore(path)) as store:
            for number in range(700):
                store.put(f"http://{number}.example", entry(), START)
            store.put(ORIGIN, entry(expires=later), START)
        with closing(SqliteStore(path)) as store:
            store.put("http://new.example", entry(expires=later), later)
            assert self.rows(path, "entries") == 202
            for _ in range(100):
                store.put("http://new.example", entry(expires=later), later)
            assert self.rows(path, "entries") == 2
            assert store.get(ORIGIN, later) == entry(expires=later)

    def test_locks_go(self, path: Path) -> None:
        """Expired locks are removed too."""
        with closing(SqliteStore(path)) as store:
            for number in range(10):
                store.lock(f"http://{number}.example", "dead", 30, START)
            store.lock(ORIGIN, "alive", 30, START + 30)
            store.put(ORIGIN, entry(), START + 30)
            assert self.rows(path, "locks") == 1
            assert not store.lock(ORIGIN, "other", 30, START + 30)
