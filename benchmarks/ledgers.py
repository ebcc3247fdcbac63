"""Measures how much processor time a ledger adds to a crawl, and how much processor time the report on the ledger
takes.

    python -m benchmarks --only ledger
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.ledger_crawl import SENT
from benchmarks.pairs import Side, in_pairs
from benchmarks.table import Row, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

DECISIONS, PAIRS = 300_000, 3
LEVELS = {"denied": Target(most_ratio=1.05), "all": Target(most_ratio=1.15)}
REPORT_TARGET = Target(most_ratio=4.0)
"""The command ``scrapy rep report`` must take at most 4 seconds of processor time. Targets apply to the column
``ratio`` of the benchmark table. In the row of the command, this column contains the seconds."""


def ledger(
    _files: list[bytes], rounds: int, decisions: int = DECISIONS
) -> Iterator[Row]:
    """Measure how much processor time a ledger adds to a crawl, for the values ``denied`` and ``all`` of
    REP_LEDGER_LEVEL. Then measure the processor time of ``scrapy rep report`` on the ledger with all decisions.

    In the rows of the crawls, the ratio is the ratio of the time with a ledger to the time without a ledger. Both times
    include the start of Python and the imports. *decisions* is the number of requests in each crawl.
    """
    # Each value of REP_LEDGER_LEVEL is measured on a separate processor, if there are enough processors.
    what = f"crawl with {decisions:,} decisions"

    def measured(level: str, processor: int) -> list[Row]:
        # Binds this thread, and the processes that it starts, to the processor.
        os.sched_setaffinity(0, {processor})
        files = str(Path(folder, f"{level}-%(pid)s"))
        plain = _side("no ledger", decisions)
        kept = _side(f"REP_LEDGER_LEVEL = {level!r}", decisions, level, files)
        short = _side("", SENT, level, f"{files}-short")
        targets = {what: LEVELS[level]}
        pairs = min(PAIRS, rounds)
        return list(in_pairs(plain, kept, pairs, targets, warm_up=short))

    processors = sorted(os.sched_getaffinity(0))[: len(LEVELS)]
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(len(processors)) as threads,
    ):
        for rows in threads.map(measured, LEVELS, cycle(processors)):
            yield from rows
        path = next(Path(folder).glob("all-*[0-9]"))
        seconds = _report_seconds(path)
    yield Row(
        f"time for the report on {decisions:,} decisions",
        "scrapy rep report",
        seconds,
        ratio=seconds,
        target=REPORT_TARGET,
    )


def _side(who: str, decisions: int, level: str = "", path: str = "") -> Side:
    sent = -(-decisions // SENT)
    expected = {"fetched": sent, "refused": decisions - sent}

    def numbers(output: str, processor_time: float) -> dict[str, float]:
        if json.loads(output) != expected:
            raise RuntimeError(
                f"The result of the crawl must be {expected}, but it is {output}"
            )
        return {f"crawl with {decisions:,} decisions": processor_time}

    arguments = ["-m", "benchmarks.ledger_crawl", str(decisions), level, path]
    return Side(who, arguments, numbers)


def _report_seconds(path: Path) -> float:
    """Run ``scrapy rep report`` on the ledger at *path*. Return the processor time of this command in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "scrapy", "rep", "report", str(path)]
    command += ["-o", f"{path}.html"]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
