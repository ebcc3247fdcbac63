"""Stores the queues of a crawl in its ``JOBDIR``, so that the crawl can be resumed. This module decides when the
changes are written; :mod:`~scrapy_rep.crawl.frontier.jobfile` reads and writes the file.
"""

from __future__ import annotations

import json
import pickle
from heapq import heappop, heappush
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.utils.python import global_object_name
from scrapy.utils.request import request_from_dict

from scrapy_rep.base.compat import requests_in_progress, wake
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.base.requests import RequestDicts
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.jobfile import JobFile
from scrapy_rep.crawl.frontier.queues import QueueKey, RequestOrder
from scrapy_rep.exceptions import JobError, SettingError
from scrapy_rep.protocol.origins import parse_origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

# The path of the file in the JOBDIR. This package writes nothing into Scrapy's own folder requests.queue.
_FILE = Path("rep.queue", "requests.sqlite")

# The folder of Scrapy's own scheduler in the JOBDIR, and the file of its duplicate filter.
_FILES_OF_SCRAPY = ("requests.queue", "requests.seen")

# The reason (finish_reason) of a crawl that ends because the file cannot be used.
_FINISH_REASON = "jobdir_unusable"

# The number of seconds for which changes are collected before they are written in one transaction.
_WRITE_EVERY = 0.05

# The number of seconds between a failed write of the file and the next attempt. Each attempt executes all waiting
# changes again. So if the changes take more than _MAX_WAITING bytes, the interval is longer, in proportion to their
# size.
_RETRY_AFTER = 1.0

# While the changes that are not written to the file yet take more than this number of bytes, no request is popped,
# because the callback of the request would add more changes.
_MAX_WAITING = 10_000_000

# The settings priority with which an unusable JOBDIR is unset. It is higher than all of Scrapy's priorities, so that
# the value from the command line does not win.
_ABOVE_ALL = 1000

# The number of bytes that are stored of each fingerprint. After a billion requests, the probability that a new request
# is wrongly treated as a duplicate is 5 in 10^11.
_FINGERPRINT_BYTES = 8


def prepare_folder(crawler: Crawler, settings: BaseSettings) -> None:
    """Create the ``JOBDIR`` if it is missing. If the folder cannot be created or written, unset ``JOBDIR`` in
    *settings*, and stop the crawl with a message as soon as the spider is open. Without this check, Scrapy would fail
    with a traceback.
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
            Frontier.of(crawler).stop(_FINISH_REASON)

        crawler.signals.connect(stop, signals.spider_opened, weak=False)


def check_folder(crawler: Crawler, settings: BaseSettings) -> None:
    """Raise SettingError if the ``JOBDIR`` contains a crawl of ``scrapy_rep.Scheduler``, but *settings* select another
    scheduler. That scheduler would ignore the saved crawl and start from the beginning.
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
            "another folder: this one contains a crawl of scrapy_rep.Scheduler, which the current SCHEDULER, "
            f"{name}, cannot resume. Set SCHEDULER to scrapy_rep.Scheduler to resume the crawl, or choose a new folder",
        )


def _log_stop(logger: CrawlLog, error: JobError) -> None:
    logger.error("The crawl stops: %(error)s", error=error)


