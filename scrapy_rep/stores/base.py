"""What is stored about a robots.txt, how it is written down, and what a store does.

An entry is written as::

    "rep" version CRC-32 JSON LF body [body of the copy]
     3    1       4

The JSON object has the fields of the entry, those with their default left out; a body
follows as it is, or deflated where that is shorter. The version is one octet, and the
CRC-32 (big-endian) is of what follows it. Nothing in there is code: whatever else is
found in the place of an entry, reading it gives None.
"""

from __future__ import annotations

import json
import math
import zlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from scrapy_rep.protocol.access.results import AccessResult, Entry

MAX_BODY = 600_000
"""The bytes of a body that can be stored: more than the dialects read of one."""

KEEP = 30 * 24 * 3600.0
"""For how many seconds after it ran out an entry is kept: while robots.txt can't be had,
the last good one may hold for that long (RFC 9309, 2.3.1.4)."""

_MAGIC = b"rep\x01"
_HEAD = len(_MAGIC) + 4

# Below this many bytes, deflating saves nothing to speak of.
_DEFLATED_FROM = 200

# All that reading something else than an entry can raise.
_NOT_AN_ENTRY = (
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    zlib.error,
)


class Store(ABC):
    """A place where entries are kept by origin, written as ``str(Origin)``, and where of
    many that want a robots.txt one finds out that it is the one to fetch it.

    A kind of store says where the octets go. All calls can be made from several threads.
    Those that touch a disk or a network raise StoreError when that fails, and can be
    made again: nothing has to be opened anew. *now* is in seconds since the epoch.
    """

    blocking: ClassVar[bool]
    """Whether calls touch a disk or a network, so that they belong on a thread."""

    def __init__(self, keep: float = KEEP) -> None:
        self._keep = keep

    def get(self, origin: str, now: float) -> Entry | None:
        """What was put for *origin*, also where it has run out, unless *keep* seconds
        have passed since. None where there is nothing, or nothing that can be read.
        """
        data = self.read(origin)
        entry = None if data is None else loads(data)
        if entry is None or entry.expires + self._keep <= now:
            return None
        return entry

    def put(self, origin: str, entry: Entry, now: float) -> None:
        """Keep *entry*, in the place of what there is for *origin*.

        What can't be written down, or ran out too long ago, is not kept, and neither is
        what it would have replaced.
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
        """Whether *owner* is the one to fetch the robots.txt of *origin*.

        It is for *seconds*, or until it unlocks; nobody else is meanwhile. An owner that
        asks again has *seconds* from then on. All locks of one name are for about as
        long.
        """

    @abstractmethod
    def unlock(self, origin: str, owner: str) -> None:
        """Let others fetch, where *owner* is the one; nothing happens where it is not."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. What is called later raises StoreError, but
        for this. Never raises.
        """

    @abstractmethod
    def read(self, origin: str) -> bytes | None: ...

    @abstractmethod
    def write(self, origin: str, data: bytes, until: float, now: float) -> None:
        """Keep *data* at least *until* then, in seconds since the epoch."""

    @abstractmethod
    def remove(self, origin: str) -> None: ...


def dumps(entry: Entry) -> bytes:
    """Write *entry* down.

    Raises ValueError where that can't be done: a body is longer than MAX_BODY, or a
    time is not finite.
    """
    bodies: list[bytes] = []
    header = _header(entry, bodies)
    written = json.dumps(header, separators=(",", ":"), allow_nan=False)
    content = b"".join((written.encode(), b"\n", *bodies))
    return b"".join((_MAGIC, zlib.crc32(content).to_bytes(4, "big"), content))


def loads(data: bytes) -> Entry | None:
    """Read what ``dumps`` wrote; None where it is something else, is damaged, or was
    written by a version that does it otherwise. Never raises for what *data* holds, and
    never inflates a body past MAX_BODY.
    """
    try:
        return _load(data)
    except _NOT_AN_ENTRY:
        return None


def _header(entry: Entry, bodies: list[bytes]) -> dict[str, object]:
    """The JSON object of *entry*; its bodies, as stored, are added to *bodies*."""
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
