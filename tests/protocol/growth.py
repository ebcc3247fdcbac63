"""Measures how the cost of a task grows with the size of its input. The cost is the number of Python lines that run, or
the processor time, which includes the work of C code.
"""

from __future__ import annotations

import sys
from time import process_time
from typing import TYPE_CHECKING, TypeVar

from tests import effort

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    T = TypeVar("T")

# assert_linear() compares two inputs. The long input is FACTOR times as large as the short one. A linear task takes
# FACTOR times as long for the long input, and a quadratic task takes FACTOR * FACTOR times as long.
FACTOR = 8
# The long input may take this much longer, since short measurements are inexact.
SLACK = 0.015  # seconds
SIZE = (64 if effort.is_long else 32) * 1_024  # octets


def steps(task: Callable[[], object]) -> int:
    """Return the number of Python lines and calls that *task* runs. C code counts as one line."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        count += event in {"line", "call"}
        return trace

    old_trace = sys.gettrace()
    sys.settrace(trace)
    try:
        task()
    finally:
        sys.settrace(old_trace)
    return count


def assert_linear(
    task: Callable[[T], object], make_input: Callable[[int], T], size: int = SIZE
) -> None:
    """Assert that the time of *task* grows in proportion to the size of its input.

    *make_input* gets a size in octets, and returns an input of this size. The processor time for an input of *size*
    octets is compared with the time for an eighth of *size*. Each time is the shortest of up to four runs.
    """
    short, long = make_input(size // FACTOR), make_input(size)
    short_time = long_time = float("inf")
    for _ in range(4):
        short_time = min(short_time, seconds(task, short))
        long_time = min(long_time, seconds(task, long))
        if long_time < 3 * FACTOR * short_time + SLACK:
            return
    raise AssertionError(
        f"{long_time:.3f} s, but {short_time:.3f} s for an eighth of the input"
    )


def seconds(task: Callable[[T], object], argument: T) -> float:
    """Return the processor time of ``task(argument)``."""
    start = process_time()
    task(argument)
    return process_time() - start
