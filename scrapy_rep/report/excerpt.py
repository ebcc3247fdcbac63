"""The lines of a robots.txt that a page can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


WHOLE = 16_000
"""A robots.txt of up to so many characters, and a sixteenth as many lines, is shown whole."""

_BEGINNING = 40
_AROUND = 2
_MARKED = 100


@dataclass(slots=True)
class Mark:
    """How often one line of a robots.txt decided."""

    refused: int = 0
    allowed: int = 0

    use: int = 0
    """How often it said what content may be used for."""

    example: str = ""
    """One of the URLs."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    number: int
    text: str
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class Gap:
    """A number of lines that are left out."""

    lines: int


def excerpt(text: str, marks: Mapping[int, Mark]) -> tuple[ShownLine | Gap, ...]:
    """The lines of *text*: all of a short one; of a long one the beginning, and the lines
    that decided most, with some lines around each.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    wanted = range(1, len(lines) + 1)
    if len(text) > WHOLE or len(lines) > WHOLE // 16:
        chosen = set(wanted[:_BEGINNING])
        for number in _most(marks):
            chosen.update(range(number - _AROUND, number + _AROUND + 1))
        wanted_lines = sorted(chosen.intersection(wanted))
    else:
        wanted_lines = list(wanted)
    return tuple(_with_gaps(lines, wanted_lines, marks))


def _most(marks: Mapping[int, Mark]) -> list[int]:
    def decided(number: int) -> int:
        mark = marks[number]
        return mark.refused + mark.allowed + mark.use

    return sorted(marks, key=decided, reverse=True)[:_MARKED]


def _with_gaps(
    lines: list[str], numbers: list[int], marks: Mapping[int, Mark]
) -> Iterator[ShownLine | Gap]:
    last = 0
    for number in numbers:
        if number > last + 1:
            yield Gap(number - last - 1)
        yield ShownLine(number, lines[number - 1], marks.get(number))
        last = number
    if len(lines) > last:
        yield Gap(len(lines) - last)
