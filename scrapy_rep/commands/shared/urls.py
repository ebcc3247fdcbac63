"""Reads URLs from arguments, files and standard input."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import UsageError
from w3lib.url import safe_url_string

from scrapy_rep.protocol.origins import Origin, origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_CHUNK = 64 * 1024

# The most bytes of a line to keep; a longer line is not a URL.
_MAX_LINE = 256 * 1024

ORIGINS_AT_ONCE = 128
"""The most robots.txt files to fetch before judging the URLs of their origins."""

# The most bytes to read from a file or standard input. No dialect reads as much.
_MAX_READ = 16 * 1024 * 1024

# Endings of file names that are not endings of host names.
_FILE_ENDINGS = (".csv", ".htm", ".html", ".json", ".log", ".sqlite", ".txt", ".xhtml")


class ParsedUrl(NamedTuple):
    """A URL as a crawl would request it."""

    url: str
    origin: Origin


def parse_url(text: str) -> ParsedUrl | None:
    """Return *text* as a URL, encoded as a Request encodes it, or None if it is no URL."""
    try:
        url = safe_url_string(text.strip())
    except ValueError:
        return None
    origin = origin_of(url)
    return origin and ParsedUrl(url, origin)


def is_url(argument: str) -> bool:
    """Whether an argument is a URL, and not a path."""
    return "://" in argument


def parse_argument(text: str) -> ParsedUrl:
    """Return an argument of the command as a URL. Raises UsageError if it is no URL."""
    found = parse_url(text)
    if found is not None:
        return found
    message = f"{text!r} is not a URL of http, https or ftp"
    if not is_url(text) and parse_url(f"https://{text}"):
        message += f"; did you mean https://{text} ?"
    raise UsageError(message)


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; ``-`` is standard input. Raises UsageError."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")
    except (OSError, ValueError) as error:
        raise _open_error(path, error) from None
    with file:
        yield file


def read_file(path: str) -> bytes:
    """Return the bytes of a file; ``-`` is standard input. Raises UsageError."""
    with opened(path) as file:
        try:
            return file.read(_MAX_READ)
        except OSError as error:
            raise _open_error(path, error) from None


def _open_error(path: str, error: OSError | ValueError) -> UsageError:
    """Return the error for an unreadable file, with a hint if *path* looks like a URL."""
    why = error.strerror if isinstance(error, OSError) else error
    message = f"{path}: {why}"
    host = path.partition("/")[0].lower()
    is_host_name = "." in host.strip(".") and not host.endswith(_FILE_ENDINGS)
    if (
        isinstance(error, FileNotFoundError)
        and is_host_name
        and parse_url(f"https://{path}")
    ):
        message += f"; did you mean https://{path} ?"
    return UsageError(message)


def line_batches(file: BinaryIO) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines of *file* that are not blank, with their numbers, in batches.

    A batch has the lines that can be read without waiting, so that results are shown while
    another program still writes the list.
    """
    number, rest = 1, b""
    read = getattr(file, "read1", file.read)
    while chunk := read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        yield list(_lines(lines, number))
        number += len(lines)
        # The rest of an overlong line is dropped.
        rest = rest[:_MAX_LINE]
    if rest:
        yield list(_lines([rest], number))


def _lines(lines: list[bytes], number: int) -> Iterator[tuple[int, str]]:
    for at, line in enumerate(lines, number):
        text = line.decode("utf-8", "replace").strip()
        if text:
            yield at, text


def by_origins(
    urls: Iterable[tuple[int, str]],
) -> Iterator[list[tuple[int, str, ParsedUrl | None]]]:
    """Split numbered lines into parts with few enough origins to fetch concurrently.

    The third value of an entry is None if its text is not a URL.
    """
    part: list[tuple[int, str, ParsedUrl | None]] = []
    origins: set[Origin] = set()
    for number, text in urls:
        parsed = parse_url(text)
        if parsed is not None and parsed.origin not in origins:
            if len(origins) >= ORIGINS_AT_ONCE:
                yield part
                part, origins = [], set()
            origins.add(parsed.origin)
        part.append((number, text, parsed))
    if part:
        yield part
