"""Lengths of the bars of charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 1000
"""The length of a whole bar."""

_LEAST = 4.0
"""The length of a bar or a part that would be too short to be seen."""


class Part(NamedTuple):
    name: str
    kind: str
    """The class of its colour."""
    times: int
    start: float
    length: float


def stacked(parts: Iterable[tuple[str, str, int]]) -> list[Part]:
    """The parts of one bar, from names, kinds and counts. Those with a count of 0 are left
    out.
    """
    there = [part for part in parts if part[2] > 0]
    total = sum(count for _, _, count in there)
    lengths = [max(_LEAST, WIDTH * count / total) for _, _, count in there]
    shrink = WIDTH / sum(lengths) if lengths else 1
    bar, start = [], 0.0
    for part, length in zip(there, lengths, strict=True):
        bar.append(Part(*part, round(start, 1), round(length * shrink, 1)))
        start += length * shrink
    return bar


def length(count: int, most: int) -> float:
    """The length of a bar for *count*, among bars of which the longest is for *most*."""
    return round(max(_LEAST, WIDTH * count / most), 1) if count and most else 0
