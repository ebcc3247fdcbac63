"""Runs the processes of a crawl in a simulated world, and injects faults: it kills a process, for example."""

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
"""For each kind of world: the seconds of virtual time after which a crawl counts as one that never ends."""

_MAX_RUNS_AFTER_FAULTS = 3
"""After the last fault, a crawl with a JOBDIR is started at most this number of times. It is started again only if it
has ended as ``network_gone``.
"""

_SECONDS_BETWEEN_RUNS = 400.0
"""The seconds before the crawl is started again. This is longer than any outage of the network."""


def run(seed: int) -> Story:
    """Crawl the world of *seed*, and return the record of the crawl."""
    story = Story(World(seed))
    runners = {"plain": _run_plain, "job": _run_job, "workers": _run_workers}
    random.seed(seed)  # The package adds jitter to its pauses.
    # If a coroutine of a killed process were garbage-collected now, Python would run its `finally` blocks in the
    # running crawl.
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
    """Free the objects of a crawl whose processes were killed or did not end."""
    if story.kill_times or not story.has_ended:
        for process in story.processes:
            process.has_ended = True
            process.kept_objects.clear()
        gc.collect()


def _memory_folder() -> str | None:
    """Return ``/dev/shm``, a folder in memory, which is faster than a disk. Return None if there is no such folder."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


async def _run_plain(story: Story, folder: str) -> None:
    """Run a crawl in one process. Set its clock at the times that the world gives. If the crawl writes a ledger, read
    the ledger into *story*.
    """
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
    """Wait until *fault* is due: after a number of requests, then iterations of the loop, then seconds.

    If *process* is given, the last of the requests must be a request of the process with this number.
    """
    await world.wait_for_requests(len(world.log) + fault.after_requests, process)
    for _ in range(fault.iterations):
        await asyncio.sleep(0)
    await asyncio.sleep(fault.after_seconds)


async def _end_process(running: RunningCrawl, fault: Fault) -> None:
    """Stop a process cleanly if *fault* is a ``stop``. Otherwise, kill the process."""
    if fault.kind == "stop":
        await running.crawler.stop_async()
        await running.crawl
    else:
        running.kill()


async def _run_job(story: Story, folder: str) -> None:
    """Run a crawl with a JOBDIR. After each fault, resume the crawl from a copy of the JOBDIR as the fault left it."""
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
    for number in range(last, last + _MAX_RUNS_AFTER_FAULTS):
        await start_crawl(story, Process(number), folder, JOBDIR=job).crawl
        reason = story.stats[number]["finish_reason"]
        if reason != "network_gone" or story.world.is_all_banned:
            return
        await asyncio.sleep(_SECONDS_BETWEEN_RUNS)


async def _fill_disk(story: Story, seconds: float) -> None:
    """Make the disk full for *seconds*, and record this in *story*."""
    started_at = asyncio.get_running_loop().time()
    with full_disk():
        await asyncio.sleep(seconds)
    # The add-on repeats a failed write after a second. So the effects last a little longer.
    story.disturbances.append(
        (started_at, asyncio.get_running_loop().time() + 1.5, None)
    )


class _Connection(FakeRedisConnection):
    """A connection to the simulated Redis server. The clock of the server stays right if the clock of a worker is
    wrong.
    """

    def send_packed_command(self, *args: Any, **kwargs: Any) -> None:
        # The fake Redis server runs the command inside this call. Without a process of its own, the server would use
        # the clock of the worker.
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
    """Run two or three workers with a queue on one Redis server, and inject the faults of the world. The first worker
    is never killed, stopped or suspended, and its clock is right.
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
    """Wait until *fault* is due, and inject it into the worker or into the Redis server. Do nothing if the crawl of the
    worker has ended by then.
    """
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
    # Effects in the three seconds after a fault are excused.
    story.disturbances.append(
        (started_at, asyncio.get_running_loop().time() + 3, process)
    )
