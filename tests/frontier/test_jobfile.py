"""The file of a JOBDIR keeps what was committed, in order, whatever happens to the process."""

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

# How the names of requests begin that cannot be written.
UNWRITABLE = b"lambda"


class Added(NamedTuple):
    """A request in the model. The greatest one is popped first."""

    was_in_flight: bool
    rank: int
    turn: int
    name: bytes

    @property
    def is_unwritable(self) -> bool:
        return self.name.startswith(UNWRITABLE)


class Place(NamedTuple):
    """Where a request waits in this run, and since when if it was returned. The greatest one is popped first."""

    is_returned: bool
    minus_returns: int
    is_in_memory: bool
    request: Added


def place_of(request: Added) -> Place:
    """Return the place of a *request* that was not returned."""
    return Place(False, 0, request.is_unwritable, request)


class Pushed(NamedTuple):
    name: bytes
    rank: int = 0


class Order(RequestOrder):
    """The order of requests that are a name and a rank."""

    def __init__(self) -> None:
        self._next_number = count().__next__

    def of(self, request: Any) -> tuple[int, bool]:
        # Of one rank, all are popped in the same order.
        return request.rank, request.rank in {0, 1}


class Job:
    """What the requests of a file need of a JobStore, for requests that are a name and a rank."""

    def __init__(self, file: JobFile) -> None:
        self.file, self.is_open = file, True
        self.in_flight: dict[bytes, int] = {}
        self.order = self.memory_order = Order()

    def written(self, request: Pushed) -> bytes:
        if request.name.startswith(UNWRITABLE):
            raise ValueError
        return request.name

    def read(self, data: bytes | None) -> bytes:
        if data is None:
            raise ValueError
        return data

    def is_counted(self, request: Pushed) -> bool:
        return False

    def stop(self, error: JobError) -> None:
        raise error

    def note_unreadable(self, error: Exception) -> None:
        assert isinstance(error, ValueError)

    def note_change(self) -> None:
        """The test says when changes are written."""


def requests_of(
    file: JobFile, host: str, saved: int = 0, job: Job | None = None
) -> JobRequests:
    store: Any = job or Job(file)
    return JobRequests(store, host, saved)


