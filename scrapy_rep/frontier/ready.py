"""The order of the back queues whose hosts are ready."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.frontier.backqueue import BackQueue, Slot

# The heap is rebuilt only if it has more outdated entries than this.
_STALE_AT_LEAST = 64


class ReadyQueues:
    """The ready back queues in order. The slot with the fewest active requests comes first;
    of several such slots, the one that has waited longest.

    Each operation costs O(log slots).
    """

    def __init__(self) -> None:
        self._by_slot: dict[Slot, _SlotQueues] = {}
        self._heap: list[tuple[int, int, _SlotQueues]] = []
        self._turn = count()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, queue: BackQueue) -> None:
        """Add *queue* as the last one of its slot."""
        line = self._by_slot.get(queue.slot)
        if line is None:
            line = self._by_slot[queue.slot] = _SlotQueues(queue.slot)
            self._enter(line)
        line.queues.append(queue)
        self._size += 1

    def first(self) -> BackQueue | None:
        line = self._first_line()
        return None if line is None else line.queues[0]

    def take_first(self) -> BackQueue | None:
        """Remove and return the next back queue, if there is one."""
        line = self._first_line()
        if line is None:
            return None
        queue = line.queues.popleft()
        self._size -= 1
        if line.queues:
            self._enter(line)
        else:
            del self._by_slot[line.slot]
            line.entry = None
        return queue

    def slot_changed(self, slot: Slot) -> None:
        """Move *slot* to its new place after its number of active requests has changed."""
        line = self._by_slot.get(slot)
        if line is not None and line.entry is not None:
            self._enter(line)

    def _first_line(self) -> _SlotQueues | None:
        heap = self._heap
        while heap and heap[0] is not heap[0][2].entry:
            heappop(heap)
        return heap[0][2] if heap else None

    def _enter(self, line: _SlotQueues) -> None:
        line.entry = (line.slot.active, next(self._turn), line)
        heappush(self._heap, line.entry)
        if len(self._heap) > 2 * len(self._by_slot) + _STALE_AT_LEAST:
            self._heap = [each.entry for each in self._by_slot.values() if each.entry]
            heapify(self._heap)


@dataclass(slots=True, eq=False)
class _SlotQueues:
    """The ready back queues of a slot."""

    slot: Slot
    queues: deque[BackQueue] = field(default_factory=deque)

    entry: tuple[int, int, _SlotQueues] | None = None
    """The current entry in the heap; other entries of the slot are outdated."""
