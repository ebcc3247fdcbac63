"""Crawls whose requests wait: for a delay, and beside unreachable hosts.

Each crawl is a process of its own (``waiting_crawl.py``), and so is the server on
loopback (``waiting_site.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.broad import OURS, STOCK
from benchmarks.crawl import on_one_processor
from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment
from benchmarks.waiting_crawl import FILES, REQUESTS
from benchmarks.waiting_site import DELAY, HEALTHY, SILENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    Found = dict[str, float]

PAIRS = 3
MEMORY = Target(most_ratio=1.1)
PROCESSOR = Target(most_ratio=1.2)
FILES_TIME = Target(most_ratio=1.5)
BESIDE_SILENT = Target(most_ratio=1.2)
LAG = Target(most=0.05)
WHO = {"stock": STOCK, "ours": OURS}
ALONE = ", alone"


class Case(NamedTuple):
    what: str
    sides: list[tuple[str, str]]
    """The two compared sides, as arguments of ``waiting_crawl.py``."""


def waiting(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Compare crawls that wait with stock Scrapy, or with a crawl that does not wait."""
    pairs = min(PAIRS, rounds)
    with tempfile.TemporaryDirectory() as folder, _serving() as port:
        _result(
            _start(folder, "healthy", "ours", port)
        )  # The first crawl compiles modules for the others.
        for case, what in (
            ("links", f"{REQUESTS:,} requests of a page wait, delay of {DELAY} s"),
            ("queue", f"{REQUESTS:,} start requests wait, delay of {DELAY} s"),
        ):
            yield from _queue(folder, port, case, what)
        what = f"{FILES} pages whose files are on a host that answers 503"
        sides = [("files", "stock"), ("files", "ours")]
        yield from _times(folder, port, Case(what, sides), pairs, FILES_TIME)
        what = f"{len(HEALTHY)} healthy hosts, {len(SILENT)} silent ones beside them"
        sides = [("healthy", "ours"), ("silent", "ours")]
        yield from _times(folder, port, Case(what, sides), pairs, BESIDE_SILENT)


def _queue(folder: str, port: str, case: str, what: str) -> Iterator[Row]:
    """Run both at once, on one processor: they are idle for half of the time."""
    with on_one_processor():
        crawls = [_start(folder, case, side, port) for side in WHO]
    stock, ours = map(_result, crawls)
    for name, kind, target, unit in (
        ("bytes", "memory", MEMORY, "B"),
        ("processor", "processor", PROCESSOR, "s"),
    ):
        yield Row(f"{what}: {kind}", STOCK, stock[name], unit=unit)
        ratio = ours[name] / stock[name]
        yield Row(f"{what}: {kind}", OURS, ours[name], None, ratio, target, unit)
    yield from _lag(what, (STOCK, OURS), (stock, ours))


def _times(
    folder: str, port: str, case: Case, pairs: int, target: Target
) -> Iterator[Row]:
    """Run the crawls one after the other, since the elapsed time counts."""
    what, sides = case
    found: dict[tuple[str, str], list[Found]] = {side: [] for side in sides}
    for number in range(pairs):
        for side in sides[:: -1 if number % 2 else 1]:
            found[side].append(_result(_start(folder, *side, port)))
    one, other = (
        Times(tuple(each["seconds"] for each in crawls)) for crawls in found.values()
    )
    names = [WHO[side] + ALONE * (name == "healthy") for name, side in sides]
    ratios = one.ratios(other)
    yield Row(what, names[0], one.median, one.spread)
    yield Row(what, names[1], other.median, ratios.spread, ratios.median, target)
    least = [min(crawls, key=lambda each: each["lag"]) for crawls in found.values()]
    yield from _lag(what, names, least)


def _lag(what: str, names: tuple[str, ...] | list[str], found: object) -> Iterator[Row]:
    """Report the longest delay of the event loop, in processor time of the crawl."""
    for name, crawl in zip(names, found, strict=True):
        target = LAG if name == names[-1] else None
        yield Row(f"{what}: event loop blocked", name, crawl["lag"], target=target)


def _start(
    folder: str, case: str, side: str, port: str, *pages: str
) -> subprocess.Popen[str]:
    own = tempfile.mkdtemp(dir=folder)
    crawl = [sys.executable, "-m", "benchmarks.waiting_crawl"]
    return subprocess.Popen(
        [*crawl, case, side, port, own, *pages],
        cwd=CHECKOUT, env=environment(folder), text=True,
        stdout=subprocess.PIPE, stderr=tempfile.TemporaryFile("w+"),
    )  # fmt: skip


def _result(process: subprocess.Popen[str]) -> Found:
    said, _ = process.communicate()
    if process.returncode or not said:
        raise RuntimeError(f"{process.args} has failed")
    return json.loads(said)


@contextmanager
def _serving() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "benchmarks/waiting_site.py"],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
