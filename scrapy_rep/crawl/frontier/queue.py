"""A priority queue for Scrapy's scheduler that knows which hosts are ready."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuelib.queue import FifoDiskQueue, FifoSQLiteQueue, LifoSQLiteQueue
from scrapy import squeues
from scrapy.utils.misc import build_from_crawler

from scrapy_rep.crawl.frontier.backlog import Backlog
from scrapy_rep.crawl.frontier.core import Ticket, Where
from scrapy_rep.crawl.frontier.frontier import Frontier
from scrapy_rep.crawl.frontier.jobdir import JobDir

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol
    from typing_extensions import Self

    from scrapy_rep.crawl.frontier.backlog import HostKey
    from scrapy_rep.crawl.frontier.core import Ready
    from scrapy_rep.crawl.frontier.jobdir import FileRequests


# The number of hosts without requests that are kept: one that is being crawled has soon another.
_MAX_IDLE = 1_000

_rank_of = itemgetter(0)

_IN_MEMORY = {squeues.FifoMemoryQueue, squeues.LifoMemoryQueue}

# Shared by all that have none, and never changed.
_NO_LEVELS: list[tuple[int, Any]] = []


class BackQueue(Ticket):
    """The requests of one queue to one host."""

    __slots__ = ("key", "requests")

    is_direct = False

    def __init__(
        self,
        frontier: Frontier,
        key: HostKey,
        ready: Ready,
        requests: MemoryRequests | FileRequests,
    ) -> None:
        host, obeys = frontier.host_of(key)
        super().__init__(host, frontier.scopes_of(key), obeys=obeys, ready=ready)
        self.key = key
        self.requests = requests

    def __len__(self) -> int:
        return self.requests.count

    def peek(self) -> Request | None:
        """Return the best request; None if the queue class cannot peek."""
        try:
            return self.requests.peek()
        except Exception:  # noqa: BLE001  pop() raises the error
            return None


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
        for host, count in job.open(Path(key), startprios, kinds.order):
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
            job = self._job
            requests = MemoryRequests(self._kinds) if job is None else job.requests(key)
            requests.push(request)
            queue = self._add(key, requests)
        if queue.requests.count == 1:
            self._idle.pop(queue, None)
            self._frontier.add(queue)
            self._frontier.flush()
        if self._job is not None:
            self._job.added(request)
        if "proxy" in request.meta:
            self._frontier.note_proxy(queue, request)

    def pop(self) -> Request | None:
        """Remove and return the best request of the next host; None if no host is ready."""
        frontier, job = self._frontier, self._job
        if frontier.closes_for:
            return None
        # Only now: no robots.txt may be fetched before the spider is open.
        resumed, self._resumed = self._resumed, []
        for queue in resumed:
            frontier.add(queue)
        request = None
        try:
            while request is None and (job is None or job.is_ready()):
                if (found := frontier.next(self.ready)) is None:
                    break
                assert isinstance(found, BackQueue)
                requests, before = found.requests, found.requests.count
                try:
                    request = requests.pop()
                finally:
                    # There is no request, or an error, if it cannot be read.
                    self._count -= before - requests.count
                    frontier.popped(found, found.key, request)
                    if not requests.count:
                        self._rest(found)
                    elif found.where is not Where.READY:
                        frontier.add(found)
        finally:
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

    def paused(self, host: str, seconds: float, own: float) -> None:
        """Note a pause in the JOBDIR, for the next run."""
        if self._job is not None:
            self._job.note_pause(host, seconds)

    # Back queues.

    def _add(self, key: HostKey, requests: MemoryRequests | FileRequests) -> BackQueue:
        queue = BackQueue(self._frontier, key, self.ready, requests)
        self._queues[key] = queue
        self._count += requests.count
        return queue

    def _rest(self, queue: BackQueue) -> None:
        """Keep *queue*, which is empty, so that its next request finds its host and scopes. But not
        that of a host with a delay, at which it would count as one that waits.
        """
        if queue.key not in self._queues:
            return  # Its file cannot be used, so all are closed.
        if queue.where is Where.READY:
            self.ready.discard(queue)  # Its other requests could not be read.
        self._idle[queue] = None
        is_delayed = any(scope.delays for scope in queue.scopes)
        if is_delayed or len(self._idle) > _MAX_IDLE:
            gone = queue if is_delayed else next(iter(self._idle))
            del self._idle[gone], self._queues[gone.key]
            self._frontier.end(gone)


# Queues in memory.


class QueueClasses:
    """The classes of Scrapy's queues, for start requests and for others. Of those for a disk, only
    the order is used.
    """

    def __init__(
        self,
        crawler: Crawler,
        usual: type[QueueProtocol],
        of_start: type[QueueProtocol] | None,
    ) -> None:
        self.crawler = crawler
        self.of_start = of_start
        # Of even ranks, and of odd ones.
        self._classes = of_start or usual, usual
        self.are_scrapys = _IN_MEMORY.issuperset(self._classes)
        """Whether they are Scrapy's own, in memory."""

        self._are_last_first = tuple(not _is_fifo(each) for each in self._classes)

    def rank(self, request: Request) -> int:
        """Return the rank of *request*: the highest rank is popped first."""
        is_start = self.of_start is not None and request.meta.get("is_start_request")
        return 2 * request.priority + (not is_start)

    def order(self, request: Request) -> tuple[int, bool]:
        """Return the rank of *request*, and whether its class pops the last one of a rank first."""
        rank = self.rank(request)
        return rank, self._are_last_first[rank % 2]

    def of_other_packages(self) -> set[type[QueueProtocol]]:
        """Return the classes that are not Scrapy's own."""
        return {each for each in self._classes if each.__module__ != squeues.__name__}

    def open(self, rank: int) -> QueueProtocol:
        """Return a new queue in memory for requests of *rank*."""
        return build_from_crawler(self._classes[rank % 2], self.crawler, "")


