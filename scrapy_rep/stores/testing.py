"""The contract of :class:`~scrapy_rep.stores.Store` as tests, for a store of one's own.

A test class derives from one of these classes, and defines ``open``. It needs no more than a runner
that calls methods whose names begin with ``test``, such as pytest.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.stores import Store

_KEY, _OTHER = "https://example.com", "http://[::1]:8080/.well-known/tdmrep.json#Host:a"
_DATA = bytes(range(256)) * 200
_THREADS = 8


def read(store: Store, key: str) -> bytes | None:
    """Return the data of *key*, and leave it unlocked."""
    data, has_lock = store.look_up(key, "reader", 60)
    if has_lock:
        store.unlock(key, "reader")
    return data


def lock(store: Store, key: str, owner: str, seconds: float) -> bool:
    """Lock *key*, whether there are data or not. Return whether that succeeded."""
    _, has_lock = store.look_up(key, owner, seconds, is_stale=True)
    return has_lock


class StoreTests:
    """What every store does."""

    def open(self) -> Store:
        """Return another store on the same data. At the first call there are none."""
        raise NotImplementedError

    def test_nothing_is_there_at_first(self) -> None:
        """There is no data of an unknown key."""
        assert read(self.open(), _KEY) is None

    def test_what_was_put_is_there(self) -> None:
        """Each store on the same data returns what one of them has put, byte for byte."""
        one, other = self.open(), self.open()
        one.put(_KEY, _DATA, time.time() + 3600, "writer")
        assert read(one, _KEY) == _DATA
        assert read(other, _KEY) == _DATA

    def test_the_last_data_count(self) -> None:
        """Later data of a key replace earlier data, also shorter ones."""
        store = self.open()
        for data in (_DATA, b"after"):
            store.put(_KEY, data, time.time() + 3600, "writer")
            assert read(store, _KEY) == data

    def test_keys_are_apart(self) -> None:
        """Each key has its own data."""
        store = self.open()
        keys = [_KEY, "http://example.com", f"{_KEY}:8443", _OTHER]
        for key in keys:
            store.put(key, key.encode(), time.time() + 3600, "writer")
        assert [read(store, key) for key in keys] == [key.encode() for key in keys]

    def test_no_time_left(self) -> None:
        """Data whose time is over may be put, and may be lost."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() - 1, "writer")
        assert read(store, _KEY) in {None, _DATA}

    def test_threads(self) -> None:
        """Threads that put and get at the same time get whole data."""
        store = self.open()
        written = [bytes([number]) * 5000 for number in range(_THREADS)]

        def work(data: bytes) -> set[bytes | None]:
            found = set()
            for _ in range(25):
                store.put(_KEY, data, time.time() + 3600, "writer")
                found.add(read(store, _KEY))
            return found

        with ThreadPoolExecutor(_THREADS) as threads:
            assert all(found <= {*written} for found in threads.map(work, written))

    def test_closing(self) -> None:
        """A store can be closed after it was used, and before."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() + 3600, "writer")
        store.close()
        self.open().close()


class LockTests(StoreTests):
    """What a store does that several crawls may use at once."""

    def test_one_has_the_lock(self) -> None:
        """While one owner has a lock, no other gets it, from any store; another key has
        another lock, and a lock is no data."""
        one, other = self.open(), self.open()
        assert lock(one, _KEY, "one", 60)
        assert not lock(one, _KEY, "other", 60)
        assert not lock(other, _KEY, "other", 60)
        assert lock(other, _OTHER, "other", 60)
        assert read(other, _KEY) is None

    def test_only_who_needs_it_has_the_lock(self) -> None:
        """A key is locked only if there are no data, or if the caller says that they are stale. The
        caller gets the data in any case."""
        one, other = self.open(), self.open()
        assert one.look_up(_KEY, "one", 60) == (None, True)
        assert other.look_up(_KEY, "other", 60) == (None, False)
        one.put(_KEY, _DATA, time.time() + 3600, "one")
        assert one.look_up(_KEY, "one", 60) == (_DATA, False)
        assert other.look_up(_KEY, "other", 60, is_stale=True) == (_DATA, True)
        assert one.look_up(_KEY, "one", 60, is_stale=True) == (_DATA, False)

    def test_putting_releases_the_lock(self) -> None:
        """The owner of a lock releases it when it puts data, another owner does not."""
        one, other = self.open(), self.open()
        assert lock(one, _KEY, "one", 60)
        other.put(_KEY, b"of another", time.time() + 3600, "other")
        assert not lock(other, _KEY, "other", 60)
        one.put(_KEY, _DATA, time.time() + 3600, "one")
        assert lock(other, _KEY, "other", 60)
        assert read(one, _KEY) == _DATA

    def test_one_of_many_has_the_lock(self) -> None:
        """Of owners that ask at the same time, exactly one gets the lock."""
        stores = [self.open() for _ in range(_THREADS)]
        with ThreadPoolExecutor(_THREADS) as threads:
            for key in (f"{_KEY}:{number}" for number in range(1, 11)):
                asked = [
                    threads.submit(lock, store, key, f"owner {number}", 60)
                    for number, store in enumerate(stores)
                ]
                assert sum(each.result() for each in asked) == 1

    def test_unlocking(self) -> None:
        """After its owner has released a lock, another owner gets it. No other owner can release
        it; nor is it an error to try."""
        one, other = self.open(), self.open()
        one.unlock(_KEY, "one")
        assert lock(one, _KEY, "one", 60)
        other.unlock(_KEY, "other")
        assert not lock(other, _KEY, "other", 60)
        one.unlock(_KEY, "one")
        assert lock(other, _KEY, "other", 60)
        one.unlock(_KEY, "one")
        assert not lock(one, _KEY, "one", 60)

    def test_a_lock_expires(self) -> None:
        """A lock expires after its seconds, and not before."""
        one, other = self.open(), self.open()
        before = time.monotonic()
        assert lock(one, _KEY, "one", 0.3)
        while not lock(other, _KEY, "other", 60):
            assert time.monotonic() < before + 30
        assert time.monotonic() >= before + 0.29

    def test_a_lock_is_renewed(self) -> None:
        """A call by the owner of a lock gives it the seconds of that call."""
        one, other = self.open(), self.open()
        before = time.monotonic()
        assert lock(one, _KEY, "one", 0.3)
        assert lock(one, _KEY, "one", 60)
        assert lock(other, _OTHER, "other", 0.4)
        while not lock(one, _OTHER, "one", 60):
            assert time.monotonic() < before + 30
        assert not lock(other, _KEY, "other", 60)
