"""What a store reads: the bytes of an entry, and the file of an SQLite store."""

from __future__ import annotations

import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

from scrapy_rep import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.exceptions import StoreError
from scrapy_rep.protocol.access.results import AccessResult, Entry, renew, robots_of
from scrapy_rep.stores.base import MAX_BODY, dumps, loads
from scrapy_rep.stores.sqlite import SqliteStore
from tests.fuzz.inputs import bounded, fast_folder, written_over

ORIGIN = "https://example.com"
URL = f"{ORIGIN}/private"
NOW = 1_790_000_000.0
_MAGIC = b"rep\x01"


def stored(data: bytes) -> None:
    """Check entries; an input is an entry's content, to which this adds header and
    checksum.

    - Nothing raises, with or without the checksum.
    - Time and body size are bounded, also for a compression bomb.
    - An entry that was read is equal after writing and reading again.
    - The entry works: its freshness, rules and renewal.
    """
    with bounded(len(data) + MAX_BODY):
        assert loads(data) is None or data.startswith(_MAGIC)
        entry = loads(_MAGIC + zlib.crc32(data).to_bytes(4, "big") + data)
        if entry is None:
            return
        assert len(entry.result.body) <= MAX_BODY
        assert loads(dumps(entry)) == entry
        entry.is_fresh(NOW)
        failed = AccessResult(url=ORIGIN, status=503)
        for dialect in (RFC9309, GOOGLE, CLASSIC):
            for each in (entry, renew(failed, entry, dialect=dialect, now=NOW)):
                decision = robots_of(each, dialect).decide(URL, "mybot")
                assert decision.allowed in {True, False}


def sqlite(data: bytes) -> None:
    """Check SQLite stores; an input is written over the file of a store.

    - Only StoreError is raised, in bounded time, whatever the file has become.
    - A read gives an entry or nothing.
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
        entry = store.get(ORIGIN, NOW)
        assert entry is None or isinstance(entry, Entry)
        store.put(ORIGIN, _entry(), NOW)
        # In a damaged file, a new entry may not be found again.
        assert store.get(ORIGIN, NOW) in {None, _entry()}
        if store.lock(ORIGIN, "me", 60, NOW):
            store.unlock(ORIGIN, "me")


@cache
def _entry() -> Entry:
    result = AccessResult(url=f"{ORIGIN}/robots.txt", status=200, body=b"User-agent: *")
    return Entry(result=result, fetched=NOW, expires=NOW + 60)


@cache
def _whole_store() -> bytes:
    """Return the file of a store with a few entries, in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        store = SqliteStore(path)
        for number in range(4):
            store.put(f"{ORIGIN}:{number}" if number else ORIGIN, _entry(), NOW)
        store.lock(ORIGIN, "another", 60, NOW)
        store.close()
        return path.read_bytes()
