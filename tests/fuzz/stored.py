"""What a store reads back: the bytes of an entry, and the file of an SQLite store."""

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
    """An input is the content of an entry, which gets its head and checksum here.

    - Nothing raises, with the checksum or without it.
    - Time is bounded, also where a body is a bomb, and so is a body.
    - What is read is written down and read back as the same.
    - It can be used: it holds or not, it has rules, and it can be renewed.
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
    """An input is what is written over the file of a store.

    - Whatever the file has become, nothing but a StoreError is raised, in bounded time.
    - What is read is an entry or nothing.
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
        # In a file that is damaged, what was put may be nowhere to be found.
        assert store.get(ORIGIN, NOW) in {None, _entry()}
        if store.lock(ORIGIN, "me", 60, NOW):
            store.unlock(ORIGIN, "me")


@cache
def _entry() -> Entry:
    result = AccessResult(url=f"{ORIGIN}/robots.txt", status=200, body=b"User-agent: *")
    return Entry(result=result, fetched=NOW, expires=NOW + 60)


@cache
def _whole_store() -> bytes:
    """The file of a store that has a few entries, in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        store = SqliteStore(path)
        for number in range(4):
            store.put(f"{ORIGIN}:{number}" if number else ORIGIN, _entry(), NOW)
        store.lock(ORIGIN, "another", 60, NOW)
        store.close()
        return path.read_bytes()
