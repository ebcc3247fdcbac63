"""What a command writes, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from scrapy.exceptions import UsageError

from scrapy_rep.exceptions import LedgerError, SettingError
from scrapy_rep.protocol.display import visible

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator

    from scrapy.settings import Settings

CLEAN, FOUND, WRONG_USAGE = 0, 1, 2
"""0: allowed, or nothing found. 1: denied, or something found. 2: wrong usage or input."""

# The status that shells give a process that a signal ended.
_INTERRUPTED, _BROKEN_PIPE = 128 + 2, 128 + 13

Style: TypeAlias = Literal["blue", "bold", "green", "red", "yellow"]

# The parameters of the ANSI escape sequence that selects the style.
_CODES = {"blue": "34", "bold": "1", "green": "32", "red": "31", "yellow": "33"}


class Painted(NamedTuple):
    """A part of a line, and its style on terminals."""

    text: str
    style: Style


Line: TypeAlias = "tuple[str | Painted, ...]"
"""The parts of a line."""


class Output:
    """Shows the dicts that a command builds: as text, or as JSON, one object on each line.

    Control characters are made visible, so that text of a site can't control the terminal.
    """

    def __init__(self, arguments: Namespace) -> None:
        self._as_json = arguments.json
        self.write: Callable[[str], object] = sys.stdout.write
        self.flush = sys.stdout.flush
        # See https://no-color.org.
        no_color = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._has_colours = sys.stdout.isatty() and not no_color

    def show(
        self,
        record: dict[str, Any],
        text: Callable[[dict[str, Any]], Iterable[Line]],
    ) -> None:
        """Write *record*. *text* makes the lines of its text."""
        if self._as_json:
            # ensure_ascii escapes all control characters but DEL. Dates become text.
            written = json.dumps(record, default=str)
            self.write(written.replace("\x7f", "\\u007f") + "\n")
            return
        for line in text(record):
            self.write("".join(map(self._shown, line)) + "\n")

    def _shown(self, part: str | Painted) -> str:
        if part == "\t":  # It separates cells.
            return "\t"
        if isinstance(part, str):
            return visible(part)
        if not self._has_colours:
            return visible(part.text)
        return f"\x1b[{_CODES[part.style]}m{visible(part.text)}\x1b[0m"


def notify(message: str) -> None:
    """Write a message to standard error."""
    sys.stdout.flush()
    print(f"scrapy rep: {visible(message)}", file=sys.stderr)


def exit_status(
    run: Callable[[Namespace, Settings], int],
    arguments: Namespace,
    settings: Settings,
    unknown: list[str],
) -> int:
    """Run a subcommand, turn its exceptions into messages, and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A character that the terminal can't encode must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        if unknown:
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)}")
        status = run(arguments, settings)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as "head", has closed the pipe. Without this, Python would
        # report an error when it flushes the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (UsageError, SettingError, LedgerError) as error:
        notify(str(error))
        return WRONG_USAGE
    return status


@contextmanager
def output_file(
    path: str, name: str, inputs: Iterable[str]
) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes text to a file, which replaces *path* when the block ends
    without an error. Until then it is a temporary file in the same folder.

    If *path* is a symbolic link, its target is replaced. Raises UsageError, which begins with
    *name*, for a path that can't be written or is one of the *inputs*.
    """
    target = Path(path).resolve()
    if target.is_dir():
        raise UsageError(f"{name}: Is a directory")
    if target in {Path(each).resolve() for each in inputs}:
        raise UsageError(f"{name}: this is an input file, and is not replaced")
    with _errors_of(name):
        file = NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name[:100]}.",
            delete=False,
        )  # fmt: skip
    partial = Path(file.name)

    def write(text: str) -> None:
        with _errors_of(name):
            file.write(text)

    try:
        yield write
        with _errors_of(name):
            file.close()
            os.umask(umask := os.umask(0))
            partial.chmod(0o666 & ~umask)
            partial.replace(target)
    finally:
        with _errors_of(name):
            file.close()
        partial.unlink(missing_ok=True)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from None
