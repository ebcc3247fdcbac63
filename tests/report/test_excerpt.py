"""The part of a robots.txt that a report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from scrapy_rep.report.robotstxt import excerpt

if TYPE_CHECKING:
    from scrapy_rep.report.ledgers import Ledgers

Shown = list[tuple[int, "str | None", "int | None"]]


def shown(text: str, times: dict[int, int]) -> Shown:
    """Return the lines to show, with their numbers of decisions in place of their marks."""

    class Body:
        def body(self, ledger: int, sha256: str) -> bytes:
            return text.encode()

    version: Any = {"ledger": 0, "sha256": "", "dialect": "rfc9309"}
    marks: Any = [{"line": line, "times": number} for line, number in times.items()]
    found = excerpt(cast("Ledgers", Body()), version, marks)
    return [(line, text, mark and mark["times"]) for line, text, mark in found]


@pytest.mark.parametrize(
    ("text", "times", "lines"),
    [
        # A short file is shown whole, with numbered and marked lines.
        ("a\n\nb\n", {3: 1}, [(1, "a", None), (2, "", None), (3, "b", 1)]),
        ("", {}, []),
        # A mark on a line that does not exist, from a broken ledger, is ignored.
        ("a\nb", {7: 1, 2: 5, 10**12: 1}, [(1, "a", None), (2, "b", 5)]),
    ],
)
def test_a_short_one(text: str, times: dict[int, int], lines: Shown) -> None:
    assert shown(text, times) == lines


@pytest.mark.parametrize(
    ("times", "numbers"),
    [
        (
            {50_000: 2, 100_000: 1, 10**12: 1},
            [*range(1, 41), *range(49_998, 50_003), 99_998, 99_999, 100_000],
        ),
        # Of too many deciding lines, those with the most decisions are shown.
        (
            {line: line for line in range(1, 100_001, 10)},
            [
                *range(1, 41),
                *(
                    line + around
                    for line in range(99_001, 100_001, 10)
                    for around in range(-2, 3)
                ),
            ],
        ),
    ],
)
def test_a_long_one(times: dict[int, int], numbers: list[int]) -> None:
    """A long file shows its beginning and the deciding lines; omitted lines are counted."""
    lines = shown("x\n" * 100_000, times)
    there = [number for number, text, _ in lines if text is not None]
    left_out = sum(number for number, text, _ in lines if text is None)
    assert there == numbers
    assert len(there) + left_out == 100_000
