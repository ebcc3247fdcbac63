"""Measures the processor time of several tasks in turn, so that a slowdown of the machine affects all tasks equally."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from statistics import median, quantiles
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


CHECKOUT = Path(__file__).resolve().parents[1]


class Times(NamedTuple):
    """The processor time of a task in each round, in seconds."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """Half of the interquartile range, as a fraction of the median."""
        if len(self.rounds) < 2:
            return 0.0
        first, _, third = quantiles(self.rounds, n=4, method="inclusive")
        return (third - first) / 2 / self.median

    def ratios(self, other: Times) -> Times:
        """Return the ratio of the time in *other* to the time in this object, for each round. For example, 2.0 means
        that the task of *other* took twice as long.
        """
        pairs = zip(other.rounds, self.rounds, strict=True)
        return Times(tuple(theirs / ours for theirs, ours in pairs))

    def ratio(self, other: Times) -> float:
        """Return the ratio of the time in *other* to the time in this object: the median over all rounds."""
        return self.ratios(other).median


def interleaved(
    tasks: Mapping[Any, Callable[[], object]], rounds: int
) -> dict[Any, Times]:
    """Run each task once in every round, and return the times by task. *rounds* is the number of rounds. One more round
    runs first as a warm-up, and is not measured.
    """
    times: dict[Any, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    for number in range(rounds + 1):
        # Each round starts with a different task than the round before.
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            # This large allocation makes the memory allocator clean up after the previous task. Without it, the cleanup
            # would count for this task. After a parser that builds trees, the cleanup takes long.
            bytearray(100_000)
            start = process_time()
            tasks[name]()
            if number:
                times[name].append(process_time() - start)
    return {name: Times(tuple(seconds)) for name, seconds in times.items()}


def environment(folder: str) -> dict[str, str]:
    """Return the environment variables for a Python process that is measured. These are the variables of this process,
    except for variables that change Scrapy's settings or measure coverage. PYTHONPATH contains this checkout.

    The start of the process is measured too, so compiled modules are written to *folder* and reused. This resembles an
    installed package, which contains compiled modules.
    """
    left_out = ("SCRAPY_", "COVERAGE_", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(CHECKOUT), "PYTHONPYCACHEPREFIX": folder}
