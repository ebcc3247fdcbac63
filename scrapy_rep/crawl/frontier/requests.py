"""The requests to one host by priority, in memory."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from queuelib.queue import FifoDiskQueue, FifoSQLiteQueue, LifoSQLiteQueue
from scrapy import squeues
from scrapy.utils.misc import build_from_crawler

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol


_rank_of = itemgetter(0)

_IN_MEMORY = {squeues.FifoMemoryQueue, squeues.LifoMemoryQueue}

# Shared by all that have none, and never changed.
_NO_LEVELS: list[tuple[int, Any]] = []


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
        self.usual = usual
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

    def is_last_first(self, rank: int) -> bool:
        """Whether the class for requests of *rank* pops the last one first."""
        return self._are_last_first[rank % 2]

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
