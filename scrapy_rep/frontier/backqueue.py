"""Back queues: the requests to one host each, and the download slots that they are in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.frontier.hostkeys import HostKey
    from scrapy_rep.frontier.priorityqueue import HostRequests


class Owner(Protocol):
    """The scheduler's queue, which owns back queues."""

    def push(self, request: Request, *, is_exempt: bool = False) -> None: ...
    def take(self, queue: BackQueue) -> Request | None: ...
    def release(self, queue: BackQueue) -> None: ...
    def slot_changed(self, slot: Slot) -> None: ...
    def count_ready(self) -> int: ...


@dataclass(slots=True, eq=False)
class Slot:
    """A download slot of Scrapy, by its key, which is nearly always a host.

    ``CONCURRENT_REQUESTS_PER_DOMAIN`` or ``DOWNLOAD_SLOTS`` limits its active requests.
    """

    key: str

    active: int = 0
    """The requests that were popped and are not done."""

    queues: int = 0
    """The back queues of this slot."""

    is_alarmed: bool = False
    """Whether an alarm is set for the end of its own delay."""

    # Made when it is needed: an empty deque takes more memory than all else here.
    _parked: deque[BackQueue] | None = None

    @property
    def is_waited_for(self) -> bool:
        return bool(self._parked)

    def park(self, queue: BackQueue) -> None:
        """Make *queue* wait until a request of the slot is done."""
        if self._parked is None:
            self._parked = deque()
        self._parked.append(queue)

    def next_parked(self) -> BackQueue:
        """Remove and return the queue that has waited longest."""
        assert self._parked is not None
        queue = self._parked.popleft()
        if not self._parked:
            self._parked = None
        return queue


@dataclass(slots=True, eq=False)
class BackQueue:
    """The requests of one owner to one host, in Scrapy's own queues.

    It is in one place at a time: among the ready ones, or parked with what it waits for.
    """

    key: HostKey
    slot: Slot
    requests: HostRequests
    owner: Owner

    def __len__(self) -> int:
        return len(self.requests)

    def peek(self) -> Request | None:
        """The best request, or None where the queue class cannot tell."""
        try:
            return self.requests.peek()
        except Exception:  # noqa: BLE001  popping it raises the error
            return None

    def take(self) -> Request | None:
        """Remove and return the best request; None where there is none."""
        return self.owner.take(self)

    def release(self) -> None:
        """End its waiting: it may be popped from."""
        self.owner.release(self)
