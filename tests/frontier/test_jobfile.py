"""Tests of :class:`JobFile`, the file of a ``JOBDIR``: it keeps all committed changes, in order, even if the process is
killed or the file is damaged.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_rep.crawl.frontier.jobfile import JobFile
from scrapy_rep.crawl.frontier.jobs import JobRequests
from scrapy_rep.crawl.frontier.queues import RequestOrder
from scrapy_rep.exceptions import JobError
from tests.crawl.disks import full_disk

pytestmark = pytest.mark.newest

HOSTS = "ab"

# The prefix of the names of requests that cannot be written.
UNWRITABLE = b"lambda"


class StoredRequest(NamedTuple):
    """A request in the model. Requests in the file are popped in descending order of these fields."""

    was_in_flight: bool
    rank: int
    order_in_rank: int
    name: bytes

    @property
    def is_unwritable(self) -> bool:
        return self.name.startswith(UNWRITABLE)


class Position(NamedTuple):
    """The position of a waiting request in its queue. Requests are popped in descending order of these fields: returned
    requests before all others, in the order of their return, then requests in memory, then requests in the file.
    """

    is_returned: bool
    minus_returns: int
    is_in_memory: bool
    request: StoredRequest


def position_of(request: StoredRequest) -> Position:
    """Return the position of *request* in its queue until it is popped for the first time in this run."""
    return Position(False, 0, request.is_unwritable, request)


class PushedRequest(NamedTuple):
    """A request as the test pushes it. When it is popped from the file, only its name is left."""

    name: bytes
    rank: int = 0


class RankOrder(RequestOrder):
    """Sorts :class:`PushedRequest` objects by rank. Among requests of rank 0, and among those of rank 1, the newest one
    is first. In all other ranks, the oldest one is first.
    """

    def __init__(self) -> None:
        self._next_number = count().__next__

    def of(self, request: Any) -> tuple[int, bool]:
        # The second value says whether the newest request of the rank is first. It must be the same for the whole rank.
        return request.rank, request.rank in {0, 1}


class FakeStore:
    """A fake of :class:`JobStore` for requests of the class :class:`PushedRequest`. It has the attributes that
    :class:`JobRequests` uses.
    """

    def __init__(self, file: JobFile) -> None:
        self.file, self.is_open = file, True
        self.in_flight: dict[bytes, int] = {}
        self.order = self.memory_order = RankOrder()

    def written(self, request: PushedRequest) -> bytes:
        if request.name.startswith(UNWRITABLE):
            raise ValueError
        return request.name

    def read(self, data: bytes | None) -> bytes:
        if data is None:
            raise ValueError
        return data

    def is_counted(self, request: PushedRequest) -> bool:
        return False

    def stop(self, error: JobError) -> None:
        raise error

    def note_unreadable(self, error: Exception) -> None:
        assert isinstance(error, ValueError)

    def note_change(self) -> None:
        """Schedule no write, because the test calls :meth:`JobFile.commit` itself."""


def requests_of(
    file: JobFile, host: str, count: int = 0, job: FakeStore | None = None
) -> JobRequests:
    """Return the requests of *host*. The file contains *count* of them from an earlier run."""
    store: Any = job or FakeStore(file)
    return JobRequests(store, host, count)


class JobFileMachine(RuleBasedStateMachine):
    """Random operations on a file. The file is compared with a model, which has the waiting requests of each host now
    (``waiting``) and as of the last commit (``committed``).
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name, "requests.sqlite")
        self.waiting: dict[str, list[Position]] = {host: [] for host in HOSTS}
        self.in_flight: list[tuple[str, StoredRequest]] = []
        """The popped requests that are not done, each with its host."""

        self.seen: set[int] = set()
        """The fingerprints of seen requests."""

        self.count = self.returns = 0
        self.open()
        self.note_commit()

    def open(self) -> None:
        """Open the file as the next run does."""
        self.file = JobFile(self.path)
        self.job = FakeStore(self.file)
        counts = dict(self.file.hosts())
        self.queues = {
            host: requests_of(self.file, host, counts.get(host, 0), self.job)
            for host in HOSTS
        }

    def note_commit(self) -> None:
        """Record in the model what the next run would find after a kill."""
        self.committed: dict[str, list[StoredRequest]] = {}
        for host in HOSTS:
            # The next run first pops the requests that this run has popped but not finished.
            popped = [
                request
                for request_host, request in self.in_flight
                if request_host == host
            ]
            popped += [
                position.request
                for position in self.waiting[host]
                if position.is_returned
            ]
            requests = [
                position.request
                for position in self.waiting[host]
                if not position.is_returned
            ] + [request._replace(was_in_flight=True, rank=0) for request in popped]
            self.committed[host] = [
                request for request in requests if not request.is_unwritable
            ]
        self.committed_seen = set(self.seen)

    @rule(
        host=st.sampled_from(HOSTS),
        rank=st.one_of(st.integers(-2, 2), st.just(2**62), st.just(-(2**62))),
        is_new=st.booleans(),
        is_unwritable=st.integers(0, 3).map(lambda number: number == 3),
    )
    def add(self, host: str, rank: int, is_new: bool, is_unwritable: bool) -> None:
        self.count += 1
        name = (UNWRITABLE if is_unwritable else b"request") + b" %d" % self.count
        order_in_rank = self.count if rank in {0, 1} else -self.count
        self.waiting[host].append(
            position_of(StoredRequest(False, rank, order_in_rank, name))
        )
        error = self.queues[host].push(PushedRequest(name, rank))
        assert (error is not None) == is_unwritable
        if is_new and not is_unwritable:
            self.file.add_seen(self.count)
            self.seen.add(self.count)

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data(), forgets_host=st.booleans())
    def pop(self, data: st.DataObject, forgets_host: bool) -> None:
        host = data.draw(
            st.sampled_from([name for name in HOSTS if self.waiting[name]])
        )
        first = max(self.waiting[host])
        popped: Any = self.queues[host].pop()
        assert getattr(popped, "name", popped) == first.request.name
        medium = "memory" if first.request.is_unwritable else "disk"
        assert self.queues[host].medium_of(popped) == medium
        self.waiting[host].remove(first)
        self.in_flight.append((host, first.request))
        if forgets_host and not self.waiting[host]:
            # The queue of a host without requests is deleted, and created again for new requests.
            self.queues[host] = requests_of(self.file, host, job=self.job)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        """End the callback of a request in flight."""
        _, request = self.in_flight.pop(
            data.draw(st.integers(0, len(self.in_flight) - 1))
        )
        if not request.is_unwritable:
            self.file.done(self.job.in_flight.pop(request.name))

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def return_to_queue(self, data: st.DataObject) -> None:
        """Put a request in flight back into its queue."""
        host, request = self.in_flight.pop(
            data.draw(st.integers(0, len(self.in_flight) - 1))
        )
        self.returns += 1
        self.waiting[host].append(
            Position(True, -self.returns, request.is_unwritable, request)
        )
        returned: Any = request.name
        self.queues[host].back(returned)

    @rule()
    def commit(self) -> None:
        assert self.file.commit() is None
        assert self.file.waiting == 0
        self.note_commit()

    @rule()
    def commit_on_a_full_disk(self) -> None:
        with full_disk():
            if self.file.commit() is None:
                self.note_commit()

    @rule()
    def kill(self) -> None:
        self.file._opened.close()
        self.waiting = {
            host: [position_of(request) for request in self.committed[host]]
            for host in HOSTS
        }
        self.seen = set(self.committed_seen)
        self.in_flight = []
        self.open()
        self.note_commit()

    @invariant()
    def queues_count_all_waiting_requests(self) -> None:
        for host in HOSTS:
            assert self.queues[host].count == len(self.waiting[host])

    def teardown(self) -> None:
        assert self.file.seen() <= self.seen
        self.kill()
        assert self.file.seen() == self.seen
        for host, queue in self.queues.items():
            names = [queue.pop() for _ in range(queue.count)]
            assert names == [
                position.request.name for position in sorted(self.waiting[host])[::-1]
            ]
        self.file.close()
        self.folder.cleanup()


