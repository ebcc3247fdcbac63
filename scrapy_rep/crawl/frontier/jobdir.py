"""The JOBDIR of a crawl: its requests that are not done, what it has seen, and the pauses of hosts,
in one file.

A request is in the file until its callback has ended. What the callback yields, the fingerprints of
that, and the end of the request are written in one transaction. So the process may be killed at any
moment: the next run has all requests that were not done.

SQLite's write-ahead log is not synced at each transaction (``synchronous = NORMAL``): ``kill -9``
loses no transaction; a power cut may lose the last ones, and leaves the file whole.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.python import global_object_name
from scrapy.utils.request import request_from_dict

from scrapy_rep.base.compat import (
    LoopWatch,
    requests_in_progress,
    shared_component,
    wake,
)
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.sqlitefile import (
    FAILURES,
    ForeignFile,
    Schema,
    cause_of,
    has_tables,
    prepare_file,
)
from scrapy_rep.crawl.frontier.backlog import HostKey, KnownMethods
from scrapy_rep.exceptions import JobError
from scrapy_rep.protocol.origins import written_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.backlog import Turns

# In the JOBDIR. Nothing of this package is in Scrapy's requests.queue: what looks for Scrapy's
# queues there must find them, or nothing.
_FILE = Path("rep.queue", "requests.sqlite")

# What Scrapy writes to requests.queue for HostQueue: a list that is empty when no request is left,
# as for its own class, which stops with a message of its own at one that is not empty.
_STATE = "active.json"
_LEFT = ["scrapy_rep.HostQueue"]

# Why a spider is closed that cannot use this file.
_REASON = "jobdir_unusable"

# Changes are written to the file when a page is done, at this number of changes, or after these
# seconds.
_CHANGES = 100
_COMMIT_AFTER = 0.05

# If the file cannot be written, it is tried again after these seconds, and while more changes than
# this wait in memory, no request is popped, since its callback would make more.
_RETRY_AFTER = 1.0
_MAX_CHANGES = 10_000

_SCHEMA = Schema(
    application_id=0x52455051,  # "REPQ"
    version=1,
    statements=(
        """
        CREATE TABLE requests (
            number INTEGER PRIMARY KEY,
            host TEXT NOT NULL,
            rank INTEGER NOT NULL,
            position INTEGER NOT NULL,
            data BLOB NOT NULL
        )
        """,
        "CREATE INDEX requests_in_order ON requests (host, rank, position)",
        "CREATE TABLE in_flight (number INTEGER PRIMARY KEY)",
        "CREATE TABLE seen (fingerprint INTEGER NOT NULL)",
        """
        CREATE TABLE pauses (
            scope TEXT PRIMARY KEY, until REAL NOT NULL, seconds REAL NOT NULL
        )
        """,
    ),
)

# What was in flight when a process ended is popped before all other requests of its host.
_FRONT = -(2**63)
_MAX_RANK = 2**62

_FIRST = (_FRONT, _FRONT)

# The seconds to wait for another program that has locked the file.
_TIMEOUT = 1.0

# The bytes of the checksum before each request.
_CHECKSUM = 4


# The bytes of a fingerprint that are kept.
_FINGERPRINT = 8


class JobDir:
    """What the queue and the duplicate filter of a crawl share: the file in its JOBDIR, and when
    changes are written to it.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._methods = KnownMethods(crawler)
        self.file: JobFile | None = None
        """None without a JOBDIR, before :meth:`open`, and if it cannot be used."""

        self.is_stopped = False
        """Whether the crawl stops because the file cannot be used: nothing is taken any more."""

        self.rank: Callable[[Request], int]
        self.is_last_first: Callable[[int], bool]
        self._turns: Turns
        self._watch: LoopWatch | None = None
        self._state: Any = _LEFT
        self._unreadable = 0
        self._commit_at = inf
        self._failed_at = -inf

    @classmethod
    def of(cls, crawler: Crawler) -> JobDir:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    def open(
        self,
        folder: Path,
        state: Any,
        turns: Turns,
        rank: Callable[[Request], int],
        is_last_first: Callable[[int], bool],
    ) -> Iterator[tuple[HostKey, int]]:
        """Open the file, and yield each host that has requests there, with their number.

        *folder* is Scrapy's own for requests, and *state* what :meth:`close` has returned to Scrapy.
        The *rank* of a request, and whether the last one of a rank is the first to be popped
        (*is_last_first*), make the order.
        """
        self._turns = turns
        self.rank, self.is_last_first = rank, is_last_first
        self._watch = LoopWatch()
        path = folder.parent / _FILE
        try:
            if _is_of_others(folder, path, state):
                self._state = state
                raise JobError.of_others(folder.parent)
            self.file = file = JobFile(path)
            for host, left in file.pauses(turns.clock.time()):
                turns.paused_elsewhere(host, left, own=0.0, lasted=0.0)
            for host, count in file.hosts():
                yield _key_in_file(host, file), count
        except JobError as error:
            self.stop(error)

    def stop(self, error: JobError) -> None:
        """Close the spider: nothing can be done without the file."""
        self._logger.error("The crawl stops: %(error)s", error=error)
        self.is_stopped = True
        if self.file is not None:
            self.file.close()
            self.file = None
        self._turns.stop(_REASON)

    def close(self) -> Any:
        """Write what is left to the file, and close it. Return a state for the scheduler, which
        writes it as JSON.
        """
        self._commit()
        if self._watch is not None:
            self._watch.stop()
        if self.file is not None:
            if self.file.is_empty():
                self._state = []
            self.file.close()
            self.file = None
        if self._unreadable:
            self._logger.error(
                "%(count)d requests in the queue could not be read, and were not sent. They stay "
                "in %(file)s for the next run",
                count=self._unreadable,
                file=_FILE.name,
            )
        return self._state

    def warn_of_classes(self, kinds: Iterable[type]) -> None:
        """Warn that queue classes of other packages are not used."""
        for kind in kinds:
            self._logger.warning(
                "%(kind)s is not used: with scrapy_rep.HostQueue, the requests of a JOBDIR are in "
                "%(file)s. Of SCHEDULER_DISK_QUEUE and SCHEDULER_START_DISK_QUEUE, only the order "
                "of Scrapy's own classes counts",
                kind=global_object_name(kind),
                file=_FILE.name,
            )

    def mend_state(self) -> None:
        """Remove the state of the queue in a JOBDIR if the process was killed, or the disk was full,
        while Scrapy wrote it: Scrapy could not read it, and the file does not need it.

        Scrapy reads the state after it has made the queue in memory.
        """
        job = self._crawler.settings["JOBDIR"]
        if not job or not Path(job, _FILE).exists():
            return
        state = Path(job, "requests.queue", _STATE)
        with suppress(OSError):
            try:
                json.loads(state.read_bytes())
            except ValueError:
                state.unlink()

    # Requests.

    @property
    def is_behind(self) -> bool:
        """Whether so many changes wait in memory that no request may be popped."""
        return self.file is not None and self.file.changes >= _MAX_CHANGES

    def requests(self, key: HostKey, saved: int = 0) -> FileRequests:
        """Return the requests to the host of *key*, of which *saved* are in the file already. Raises
        ValueError if the file cannot be used.
        """
        if self.file is None:
            raise ValueError("The queue of this JOBDIR cannot be used")
        return FileRequests(self, self.file, _host_in_file(key), saved)

    def added(self, request: Request) -> None:
        """Note that *request* was added to the requests of its host."""
        if self.file is not None:
            self.file.add_offered(request)
            self._commit_in(_COMMIT_AFTER)

    def note_pause(self, host: str, seconds: float) -> None:
        """Note for the next run that *host* pauses for *seconds*."""
        if self.file is not None:
            self.file.note_pause(host, self._turns.clock.time() + seconds, seconds)

    def read(self, data: bytes | None) -> Request:
        """Return the request in *data*. Raises any error if that is not possible."""
        if data is None:
            raise ValueError("its checksum is wrong")
        fields = pickle.loads(data)  # noqa: S301  this crawl, or an earlier run, wrote it
        return request_from_dict(fields, spider=self._crawler.spider)

    def written(self, request: Request) -> bytes:
        """Return *request* as it is in the file. Raises ValueError if that is not possible."""
        fields = self._methods.to_dict(request)
        try:
            return pickle.dumps(fields, protocol=4)
        except (
            pickle.PicklingError,
            AttributeError,
            TypeError,
            RecursionError,
        ) as error:
            raise ValueError(str(error)) from error

    def note_unreadable(self, host: str, error: Exception) -> None:
        """Note that a request to *host* was popped that cannot be read. It stays in the file."""
        self._unreadable += 1
        if self._unreadable == 1 and self.file is not None:
            self._logger.error(
                "A request to %(host)s in %(path)s cannot be read: %(error)r. It is not "
                "sent, and stays there for the next run. This is logged once: at its end, "
                "the crawl logs how many there were",
                host=host,
                path=self.file.path,
                error=error,
            )

    # When changes are written.

    def settle(self) -> None:
        """Note which requests are done, and write that at once."""
        if self.file is None:
            return
        if self._note_done(self.file):
            self._commit_in(0.0)
        elif self.file.in_flight:
            self._commit_in(_COMMIT_AFTER)

    def _note_done(self, file: JobFile) -> bool:
        """Note which requests are done. Those that a closing spider did not send are not. Return
        whether there are any.
        """
        if self._watch is not None and self._watch.is_cancelled:
            return False
        ended = file.in_flight.keys() - requests_in_progress(self._crawler)
        for request in ended:
            taken = file.in_flight.pop(request)
            if request not in self._turns.closed_unsent:
                file.done(*taken)
        return bool(ended)

    def _commit_in(self, seconds: float) -> None:
        """Write the changes to the file in *seconds*, or at once if there are many."""
        assert self.file is not None
        now = self._turns.clock.monotonic()
        retry_at = self._failed_at + _RETRY_AFTER
        at = max(now + seconds, retry_at)
        if self.file.changes >= _CHANGES and retry_at <= now:
            self._commit()
        elif at < self._commit_at:
            self._commit_at = at
            self._turns.alarms.at(at, self._commit_if_due)

    def _commit_if_due(self) -> None:
        if self._commit_at <= self._turns.clock.monotonic():
            self._commit()

    def _commit(self) -> None:
        self._commit_at = inf
        if self.file is None:
            return
        # Nothing is popped while the downloader is full, or the spider closes.
        self._note_done(self.file)
        if self.file.changes and not self._write(self.file):
            return
        if self.file.in_flight:
            self._commit_in(_COMMIT_AFTER)

    def _write(self, file: JobFile) -> bool:
        """Write the changes to *file*. Return whether that succeeded."""
        try:
            error = file.commit()
        except JobError as damage:
            self.stop(damage)
            return False
        if error is None:
            if self._failed_at > -inf:
                self._logger.info("%(path)s can be written again", path=file.path)
                self._failed_at = -inf
                wake(self._crawler)
            return True
        if self._failed_at == -inf:
            self._logger.warning(
                "%(path)s cannot be written: %(error)s. Requests stay in memory meanwhile; while "
                "%(most)d changes wait, no request is sent. The crawl tries again each second. If it "
                "ends before that succeeds, the next run fetches the pages again whose end is not in "
                "the file",
                path=file.path,
                error=error,
                most=_MAX_CHANGES,
            )
        self._failed_at = self._turns.clock.monotonic()
        self._commit_in(0.0)
        return False


