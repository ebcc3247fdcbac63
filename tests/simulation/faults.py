"""Runs the processes of a crawl in a simulated world, and injects the faults of that world."""

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

_MAX_SECONDS = {"plain": 86400.0, "job": 86400.0, "workers": 3600.0}
"""The virtual time, in seconds, after which a crawl counts as one that never ends. By kind of world."""


_MAX_RESUMES, _RESUME_AFTER = 3, 400.0
"""A crawl with a JOBDIR may close because the network is gone. It is resumed at most so many times, each time after so
many seconds: the outage is over by then.
"""


def run(seed: int) -> Story:
    """Crawl the world of *seed*, and return the story."""
    story = Story(World(seed))
    runners = {"plain": _run_plain, "job": _run_job, "workers": _run_workers}
    random.seed(seed)  # The package adds jitter to its pauses.
    # If coroutines of a killed process were garbage-collected now, they would continue in the running crawl.
    gc.disable()
    try:
        kind = story.world.kind
        loop = VirtualLoop(_MAX_SECONDS[kind])
        with TemporaryDirectory(dir=_memory_folder()) as folder, loop:
            crawl = runners[kind](story, folder)
            with suppress(RanTooLong):
                loop.run_until_complete(crawl)
                story.has_ended = True
            story.ended_at = loop.time()
    finally:
        gc.enable()
    _free_memory(story)
    return story


def _free_memory(story: Story) -> None:
    """Free the objects of processes that were killed or did not end."""
    if story.kill_times or not story.has_ended:
        for process in story.processes:
            process.has_ended = True
            process.kept_objects.clear()
        gc.collect()


def _memory_folder() -> str | None:
    """Return a folder in memory, which is faster than a disk, or None if the system has no such folder."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


async def _run_plain(story: Story, folder: str) -> None:
    """Run a crawl in one process, whose clock may be set. Then read its ledger, if it writes one."""
    loop, world = asyncio.get_running_loop(), story.world
    assert isinstance(loop, VirtualLoop)
    for at, offset in world.clock_changes:
        loop.call_at(at, setattr, loop, "clock_offset", offset)
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
    """Wait until *fault* is due. If *process* is given, the wait ends just after a request of this process."""
    await world.wait_for_requests(len(world.log) + fault.after_requests, process)
    for _ in range(fault.iterations):
        await asyncio.sleep(0)
    await asyncio.sleep(fault.after_seconds)


async def _end_process(running: RunningCrawl, fault: Fault) -> None:
    """Stop a process cleanly, or kill it, as the kind of *fault* says."""
    if fault.kind == "stop":
        await running.crawler.stop_async()
        await running.crawl
    else:
        running.kill()


async def _run_job(story: Story, folder: str) -> None:
    """Run a crawl with a JOBDIR. After each fault, the crawl is resumed from a copy of the folder. The copy has the files
    exactly as the last process left them.
    """
    job = f"{folder}/job"
    for number, fault in enumerate(story.world.faults):
        running = start_crawl(story, Process(number), folder, JOBDIR=job)
        due = asyncio.ensure_future(_wait_for(story.world, fault))
        await asyncio.wait([running.crawl, due], return_when="FIRST_COMPLETED")
        if not running.crawl.done() and fault.kind == "disk_full":
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
    """Make the disk full for some *seconds*."""
    started_at = asyncio.get_running_loop().time()
    with full_disk():
        await asyncio.sleep(seconds)
    # The add-on repeats a failed write after a second.
    story.disturbances.append(
        (started_at, asyncio.get_running_loop().time() + 1.5, None)
    )


class _Connection(FakeRedisConnection):
    """A connection to a Redis server whose clock is not that of the client. Only the clocks of workers are set."""

    def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        token = PROCESS.set(Process())
        try:
            super().send_packed_command(*args, **kwargs)
        finally:
            PROCESS.reset(token)


def _redis_client(server: FakeServer) -> Redis:
    """Return a client of the simulated Redis *server*."""
    pool = ConnectionPool(connection_class=_Connection, server=server)
    return Redis(connection_pool=pool)


async def _run_workers(story: Story, folder: str) -> None:
    """Run two or three workers with a queue on one Redis server. The first worker has no fault, each other one may have a
    fault.
    """
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
        process.clock_offset = fault.seconds if fault.kind == "clock" else 0.0
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
    """Inject *fault* into a worker, or into the Redis server, when it is due."""
    number = worker.process.number
    world = story.world
    is_after_own_request = world.is_crowded or (world.is_busy and fault.kind == "kill")
    await _wait_for(story.world, fault, number if is_after_own_request else None)
    if worker.crawl.done():
        return
    started_at = asyncio.get_running_loop().time()
    match fault.kind:
        case "kill" | "stop":
            await _end_process(worker, fault)
            return
        case "none" | "clock":
            return
        case "flush":
            story.data_losses.append(started_at)
            _redis_client(server).flushall()
        case "rollback":
            client = _redis_client(server)
            saved = {key: client.dump(key) for key in client.scan_iter()}
            await asyncio.sleep(fault.seconds)
            client.flushall()
            for key, value in saved.items():
                client.restore(key, 0, value)
            now = asyncio.get_running_loop().time()
            story.data_losses.append(now)
            story.rollbacks.append((started_at, now))
        case "disconnect" | "restart":
            server.connected = False
            await asyncio.sleep(fault.seconds)
            if fault.kind == "restart":
                server.script_cache.clear()
            server.connected = True
        case "suspend":
            worker.process.postponed = []
            await asyncio.sleep(fault.seconds)
            worker.process.resume()
    process = number if fault.kind == "suspend" else None
    # The effects of a fault are excused for three more seconds.
    story.disturbances.append(
        (started_at, asyncio.get_running_loop().time() + 3, process)
    )
