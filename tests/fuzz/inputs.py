"""How the bytes of an input are split, and the time that a target may take for them."""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEPARATOR = b"\n%%\n"
"""Between the parts of an input."""

GROWN_AT_MOST = 65_536
"""The size limit of a grown part, in bytes: enough to show quadratic time."""

_TIMES = re.compile(rb"%(\d{1,4})x ")

# Processor time, on a slow machine, with coverage measurement. A quadratic target takes
# more: 64 KiB compared byte by byte are four thousand million steps.
_SECONDS = 2.0
_SECONDS_FOR_A_BYTE = 100e-6


def parts(data: bytes, count: int) -> list[bytes]:
    """Return the first *count* parts of an input; missing parts are empty."""
    found = data.split(SEPARATOR, count - 1)
    return found + [b""] * (count - len(found))


def grown(part: bytes) -> bytes:
    """Return the part with each line that begins with ``%400x`` repeated 400 times.

    A fuzzer does not find long inputs on its own, but they show slow code.
    """
    if b"%" not in part:
        return part
    lines = []
    size = 0
    for line in part.split(b"\n"):
        match = _TIMES.match(line)
        text = line[match.end() :] if match else line
        times = int(match[1]) if match else 1
        times = max(1, min(times, (GROWN_AT_MOST - size) // (len(text) + 1)))
        size += times * (len(text) + 1)
        lines += [text] * times
    return b"\n".join(lines)


def written_over(octets: bytes, data: bytes) -> bytes:
    """Return the bytes of a file, overwritten with *data*: two bytes of position, one of
    length, then the new bytes, repeatedly.
    """
    file = bytearray(octets)
    while len(data) > 3:
        place, count = int.from_bytes(data[:2], "big"), data[2]
        piece = data[3 : 3 + count]
        file[place : place + len(piece)] = piece
        data = data[3 + count :]
    return bytes(file)


def fast_folder() -> str | None:
    """Return a folder in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """Assert that the block takes no more processor time than *size* bytes justify."""
    start = time.process_time()
    yield
    took = time.process_time() - start
    most = _SECONDS + size * _SECONDS_FOR_A_BYTE
    assert took < most, f"{took:.2f} s for {size} bytes, and at most {most:.2f} s"