def _is_of_others(folder: Path, file: Path, state: Any) -> bool:
    """Whether another class, or another version of this one, wrote the JOBDIR of *folder*, Scrapy's
    own folder for requests, with *state*.
    """
    if state and state != _LEFT:
        return True
    if file.exists():
        return False
    seen = folder.with_name("requests.seen")
    if seen.exists() and seen.stat().st_size:
        return True
    files = (path for path in folder.rglob("*") if not path.is_dir())
    return any(path.name != _STATE for path in files)


def _host_in_file(key: HostKey) -> str:
    """Return *key* as the file of a JOBDIR has it: JSON."""
    flags = [True] if key.is_service else []
    return json.dumps([key.slot, key.origin and str(key.origin), *flags])


def _key_in_file(host: str, file: JobFile) -> HostKey:
    try:
        slot, origin, *is_service = json.loads(host)
        return HostKey(slot, written_origin(origin) if origin else None, *is_service)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise JobError.unusable(file.path, f"it names no host: {error}") from error


class SavedRequest(NamedTuple):
    """A request in its queue. The entry that is less than the others is popped first."""

    rank: int
    position: int
    number: int
    stored: bytes
    """The checksum, and the data."""

    @property
    def data(self) -> bytes | None:
        """The data as it was added; None if it was damaged since."""
        if not isinstance(self.stored, bytes):
            return None
        data = self.stored[_CHECKSUM:]
        is_whole = self.stored[:_CHECKSUM] == crc32(data).to_bytes(_CHECKSUM, "big")
        return data if is_whole else None