TestJobFile = JobFileMachine.TestCase


def make_file(folder: Path, count: int = 100) -> Path:
    """Write a file with *count* requests, which have about the size of real requests, and return its path."""
    path = folder / "requests.sqlite"
    file = JobFile(path)
    for number in range(count):
        requests_of(file, f"host {number % 7}").push(
            PushedRequest(b"%d " % number * 100)
        )
    fingerprints = {-(2**63), -1, 0, 2**63 - 1}
    for number in fingerprints:
        file.add_seen(number)
    assert file.commit() is None
    assert file.seen() == fingerprints
    file.close()
    return path


def pop_all(path: Path) -> list[bytes | None]:
    """Pop all requests of the file, mark them as done, and return them. An unreadable request is None."""
    file = JobFile(path)
    job, popped = FakeStore(file), []
    try:
        for host, count in file.hosts():
            queue = requests_of(file, host, count, job)
            popped += [queue.pop() for _ in range(count)]
        for number in job.in_flight.values():
            file.done(number)
        file.commit()
        return popped
    finally:
        file.close()


def test_a_damaged_file_is_refused_or_has_all_requests(tmp_path: Path) -> None:
    """Each damaged copy of the file is cut off at one position, or has 64 random bytes there. If the copy is not
    refused, all its requests are popped: unchanged, or as None if a request cannot be read. An empty copy counts as a
    new file.
    """
    path = make_file(tmp_path)
    whole, refused = path.read_bytes(), []
    for offset in range(0, len(whole), 1531):
        head, tail = whole[:offset], whole[offset + 64 :]
        for damaged in (head, head + os.urandom(64) + tail):
            path.write_bytes(damaged)
            try:
                popped = pop_all(path)
            except JobError as error:
                refused.append(str(error))
            else:
                assert len(popped) in {0, 100}
                assert set(popped) <= {None, *(b"%d " % n * 100 for n in range(100))}
    assert len(refused) > 40
    for message in refused:
        assert "requests.sqlite cannot be used" in message
        assert "Nothing was deleted" in message


