"""The command that runs simulated crawls. The docstring of the package describes it."""

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
from tests.simulation.judge import find_violations
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
    202612180330,
)
"""Seeds that once found a bug. They run before the new seeds, each time."""

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
    202612150014,
)
"""Seeds that once found a bug, and take more than half a second each. They run only with ``--long``, because they take
nine times as long as the seeds of FAILED_ONCE.
"""


def main() -> int:
    """Run the seeds given as arguments, or new seeds if none are given. Return the exit code: 1 if there was a
    violation, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument(
        "seeds",
        type=int,
        nargs="*",
        help="run only these seeds, and print each request and violation",
    )
    parser.add_argument(
        "--first", type=int, help="the first new seed (default: made of today's date)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="run new seeds for this many seconds",
    )
    parser.add_argument(
        "--crawls", type=int, default=10**9, help="the maximum number of seeds"
    )
    parser.add_argument(
        "--failures",
        type=int,
        default=1,
        help="stop after this many crawls with violations",
    )
    parser.add_argument(
        "--processes", type=int, default=1, help="how many crawls run at the same time"
    )
    parser.add_argument(
        "--long", action="store_true", help="run for ten minutes, on all cores"
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=["plain", "job", "workers"],
        help="run only seeds whose worlds are of these kinds",
    )
    parser.add_argument(
        "--settings",
        default="",
        metavar="JSON",
        help="settings that all crawls get in addition, for example to choose another scheduler",
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
    old_seeds = FAILED_ONCE + FAILED_ONCE_AND_LONG * arguments.long
    seeds = islice(chain(old_seeds, count(first)), arguments.crawls)
    return run_many(seeds, arguments.processes, arguments.seconds, arguments.failures)


def print_story(seed: int) -> int:
    """Run a seed, and print each request, outcome and violation. Return 1 if there was a violation, else 0."""
    story = run(seed)
    violations = find_violations(story)
    texts = [f"VIOLATION: {violation.text}" for violation in violations]
    print("\n".join([*story.lines(), *texts]))
    return bool(violations)


def prepare() -> None:
    """Prepare this process to run crawls: silence warnings and logs, and speed up garbage collection."""
    warnings.simplefilter("ignore")
    logging.disable()
    gc.freeze()  # The collector no longer visits the objects that exist now.
    # Coroutines of killed processes raise exceptions when they are garbage-collected. These would be printed.
    sys.unraisablehook = lambda _: None


@dataclass
class Result:
    """What a process of the pool returns about a seed."""

    requests: int = 0
    """The number of requests that were sent."""

    virtual_seconds: float = 0.0
    failure: str = ""
    """The first violation and the events before it, as text. Empty if there was no violation."""

    is_skipped: bool = False
    """Whether the seed was not run, because the options exclude the kind of its world."""


def judge_seed(seed: int) -> Result:
    """Run a seed and check the crawl. The seed is skipped if the options exclude the kind of its world."""
    if World(seed).kind not in options.chosen_kinds():
        return Result(is_skipped=True)
    try:
        story = run(seed)
        violations = find_violations(story)
    except Exception:  # noqa: BLE001  reported as a failure of this seed
        return Result(failure=f"seed {seed}:\n{traceback.format_exc()}")
    failure = "\n".join(excerpt(story, violations)) if violations else ""
    return Result(len(story.world.log), story.ended_at - 1_000, failure)


def excerpt(story: Story, violations: list[Violation]) -> list[str]:
    """Return about ten lines: the settings, the host of the first violation, the last six events before the violation,
    and the violation itself.
    """
    violation_at, host, text = min(violations)
    events_before = [
        line
        for at, event_host, line in story.events()
        if at <= violation_at and host in {event_host, ""}
    ]
    host_lines = [line for line in story.world.lines() if line.startswith(host or "h0")]
    return [story.world.lines()[0], *host_lines, *events_before[-6:],
            f"VIOLATION: {text} ({len(violations)} in all)",
            f"The whole story: python -m tests.simulation {story.world.seed}"]  # fmt: skip


def run_many(
    seeds: Iterator[int], processes: int, seconds: float, failures: int
) -> int:
    """Run *seeds* in a pool of *processes*, and print failures and a summary. Return 1 if a crawl has failed, else 0.

    No more seeds are started after *failures* failed crawls, or after *seconds*. The seconds are counted from the end
    of the seeds of FAILED_ONCE, which come first.
    """
    crawls, skipped, requests, failed, virtual_seconds = 0, 0, 0, 0, 0.0
    started_at = first_new_at = time.perf_counter()
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
                    first_new_at = time.perf_counter()
                virtual_seconds += result.virtual_seconds
                if result.failure:
                    failed += 1
                    print(result.failure, flush=True)
            is_late = time.perf_counter() - first_new_at > seconds
            if failed < failures and not is_late:
                more = islice(seeds, processes - len(running))
                running |= {pool.submit(judge_seed, seed) for seed in more}
    duration = time.perf_counter() - started_at
    print(
        f"{crawls} crawls, {requests} requests, {virtual_seconds / 86400:.2f} days of virtual time "
        f"in {duration:.0f} s"
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
