"""Tests of the contract of :class:`~scrapy_rep.crawl.fetching.store.Store`, for a store of your own.

Derive a test class from :class:`StoreTests`, define ``open``, and run it with pytest, or with any runner
that calls the methods whose names begin with ``test``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.fetching.store import Store

_KEY, _OTHER = "https://example.com", "http://[::1]:8080#Host:a"
_DATA = bytes(range(256)) * 200


class StoreTests:
    """The tests that every store must pass."""

    def open(self) -> Store:
        """Return a new instance of the store, on the same data as earlier instances in the same test. At the
        first call in a test, there are no data.
        """
        raise NotImplementedError

    def test_nothing_is_there_at_first(self) -> None:
        """An unknown key has no data."""
        assert self.open().get(_KEY) is None

    def test_what_was_put_is_there(self) -> None:
        """Data that a store has put can be read, byte for byte, by that store and by other instances."""
        store, other = self.open(), self.open()
        store.put(_KEY, _DATA, time.time() + 3600)
        assert store.get(_KEY) == _DATA
        assert other.get(_KEY) == _DATA

    def test_the_last_data_count(self) -> None:
        """Later data for a key replace earlier data, even if the later data are shorter."""
        store = self.open()
        for data in (_DATA, b"after"):
            store.put(_KEY, data, time.time() + 3600)
            assert store.get(_KEY) == data

    def test_keys_are_apart(self) -> None:
        """Each key has its own data."""
        store = self.open()
        keys = [_KEY, "http://example.com", f"{_KEY}:8443", _OTHER]
        for key in keys:
            store.put(key, key.encode(), time.time() + 3600)
        assert [store.get(key) for key in keys] == [key.encode() for key in keys]

    def test_no_time_left(self) -> None:
        """To put data that have expired is not an error. The store may drop such data."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() - 1)
        assert store.get(_KEY) in {None, _DATA}

    def test_many_at_once(self) -> None:
        """A single call can put, or get, the data of several keys. For a key without data, the result has
        None, or lacks the key.
        """
        store, later = self.open(), time.time() + 3600
        store.put_many({_KEY: (_DATA, later), _OTHER: (b"other", later)})
        data_of = store.get_many([_KEY, "https://unknown.example", _OTHER])
        assert {key: data for key, data in data_of.items() if data is not None} == {
            _KEY: _DATA,
            _OTHER: b"other",
        }

    def test_closing(self) -> None:
        """A store can be closed, whether it was used or not."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() + 3600)
        store.close()
        self.open().close()
