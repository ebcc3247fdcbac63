"""The files that this process has in memory, in a bounded number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from scrapy_rep.protocol.origins import Origin
from scrapy_rep.stores.entries import dumps, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_rep.protocol.access.results import Entry
    from scrapy_rep.protocol.robots import RobotsTxt
    from scrapy_rep.protocol.usage.tdmrep import TdmRep

V = TypeVar("V")
P = TypeVar("P")

Key: TypeAlias = Origin | str
"""The origin of a robots.txt, or the URL of another file."""

_PARSED_SHARE = 4
"""The share of the memory that parsed files may take is one in this many."""

# The bytes that Python's objects take besides the text in them, as measured: for a parsed file
# its key, entry, result and headers; for a packed one its key.
_PARSED_OVERHEAD = 520
_PACKED_OVERHEAD = 580


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

    def pop(self, key: Hashable) -> V | None:
        """Remove the value of *key*, and return it; None if there is none."""
        value, size = self._kept.pop(key, (None, 0))
        self.size -= size
        return value

    def put(self, key: Hashable, value: V, size: int) -> list[tuple[Hashable, V]]:
        """Store *value* under *key*. Return the items that this displaced, those that were not
        used for longest. *value* itself stays, whatever its size.
        """
        self.pop(key)
        self._kept[key] = value, size
        self.size += size
        displaced = []
        while self.size > self._max_size and len(self._kept) > 1:
            old_key, (old, old_size) = self._kept.popitem(last=False)
            self.size -= old_size
            displaced.append((old_key, old))
        return displaced


@dataclass(slots=True)
class File:
    """A parsed file with its entry."""

    entry: Entry
    parsed: RobotsTxt | TdmRep

    arrived: float
    """When it arrived. The requests that waited use it even if it has expired by then."""

    learned: float
    """The time of the monotonic clock since which this process knows the entry."""

    weight: int
    """The bytes that *parsed* took when it was last weighed."""

    def of(self, kind: type[P]) -> P:
        """The parsed file, which is of this *kind*."""
        assert isinstance(self.parsed, kind)
        return self.parsed


class _Packed(NamedTuple):
    data: bytes
    learned: float


class Memory:
    """Files by key, in at most *max_bytes* together.

    The files that were used last are kept parsed, in a quarter of the bytes. The others are packed
    as in a store, which takes a tenth of the memory, and are parsed again by *parse* when they
    are next used.
    """

    def __init__(
        self, max_bytes: int, parse: Callable[[Key, Entry], RobotsTxt | TdmRep]
    ) -> None:
        parsed_bytes = max_bytes // _PARSED_SHARE
        self._parsed: LRU[File] = LRU(parsed_bytes)
        self._packed: LRU[_Packed] = LRU(max_bytes - parsed_bytes)
        self._parse = parse

    @property
    def size(self) -> int:
        """The bytes with which all files count."""
        return self._parsed.size + self._packed.size

    def get(self, key: Key) -> File | None:
        """The file of *key*, which counts as used now; None if it is not in memory."""
        file = self._parsed.get(key)
        if file is None and (packed := self._packed.pop(key)) is not None:
            # An entry with times before 1970, by a clock that was set, is forgotten.
            with suppress(ValueError):
                entry = loads(packed.data, url_of(key))
                return self.put(key, entry, packed.learned)
        return file

    def put(self, key: Key, entry: Entry, learned: float) -> File:
        """Parse *entry*, and keep the file as that of *key*."""
        self._packed.pop(key)
        parsed = self._parse(key, entry)
        file = File(entry, parsed, entry.fetched, learned, parsed.weight)
        self._keep(key, file)
        return file

    def weigh(self, key: Key, parsed: RobotsTxt) -> None:
        """Weigh *parsed* again, if it is the file of *key*: it indexes its rules when they are
        first used, and the index can take many times the memory of the text.
        """
        file = self._parsed.get(key)
        if file is not None and file.parsed is parsed and file.weight != parsed.weight:
            file.weight = parsed.weight
            self._keep(key, file)

    def _keep(self, key: Key, file: File) -> None:
        size = file.weight + _text_size(file.entry) + _PARSED_OVERHEAD
        for old_key, old in self._parsed.put(key, file, size):
            # An entry that is too long to be written is forgotten.
            with suppress(ValueError):
                packed = _Packed(dumps(old.entry), old.learned)
                size = len(packed.data) + _PACKED_OVERHEAD
                self._packed.put(old_key, packed, size)


def url_of(key: Key) -> str:
    return key if isinstance(key, str) else key.robotstxt_url


def _text_size(entry: Entry) -> int:
    size = 0
    for result in filter(None, (entry.result, entry.copy)):
        texts = [
            result.error,
            *result.redirects,
            *(value for _, value in result.headers),
        ]
        size += len(result.body) + sum(map(len, texts))
    return size
