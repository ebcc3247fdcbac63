"""The store in memory, and its bounds."""

from __future__ import annotations

import gc
import random
import tracemalloc

import pytest

from scrapy_rep.stores.lru import LRU
from scrapy_rep.stores.memory import MemoryStore
from tests.stores.places import DAY, ORIGIN, START, entry


class TestLRU:
    def test_what_was_not_used_for_longest_goes(self) -> None:
        """The least recently used value is removed first; both get and put count as use."""
        lru: LRU[int] = LRU(3, 100)
        for name in "abc":
            lru.put(name, ord(name), 1)
        assert lru.get("a") == ord("a")
        lru.put("b", 0, 1)
        lru.put("d", ord("d"), 1)
        assert {name: lru.get(name) for name in "abcd"} == {
            "a": ord("a"),
            "b": 0,
            "c": None,
            "d": ord("d"),
        }

    def test_as_many_go_as_it_takes(self) -> None:
        """An expensive value displaces several cheap ones."""
        lru: LRU[str] = LRU(100, 10)
        for name in "abcde":
            lru.put(name, name, 2)
        lru.put("f", "f", 5)
        assert [name for name in "abcdef" if lru.get(name)] == ["d", "e", "f"]
        assert lru.cost == 9

    def test_a_value_that_costs_too_much_is_not_kept(self) -> None:
        """A value beyond the limit is not kept, and displaces only the one that it replaces."""
        lru: LRU[str] = LRU(100, 10)
        lru.put("a", "a", 2)
        lru.put("b", "b", 2)
        lru.put("a", "A", 11)
        assert (lru.get("a"), lru.get("b"), lru.cost) == (None, "b", 2)

    def test_replacing_costs_once(self) -> None:
        """Replaced, removed and cleared values no longer count."""
        lru: LRU[str] = LRU(100, 100)
        lru.put("a", "a", 60)
        lru.put("a", "A", 50)
        assert (len(lru), lru.cost) == (1, 50)
        lru.remove("a")
        lru.remove("a")
        assert (len(lru), lru.cost) == (0, 0)
        lru.put("b", "b", 5)
        lru.clear()
        assert (len(lru), lru.cost, lru.get("b")) == (0, 0, None)


def bodies(count: int, size: int) -> list[bytes]:
    """Return bodies of *size* bytes that cannot be compressed."""
    generator = random.Random(5)
    return [generator.randbytes(size) for _ in range(count)]


class TestBounds:
    def test_entries(self) -> None:
        """The number of entries stays within the limit, and the latest ones are there."""
        store = MemoryStore(max_entries=10, max_bytes=10**9)
        for number in range(50):
            store.put(f"http://{number}.example", entry(), START)
            assert len(store) <= 10
        assert store.get("http://40.example", START) == entry()
        assert store.get("http://39.example", START) is None

    def test_bytes(self) -> None:
        """The counted bytes stay within the limit."""
        store = MemoryStore(max_entries=10**9, max_bytes=50_000)
        for number, body in enumerate(bodies(100, 2000)):
            store.put(f"http://{number}.example", entry(body), START)
            assert store.size <= 50_000
        assert 15 <= len(store) <= 25

    @pytest.mark.unmeasured
    @pytest.mark.slow
    @pytest.mark.parametrize("size", [0, 100, 3000])
    def test_bytes_are_true(self, size: int) -> None:
        """The counted bytes are between the memory that Python takes and two fifths more,
        also after many entries came and went.
        """
        kept = bodies(300, size)
        gc.collect()
        tracemalloc.start()
        try:
            store = MemoryStore(max_entries=1300, max_bytes=10**9)
            for number in range(1_950):
                put = entry(kept[number % len(kept)])
                store.put(f"http://{number}.example", put, START)
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert taken <= store.size <= taken * 1.4


def test_locks() -> None:
    """Locking never waits, since no other process has the store."""
    store = MemoryStore()
    assert store.lock(ORIGIN, "one", 5, START)
    assert store.lock(ORIGIN, "other", 5, START)


def test_nothing_outlives_closing() -> None:
    """A closed store releases its memory."""
    store = MemoryStore()
    store.put(ORIGIN, entry(expires=START + DAY), START)
    store.close()
    assert (len(store), store.size) == (0, 0)
