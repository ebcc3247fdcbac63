"""A least-recently-used cache that limits the number of its entries and their cost."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

V = TypeVar("V")


class LRU(Generic[V]):
    """Values by key: at most *max_entries*, with a total cost of at most *max_cost*. The
    caller of :meth:`put` gives the cost of a value, in any unit. Safe to use from several
    threads.
    """

    def __init__(self, max_entries: int, max_cost: int) -> None:
        self._max_entries = max_entries
        self._max_cost = max_cost
        self._kept: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._cost = 0
        self._mutex = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def cost(self) -> int:
        """The total cost of all values."""
        return self._cost

    def get(self, key: Hashable) -> V | None:
        """The value of *key*, which counts as used now; None if there is none."""
        with self._mutex:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: V, cost: int) -> None:
        """Store *value* under *key*, and remove the least recently used values beyond the
        limits. A value that alone costs more than the limit is not stored.
        """
        with self._mutex:
            self._pop(key)
            if cost > self._max_cost:
                return
            self._kept[key] = (value, cost)
            self._cost += cost
            while len(self._kept) > self._max_entries or self._cost > self._max_cost:
                self._cost -= self._kept.popitem(last=False)[1][1]

    def remove(self, key: Hashable) -> None:
        with self._mutex:
            self._pop(key)

    def clear(self) -> None:
        with self._mutex:
            self._kept.clear()
            self._cost = 0

    def _pop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._cost -= found[1]
