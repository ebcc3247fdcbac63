"""A store in the memory of this process."""

from __future__ import annotations

from scrapy_rep.exceptions import StoreError
from scrapy_rep.stores.base import Store
from scrapy_rep.stores.lru import LRU

MAX_ENTRIES = 100_000
MAX_BYTES = 128 * 1024 * 1024

# The bytes that an entry takes besides its data and its origin: the headers of the two
# objects, the pair of value and cost, and a slot of an ordered dictionary that has just
# grown. Measured on Python 3.10 and 3.11.
_OVERHEAD = 370


class MemoryStore(Store):
    """Keeps at most *max_entries* with *max_bytes* in total, and removes the least recently
    used entries beyond that.

    An entry counts with the bytes of its data and origin, and 370 for Python's objects, so
    *max_bytes* limits the memory that the store uses.
    """

    blocking = False

    def __init__(
        self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._entries: LRU[bytes] = LRU(max_entries, max_bytes)
        self._closed = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """The number of bytes with which all entries count towards *max_bytes*."""
        return self._entries.cost

    def lock(self, origin: str, owner: str, seconds: float, now: float) -> bool:
        self._check_open()
        return True  # No other process uses this store.

    def unlock(self, origin: str, owner: str) -> None:
        self._check_open()

    def close(self) -> None:
        self._closed = True
        self._entries.clear()

    def read(self, origin: str) -> bytes | None:
        self._check_open()
        return self._entries.get(origin)

    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        self._check_open()
        self._entries.put(origin, data, len(data) + len(origin) + _OVERHEAD)

    def remove(self, origin: str) -> None:
        self._check_open()
        self._entries.remove(origin)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("memory://", "it is closed")
