"""The ``JOBDIR`` of a crawl: which requests its file has, and when changes are written to it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.python import global_object_name
from scrapy.utils.request import request_from_dict

from scrapy_rep.base.compat import requests_in_progress, wake
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import RequestDicts
from scrapy_rep.crawl.frontier.frontier import Frontier, QueueKey
from scrapy_rep.crawl.frontier.jobfile import JobFile
from scrapy_rep.exceptions import JobError, SettingError
from scrapy_rep.protocol.origins import written_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

# In the JOBDIR. Nothing of this package is in Scrapy's requests.queue.
_FILE = Path("rep.queue", "requests.sqlite")

# What Scrapy's own scheduler and duplicate filter keep there.
_OF_SCRAPY = ("requests.queue", "requests.seen")

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

# The bytes of a fingerprint that are kept. After a billion requests, the probability that a new one is
# taken for one of them is 5 in 10^11.
_FINGERPRINT = 8


def prepare_folder(crawler: Crawler, settings: BaseSettings) -> None:
    """Make the ``JOBDIR`` before Scrapy does, which would fail with a traceback if that is not possible. If
    it cannot be written, take it out of *settings*, and stop the crawl at its start.
    """
    folder = settings["JOBDIR"]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        unusable = JobError.unusable(folder, error.strerror)
        settings.set("JOBDIR", None, _ABOVE_ALL)

        def stop() -> None:
            _log_stop(CrawlLog(__name__, crawler), unusable)
            Frontier.of(crawler).stop(_REASON)

        crawler.signals.connect(stop, signals.spider_opened, weak=False)


def check_folder(crawler: Crawler, settings: BaseSettings) -> None:
    """Raise SettingError if the ``JOBDIR`` holds a crawl of ``scrapy_rep.Scheduler``, and *settings* name
    another scheduler. That one would ignore the saved crawl, and start from the beginning.
    """
    folder = settings["JOBDIR"]
    if Path(folder, _FILE).exists():
        scheduler = settings["SCHEDULER"]
        name = (
            scheduler if isinstance(scheduler, str) else global_object_name(scheduler)
        )
        raise SettingError(
            "JOBDIR",
            str(folder),
            f"a folder without a crawl of scrapy_rep.Scheduler, since SCHEDULER is {name}, which would "
            "begin that crawl anew. Use scrapy_rep.Scheduler to continue it, or a new folder",
        )


def _log_stop(logger: CrawlLog, error: JobError) -> None:
    logger.error("The crawl stops: %(error)s", error=error)


class JobStore:
    """The requests of a crawl with a ``JOBDIR``, and the fingerprints and pauses beside them."""

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        order: Callable[[Request], tuple[int, bool]],
    ) -> None:
        """*order* returns the rank of a request, and whether of several the last one is next."""
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier = frontier
        frontier.politeness.new_pauses = {}
        self.order = order
        self._dicts = RequestDicts(crawler)
        self._file: JobFile | None = None
        """None before :meth:`open`, and if it cannot be used."""

        self.is_stopped = False
        """Whether the crawl stops because the file cannot be used: nothing is taken any more."""

        self._unreadable = 0
        self._is_scheduled = False
        self._is_failing = False
        self._has_refused = False
        """Whether a request was not popped because changes wait."""

    def open(self, *, keeps_seen: bool) -> Iterator[tuple[QueueKey, JobRequests]]:
        """Open the file of the JOBDIR, and yield each queue that has requests in it. *keeps_seen* tells
        whether this file also has the fingerprints of requests that were seen. If it does, fingerprints in a
        file of Scrapy's own belong to another scheduler: then the folder is refused, unless it has our file
        already.
        """
        folder = Path(self._crawler.settings["JOBDIR"])
        path = folder / _FILE
        try:
            if not path.exists() and _is_of_scrapy(folder, keeps_seen=keeps_seen):
                raise JobError.of_others(folder)
            self._file = file = JobFile(path)
            clock, limits = self._frontier.clock, self._frontier.limits
            for host, seconds in file.pauses(clock.time()):
                now = clock.monotonic()
                limits.resume_pause(limits.limiter(host), now, until=now + seconds)
            budget = self._frontier.budget
            if budget is not None:
                budget.keeper = self
                budget.pages.update(file.pages())
            for host, count in file.hosts():
                # If no host answers now, that is more likely to be the network of the crawler.
                limits.network.worked_before()
                key = _key_in_file(host, file)
                yield key, JobRequests(self, file, host, count)
        except JobError as error:
            self.stop(error)

    def stop(self, error: JobError) -> None:
        """Close the spider: nothing can be done without the file."""
        _log_stop(self._logger, error)
        self.is_stopped = True
        if self._file is not None:
            self._file.close()
            self._file = None
        self._frontier.stop(_REASON)

    def close(self) -> None:
        """Write what is left to the file, and close it."""
        if self._file is not None:
            self._write(self._file)
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._unreadable:
            self._logger.error(
                "%(count)d requests in the queue could not be read, and were not sent. They stay "
                "in %(file)s for the next run",
                count=self._unreadable,
                file=_FILE.name,
            )

    # Requests.

    def requests(self, key: QueueKey) -> JobRequests:
        """Return the requests of the queue with *key*, of which none is in the file."""
        return JobRequests(self, self._file, _host_in_file(key))

    def has(self, request: Request) -> bool:
        """Whether *request*, which was popped, was in the file."""
        return self._file is not None and request in self._file.in_flight

    def fingerprint(self, request: Request) -> int:
        """Return the fingerprint of *request* as it is kept: 64 bits, with sign."""
        whole = self._crawler.request_fingerprinter.fingerprint(request)
        return int.from_bytes(whole[:_FINGERPRINT], "big", signed=True)

    def seen(self) -> set[int]:
        """Return the fingerprints in the file."""
        return set() if self._file is None else self._file.seen()

    def add_seen(self, fingerprint: int) -> None:
        """Keep a fingerprint, in one transaction with the request that was pushed before."""
        if self._file is not None:
            self._file.add_seen(fingerprint)

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
        if self._unreadable == 1 and self._file is not None:
            self._logger.error(
                "A request to %(host)s in %(path)s cannot be read: %(error)r. It is not "
                "sent, and stays there for the next run. This is logged once: at its end, "
                "the crawl logs how many there were",
                host=host,
                path=self._file.path,
                error=error,
            )

    # The budget of pages: which requests were counted as pages of their host.

    def note_counted(self, request: Request) -> None:
        """Note that an earlier run has counted *request*, which is in flight again, as a page."""
        if self._frontier.budget is not None:
            self._frontier.budget.pass_free(request)

    def is_counted(self, request: Request) -> bool:
        """Whether *request*, which is new, is a retry or a redirect of a page that was already counted. The
        file keeps the answer, so that a run after a kill does not count the page twice.
        """
        budget = self._frontier.budget
        return budget is not None and budget.is_counted(request)

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Keep that *request* counts as a page of *host*: in the file before it is sent, so that a run after
        a kill knows it.
        """
        file = self._file
        if file is not None:
            file.note_page(file.in_flight.get(request), host, change)
            if change > 0 and not self._is_failing:
                self._write(file)

    # When changes are written.

    def note_change(self) -> None:
        """Note that the file is to be written soon; at once if much waits."""
        file = self._file
        if file is not None:
            if file.waiting >= _MAX_WAITING and not self._is_failing:
                self._write(file)  # A callback has made many requests at once.
            self._write_soon()

    def is_ready(self) -> bool:
        """Whether a request may be popped: not while too many changes wait in memory, or cannot be
        executed.
        """
        file = self._file
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
            at = self._frontier.clock.monotonic() + seconds
            self._frontier.alarms.at(at, self._on_alarm)

    def _on_alarm(self) -> None:
        self._is_scheduled = False
        if self._file is not None:
            self._write(self._file)

    def _note_done(self, file: JobFile) -> None:
        """Note which requests are done. Those that a closing spider did not send are not."""
        interrupted = self._frontier.interrupted
        for request in file.in_flight.keys() - requests_in_progress(self._crawler):
            number = file.in_flight.pop(request)
            if request not in interrupted:
                file.done(number)

    def _note_pauses(self, file: JobFile) -> None:
        """Note the pauses that hosts have asked for, for the next run."""
        politeness, clock = self._frontier.politeness, self._frontier.clock
        pauses, politeness.new_pauses = politeness.new_pauses, {}
        for host, until in (pauses or {}).items():
            seconds = until - clock.monotonic()
            file.note_pause(host, clock.time() + seconds, seconds)

    def _write(self, file: JobFile) -> None:
        """Note which requests are done, and write what has changed."""
        self._note_done(file)
        self._note_pauses(file)
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


