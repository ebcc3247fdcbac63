"""Defines and formats the rows of the benchmark table."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """The minimum or maximum for a row's ratio."""

    least_ratio: float = 0.0
    most_ratio: float = float("inf")

    def __str__(self) -> str:
        least, most = self
        return f">= {least:g}" if least else f"<= {most:g}"


class Row(NamedTuple):
    """A row of the table: a measured number, and a ratio of two numbers."""

    what: str
    """The task that was measured."""

    who: str
    """The parser, or the kind of crawl, that was measured."""

    number: float
    """The median of the measured numbers."""

    spread: float | None = None
    """Half of the interquartile range, as a fraction of the median."""

    ratio: float | None = None
    """In rows about parsers, the ratio of the parser's number to the number of this package's parser. In rows about
    crawls, the ratio of a crawl with this package to a crawl without this package. None without a comparison."""

    target: Target | None = None
    unit: str = "s"
    """The unit of the number: seconds (``s``), bytes (``B``), operations per second (``/s``), or no unit (empty)."""

    @property
    def is_met(self) -> bool | None:
        """Whether the ratio meets the target. None if there is no target."""
        if self.target is None:
            return None
        least, most = self.target
        return least <= (self.ratio or 0.0) <= most

    @property
    def value(self) -> str:
        if self.unit == "B":
            return f"{self.number / 1000:.2f} kB"
        if not self.unit:
            return f"{self.number:,.0f}"
        if self.unit == "/s":
            return f"{self.number:,.0f} a second"
        for unit, size in (("s", 1.0), ("ms", 1e-3)):
            if self.number >= size:
                return f"{self.number / size:.2f} {unit}"
        return f"{self.number * 1e6:.2f} us"


HEAD = """\
| what | who | median | spread | ratio | target | met |
|---|---|---:|---:|---:|---|---|"""


def line(row: Row) -> str:
    """Return *row* as a line of the Markdown table."""
    cells = [
        row.what,
        row.who,
        row.value,
        "" if row.spread is None else f"± {row.spread:.1%}",
        "" if row.ratio is None else _ratio(row.ratio),
        str(row.target or ""),
        {True: "yes", False: "NO", None: ""}[row.is_met],
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(number: float) -> str:
    digits = 3 if number < 2 else 2 if number < 100 else 0
    return f"{number:,.{digits}f}"
