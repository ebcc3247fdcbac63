"""Runs simulated crawls: see the docstring of the package."""

from __future__ import annotations

import argparse
import datetime
import gc
import logging
import os
import sys
import time
import traceback
import warnings
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain, count, islice
from typing import TYPE_CHECKING

from tests.simulation import options
from tests.simulation.faults import run
from tests.simulation.judge import violations
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.crawl import Story
    from tests.simulation.politeness import Violation

FAILED_ONCE: tuple[int, ...] = (
    26355054,
    60029,
    202611230040,
    202611230277,
    940000226,
    980000360,
    770000807,
    202611250267,
    202611250902,
    202611262539,
    202611262492,
    202611260373,
    730114,
    202612010196,
)
"""Seeds that have found a bug: they run each time."""

FAILED_ONCE_AND_LONG: tuple[int, ...] = (
    22,
    1137,
    771000002,
    420336,
    202611240554,
    202611241044,
    202611241329,
    202611263523,
    202611280183,
    202611280233,
    202611280262,
    202611280502,
    202611287011,
    202611300276,
    202611300544,
    202611290765,
    202611300624,
    202611300803,
    202612010543,
    202611280392,
    202611261834,
    202611261253,
    774000027,
    202611301211,
    202612020655,
)
"""Those of them that take more than half a second each, and nine tenths of the time of all: they run with ``--long``."""


def main() -> int:
    """Run one seed, or as many as fit into a time. Return 1 if there was a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seeds", type=int, nargs="*", help="tell their stories")
    parser.add_argument(
        "--first", type=int, help="the first of several seeds: today's date"
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long to begin new seeds"
    )
    parser.add_argument(
        "--crawls", type=int, default=10**9, help="run at most so many crawls"
    )
    parser.add_argument(
        "--failures", type=int, default=1, help="stop after so many bad crawls"
    )
    parser.add_argument(
        "--processes", type=int, default=1, help="run so many crawls at a time"
    )
    parser.add_argument(
        "--long", action="store_true", help="run for ten minutes, on all cores"
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=["plain", "job", "workers"],
        help="skip the seeds of worlds of other kinds",
    )
    parser.add_argument(
        "--settings",
        default="",
        metavar="JSON",
        help="settings that all crawls have in addition, which may choose another frontier",
    )
    arguments = parser.parse_args()
    options.set_options(kinds=arguments.kinds, settings=arguments.settings)
    if arguments.seeds:
        prepare()
        return max(map(print_story, arguments.seeds))
    today = int(datetime.date.today().strftime("%Y%m%d")) * 10_000
    first = today if arguments.first is None else arguments.first
    if arguments.long:
        arguments.seconds, arguments.processes = 600.0, os.cpu_count() or 1
    print(f"Seeds from {first}", flush=True)
    old = FAILED_ONCE + FAILED_ONCE_AND_LONG * arguments.long
    seeds = islice(chain(old, count(first)), arguments.crawls)
    return run_many(seeds, arguments.processes, arguments.seconds, arguments.failures)


def print_story(seed: int) -> int:
    """Tell the story of one seed, line by line. Return 1 if there was a violation."""
    story = run(seed)
    broken = violations(story)
    print(
        "\n".join(
            [*story.lines(), *(f"VIOLATION: {violation.text}" for violation in broken)]
        )
    )
    return bool(broken)


def prepare() -> None:
    """Prepare a process to run crawls."""
    warnings.simplefilter("ignore")
    logging.disable()
    gc.freeze()
    # Killed coroutines complain when they are collected.
    sys.unraisablehook = lambda _: None


@dataclass
class Result:
    """What a process tells of a crawl."""

    requests: int = 0
    seconds: float = 0.0
    """Of virtual time."""

    failure: str = ""
    """The story of its first violation; empty if there was none."""

    is_skipped: bool = False


def judge_seed(seed: int) -> Result:
    """Run one seed, unless its world is of a kind that is not asked for."""
    if World(seed).kind not in options.chosen_kinds():
        return Result(is_skipped=True)
    try:
        story = run(seed)
        broken = violations(story)
    except Exception:  # noqa: BLE001  it ends the run, with the seed
        return Result(failure=f"seed {seed}:\n{traceback.format_exc()}")
    failure = "\n".join(excerpt(story, broken)) if broken else ""
    return Result(len(story.world.log), story.ended_at - 1_000, failure)


def excerpt(story: Story, broken: list[Violation]) -> list[str]:
    """Return a story in ten lines: its settings, what came before the first violation, and that."""
    at, host, text = min(broken)
    before = [
        line for when, of, line in story.events() if when <= at and host in {of, ""}
    ]
    about = [line for line in story.world.lines() if line.startswith(host or "h0")]
    return [story.world.lines()[0], *about, *before[-6:],
            f"VIOLATION: {text} ({len(broken)} in all)",
            f"The whole story: python -m tests.simulation {story.world.seed}"]  # fmt: skip


def run_many(
    seeds: Iterator[int], processes: int, seconds: float, failures: int
) -> int:
    """Run *seeds*, in so many *processes*, until the *seconds* are over, which count from the first new
    seed, or so many crawls have failed.
    """
    crawls, skipped, requests, failed, virtual = 0, 0, 0, 0, 0.0
    began = new_since = time.perf_counter()
    with ProcessPoolExecutor(processes, initializer=prepare) as pool:
        running = {pool.submit(judge_seed, seed) for seed in islice(seeds, processes)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                skipped += result.is_skipped
                crawls += not result.is_skipped
                requests += result.requests
                if crawls + skipped <= len(FAILED_ONCE):
                    new_since = time.perf_counter()
                virtual += result.seconds
                if result.failure:
                    failed += 1
                    print(result.failure, flush=True)
            is_late = time.perf_counter() - new_since > seconds
            if failed < failures and not is_late:
                more = islice(seeds, processes - len(running))
                running |= {pool.submit(judge_seed, seed) for seed in more}
    taken = time.perf_counter() - began
    print(
        f"{crawls} crawls, {requests} requests, {virtual / 86400:.2f} days of virtual time "
        f"in {taken:.0f} s"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
