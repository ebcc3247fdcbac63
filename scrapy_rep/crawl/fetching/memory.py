"""What this process knows of sites, in a bounded number of bytes: parsed, or packed as in a store.

A packed entry is a line of JSON with the fields of the entry that differ from their defaults, and the
bodies, compressed together by zlib, whose checksum finds damage. What a store returns may come from
anybody who can write there: :func:`loads` bounds what it reads, and executes nothing.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scrapy_rep.protocol.access.entries import TDMREP, CacheEntry
from scrapy_rep.protocol.access.results import AccessResult, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_rep.protocol.access.site_rules import SiteRules
    from scrapy_rep.protocol.origins import Origin

V = TypeVar("V")
_T = TypeVar("_T")

MAX_SIZE = 1024 * 1024
"""The length limit for an entry with its body, in bytes, compressed or not; twice what any
dialect parses."""

KEEP = 30 * 24 * 3600.0
"""The seconds for which a store keeps an expired entry: while a robots.txt is unreachable,
the crawler may use its last good copy for 30 days (RFC 9309, 2.3.1.4). No entry is fresh for
longer than this either."""

_LAST_TIME = 2.0**37
"""No time of an entry is later: about the year 6300."""

_SIZE = "robotstxt"
"""The length of the body of robots.txt, where that of tdmrep.json follows it."""

_MAX_ITEMS = 16
"""How many headers or redirects a result may have; both kinds have fewer."""

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
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def pop(self, key: Hashable) -> V | None:
        """Remove and return the value of *key*; None if there is none."""
        value, size = self._kept.pop(key, (None, 0))
        self.size -= size
        return value

    def put(self, key: Hashable, value: V, size: int) -> list[V]:
        """Store *value* under *key*, in place of those that were not used for longest, and return
        these. *value* itself stays, whatever its size.
        """
        _, size_before = self._kept.pop(key, (None, 0))
        self._kept[key] = value, size
        self.size += size - size_before
        displaced = []
        while self.size > self._max_size and len(self._kept) > 1:
            _, (old, old_size) = self._kept.popitem(last=False)
            self.size -= old_size
            displaced.append(old)
        return displaced


class Memory:
    """What is known of each origin, together in at most *max_bytes*, if a quarter of them is room for
    one file. Those that were used last are parsed. The others are packed, which takes a tenth of the
    memory, until *read* parses them again.
    """

    def __init__(
        self, max_bytes: int, read: Callable[[Origin, CacheEntry, float], SiteRules]
    ) -> None:
        parsed_bytes = max_bytes // _PARSED_SHARE
        # The entry, and since when it is known.
        self._packed: LRU[tuple[bytes, float]] = LRU(max_bytes - parsed_bytes)
        self._parsed: LRU[SiteRules] = LRU(parsed_bytes)
        self._read = read

    @property
    def size(self) -> int:
        """The bytes with which everything counts."""
        return self._packed.size + self._parsed.size

    def get(self, origin: Origin) -> SiteRules | None:
        """What is known of *origin*, which counts as used now; None if it is not in memory."""
        rules = self._parsed.get(origin)
        if rules is not None or not self._packed.size:
            return rules
        packed = self._packed.pop(origin)
        if packed is None:
            return None
        # An entry with times before 1970, by a clock that was set, is forgotten.
        data, learned = packed
        with suppress(ValueError):
            rules = self._read(origin, loads(data, origin), learned)
            self.put(rules)
        return rules

    def put(self, rules: SiteRules) -> None:
        """Keep *rules* as what is known of their origin."""
        if self._packed.size:
            self._packed.pop(rules.origin)
        size = _PARSED_OVERHEAD + _text_size(rules.entry)
        for displaced in self._parsed.put(rules.origin, rules, size):
            # What is too long is forgotten.
            with suppress(ValueError):
                data = dumps(displaced.entry)
                size = len(data) + _PACKED_OVERHEAD
                self._packed.put(displaced.origin, (data, displaced.learned), size)


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
    for result in (entry.result, entry.copy, entry.tdmrep):
        if result is None:
            continue
        size += len(result.body) + parsed_size(result.body) + len(result.error)
        for url in result.redirects:
            size += len(url)
        for _, value in result.headers:
            size += len(value)
    return size


# Packed entries.


def dumps(entry: CacheEntry) -> bytes:
    """Write *entry* without its URL. Raises ValueError if it is too long to be stored."""
    head = _written(entry) | {"result": _written(entry.result)}
    if entry.copy is not None:
        head["copy"] = _written(entry.copy)
    # Only a successful answer has a body, and only an unsuccessful one has a copy.
    body = entry.result.body if entry.copy is None else entry.copy.body
    if entry.tdmrep is not None:
        head |= {"tdmrep": _written(entry.tdmrep), _SIZE: len(body)}
        body += entry.tdmrep.body
    written = json.dumps(head, separators=(",", ":")).encode() + b"\n" + body
    data = zlib.compress(written)
    if max(len(written), len(data)) >= MAX_SIZE:
        raise ValueError(f"{len(written)} bytes are too long to be stored")
    return data


def loads(data: bytes, origin: Origin) -> CacheEntry:
    """Read the entry of *origin*. Raises ValueError for data that :func:`dumps` has not written, or
    that is damaged."""
    inflater = zlib.decompressobj()
    try:
        written = inflater.decompress(data, MAX_SIZE)
        if not inflater.eof:
            raise ValueError("it is cut off, or too long")
        head, _, body = written.partition(b"\n")
        return _entry(_checked(dict, json.loads(head)), body, origin)
    except (
        *(ValueError, KeyError, OverflowError, RecursionError, TypeError),
        zlib.error,
    ) as error:
        detail = str(error)[:100]
        if type(error) not in {TypeError, ValueError}:
            detail = f"{type(error).__name__}: {detail}"
        raise ValueError(
            f"it is damaged, or scrapy-rep has not written it: {detail}"
        ) from None


_LEFT_OUT = frozenset({"url", "body"})
"""The fields of a result that are not written: its URL is that of its origin, its body comes after
the rest."""


def _written(value: CacheEntry | AccessResult) -> dict[str, Any]:
    defaults = value._field_defaults
    return {
        name: field
        for name, field in value._asdict().items()
        if name not in _LEFT_OUT and (name not in defaults or field != defaults[name])
    }


def _entry(head: dict[str, Any], body: bytes, origin: Origin) -> CacheEntry:
    url, copy, tdmrep = origin.robotstxt_url, head.get("copy"), None
    if "tdmrep" in head:
        size = _integer(head[_SIZE])
        tdmrep = _result(head["tdmrep"], body[size:], origin.url(TDMREP))
        body = body[:size]
    entry = CacheEntry(
        result=_result(head["result"], body if copy is None else b"", url),
        copy=None if copy is None else _result(copy, body, url),
        tdmrep=tdmrep,
        **{name: read(head[name]) for name, read in _OF_ENTRY.items() if name in head},
    )
    return entry._replace(expires=min(entry.expires, entry.fetched + KEEP))


def _result(head: dict[str, Any], body: bytes, url: str) -> AccessResult:
    read_fields = {
        name: read(head[name]) for name, read in _OF_RESULT.items() if name in head
    }
    return AccessResult(url=url, body=body, **read_fields)


def _checked(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} is where a {kind.__name__} belongs")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_checked(str, each) for each in _checked(list, value)[:_MAX_ITEMS])


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    pairs = map(_texts, _checked(list, value)[:_MAX_ITEMS])
    return tuple((name, text) for name, text in pairs)


def _integer(value: object) -> int:
    if not 0 <= _checked(int, value) < 2**31:
        raise ValueError("a number is out of range")
    return _checked(int, value)


def _time(value: object) -> float:
    # This refuses NaN, too.
    if not isinstance(value, (int, float)) or not 0 <= value <= _LAST_TIME:
        raise ValueError("a time is out of range")
    return float(value)


_OF_ENTRY: dict[str, Callable[[object], Any]] = {
    "fetched": _time,
    "expires": _time,
    "unreachable_since": _time,
    "attempts": _integer,
    "copy_fetched": _time,
    "tdmrep_fetched": _time,
}

_OF_RESULT: dict[str, Callable[[object], Any]] = {
    "status": lambda value: None if value is None else _integer(value),
    "headers": _headers,
    "redirects": _texts,
    "error": partial(_checked, str),
    "failure": Failure,
}
