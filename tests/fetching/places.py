"""An entry, what is true of any, and a store in memory for several clients in one process."""

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

_OF_ENTRY = {"fetched", "expires", "unreachable_since", "attempts", "copy", "tdmrep"}


def entry(body: bytes = b"User-agent: *\nDisallow: /a\n", **fields: Any) -> CacheEntry:
    """An entry that was fetched at START, and expires a day later."""
    of_result: dict[str, Any] = {"url": URL, "status": 200, "body": body}
    of_entry: dict[str, Any] = {"fetched": START, "expires": START + DAY}
    for name, value in fields.items():
        (of_entry if name in _OF_ENTRY else of_result)[name] = value
    return CacheEntry(result=AccessResult(**of_result), **of_entry)


def check_data(written: bytes) -> None:
    """Check that what a store has is refused with ValueError, or is an entry of bounded size that
    a crawl can use and write again.
    """
    try:
        kept = loads(written, AT)
    except ValueError:
        return
    assert len(kept.result.body) <= MAX_SIZE
    assert loads(dumps(kept), AT) == kept
    failed = AccessResult(url=URL, status=503)
    for dialect in (RFC9309, GOOGLE, CLASSIC):
        for after in (kept, renew(failed, kept, dialect=dialect, now=START)):
            assert after.is_fresh(START) in {True, False}
            assert robots_of(after, dialect).is_allowed(URL, "mybot") in {True, False}
            assert after.expires <= after.fetched + KEEP


class SharedMemory(Store):
    """A store in memory for several clients in one process."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.is_closed = False

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: str, data: bytes, until: float) -> None:
        self.kept[key] = data

    def close(self) -> None:
        self.is_closed = True
