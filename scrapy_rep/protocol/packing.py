"""The text of a robots.txt, made small once nobody may ever need it again."""

from __future__ import annotations

import zlib
from typing import NamedTuple

# Bytes. Most files are smaller, and the few that are not make up most of the memory.
_WORTH_PACKING = 2048


class Packed(NamedTuple):
    octets: bytes


def packed(body: bytes | Packed) -> bytes | Packed:
    """*body*, small if that is worth it."""
    if isinstance(body, bytes) and len(body) > _WORTH_PACKING:
        return Packed(zlib.compress(body, 1))
    return body


def unpacked(body: bytes | Packed) -> bytes:
    return body if isinstance(body, bytes) else zlib.decompress(body.octets)


def size_of(body: bytes | Packed) -> int:
    return len(body if isinstance(body, bytes) else body.octets)
