"""Compares this package's scheduler with Scrapy's scheduler, both with a JOBDIR, by their time, memory and disk space.

    python -m benchmarks --only jobs

Each measurement runs in a separate process, which this module starts with the command
``python -m benchmarks.jobs PART SIDE HOSTS ...``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
import tracemalloc
from heapq import heapify, heappop, heappush
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.test import get_crawler

from benchmarks.broad_crawl import SIDES
from benchmarks.pairs import Side, in_pairs
from benchmarks.queue_worker import CrawlSpider, _engine, frontier_of, requests
from benchmarks.table import Row, Target
from scrapy_rep.base.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request

WHO = {"stock": "Scrapy, JOBDIR", "ours": "scrapy-rep, JOBDIR"}
COUNT, WAITING, AT_ONCE, PAIRS = 200_000, 30_000, 16, 3
TURNS = (1, 16)
"""The numbers of downloads that finish in the same iteration of the event loop. The benchmark simulates each of these
numbers in turn. The number affects the time, because this package's scheduler writes all changes of an iteration in one
transaction."""

STOCK_COUNT = 20_000
"""The number of pops that are measured for Scrapy's scheduler with many hosts. It is small, because each of these pops
takes milliseconds."""

HOSTS = {1: Target(most_ratio=1 / 0.6), 10_000: Target(most_ratio=1)}
MEMORY = Target(most_ratio=1.05)


class TurnClock(Clock):
    """A clock without an event loop. Each call of :meth:`turn` runs the due timers, as an iteration of a loop would."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Any]] = []
        self._order = count()

    def call_later(self, seconds: float, function: Any) -> Any:
        entry = self.monotonic() + seconds, next(self._order), function
        heappush(self._due, entry)
        return SimpleNamespace(cancel=lambda: self._cancel(entry))

    def _cancel(self, entry: tuple[float, int, Any]) -> None:
        self._due.remove(entry)
        heapify(self._due)

    def turn(self) -> None:
        now = self.monotonic()
        while self._due and self._due[0][0] <= now:
            heappop(self._due)[2]()


class Bench:
    """A scheduler with a JOBDIR, in a crawl whose engine is replaced by a simple object. *side* is ``stock`` for
    Scrapy's scheduler, or ``ours`` for the scheduler of this package.
    """

    def __init__(self, side: str, folder: str) -> None:
        self.folder = folder
        settings = {
            **SIDES[side],
            "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
            "JOBDIR": folder,
            "ROBOTSTXT_OBEY": False,
        }
        self.crawler = crawler = get_crawler(CrawlSpider, settings)
        crawler.spider = self.spider = CrawlSpider.from_crawler(crawler)
        crawler.engine = engine = _engine()
        self.in_progress: set[Request] = engine._slot.inprogress
        self.active: set[Request] = engine.downloader.active
        self.turn: Any = int
        if side == "ours":
            clock = TurnClock()
            frontier_of(crawler, clock)
            self.turn = clock.turn
        scheduler = load_object(crawler.settings["SCHEDULER"])
        self.scheduler = build_from_crawler(scheduler, crawler)
        self.scheduler.open(self.spider)

    def push(self, hosts: int, number: int) -> float:
        """Push *number* requests to *hosts* hosts. Return the processor seconds for the pushes, without the time to
        create the requests.
        """
        batch_size, seconds = 1_000, 0.0
        new_requests = requests(self.spider, hosts, number)
        for _ in range(0, number, batch_size):
            batch = list(islice(new_requests, batch_size))
            before = time.process_time()
            for request in batch:
                self.scheduler.enqueue_request(request)
            self.turn()
            seconds += time.process_time() - before
        return seconds

    def pop(self, number: int, turn: int = 1) -> float:
        """Pop *number* requests, and return the processor time in seconds. ``AT_ONCE`` requests are in flight at the
        same time. *turn* is the number of requests that finish in each iteration of the simulated event loop.
        """
        in_flight: list[Request] = []
        before = time.process_time()
        for _ in range(number):
            if len(in_flight) == AT_ONCE:
                self.turn()
                for done in in_flight[:turn]:
                    self.active.discard(done)
                    self.in_progress.discard(done)
                del in_flight[:turn]
            request = self.scheduler.next_request()
            if request is None:
                raise RuntimeError(
                    f"The scheduler contains {len(self.scheduler)} requests, but returned none"
                )
            in_flight.append(request)
            self.active.add(request)
            self.in_progress.add(request)
        return time.process_time() - before


def size_of(folder: str) -> int:
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in paths)


# The measurements. Each function runs in a separate process, and returns a dict. Each key is the name of a row in the
# benchmark table, and each value is a measured number.


def times(bench: Bench, hosts: int, number: int, pops: int) -> dict[str, float]:
    push = bench.push(hosts, number) / number
    seconds = {"push": push}
    pops_of_turn = pops // len(TURNS)
    for turn in TURNS:
        what = f"pop with {turn} finished downloads per iteration of the event loop"
        seconds[what] = bench.pop(pops_of_turn, turn) / pops_of_turn
        seconds[f"push and {what}"] = push + seconds[what]
        bench.active.clear()
        bench.in_progress.clear()
    return seconds


def memory(bench: Bench, hosts: int, number: int) -> dict[str, float]:
    gc.collect()
    tracemalloc.start()
    bench.push(hosts, number)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    what = f"one of {number:,} queued requests"
    return {
        f"memory of {what}": size / number,
        f"disk of {what}": size_of(bench.folder) / number,
    }


# The benchmark. It runs the measurements, and yields the rows of the benchmark table.


def jobs(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Compare Scrapy's scheduler with this package's scheduler, both with a JOBDIR, by the time to push and to pop a
    request, and by the memory and disk space per queued request.
    """
    for hosts, target in HOSTS.items():
        pops = {"stock": COUNT if hosts == 1 else STOCK_COUNT, "ours": COUNT}
        stock, ours = (_side(side, "times", hosts, COUNT, pops[side]) for side in WHO)
        for row in in_pairs(stock, ours, min(PAIRS, rounds)):
            is_limited = row.ratio is not None and row.what.startswith("push and")
            yield row._replace(target=target) if is_limited else row
    for hosts in (1, WAITING // 10):
        stock, ours = (_side(side, "memory", hosts, WAITING) for side in WHO)
        for row in in_pairs(stock, ours, 1, unit="B"):
            is_limited = row.ratio is not None and row.what.startswith("memory")
            yield row._replace(target=MEMORY) if is_limited else row


def _side(side: str, part: str, hosts: int, *numbers: int) -> Side:
    arguments = ["-m", "benchmarks.jobs", part, side, *map(str, (hosts, *numbers))]

    def compared(output: str, _: float) -> dict[str, float]:
        numbers: dict[str, float] = json.loads(output.splitlines()[-1])
        return {f"{what}, {hosts:,} hosts": number for what, number in numbers.items()}

    return Side(WHO[side], arguments, compared)


def main(part: str, side: str, *numbers: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measure = {"times": times, "memory": memory}[part]
        print(json.dumps(measure(Bench(side, folder), *map(int, numbers))), flush=True)
    os._exit(
        0
    )  # A normal exit would wait for the frontier's timers, which never run without an event loop.


if __name__ == "__main__":
    main(*sys.argv[1:])
