"""Compares the time or memory of two Python processes. The two processes run at the same time on the same processor, so
other load affects them equally.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Side(NamedTuple):
    """One of the two programs to compare."""

    who: str
    """The name of the program in the table."""

    arguments: list[str]
    """The command-line arguments for Python: a module or script, and its arguments."""

    numbers: Callable[[str, float], Mapping[str, float]]
    """A function that returns the measured numbers of the program, by row name. Its arguments are the output of the
    program, and the processor time of the program in seconds."""


def in_pairs(
    first_side: Side,
    second_side: Side,
    pairs: int,
    targets: Mapping[str, Target] = {},
    unit: str = "s",
    *,
    warm_up: Side | None = None,
) -> Iterator[Row]:
    """Run two programs at the same time, *pairs* times, and compare the numbers that :attr:`Side.numbers` returns for
    the programs. For each number, yield two rows of the table: a row for each program. The row of *second_side*
    contains the ratio of its number to the number of *first_side*.

    *targets* contains the targets for the ratios, by row name. *unit* is the unit of the numbers, as in
    :class:`~benchmarks.table.Row`.

    First, the program *warm_up* runs once, so that the Python modules are compiled. It is not measured. If *warm_up* is
    None, both programs run instead.
    """
    numbers_of_pairs: list[dict[str, Mapping[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        if warm_up is not None:
            _Process(warm_up, folder).numbers()
        for number in range(pairs + (warm_up is None)):
            with on_one_processor():
                # The two programs take turns in starting first, because the process that starts first takes longer.
                order = (
                    (first_side, second_side)
                    if number % 2
                    else (second_side, first_side)
                )
                running = {side.who: _Process(side, folder) for side in order}
            numbers_of_pairs.append(
                {who: process.numbers() for who, process in running.items()}
            )
    del numbers_of_pairs[:-pairs]  # Removes the additional first run.
    for what in numbers_of_pairs[0][first_side.who]:
        first, second = (
            Times(tuple(pair[side.who][what] for pair in numbers_of_pairs))
            for side in (first_side, second_side)
        )
        # Each ratio compares two processes that ran at the same time. The row contains the median and the spread of
        # these ratios, and not the ratio of the medians.
        ratios = first.ratios(second)
        yield Row(what, first_side.who, first.median, first.spread, unit=unit)
        yield Row(
            what,
            second_side.who,
            second.median,
            ratios.spread,
            ratios.median,
            targets.get(what),
            unit,
        )


class _Process:
    def __init__(self, side: Side, folder: str) -> None:
        self._side = side
        self._output, self._log = (tempfile.TemporaryFile("w+") for _ in range(2))
        self._process = subprocess.Popen(
            [sys.executable, *side.arguments], cwd=CHECKOUT, env=environment(folder),
            stdout=self._output, stderr=self._log,
        )  # fmt: skip

    def numbers(self) -> Mapping[str, float]:
        """Wait for the end of the process, and return the numbers to compare. Raises RuntimeError if the process failed
        or printed nothing.
        """
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        with self._output, self._log:
            self._output.seek(0)
            self._log.seek(0)
            if self._process.returncode or not (output := self._output.read()):
                raise RuntimeError(
                    f"The process of {self._side} failed:\n{self._log.read()}"
                )
        return self._side.numbers(output, usage.ru_utime + usage.ru_stime)


@contextmanager
def beside(*arguments: str) -> Iterator[str]:
    """Run Python with *arguments* as a server, in a separate process during the ``with`` block. Yield the first line
    that the server prints. If the machine has several processors, the server does not use the processor on which
    :func:`in_pairs` runs the programs to compare.
    """
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if others := os.sched_getaffinity(0) - {_processor()}:
        os.sched_setaffinity(process.pid, others)
    with process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Bind all processes that are started in the ``with`` block to the same processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_processor()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _processor() -> int:
    return min(os.sched_getaffinity(0))
