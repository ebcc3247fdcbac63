"""The requests to one host, and the download slot that they are in."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_rep.frontier.hostkeys import HostKey
    from scrapy_rep.frontier.priorityqueue import HostRequests


class Owner(Protocol):
    """The queue of the scheduler that back queues are a part of."""

    def push(self, request: Request, *, is_exempt: bool = False) -> None: ...
    def take(self, queue: BackQueue) -> Request | None: ...
    def release(self, queue: BackQueue) -> None: ...
    def slot_changed(self, slot: Slot) -> None: ...
    def count_ready(self) -> int: ...


class Slot:
    """What Scrapy counts together, by its key: nearly always a host.

    Its limit is ``CONCURRENT_REQUESTS_PER_DOMAIN``, or an entry of ``DOWNLOAD_SLOTS``.
    """

    __slots__ = ("_parked", "active", "is_alarmed", "key", "queues")

    def __init__(self, key: str) -> None:
        self.key = key

        self.active = 0
        """The requests that were popped and are not done."""

        self.queues = 0
        """The back queues of this slot."""

        self.is_alarmed = False
        """Whether it is looked at again when its own delay has passed."""

        # Made when there is need: an empty deque takes more than all the rest.
        self._parked: deque[BackQueue] | None = None

    @property
    def is_waited_for(self) -> bool:
        return bool(self._parked)

    def park(self, queue: BackQueue) -> None:
        """Have *queue* wait until a request of the slot is done."""
        if self._parked is None:
            self._parked = deque()
        self._parked.append(queue)

    def next_parked(self) -> BackQueue:
        """The one that waited for longest, which then waits no more."""
        assert self._parked is not None
        queue = self._parked.popleft()
        if not self._parked:
            self._parked = None
        return queue


class BackQueue:
    """The requests of one owner to one host, in Scrapy's own queues.

    It is in one place at a time: among those that are ready, or parked with what it waits
    for.
    """

    __slots__ = ("key", "owner", "requests", "slot")

    def __init__(
        self,
        key: HostKey,
        slot: Slot,
        requests: HostRequests,
        owner: Owner,
    ) -> None:
        self.key = key
        self.slot = slot
        self.requests = requests
        self.owner = owner

    def __len__(self) -> int:
        return len(self.requests)

    def peek(self) -> Request | None:
        """The best request, or None where that can't be told."""
        try:
            return self.requests.peek()
        except Exception:  # noqa: BLE001  where it can't be read, to pop it says so
            return None

    def take(self) -> Request | None:
        """The best request, which then is no longer here; None where there is none."""
        return self.owner.take(self)

    def release(self) -> None:
        """What it waited for has come: it may be popped from."""
        self.owner.release(self)
