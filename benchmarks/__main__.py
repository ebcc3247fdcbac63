"""Runs the benchmarks, and prints a table of results. The benchmarks cover parsing, decisions, crawls and queues.

    python -m benchmarks [--corpus PATH] [--only WORD ...] [--rounds NUMBER]

PATH is a folder or a ``.tar.gz`` file with robots.txt files. The default is the value of the environment variable
SCRAPY_REP_CORPUS. Without a path, realistic files are generated. WORD selects the benchmarks whose names contain it.
Each task is measured in NUMBER rounds. The compared programs take turns, so other load on the machine hardly changes
the ratios.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import corpus, crawls, jobs, ledgers, parsers, queues
from benchmarks.table import HEAD, LEGEND, line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.table import Row


def main() -> int:
    options = parsed()
    files = corpus.read(options.corpus) if options.corpus else corpus.generate()
    machine = describe(files, real=bool(options.corpus))
    print(f"Measured with {machine}.\n\n{LEGEND}\n", flush=True)
    print(HEAD, flush=True)
    started = time.monotonic()
    rows = []
    for name, measure in chosen(options.only).items():
        say(f"{time.monotonic() - started:5.0f} s: measuring {name}")
        for row in measure(files, rounds=options.rounds):
            print(line(row), flush=True)
            rows.append(row)
    missed = [row for row in rows if row.is_met is False]
    say(
        f"{time.monotonic() - started:5.0f} s: done, {len(missed)} of the ratios missed their targets"
    )
    return 1 if missed else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.partition("\n")[0]
    )
    path = os.environ.get("SCRAPY_REP_CORPUS")
    parser.add_argument("--corpus", type=Path, default=path and Path(path))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="WORD",
        help="run only benchmarks whose names contain WORD",
    )
    return parser.parse_args()


def chosen(words: list[str]) -> dict[str, Callable[..., Iterator[Row]]]:
    measures = (*parsers.ALL, crawls.broad, crawls.calls, crawls.crawls, crawls.waiting)
    measures += (queues.queues, jobs.jobs, ledgers.ledger)
    return {
        measure.__name__: measure
        for measure in measures
        if any(word in measure.__name__ for word in words)
    }


def describe(files: list[bytes], *, real: bool) -> str:
    size = sum(map(len, files)) / 1e6
    kind = "real" if real else "generated"
    peers = ", ".join(peer.label for peer in parsers.PEERS)
    return (
        f"Python {platform.python_version()} on {platform.system()}, {os.cpu_count()} cores; Scrapy "
        f"{version('Scrapy')}; the parsers {peers}; {len(files):,} {kind} robots.txt files, {size:.1f} MB"
    )


def say(message: str) -> None:
    """Print *message* to standard error, so that standard output contains only the results."""
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
