"""The queue of a JOBDIR, through Scrapy's scheduler, beside Scrapy's own: time, memory, disk.

    python -m benchmarks --only jobs          the timed rows, in the table
    python -m benchmarks.jobs size            the size of the file while a queue grows and empties
    python -m benchmarks.jobs hosts 100000 3000   a crawl of many hosts of 3 requests, both sides

Each measurement is a process of its own (``python -m benchmarks.jobs part ...``). The two sides
of a comparison run at the same time and share one processor, as in ``pairs.py``.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from heapq import heappop, heappush
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.test import get_crawler

from benchmarks.broad_crawl import SETTINGS, SIDES
from benchmarks.pairs import on_one_processor
from benchmarks.queue_worker import CrawlSpider, _engine, requests
from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment
from scrapy_rep.frontier.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

STOCK, OURS = "Scrapy, JOBDIR", "scrapy-rep, JOBDIR"
WHO = {"stock": STOCK, "ours": OURS}
COUNT, WAITING, AT_ONCE, PAIRS = 200_000, 30_000, 16, 3
TURNS = (1, 16)
"""Pages that are done in one turn of the event loop, which writes them in one transaction."""

STOCK_COUNT = 20_000
"""The pops of Scrapy's class that are timed with many hosts: each takes milliseconds."""

HOSTS = {1: Target(most_ratio=1 / 0.6), 10_000: Target(most_ratio=1)}
MEMORY = Target(most_ratio=1.05)


class Alarms:
    """Does what is due when the event loop would."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Any, Any]] = []
        self._order = count()

    def at(self, moment: float, do: Any, *args: Any) -> None:
        heappush(self._due, (moment, next(self._order), do, args))

    def turn(self) -> None:
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, do, args = heappop(self._due)
            do(*args)

    def stop(self) -> None:
        self._due.clear()


class Bench:
    """A scheduler with a JOBDIR, beside an engine that does nothing."""

    def __init__(self, side: str, folder: str) -> None:
        settings = {**SIDES[side], "ROBOTSTXT_OBEY": False, "JOBDIR": folder}
        self.crawler = crawler = get_crawler(CrawlSpider, settings)
        crawler.spider = self.spider = CrawlSpider.from_crawler(crawler)
        crawler.engine = engine = _engine()
        self.in_progress: set[Request] = engine._slot.inprogress
        self.active: set[Request] = engine.downloader.active
        engine.downloader.domain_concurrency = AT_ONCE
        self.turn: Any = int
        if side == "ours":
            frontier = Frontier.of(crawler)
            frontier.alarms = alarms = Alarms(frontier.clock)
            self.turn = alarms.turn
        self.scheduler = Scheduler.from_crawler(crawler)
        self.scheduler.open(self.spider)

    def push(self, hosts: int, number: int) -> float:
        """Push *number* requests. Return the processor seconds, without those for making them."""
        made, seconds = 1_000, 0.0
        each = requests(self.spider, hosts, number)
        for _ in range(0, number, made):
            some = list(islice(each, made))
            before = time.process_time()
            for request in some:
                self.scheduler.enqueue_request(request)
            self.turn()
            seconds += time.process_time() - before
        return seconds

    def pop(self, number: int, turn: int = 1) -> float:
        """Pop *number* requests, of which ``AT_ONCE`` are in flight, and *turn* are done in each
        turn of the event loop. Return the processor seconds.
        """
        under_way: list[Request] = []
        before = time.process_time()
        for _ in range(number):
            if len(under_way) == AT_ONCE:
                self.turn()
                for ended in under_way[:turn]:
                    self.active.discard(ended)
                    self.in_progress.discard(ended)
                del under_way[:turn]
            request = self.scheduler.next_request()
            if request is None:
                raise RuntimeError(f"{len(self.scheduler)} requests are left")
            under_way.append(request)
            self.active.add(request)
            self.in_progress.add(request)
        return time.process_time() - before


def size_of(folder: str) -> int:
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in paths)


# The parts, each in its own process.


def times(
    folder: str, side: str, hosts: str, number: str, pops: str
) -> dict[str, float]:
    bench = Bench(side, folder)
    found = {"push": bench.push(int(hosts), int(number)) / int(number)}
    each = int(pops) // len(TURNS)
    for turn in TURNS:
        found[f"pop, {turn} done in a turn"] = bench.pop(each, turn) / each
        bench.active.clear()
        bench.in_progress.clear()
    return found


def memory(folder: str, side: str, hosts: str, number: str) -> dict[str, float]:
    bench = Bench(side, folder)
    gc.collect()
    tracemalloc.start()
    bench.push(int(hosts), int(number))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    return {"bytes": size / int(number)}


def size(folder: str, side: str, hosts: str, number: str) -> dict[str, Any]:
    """Fill and empty the queue three times, and then close it."""
    bench = Bench(side, folder)
    sizes = []
    for _ in range(3):
        bench.push(int(hosts), int(number))
        sizes.append(size_of(folder))
        bench.pop(int(number))
        sizes.append(size_of(folder))
        # The duplicate filter would drop the same requests.
        bench.scheduler.df.request_seen = lambda _: False
        bench.active.clear()
        bench.in_progress.clear()
    bench.scheduler.close("finished")
    return {"sizes": [*sizes, size_of(folder)]}


class ThreeSpider(Spider):
    name = "three"
    hosts: int

    async def start(self) -> AsyncIterator[Request]:
        for page in range(3):
            for host in range(int(self.hosts)):
                url = f"http://www.host-{host:06}.example/section/page-{page}.html"
                self.crawler.engine.crawl(Request(url))
        return
        yield

    def parse(self, response: Response) -> None:
        self.crawler.stats.inc_value("pages")


def crawl(
    folder: str, side: str, hosts: str, files: str, pages: str
) -> dict[str, float]:
    """Crawl hosts of 3 pages until *pages* are fetched, with a limit of open files."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), max(hard, int(files))))
    settings = {**SETTINGS, **SIDES[side], "JOBDIR": folder, "LOG_LEVEL": "WARNING"}
    settings["CLOSESPIDER_PAGECOUNT"] = int(pages)
    began = time.monotonic()
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(ThreeSpider)
    process.crawl(crawler, hosts=hosts)
    process.start()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    stats = crawler.stats.get_stats()
    return {
        "reason": stats["finish_reason"],
        "pages": stats.get("pages", 0),
        "errors": stats.get("log_count/ERROR", 0),
        "seconds": round(time.monotonic() - began, 1),
        "processor": round(usage.ru_utime + usage.ru_stime, 1),
        "memory": usage.ru_maxrss * 1024,
        "disk": size_of(folder),
    }


