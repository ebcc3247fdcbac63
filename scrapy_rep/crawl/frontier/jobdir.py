"""The JOBDIR of a crawl: what its queue and its duplicate filter keep there, and when it is written."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

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
from scrapy_rep.base.requests import RequestDicts
from scrapy_rep.crawl.frontier.backlog import HostKey
from scrapy_rep.exceptions import JobError
from scrapy_rep.protocol.origins import written_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.backlog import Turns
    from scrapy_rep.crawl.frontier.jobfile import JobFile

# In the JOBDIR. Nothing of this package is in Scrapy's requests.queue: what looks for Scrapy's
# queues there must find them, or nothing.
_FILE = Path("rep.queue", "requests.sqlite")

# What HostQueue, and Scrapy at the end, write to requests.queue: a list that is empty when no request is
# left, as for Scrapy's own classes. One of these stops at a list that is not empty, and one at a list
# whose members cannot be compared.
_STATE = "active.json"
_LEFT = ["scrapy_rep.HostQueue", 0]

# Why a spider is closed that cannot use this file.
_REASON = "jobdir_unusable"

# Changes are written to the file, in one transaction, if the last write was this many seconds ago.
_WRITE_EVERY = 0.05

# If the file cannot be written, it is tried again after these seconds. While changes that take more
# bytes than this wait in memory, no request is popped, since its callback would make more. Each try
# executes all of them, so it is rarer the more there are.
_RETRY_AFTER = 1.0
_MAX_WAITING = 10_000_000

# A priority that no setting has.
_ABOVE_ALL = 1000

# The bytes of a fingerprint that are kept.
_FINGERPRINT = 8


class JobDir:
    """What the queue and the duplicate filter of a crawl share: the file in its JOBDIR, and when
    changes are written to it.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._dicts = RequestDicts(crawler)
        self.file: JobFile | None = None
        """None without a JOBDIR, before :meth:`open`, and if it cannot be used."""

        self._offered: tuple[Request | None, int] = None, 0
        """A request that may be added next, with its fingerprint."""

        self.is_stopped = False
        """Whether the crawl stops because the file cannot be used: nothing is taken any more."""

        self.order: Callable[[Request], tuple[int, bool]]
        self._error: JobError | None = None
        self._turns: Turns
        self._watch: LoopWatch | None = None
        self._state: Any = _LEFT
        self._unreadable = 0
        self._is_scheduled = False
        self._is_failing = False
        self._has_refused = False
        """Whether a request was not popped because changes wait."""

    @classmethod
    def of(cls, crawler: Crawler) -> JobDir:
        """Return the instance that the components of a crawl share."""
        return shared_component(crawler, cls)

    # Before the spider is open.

    def make(self, settings: BaseSettings) -> None:
        """Make the folder before Scrapy does, which would fail with a traceback if that is not
        possible, or if several crawls begin at once. If it cannot be written, take it out of
        *settings*: :meth:`prepare` stops the crawl.
        """
        folder = settings["JOBDIR"]
        if not folder:
            return
        try:
            Path(folder, "requests.queue").mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=folder).close()
        except OSError as error:
            self._error = JobError.unusable(folder, error.strerror)
            settings.set("JOBDIR", None, _ABOVE_ALL)

    def prepare(self, turns: Turns) -> None:
        """Stop the crawl if its folder cannot be written. If the process was killed, or the disk was
        full, while Scrapy wrote the state of the queue, remove that: Scrapy could not read it, and
        the file does not need it.

        Scrapy reads the state after it has made the queue in memory, which calls this.
        """
        self._turns = turns
        job = self._crawler.settings["JOBDIR"]
        if self._error is not None:
            self.stop(self._error)
        elif job and Path(job, _FILE).exists():
            state = Path(job, "requests.queue", _STATE)
            with suppress(OSError):
                try:
                    json.loads(state.read_bytes())
                except ValueError:
                    state.unlink()

    def open(
        self, folder: Path, state: Any, order: Callable[[Request], tuple[int, bool]]
    ) -> Iterator[tuple[HostKey, int]]:
        """Open the file, and yield each host that has requests there, with their number.

        *folder* is Scrapy's own for requests, and *state* what :meth:`close` has returned to Scrapy.
        *order* returns the rank of a request, and whether the last one of that is the first to be
        popped.
        """
        turns = self._turns
        self.order = order
        self._watch = LoopWatch()
        path = folder.parent / _FILE
        try:
            if _is_of_others(folder, path, state):
                self._state = state
                raise JobError.of_others(folder.parent)
            from scrapy_rep.crawl.frontier.jobfile import JobFile  # noqa: PLC0415  imports sqlite3

            self.file = file = JobFile(path)
            # Scrapy writes it only at the end, and not if the process is killed. In one step: another
            # crawl may be about to read it.
            with suppress(OSError):
                partial = path.with_name(_STATE)
                partial.write_text(json.dumps(_LEFT), encoding="utf-8")
                partial.replace(folder / _STATE)
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
        if self.file is not None:
            self._write(self.file)
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

    # Requests.

    def requests(self, key: HostKey, saved: int = 0) -> FileRequests:
        """Return the requests to the host of *key*, of which *saved* are in the file already. Raises
        ValueError if the file cannot be used.
        """
        if self.file is None:
            raise ValueError("The queue of this JOBDIR cannot be used")
        return FileRequests(self, self.file, _host_in_file(key), saved)

    def offered(self, request: Request, fingerprint: int) -> None:
        """Note that *request* is new, and may be added next: then its *fingerprint* is kept, too."""
        self._offered = request, fingerprint

    def added(self, request: Request) -> None:
        """Note that *request* was added to the requests of its host."""
        if self.file is not None:
            if self._offered[0] is request:
                self.file.add_seen(self._offered[1])
            if self.file.waiting >= _MAX_WAITING and not self._is_failing:
                self._write(self.file)  # A callback has made many requests at once.
            self._write_soon()

    def note_pause(self, host: str, seconds: float) -> None:
        """Note for the next run that *host* pauses for *seconds*."""
        if self.file is not None:
            self.file.note_pause(host, self._turns.clock.time() + seconds, seconds)
            self._write_soon()

    def read(self, data: bytes | None) -> Request:
        """Return the request in *data*. Raises any error if that is not possible."""
        if data is None:
            raise ValueError("its checksum is wrong")
        fields = pickle.loads(data)  # noqa: S301  this crawl, or an earlier run, wrote it
        return request_from_dict(fields, spider=self._crawler.spider)

    def written(self, request: Request) -> bytes:
        """Return *request* as it is in the file. Raises ValueError if that is not possible."""
        fields = self._dicts.to_dict(request)
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

    def is_ready(self) -> bool:
        """Whether a request may be popped: not while too many changes wait in memory, or cannot be
        executed.
        """
        file = self.file
        if file is None:
            return False
        self._write_soon()
        try:
            is_ready = file.waiting < _MAX_WAITING and file.execute()
        except JobError as damage:
            self.stop(damage)
            return False
        self._has_refused = self._has_refused or not is_ready
        return is_ready

    def _write_soon(self, seconds: float = _WRITE_EVERY) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            at = self._turns.clock.monotonic() + seconds
            self._turns.alarms.at(at, self._on_alarm)

    def _on_alarm(self) -> None:
        self._is_scheduled = False
        if self.file is not None:
            self._write(self.file)

    def _note_done(self, file: JobFile) -> None:
        """Note which requests are done. Those that a closing spider did not send are not."""
        if self._watch is not None and self._watch.is_cancelled:
            return
        for request in file.in_flight.keys() - requests_in_progress(self._crawler):
            number = file.in_flight.pop(request)
            if request not in self._turns.closed_unsent:
                file.done(number)

    def _write(self, file: JobFile) -> None:
        """Note which requests are done, and write what has changed."""
        self._note_done(file)
        try:
            error = file.commit() if file.waiting else None
        except JobError as damage:
            self.stop(damage)
            return
        if error is not None:
            self._write_soon(_RETRY_AFTER * max(1, file.waiting / _MAX_WAITING))
        elif file.in_flight:
            self._write_soon()  # Nothing is popped while the downloader is full, or the spider closes.
        was_failing, self._is_failing = self._is_failing, error is not None
        if was_failing and error is None:
            self._logger.info("%(path)s can be written again", path=file.path)
        elif error is not None and not was_failing:
            self._logger.warning(
                "%(path)s cannot be written: %(error)s. Changes stay in memory meanwhile. No request "
                "is sent while they take more than %(most)d MB, or another program has locked the "
                "file. The crawl tries again until it succeeds. If it ends before that, pages that "
                "ended since the last write are fetched again",
                path=file.path,
                error=error,
                most=_MAX_WAITING // 1_000_000,
            )
        if self._has_refused and error is None:
            self._has_refused = False
            wake(self._crawler)


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


