"""Defines and formats the rows of the benchmark table."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """The limits for the ratio of a row. A row meets its target if its ratio is at least ``least_ratio`` and at most
    ``most_ratio``. The defaults are no limits.
    """

    least_ratio: float = 0.0
    most_ratio: float = float("inf")

    def __str__(self) -> str:
        least, most = self
        return f">= {least:g}" if least else f"<= {most:g}"


class Row(NamedTuple):
    """A row of the table: a measured number and, in most rows, a ratio that compares this number with another one."""

    what: str
    """The task that was measured, in words."""

    who: str
    """The program that was measured, such as a parser, a scheduler or a kind of crawl."""

    number: float
    """The median of the measured numbers."""

    spread: float | None = None
    """Half of the interquartile range, as a fraction of the median."""

    ratio: float | None = None
    """The ratio of two measured numbers, such as 2.0 in the row of a parser that takes twice as long as this package's
    parser. :data:`LEGEND` lists the numbers that are compared. None if the row contains no comparison."""

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


LEGEND = """\
Times are processor time. Pushes and pops a second are measured by the clock. Each number is the median of several
runs. The spread is half of the interquartile range, in percent of the median.

The ratio compares two numbers:
- parsers: another parser / scrapy-rep
- crawls, and schedulers without Redis: with scrapy-rep / without scrapy-rep
- crawls with a ledger: with the ledger / without the ledger
- pushes and pops a second: scrapy-rep / scrapy-redis
- the time for a push or pop: many hosts / few hosts
- the report: its time / one second"""
"""The text above the table. It explains what is measured and what the ratios compare."""

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
