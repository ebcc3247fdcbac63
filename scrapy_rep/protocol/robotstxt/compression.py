"""Compression of text that is rarely read again."""

from __future__ import annotations

import zlib
from typing import NamedTuple

# Bytes: shorter text is not compressed. Most files are shorter, and the few longer ones
# take most of the memory.
_WORTH_PACKING = 2048


class Compressed(NamedTuple):
    """A compressed text."""

    octets: bytes

    def unpack(self) -> bytes:
        return zlib.decompress(self.octets)


def pack(body: bytes) -> bytes | Compressed:
    """*body*, compressed where that saves memory."""
    return Compressed(zlib.compress(body, 1)) if len(body) > _WORTH_PACKING else body
