"""Tests of the contract of :class:`~scrapy_rep.crawl.fetching.store.Store`, for a store of your own.

A test class derives from :class:`StoreTests`, and defines ``open``. It needs no more than a runner
that calls methods whose names begin with ``test``, such as pytest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.fetching.store import Store

_KEY, _OTHER = "https://example.com", "http://[::1]:8080#Host:a"
_DATA = bytes(range(256)) * 200


class StoreTests:
    """The tests that every store passes."""

    def open(self) -> Store:
        """Return a new store on the same data. At the first call of a test, there are no data."""
        raise NotImplementedError

    def test_nothing_is_there_at_first(self) -> None:
        """An unknown key has no data."""
        assert self.open().get(_KEY) is None

    def test_what_was_put_is_there(self) -> None:
        """Each store on the same data returns what one of them has put, byte for byte."""
        store, other = self.open(), self.open()
        store.put(_KEY, _DATA, time.time() + 3600)
        assert store.get(_KEY) == _DATA
        assert other.get(_KEY) == _DATA

    def test_the_last_data_count(self) -> None:
        """Later data of a key replace earlier data, also shorter ones."""
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
        """Data whose time is over may be put, and may be lost."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() - 1)
        assert store.get(_KEY) in {None, _DATA}

    def test_many_at_once(self) -> None:
        """One call can put, or get, the data of several keys. A key without data has None, or is missing."""
        store, later = self.open(), time.time() + 3600
        store.put_many({_KEY: (_DATA, later), _OTHER: (b"other", later)})
        data_of = store.get_many([_KEY, "https://unknown.example", _OTHER])
        assert {key: data for key, data in data_of.items() if data is not None} == {
            _KEY: _DATA,
            _OTHER: b"other",
        }

    def test_closing(self) -> None:
        """A store can be closed after it was used, and before."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() + 3600)
        store.close()
        self.open().close()
