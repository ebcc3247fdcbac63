"""Counts the processor instructions per page in crawls of many hosts. Unlike times, these counts are nearly the same in
each run, even if the machine is busy.

    python -m benchmarks.instructions [SIZE ...]

A SIZE, such as ``10x300`` or ``1000x3,JOBDIR``, consists of the number of hosts, the number of pages per host, and
optionally ``JOBDIR`` or ``BY_HOST``, which :mod:`benchmarks.broad_crawl` explains. Without a SIZE, the sizes in
``SIZES`` are measured.

The command needs ``valgrind``, with which a crawl takes about 40 times as long. To exclude the start of a crawl, a
crawl of ten pages is also measured, and its instructions and pages are subtracted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from benchmarks.broad_crawl import SIDES

SIZES = ("1x3000", "10x300", "200x5", "1000x2", "1000x2,BY_HOST", "1000x3,JOBDIR")
_START_PAGES = 10


def main(*sizes: str) -> None:
    for side in SIDES:
        # Python compiles the modules in this short crawl, which is not measured. Otherwise, it would compile them in
        # the first measured crawl.
        subprocess.run(_command(side, "1", "1", "1"), check=True, capture_output=True)
    starts = {side: instructions(side, f"1x{_START_PAGES}")[0] for side in SIDES}
    for size in sizes or SIZES:
        for_page = {}
        for side in SIDES:
            count, pages = instructions(side, size)
            for_page[side] = (count - starts[side]) / (pages - _START_PAGES)
        stock, ours = for_page["stock"], for_page["ours"]
        print(
            f"A page in a crawl of {size} (hosts x pages of each host) takes {stock / 1_000:,.0f} thousand processor "
            f"instructions with Scrapy, and {ours / 1_000:,.0f} thousand with scrapy-rep: {ours / stock:.3f} times as "
            "many",
            flush=True,
        )


def instructions(side: str, size: str) -> tuple[int, int]:
    """Run a crawl, and return the number of its processor instructions and the number of its pages. *side* is ``stock``
    for a crawl without this package, or ``ours`` for a crawl with it. *size* is a SIZE as on the command line, such as
    ``10x300``.
    """
    shape, *options = size.split(",")
    hosts, pages_of_host = map(int, shape.split("x"))
    pages = hosts * pages_of_host
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
    command += ["--cachegrind-out-file=/dev/null"]
    command += _command(side, str(hosts), str(pages_of_host), str(pages), *options)
    # The fixed hash seed makes dictionary collisions the same in each run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    result = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    )
    match = re.search(r"I\s*refs:\s*([\d,]+)", result.stderr)
    if match is None or "page" not in result.stdout:
        # The crawl prints its results, which contain the word "page", after its last page. If they are missing, it
        # ended earlier.
        raise RuntimeError(result.stdout + result.stderr)
    return int(match[1].replace(",", "")), pages


def _command(side: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.broad_crawl", side, *arguments]


if __name__ == "__main__":
    main(*sys.argv[1:])
