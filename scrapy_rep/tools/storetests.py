"""Tests for custom subclasses of :class:`~scrapy_rep.crawl.fetching.store.Store`.

To test your store, subclass :class:`StoreTests`, and define the method ``open``. Then run the tests with pytest,
or with any other runner that calls the methods whose names begin with ``test``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_rep.crawl.fetching.store import Store

_KEY, _OTHER = "https://example.com", "http://[::1]:8080#Host:a"
_DATA = bytes(range(256)) * 200


class StoreTests:
    """The tests that every store of robots.txt files (setting ``REP_STORE``) must pass. To test your store, subclass
    this class, and define :meth:`open`.
    """

    def open(self) -> Store:
        """Return a new instance of the store. All instances in the same test must share the same data. At the
        start of each test, there must be no data.
        """
        raise NotImplementedError

    def test_nothing_is_there_at_first(self) -> None:
        """An unknown key has no data."""
        assert self.open().get(_KEY) is None

    def test_what_was_put_is_there(self) -> None:
        """After an instance puts data, this instance and other instances get the same bytes."""
        store, other = self.open(), self.open()
        store.put(_KEY, _DATA, time.time() + 3600)
        assert store.get(_KEY) == _DATA
        assert other.get(_KEY) == _DATA

    def test_the_last_data_count(self) -> None:
        """New data for a key replace the old data, even if the new data are shorter."""
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
        """Putting expired data does not raise an exception. The store may drop the data."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() - 1)
        assert store.get(_KEY) in {None, _DATA}

    def test_many_at_once(self) -> None:
        """A single call can put or get the data of several keys. In the result of ``get_many``, a key without
        data is missing or has the value None.
        """
        store, later = self.open(), time.time() + 3600
        store.put_many({_KEY: (_DATA, later), _OTHER: (b"other", later)})
        data_of = store.get_many([_KEY, "https://unknown.example", _OTHER])
        assert {key: data for key, data in data_of.items() if data is not None} == {
            _KEY: _DATA,
            _OTHER: b"other",
        }

    def test_closing(self) -> None:
        """A store can be closed after use, and also without having been used."""
        store = self.open()
        store.put(_KEY, _DATA, time.time() + 3600)
        store.close()
        self.open().close()