def test_a_file_with_a_broken_index_is_refused_or_has_all_requests(
    tmp_path: Path,
) -> None:
    """A page of the index has lost its last entry."""
    path = make_file(tmp_path)
    whole, refused = path.read_bytes(), 0
    size = int.from_bytes(whole[16:18], "big")
    for page in range(size, len(whole), size):
        # In pages of an index, bytes 3 and 4 contain the number of entries.
        if whole[page] in {2, 10} and whole[page + 4]:
            damaged = bytearray(whole)
            damaged[page + 4] -= 1
            path.write_bytes(damaged)
            try:
                assert len(pop_all(path)) == 100
            except JobError:
                refused += 1
    assert refused


def test_a_file_with_rows_in_disorder_is_refused(tmp_path: Path) -> None:
    """In one page of the file, two rows were swapped. SQLite might find neither of them, because it searches for rows
    by their numbers.
    """
    path = make_file(tmp_path)
    whole = path.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    # In pages of a table, byte 0 contains the kind of page, bytes 3 and 4 contain the number of rows, and the offsets
    # of the rows begin at byte 8.
    pages = [
        page
        for page in range(size, len(whole), size)
        if whole[page] == 13 and int.from_bytes(whole[page + 3 : page + 5], "big") > 1
    ]
    assert pages
    for page in pages:
        damaged = bytearray(whole)
        first, second = slice(page + 8, page + 10), slice(page + 10, page + 12)
        damaged[first], damaged[second] = damaged[second], damaged[first]
        path.write_bytes(damaged)
        with pytest.raises(JobError, match="cannot be used"):
            pop_all(path)