class JobStore:
    """Stores the requests of a crawl in the file of its ``JOBDIR``, together with the fingerprints of seen requests,
    the pauses of hosts, and the number of pages of each host.
    """

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        order: RequestOrder,
        *,
        memory_order: RequestOrder,
    ) -> None:
        """Create a store for the ``JOBDIR`` of the settings. The store accesses no file before :meth:`open`.

        :param order: the order in which requests in the file are popped
        :param memory_order: the order in which requests in memory are popped. Requests that cannot be pickled wait in
            memory
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._frontier = frontier
        frontier.politeness.collect_pauses()
        self.order = order
        self.memory_order = memory_order
        self._dicts = RequestDicts(crawler)
        self._file: JobFile | None = None
        """The open file; None before :meth:`open`, after an error, and after :meth:`close`."""

        self.in_flight: dict[Request, int] = {}
        """The requests that were popped from the file and whose callbacks have not ended yet. The values are the
        numbers by which the file identifies the requests."""

        self._unreadable = 0
        self._is_scheduled = False
        self._is_failing = False
        self._has_refused = False
        """Whether :meth:`is_ready` has returned False since the last successful write. If so, the next successful write
        must wake the engine."""

    def open(self, *, keeps_seen: bool) -> Iterator[tuple[QueueKey, JobRequests]]:
        """Open the file of the JOBDIR, restore the pauses and page counts of hosts from an earlier run, and yield the
        key and the requests of each queue in the file.

        If the file cannot be used, log an error and stop the crawl. If there is no file, and the JOBDIR contains
        requests of Scrapy's scheduler, log an error and stop the crawl.

        :param keeps_seen: whether the file stores the fingerprints of seen requests. If True, fingerprints of Scrapy's
            duplicate filter in the JOBDIR are treated like requests of Scrapy's scheduler
        """
        folder = Path(self._crawler.settings["JOBDIR"])
        path = folder / _FILE
        try:
            if not path.exists() and _is_of_scrapy(folder, keeps_seen=keeps_seen):
                raise JobError.of_another_scheduler(folder)
            self._file = file = JobFile(path)
            clock, limits = self._frontier.clock, self._frontier.limits
            for host, seconds in file.pauses(clock.time()):
                now = clock.monotonic()
                limits.resume_pause(limits.limiter(host), now, until=now + seconds)
            budget = self._frontier.budget
            if budget is not None:
                budget.store_with(self)
                budget.resume(file.pages())
            for host, count in file.hosts():
                # Requests in the file mean that hosts answered in an earlier run. So if no host answers in this run,
                # the likeliest cause is the network of the crawler.
                limits.network.worked_before()
                key = _key_of_text(host, file)
                yield key, JobRequests(self, host, count)
        except JobError as error:
            self.stop(error)

    @property
    def is_open(self) -> bool:
        """Whether the file is open. It is not open if the file cannot be used, or if the crawl has ended. Then the
        scheduler accepts no requests and hands out none.
        """
        return self._file is not None

    @property
    def file(self) -> JobFile:
        """The open file."""
        assert self._file is not None
        return self._file

    def stop(self, error: JobError) -> None:
        """Log *error*, and close the file and the spider, because the crawl cannot continue without the file."""
        _log_stop(self._logger, error)
        if self._file is not None:
            self._file.close()
            self._file = None
        self._frontier.stop(_FINISH_REASON)

    def close(self) -> None:
        """Write the last changes to the file, and close the file."""
        if self._file is not None:
            self._write(self._file)
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._unreadable:
            self._logger.error(
                "%(count)d requests in the queue could not be read, and were not sent. The log contains the "
                "first error. The requests stay in %(file)s, and the next run tries them again",
                count=self._unreadable,
                file=_FILE.name,
            )

    # Reading and writing requests and fingerprints.

    def requests(self, key: QueueKey) -> JobRequests:
        """Return the empty store for the requests of a new queue with *key*."""
        return JobRequests(self, _text_of_key(key))

    def fingerprint(self, request: Request) -> int:
        """Return the fingerprint of *request* as the file stores it: a signed integer of 64 bits."""
        whole = self._crawler.request_fingerprinter.fingerprint(request)
        return int.from_bytes(whole[:_FINGERPRINT_BYTES], "big", signed=True)

    def seen(self) -> set[int]:
        """Return the fingerprints of all seen requests in the file."""
        return set() if self._file is None else self._file.seen()

    def add_seen(self, fingerprint: int) -> None:
        """Store *fingerprint* in the same transaction as its request, which was pushed just before."""
        if self._file is not None:
            self._file.add_seen(fingerprint)

    def read(self, data: bytes | None) -> Request:
        """Deserialise *data* and return the request. Raises an exception of any type if *data* is damaged, or needs
        classes that the project no longer has. *data* is None if its checksum in the file was wrong. Then ValueError is
        raised.
        """
        if data is None:
            raise ValueError("the stored data is damaged: its checksum is wrong")
        fields = pickle.loads(data)  # noqa: S301  only runs of this crawl write the file
        return request_from_dict(fields, spider=self._crawler.spider)

    def written(self, request: Request) -> bytes:
        """Return *request* in its serialised form for the file. Raises an exception of any type if *request* cannot be
        pickled.
        """
        return pickle.dumps(self._dicts.to_dict(request), protocol=4)

    def note_unreadable(self, error: Exception) -> None:
        """Count a request in the file that cannot be deserialised because of *error*. Log the first such request. All
        such requests stay in the file.
        """
        self._unreadable += 1
        if self._unreadable == 1 and self._file is not None:
            self._logger.error(
                "A request in %(path)s cannot be read: %(error)r. The request is not sent, but stays in the file, and "
                "the next run tries to read it again. If the error names a method or class that the project no longer "
                "has, restore that method or class before the next run. Further such requests are only counted, and "
                "their number is logged at the end of the crawl",
                path=self._file.path,
                error=error,
            )

    # The page budget (REP_PAGES_PER_HOST): which requests were counted as pages of their host.

    def note_counted(self, request: Request) -> None:
        """Have the page budget admit *request* without counting it, because an earlier run has counted it as a page."""
        if self._frontier.budget is not None:
            self._frontier.budget.pass_free(request)

    def is_counted(self, request: Request) -> bool:
        """Whether *request*, which is about to be stored, is a retry or a redirect of a page that was already counted
        for ``REP_PAGES_PER_HOST``. The result is stored with the request: if this run is killed, the next run does not
        count the page a second time.
        """
        budget = self._frontier.budget
        return budget is not None and budget.repeats_counted_page(request)

    def keep_page(self, request: Request, host: str, change: int) -> None:
        """Add *change* (1 or -1) to the page count of *host*, because *request* counts as a page (1), or no longer does
        (-1). A change of 1 is written to the file before this method returns, and so before the request is sent. So the
        count stays correct even if the process is killed. While the file cannot be written, the change waits in memory.
        """
        file = self._file
        if file is not None:
            file.note_page(self.in_flight.get(request), host, change)
            if change > 0 and not self._is_failing:
                self._write(file)

    # Writing changes to the file, and handling errors of the file.

    def note_change(self) -> None:
        """Schedule a write of the waiting changes. If they take much memory, write them now."""
        file = self._file
        if file is not None:
            if file.waiting >= _MAX_WAITING and not self._is_failing:
                # A callback has just yielded many requests. The write frees their memory.
                self._write(file)
            self._write_soon()

    def is_ready(self) -> bool:
        """Prepare the file of the ``JOBDIR`` for popping a request, and return whether a request may be popped now.

        To prepare the file, the method executes the changes that wait in memory in a SQLite transaction, and schedules
        the commit of the transaction. The result is False in these cases:

        - The file is not open.
        - The file cannot be written, and too many changes wait in memory.
        - SQLite cannot execute the changes.
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
        """Delete from *file* the requests that the engine no longer lists as in progress, because their callbacks
        have ended. Requests that were not sent because the spider is closing stay in the file for the next run.
        """
        interrupted = self._frontier.interrupted
        for request in self.in_flight.keys() - requests_in_progress(self._crawler):
            number = self.in_flight.pop(request)
            if request not in interrupted:
                file.done(number)

    def _note_pauses(self, file: JobFile) -> None:
        """Store in *file* the pauses that hosts have asked for since the last call, so that the next run keeps them
        too.
        """
        clock = self._frontier.clock
        for host, until in self._frontier.politeness.take_new_pauses().items():
            seconds = until - clock.monotonic()
            file.note_pause(host, clock.time() + seconds, seconds)

    def _write(self, file: JobFile) -> None:
        """Write all waiting changes to *file*. Before that, add the changes for requests that are done and for new
        pauses of hosts. If the write fails, log the error, and schedule the next attempt.
        """
        self._note_done(file)
        self._note_pauses(file)
        try:
            error = file.commit() if file.waiting else None
        except JobError as damage:
            self.stop(damage)
            return
        if error is not None:
            self._write_soon(_RETRY_AFTER * max(1, file.waiting / _MAX_WAITING))
        elif self.in_flight:
            # When a request in flight ends, its removal must be written to the file. Usually, the next pop schedules a
            # write. But no request is popped while the downloader is full or the spider is closing, so the next write
            # is scheduled here.
            self._write_soon()
        was_failing, self._is_failing = self._is_failing, error is not None
        if was_failing and error is None:
            self._logger.info(
                "%(path)s can be written again, and contains all changes",
                path=file.path,
            )
        elif error is not None and not was_failing:
            self._logger.warning(
                "%(path)s cannot be written: %(error)s. Remove the cause, such as the lack of disk space, or another "
                "program that has locked the file. Until then, changes are kept in memory, and the crawl tries again "
                "to write them. No request is sent while the changes take more than %(most)d MB, or while another "
                "program has locked the file. If the crawl ends before the changes are written, the next run fetches "
                "again what was fetched since the last write",
                path=file.path,
                error=error,
                most=_MAX_WAITING // 1_000_000,
            )
        if self._has_refused and error is None:
            self._has_refused = False
            wake(self._crawler)


