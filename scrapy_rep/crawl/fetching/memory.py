"""A cache in memory for the rules of sites, and functions that serialise and deserialise cache entries.

A serialised and compressed entry is called *packed*. It consists of a line of JSON, which contains the entry's fields
that differ from their defaults, and of the bodies of the robots.txt and tdmrep.json. All of this is compressed by zlib,
whose checksum detects damage. Anybody who can write to a store can also forge entries. So :func:`loads` limits the size
of the data, and does not use pickle, which could execute code.
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
"""Entries of this number of bytes or more are not serialised. The number is about twice the size of the longest
robots.txt that a dialect of this package parses. Entries that are not serialised are not written to a store. When
the memory for parsed rules is full, they are dropped, while smaller entries are kept in serialised form."""
# dumps() checks the size before the compression, because loads() decompresses only this many bytes, and after it,
# because stores read only this many bytes. Data that cannot be compressed becomes a little longer.

KEEP = 30 * 24 * 3600.0
"""How long, in seconds, a store keeps an entry after the entry has expired. Expired entries are kept because a crawler
can use the last good copy of a robots.txt for 30 days while the robots.txt is unreachable (RFC 9309, 2.3.1.4)."""
# loads() uses the same time to limit the age of fresh entries: an entry expires at the latest 30 days after its
# robots.txt was fetched.

_LAST_TIME = 2.0**37
"""The latest valid time in an entry, about the year 6300. An entry with a later time is damaged."""

_ROBOTSTXT_SIZE = "robotstxt"
"""The name of the JSON field of a packed (serialised) entry that contains the length of the robots.txt in bytes. The
tdmrep.json follows directly after the robots.txt, so this length shows where the tdmrep.json begins."""

_MAX_ITEMS = 16
"""The maximum number of headers, and of redirects, to read from a packed (serialised) entry. Entries that this package
writes contain fewer headers and fewer redirects."""

_PARSED_SHARE = 4
"""The memory limit of a crawl is divided by this number. The result, a quarter of the memory, is for parsed files. The
other three quarters are for packed entries, which are serialised and compressed."""

# The memory that an entry uses in addition to its data, in bytes (measured). For a packed (serialised and compressed)
# entry, this is the memory of its key. For a parsed entry, it also includes the objects for the entry, its result and
# its headers.
_PACKED_OVERHEAD = 580
_PARSED_OVERHEAD = 1_600

# The maximum memory that a parsed robots.txt uses, in bytes (measured), for each line, for each "*" in a rule, and for
# each record of usage preferences. The numbers include the lookup tables of the rules, which are built when the rules
# are first used.
_LINE_BYTES = 160
_WILDCARD_BYTES = 310
_RECORD_BYTES = 2_000
# The maximum memory that all usage preference records of a file together use, in bytes. A file with even more records
# uses no more memory, because the parser stops reading records at a limit.
_ALL_RECORDS_BYTES = 8_000_000


class LRU(Generic[V]):
    """A mapping with a limit for the total size of its values. When the total size exceeds *max_size*, the least
    recently used values are evicted.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._kept: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self.size = 0

    def get(self, key: Hashable) -> V | None:
        """Return the value of *key*, and mark it as most recently used. Return None if the key is missing."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        value, _ = self._kept[key]
        return value

    def pop(self, key: Hashable) -> V | None:
        """Remove and return the value of *key*. Return None if the key is missing."""
        value, size = self._kept.pop(key, (None, 0))
        self.size -= size
        return value

    def put(self, key: Hashable, value: V, size: int) -> list[V]:
        """Store *value* under *key*, evict the least recently used values until the total size is within the limit, and
        return the evicted values. *value* itself is never evicted, even if its *size* exceeds the limit.
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
    """Caches the rules of origins in about *max_bytes* of memory. The most recently used rules are kept parsed. Other
    rules are kept packed, which means serialised and compressed. When packed rules are needed again, they are unpacked,
    and the function *read* parses them. Its arguments are the origin, the cache entry, and the time, on the monotonic
    clock, at which this process received the entry.

    Parsed rules use at most a quarter of *max_bytes*. They use more only while the rules of a single origin are larger
    than this quarter.
    """

    # To save memory, only some rules are kept parsed. The others are kept packed (serialised and compressed).
    # According to a measurement with 2,143 real files, 128 MB are enough for:
    #
    # - the rules of 65,000 hosts if most of them are packed
    # - the rules of 27,000 hosts if all are parsed, and each file was used for one decision
    # - the rules of 3,000 hosts if all are parsed, and each file uses the maximum memory for its size (parsed_size())
    #
    # Unpacking and parsing a file takes 0.1 ms. For comparison, a crawl needs 0.7 ms for a page.

    def __init__(
        self, max_bytes: int, read: Callable[[Origin, CacheEntry, float], SiteRules]
    ) -> None:
        parsed_bytes = max_bytes // _PARSED_SHARE
        # The values are pairs of a packed entry, and the time, on the monotonic clock, at which this process received
        # the entry.
        self._packed: LRU[tuple[bytes, float]] = LRU(max_bytes - parsed_bytes)
        self._parsed: LRU[SiteRules] = LRU(parsed_bytes)
        self._read = read

    @property
    def size(self) -> int:
        """The estimated memory, in bytes, of all rules in this cache, whether they are kept parsed or packed."""
        return self._packed.size + self._parsed.size

    def get(self, origin: Origin) -> SiteRules | None:
        """Return the rules of *origin*, and mark the rules as most recently used. Return None if memory contains no
        rules of *origin*.
        """
        rules = self._parsed.get(origin)
        if rules is not None:
            return rules
        packed = self._packed.pop(origin)
        if packed is None:
            return None
        data, learned = packed
        # If the entry cannot be unpacked, it is dropped, and None is returned. This happens only if the clock of the
        # machine was wrong, so that the entry has a time before 1970.
        with suppress(ValueError):
            rules = self._read(origin, loads(data, origin), learned)
            self.put(rules)
        return rules

    def put(self, rules: SiteRules) -> None:
        """Store *rules* as the rules of the origin ``rules.origin``. They replace earlier rules of this origin."""
        self._packed.pop(rules.origin)
        size = _PARSED_OVERHEAD + _text_size(rules.entry)
        for evicted in self._parsed.put(rules.origin, rules, size):
            # Rules that are too long to be packed are dropped. Their robots.txt is fetched again when it is needed.
            with suppress(ValueError):
                data = dumps(evicted.entry)
                size = len(data) + _PACKED_OVERHEAD
                self._packed.put(evicted.origin, (data, evicted.learned), size)


