"""Runs the processes of a crawl through a world, and makes its faults happen to them."""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fakeredis import FakeServer
from fakeredis._clients import FakeRedisConnection
from redis import ConnectionPool, Redis

from tests.crawl.disks import full_disk
from tests.simulation.crawl import RunningCrawl, Story, start_crawl
from tests.simulation.loop import PROCESS, Process, RanTooLong, VirtualLoop
from tests.simulation.world import Fault, World

_LONGEST = {"plain": 86400.0, "job": 86400.0, "workers": 3600.0}
"""A crawl that takes more seconds of virtual time never ends."""


_MAX_RESUMES, _RESUME_AFTER = 3, 400.0
"""How often a crawl is resumed that has ended without a network, and after how many seconds: the outage is
over by then.
"""


def run(seed: int) -> Story:
    """Crawl the world of *seed*."""
    story = Story(World(seed))
    kinds = {"plain": _run_plain, "job": _run_job, "workers": _run_workers}
    random.seed(seed)  # The package adds jitter to its pauses.
    # Coroutines of a killed process would, when they are garbage-collected, go on in the crawl that runs then.
    gc.disable()
    try:
        kind = story.world.kind
        loop = VirtualLoop(_LONGEST[kind])
        with TemporaryDirectory(dir=_memory_folder()) as folder, loop:
            crawl = kinds[kind](story, folder)
            with suppress(RanTooLong):
                loop.run_until_complete(crawl)
                story.has_ended = True
            story.ended_at = loop.time()
    finally:
        gc.enable()
    _free_memory(story)
    return story


def _free_memory(story: Story) -> None:
    """Free what killed processes, and those that do not end, had in memory."""
    if story.kill_times or not story.has_ended:
        for process in story.processes:
            process.has_ended = True
            process.kept_objects.clear()
        gc.collect()


