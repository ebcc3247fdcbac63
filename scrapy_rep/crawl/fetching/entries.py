"""The format in which an entry is stored, and kept in memory while nobody uses it.

It is a line of JSON with the fields of the entry that differ from their defaults, and the bodies,
compressed together by zlib, whose checksum finds damage. What a store returns may come from
anybody who can write there: :func:`loads` bounds what it reads, and executes nothing.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_rep.protocol.access.results import AccessResult, CacheEntry
from scrapy_rep.protocol.usage.sites import PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.protocol.origins import Origin

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

_T = TypeVar("_T")


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
    except (KeyError, OverflowError, RecursionError, TypeError, zlib.error) as error:
        raise ValueError(f"{type(error).__name__}: {str(error)[:100]}") from None


def _written(value: CacheEntry | AccessResult) -> dict[str, Any]:
    found = {
        each.name: (getattr(value, each.name), each.default) for each in fields(value)
    }
    for name in ("url", "body", "failure"):
        found.pop(name, None)
    return {name: field for name, (field, default) in found.items() if field != default}


def _entry(head: dict[str, Any], body: bytes, origin: Origin) -> CacheEntry:
    url, copy, tdmrep = origin.robotstxt_url, head.get("copy"), None
    if "tdmrep" in head:
        size = _integer(head[_SIZE])
        tdmrep = _result(head["tdmrep"], body[size:], origin.url(PATH))
        body = body[:size]
    entry = CacheEntry(
        result=_result(head["result"], body if copy is None else b"", url),
        copy=None if copy is None else _result(copy, body, url),
        tdmrep=tdmrep,
        **{name: read(head[name]) for name, read in _OF_ENTRY.items() if name in head},
    )
    return replace(entry, expires=min(entry.expires, entry.fetched + KEEP))


def _result(head: dict[str, Any], body: bytes, url: str) -> AccessResult:
    read_fields = {
        name: read(head[name]) for name, read in _OF_RESULT.items() if name in head
    }
    return AccessResult(url=url, body=body, **read_fields)


def _checked(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected")
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
    "is_permanent": partial(_checked, bool),
    "is_dropped": partial(_checked, bool),
}