PARTS = {each.__name__: each for each in (times, memory, size, crawl)}


def start(folder: str, *arguments: object, job: str = "") -> subprocess.Popen[str]:
    own = job or tempfile.mkdtemp(dir=folder)
    command = [sys.executable, "-m", "benchmarks.jobs", "part", own]
    return subprocess.Popen(
        [*command, *map(str, arguments)],
        cwd=CHECKOUT, env=environment(folder), text=True,
        stdout=subprocess.PIPE, stderr=tempfile.TemporaryFile("w+"),
    )  # fmt: skip


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    if process.returncode or not said:
        raise RuntimeError(f"{process.args} has failed")
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


# The rows.


def jobs(
    _files: list[bytes],
    rounds: int,
    number: int = COUNT,
    waiting: int = WAITING,
    pops: int = STOCK_COUNT,
) -> Iterator[Row]:
    """Compare pushes and pops of both queues, and the memory of requests that wait."""
    with tempfile.TemporaryDirectory() as folder:
        result(start(folder, "times", "ours", 1, 100, 40))  # Compiles modules.
        for hosts, target in HOSTS.items():
            of_side = {"ours": number, "stock": number if hosts == 1 else pops}
            yield from _times(folder, hosts, number, of_side, target, rounds)
        for hosts in (1, waiting // 10):
            found = [result(start(folder, "memory", s, hosts, waiting)) for s in WHO]
            stock, ours = (one["bytes"] for one in found)
            name = f"memory of one of {waiting:,} requests that wait, {hosts:,} hosts"
            yield Row(name, STOCK, stock, unit="B")
            yield Row(name, OURS, ours, None, ours / stock, MEMORY, unit="B")


def _times(  # noqa: PLR0917
    folder: str,
    hosts: int,
    number: int,
    pops: dict[str, int],
    target: Target,
    rounds: int,
) -> Iterator[Row]:
    pairs = []
    for turn in range(min(PAIRS, rounds)):
        with on_one_processor():
            sides = {
                side: start(folder, "times", side, hosts, number, pops[side])
                for side in sorted(WHO, reverse=bool(turn % 2))
            }
        pairs.append({side: result(one) for side, one in sides.items()})
    push, *each_pop = pairs[0]["ours"]
    for what in [
        (push,),
        *((pop,) for pop in each_pop),
        *((push, pop) for pop in each_pop),
    ]:
        stock, ours = (
            Times(tuple(sum(pair[side][one] for one in what) for pair in pairs))
            for side in WHO
        )
        name = f"{' and '.join(what)}, {hosts:,} hosts"
        yield Row(name, STOCK, stock.median, stock.spread)
        ratios = stock.ratios(ours)
        limit = target if len(what) > 1 else None
        yield Row(name, OURS, ours.median, ratios.spread, ratios.median, limit)


def report_size(number: int) -> None:
    print("| queue | hosts | full | empty | full | empty | full | empty | closed |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for hosts in (1, 100):
            for side, name in WHO.items():
                sizes = result(start(folder, "size", side, hosts, number))["sizes"]
                cells = " | ".join(f"{size / 1e6:.1f} MB" for size in sizes)
                print(f"| {name} | {hosts:,} | {cells} |", flush=True)


def report_hosts(hosts: int, pages: int) -> None:
    """Crawl in three runs: two are stopped after some pages, with all requests in the queue."""
    with tempfile.TemporaryDirectory() as folder:
        for side, files in (("ours", 256), ("stock", 4 * hosts + 1_000)):
            job = tempfile.mkdtemp(dir=folder)
            for most in (pages, pages, 0):
                if side == "stock" and not most:
                    break  # It would take hours.
                one = start(folder, "crawl", side, hosts, files, most, job=job)
                try:
                    found = result(one)
                except RuntimeError as error:
                    found = {"failed": str(error)}
                print(WHO[side], json.dumps(found), flush=True)


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "part":
        folder, part, *arguments = rest
        print(json.dumps(PARTS[part](folder, *arguments)), flush=True)
        os._exit(0)  # Without a loop, the frontier's alarms never end.
    elif what == "size":
        report_size(int(rest[0]) if rest else 50_000)
    else:
        report_hosts(*map(int, rest or (100_000, 3_000)))


if __name__ == "__main__":
    main()