def _memory_folder() -> str | None:
    """Return a folder in memory, if there is one: nothing here needs to survive."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


async def _run_plain(story: Story, folder: str) -> None:
    """One process, whose clock may be set."""
    loop, world = asyncio.get_running_loop(), story.world
    assert isinstance(loop, VirtualLoop)
    for at, by in world.clock_changes:
        loop.call_at(at, setattr, loop, "clock_offset", by)
    if not world.settings["REP_LEDGER"]:
        await start_crawl(story, Process(), folder).crawl
        return
    path = f"{folder}/ledger"
    await start_crawl(story, Process(), folder, REP_LEDGER=path).crawl
    with closing(sqlite3.connect(path)) as db:
        refused = "SELECT url FROM decision WHERE verdict = 'refused'"
        story.ledger_refusals = Counter(url for (url,) in db.execute(refused))
        pages = "SELECT origin, sum(pages) FROM traffic GROUP BY origin"
        story.ledger_pages = dict(db.execute(pages).fetchall())
        story.ledger_gaps = db.execute(
            "SELECT origin, kind, asked, gap FROM gap"
        ).fetchall()


async def _wait_for(world: World, fault: Fault, process: int | None = None) -> None:
    """Wait until it is time for *fault*, just after a request of this *process*, if it is given."""
    await world.wait_for_requests(len(world.log) + fault.after_requests, process)
    for _ in range(fault.iterations):
        await asyncio.sleep(0)
    await asyncio.sleep(fault.after_seconds)


async def _end_process(running: RunningCrawl, fault: Fault) -> None:
    """Stop or kill a process."""
    if fault.kind == "stop":
        await running.crawler.stop_async()
        await running.crawl
    else:
        running.kill()


# A crawl with a JOBDIR, which goes on after each fault from a copy of its files as they are.


async def _run_job(story: Story, folder: str) -> None:
    job = f"{folder}/job"
    for number, fault in enumerate(story.world.faults):
        running = start_crawl(story, Process(number), folder, JOBDIR=job)
        due = asyncio.ensure_future(_wait_for(story.world, fault))
        await asyncio.wait([running.crawl, due], return_when="FIRST_COMPLETED")
        if not running.crawl.done() and fault.kind == "full":
            await _fill_disk(story, fault.seconds)
        if not running.crawl.done():
            await _end_process(running, fault)
        due.cancel()
        await asyncio.sleep(fault.seconds)
        job = shutil.copytree(job, f"{folder}/job{number}")
    last = len(story.world.faults)
    for number in range(last, last + _MAX_RESUMES):
        await start_crawl(story, Process(number), folder, JOBDIR=job).crawl
        reason = story.stats[number]["finish_reason"]
        if reason != "network_gone" or story.world.is_all_banned:
            return
        await asyncio.sleep(_RESUME_AFTER)


async def _fill_disk(story: Story, seconds: float) -> None:
    """Have the disk full for so many *seconds*."""
    began = asyncio.get_running_loop().time()
    with full_disk():
        await asyncio.sleep(seconds)
    # A write that failed is tried again after a second.
    story.disturbances.append((began, asyncio.get_running_loop().time() + 1.5, None))


# Workers, which share a queue on a server.


class _Connection(FakeRedisConnection):
    """A connection to a server with a clock of its own."""

    def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        token = PROCESS.set(Process())
        try:
            super().send_packed_command(*args, **kwargs)
        finally:
            PROCESS.reset(token)


def _redis_client(server: FakeServer) -> Redis:
    pool = ConnectionPool(connection_class=_Connection, server=server)
    return Redis(connection_pool=pool)


async def _run_workers(story: Story, folder: str) -> None:
    """Two or three workers, all of which but the first may meet a fault."""
    server = FakeServer()
    settings = {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_DUPEFILTER_KEY": "{%(spider)s:requests}:seen",
        "SCHEDULER_PERSIST": True,
        "REDIS_PARAMS": {"redis_cls": lambda **_: _redis_client(server)},
    }
    faults = story.world.faults or [Fault("none")]
    lag = story.world.lag
    processes = [Process(number, lag=lag) for number in range(len(faults) + 1)]
    for process, fault in zip(processes[1:], faults, strict=True):
        process.clock_offset = fault.seconds if fault.kind == "ahead" else 0.0
    workers = [start_crawl(story, process, folder, **settings) for process in processes]
    fault_tasks = [
        asyncio.ensure_future(_inject(story, fault, server, worker))
        for fault, worker in zip(faults, workers[1:], strict=True)
    ]
    for fault_task, worker in zip(fault_tasks, workers[1:], strict=True):
        await asyncio.wait([fault_task, worker.crawl], return_when="FIRST_COMPLETED")
    await asyncio.gather(
        *(worker.crawl for worker in workers if worker.process.killed_at is None)
    )
    for fault_task in fault_tasks:
        fault_task.cancel()


async def _inject(
    story: Story, fault: Fault, server: FakeServer, worker: RunningCrawl
) -> None:
    """Make *fault* happen to a worker, or to the server."""
    number = worker.process.number
    world = story.world
    is_own = world.is_crowded or (world.is_busy and fault.kind == "kill")
    await _wait_for(story.world, fault, number if is_own else None)
    if worker.crawl.done():
        return
    began = asyncio.get_running_loop().time()
    match fault.kind:
        case "kill" | "stop":
            await _end_process(worker, fault)
            return
        case "flushed":
            story.data_losses.append(began)
            _redis_client(server).flushall()
        case "older":
            client = _redis_client(server)
            saved = {key: client.dump(key) for key in client.scan_iter()}
            await asyncio.sleep(fault.seconds)
            client.flushall()
            for key, value in saved.items():
                client.restore(key, 0, value)
            now = asyncio.get_running_loop().time()
            story.data_losses.append(now)
            story.rollbacks.append((began, now))
        case "gone" | "restarted":
            server.connected = False
            await asyncio.sleep(fault.seconds)
            if fault.kind == "restarted":
                server.script_cache.clear()
            server.connected = True
        case "still":
            worker.process.postponed = []
            await asyncio.sleep(fault.seconds)
            worker.process.resume()
    still = number if fault.kind == "still" else None
    story.disturbances.append((began, asyncio.get_running_loop().time() + 3, still))
