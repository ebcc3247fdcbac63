"""An LRU cache for the rules of sites, and the serialised form of cache entries (*packed*).

A packed entry is a line of JSON with the fields of the entry that differ from their defaults, followed by the
bodies of its files, all compressed by zlib, whose checksum detects damage. Anybody who can write to a store
may have forged an entry, so :func:`loads` limits the size of the data, and does not use pickle, which could execute
code.
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
"""The largest packed entry in bytes, before and after compression. That is twice the longest robots.txt that
any dialect parses."""

KEEP = 30 * 24 * 3600.0
"""How many seconds a store keeps an entry after its expiry, and the longest time for which an entry is fresh.
While a robots.txt is unreachable, the crawler may use its last good copy for 30 days (RFC 9309, 2.3.1.4)."""

_LAST_TIME = 2.0**37
"""The latest valid time in an entry, about the year 6300. Any later time is damage."""

_ROBOTSTXT_SIZE = "robotstxt"
"""The JSON field with the length of the robots.txt, after which the body of the tdmrep.json begins."""

_MAX_ITEMS = 16
"""The maximum number of headers, and of redirects, to read from a packed entry. Entries of this package have
fewer."""

_PARSED_SHARE = 4
"""Parsed files may take one part in four of the memory; the rest is for packed entries."""

# Measured: the bytes of memory that an entry takes in addition to its data. For a packed entry, that is its key;
# for a parsed file also the objects of its entry, result and headers.
_PACKED_OVERHEAD = 580
_PARSED_OVERHEAD = 1_600

# Measured: the most bytes of memory that a robots.txt takes after its rules are indexed (on first use): for each
# line, for each "*" in a rule, and for each record of usage preferences.
_LINE_BYTES = 160
_WILDCARD_BYTES = 310
_RECORD_BYTES = 2_000
# The maximum number of bytes that all records of usage preferences of a file can take: only the first records are
# parsed, so there is a limit.
_ALL_RECORDS_BYTES = 8_000_000


class LRU(Generic[V]):
    """A mapping that evicts the least recently used values when their total size exceeds *max_size*."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._kept: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: Hashable) -> V | None:
        """Return the value of *key*, and mark it as most recently used; None if there is none."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        value, _ = self._kept[key]
        return value

    def pop(self, key: Hashable) -> V | None:
        """Remove and return the value of *key*; None if there is none."""
        value, size = self._kept.pop(key, (None, 0))
        self.size -= size
        return value

    def put(self, key: Hashable, value: V, size: int) -> list[V]:
        """Store *value* under *key*, and return the evicted values: the least recently used ones. *value*
        itself is never evicted, even if it alone exceeds the limit.
        """
        _, size_before = self._kept.pop(key, (None, 0))
        self._kept[key] = value, size
        self.size += size - size_before
        evicted = []
        while self.size > self._max_size and len(self._kept) > 1:
            _, (old, old_size) = self._kept.popitem(last=False)
            self.size -= old_size
            evicted.append(old)
        return evicted


class Memory:
    """Caches the rules of origins in at most *max_bytes* of memory. The most recently used rules are kept
    parsed; the others are packed, and *read* parses them when they are needed again.

    Parsed rules take a quarter of *max_bytes*. The limit is exceeded only while a single file takes more than that.
    """

    # Why two forms: measured with 2,143 real files, 128 MB hold the rules of 65,000 hosts if most are packed. If all
    # were parsed, 128 MB would hold 27,000 hosts with one decision each, and 3,000 in the worst case. Unpacking and
    # parsing a file takes 0.1 ms, a seventh of the time of a page in a crawl.

    def __init__(
        self, max_bytes: int, read: Callable[[Origin, CacheEntry, float], SiteRules]
    ) -> None:
        parsed_bytes = max_bytes // _PARSED_SHARE
        # Each packed entry, and when this process learned it.
        self._packed: LRU[tuple[bytes, float]] = LRU(max_bytes - parsed_bytes)
        self._parsed: LRU[SiteRules] = LRU(parsed_bytes)
        self._read = read

    @property
    def size(self) -> int:
        """The estimated memory of all rules, parsed and packed, in bytes."""
        return self._packed.size + self._parsed.size

    def get(self, origin: Origin) -> SiteRules | None:
        """Return the rules of *origin*, and mark them as most recently used; None if they are not in memory."""
        rules = self._parsed.get(origin)
        if rules is not None:
            return rules
        packed = self._packed.pop(origin)
        if packed is None:
            return None
        data, learned = packed
        # An entry that cannot be unpacked is dropped: a wrong clock gave it times before 1970.
        with suppress(ValueError):
            rules = self._read(origin, loads(data, origin), learned)
            self.put(rules)
        return rules

    def put(self, rules: SiteRules) -> None:
        """Store *rules* for their origin, in place of earlier ones."""
        self._packed.pop(rules.origin)
        size = _PARSED_OVERHEAD + _text_size(rules.entry)
        for evicted in self._parsed.put(rules.origin, rules, size):
            # A file that is too long to be packed is dropped, and fetched again when it is needed.
            with suppress(ValueError):
                data = dumps(evicted.entry)
                size = len(data) + _PACKED_OVERHEAD
                self._packed.put(evicted.origin, (data, evicted.learned), size)


def parsed_size(body: bytes) -> int:
    """Return an upper bound for the memory, in bytes, of a robots.txt or tdmrep.json with this *body*, when it
    is parsed and its rules for one crawler are indexed.
    """
    lines = 1 + body.count(b"\n") + body.count(b"\r")
    # Records of usage preferences: lines such as "Content-Usage", and the objects of a tdmrep.json.
    records = body.lower().count(b"content-") + body.count(b"{")
    return (
        2 * len(body)
        + _LINE_BYTES * lines
        + _WILDCARD_BYTES * min(lines, body.count(b"*"))
        + min(_RECORD_BYTES * records, _ALL_RECORDS_BYTES)
    )


def _text_size(entry: CacheEntry) -> int:
    """Return an upper bound for the memory of the texts and parsed files of *entry*, in bytes."""
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


# The packed form of entries.


def dumps(entry: CacheEntry) -> bytes:
    """Return *entry* in packed form, without its URL, which :func:`loads` derives from the origin. Raises
    ValueError if the entry is longer than :data:`MAX_SIZE`.
    """
    head = _fields_of(entry) | {"result": _fields_of(entry.result)}
    if entry.copy is not None:
        head["copy"] = _fields_of(entry.copy)
    # An entry has at most one robots.txt: that of a successful answer or, after a failure, the older copy.
    body = entry.result.body if entry.copy is None else entry.copy.body
    if entry.tdmrep is not None:
        head |= {"tdmrep": _fields_of(entry.tdmrep), _ROBOTSTXT_SIZE: len(body)}
        body += entry.tdmrep.body
    written = json.dumps(head, separators=(",", ":")).encode() + b"\n" + body
    data = zlib.compress(written)
    if max(len(written), len(data)) >= MAX_SIZE:
        raise ValueError(f"an entry of {len(written)} bytes is too long to be stored")
    return data


def loads(data: bytes, origin: Origin) -> CacheEntry:
    """Return the entry of *origin* from *data*, its packed form. Raises ValueError if the data is damaged, or
    :func:`dumps` has not written it.
    """
    inflater = zlib.decompressobj()
    try:
        written = inflater.decompress(data, MAX_SIZE)
        if not inflater.eof:
            raise ValueError("the data is truncated or too long")
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
            f"the data is damaged, or scrapy-rep has not written it: {detail}"
        ) from None


_LEFT_OUT = frozenset({"url", "body"})
"""The fields of a result that are not in the JSON: the URL follows from the origin, and the body comes after
the JSON."""


def _fields_of(value: CacheEntry | AccessResult) -> dict[str, Any]:
    defaults = value._field_defaults
    return {
        name: field
        for name, field in value._asdict().items()
        if name not in _LEFT_OUT and (name not in defaults or field != defaults[name])
    }


def _entry(head: dict[str, Any], body: bytes, origin: Origin) -> CacheEntry:
    url, copy, tdmrep = origin.robotstxt_url, head.get("copy"), None
    if "tdmrep" in head:
        size = _integer(head[_ROBOTSTXT_SIZE])
        tdmrep = _result(head["tdmrep"], body[size:], origin.url(TDMREP))
        body = body[:size]
    entry = CacheEntry(
        result=_result(head["result"], body if copy is None else b"", url),
        copy=None if copy is None else _result(copy, body, url),
        tdmrep=tdmrep,
        **{
            name: read(head[name])
            for name, read in _ENTRY_FIELDS.items()
            if name in head
        },
    )
    return entry._replace(expires=min(entry.expires, entry.fetched + KEEP))


def _result(head: dict[str, Any], body: bytes, url: str) -> AccessResult:
    read_fields = {
        name: read(head[name]) for name, read in _RESULT_FIELDS.items() if name in head
    }
    return AccessResult(url=url, body=body, **read_fields)


def _checked(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"a {kind.__name__} is expected, not a {type(value).__name__}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_checked(str, text) for text in _checked(list, value)[:_MAX_ITEMS])


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    pairs = map(_texts, _checked(list, value)[:_MAX_ITEMS])
    return tuple((name, text) for name, text in pairs)


def _integer(value: object) -> int:
    if not 0 <= _checked(int, value) < 2**31:
        raise ValueError("a number in the entry is out of range")
    return _checked(int, value)


def _time(value: object) -> float:
    # Written so that NaN, for which each comparison is false, is refused too.
    if not isinstance(value, (int, float)) or not 0 <= value <= _LAST_TIME:
        raise ValueError("a time in the entry is out of range")
    return float(value)


_ENTRY_FIELDS: dict[str, Callable[[object], Any]] = {
    "fetched": _time,
    "expires": _time,
    "unreachable_since": _time,
    "attempts": _integer,
    "copy_fetched": _time,
    "tdmrep_fetched": _time,
}

_RESULT_FIELDS: dict[str, Callable[[object], Any]] = {
    "status": lambda value: None if value is None else _integer(value),
    "headers": _headers,
    "redirects": _texts,
    "error": partial(_checked, str),
    "failure": Failure,
}