def _is_of_scrapy(folder: Path, *, keeps_seen: bool) -> bool:
    """Whether another scheduler has used *folder*, the ``JOBDIR``: the folder contains requests in the queues of
    Scrapy's scheduler, or fingerprints in the file of Scrapy's duplicate filter.

    *keeps_seen* is whether this crawl stores the fingerprints of seen requests in the file of this package. If False,
    the file of Scrapy's duplicate filter is ignored: this crawl can have written it, with its own ``DUPEFILTER_CLASS``.
    """
    queue, seen = (folder / name for name in _FILES_OF_SCRAPY)
    if keeps_seen and seen.exists() and seen.stat().st_size:
        return True
    files = (path for path in queue.rglob("*") if not path.is_dir())
    # At the end of a crawl, Scrapy's scheduler writes a list of its queues to active.json. The list is "[]" or "{}" if
    # all queues are empty.
    return any(path.name != "active.json" or path.stat().st_size > 2 for path in files)


def _text_of_key(key: QueueKey) -> str:
    """Return *key*, the key of a queue, as text for the file of a JOBDIR. The text is a JSON array of the four
    attributes of *key*, for example ``["example.com", "https://example.com", false, true]``. See :class:`QueueKey`.
    """
    origin = None if key.origin is None else str(key.origin)
    return json.dumps([key.slot, origin, key.is_service, key.is_of_http])


