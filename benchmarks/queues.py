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
    """The average times per request in one round, in seconds: the elapsed time, the processor time of the workers, and
    the processor time of the Redis server.
    """

    elapsed: float
    """The time from the start of the first worker to the end of the last worker, divided by the number of requests."""

    worker: float
    """The processor time of all workers together, divided by the number of requests."""

    server: float
    """The processor time of the Redis server, divided by the number of requests."""


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
    workers = "one worker" if len(crew) == 1 else f"{len(crew)} workers at once"
    rounds_of = _measure(crew, all_queues, rounds, requests_each)
    for operation in ("push", "pop"):
        theirs = rounds_of[stock, operation]
        yield _rate(f"{operation}, {workers}", STOCK, theirs)
        for queue in ours:
            times = rounds_of[queue, operation]
            row = _rate(f"{operation}, {workers}, {queue.hosts:,} hosts", OURS, times)
            ratios = _times(times).ratios(_times(theirs))
            is_alone = len(crew) == 1 and queue is ours[0]
            target = LEAST[operation] if is_alone else None
            yield row._replace(ratio=ratios.median, spread=ratios.spread, target=target)
        yield _growth(operation, workers, ours, rounds_of)
        for queue in all_queues:
            times = rounds_of[queue, operation]
            name = f"{operation}, {workers}"
            if queue is not stock:
                name = f"{operation}, {workers}, {queue.hosts:,} hosts"
            who = STOCK if queue is stock else OURS
            yield Row(
                f"{name}, processor time of the workers per request",
                who,
                median(round_.worker for round_ in times),
            )
            yield Row(
                f"{name}, processor time of the Redis server per request",
                who,
                median(round_.server for round_ in times),
            )


def _growth(operation: str, workers: str, ours: list[Queue], rounds_of: Any) -> Row:
    """Return the row that compares the queue with the most hosts to the queue with the fewest hosts. For example, a
    ratio of 1.5 means that a push or pop takes 1.5 times as long in the queue with the most hosts.

    *operation* is ``push`` or ``pop``. *workers* is the number of workers in words. *ours* contains the queues of this
    package, sorted by number of hosts. *rounds_of* contains the measured rounds by queue and operation.
    """
    few, many = (_times(rounds_of[queue, operation]) for queue in (ours[0], ours[-1]))
    name = (
        f"elapsed time for a {operation}, {workers}, {ours[-1].hosts:,} hosts compared with "
        f"{ours[0].hosts:,} hosts"
    )
    ratios = few.ratios(many)
    return Row(name, OURS, many.median, ratios.spread, ratios.median, GROWTH)


def _rate(what: str, who: str, rounds: list[Round]) -> Row:
    times = _times(rounds)
    return Row(what, who, 1 / times.median, times.spread, unit="/s")


def _times(rounds: list[Round]) -> Times:
    return Times(tuple(round_.elapsed for round_ in rounds))


def _measure(
    crew: list[subprocess.Popen[str]],
    all_queues: list[Queue],
    rounds: int,
    requests_each: int,
) -> dict[tuple[Queue, str], list[Round]]:
    """Measure each queue once per round. Return the measured rounds, by queue and operation (``push`` or ``pop``). One
    more round runs first as a warm-up, and is not measured.
    """
    rounds_of: dict[tuple[Queue, str], list[Round]] = {}
    turns = list(all_queues)
    for number in range(rounds + 1):
        for queue in turns:
            # All pushes of a round are followed by as many pops, so each round starts with the same number of requests
            # in the queue.
            for operation in ("push", "pop"):
                times = rounds_of.setdefault((queue, operation), [])
                round_ = _all(crew, queue, operation, requests_each)
                if number:
                    times.append(round_)
        turns = [*turns[1:], turns[0]]  # The next round starts with another queue.
    return rounds_of


def _all(
    crew: list[subprocess.Popen[str]], queue: Queue, operation: str, count: int
) -> Round:
    """Make all workers execute *operation* at the same time, each with *count* requests. Return the average times per
    request.
    """
    order = json.dumps(
        {**queue._asdict(), "queue": queue.kind, "what": operation, "count": count}
    )
    before = _processor_time(queue)
    for worker in crew:
        worker.stdin.write(f"{order}\n")
        worker.stdin.flush()
    starts, ends, worker = zip(*map(_answer, crew), strict=True)
    server = _processor_time(queue) - before
    number = count * len(crew)
    elapsed = max(ends) - min(starts)
    return Round(elapsed / number, sum(worker) / number, server / number)


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
