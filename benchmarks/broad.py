"""Crawls of many small hosts that are all in the queue at once: time and memory.

Each crawl is a process of its own, without a network (``broad_crawl.py``). The two sides
of a comparison share one processor, as in ``crawl.py``. The compared number is the
processor time for a page: pushing its request, its part of robots.txt, and all that
Scrapy does for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.broad_crawl import REQUESTS
from benchmarks.crawl import on_one_processor
from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

STOCK = "Scrapy, obeying robots.txt"
OURS = "scrapy-rep, HostQueue"


class Size(NamedTuple):
    hosts: int
    pairs: int
    target: float

    pages: int = 0
    """The crawl ends after this number of pages; 0 means all of them."""

    @property
    def what(self) -> str:
        if self.pages:
            return f"the first {self.pages:,} pages of {self.hosts:,} hosts, each"
        return f"pages of {self.hosts:,} hosts, each"


SIZES = (
    Size(1_000, 3, 1.05),
    Size(4_000, 1, 0.65),
    # For this number of hosts, Scrapy takes minutes for all pages.
    Size(20_000, 1, 0.25, pages=1_500),
)
GROWTH = 1.15
SMALL_ROUNDS = 3
WAITING = {
    "2 for each of 20,000 hosts": (20_000, 2),
    "40,000 for one host": (1, 40_000),
}
MEMORY = 1.1


def broad(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Crawl each number of hosts with two pages each, and measure requests in the queue."""
    with tempfile.TemporaryDirectory() as folder:
        _each_page([_start(folder, "ours", 50, 100)])  # Compiles modules.
        for size in SIZES:
            pairs = min(size.pairs, rounds)
            stock, ours = _in_pairs(folder, size, pairs)
            yield Row(size.what, STOCK, stock.median, stock.spread)
            ratios = stock.ratios(ours)
            target = Target(most_ratio=size.target)
            yield Row(
                size.what, OURS, ours.median, ratios.spread, ratios.median, target
            )
        yield _growth(folder)
        yield from _memory(folder)


def _in_pairs(folder: str, size: Size, pairs: int) -> tuple[Times, Times]:
    times: list[tuple[float, float]] = []
    pages = size.pages or size.hosts * REQUESTS
    sides = ["stock", "ours"]
    for _ in range(pairs):
        with on_one_processor():
            crawls = [_start(folder, side, size.hosts, pages) for side in sides]
        found = dict(zip(sides, _each_page(crawls), strict=True))
        times.append((found["stock"], found["ours"]))
        sides.reverse()  # Alternate which side starts first.
    stock, ours = map(Times, zip(*times, strict=True))
    return stock, ours


def _growth(folder: str) -> Row:
    """Compare all pages of the largest number of hosts with those of the smallest one."""
    small, large = SIZES[0].hosts, SIZES[-1].hosts
    with on_one_processor():
        # Slowdowns of the machine affect both; the small crawls end long before.
        crawl = _start(folder, "ours", large, large * REQUESTS)
        before = median(
            _each_page([_start(folder, "ours", small, small * REQUESTS)])[0]
            for _ in range(SMALL_ROUNDS)
        )
    (after,) = _each_page([crawl])
    what = f"pages of {large:,} hosts, each, beside {small:,} hosts"
    return Row(what, OURS, after, None, after / before, Target(most_ratio=GROWTH))


def _memory(folder: str) -> Iterator[Row]:
    """Measure the memory of waiting requests: the requests and the queue."""
    for what, (hosts, each) in WAITING.items():
        sides = [
            _start(folder, "--memory", side, hosts, each) for side in ("stock", "ours")
        ]
        stock, ours = (_result(side)["bytes"] for side in sides)
        what = f"memory for a waiting request, {what}"
        yield Row(what, STOCK, stock, unit="B")
        target = Target(most_ratio=MEMORY)
        yield Row(what, OURS, ours, None, ours / stock, target, unit="B")


def _each_page(crawls: list[subprocess.Popen[str]]) -> list[float]:
    """Return the processor seconds for a page of each of *crawls*."""
    return [sum(_result(crawl).values()) for crawl in crawls]


def _start(folder: str, *arguments: str | int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.broad_crawl", *map(str, arguments)],
        cwd=CHECKOUT, env=environment(folder), text=True,
        stdout=subprocess.PIPE, stderr=tempfile.TemporaryFile("w+"),
    )  # fmt: skip


def _result(process: subprocess.Popen[str]) -> dict[str, float]:
    said, _ = process.communicate()
    if process.returncode or not said:
        raise RuntimeError(f"{process.args} has failed")
    return json.loads(said)
