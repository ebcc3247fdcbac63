"""The requests to one host by priority, each priority in one of Scrapy's queues."""

from __future__ import annotations

import os
from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from queuelib.queue import LifoDiskQueue
from scrapy.utils.misc import build_from_crawler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol

_rank_of = itemgetter(0)


class QueueClasses:
    """The classes of Scrapy's queues, for start requests and for others."""

    def __init__(
        self,
        crawler: Crawler,
        usual: type[QueueProtocol],
        of_start: type[QueueProtocol] | None,
    ) -> None:
        self._crawler = crawler
        self._usual = usual
        self._of_start = of_start

    def rank(self, request: Request) -> int:
        """Return the rank of *request*: the highest rank is popped first."""
        is_start = self._of_start is not None and request.meta.get("is_start_request")
        return 2 * request.priority + (not is_start)

    def ranks(self, priority: int) -> tuple[int, ...]:
        """Return the ranks that requests of a negated *priority* can have."""
        usual = -2 * priority + 1
        return (usual,) if self._of_start is None else (usual, usual - 1)

    def open(self, folder: str, rank: int) -> QueueProtocol:
        """Open a queue with the path that Scrapy's priority queue would use in *folder*."""
        path = f"{folder}/{_priority(rank)}"
        if rank % 2:
            return build_from_crawler(self._usual, self._crawler, path)
        assert self._of_start is not None
        return build_from_crawler(self._of_start, self._crawler, f"{path}s")


class HostRequests:
    """Works as Scrapy's ScrapyPriorityQueue, with the same files, but in less memory, since
    there is one for each of many hosts.
    """

    __slots__ = ("_kinds", "_levels", "folder")

    def __init__(
        self, kinds: QueueClasses, folder: str, priorities: Iterable[int]
    ) -> None:
        """*priorities* are what :meth:`close` returned for *folder*."""
        self._kinds = kinds
        self.folder = folder
        ranks = [rank for number in set(priorities) for rank in kinds.ranks(number)]
        levels = [(rank, kinds.open(folder, rank)) for rank in sorted(ranks)]
        for _, queue in levels:
            if not len(queue):
                queue.close()
        # The best rank is the last one.
        self._levels = [level for level in levels if len(level[1])]

    def __len__(self) -> int:
        levels = self._levels
        if len(levels) == 1:
            return len(levels[0][1])
        return sum(len(queue) for _, queue in levels)

    def push(self, request: Request) -> None:
        """Raises what the queue class raises for a request that it cannot write."""
        rank = self._kinds.rank(request)
        levels = self._levels
        index = bisect_left(levels, rank, key=_rank_of)
        if index < len(levels) and levels[index][0] == rank:
            levels[index][1].push(request)
            return
        queue = self._kinds.open(self.folder, rank)
        try:
            queue.push(request)
        except Exception:
            queue.close()
            raise
        if levels:
            levels.insert(index, (rank, queue))
        else:
            self._levels = [(rank, queue)]  # insert() would allocate room for more.

    def pop(self) -> Request | None:
        """Remove and return the best request; None if none can be read."""
        levels = self._levels
        while levels:
            queue = levels[-1][1]
            before = len(queue)
            request = queue.pop()
            # A queue that cannot be read, because its process was killed, must not be tried
            # again.
            is_stuck = request is None and len(queue) == before
            if is_stuck or not len(queue):
                levels.pop()
                queue.close()
            if request is not None:
                return request
        return None

    def peek(self) -> Request | None:
        """Return the request that :meth:`pop` would return. Raises NotImplementedError if the
        queue class cannot peek.
        """
        levels = [queue for _, queue in self._levels if len(queue)]
        if not levels:
            return None
        queue: Any = levels[-1]
        if not hasattr(queue, "peek"):
            raise NotImplementedError
        try:
            request: Request | None = queue.peek()
        finally:
            # queuelib 1.10 leaves the file position where the next push would overwrite
            # data.
            if isinstance(queue, LifoDiskQueue):
                queue.f.seek(0, os.SEEK_END)
        return request

    def close(self) -> list[int]:
        """Close all queues. Return the negated priorities of those that hold requests."""
        for _, queue in self._levels:
            queue.close()
        found = {_priority(rank) for rank, _ in self._levels}
        self._levels = []
        return sorted(found)


def _priority(rank: int) -> int:
    """Return the negated priority of *rank*, by which Scrapy names queues."""
    return -(rank // 2)