def _saved_request(rank: int, position: int, number: int, data: bytes) -> SavedRequest:
    rank = -max(min(rank, _MAX_RANK), -_MAX_RANK)
    return SavedRequest(
        rank, position, number, crc32(data).to_bytes(_CHECKSUM, "big") + data
    )


class SavedRequests:
    """The requests of one host that wait, as bytes: in the file, and those that are new."""

    __slots__ = ("_new", "_saved", "file", "host")

    def __init__(self, file: JobFile, host: str, saved: int = 0) -> None:
        """*saved* is the number of those that are in the file already."""
        self.file = file
        self.host = host
        self._saved = saved
        self._new: list[SavedRequest] = []

    def __len__(self) -> int:
        return self._saved + len(self._new)

    def add(self, rank: int, data: bytes, *, is_last_first: bool) -> None:
        """Add a request. Requests with a higher *rank* are popped first. If it *is_last_first*, it
        is popped before those of its rank that were added before it.
        """
        heappush(
            self._new, self.file.add(self, rank, data, is_last_first=is_last_first)
        )

    def best(self) -> SavedRequest:
        """Return the request that :meth:`take` would return."""
        if not self._saved:
            return self._new[0]
        saved = self.file.best(self.host)
        return min(saved, self._new[0]) if self._new else saved

    def take(self) -> SavedRequest:
        """Remove and return the best request. It is in flight until :meth:`JobFile.done`."""
        entry = self.best()
        if self._new and self._new[0] is entry:
            heappop(self._new)
        else:
            self._saved -= 1
        self.file.note_popped(self.host, entry)
        return entry

    def note_saved(self) -> None:
        """Note that the new requests are in the file."""
        self._saved += len(self._new)
        self._new.clear()


