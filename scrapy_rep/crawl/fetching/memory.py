"""The entries that this process has in memory, in a bounded number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from scrapy_rep.crawl.fetching.entries import dumps, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_rep.protocol.access.results import CacheEntry
    from scrapy_rep.protocol.origins import Origin
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.usage.sites import TdmRep

V = TypeVar("V")
Parsed: TypeAlias = "tuple[RobotsTxt, TdmRep | None]"
"""The files of an origin: its robots.txt, and its tdmrep.json if the crawl needs that."""

_PARSED_SHARE = 4
"""The share of the memory that parsed files may take is one in this many."""

# The bytes that Python's objects take besides the bytes in them, as measured: for a packed entry
# its key; for a parsed file its key, entry, result and headers too.
_PACKED_OVERHEAD = 580
_PARSED_OVERHEAD = 1_600

# The bytes that a line of a robots.txt can take at most once it is indexed, which happens when it
# is first used: as a rule; more for one with a "*"; and as a record of usage preferences, of which a
# bounded part is read.
_OF_LINE, _OF_WILDCARD, _OF_RECORD, _OF_RECORDS = 160, 310, 2_000, 8_000_000


class LRU(Generic[V]):
    """Values by key, with a total size of at most *max_size*; those used last stay."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._kept: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: Hashable) -> V | None:
        """The value of *key*, which counts as used now; None if there is none."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def pop(self, key: Hashable) -> None:
        """Remove the value of *key*, if there is one."""
        _, size = self._kept.pop(key, (None, 0))
        self.size -= size

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Store *value* under *key*, in place of those that were not used for longest. *value*
        itself stays, whatever its size.
        """
        self.pop(key)
        self._kept[key] = value, size
        self.size += size
        while self.size > self._max_size and len(self._kept) > 1:
            _, (_, old_size) = self._kept.popitem(last=False)
            self.size -= old_size


@dataclass(slots=True)
class File:
    """The parsed files of an origin, with their entry."""

    entry: CacheEntry
    robots: RobotsTxt
    tdmrep: TdmRep | None

    arrived: float
    """When it arrived. The requests that waited use it even if it has expired by then."""

    learned: float
    """The time of the monotonic clock since which this process knows the entry."""


class _Packed(NamedTuple):
    data: bytes
    learned: float


class Memory:
    """Entries by origin, packed as in a store, and the files that *parse* makes of those that were
    used last: together in at most *max_bytes*, if a quarter of them is room for one file.

    A file is parsed again when it is next used. Packed, it takes a tenth of the memory.
    """

    def __init__(self, max_bytes: int, parse: Callable[[CacheEntry], Parsed]) -> None:
        parsed_bytes = max_bytes // _PARSED_SHARE
        self._packed: LRU[_Packed] = LRU(max_bytes - parsed_bytes)
        self._parsed: LRU[File] = LRU(parsed_bytes)
        self._parse = parse

    @property
    def size(self) -> int:
        """The bytes with which all entries and files count."""
        return self._packed.size + self._parsed.size

    def get(self, key: Origin) -> File | None:
        """The file of *key*, which counts as used now; None if it is not in memory."""
        packed, file = self._packed.get(key), self._parsed.get(key)
        if file is None and packed is not None:
            # An entry with times before 1970, by a clock that was set, is forgotten.
            with suppress(ValueError):
                return self._keep(key, loads(packed.data, key), packed.learned)
        return file

    def put(self, key: Origin, entry: CacheEntry, learned: float) -> File:
        """Keep *entry* as that of *key*, and parse it."""
        try:
            packed = _Packed(dumps(entry), learned)
        except ValueError:
            # It is too long, and forgotten when its file is.
            self._packed.pop(key)
        else:
            self._packed.put(key, packed, len(packed.data) + _PACKED_OVERHEAD)
        return self._keep(key, entry, learned)

    def _keep(self, key: Origin, entry: CacheEntry, learned: float) -> File:
        file = File(entry, *self._parse(entry), entry.fetched, learned)
        self._parsed.put(key, file, _PARSED_OVERHEAD + _text_size(entry))
        return file


def parsed_size(body: bytes) -> int:
    """The most bytes that a file with this *body* can take once it is parsed, and indexed for one
    crawler.
    """
    lines = 1 + body.count(b"\n") + body.count(b"\r")
    # Those for usage preferences: "Content-Usage", and the objects of a tdmrep.json.
    records = body.lower().count(b"content-") + body.count(b"{")
    return (
        2 * len(body)
        + _OF_LINE * lines
        + _OF_WILDCARD * min(lines, body.count(b"*"))
        + min(_OF_RECORD * records, _OF_RECORDS)
    )


def _text_size(entry: CacheEntry) -> int:
    size = 0
    for result in filter(None, (entry.result, entry.copy, entry.tdmrep)):
        texts = [
            result.error,
            *result.redirects,
            *(value for _, value in result.headers),
        ]
        size += len(result.body) + parsed_size(result.body) + sum(map(len, texts))
    return size
