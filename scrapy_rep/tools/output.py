"""Runs a subcommand, writes its results, messages and progress, and determines its exit status."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from string import Formatter
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from scrapy.exceptions import UsageError

from scrapy_rep.exceptions import LedgerError, SettingError
from scrapy_rep.protocol.text import visible

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from scrapy.settings import Settings

CLEAN, FOUND, WRONG_USAGE, UNKNOWN = 0, 1, 2, 3
"""The exit statuses of all commands. CLEAN: everything is allowed, or there are no findings. FOUND: a URL is denied, or
there are findings, such as mistakes in a robots.txt or differences between two of them. WRONG_USAGE: the arguments or
an input are invalid. UNKNOWN: the result is not known, because a server did not respond or responded with an error
(5xx), or because the ledgers do not contain what the user asked for."""

# The exit statuses that shells report for a process that was ended by SIGINT or SIGPIPE.
_INTERRUPTED, _BROKEN_PIPE = 128 + 2, 128 + 13

_DISK_IS_FULL = {errno.EDQUOT, errno.ENOSPC}

# The parameters of the ANSI escape sequence that selects a style.
_STYLES = {"bold": "1", "blue": "34", "green": "32", "red": "31", "yellow": "33"}

_COLOURS = {
    "green": ("allowed", "would-allow", "indexable", "now allowed"),
    "red": (
        "denied", "noindex", "unavailable_after", "no page", "error", "now denied",
        "refused", "dropped", "would-refuse", "would-drop",
    ),
    "yellow": (
        "not fetched", "warning", "use changes", "now delayed", "overridden", "unknown",
        "annotated", "noted",
    ),
}  # fmt: skip
"""The result words that are shown in each colour."""

_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words}
_FORMAT = re.compile(r"([a-z]*)([<>]?\d*)").fullmatch

_VERDICTS = {True: "allowed", False: "denied"}
_SHOWN_OF_LIST = 5

# The seconds before a command starts to show its progress, and the seconds between two updates of the progress.
_PATIENCE, _EVERY = 2.0, 0.25
_MAX_PROGRESS = 79

Row: TypeAlias = "str | tuple[str, Rows]"
Rows: TypeAlias = "Sequence[Row]"

EXCERPT: Row = ("context", ("{line:blue>5}  {text}",))
"""The row (see :class:`Output`) that prints an excerpt of a robots.txt: the line on which a decision is based, the
lines around it, and the user-agent lines of its group."""


def status_of(
    answers: Collection[bool | None], *, has_invalid_input: bool = False
) -> int:
    """Return the exit status of a command: ``WRONG_USAGE`` if *has_invalid_input* is True; else ``FOUND`` if an answer
    is False; else ``UNKNOWN`` if an answer is None; else ``CLEAN``.

    *answers* contains the result for each URL or file that the command judged: True if the URL is allowed or the file
    has no findings, False if the URL is denied or the file has findings, and None if the result is not known.
    """
    if has_invalid_input:
        return WRONG_USAGE
    if False in answers:
        return FOUND
    return UNKNOWN if None in answers else CLEAN


class _Empty(Exception):
    """Raised while a row is formatted if one of its values is None or empty, so that the row is left out."""


class Output(Formatter):
    """Writes the result dicts of a command to standard output, as text or as lines of JSON.

    Rows define the text of a dict. A row is a template or a pair:

    - A template, such as ``"  robots.txt: {url}"``, becomes a line of text. The line is left out if a value in it is
      missing, None or empty.
    - A pair, such as ``("lines", ["{number}: {text}"])``, contains a key and further rows. The value of the key in the
      dict is a list or a dict. The further rows are written for each element of the value.

    The templates in a pair can use the keys of the outer dict, and the keys of the element if it is a dict. An element
    that is not a dict is written as ``{item}``. The index of an element in a list, or its key in a dict, is written as
    ``{name}``.

    A placeholder can have a style, as in ``{host:bold}``; an alignment with a width, as in ``{host:<20}``; or a style
    and an alignment, as in ``{host:bold<20}``. The styles are:

    - ``bold``, or a colour, such as ``red``.
    - ``word`` writes a result in its colour, such as "denied" in red. True becomes "allowed", and False "denied".
    - ``some`` leaves the line out if the value is 0.

    A placeholder with ``=`` and a noun, as in ``{urls:=URL}``, writes a number with the noun, such as ``2 URLs``.
    """

    def __init__(self, arguments: Namespace) -> None:
        self._as_json = arguments.json
        self.flush = sys.stdout.flush
        # See https://no-color.org.
        no_color = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._is_terminal = sys.stdout.isatty()
        self._has_colours = self._is_terminal and not no_color

    def show(self, record: dict[str, Any], rows: Rows, **of_text: object) -> None:
        """Write *record* as JSON, or as the text that *rows* define. In the text, the values *of_text* are added to the
        values of *record*, and replace those with the same names. The JSON contains only *record*.
        """
        if self._is_terminal:
            progress.clear()
        if self._as_json:
            # json.dumps() escapes all control characters except DEL. default=str turns dates into text.
            text = json.dumps(record, default=str)
            sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")
        else:
            self._show_rows(rows, record | of_text)

    def _show_rows(self, rows: Rows, values: dict[str, Any]) -> None:
        for row in rows:
            with suppress(_Empty):
                if isinstance(row, str):
                    sys.stdout.write(self.vformat(row, (), values) + "\n")
                    continue
                container, _ = self.get_field(row[0], (), values)
                items = (
                    container.items()
                    if isinstance(container, dict)
                    else enumerate(container)
                )
                for name, value in items:
                    value_fields = value if isinstance(value, dict) else {"item": value}
                    self._show_rows(row[1], {**values, "name": name, **value_fields})

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        try:
            value_and_key = super().get_field(field_name, args, kwargs)
        except (KeyError, TypeError):
            raise _Empty from None
        if value_and_key[0] is None or value_and_key[0] in ("", [], {}):
            raise _Empty
        return value_and_key

    def format_field(self, value: object, format_spec: str) -> str:
        """Return *value* as text. *format_spec* is the part of a placeholder after the colon, such as ``bold`` in
        ``{host:bold}``. Control characters are escaped, so that text from a site cannot control the terminal.

        If *format_spec* is ``some``, as in ``{denied:some}``, and *value* is 0, _Empty is raised, and the row is left
        out.
        """
        if format_spec.startswith("="):
            return f"{value:,} {format_spec[1:]}{'' if value == 1 else 's'}"
        match = _FORMAT(format_spec)
        assert match
        style, width = match.groups()
        if style == "some" and not value:
            raise _Empty
        if isinstance(value, bool):
            value = ("yes" if value else "no") if style != "word" else _VERDICTS[value]
        elif isinstance(value, list):
            more = len(value) - _SHOWN_OF_LIST
            value = ", ".join(map(str, value[:_SHOWN_OF_LIST]))
            value += f" and {more} more" if more > 0 else ""
        elif isinstance(value, float):
            value = f"{value:g}"
        text = visible(str(value))
        style = _COLOUR_OF.get(text, "") if style == "word" else style
        text = format(text, width)
        if style in _STYLES and self._has_colours:
            return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"
        return text


class Progress:
    """Shows the progress of a command on standard error. Nothing is shown in the first two seconds, or if
    standard error is not a terminal.
    """

    def __init__(self) -> None:
        self._text = ""
        self._is_shown = False

    def say(self, text: str) -> None:
        """Set the text that describes the progress, such as "300 URLs judged"."""
        self._text = text

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the latest text of :meth:`say` in the terminal's last line, as long as the ``with`` block runs."""
        self._text = ""
        if not sys.stderr.isatty():
            yield
            return
        has_ended = Event()
        thread = Thread(target=self._show, args=(has_ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()
            self.clear()

    def clear(self) -> None:
        """Clear the progress line, so that other output can be written in its place."""
        if self._is_shown:
            self._is_shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, has_ended: Event) -> None:
        pause = _PATIENCE
        while not has_ended.wait(pause):
            pause = _EVERY
            if self._text:
                text = visible(self._text)[:_MAX_PROGRESS]
                print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
                self._is_shown = True


progress = Progress()
"""The progress of the running command."""


def notify(message: str) -> None:
    """Write *message* to standard error, with the prefix ``scrapy rep:``."""
    progress.clear()
    sys.stdout.flush()
    print(f"scrapy rep: {visible(message)}", file=sys.stderr)


def exit_status(arguments: Namespace, settings: Settings, unknown: list[str]) -> int:
    """Run the subcommand in *arguments*, and return its exit status. Expected errors of the subcommand, such as
    UsageError, become messages on standard error. *unknown* contains the arguments that the parser did not recognize.
    If there are any, the subcommand is not run, and the error is reported in the same way.
    """
    for name in ("stdin", "stdout", "stderr"):
        # Python sets a standard stream to None if the process was started without it, as some daemons are.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Escapes characters that the terminal cannot encode. Without this, they would raise UnicodeEncodeError.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            if unknown:
                raise UsageError(f"unrecognized arguments: {' '.join(unknown)}")
            with progress.shown():
                name = arguments.subcommand
                # The import is inside the try statement, which handles Ctrl-C, because the import can take a while.
                module = import_module(
                    f"{__package__}.{'report.command' if name == 'report' else name}"
                )
                status: int = module.run(arguments, settings)
                sys.stdout.flush()
        except (UsageError, SettingError, LedgerError) as error:
            notify(str(error))
            return WRONG_USAGE
    except BrokenPipeError:
        # The reader of the output, such as "head", has closed the pipe.
        _drop_output(sys.stdout, sys.stderr)
        return _BROKEN_PIPE
    except OSError as error:
        if error.errno not in _DISK_IS_FULL:
            raise
        _drop_output(sys.stdout)
        notify(f"the results could not be written: {error.strerror}")
        return WRONG_USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


def _drop_output(*streams: TextIO) -> None:
    """Discard the buffered output of *streams*, by redirecting the streams to the null device. Without this,
    Python would fail to flush the streams at exit, and report an error.
    """
    null_device = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(null_device, stream.fileno())


@contextmanager
def output_file(
    path: str, name: str, inputs: Iterable[str], mark: str = ""
) -> Iterator[Callable[[str], object]]:
    """Open a new text file, and yield a function that writes text to this file. If the ``with`` block ends
    without an error, the new file replaces the file at *path*. Symbolic links are followed.

    Raises UsageError if *path* cannot be written, is a device or a pipe, or is one of the paths *inputs*. If *mark* is
    not empty, an existing file at *path* must be empty or begin with *mark*; otherwise, UsageError is raised. The
    message of the error begins with *name*.
    """
    try:
        target = Path(path).resolve()
    except RuntimeError:  # A loop of symbolic links, in Python versions before 3.13.
        raise UsageError(f"{name}: Too many levels of symbolic links") from None
    partial = target.with_name(f".{target.name[:100]}.{os.getpid()}")
    if target in {Path(path_of_input).resolve() for path_of_input in inputs}:
        raise UsageError(
            f"{name}: this is an input file, and is not replaced; choose another file"
        )
    if target.is_dir():
        raise UsageError(f"{name}: Is a directory")
    if target.is_symlink() or (target.exists() and not target.is_file()):
        # Replacing a device, such as /dev/null, would break other programs.
        raise UsageError(
            f"{name}: this is not a regular file, and is not replaced; choose another file"
        )
    try:
        if mark and target.exists() and not _may_replace(target, mark.encode()):
            raise UsageError(
                f"{name} is an existing file that this command did not write; choose another file"
            )
        with partial.open("x", encoding="utf-8") as written:
            yield written.write
        partial.replace(target)
    except BrokenPipeError:
        raise  # The broken pipe is standard output, not this file.
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _may_replace(path: Path, mark: bytes) -> bool:
    """Whether the command is allowed to replace the file at *path*: the file is empty or begins with *mark*."""
    with path.open("rb") as file:
        return file.read(len(mark)) in {b"", mark}
