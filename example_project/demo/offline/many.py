"""Crawls the offline site first with one worker and then with several workers, and compares the access logs.

    python -m demo.offline.many [WORKERS] [--kill]

The workers share a queue on a Redis server that this command starts. With ``--kill``, one worker is killed while it has
requests in flight, and a new worker is started. The exit status is 1 if the workers missed a page, violated a rule of
the site, or, without ``--kill``, sent a request that the single worker did not send.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from demo.offline.judge import judge
from demo.offline.server import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.offline.server import Hit

SHARED = {
    # All workers share a queue in Redis. The queue is kept when a worker ends.
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": "True",
    # A worker without a heartbeat for this number of seconds counts as dead, and others take over its requests.
    "REP_QUEUE_LEASE": "6",
}
"""The settings of the workers, without ``REDIS_URL``. The add-on recognizes scrapy-redis in these settings, and
replaces it with its own shared scheduler and store."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.offline.many")
    parser.add_argument("workers", type=int, nargs="?", default=3)
    parser.add_argument("--kill", action="store_true", help="kill one of the workers")
    options = parser.parse_args()
    if not shutil.which("redis-server"):
        print(
            "The workers need redis-server, which was not found on the PATH; install it first"
        )
        return 2
    alone, _ = crawl(1, {})
    with redis_server() as url:
        together, killed = crawl(
            options.workers, {**SHARED, "REDIS_URL": url}, kill=options.kill
        )
    for agent, requests in sorted(Counter(hit.agent for hit in together).items()):
        print(f"{agent}: {requests} requests")
    alone_urls, shared_urls = (
        Counter(hit.url for hit in log) for log in (alone, together)
    )
    missing = sorted((alone_urls - shared_urls).elements())
    additional = sorted((shared_urls - alone_urls).elements())
    crew = f"{options.workers} workers"
    print(
        f"{len(missing)} requests were sent in the crawl with 1 worker, but not in the crawl with {crew}",
        *missing,
        sep="\n  ",
    )
    print(
        f"{len(additional)} requests were sent in the crawl with {crew}, but not in the crawl with 1 worker",
        *additional,
        sep="\n  ",
    )
    print()
    wrong = judge(together, killed=killed) + len(missing)
    # If a worker was killed, the requests that it had in flight are sent again by another worker, and are not an error.
    if not options.kill:
        wrong += len(additional)
    return int(wrong > 0)


def crawl(
    count: int, settings: dict[str, str], *, kill: bool = False
) -> tuple[list[Hit], str]:
    """Crawl the site with *count* workers. With *kill*, kill one worker while it has requests in flight, and start a
    new worker. Return the site's access log, and the User-Agent of the killed worker (empty without *kill*).
    """
    busy: SimpleQueue[str] = SimpleQueue()
    asked: Counter[str] = Counter()

    def on_hit(hit: Hit) -> None:
        asked[hit.agent] += not hit.is_robotstxt
        if asked[hit.agent] == 2:
            busy.put(hit.agent)

    site = Site(on_hit)
    settings = {"OFFLINE_SITE": site.address, "EXTENSIONS": "{}", **settings}
    workers = dict(worker(number, settings) for number in range(1, count + 1))
    victim = ""
    if kill:
        victim = busy.get(timeout=120)
        workers.pop(victim).kill()
        print(f"{victim} was killed")
        workers.update([worker(count + 1, settings)])
    for name, process in workers.items():
        if process.wait():
            raise SystemExit(f"{name} failed with the exit status {process.returncode}")
    site.stop()
    return site.log, victim


def worker(
    number: int, settings: dict[str, str]
) -> tuple[str, subprocess.Popen[bytes]]:
    """Start the worker with the given *number*. Return the worker's User-Agent and process."""
    name = f"demobot/1.0 (worker {number})"
    settings = {"REP_LEDGER": f"demo-{number}.ledger", "USER_AGENT": name, **settings}
    options = [part for pair in settings.items() for part in ("-s", "=".join(pair))]
    # Hides Scrapy's deprecation warnings about the code of scrapy-redis.
    quiet = "ignore:Passing a 'spider' argument,ignore:Spider.log"
    command = [sys.executable, "-m", "scrapy", "crawl", "demo", *options]
    return name, subprocess.Popen(command, env={**os.environ, "PYTHONWARNINGS": quiet})


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a Redis server without persistence during the ``with`` block, and yield the server's URL."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        socket = Path(folder) / "redis.sock"
        command = ["redis-server", "--port", "0", "--save", "", "--dir", folder]
        with subprocess.Popen(
            [*command, "--unixsocket", socket], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                for line in process.stdout:
                    if "eady to accept connections" in line:
                        break
                yield f"unix://{socket}?db=0"
            finally:
                process.terminate()


if __name__ == "__main__":
    sys.exit(main())
