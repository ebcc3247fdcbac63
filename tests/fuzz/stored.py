"""What a store reads: the bytes of an entry, and the file of an SQLite store."""

from __future__ import annotations

import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from scrapy_rep import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.exceptions import StoreError
from scrapy_rep.protocol.access.results import AccessResult, Entry, renew, robots_of
from scrapy_rep.stores.entries import MAX_SIZE, dumps, loads
from scrapy_rep.stores.sqlite import SqliteStore
from scrapy_rep.stores.testing import lock, read
from tests.fuzz.inputs import bounded, fast_folder, written_over

ORIGIN = "https://example.com"
URL = f"{ORIGIN}/robots.txt"
NOW = 1_790_000_000.0


def stored(data: bytes) -> None:
    """Check entries; an input is an entry's content, also compressed as entries are.

    - Nothing but ValueError is raised.
    - Time and size are bounded, also for a compression bomb.
    - An entry that was read is equal after writing and reading again.
    - The entry works: its freshness, rules and renewal.
    """
    with bounded(len(data) + MAX_SIZE):
        for written in (data, zlib.compress(data)):
            try:
                entry = loads(written, URL)
            except ValueError:
                continue
            assert len(entry.result.body) <= MAX_SIZE
            assert loads(dumps(entry), URL) == entry
            entry.is_fresh(NOW)
            failed = AccessResult(url=URL, status=503)
            for dialect in (RFC9309, GOOGLE, CLASSIC):
                for each in (entry, renew(failed, entry, dialect=dialect, now=NOW)):
                    decision = robots_of(each, dialect).decide(URL, "mybot")
                    assert decision.allowed in {True, False}


def sqlite(data: bytes) -> None:
    """Check SQLite stores; an input is written over the file of a store.

    - Only StoreError is raised, in bounded time, whatever the file has become.
    - What is read is an entry, or is refused.
    """
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        path = Path(folder) / "store"
        octets = written_over(_whole_store(), data)
        path.write_bytes(octets)
        store = SqliteStore(path, timeout=0.1)
        with bounded(len(octets)):
            for _ in range(2):
                _use(store)
        store.close()


def _use(store: SqliteStore) -> None:
    with suppress(StoreError):
        data: Any = read(store, ORIGIN)
        with suppress(ValueError):
            if data is not None:
                loads(data, URL)
        store.put(ORIGIN, _entry(), NOW, "writer")
        # In a damaged file, a new entry may not be found again.
        assert read(store, ORIGIN) in {None, _entry()}
        if lock(store, ORIGIN, "me", 60):
            store.unlock(ORIGIN, "me")


@cache
def _entry() -> bytes:
    result = AccessResult(url=URL, status=200, body=b"User-agent: *")
    return dumps(Entry(result=result, fetched=NOW, expires=NOW + 60))


@cache
def _whole_store() -> bytes:
    """Return the file of a store with a few entries, in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        store = SqliteStore(path)
        for number in range(4):
            store.put(
                f"{ORIGIN}:{number}" if number else ORIGIN, _entry(), NOW, "writer"
            )
        lock(store, ORIGIN, "another", 60)
        store.close()
        return path.read_bytes()