def _key_of_text(host: str, file: JobFile) -> QueueKey:
    """Return the key of a queue. *host* is the text by which *file* identifies the queue, in the format of
    :func:`_text_of_key`. Raises JobError if the text is invalid; the message names the path of *file*.
    """
    try:
        slot, origin, is_service, is_of_http = json.loads(host)
        read = parse_origin(origin) if origin else None
        return QueueKey(slot, read, is_service=is_service, is_of_http=is_of_http)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise JobError.unusable(
            file.path, f"the file has an invalid host: {error}"
        ) from error


class JobRequests:
    """The requests of one queue of a crawl with a ``JOBDIR``. The protocol
    :class:`~scrapy_rep.crawl.frontier.limits.Requests` describes the methods.

    The requests are in the file of the ``JOBDIR``, with two exceptions. Requests that cannot be pickled, and requests
    that were popped and put back, wait in memory. They are popped before the requests in the file.
    """

    __slots__ = ("_heap", "_host", "_job", "count")

    medium = "disk"

    def __init__(self, job: JobStore, host: str, count: int = 0) -> None:
        """Create the store for one queue.

        :param host: the key of the queue, as text in the format of :func:`_text_of_key`, for example
            ``["example.com", "https://example.com", false, true]``
        :param count: the number of requests that the file of *job* already contains in this queue
        """
        self._job = job
        self._host = host
        self._heap: list[tuple[float, int, int | None, Request]] = []
        """The requests in memory, as a heap. Each entry contains the sort key (the first two values), the number of the
        request in the file, and the request. The number is None if the request is not in the file, because it cannot be
        pickled. If there is a number, the request was popped and put back, and the file still marks it as in flight."""

        self.count = count
        """The number of requests in the queue."""

    def push(self, request: Request) -> Exception | None:
        """Add *request* to the queue, in the file, and return None. If *request* cannot be pickled, add it to the queue
        in memory, and return the error.
        """
        job = self._job
        try:
            data = job.written(request)
        except Exception as error:  # noqa: BLE001  pickling objects of the project can raise any error
            heappush(self._heap, (*job.memory_order.key(request), None, request))
            self.count += 1
            return error
        order, is_counted = job.order.of(request), job.is_counted(request)
        job.file.add(self._host, data, *order, is_counted=is_counted)
        self.count += 1
        job.note_change()
        return None

    def pop(self) -> Request | None:
        """Remove the next request from the queue and return it. The file marks the request as in flight, and keeps it
        until its callback has ended.

        If the request cannot be deserialised, return None; the request stays in the file for the next run. If the file
        is damaged, stop the crawl and return None.
        """
        self.count -= 1
        if self._heap:
            *_, number_in_file, request = heappop(self._heap)
            if number_in_file is not None:
                self._job.in_flight[request] = number_in_file
            return request
        file = self._job.file
        try:
            number, data, was_counted = file.pop(self._host)
            request = self._job.read(data)
        except JobError as error:
            self._job.stop(error)
            return None
        except Exception as error:  # noqa: BLE001  unpickling classes of the project can raise any error
            self._job.note_unreadable(error)
            return None
        self._job.in_flight[request] = number
        if was_counted:
            self._job.note_counted(request)
        return request

    def back(self, request: Request) -> None:
        """Put *request*, which was popped but not sent, back at the front of the queue, behind requests that were put
        back earlier.
        """
        self.count += 1
        number = self._job.in_flight.pop(request, None)
        key = self._job.memory_order.key_at_front()
        heappush(self._heap, (*key, number, request))

    def medium_of(self, request: Request) -> str:
        """Return where *request* is stored while it is in flight: ``"disk"`` if it is in the file, ``"memory"`` if it
        could not be pickled.
        """
        return "disk" if request in self._job.in_flight else "memory"

    def peek(self) -> Request | None:
        """Return the next request without removing it. Return None if the queue is empty, or if the request cannot be
        read from the file now.
        """
        if self._heap:
            return self._heap[0][-1]
        if not self.count or not self._job.is_open:
            return None
        file = self._job.file
        try:
            if not file.execute():
                return None
            return self._job.read(file.best(self._host)[1])
        except Exception:  # noqa: BLE001  as in pop(), which will report the error
            return None
