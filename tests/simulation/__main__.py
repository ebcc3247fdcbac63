"""Runs simulated crawls: see the docstring of the package."""

from __future__ import annotations

import argparse
import datetime
import gc
import logging
import sys
import time
import warnings
from itertools import chain, count
from typing import TYPE_CHECKING

from tests.simulation.faults import run
from tests.simulation.judge import violations

if TYPE_CHECKING:
    from tests.simulation.crawl import Story
    from tests.simulation.politeness import Violation

FAILED_ONCE: tuple[int, ...] = (
    22,
    5710,
    774000027,
    26355054,
    60029,
    202611230040,
    202611230277,
    940000226,
    1137,
    980000360,
    771000002,
)
"""Seeds that have found a bug: they run each time."""


def main() -> int:
    """Run one seed, or as many as fit into a time. Return 1 if there was a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument(
        "--first", type=int, help="the first of several seeds: today's date"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument(
        "--crawls", type=int, default=10**9, help="run at most so many crawls"
    )
    parser.add_argument(
        "--failures", type=int, default=1, help="stop after so many bad crawls"
    )
    parser.add_argument("--long", action="store_true", help="run for ten minutes")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    gc.freeze()
    # Killed coroutines complain when they are collected.
    sys.unraisablehook = lambda _: None
    if arguments.seed is not None:
        return tell(arguments.seed)
    today = int(datetime.date.today().strftime("%Y%m%d")) * 10_000
    first = today if arguments.first is None else arguments.first
    seconds = 600.0 if arguments.long else arguments.seconds
    return run_many(first, seconds, arguments.crawls, arguments.failures)


def tell(seed: int) -> int:
    """Tell the story of one seed, line by line."""
    story = run(seed)
    found = violations(story)
    print("\n".join([*story.lines(), *(f"VIOLATION: {each.text}" for each in found)]))
    return bool(found)


def excerpt(story: Story, found: list[Violation]) -> list[str]:
    """Return a story in ten lines: its settings, what came before the first violation, and that."""
    at, host, text = min(found)
    before = [
        line for when, of, line in story.events() if when <= at and host in {of, ""}
    ]
    about = [line for line in story.world.lines() if line.startswith(host or "h0")]
    return [story.world.lines()[0], *about, *before[-6:],
            f"VIOLATION: {text} ({len(found)} in all)",
            f"The whole story: python -m tests.simulation {story.world.seed}"]  # fmt: skip


def run_many(first: int, seconds: float, most: int, failures: int = 1) -> int:
    """Run seeds until the *seconds* are over; stop after so many *failures*."""
    began, crawls, requests, failed, virtual = time.perf_counter(), 0, 0, 0, 0.0
    for seed in chain(FAILED_ONCE, count(first)):
        story = run(seed)
        crawls, requests = crawls + 1, requests + len(story.world.log)
        virtual += story.ended - 1_000
        found = violations(story)
        if found:
            failed += 1
            print(*excerpt(story, found), sep="\n", flush=True)
        is_late = time.perf_counter() - began > seconds
        if failed >= failures or crawls >= most or is_late:
            break
    taken = time.perf_counter() - began
    print(
        f"{crawls} crawls from seed {first}, {requests} requests, {virtual / 86400:.2f} days of "
        f"virtual time in {taken:.0f} s"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