class _Popped:
    """The requests of a host that were popped, and are not done in the file."""

    __slots__ = ("after", "numbers")

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.after = _FIRST
        """The requests in the file that wait have a greater rank and position than this."""


class JobFile:
    """Keeps requests by host. All changes wait in memory for :meth:`commit`.

    Other classes decide what a host, a rank, a position and a fingerprint are.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file at *path*, and its folder. Raises JobError if that fails, if another crawl has
        opened it, or if it is damaged.
        """
        self.path = path
        self._new: dict[int, tuple[SavedRequests, SavedRequest]] = {}
        self._seen: list[int] = []
        self._pauses: dict[str, tuple[float, float]] = {}
        self._offered: tuple[object, int] = None, 0
        self._done: list[tuple[str, int]] = []
        self.in_flight: dict[object, tuple[str, int]] = {}
        """The popped requests that are not done, by what they were read as: the arguments for
        :meth:`done`."""

        self._marks: dict[int, None] = {}
        """The requests that were popped since the last commit, and are not done."""

        self._popped: dict[str, _Popped] = {}

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite frees the lock of a process that was killed, on each operating system.
            self._lock = sqlite3.connect(path.with_name("lock"), timeout=0)
            self._lock.isolation_level = None
            try:
                self._lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise JobError.in_use(path.parent) from None
                raise
            self._db = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None)
            self._open()
        except (*FAILURES, ForeignFile, OSError) as error:
            self._close()
            raise JobError.unusable(path, cause_of(error)) from error
        except JobError:
            self._close()
            raise

    def _open(self) -> None:
        db = self._db
        if not has_tables(db, _SCHEMA):  # It would write to a file of another version.
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        prepare_file(db, _SCHEMA)
        self._check(db)
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            "UPDATE requests SET rank = ? WHERE number IN (SELECT number FROM in_flight)",
            (_FRONT,),
        )
        db.execute("DELETE FROM in_flight")
        db.execute("COMMIT")
        [last] = db.execute("SELECT max(number) FROM requests").fetchone()
        self._last = last or 0

    @staticmethod
    def _check(db: sqlite3.Connection) -> None:
        """Raise DatabaseError if the file is damaged."""
        rows = db.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
        if {sql for (sql,) in rows} != {each.strip() for each in _SCHEMA.statements}:
            raise sqlite3.DatabaseError("its tables were changed")
        # A full integrity_check looks each row up in the index, which takes minutes for a large
        # file. That as many are there finds an index that has lost some.
        [found] = db.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        rows = db.execute(
            "SELECT count(*) FROM requests NOT INDEXED UNION "
            "SELECT count(*) FROM requests INDEXED BY requests_in_order"
        )
        if len(rows.fetchall()) > 1:
            raise sqlite3.DatabaseError("its index does not have each request")

    # Requests.

    def is_empty(self) -> bool:
        """Whether no request is in the file, nor waits for :meth:`commit`."""
        return not self._new and not self._read("SELECT 1 FROM requests LIMIT 1")

    def hosts(self) -> list[tuple[str, int]]:
        """Return each host that has requests in the file, with their number, after the file was
        opened.
        """
        return self._read("SELECT host, count(*) FROM requests GROUP BY host")

    def best(self, host: str) -> SavedRequest:
        """Return the best request of *host* that is in the file and was not popped."""
        popped = self._popped.get(host) or _Popped()
        with self._errors():
            rows = self._db.execute(
                "SELECT rank, position, number, data FROM requests "
                "WHERE host = ? AND (rank, position) > (?, ?) ORDER BY rank, position",
                (host, *popped.after),
            )
            found = next((row for row in rows if row[2] not in popped.numbers), None)
            rows.close()
        if found is None:
            raise JobError.unusable(self.path, f"it has no request of {host}")
        return SavedRequest(*found)

    def add(
        self, owner: SavedRequests, rank: int, data: bytes, *, is_last_first: bool
    ) -> SavedRequest:
        """Add a request, for :meth:`SavedRequests.add`."""
        self._last = number = self._last + 1
        entry = _saved_request(rank, -number if is_last_first else number, number, data)
        self._new[number] = owner, entry
        return entry

    def note_popped(self, host: str, entry: SavedRequest) -> None:
        """Note that a request of *host* is in flight."""
        popped = self._popped.get(host)
        if popped is None:
            popped = self._popped[host] = _Popped()
        popped.numbers.add(entry.number)
        popped.after = max(popped.after, (entry.rank, entry.position))
        self._marks[entry.number] = None

    def done(self, host: str, number: int) -> None:
        """Remove a request of *host* that was in flight."""
        self._marks.pop(number, None)
        if self._new.pop(number, None) is None:
            self._done.append((host, number))
        else:
            self._forget(host, number)

    # What was seen.

    def seen(self) -> set[int]:
        """Return the fingerprints in the file."""
        return {number for (number,) in self._read("SELECT fingerprint FROM seen")}

    def offer(self, request: object, fingerprint: int) -> None:
        """Note the fingerprint of a request that is new, and may be added next: a whole number of
        64 bits, with sign.
        """
        self._offered = request, fingerprint

    def add_offered(self, request: object) -> None:
        """Add the fingerprint that was noted for *request*, if there is one."""
        if self._offered[0] is request:
            self._seen.append(self._offered[1])
            self._offered = None, 0

    # Pauses.

    def pauses(self, now: float) -> list[tuple[str, float]]:
        """Return each scope that is to pause, with the seconds from *now* on, by the wall clock."""
        rows = self._read("SELECT scope, until, seconds FROM pauses")
        with self._errors():
            left = [(scope, min(until - now, time)) for scope, until, time in rows]
            return [(str(scope), seconds) for scope, seconds in left if seconds > 0]

    def note_pause(self, scope: str, until: float, seconds: float) -> None:
        """Note that *scope* pauses until a time by the wall clock, in *seconds*."""
        self._pauses[scope] = until, seconds

    # Transactions.

    @property
    def changes(self) -> int:
        """The changes that wait for :meth:`commit`."""
        return len(self._new) + len(self._seen) + len(self._done) + len(self._pauses)

    def commit(self) -> sqlite3.Error | None:
        """Write all changes in one transaction. Return the error if that fails: then they are
        still waiting. Raises JobError if the file is damaged.
        """
        db = self._db
        done = [(number,) for _, number in self._done]
        changes: dict[str, list[Any]] = {
            "INSERT INTO requests (host, rank, position, number, data) VALUES (?, ?, ?, ?, ?)": [
                (one.host, *entry) for one, entry in self._new.values()
            ],
            "INSERT INTO seen VALUES (?)": list(zip(self._seen)),
            "INSERT INTO in_flight VALUES (?)": list(zip(self._marks)),
            "INSERT OR REPLACE INTO pauses VALUES (?, ?, ?)": [
                (scope, *pause) for scope, pause in self._pauses.items()
            ],
            "DELETE FROM requests WHERE number = ?": done,
            "DELETE FROM in_flight WHERE number = ?": done,
        }
        try:
            db.execute("BEGIN IMMEDIATE")
            for statement, rows in changes.items():
                if rows:
                    db.executemany(statement, rows)
            db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._roll_back()
            return error
        except FAILURES as error:
            self._roll_back()
            raise JobError.unusable(self.path, cause_of(error)) from error
        for one, entry in self._new.values():
            popped = self._popped.get(one.host)
            if popped is None or entry.number in popped.numbers:
                continue
            if (entry.rank, entry.position) < popped.after:
                popped.after = _FIRST
        for one in {one for one, _ in self._new.values()}:
            one.note_saved()
        for host, number in self._done:
            self._forget(host, number)
        self._new.clear()
        self._seen.clear()
        self._done.clear()
        self._pauses.clear()
        self._marks.clear()
        return None

    def close(self) -> None:
        """Close the file, without what was not committed, and give back the space that it does
        not need.
        """
        with suppress(sqlite3.Error):
            # execute() would free one page.
            self._db.executescript("PRAGMA incremental_vacuum")
        self._close()

    def _read(self, statement: str) -> list[Any]:
        with self._errors():
            return self._db.execute(statement).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise JobError in place of the errors of a damaged file."""
        try:
            yield
        except (*FAILURES, TypeError, ValueError) as error:
            raise JobError.unusable(self.path, cause_of(error)) from error

    def _forget(self, host: str, number: int) -> None:
        popped = self._popped[host].numbers
        popped.discard(number)
        if not popped:
            del self._popped[host]

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def _close(self) -> None:
        for name in ("_db", "_lock"):
            if hasattr(self, name):
                getattr(self, name).close()


class FileRequests(SavedRequests):
    """The requests to one host in the file of a JOBDIR."""

    __slots__ = ("_job",)

    def __init__(self, job: JobDir, file: JobFile, host: str, saved: int) -> None:
        super().__init__(file, host, saved)
        self._job = job

    @property
    def count(self) -> int:
        """The number of requests."""
        return len(self)

    def push(self, request: Request) -> None:
        """Add *request*. Raises ValueError if it cannot be pickled, as Scrapy's queues do: then
        the scheduler keeps it in memory.
        """
        data, rank = self._job.written(request), self._job.rank(request)
        self.add(rank, data, is_last_first=self._job.is_last_first(rank))

    def pop(self) -> Request | None:
        """Remove and return the best request, which is in flight then. Return None if it cannot be
        read: then it stays in the file for the next run.
        """
        saved = self.take()
        try:
            request = self._job.read(saved.data)
        except Exception as error:  # noqa: BLE001  pickle, and the classes of the project, can raise any
            self._job.note_unreadable(self.host, error)
            return None
        self.file.in_flight[request] = self.host, saved.number
        return request

    def peek(self) -> Request | None:
        """Return the request that :meth:`pop` would return; None if it cannot be read."""
        try:
            return self._job.read(self.best().data) if len(self) else None
        except Exception:  # noqa: BLE001  as above
            return None


class DupeFilter(RFPDupeFilter):
    """Scrapy's RFPDupeFilter, with the fingerprints in the file of HostQueue.

    For Scrapy's setting ``DUPEFILTER_CLASS``. A request and its fingerprint are written in one
    transaction. So no request counts as seen that is in no queue. Without a JOBDIR, or with
    another ``SCHEDULER_PRIORITY_QUEUE``, it is the same as Scrapy's.

    With a JOBDIR, it keeps 64 bits of each fingerprint. After a billion requests, the probability
    that a new one is taken for one of them is 5 in 10^11.
    """

    _job: JobDir | None = None
    _saved: JobFile | None = None
    _seen: set[int]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by the scheduler."""
        found = super().from_crawler(crawler)
        found._job = JobDir.of(crawler)
        return found

    def open(self) -> None:
        """Called by the scheduler, after it has opened its queues."""
        if self._job is not None:
            self._saved = self._job.file
        if self._saved is None or self.file is None:
            return
        path = Path(self.file.name)
        self.file.close()
        self.file = None
        if not path.stat().st_size:
            path.unlink()
        self._seen = self._saved.seen()

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* was seen before, and note it."""
        if self._job is not None and self._job.is_stopped:
            return True  # Nothing is taken any more, and what is not taken must not be noted.
        if self._saved is None:
            return super().request_seen(request)
        whole = self.fingerprinter.fingerprint(request)
        fingerprint = int.from_bytes(whole[:_FINGERPRINT], "big", signed=True)
        if fingerprint in self._seen:
            return True
        self._seen.add(fingerprint)
        self._saved.offer(request, fingerprint)
        return False
