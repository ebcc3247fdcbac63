"""A priority queue for Scrapy's scheduler that knows which hosts are ready."""

from __future__ import annotations

import json
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.python import global_object_name

from scrapy_rep.base.compat import LoopWatch, requests_in_progress, wake
from scrapy_rep.base.log import CrawlLog
from scrapy_rep.crawl.frontier.backlog import Backlog, HostKey
from scrapy_rep.crawl.frontier.frontier import BackQueue, Frontier
from scrapy_rep.crawl.frontier.jobdir import JobDir, JobFile
from scrapy_rep.crawl.frontier.requests import (
    FileRequests,
    MemoryRequests,
    QueueClasses,
)
from scrapy_rep.exceptions import JobError
from scrapy_rep.protocol.origins import written_origin

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol
    from typing_extensions import Self

# In the JOBDIR. Nothing of this package is in Scrapy's requests.queue: what looks for Scrapy's
# queues there must find them, or nothing.
_FILE = Path("rep.queue", "requests.sqlite")

# What Scrapy writes to requests.queue for this class: a list that is empty when no request is left,
# as for its own class, which stops with a message of its own at one that is not empty.
_STATE = "active.json"
_LEFT = ["scrapy_rep.HostQueue"]

# Why a spider is closed that cannot use this file.
_REASON = "jobdir_unusable"

# Changes are written to the file of a JOBDIR when a page is done, at this number of changes, or
# after these seconds.
_CHANGES = 100
_COMMIT_AFTER = 0.05

# If the file cannot be written, it is tried again after these seconds, and while more changes than
# this wait in memory, no request is popped, since its callback would make more.
_RETRY_AFTER = 1.0
_MAX_CHANGES = 10_000


