"""Compares this package's queue in Redis with the queue of scrapy-redis, by their pushes and pops per second.

The workers are separate processes without a crawl (``queue_worker.py``). Each queue uses a separate Redis server on
the loopback interface. The other servers are idle while a queue is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from redis import Redis

from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment
from tests.fetching.redis_server import BINARY, RedisServer, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

STOCK = "scrapy-redis, PriorityQueue"
OURS = "scrapy-rep, SharedScheduler"
LEAST = {"push": Target(least_ratio=4), "pop": Target(least_ratio=2.5)}
GROWTH = Target(most_ratio=1.5)
HOSTS = (10, 1_000, 100_000)
WORKERS = (1, 4)
EACH = 600
"""The number of requests of each worker in a round."""

FILL = 200_000
"""The number of requests in each queue at the start. The number is the same for all queues, so that the queues differ
only in the number of hosts. The number is large, so that no host runs out of requests."""


class Queue(NamedTuple):
    kind: str
    hosts: int
    url: str


class Round(NamedTuple):
    """The average seconds per request in one round."""

    clock: float
    """The elapsed time."""

    worker: float
    """The processor time of the workers."""

    server: float
    """The processor time of the server."""


def queues(
    _files: list[bytes],
    rounds: int,
    hosts: tuple[int, ...] = HOSTS,
    requests_each: int = EACH,
    fill: int = FILL,
) -> Iterator[Row]:
    """Measure pushes and pops in queues that already contain requests, and yield the rows of the table. The queues are
    measured in turn.
    """
    if BINARY is None:
        raise RuntimeError(
            "This benchmark needs redis-server, which was not found on the PATH"
        )
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        kinds = [("PriorityQueue", hosts[-1])]
        kinds += [("SharedScheduler", number) for number in hosts]
        all_queues = [
            Queue(kind, number, stack.enter_context(_serving()))
            for kind, number in kinds
        ]
        crew = [stack.enter_context(_worker(folder)) for _ in range(max(WORKERS))]
        for queue in all_queues:
            _all(crew[:1], queue, "fill", fill)
        for workers in WORKERS:
            yield from _rows(crew[:workers], all_queues, rounds, requests_each)


def _rows(
    crew: list[subprocess.Popen[str]],
    all_queues: list[Queue],
    rounds: int,
    requests_each: int,
) -> Iterator[Row]:
    stock, *ours = all_queues
    whose = "one worker" if len(crew) == 1 else f"{len(crew)} workers at once"
    taken = _measure(crew, all_queues, rounds, requests_each)
    for what in ("push", "pop"):
        theirs = taken[stock, what]
        yield _rate(f"{what}, {whose}", STOCK, theirs)
        for queue in ours:
            times = taken[queue, what]
            row = _rate(f"{what}, {whose}, {queue.hosts:,} hosts", OURS, times)
            ratios = _times(times).ratios(_times(theirs))
            is_alone = len(crew) == 1 and queue is ours[0]
            target = LEAST[what] if is_alone else None
            yield row._replace(ratio=ratios.median, spread=ratios.spread, target=target)
        yield _growth(what, whose, ours, taken)
        for queue in all_queues:
            times = taken[queue, what]
            name = f"{what}, {whose}, processor of"
            if queue is not stock:
                name = f"{what}, {whose}, {queue.hosts:,} hosts, processor of"
            who = STOCK if queue is stock else OURS
            yield Row(
                f"{name} the worker", who, median(round_.worker for round_ in times)
            )
            yield Row(
                f"{name} the server", who, median(round_.server for round_ in times)
            )


def _growth(what: str, whose: str, ours: list[Queue], taken: Any) -> Row:
    """Return the row that compares the queue with the most hosts to the queue with the fewest hosts. The ratio in the
    row is the time per request in the first, divided by the time per request in the second. *whose* describes the
    workers. *taken* contains the measured rounds, by queue and operation.
    """
    few, many = (_times(taken[queue, what]) for queue in (ours[0], ours[-1]))
    name = f"{what}, {whose}, {ours[-1].hosts:,} hosts beside {ours[0].hosts:,}"
    ratios = few.ratios(many)
    return Row(name, OURS, many.median, ratios.spread, ratios.median, GROWTH)


def _rate(what: str, who: str, rounds: list[Round]) -> Row:
    times = _times(rounds)
    return Row(what, who, 1 / times.median, times.spread, unit="/s")


def _times(rounds: list[Round]) -> Times:
    return Times(tuple(round_.clock for round_ in rounds))


def _measure(
    crew: list[subprocess.Popen[str]],
    all_queues: list[Queue],
    rounds: int,
    requests_each: int,
) -> dict[tuple[Queue, str], list[Round]]:
    """Measure each queue once per round. Return the measured rounds, by queue and operation (``push`` or ``pop``).
    Before them, an additional round is run as a warm-up. Its times are not used.
    """
    taken: dict[tuple[Queue, str], list[Round]] = {}
    turns = list(all_queues)
    for number in range(rounds + 1):
        for queue in turns:
            # Each push is followed by a pop, so the size of the queue stays the same.
            for what in ("push", "pop"):
                times = taken.setdefault((queue, what), [])
                round_ = _all(crew, queue, what, requests_each)
                if number:
                    times.append(round_)
        turns = [*turns[1:], turns[0]]  # The next round starts with another queue.
    return taken


def _all(
    crew: list[subprocess.Popen[str]], queue: Queue, what: str, count: int
) -> Round:
    """Make all workers execute the operation *what* at the same time, each with *count* requests. Return the average
    times per request.
    """
    order = json.dumps(
        {**queue._asdict(), "queue": queue.kind, "what": what, "count": count}
    )
    before = _processor_time(queue)
    for worker in crew:
        worker.stdin.write(f"{order}\n")
        worker.stdin.flush()
    starts, ends, worker = zip(*map(_answer, crew), strict=True)
    server = _processor_time(queue) - before
    number = count * len(crew)
    clock = max(ends) - min(starts)
    return Round(clock / number, sum(worker) / number, server / number)


def _answer(worker: subprocess.Popen[str]) -> list[float]:
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"The worker process {worker.args} failed")
    return json.loads(line)


def _processor_time(queue: Queue) -> float:
    """Return the processor seconds that the Redis server of *queue* used since its start."""
    with Redis.from_url(queue.url) as client:
        cpu_seconds = client.info("cpu")
    return cpu_seconds["used_cpu_user"] + cpu_seconds["used_cpu_sys"]


@contextmanager
def _serving() -> Iterator[str]:
    """Run a Redis server during the ``with`` block, and yield the server's URL."""
    port = free_port()
    with RedisServer(port):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def _worker(folder: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.queue_worker"],
        cwd=CHECKOUT, env=environment(folder), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.stdin.close()
