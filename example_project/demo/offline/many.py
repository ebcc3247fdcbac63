"""Crawls the site with one worker and then with several, and compares the access logs.

    python -m demo.offline.many [WORKERS] [--kill]

The workers share one queue, on a Redis server that this command starts. With ``--kill``, one of them is killed
while it has requests in flight, and another one is started. The exit status is 1 if the workers missed a page,
fetched a page twice, or fetched a forbidden page.
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
    # All workers share one queue in Redis, which is kept when a worker ends.
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": "True",
    # A worker that sends no heartbeat for so many seconds counts as dead: others take over its requests.
    "REP_QUEUE_LEASE": "6",
}
"""The settings of the workers, besides ``REDIS_URL``. The add-on derives the scheduler and the store from them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.offline.many")
    parser.add_argument("workers", type=int, nargs="?", default=3)
    parser.add_argument("--kill", action="store_true", help="kill one of them")
    options = parser.parse_args()
    if not shutil.which("redis-server"):
        print(
            "redis-server, which the workers share, is not installed (not on the PATH)"
        )
        return 2
    alone = crawl(1, {})
    with redis_server() as url:
        together = crawl(
            options.workers, {**SHARED, "REDIS_URL": url}, kill=options.kill
        )
    for agent, requests in sorted(Counter(hit.agent for hit in together).items()):
        print(f"{agent}: {requests} requests")
    alone_urls, shared_urls = (
        Counter(hit.url for hit in log) for log in (alone, together)
    )
    missing = sorted((alone_urls - shared_urls).elements())
    again = sorted((shared_urls - alone_urls).elements())
    print(
        f"{len(missing)} requests of a single worker are missing", *missing, sep="\n  "
    )
    print(f"{len(again)} requests are sent again", *again, sep="\n  ")
    print()
    wrong = judge(together) + len(missing)
    if (
        not options.kill
    ):  # The requests that a killed worker had in flight are sent again.
        wrong += len(again)
    return int(wrong > 0)


def crawl(count: int, settings: dict[str, str], *, kill: bool = False) -> list[Hit]:
    """Crawl the site with *count* workers, and return its access log. *kill* kills one of the workers while it has
    requests in flight, and starts another one.
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
    if kill:
        victim = busy.get(timeout=120)
        workers.pop(victim).kill()
        print(f"{victim} is killed")
        workers.update([worker(count + 1, settings)])
    for name, process in workers.items():
        if process.wait():
            raise SystemExit(f"{name} failed with the exit status {process.returncode}")
    site.stop()
    return site.log


def worker(
    number: int, settings: dict[str, str]
) -> tuple[str, subprocess.Popen[bytes]]:
    """Start the worker with *number*. Return its User-Agent and its process."""
    name = f"demobot/1.0 (worker {number})"
    settings = {"REP_LEDGER": f"demo-{number}.ledger", "USER_AGENT": name, **settings}
    options = [part for pair in settings.items() for part in ("-s", "=".join(pair))]
    # Hide the deprecation warnings of Scrapy that scrapy-redis causes.
    quiet = "ignore:Passing a 'spider' argument,ignore:Spider.log"
    command = [sys.executable, "-m", "scrapy", "crawl", "demo", *options]
    return name, subprocess.Popen(command, env={**os.environ, "PYTHONWARNINGS": quiet})


@contextmanager
def redis_server() -> Iterator[str]:
    """A context manager that runs a Redis server without persistence, and returns its URL."""
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
