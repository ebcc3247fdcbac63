"""What a command writes, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from datetime import datetime, timezone
from io import TextIOWrapper
from pathlib import Path
from string import Formatter
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias

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

# The parameters of the ANSI escape sequence that selects a style.
_STYLES = {"blue": "34", "bold": "1", "green": "32", "red": "31", "yellow": "33"}

_COLOURS = {
    "allowed": "green", "denied": "red", "unknown": "yellow", "disallowed": "red",
    "indexable": "green", "noindex": "red", "expired": "red", "no page": "red",
    "clean": "green", "note": "green", "warning": "yellow", "error": "red",
    "now denied": "red", "now allowed": "green", "use changes": "yellow",
    "now delayed": "yellow", "overridden": "yellow",
    "intact": "green", "changed": "red", "not sealed": "yellow",
    "refused": "red", "dropped": "red", "annotated": "yellow", "noted": "yellow",
    "would-refuse": "red", "would-drop": "red",
}  # fmt: skip
"""The colour of each word that states a result."""

Line: TypeAlias = "Callable[..., None]"
"""Writes a line of text: ``Output.line``."""


class Output(Formatter):
    """Shows the dicts that a command builds: as text, or as JSON, one object on each line."""

    def __init__(self, arguments: Namespace) -> None:
        self._as_json = arguments.json
        self.write: Callable[[str], object] = sys.stdout.write
        self.flush = sys.stdout.flush
        # See https://no-color.org.
        no_color = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._has_colours = sys.stdout.isatty() and not no_color

    def show(
        self, record: dict[str, Any], text: Callable[[Line, dict[str, Any]], None]
    ) -> None:
        """Write *record*. *text* gets the function :meth:`line` and the record, and writes the
        lines of its text.
        """
        if self._as_json:
            # ensure_ascii escapes all control characters but DEL. Dates become text.
            written = json.dumps(record, default=str)
            self.write(written.replace("\x7f", "\\u007f") + "\n")
        else:
            text(self.line, record)

    def line(self, template: str = "", *values: object) -> None:
        """Write a line: *template* with *values* in the places of its ``{}``.

        ``{:bold}`` selects a style, and ``{:word}`` the colour of a word that states a result.
        The control characters of values are made visible, so that text of a site can't control
        the terminal; those of the template are written.
        """
        self.write(self.vformat(template, values, {}) + "\n")

    def format_field(self, value: object, format_spec: str) -> str:
        text = visible(str(value))
        style = format_spec
        if style == "word":
            style = _COLOURS.get(text.strip(), "")
        if not style or not self._has_colours:
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 URL``, ``2,000 URLs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def iso_time(seconds: float | None) -> str | None:
    """Return a time of a ledger as JSON has it: ``2026-11-30T12:00:00Z``."""
    if seconds is None:
        return None
    time = datetime.fromtimestamp(seconds, timezone.utc)
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")


def shortened(texts: list[str], at_most: int) -> str:
    """Return a list of texts as one text, without those beyond *at_most*."""
    more = len(texts) - at_most
    return ", ".join(texts[:at_most]) + (f" and {more} more" if more > 0 else "")


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
) -> Iterator[Callable[[str | bytes], None]]:
    """Yield a function that writes text, or bytes, to a file, which replaces *path* when the block ends
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
            dir=target.parent, prefix=f".{target.name[:100]}.", delete=False
        )
    partial = Path(file.name)

    def write(text: str | bytes) -> None:
        with _errors_of(name):
            file.write(text.encode() if isinstance(text, str) else text)

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