class FileRequests:
    """The requests to one host that wait in the file of a JOBDIR, or are to be written to it."""

    __slots__ = ("_file", "_host", "_job", "count")

    def __init__(self, job: JobDir, file: JobFile, host: str, saved: int = 0) -> None:
        """*saved* is the number of those that are in the file already."""
        self._job = job
        self._file = file
        self._host = host
        self.count = saved
        """The number of requests."""

    def push(self, request: Request) -> None:
        """Add *request*. Raises ValueError if it cannot be pickled, as Scrapy's queues do: then
        the scheduler keeps it in memory.
        """
        self._file.add(
            self._host, self._job.written(request), *self._job.order(request)
        )
        self.count += 1

    def pop(self) -> Request | None:
        """Remove and return the best request, which is in flight then. Return None if it cannot be
        read: then it stays in the file for the next run.
        """
        self.count -= 1
        try:
            number, data = self._file.pop(self._host)
            request = self._job.read(data)
        except JobError as error:
            self._job.stop(error)
            return None
        except Exception as error:  # noqa: BLE001  pickle, and the classes of the project, can raise any
            self._job.note_unreadable(self._host, error)
            return None
        self._file.in_flight[request] = number
        return request

    def peek(self) -> Request | None:
        """Return the request that :meth:`pop` would return; None if it cannot be read, or not now."""
        try:
            if not self.count or not self._file.execute():
                return None
            return self._job.read(self._file.best(self._host)[1])
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

    _job: JobDir
    _seen: set[int]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Called by the scheduler."""
        found = super().from_crawler(crawler)
        found._job = JobDir.of(crawler)
        return found

    def open(self) -> None:
        """Called by the scheduler, after it has opened its queues."""
        saved = self._job.file
        if saved is None or self.file is None:
            return
        path = Path(self.file.name)
        self.file.close()
        self.file = None
        if not path.stat().st_size:
            path.unlink()
        self._seen = saved.seen()

    def request_seen(self, request: Request) -> bool:
        """Return whether *request* was seen before, and note it."""
        saved = self._job.file
        if self._job.is_stopped:
            return True  # Nothing is taken any more, and what is not taken must not be noted.
        if saved is None:
            return super().request_seen(request)
        whole = self.fingerprinter.fingerprint(request)
        fingerprint = int.from_bytes(whole[:_FINGERPRINT], "big", signed=True)
        if fingerprint in self._seen:
            return True
        self._seen.add(fingerprint)
        self._job.offered(request, fingerprint)
        return False
