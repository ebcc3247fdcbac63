"""Results on standard output, for people or for programs; complaints on standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from scrapy_rep.protocol.display import visible

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any, TextIO

GREEN, RED, YELLOW, BLUE, BOLD = "32", "31", "33", "34", "1"


class Painted(NamedTuple):
    """A part of a line, and its colour where there are colours."""

    text: str
    colour: str


class Output:
    """Lines for people, or objects for programs: JSON, one on each line.

    Whatever is in a line is made visible before it is printed, so that nothing that a
    site wrote can drive a terminal.
    """

    def __init__(self, stream: TextIO, *, as_json: bool, colour: bool) -> None:
        self.as_json = as_json
        self.write: Callable[[str], object] = stream.write
        self.flush = stream.flush
        self._colour = colour

    @classmethod
    def of(cls, arguments: Namespace) -> Output:
        as_json = arguments.format == "json"
        colour = not as_json and has_colours(sys.stdout)
        return cls(sys.stdout, as_json=as_json, colour=colour)

    def line(self, *parts: str | Painted) -> None:
        self.write("".join(map(self._shown, parts)) + "\n")

    def row(self, *cells: str | Painted) -> None:
        """A line whose cells are separated by tabs."""
        self.write("\t".join(map(self._shown, cells)) + "\n")

    def record(self, record: dict[str, Any]) -> None:
        # All that is not ASCII comes as escapes, and so do the control characters of
        # ASCII, but for one.
        text = json.dumps(record, ensure_ascii=True)
        self.write(text.replace("\x7f", "\\u007f") + "\n")

    def _shown(self, part: str | Painted) -> str:
        if isinstance(part, str):
            return visible(part)
        if not self._colour:
            return visible(part.text)
        return f"\x1b[{part.colour}m{visible(part.text)}\x1b[0m"


def has_colours(stream: TextIO) -> bool:
    """Whether colours are for *stream*: a terminal, and nobody against it.

    See https://no-color.org.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def complain(message: str) -> None:
    """Say on standard error what is wrong."""
    sys.stdout.flush()
    print(f"scrapy rep: {visible(message)}", file=sys.stderr)
