"""The contract of a store, and the format of the entries in it.

An entry is written as::

    "rep" version CRC-32 JSON LF body [body of the copy]
     3    1       4

The JSON object has the fields of the entry, except those that are None or empty. Each body
follows, deflated where that is shorter. The version is one octet; the CRC-32 (big-endian)
is of all that follows it. No part is code, and reading anything else than an entry gives
None.
"""

from __future__ import annotations

import json
import math
import zlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

from scrapy_rep.protocol.access.results import AccessResult, Entry

MAX_BODY = 600_000
"""The longest body that can be stored, in bytes: longer than what the dialects read."""

KEEP = 30 * 24 * 3600.0
"""The seconds for which an expired entry is kept: while a robots.txt is unreachable, the
last good one may be used for that long (RFC 9309, 2.3.1.4)."""

_T = TypeVar("_T")

_MAGIC = b"rep\x01"
_HEAD = len(_MAGIC) + 4

# Bodies of fewer bytes are not deflated, which would save little.
_DEFLATED_FROM = 200

# The errors that reading anything else than an entry can raise.
_NOT_AN_ENTRY = (
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)


class Store(ABC):
    """Keeps entries by origin, written as ``str(Origin)``, and locks that choose one of
    several workers to fetch a robots.txt.

    A subclass keeps the bytes. All methods may be called from several threads. Those that
    use a disk or a network raise StoreError when that fails, and may be called again:
    nothing has to be reopened. *now* is in seconds since the epoch.
    """

    blocking: ClassVar[bool]
    """Whether calls use a disk or a network, so that they are made on a thread, and other
    processes may use the store."""

    def get(self, origin: str, now: float) -> Entry | None:
        """The entry of *origin*, an expired one too, unless it expired more than KEEP
        seconds ago. None where there is none, or none that can be read.
        """
        data = self.read(origin)
        entry = None if data is None else loads(data)
        if entry is None or entry.expires + KEEP <= now:
            return None
        return entry

    def put(self, origin: str, entry: Entry, now: float) -> None:
        """Keep *entry* for *origin*; the entry before it is replaced.

        An entry that cannot be written, or expired too long ago, is not kept, and the one
        before it is removed.
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
        """Lock *origin*, so that *owner* alone fetches its robots.txt. Return whether it
        has the lock.

        The lock expires after *seconds*. An owner that calls again has it for *seconds*
        from then on. All calls for one name give about the same *seconds*.
        """

    @abstractmethod
    def unlock(self, origin: str, owner: str) -> None:
        """Give up the lock, if *owner* has it."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. Later calls of other methods raise StoreError. Never
        raises.
        """

    @abstractmethod
    def read(self, origin: str) -> bytes | None: ...

    @abstractmethod
    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        """Keep *data* at least until *until*, in seconds since the epoch."""

    @abstractmethod
    def remove(self, origin: str) -> None: ...


def dumps(entry: Entry) -> bytes:
    """Write *entry* as bytes.

    Raises ValueError for an entry with a body longer than MAX_BODY, or a time that is not
    finite.
    """
    bodies: list[bytes] = []
    header = _header(entry, bodies)
    written = json.dumps(header, separators=(",", ":"), allow_nan=False)
    content = b"".join((written.encode(), b"\n", *bodies))
    return b"".join((_MAGIC, zlib.crc32(content).to_bytes(4, "big"), content))


def loads(data: bytes) -> Entry | None:
    """Read what ``dumps`` wrote; None where *data* is something else, is damaged, or is of
    another version of the format. Never raises, whatever *data* is, and never inflates a
    body beyond MAX_BODY.
    """
    try:
        return _load(data)
    except _NOT_AN_ENTRY:
        return None


def _header(entry: Entry, bodies: list[bytes]) -> dict[str, object]:
    """The JSON object of *entry*. Its bodies, in the form in which they are stored, are
    appended to *bodies*."""
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
