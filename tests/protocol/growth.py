"""Growth of a task with its input: in steps, or in time if C code takes the steps."""

from __future__ import annotations

import sys
from time import process_time
from typing import TYPE_CHECKING, TypeVar

from tests import effort

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    T = TypeVar("T")

TIMES = 8  # A quadratic task takes TIMES * TIMES as long for an input TIMES as large.
SLACK = 0.015  # seconds
SIZE = (64 if effort.is_long else 32) * 1_024  # octets


def steps(task: Callable[[], object]) -> int:
    """Return the number of Python lines that *task* runs; a call into C counts as one."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event in {"line", "call"}
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        task()
    finally:
        sys.settrace(before)
    return count


def assert_linear(
    do: Callable[[T], object], make: Callable[[int], T], size: int = SIZE
) -> None:
    """Assert that the time of *do* grows in proportion to the size of its input.

    *make* makes the input from a size in octets. The test compares processor time, the
    best of four runs each.
    """
    short, long = make(size // TIMES), make(size)
    of_short = of_long = float("inf")
    for _ in range(4):
        of_short = min(of_short, seconds(do, short))
        of_long = min(of_long, seconds(do, long))
        if of_long < 3 * TIMES * of_short + SLACK:
            return
    raise AssertionError(f"{of_long:.3f} s, and {of_short:.3f} s for what is shorter")


def seconds(do: Callable[[T], object], argument: T) -> float:
    start = process_time()
    do(argument)
    return process_time() - start
