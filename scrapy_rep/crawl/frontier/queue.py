"""A priority queue for Scrapy's scheduler that knows which hosts are ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_rep.crawl.frontier.backlog import Backlog
from scrapy_rep.crawl.frontier.frontier import BackQueue, Frontier
from scrapy_rep.crawl.frontier.jobdir import JobDir
from scrapy_rep.crawl.frontier.requests import MemoryRequests, QueueClasses
from scrapy_rep.exceptions import JobError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.backlog import HostKey
    from scrapy_rep.crawl.frontier.jobdir import FileRequests


# The number of hosts without requests that are kept: one that is being crawled has soon another.
_MAX_IDLE = 1_000


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
        self._kinds = QueueClasses(crawler, downstream_queue_cls, start_queue_cls)
        self._frontier = Frontier.of(crawler)
        self._frontier.attach(self)
        self._queues: dict[HostKey, BackQueue] = {}
        self._idle: dict[BackQueue, None] = {}
        """Those that are empty, the first one first."""

        self._count = 0
        self._resumed: list[BackQueue] = []
        self.ready = self._frontier.core.ready()
        job, kinds = JobDir.of(crawler), self._kinds
        self._job = job if key else None
        if self._job is None:
            job.prepare(self._frontier)
            return
        job.warn_of_classes(kinds.of_other_packages())
        how = kinds.rank, kinds.is_last_first
        for host, count in job.open(Path(key), startprios, *how):
            self._resumed.append(self._add(host, job.requests(host, count)))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, slot: str) -> bool:
        """Whether requests of a download slot are here, as in Scrapy's own class."""
        return any(key.slot == slot for key, found in self._queues.items() if found)

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
            queue = self._add(key, requests)
        if queue.requests.count == 1:
            self._idle.pop(queue, None)
            self._frontier.refill(queue)
            self._frontier.flush()
        if self._job is not None:
            self._job.added(request)
        if "proxy" in request.meta:
            self._frontier.note_proxy(key, request)

    def pop(self) -> Request | None:
        """Remove and return the best request of the next host; None if no host is ready."""
        frontier = self._frontier
        if frontier.is_stopped:
            return None
        if self._job is not None:
            self._job.settle()
            if self._job.is_behind:
                return None
        if self._resumed:
            # Only now: no robots.txt may be fetched before the spider is open.
            resumed, self._resumed = self._resumed, []
            for queue in resumed:
                frontier.add(queue)
        request = None
        while request is None and (found := frontier.next(self.ready)) is not None:
            before = found.requests.count
            try:
                request = found.requests.pop()
            except JobError as error:
                assert self._job is not None
                self._job.stop(error)
            finally:
                # There is no request, or an error, if it cannot be read.
                self._count -= before - found.requests.count
                frontier.popped(found, request)
                if not found.requests.count:
                    self._rest(found)
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
        self._idle.clear()
        return None if self._job is None else self._job.close()

    # For the frontier.

    def count_waiting(self) -> int:
        """Return the number of requests in this queue."""
        return self._count

    def count_ready(self) -> int:
        """Return the number of hosts whose next request may go."""
        return len(self.ready)

    def paused(self, host: str, seconds: float, own: float) -> None:
        """Note a pause in the JOBDIR, for the next run."""
        if self._job is not None:
            self._job.note_pause(host, seconds)

    # Back queues.

    def _requests(self, key: HostKey) -> MemoryRequests | FileRequests:
        if self._job is not None:
            return self._job.requests(key)
        return MemoryRequests(self._kinds)

    def _add(self, key: HostKey, requests: MemoryRequests | FileRequests) -> BackQueue:
        queue = BackQueue(self._frontier, key, self.ready, requests)
        self._queues[key] = queue
        self._count += len(queue)
        return queue

    def _rest(self, queue: BackQueue) -> None:
        """Keep *queue*, which is empty, so that its next request finds its host and scopes. But not
        that of a host with a delay, at which it would count as one that waits.
        """
        if any(scope.delays for scope in queue.scopes):
            self._drop(queue)
        elif queue.key in self._queues:
            self._idle[queue] = None
            if len(self._idle) > _MAX_IDLE:
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                self._drop(oldest)

    def _drop(self, queue: BackQueue) -> None:
        if self._queues.pop(queue.key, None) is not None:
            self._frontier.end(queue)
