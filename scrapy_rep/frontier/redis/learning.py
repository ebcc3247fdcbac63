"""The queues whose robots.txt this worker fetches for all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_rep.frontier.backqueue import BackQueue
from scrapy_rep.frontier.demands import Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy import Request

    from scrapy_rep.frontier.backqueue import Owner, Slot
    from scrapy_rep.frontier.frontier import Frontier
    from scrapy_rep.frontier.hostkeys import HostKey
    from scrapy_rep.frontier.redis.worker import Popped, Unknown, Worker

# The limit of robots.txt files that are fetched at once. Unreachable ones, which will be
# fetched again later, do not count.
_MAX_LEARNING = 256

# The number of fetches to begin at once, and the seconds until the Redis server is asked for
# more if it had fewer queues than that, or none.
_AT_ONCE = 32
_PAUSE = 0.1
_IDLE_PAUSE = 0.5

# The seconds for which the robots.txt of a queue counts as known if its first request can't
# be read.
_UNREADABLE_HOLDS = 60.0


class RemoteQueue(BackQueue):
    """A back queue on the Redis server. Only its first request is known here."""

    __slots__ = ("_first", "_worker", "name")

    def __init__(
        self,
        key: HostKey,
        slot: Slot,
        owner: Owner,
        *,
        worker: Worker,
        name: str,
        first: Request,
    ) -> None:
        self.key = key
        self.slot = slot
        self.owner = owner
        self.name = name
        self._worker = worker
        self._first = first

    def __len__(self) -> int:
        return self._worker.count_queue(self.name)

    def peek(self) -> Request:
        return self._first


class Learning:
    """Lets the frontier fetch the robots.txt of queues, and reports it to the Redis server."""

    def __init__(
        self,
        frontier: Frontier,
        worker: Worker,
        owner: Owner,
        read: Callable[[bytes], Request | None],
        enough: int,
    ) -> None:
        self._frontier = frontier
        self._worker = worker
        self._owner = owner
        self._read = read
        self._enough = enough
        self._queues: dict[str, RemoteQueue] = {}
        self.again_at = float("-inf")
        """The moment from which to ask the server for more queues."""

    @property
    def queues(self) -> Iterable[str]:
        return self._queues

    def learn_more(self, now: float) -> None:
        """Ask the server for more queues, if there is room."""
        if now < self.again_at:
            return
        quota = self._quota()
        found = self._worker.learn(quota, self._enough) if quota > 0 else []
        if len(found) < quota or quota <= 0:
            self.again_at = now + (_PAUSE if found else _IDLE_PAUSE)
        for unknown in found:
            self.begin(unknown)

    def _quota(self) -> int:
        """The number of further queues whose robots.txt may be fetched now."""
        access = self._frontier.access
        under_way = len(self._queues)
        if access is not None and under_way >= _MAX_LEARNING:
            under_way -= sum(
                queue.key.origin is not None
                and access.hosts.is_unreachable(queue.key.origin)
                for queue in self._queues.values()
            )
        return min(_MAX_LEARNING - under_way, _AT_ONCE)

    def begin(self, unknown: Unknown) -> None:
        """Begin to fetch the robots.txt of a queue."""
        name = unknown.queue
        request = self._read(unknown.data)
        access = self._frontier.access
        if request is None or access is None:
            # Then the request can be popped, which logs the error and removes it.
            self._worker.learned(name, Terms(_UNREADABLE_HOLDS))
            return
        key = self._frontier.key_of(request)
        slot = self._frontier.slot(key.slot)
        queue = RemoteQueue(
            key, slot, self._owner, worker=self._worker, name=name, first=request
        )
        self._queues[name] = queue
        if unknown.delay:
            access.note_delay(queue, unknown.delay)
        if access.is_known(queue):
            self._owner.release(queue)
        elif "proxy" in request.meta:
            access.note_cause(queue, request)

    def end(self, queue: BackQueue) -> None:
        """Report the robots.txt of *queue* to the Redis server."""
        assert isinstance(queue, RemoteQueue)
        name = queue.name
        if self._queues.pop(name, None) is None:
            return
        self._frontier.leave_slot(queue.slot)
        access, origin = self._frontier.access, queue.key.origin
        self._worker.learned(name, access.terms(origin) if access and origin else None)

    def take(self, queue: BackQueue) -> Popped | None:
        """Pop a request of a queue whose host was given up; None if there is none."""
        assert isinstance(queue, RemoteQueue)
        popped, left = self._worker.take(queue.name)
        if not left and self._queues.pop(queue.name, None) is not None:
            self._frontier.leave_slot(queue.slot)
        return popped


def name_of(key: HostKey) -> str:
    """The name on the Redis server of the queue of requests with *key*: a host, a tab, and an
    origin.

    Delays apply to a host. The name for requests without a robots.txt is their download
    slot and a tab: only the limit of the slot applies to them.
    """
    if key.origin is None:
        return key.slot.replace("\t", " ") + "\t"
    return f"{key.host}\t{key.origin}"