def _is_fifo(kind: type) -> bool:
    is_lifo = issubclass(kind, LifoSQLiteQueue)  # A subclass of the other.
    return issubclass(kind, (FifoDiskQueue, FifoSQLiteQueue)) and not is_lifo


class MemoryRequests:
    """Works as Scrapy's ScrapyPriorityQueue, but in less memory, since there is one for each of
    many hosts. The only request of a host needs no queue.
    """

    __slots__ = ("_kinds", "_levels", "_only", "count")

    def __init__(self, kinds: QueueClasses) -> None:
        self._kinds = kinds
        self._only: tuple[int, Request] | None = None
        """A request that is in no queue, and its rank."""

        self._levels: list[tuple[int, QueueProtocol]] = _NO_LEVELS
        """The queues by rank. The best rank is the last one."""

        self.count = 0
        """The number of requests."""

    def push(self, request: Request) -> None:
        """Add *request*."""
        rank, levels = self._kinds.rank(request), self._levels
        if levels and levels[-1][0] == rank:
            levels[-1][1].push(request)
        elif not self.count and self._kinds.are_scrapys:
            self._only = rank, request
        else:
            if self._only is not None:
                self._push(*self._only)
                self._only = None
            self._push(rank, request)
        self.count += 1

    def _push(self, rank: int, request: Request) -> None:
        levels = self._levels
        index = bisect_left(levels, rank, key=_rank_of)
        if index < len(levels) and levels[index][0] == rank:
            levels[index][1].push(request)
            return
        queue = self._kinds.open(rank)
        queue.push(request)
        if levels:
            levels.insert(index, (rank, queue))
        else:
            self._levels = [(rank, queue)]  # insert() would allocate room for more.

    def pop(self) -> Request | None:
        """Remove and return the best request; None if there is none."""
        if self._only is not None:
            _, request = self._only
            self._only, self.count = None, 0
            return request
        levels = self._levels
        while levels:
            queue = levels[-1][1]
            before = after = len(queue)
            try:
                found: Request | None = queue.pop()
            finally:
                after = len(queue)
                self.count -= before - after
            if found is None and after == before:
                # A queue class of the project that cannot read a request must not be tried for ever.
                self.count -= after
                after = 0
            if not after:
                levels.pop()
                queue.close()
            if found is not None:
                return found
        return None

    def peek(self) -> Request | None:
        """Return the request that :meth:`pop` would return. Raises NotImplementedError if the
        queue class cannot peek.
        """
        if self._only is not None:
            return self._only[1]
        if not self._levels:
            return None
        queue: Any = self._levels[-1][1]
        if not hasattr(queue, "peek"):
            raise NotImplementedError
        request: Request | None = queue.peek()
        return request