class HostQueue(Backlog):
    """Keeps requests by host, and pops one only when its host is ready.

    For Scrapy's setting ``SCHEDULER_PRIORITY_QUEUE``. A host is ready when its robots.txt
    is known, its delay has passed, and its download slot is not
    full. The ready host with the fewest requests under way goes first; of several, the one that has
    waited longest. ``push`` and ``pop`` cost O(log hosts).

    Without a JOBDIR, requests wait in Scrapy's own queues (``SCHEDULER_MEMORY_QUEUE``). With
    one, all of them are in one SQLite file, each until its callback has ended, in the order that
    ``SCHEDULER_DISK_QUEUE`` names. The process may be killed at any moment.

    A host is an origin in a download slot: its http and https do not wait for each
    other's robots.txt, but share a slot and a delay.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        """Called by the scheduler, with the other arguments of the class."""
        return cls(crawler, *args, **kwargs)

    def __init__(
        self,
        crawler: Crawler,
        downstream_queue_cls: type[QueueProtocol],
        key: str,
        startprios: Any = None,
        *,
        start_queue_cls: type[QueueProtocol] | None = None,
    ) -> None:
        """*key* is the folder of Scrapy's queue on disk, and empty for one in memory. *startprios*
        is what :meth:`close` returned.
        """
        self._crawler = crawler
        self._logger = CrawlLog(__name__, crawler)
        self._kinds = QueueClasses(crawler, downstream_queue_cls, start_queue_cls)
        self._frontier = Frontier.of(crawler)
        self._frontier.attach(self)
        self._queues: dict[HostKey, BackQueue] = {}
        self._count = 0
        self._resumed: list[BackQueue] = []
        self._file: JobFile | None = None
        self._is_on_disk = bool(key)
        self._watch: LoopWatch | None = None
        self._commit_at = inf
        self._failed_at = -inf
        self.ready = self._frontier.core.ready()
        self._state: Any = _LEFT
        if key:
            self._watch = LoopWatch()
            self._open(Path(key), startprios)
        else:
            _remove_torn_state(crawler)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, slot: str) -> bool:
        """Whether requests of a download slot are here, as in Scrapy's own class."""
        return any(key.slot == slot for key in self._queues)

    def push(self, request: Request) -> None:
        """Add *request*. Raises ValueError if it cannot be written to the file of a JOBDIR."""
        key = self._frontier.key_of(request)
        queue = self._queues.get(key)
        if queue is not None:
            queue.requests.push(request)
            self._count += 1
        else:
            requests = self._requests(key)
            requests.push(request)
            self._frontier.add(self._add(key, requests))
        if self._file is not None:
            self._file.add_offered(request)
            self._commit_in(_COMMIT_AFTER)
        if "proxy" in request.meta:
            self._frontier.note_cause(key, request)
        self._frontier.flush()

    def pop(self) -> Request | None:
        """Remove and return the best request of the next host; None if no host is ready."""
        frontier = self._frontier
        if frontier.is_stopped:
            return None
        frontier.settle()
        if self._file is not None:
            self._settle(self._file)
            if self._file.changes >= _MAX_CHANGES:
                return None
        if self._resumed:
            # Only now: no robots.txt may be fetched before the spider is open.
            resumed, self._resumed = self._resumed, []
            for queue in resumed:
                frontier.add(queue)
        request = None
        while request is None and frontier.has_room and not frontier.is_stopped:
            found = frontier.next(self.ready)
            if found is None:
                break
            try:
                request = self._take(found)
            finally:
                # There is no request, or an error, if it cannot be read.
                frontier.popped(found, request)
                if found.requests.count:
                    frontier.add(found)
                else:
                    self._drop(found)
        frontier.flush()
        return request

    def peek(self) -> Request | None:
        """Return the request that :meth:`pop` would return if its host is still ready."""
        queue = self.ready.first()
        return queue.requests.peek() if isinstance(queue, BackQueue) else None

    def close(self) -> Any:
        """Write what is left to the file, and close it. Return a state for the scheduler, which
        writes it as JSON.
        """
        for queue in self._queues.values():
            self._frontier.end(queue)
        self._queues.clear()
        if self._file is not None:
            self._commit()
        if self._watch is not None:
            self._watch.stop()
        if self._file is not None:
            if self._file.is_empty():
                self._state = []
            self._file.close()
            self._file = None
        if self._kinds.unreadable:
            self._logger.error(
                "%(count)d requests in the queue could not be read, and were not sent. They stay "
                "in %(file)s for the next run",
                count=self._kinds.unreadable,
                file=_FILE.name,
            )
        return self._state

    # For the frontier.

    def count_waiting(self) -> int:
        """Return the number of requests in this queue."""
        return self._count

    def count_ready(self) -> int:
        """Return the number of hosts whose next request may go."""
        return len(self.ready)

    def paused(self, host: str, seconds: float, own: float) -> None:
        """Note a pause in the file of a JOBDIR, for the next run."""
        if self._file is not None:
            until = self._frontier.clock.time() + seconds
            self._file.note_pause(host, until, seconds)

    # Back queues.

    def _take(self, queue: BackQueue) -> Request | None:
        before = queue.requests.count
        try:
            return queue.requests.pop()
        except JobError as error:
            self._stop(error)
            return None
        finally:
            self._count -= before - queue.requests.count

    def _requests(self, key: HostKey, saved: int = 0) -> MemoryRequests | FileRequests:
        if self._file is not None:
            return FileRequests(self._kinds, self._file, host_in_file(key), saved)
        if self._is_on_disk:
            raise ValueError("The queue of this JOBDIR cannot be used")
        return MemoryRequests(self._kinds)

    def _add(self, key: HostKey, requests: MemoryRequests | FileRequests) -> BackQueue:
        queue = BackQueue(self._frontier, key, self.ready, requests)
        self._queues[key] = queue
        self._count += len(queue)
        return queue

    def _drop(self, queue: BackQueue) -> None:
        if self._queues.pop(queue.key, None) is not None:
            self._frontier.end(queue)

    # The file of a JOBDIR.

    def _open(self, folder: Path, state: Any) -> None:
        for kind in self._kinds.of_other_packages():
            self._logger.warning(
                "%(kind)s is not used: with scrapy_rep.HostQueue, the requests of a JOBDIR are in "
                "%(file)s. Of SCHEDULER_DISK_QUEUE and SCHEDULER_START_DISK_QUEUE, only the order "
                "of Scrapy's own classes counts",
                kind=global_object_name(kind),
                file=_FILE.name,
            )
        path = folder.parent / _FILE
        try:
            if _is_of_others(folder, path, state):
                self._state = state
                raise JobError.of_others(folder.parent)
            self._file = file = JobFile(path)
            JobDir.of(self._crawler).file = file
            for host, left in file.pauses(self._frontier.clock.time()):
                self._frontier.paused_elsewhere(host, left, own=0.0, lasted=0.0)
            for host, count in file.hosts():
                key = _key_in_file(host, file)
                self._resumed.append(self._add(key, self._requests(key, count)))
        except JobError as error:
            self._stop(error)

    def _settle(self, file: JobFile) -> None:
        """Note which requests are done, and write that at once."""
        if self._note_done(file):
            self._commit_in(0.0)
        elif file.in_flight:
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
            if request not in self._frontier.closed_unsent:
                file.done(*taken)
        return bool(ended)

    def _commit_in(self, seconds: float) -> None:
        """Write the changes to the file in *seconds*, or at once if there are many."""
        assert self._file is not None
        now = self._frontier.clock.monotonic()
        retry_at = self._failed_at + _RETRY_AFTER
        at = max(now + seconds, retry_at)
        if self._file.changes >= _CHANGES and retry_at <= now:
            self._commit()
        elif at < self._commit_at:
            self._commit_at = at
            self._frontier.alarms.at(at, self._commit_if_due)

    def _commit_if_due(self) -> None:
        if self._commit_at <= self._frontier.clock.monotonic():
            self._commit()

    def _commit(self) -> None:
        self._commit_at = inf
        if self._file is None:
            return
        # Nothing is popped while the downloader is full, or the spider closes.
        self._note_done(self._file)
        if self._file.changes and not self._write(self._file):
            return
        if self._file.in_flight:
            self._commit_in(_COMMIT_AFTER)

    def _write(self, file: JobFile) -> bool:
        """Write the changes to *file*. Return whether that succeeded."""
        try:
            error = file.commit()
        except JobError as damage:
            self._stop(damage)
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
        self._failed_at = self._frontier.clock.monotonic()
        self._commit_in(0.0)
        return False

    def _stop(self, error: JobError) -> None:
        """Close the spider: nothing can be done without the file."""
        self._logger.error("The crawl stops: %(error)s", error=error)
        if self._file is not None:
            self._file.close()
            self._file = JobDir.of(self._crawler).file = None
        self._frontier.stop(_REASON)


def _remove_torn_state(crawler: Crawler) -> None:
    """Remove the state of the queue in a JOBDIR if the process was killed, or the disk was full,
    while Scrapy wrote it: Scrapy could not read it, and the file does not need it.

    Scrapy reads the state after it has made the queue in memory.
    """
    job = crawler.settings["JOBDIR"]
    if not job or not Path(job, _FILE).exists():
        return
    state = Path(job, "requests.queue", _STATE)
    with suppress(OSError):
        try:
            json.loads(state.read_bytes())
        except ValueError:
            state.unlink()


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


def host_in_file(key: HostKey) -> str:
    """Return *key* as the file of a JOBDIR has it: JSON."""
    flags = [True] if key.is_service else []
    return json.dumps([key.slot, key.origin and str(key.origin), *flags])


def _key_in_file(host: str, file: JobFile) -> HostKey:
    try:
        slot, origin, *is_service = json.loads(host)
        return HostKey(slot, written_origin(origin) if origin else None, *is_service)
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise JobError.unusable(file.path, f"it names no host: {error}") from error
