"""Time everything in one table: parsing, deciding, indexing rules, import and crawl.

    python -m benchmarks [--corpus PATH] [--only WORD ...] [--json FILE] [--compare FILE]

PATH, or the environment variable SCRAPY_REP_CORPUS, is a folder or a ``.tar.gz`` of
robots.txt files; without it, the files are generated to resemble real ones. All sides of
a comparison take turns, so the ratios hold whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    broad,
    corpus,
    crawl,
    indexing,
    jobs,
    measures,
    parts,
    queues,
    waiting,
)
from benchmarks.peers import PEERS
from benchmarks.table import Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def main() -> int:
    options = parsed()
    files = corpus.read(options.corpus) if options.corpus else corpus.generate()
    setting = describe(files, real=bool(options.corpus))
    print(f"{setting}\n", flush=True)
    before = json.loads(options.compare.read_text()) if options.compare else None
    if before:
        print(f"Compared with: {before['setting']}\n", flush=True)
    table = Table(before["rows"] if before else None)
    print(table.head, flush=True)
    started = time.monotonic()
    for name, measure in chosen(options).items():
        say(f"{time.monotonic() - started:5.0f} s: {name}")
        for row in measure(files):
            print(table.line(row), flush=True)
        if options.json:
            found = {"setting": setting, "rows": [row.to_dict() for row in table.rows]}
            options.json.write_text(json.dumps(found, indent=1))
    missed = [row for row in table.rows if row.is_met is False]
    say(f"{time.monotonic() - started:5.0f} s: done, {len(missed)} targets missed")
    return 1 if missed else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.partition("\n")[0]
    )
    path = os.environ.get("SCRAPY_REP_CORPUS")
    parser.add_argument("--corpus", type=Path, default=path and Path(path))
    parser.add_argument("--rounds", type=int, default=7, help="of all but crawls")
    parser.add_argument("--pairs", type=int, default=7, help="of crawls")
    parser.add_argument(
        "--pages", type=int, default=crawl.PAGES, help=f"a multiple of {crawl.HOSTS}"
    )
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="in measures' names"
    )
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--compare", type=Path, help="with a file of --json")
    options = parser.parse_args()
    if options.pages < crawl.HOSTS or options.pages % crawl.HOSTS:
        parser.error(f"--pages is not a multiple of {crawl.HOSTS}")
    return options


def chosen(
    options: argparse.Namespace,
) -> dict[str, Callable[[list[bytes]], Iterator[Row]]]:
    found = {
        measure.__name__: partial(measure, rounds=options.rounds)
        for measure in (
            *measures.ALL,
            *indexing.ALL,
            parts.parts,
            broad.broad,
            waiting.waiting,
            queues.queues,
            jobs.jobs,
        )
    }
    found["crawls"] = lambda _: crawl.crawls(options.pairs, options.pages, say)
    return {
        name: measure
        for name, measure in found.items()
        if any(word in name for word in options.only)
    }


def describe(files: list[bytes], *, real: bool) -> str:
    size = sum(map(len, files)) / 1e6
    kind = "real" if real else "generated"
    others = [f"{name} {version(name)}" for name in ("Scrapy", "parsel")]
    return (
        f"Python {platform.python_version()} on {platform.system()}, "
        f"{os.cpu_count()} cores; {len(files)} {kind} files, {size:.1f} MB; "
        f"{', '.join([peer.label for peer in PEERS] + others)}"
    )


def say(message: str) -> None:
    """Print the progress beside the table."""
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