def test_a_database_of_another_program_is_refused_and_not_changed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "requests.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(JobError, match="another program"):
        JobFile(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE requests ADD COLUMN more",
        "ALTER TABLE pauses RENAME TO breaks",
        "DROP TABLE seen",
        "DROP INDEX requests_in_order",
        "CREATE TABLE more (a)",
        "CREATE TRIGGER each AFTER INSERT ON seen BEGIN DELETE FROM requests; END",
    ],
)
def test_a_file_with_changed_tables_is_refused_and_keeps_its_requests(
    tmp_path: Path, change: str
) -> None:
    path = make_file(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(change)
    with pytest.raises(JobError, match="the tables of the file differ"):
        JobFile(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM requests").fetchone() == (100,)


@pytest.mark.parametrize(
    ("row", "seconds"),
    [
        (("a.example", 1e308, 60.0), [("a.example", 60.0)]),
        (("a.example", 1060.0, 600.0), [("a.example", 60.0)]),
        (("a.example", -1e308, 60.0), []),
    ],
)
def test_a_stored_pause_lasts_no_longer_than_its_duration(
    tmp_path: Path, row: tuple[Any, ...], seconds: Any
) -> None:
    """The stored end of a pause may be far in the future, if the clock was wrong. A pause that is over is deleted."""
    path = make_file(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("INSERT INTO pauses VALUES (?, ?, ?)", row)
        database.commit()
    file = JobFile(path)
    try:
        assert file.pauses(1000.0) == seconds
        assert file.commit() is None
        kept = file._db.execute("SELECT count(*) FROM pauses").fetchone()
        assert kept == (len(seconds),)
    finally:
        file.close()


@pytest.mark.parametrize(
    "row",
    [
        (b"a.example", 1060.0, 60.0),
        ("a.example", "soon", 60.0),
        ("a.example", 1060.0, b"long"),
    ],
)
def test_a_pause_of_a_wrong_type_is_refused(
    tmp_path: Path, row: tuple[Any, ...]
) -> None:
    """SQLite refuses to write a pause of a wrong type. A file that contains one nevertheless is damaged."""
    path = make_file(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        with pytest.raises(sqlite3.IntegrityError):
            database.execute("INSERT INTO pauses VALUES (?, ?, ?)", row)
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("INSERT INTO pauses VALUES (?, ?, ?)", row)
        database.commit()
    with pytest.raises(JobError, match="CHECK constraint failed in pauses"):
        JobFile(path)


def test_a_change_that_was_not_committed_is_not_in_the_file(tmp_path: Path) -> None:
    """A change that was not committed is lost even if its SQL statement was executed."""
    path = tmp_path / "requests.sqlite"
    file = JobFile(path)
    requests_of(file, "a").push(PushedRequest(b"1"))
    assert file.best("a")[1] == b"1"
    file.close()
    file = JobFile(path)
    assert not file.hosts()
    file.close()


def test_a_file_whose_requests_are_done_is_small_after_it_is_closed(
    tmp_path: Path,
) -> None:
    path = make_file(tmp_path, 3000)
    before = path.stat().st_size
    assert len(pop_all(path)) == 3000
    assert path.stat().st_size < before / 10


def test_the_cost_of_a_pop_does_not_grow_with_the_pops_since_the_last_commit(
    tmp_path: Path,
) -> None:
    """To find the next request, SQLite does not have to read the rows of the requests that were popped before."""
    path, steps = make_file(tmp_path, 7_000), 0

    def count() -> None:
        nonlocal steps
        steps += 1

    file = JobFile(path)
    file._db.set_progress_handler(count, 100)
    try:
        for _ in range(1_000):
            file.pop("host 0")
    finally:
        file.close()
    assert steps < 1_000
