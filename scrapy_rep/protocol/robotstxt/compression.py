"""Text that is kept small, since most of it is never looked at again."""

from __future__ import annotations

import zlib
from typing import NamedTuple

# Bytes. Most files are smaller, and the few that are not make up most of the memory.
_WORTH_PACKING = 2048


class Compressed(NamedTuple):
    """A text in less memory."""

    octets: bytes

    def unpack(self) -> bytes:
        return zlib.decompress(self.octets)


def pack(body: bytes) -> bytes | Compressed:
    """*body* as it is best kept."""
    return Compressed(zlib.compress(body, 1)) if len(body) > _WORTH_PACKING else body
