"""The part of a robots.txt that a report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy_rep.report.documents import Gap, Line, excerpt
from scrapy_rep.report.render import BAR_WIDTH, bar_length, stacked_bar

if TYPE_CHECKING:
    from collections.abc import Sequence


def mark(times: int) -> Any:
    """A row of the view, with the only column that matters here."""
    return {"times": times}


def count(shown: Sequence[Line | Gap]) -> int:
    return sum(one.lines if isinstance(one, Gap) else 1 for one in shown)


def test_a_short_one_is_whole() -> None:
    """A short file is shown whole, with numbered and marked lines."""
    once = mark(1)
    assert excerpt("a\n\nb\n", {3: once}) == (
        Line(1, "a", None),
        Line(2, "", None),
        Line(3, "b", once),
    )
    assert excerpt("", {}) == ()


def test_a_long_one_is_the_lines_that_decided() -> None:
    """A long file shows its beginning and the deciding lines; omitted lines are counted."""
    text = "Disallow: /x\n" * 100_000
    shown = excerpt(text, {50_000: mark(2), 100_000: mark(1)})
    numbers = [one.number for one in shown if isinstance(one, Line)]
    assert numbers == [*range(1, 41), *range(49_998, 50_003), 99_998, 99_999, 100_000]
    assert count(shown) == 100_000


def test_many_lines_that_decided() -> None:
    """Of too many deciding lines, those with the most decisions are shown."""
    marks = {line: mark(line) for line in range(1, 100_001, 10)}
    shown = excerpt("x\n" * 100_000, marks)
    marked = [one.number for one in shown if isinstance(one, Line) and one.mark]
    assert marked[-100:] == list(range(99_001, 100_001, 10))
    assert len(shown) < 1000
    assert count(shown) == 100_000


def test_a_mark_beyond_the_end() -> None:
    """A mark on a line that does not exist, from a broken ledger, is ignored."""
    marks = {7: mark(1), 2: mark(0), 10**12: mark(0)}
    assert excerpt("a\nb\n", marks) == (
        Line(1, "a", None),
        Line(2, "b", mark(0)),
    )
    assert count(excerpt("x\n" * 5000, marks)) == 5000


def test_bars() -> None:
    """The parts of a bar are proportional; the smallest stays visible."""
    bar = stacked_bar([("a", "x", 10**9), ("b", "y", 1), ("c", "z", 0)])
    assert [part.name for part in bar] == ["a", "b"]
    assert bar[1].length >= 3
    assert bar[1].start + bar[1].length == BAR_WIDTH
    assert stacked_bar([]) == []
    assert (bar_length(5, 10), bar_length(1, 10**9), bar_length(0, 10)) == (500, 4, 0)
