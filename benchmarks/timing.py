"""Measures tasks in turns, so that slowdowns of the machine affect all of them."""

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
    """Processor seconds, one number for each round."""

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
        """Return how many times as long *other* takes, in each round."""
        pairs = zip(other.rounds, self.rounds, strict=True)
        return Times(tuple(theirs / ours for theirs, ours in pairs))

    def ratio(self, other: Times) -> float:
        """Return the median of the ratios to *other*."""
        return self.ratios(other).median


def interleaved(
    tasks: Mapping[Any, Callable[[], object]], rounds: int
) -> dict[Any, Times]:
    """Run each task once a round; the first round, which warms up, does not count."""
    times: dict[Any, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    for number in range(rounds + 1):
        # Alternate which task starts first.
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            # A larger allocation makes the allocator tidy up after the task before. After
            # trees of pages, that takes longer than parsing a page.
            bytearray(100_000)
            start = process_time()
            tasks[name]()
            if number:
                times[name].append(process_time() - start)
    return {name: Times(tuple(seconds)) for name, seconds in times.items()}


def environment(folder: str) -> dict[str, str]:
    """Return the environment for a Python process whose start counts: the current one,
    without variables that change Scrapy's settings or measure coverage, with this
    checkout on the path, and with compiled modules in *folder*.

    An installed package has its compiled modules beside it; a checkout may have none.
    """
    left_out = ("SCRAPY_", "COVERAGE_", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(CHECKOUT), "PYTHONPYCACHEPREFIX": folder}