class JobFileMachine(RuleBasedStateMachine):
    """A file beside a model: two dicts of lists, one as it is, and one as of the last commit."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name, "requests.sqlite")
        self.waiting: dict[str, list[Place]] = {host: [] for host in HOSTS}
        self.in_flight: list[tuple[str, Added]] = []
        self.seen: set[int] = set()
        self.count = self.returns = 0
        self.open()
        self.note_commit()

    def open(self) -> None:
        self.file = JobFile(self.path)
        self.job = Job(self.file)
        counts = dict(self.file.hosts())
        self.queues = {
            host: requests_of(self.file, host, counts.get(host, 0), self.job)
            for host in HOSTS
        }

    def note_commit(self) -> None:
        self.committed: dict[str, list[Added]] = {}
        for host in HOSTS:
            popped = [request for of, request in self.in_flight if of == host]
            popped += [
                place.request for place in self.waiting[host] if place.is_returned
            ]
            requests = [
                place.request for place in self.waiting[host] if not place.is_returned
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
        turn = self.count if rank in {0, 1} else -self.count
        self.waiting[host].append(place_of(Added(False, rank, turn, name)))
        error = self.queues[host].push(Pushed(name, rank))
        assert (error is not None) == is_unwritable
        if is_new and not is_unwritable:
            self.file.add_seen(self.count)
            self.seen.add(self.count)

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data(), replaces=st.booleans())
    def take(self, data: st.DataObject, replaces: bool) -> None:
        host = data.draw(
            st.sampled_from([name for name in HOSTS if self.waiting[name]])
        )
        best = max(self.waiting[host])
        popped: Any = self.queues[host].pop()
        assert getattr(popped, "name", popped) == best.request.name
        medium = "memory" if best.request.is_unwritable else "disk"
        assert self.queues[host].medium_of(popped) == medium
        self.waiting[host].remove(best)
        self.in_flight.append((host, best.request))
        if replaces and not self.waiting[host]:
            # The queue forgets a host without requests.
            self.queues[host] = requests_of(self.file, host, job=self.job)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        _, request = self.in_flight.pop(
            data.draw(st.integers(0, len(self.in_flight) - 1))
        )
        if not request.is_unwritable:
            self.file.done(self.job.in_flight.pop(request.name))

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        host, request = self.in_flight.pop(
            data.draw(st.integers(0, len(self.in_flight) - 1))
        )
        self.returns += 1
        self.waiting[host].append(
            Place(True, -self.returns, request.is_unwritable, request)
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
            host: [place_of(request) for request in self.committed[host]]
            for host in HOSTS
        }
        self.seen = set(self.committed_seen)
        self.in_flight = []
        self.open()
        self.note_commit()

    @invariant()
    def counts(self) -> None:
        for host in HOSTS:
            assert self.queues[host].count == len(self.waiting[host])

    def teardown(self) -> None:
        assert self.file.seen() <= self.seen
        self.kill()
        assert self.file.seen() == self.seen
        for host, queue in self.queues.items():
            names = [queue.pop() for _ in range(queue.count)]
            assert names == [
                place.request.name for place in sorted(self.waiting[host])[::-1]
            ]
        self.file.close()
        self.folder.cleanup()


TestJobFile = JobFileMachine.TestCase


def make(folder: Path, count: int = 100) -> Path:
    """Write a file with *count* requests of as many bytes as usual."""
    path = folder / "requests.sqlite"
    file = JobFile(path)
    for number in range(count):
        requests_of(file, f"host {number % 7}").push(Pushed(b"%d " % number * 100))
    ends = {-(2**63), -1, 0, 2**63 - 1}
    for number in ends:
        file.add_seen(number)
    assert file.commit() is None
    assert file.seen() == ends
    file.close()
    return path


def read(path: Path) -> list[bytes | None]:
    """Return each request of a file, which is done then."""
    file = JobFile(path)
    job, popped = Job(file), []
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
    """A file that is cut, or overwritten, anywhere is refused, or has the requests as they were."""
    path = make(tmp_path)
    whole, refused = path.read_bytes(), []
    for place in range(0, len(whole), 1531):
        head, tail = whole[:place], whole[place + 64 :]
        for damaged in (head, head + os.urandom(64) + tail):
            path.write_bytes(damaged)
            try:
                popped = read(path)
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
    """A file whose index has lost the last entry of a page is refused, or has all requests."""
    path = make(tmp_path)
    whole, refused = path.read_bytes(), 0
    size = int.from_bytes(whole[16:18], "big")
    for page in range(size, len(whole), size):
        # Pages of an index have their number of entries at byte 3.
        if whole[page] in {2, 10} and whole[page + 4]:
            damaged = bytearray(whole)
            damaged[page + 4] -= 1
            path.write_bytes(damaged)
            try:
                assert len(read(path)) == 100
            except JobError:
                refused += 1
    assert refused


def test_a_file_with_rows_in_disorder_is_refused(tmp_path: Path) -> None:
    """A file in a page of which two rows have changed places is refused: SQLite, which searches rows
    by their numbers, may not find either.
    """
    path = make(tmp_path)
    whole = path.read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    # A page of a table has its kind at byte 0, its number of rows from byte 3, and from byte 8 where
    # each begins.
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
            read(path)


def test_a_database_of_another_program_is_refused_and_not_changed(
    tmp_path: Path,
) -> None:
    """A database of another program is refused, and not changed."""
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
    """A file whose tables another program has changed is refused, and keeps its requests."""
    path = make(tmp_path)
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
def test_a_pause_lasts_no_longer_than_was_asked_for(
    tmp_path: Path, row: tuple[Any, ...], seconds: Any
) -> None:
    """A pause lasts no longer than was asked for, whatever the clock. Those that are over are
    forgotten.
    """
    path = make(tmp_path)
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
    """A pause that is none cannot be written. A file that has one is damaged."""
    path = make(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        with pytest.raises(sqlite3.IntegrityError):
            database.execute("INSERT INTO pauses VALUES (?, ?, ?)", row)
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.execute("INSERT INTO pauses VALUES (?, ?, ?)", row)
        database.commit()
    with pytest.raises(JobError, match="CHECK constraint failed in pauses"):
        JobFile(path)


def test_what_was_not_committed_is_not_in_the_file(tmp_path: Path) -> None:
    """What was not committed is not in the file, also if it was executed."""
    path = tmp_path / "requests.sqlite"
    file = JobFile(path)
    requests_of(file, "a").push(Pushed(b"1"))
    assert file.best("a")[1] == b"1"
    file.close()
    file = JobFile(path)
    assert not file.hosts()
    file.close()


def test_a_file_whose_requests_are_done_is_small_again(tmp_path: Path) -> None:
    """A file whose requests are done is small again after it is closed."""
    path = make(tmp_path, 3000)
    before = path.stat().st_size
    assert len(read(path)) == 3000
    assert path.stat().st_size < before / 10


def test_each_of_many_pops_costs_as_little_as_the_first(tmp_path: Path) -> None:
    """Of many requests that are popped between two commits, each costs as little as the first: no
    step looks at those before it.
    """
    path, steps = make(tmp_path, 7_000), 0

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