def _is_of_scrapy(folder: Path, *, keeps_seen: bool) -> bool:
    """Whether another scheduler has left requests or, if this one *keeps_seen*, fingerprints in *folder*."""
    queue, seen = (folder / name for name in _OF_SCRAPY)
    if keeps_seen and seen.exists() and seen.stat().st_size:
        return True
    files = (path for path in queue.rglob("*") if not path.is_dir())
    # Scrapy writes the list of its queues at the end: "[]" or "{}" if all of them are empty.
    return any(path.name != "active.json" or path.stat().st_size > 2 for path in files)


def _host_in_file(key: QueueKey) -> str:
    """Return *key* as the file of a JOBDIR has it: JSON."""
    origin = None if key.origin is None else str(key.origin)
    return json.dumps([key.slot, origin, key.is_service, key.is_of_http])


def _key_in_file(host: str, file: JobFile) -> QueueKey:
    try:
        slot, origin, is_service, is_of_http = json.loads(host)
        read = written_origin(origin) if origin else None
        return QueueKey(slot, read, is_service=is_service, is_of_http=is_of_http)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise JobError.unusable(file.path, f"it names no host: {error}") from error


class JobRequests:
    """The requests of a queue that are in the file of a ``JOBDIR``."""

    __slots__ = ("_back", "_file", "_host", "_job", "count")

    medium = "disk"

    def __init__(
        self, job: JobStore, file: JobFile | None, host: str, count: int = 0
    ) -> None:
        """*count* is the number of those that are in the file already. Without a *file*, none can be added."""
        self._job = job
        self._file = file
        self._host = host
        self._back: list[tuple[int, Request]] | None = None
        """The requests that have come back, with their numbers. The file has them as in flight."""

        self.count = count
        """The number of requests."""

    def push(self, request: Request) -> None:
        """Add *request*. Raises ValueError if it cannot be pickled, or the file cannot be used."""
        if self._file is None:
            raise ValueError("The file of this JOBDIR cannot be used")
        data, order = self._job.written(request), self._job.order(request)
        is_page = self._job.is_counted(request)
        self._file.add(self._host, data, *order, is_page=is_page)
        self.count += 1
        self._job.note_change()

    def pop(self) -> Request | None:
        """Remove and return the next request, which is in flight then. Return None if it cannot be
        read: then it stays in the file for the next run.
        """
        file, self.count = self._file, self.count - 1
        assert file is not None
        if self._back:
            number, request = self._back.pop(0)
            file.in_flight[request] = number
            return request
        try:
            number, data = file.pop(self._host)
            request = self._job.read(data)
        except JobError as error:
            self._job.stop(error)
            return None
        except Exception as error:  # noqa: BLE001  pickle, and the classes of the project, can raise any
            self._job.note_unreadable(self._host, error)
            return None
        file.in_flight[request] = number
        if number in file.counted:
            file.counted.discard(number)
            self._job.note_counted(request)
        return request

    def back(self, request: Request) -> None:
        """Put back *request*, which was popped, before all requests but those that were put back earlier."""
        assert self._file is not None
        if self._back is None:
            self._back = []
        self._back.append((self._file.in_flight.pop(request), request))
        self.count += 1

    def peek(self) -> Request | None:
        """Return the next request; None if it cannot be read, or not now."""
        if self._back:
            return self._back[0][1]
        try:
            if self._file is None or not self.count or not self._file.execute():
                return None
            return self._job.read(self._file.best(self._host)[1])
        except Exception:  # noqa: BLE001  as above
            return None
