"""Measuring things in turns, so that what slows the machine slows all of them."""

from __future__ import annotations

import gc
from statistics import median, quantiles
from time import process_time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Times(NamedTuple):
    """Seconds of the processor, one number for each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """Half of what lies between the quartiles, as a part of the median."""
        if len(self.rounds) < 2:
            return 0.0
        first, _, third = quantiles(self.rounds, n=4, method="inclusive")
        return (third - first) / 2 / self.median

    def ratio(self, other: Times) -> float:
        """How many times as long *other* takes: the median of the rounds' ratios."""
        pairs = zip(other.rounds, self.rounds, strict=True)
        return median(theirs / ours for theirs, ours in pairs)


def interleaved(
    tasks: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, Times]:
    """Run each task once a round; the first round, which warms up, does not count."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    names = list(tasks)
    for number in range(rounds + 1):
        # Another one begins each time.
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            gc.collect()
            start = process_time()
            tasks[name]()
            if number:
                times[name].append(process_time() - start)
    return {name: Times(tuple(found)) for name, found in times.items()}