def parsed_size(body: bytes) -> int:
    """Return an upper bound for the memory, in bytes, of a parsed robots.txt or tdmrep.json with this *body*. The bound
    includes the lookup tables that are built when the rules are first used for a crawler.
    """
    lines = 1 + body.count(b"\n") + body.count(b"\r")
    # Usage preference records are lines such as "Content-Usage: ..." in a robots.txt, and objects in a tdmrep.json.
    records = body.lower().count(b"content-") + body.count(b"{")
    return (
        2 * len(body)
        + _LINE_BYTES * lines
        + _WILDCARD_BYTES * min(lines, body.count(b"*"))
        + min(_RECORD_BYTES * records, _ALL_RECORDS_BYTES)
    )


def _text_size(entry: CacheEntry) -> int:
    """Return an upper bound, in bytes, for the memory of a parsed *entry*: the parsed robots.txt and tdmrep.json, and
    the texts in *entry*.
    """
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


# Packing and unpacking entries.


def dumps(entry: CacheEntry) -> bytes:
    """Serialise and compress *entry*, and return the data. The data does not contain the URL of the robots.txt, since
    :func:`loads` derives the URL from the origin. Raises ValueError if the data is not shorter than :data:`MAX_SIZE`,
    before or after the compression.
    """
    head = _fields_of(entry) | {"result": _fields_of(entry.result)}
    if entry.copy is not None:
        head["copy"] = _fields_of(entry.copy)
    # An entry contains at most one robots.txt. Usually, it is the body of the last result. If robots.txt is unreachable
    # now, it is the body of the last good copy.
    body = entry.result.body if entry.copy is None else entry.copy.body
    if entry.tdmrep is not None:
        head |= {"tdmrep": _fields_of(entry.tdmrep), _ROBOTSTXT_SIZE: len(body)}
        body += entry.tdmrep.body
    written = json.dumps(head, separators=(",", ":")).encode() + b"\n" + body
    data = zlib.compress(written)
    if max(len(written), len(data)) >= MAX_SIZE:
        raise ValueError(
            f"an entry of {len(written)} bytes is too long to be stored; the limit is {MAX_SIZE} bytes"
        )
    return data


def loads(data: bytes, origin: Origin) -> CacheEntry:
    """Deserialise *data*, which :func:`dumps` has returned for an entry of *origin*, and return the entry. Raises
    ValueError if *data* is damaged, or does not come from :func:`dumps`.
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
            f"the data is damaged, or was not written by scrapy-rep: {detail}"
        ) from None


_LEFT_OUT = frozenset({"url", "body"})
"""The fields of an AccessResult that are not part of the JSON in a packed (serialised) entry. The URL is left out,
since :func:`loads` derives it from the origin. The body is written after the JSON."""


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
        raise TypeError(
            f"a value in the entry has the type {type(value).__name__}, but it must have the type {kind.__name__}"
        )
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_checked(str, text) for text in _checked(list, value)[:_MAX_ITEMS])


def _headers(value: object) -> tuple[tuple[str, str], ...]:
    pairs = map(_texts, _checked(list, value)[:_MAX_ITEMS])
    return tuple((name, text) for name, text in pairs)


def _integer(value: object) -> int:
    if not 0 <= _checked(int, value) < 2**31:
        raise ValueError("a number in the entry is negative or too large")
    return _checked(int, value)


def _time(value: object) -> float:
    # Written in this form, the condition also rejects NaN, since each comparison with NaN is false.
    if not isinstance(value, (int, float)) or not 0 <= value <= _LAST_TIME:
        raise ValueError(
            "a time in the entry is not a number, or is negative or too large"
        )
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
