"""The interface of a store, and the format of its entries.

An entry is written as::

    "rep" version CRC-32 JSON LF body [body of the copy]
     3    1       4

The JSON object has the fields of the entry, except those that are None or empty. The bodies
follow, each deflated if that is shorter. The version is one octet; the CRC-32 (big-endian)
covers everything after it. Reading never executes code, and gives None for data that is not
an entry.
"""

from __future__ import annotations

import json
import math
import zlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

from scrapy_rep.protocol.access.results import AccessResult, Entry

MAX_BODY = 600_000
"""The length limit for a stored body, in bytes; more than any dialect parses."""

KEEP = 30 * 24 * 3600.0
"""The seconds for which a store keeps an expired entry: while a robots.txt is unreachable,
the crawler may use its last good copy for 30 days (RFC 9309, 2.3.1.4)."""

_T = TypeVar("_T")

_MAGIC = b"rep\x01"
_HEAD = len(_MAGIC) + 4

# Shorter bodies, in bytes, are not deflated, which would save little.
_DEFLATED_FROM = 200

# The errors that reading data can raise if it is not an entry.
_NOT_AN_ENTRY = (
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)


class Store(ABC):
    """Keeps entries by origin, and locks that let only one of several workers fetch a
    robots.txt. An *origin* is any string: ``str(Origin)`` for a robots.txt, the URL of a
    tdmrep.json, or the name of the lock for the turn at a host.

    A subclass implements the storage of bytes. All methods may be called from several
    threads. Methods that use a disk or a network raise StoreError if that fails; later calls
    reopen files and connections. *now* is in seconds since the epoch.
    """

    blocking: ClassVar[bool]
    """Whether the store uses a disk or a network. Then it is called on a thread, and other
    processes may use it too."""

    def get(self, origin: str, now: float) -> Entry | None:
        """The entry of *origin*, even if it has expired, but at most KEEP seconds ago. None
        if there is no such entry, or it cannot be read.
        """
        data = self.read(origin)
        entry = None if data is None else loads(data)
        if entry is None or entry.expires + KEEP <= now:
            return None
        return entry

    def put(self, origin: str, entry: Entry, now: float) -> None:
        """Store *entry* as the entry of *origin*, and replace the one before.

        If *entry* cannot be written, or expired more than KEEP seconds ago, remove the one
        before without a replacement.
        """
        until = entry.expires + KEEP
        try:
            data = dumps(entry) if now < until else None
        except ValueError:
            data = None
        if data is None:
            self.remove(origin)
        else:
            self.write(origin, data, until, now)

    @abstractmethod
    def lock(self, origin: str, owner: str, seconds: float, now: float) -> bool:
        """Lock *origin*, so that only *owner* fetches its file, or has the turn at its host.
        Return whether *owner* has the lock.

        The lock expires after *seconds*. A call by its owner renews it for *seconds*. Calls
        for the same origin must pass similar *seconds*: a lock that expires much later was made
        before the clock was set back, and a store may ignore it.
        """

    @abstractmethod
    def unlock(self, origin: str, owner: str) -> None:
        """Release the lock, if *owner* has it."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Never raises. After it, other methods raise StoreError."""

    @abstractmethod
    def read(self, origin: str) -> bytes | None:
        """The data stored for *origin*; None if there is none."""

    @abstractmethod
    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        """Store *data* at least until *until*, in seconds since the epoch."""

    @abstractmethod
    def remove(self, origin: str) -> None:
        """Remove the data stored for *origin*, if any."""


def dumps(entry: Entry) -> bytes:
    """Serialise *entry*. Raises ValueError for a body over MAX_BODY or a non-finite time."""
    bodies: list[bytes] = []
    header = _header(entry, bodies)
    written = json.dumps(header, separators=(",", ":"), allow_nan=False)
    content = b"".join((written.encode(), b"\n", *bodies))
    return b"".join((_MAGIC, zlib.crc32(content).to_bytes(4, "big"), content))


def loads(data: bytes) -> Entry | None:
    """Read an entry that ``dumps`` wrote; None if *data* is anything else, is damaged, or has
    another version of the format. Never raises, and never inflates a body beyond MAX_BODY.
    """
    try:
        return _load(data)
    except _NOT_AN_ENTRY:
        return None


def _header(entry: Entry, bodies: list[bytes]) -> dict[str, object]:
    """The JSON object of *entry*. Appends its bodies, as they are stored, to *bodies*."""
    copy = entry.copy
    return _written(
        {
            **_result_header(entry.result, bodies),
            "fetched": entry.fetched,
            "expires": entry.expires,
            "unreachable_since": entry.unreachable_since,
            "attempts": entry.attempts,
            "copy": None if copy is None else _result_header(copy, bodies),
            "copy_fetched": entry.copy_fetched,
        }
    )


def _result_header(result: AccessResult, bodies: list[bytes]) -> dict[str, object]:
    body = result.body
    if len(body) > MAX_BODY:
        raise ValueError(f"A body of {len(body)} bytes is too long to be stored.")
    deflated = zlib.compress(body) if len(body) >= _DEFLATED_FROM else body
    is_deflated = len(deflated) < len(body)
    bodies.append(deflated if is_deflated else body)
    return _written(
        {
            "url": result.url,
            "redirects": result.redirects or None,
            "status": result.status,
            "headers": result.headers or None,
            "error": result.error or None,
            "permanent": result.is_permanent or None,
            "size": len(bodies[-1]),
            "deflated": is_deflated,
        }
    )


def _written(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _load(data: bytes) -> Entry:
    content = data[_HEAD:]
    crc = zlib.crc32(content).to_bytes(4, "big")
    if data[:_HEAD] != _MAGIC + crc:
        raise ValueError(data)
    written, _, bodies = content.partition(b"\n")
    header = _checked(dict, json.loads(written))
    size = _checked(int, header["size"])
    copy = header.get("copy")
    return Entry(
        result=_result(header, bodies if copy is None else bodies[:size]),
        fetched=_time(header["fetched"]),
        expires=_time(header["expires"]),
        unreachable_since=_optional_time(header, "unreachable_since"),
        attempts=_checked(int, header["attempts"]),
        copy=None if copy is None else _result(_checked(dict, copy), bodies[size:]),
        copy_fetched=_optional_time(header, "copy_fetched"),
    )


def _result(header: dict[str, Any], stored: bytes) -> AccessResult:
    if len(stored) != _checked(int, header["size"]) or len(stored) > MAX_BODY:
        raise ValueError(header)
    status = header.get("status")
    return AccessResult(
        url=_checked(str, header["url"]),
        status=None if status is None else _checked(int, status),
        headers=tuple(
            (_checked(str, name), _checked(str, value))
            for name, value in header.get("headers", ())
        ),
        body=_inflated(stored) if header["deflated"] is True else stored,
        redirects=tuple(_checked(str, url) for url in header.get("redirects", ())),
        error=_checked(str, header.get("error", "")),
        is_permanent=header.get("permanent") is True,
    )


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    body = inflater.decompress(data, MAX_BODY + 1)
    if len(body) > MAX_BODY or not inflater.eof or inflater.unused_data:
        raise ValueError(len(body))
    return body


def _checked(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def _time(value: object) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(value)
    return float(value)


def _optional_time(header: dict[str, Any], name: str) -> float | None:
    return None if header.get(name) is None else _time(header[name])
