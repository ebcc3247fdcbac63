"""Cache entries for tests, a check of the data in a store, and a store in memory."""

from __future__ import annotations

from typing import Any

from scrapy_rep import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.crawl.fetching.memory import KEEP, MAX_SIZE, dumps, loads
from scrapy_rep.crawl.fetching.store import Store
from scrapy_rep.protocol.access.entries import CacheEntry, renew
from scrapy_rep.protocol.access.results import AccessResult
from scrapy_rep.protocol.access.site_rules import robots_of
from scrapy_rep.protocol.origins import Origin

START = 1_800_000_000.0
ORIGIN = "https://example.com"
URL = f"{ORIGIN}/robots.txt"
AT = Origin("https", "example.com", 443)
DAY = 24 * 3600.0

# The keyword arguments of entry() that are fields of the CacheEntry. All others are fields of its AccessResult.
_ENTRY_FIELDS = {
    "fetched",
    "expires",
    "unreachable_since",
    "attempts",
    "copy",
    "tdmrep",
}


def entry(body: bytes = b"User-agent: *\nDisallow: /a\n", **fields: Any) -> CacheEntry:
    """Return an entry that was fetched at START, and expires a day later. *fields* are fields of the entry or of its
    result.
    """
    result_fields: dict[str, Any] = {"url": URL, "status": 200, "body": body}
    entry_fields: dict[str, Any] = {"fetched": START, "expires": START + DAY}
    for name, value in fields.items():
        (entry_fields if name in _ENTRY_FIELDS else result_fields)[name] = value
    return CacheEntry(result=AccessResult(**result_fields), **entry_fields)


def check_data(written: bytes) -> None:
    """Check that reading the data *written* raises ValueError, or returns an entry of limited size that a crawl can use
    and write again.
    """
    try:
        stored = loads(written, AT)
    except ValueError:
        return
    assert len(stored.result.body) <= MAX_SIZE
    assert loads(dumps(stored), AT) == stored
    failed = AccessResult(url=URL, status=503)
    for dialect in (RFC9309, GOOGLE, CLASSIC):
        for entry in (stored, renew(failed, stored, dialect=dialect, now=START)):
            assert entry.is_fresh(START) in {True, False}
            assert robots_of(entry, dialect).is_allowed(URL, "mybot") in {True, False}
            assert entry.expires <= entry.fetched + KEEP


class SharedMemory(Store):
    """A store in memory for several clients in one process."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.is_closed = False

    def get(self, key: str) -> bytes | None:
        return self.stored.get(key)

    def put(self, key: str, data: bytes, until: float) -> None:
        self.stored[key] = data

    def close(self) -> None:
        self.is_closed = True
