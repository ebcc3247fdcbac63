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
from typing import Any, ClassVar

from scrapy_rep.protocol.access.results import AccessResult, Entry

MAX_BODY = 600_000
"""The longest body that can be stored, in bytes: longer than what the dialects read."""

KEEP = 30 * 24 * 3600.0
"""The seconds for which an expired entry is kept: while a robots.txt is unreachable, the
last good one may be used for that long (RFC 9309, 2.3.1.4)."""

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

    def __init__(self, keep: float = KEEP) -> None:
        self._keep = keep

    def get(self, origin: str, now: float) -> Entry | None:
        """The entry of *origin*, an expired one too, unless it expired more than *keep*
        seconds ago. None where there is none, or none that can be read.
        """
        data = self.read(origin)
        entry = None if data is None else loads(data)
        if entry is None or entry.expires + self._keep <= now:
            return None
        return entry

    def put(self, origin: str, entry: Entry, now: float) -> None:
        """Keep *entry* for *origin*; the entry before it is replaced.

        An entry that cannot be written, or expired too long ago, is not kept, and the one
        before it is removed.
        """
        until = entry.expires + self._keep
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
    header: dict[str, object] = {
        **_result_header(entry.result, bodies),
        "fetched": entry.fetched,
        "expires": entry.expires,
        "unreachable_since": entry.unreachable_since,
        "attempts": entry.attempts,
        "copy": None if entry.copy is None else _result_header(entry.copy, bodies),
        "copy_fetched": entry.copy_fetched,
    }
    return {name: value for name, value in header.items() if value is not None}


def _result_header(result: AccessResult, bodies: list[bytes]) -> dict[str, object]:
    if len(result.body) > MAX_BODY:
        raise ValueError(
            f"A body of {len(result.body)} bytes is too long to be stored."
        )
    deflated = False
    body = result.body
    if len(body) >= _DEFLATED_FROM:
        shorter = zlib.compress(body)
        if len(shorter) < len(body):
            body, deflated = shorter, True
    bodies.append(body)
    header = {
        "url": result.url,
        "redirects": result.redirects or None,
        "status": result.status,
        "headers": result.headers or None,
        "error": result.error or None,
        "permanent": result.is_permanent or None,
        "size": len(body),
        "deflated": deflated,
    }
    return {name: value for name, value in header.items() if value is not None}


def _load(data: bytes) -> Entry:
    content = data[_HEAD:]
    crc = zlib.crc32(content).to_bytes(4, "big")
    if data[:_HEAD] != _MAGIC + crc:
        raise ValueError(data)
    written, _, bodies = content.partition(b"\n")
    header = _dict(json.loads(written))
    size = _whole(header["size"])
    copy, copied = None, header.get("copy")
    if copied is not None:
        copy = _result(_dict(copied), bodies[size:])
        bodies = bodies[:size]
    since, copy_fetched = header.get("unreachable_since"), header.get("copy_fetched")
    return Entry(
        result=_result(header, bodies),
        fetched=_time(header["fetched"]),
        expires=_time(header["expires"]),
        unreachable_since=None if since is None else _time(since),
        attempts=_whole(header["attempts"]),
        copy=copy,
        copy_fetched=None if copy_fetched is None else _time(copy_fetched),
    )


def _result(header: dict[str, Any], stored: bytes) -> AccessResult:
    if len(stored) != _whole(header["size"]) or len(stored) > MAX_BODY:
        raise ValueError(header)
    status = header.get("status")
    return AccessResult(
        url=_text(header["url"]),
        status=None if status is None else _whole(status),
        headers=tuple(
            (_text(name), _text(value)) for name, value in header.get("headers", ())
        ),
        body=_inflated(stored) if header["deflated"] is True else stored,
        redirects=tuple(map(_text, header.get("redirects", ()))),
        error=_text(header.get("error", "")),
        is_permanent=header.get("permanent") is True,
    )


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    body = inflater.decompress(data, MAX_BODY + 1)
    if len(body) > MAX_BODY or not inflater.eof or inflater.unused_data:
        raise ValueError(len(body))
    return body


def _dict(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _time(value: object) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError(value)
    seconds = float(value)
    if not math.isfinite(seconds):
        raise ValueError(value)
    return seconds
