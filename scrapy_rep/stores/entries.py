"""The format in which an entry is stored, and kept in memory while nobody uses it.

It is a line of JSON with the fields of the entry that differ from their defaults, and the body,
compressed together by zlib, whose checksum finds damage. What a store returns may come from
anybody who can write there: :func:`loads` bounds what it reads, and executes nothing.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import fields
from typing import Any, TypeVar

from scrapy_rep.protocol.access.results import AccessResult, Entry

MAX_SIZE = 1024 * 1024
"""The length limit for an entry with its body, in bytes; twice what any dialect parses."""

KEEP = 30 * 24 * 3600.0
"""The seconds for which a store keeps an expired entry: while a robots.txt is unreachable,
the crawler may use its last good copy for 30 days (RFC 9309, 2.3.1.4). No entry is fresh for
longer than this either."""

_LAST_TIME = 2.0**37
"""No time of an entry is later: about the year 6300."""

_MAX_ITEMS = 16
"""How many headers or redirects a result may have; both kinds have fewer."""

_T = TypeVar("_T")


def dumps(entry: Entry) -> bytes:
    """Write *entry* without its URL. Raises ValueError if it is too long to be stored."""
    head = _written(entry) | {"result": _written(entry.result)}
    if entry.copy is not None:
        head["copy"] = _written(entry.copy)
    # Only a successful answer has a body, and only an unsuccessful one has a copy.
    body = entry.result.body if entry.copy is None else entry.copy.body
    written = json.dumps(head, separators=(",", ":")).encode() + b"\n" + body
    if len(written) >= MAX_SIZE:
        raise ValueError(f"{len(written)} bytes are too long to be stored")
    return zlib.compress(written)


def loads(data: bytes, url: str) -> Entry:
    """Read the entry of the file at *url*. Raises ValueError for data that :func:`dumps` has not
    written, or that is damaged."""
    inflater = zlib.decompressobj()
    try:
        written = inflater.decompress(data, MAX_SIZE)
        if not inflater.eof:
            raise ValueError("it is cut off, or too long")
        head, _, body = written.partition(b"\n")
        return _entry(_checked(dict, json.loads(head)), body, url)
    except (KeyError, OverflowError, RecursionError, TypeError, zlib.error) as error:
        raise ValueError(f"{type(error).__name__}: {str(error)[:100]}") from None


def _written(value: Entry | AccessResult) -> dict[str, Any]:
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {
        each.name: found[each.name]
        for each in fields(value)
        if each.name not in {"url", "body"} and found[each.name] != each.default
    }


def _entry(head: dict[str, Any], body: bytes, url: str) -> Entry:
    copy, fetched = head.get("copy"), _time(head["fetched"])
    return Entry(
        result=_result(head["result"], body if copy is None else b"", url),
        fetched=fetched,
        expires=min(_time(head["expires"]), fetched + KEEP),
        unreachable_since=_time_or_none(head, "unreachable_since"),
        attempts=_integer(head.get("attempts", 0)),
        copy=None if copy is None else _result(copy, body, url),
        copy_fetched=_time_or_none(head, "copy_fetched"),
    )


def _result(head: dict[str, Any], body: bytes, url: str) -> AccessResult:
    status = head["status"]
    return AccessResult(
        url=url,
        status=None if status is None else _integer(status),
        headers=tuple(
            (_checked(str, name), _checked(str, value))
            for name, value in _items(head, "headers")
        ),
        body=body,
        redirects=tuple(_checked(str, each) for each in _items(head, "redirects")),
        error=_checked(str, head.get("error", "")),
        is_permanent=head.get("is_permanent") is True,
    )


def _items(head: dict[str, Any], name: str) -> list[Any]:
    return _checked(list, head.get(name, []))[:_MAX_ITEMS]


def _checked(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"{kind.__name__} expected")
    return value


def _integer(value: object) -> int:
    if not 0 <= _checked(int, value) < 2**31:
        raise ValueError("a number is out of range")
    return _checked(int, value)


def _time(value: object) -> float:
    # This refuses NaN, too.
    if not isinstance(value, (int, float)) or not 0 <= value <= _LAST_TIME:
        raise ValueError("a time is out of range")
    return float(value)


def _time_or_none(head: dict[str, Any], name: str) -> float | None:
    return None if head.get(name) is None else _time(head[name])
