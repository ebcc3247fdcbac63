"""A priority queue for Scrapy's scheduler that knows which hosts are ready."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue

from scrapy_rep.exceptions import QueueStateError
from scrapy_rep.frontier.frontier import BackQueue, Frontier
from scrapy_rep.frontier.hostkeys import HostKey
from scrapy_rep.frontier.priorityqueue import HostRequests, QueueClasses
from scrapy_rep.protocol.origins import written_origin

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import QueueProtocol
    from typing_extensions import Self

_NAME = "scrapy_rep.HostQueue"

# The hexadecimal digits in the name of a back queue's folder.
_NAME_LENGTH = 32

# The number of requests that each pop moves to the back queues, from a queue that Scrapy's
# own class has written.
_SORTED_AT_ONCE = 50


class HostQueue:
    """Keeps requests by host, and pops one only when its host is ready.

    For Scrapy's setting ``SCHEDULER_PRIORITY_QUEUE``. A host is ready when its robots.txt
    is known, its delay has passed, it is open for visits, and its download slot is not
    full. Until then its requests stay in Scrapy's own queues (``SCHEDULER_MEMORY_QUEUE``,
    ``SCHEDULER_DISK_QUEUE``): on disk, in a crawl with a JOBDIR. The ready host with the
    fewest requests under way goes first; of several, the one that has waited longest.
    ``push`` and ``pop`` cost O(log hosts).

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
        """*key* is the folder of a queue on disk, and empty for one in memory. *startprios*
        is what :meth:`close` returned, of this class or of Scrapy's. Raises QueueStateError
        for anything else.
        """
        self._crawler = crawler
        self._queue_cls = downstream_queue_cls
        self._start_queue_cls = start_queue_cls
        self._folder = key
        self._kinds = QueueClasses(crawler, downstream_queue_cls, start_queue_cls)
        self._frontier = Frontier.of(crawler)
        self._frontier.queues.append(self)
        self._queues: dict[HostKey, BackQueue] = {}
        self._count = 0
        self._unsorted: DownloaderAwarePriorityQueue | ScrapyPriorityQueue | None = None
        self._resumed: list[BackQueue] = []
        self.ready = self._frontier.core.ready()
        if startprios:
            self._resume(startprios)
        elif key:
            self._remove_leftovers()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, slot: str) -> bool:
        """Whether requests of a download slot are here, as in Scrapy's own class."""
        return any(key.slot == slot for key in self._queues)

    def push(self, request: Request, *, is_exempt: bool = False) -> None:
        """Add *request*. If it *is_exempt*, it does not wait for robots.txt.

        Raises the error of Scrapy's queue class if that cannot serialize the request.
        """
        key = self._frontier.key_of(request)
        if is_exempt:
            key = key._replace(origin=None)
        queue = self._queues.get(key)
        if queue is not None:
            queue.requests.push(request)
            self._count += 1
        else:
            requests = HostRequests(self._kinds, self._path(key), ())
            requests.push(request)
            self._frontier.add(self._add(key, requests))
        if "proxy" in request.meta:
            self._frontier.note_cause(key, request)
        self._frontier.flush()

    def pop(self) -> Request | None:
        """Remove and return the best request of the next host; None if no host is ready."""
        frontier = self._frontier
        frontier.settle()
        if self._resumed:
            # Only now: no robots.txt may be fetched before the spider is open.
            resumed, self._resumed = self._resumed, []
            for queue in resumed:
                frontier.add(queue)
        if self._unsorted is not None:
            self._sort_some()
        request = None
        while request is None and frontier.has_room:
            found = frontier.next(self.ready)
            if found is None:
                break
            try:
                request = self._take(found)
            finally:
                # There is no request, or an error, if an earlier process was killed while
                # it wrote the file.
                frontier.popped(found, request)
                if found:
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
        """Close all queues. Return the state from which a queue of this class resumes with
        the files in the folder; the scheduler writes it as JSON.
        """
        state = [
            [*_written(key), prios]
            for key, queue in self._queues.items()
            if (prios := queue.requests.close())
        ]
        for queue in self._queues.values():
            self._frontier.end(queue)
        self._queues.clear()
        unsorted = self._unsorted.close() if self._unsorted is not None else None
        # A list, so that Scrapy's own queue class stops with its message that only the class
        # that wrote a queue can read it.
        return [_NAME, state, unsorted]

    # For the frontier.

    def take(self, queue: BackQueue) -> Request | None:
        try:
            return self._take(queue)
        finally:
            if not queue:
                self._drop(queue)

    def count_ready(self) -> int:
        return len(self.ready)

    # Back queues.

    def _take(self, queue: BackQueue) -> Request | None:
        before = len(queue)
        try:
            return queue.requests.pop()
        finally:
            self._count -= before - len(queue)

    def _add(self, key: HostKey, requests: HostRequests) -> BackQueue:
        queue = BackQueue(self._frontier, key, self.ready, self, requests)
        self._queues[key] = queue
        self._count += len(queue)
        return queue

    def _drop(self, queue: BackQueue) -> None:
        if self._queues.pop(queue.key, None) is None:
            return
        queue.requests.close()
        self._frontier.end(queue)
        if queue.requests.folder:
            # The folder stays if the queue class has not removed all of its files.
            with suppress(OSError):
                Path(queue.requests.folder).rmdir()

    def _path(self, key: HostKey) -> str:
        return self._path_of(_written(key))

    def _path_of(self, written: list[object]) -> str:
        """Return the folder of a back queue. Its name contains no text from a URL."""
        if not self._folder:
            return ""
        name = json.dumps(written)
        return f"{self._folder}/{sha256(name.encode()).hexdigest()[:_NAME_LENGTH]}"

    # Files of another run.

    def _remove_leftovers(self) -> None:
        """Remove the files of a process that was killed before it wrote its state. Without
        the state, a queue on these files would return requests that were done already, and
        lose as many new ones.
        """
        for folder in Path(self._folder).glob("[0-9a-f]" * _NAME_LENGTH):
            rmtree(folder, ignore_errors=True)

    def _resume(self, state: Any) -> None:
        try:
            self._read(state)
        except (AttributeError, RecursionError, TypeError, ValueError) as error:
            raise QueueStateError(self._folder) from error

    def _read(self, state: Any) -> None:
        if isinstance(state, dict):
            self._unsorted = self._scrapys_own(DownloaderAwarePriorityQueue, state)
            return
        if isinstance(state, list) and all(isinstance(each, int) for each in state):
            self._unsorted = self._scrapys_own(ScrapyPriorityQueue, state)
            return
        name, queues, unsorted = state
        if name != _NAME:
            raise ValueError(name)
        for *row, prios in queues:
            slot, url, _, *is_service = row
            requests = HostRequests(self._kinds, self._path_of(row), prios)
            key = HostKey(slot, written_origin(url) if url else None, *is_service)
            if len(requests):
                self._resumed.append(self._add(key, requests))
        if unsorted:
            self._read(unsorted)

    def _scrapys_own(self, kind: Any, state: Any) -> Any:
        queue = kind(
            self._crawler,
            self._queue_cls,
            self._folder,
            state,
            start_queue_cls=self._start_queue_cls,
        )
        self._count += len(queue)
        return queue

    def _sort_some(self) -> None:
        """Move some requests to back queues, from the queue that Scrapy's own class wrote."""
        assert self._unsorted is not None
        for _ in range(_SORTED_AT_ONCE):
            request = self._unsorted.pop()
            if request is None:
                # If requests are left, they cannot be read.
                self._count -= len(self._unsorted)
                self._unsorted.close()
                self._unsorted = None
                return
            self._count -= 1
            self.push(request)


def _written(key: HostKey) -> list[object]:
    """Return *key* as JSON values for the state and the folder name. ``is_service`` is left
    out if it is not set, so that the folders of earlier versions are found.
    """
    flags = [False, *([True] if key.is_service else [])]
    return [key.slot, key.origin and str(key.origin), *flags]
