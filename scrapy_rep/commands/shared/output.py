"""Results on standard output, as text or JSON; messages on standard error."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from scrapy_rep.protocol.display import visible

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

Style: TypeAlias = Literal["blue", "bold", "green", "red", "yellow"]

# The parameters of the ANSI escape sequence that selects the style.
_CODES: dict[Style, str] = {
    "blue": "34",
    "bold": "1",
    "green": "32",
    "red": "31",
    "yellow": "33",
}


class Painted(NamedTuple):
    """A part of a line, and its style on terminals."""

    text: str
    style: Style


class Output:
    """Writes lines of text, or JSON objects, one on each line.

    Control characters are made visible, so that text of a site can't control the terminal.
    """

    def __init__(self, arguments: Namespace) -> None:
        self.as_json = arguments.format == "json"
        self.write: Callable[[str], object] = sys.stdout.write
        self.flush = sys.stdout.flush
        # See https://no-color.org.
        no_color = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._has_colours = sys.stdout.isatty() and not no_color

    def line(self, *parts: str | Painted) -> None:
        self.write("".join(map(self._shown, parts)) + "\n")

    def row(self, *cells: str | Painted) -> None:
        """Write a line whose cells are separated by tabs."""
        self.write("\t".join(map(self._shown, cells)) + "\n")

    def record(self, record: dict[str, Any]) -> None:
        # ensure_ascii escapes all control characters but DEL.
        text = json.dumps(record, ensure_ascii=True)
        self.write(text.replace("\x7f", "\\u007f") + "\n")

    def _shown(self, part: str | Painted) -> str:
        if isinstance(part, str):
            return visible(part)
        if not self._has_colours:
            return visible(part.text)
        return f"\x1b[{_CODES[part.style]}m{visible(part.text)}\x1b[0m"


def notify(message: str) -> None:
    """Write a message to standard error."""
    sys.stdout.flush()
    print(f"scrapy rep: {visible(message)}", file=sys.stderr)
