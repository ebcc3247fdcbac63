"""Back queues, each with the requests to one host, and download slots."""

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
    """Whether an alarm is set for the end of the slot's own delay (``DOWNLOAD_DELAY``)."""

    # Created when needed: an empty deque takes more memory than the rest of the slot.
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

    A back queue is either ready or parked in the object that will release it, never both.
    """

    key: HostKey
    slot: Slot
    requests: HostRequests
    owner: Owner

    def __len__(self) -> int:
        return len(self.requests)

    def peek(self) -> Request | None:
        """Return the best request; None if the queue class cannot peek."""
        try:
            return self.requests.peek()
        except Exception:  # noqa: BLE001  pop() raises the error
            return None

    def take(self) -> Request | None:
        return self.owner.take(self)

    def release(self) -> None:
        """Make the queue ready again after it was parked."""
        self.owner.release(self)
