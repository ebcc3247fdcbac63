"""Reads URLs from arguments, files and standard input."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError
from w3lib.url import safe_url_string

from scrapy_rep.protocol.origins import Origin, origin_of
from scrapy_rep.tools.output import notify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from scrapy_rep.tools.ledgers import Past

_CHUNK = 64 * 1024

# The most bytes of a line to keep; a longer line is not a URL.
_MAX_LINE = 256 * 1024

# The most robots.txt files to fetch before judging the URLs of their origins, and the most URLs.
_ORIGINS_AT_ONCE = 128
_URLS_AT_ONCE = 1_000

# The most bytes to read from a file or standard input. No dialect reads as much.
_MAX_READ = 16 * 1024 * 1024


class Asked(NamedTuple):
    """A URL to judge."""

    url: str
    """As a crawl would request it; or a path."""

    origin: Origin | None
    """None for a path, or for an origin in a ledger that is none."""

    past: Past | None = None
    """The last decision on it, if a ledger names it."""


def parse_url(text: str) -> Asked | None:
    """Return *text* as a URL, encoded as a Request encodes it, or None if it is no URL."""
    try:
        url = safe_url_string(text.strip())
    except ValueError:
        return None
    origin = origin_of(url)
    return origin and Asked(url, origin)


def is_url(argument: str) -> bool:
    """Whether an argument is a URL, and not a path."""
    return "://" in argument


def parse_argument(text: str) -> Asked:
    """Return an argument of the command as a URL. Raises UsageError if it is no URL."""
    found = parse_url(text)
    if found is None:
        raise UsageError(
            f"{text[:200]!r} is not a URL of http, https or ftp; a URL begins with https://"
        )
    return found


class UrlList:
    """The URLs in a file, one on each line. Lines that are no URLs are reported on standard error.

    Iterating yields batches of the lines that can be read without waiting, so that results are
    shown while another program still writes the list.
    """

    def __init__(
        self, file: AbstractContextManager[BinaryIO], line: str, *, paths: bool = False
    ) -> None:
        """*line* is the name of a line, to which its number is added. *paths* says whether a line
        may be a path.
        """
        self._file = file
        self._line = line
        self._paths = paths
        self.bad = 0
        """The number of lines that are no URLs."""

    def __iter__(self) -> Iterator[list[Asked]]:
        with self._file as file:
            numbers, rest = count(1), b""
            read = getattr(file, "read1", file.read)
            while chunk := read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield list(self._parsed(lines, numbers))
                # The rest of a line that is too long is dropped.
                rest = rest[: _MAX_LINE + 1]
            yield list(self._parsed([rest], numbers))

    def _parsed(self, lines: list[bytes], numbers: Iterator[int]) -> Iterator[Asked]:
        for line in lines:
            text, number = line.decode("utf-8", "replace").strip(), next(numbers)
            if len(line) > _MAX_LINE:
                self._note_bad(
                    number, f"a line of more than {_MAX_LINE:,} bytes is not a URL"
                )
            elif self._paths and text.startswith("/"):
                yield Asked(text, None)
            elif text:
                try:
                    yield parse_argument(text)
                except UsageError as error:
                    self._note_bad(number, error)

    def _note_bad(self, number: int, error: object) -> None:
        self.bad += 1
        notify(f"{self._line} {number}: {error}")


def parts(urls: Iterable[Asked]) -> Iterator[list[Asked]]:
    """Split URLs into parts with few enough origins to fetch the robots.txt files concurrently."""
    part: list[Asked] = []
    origins: set[Origin | None] = set()
    for each in urls:
        origins.add(each.origin)
        if len(origins) > _ORIGINS_AT_ONCE or len(part) == _URLS_AT_ONCE:
            yield part
            part, origins = [], {each.origin}
        part.append(each)
    if part:
        yield part


def opened(path: str) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading bytes; ``-`` is standard input. Raises UsageError."""
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; a URL begins with https://"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def read_file(path: str) -> bytes:
    """Return the bytes of a file; ``-`` is standard input. Raises UsageError."""
    with opened(path) as file:
        try:
            return file.read(_MAX_READ)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
