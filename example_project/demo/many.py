"""A crawl of the bundled site with several workers, judged by the log of the site.

    python -m demo.many [WORKERS] [--kill]

Starts a Redis server, the site, and the workers, which share a queue (``workers.py``).
With ``--kill``, one worker is killed while it has requests in flight, and another one is
started. The exit status is 1 if the verdict has an error.
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
from threading import Event
from typing import TYPE_CHECKING

from scrapy.utils.project import get_project_settings

from demo.extensions import accuse, judge_hits, table
from demo.hosts import HOSTS
from demo.judge import missing_pages, repeated_robotstxts
from demo.server import SiteServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.server import Hit

START = "http://open.example/"

# Seconds after which other workers get the requests of a killed one.
LEASE = 5

# Requests of the worker that is killed, the last one still in flight.
PAGES = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.many")
    parser.add_argument("workers", type=int, nargs="?", default=4)
    parser.add_argument("--kill", action="store_true", help="kill one of them")
    options = parser.parse_args()
    if not shutil.which("redis-server"):
        print("Workers share a Redis server, and there is no redis-server on the PATH")
        return 2
    log = crawl(options.workers, kill=options.kill)
    return 1 if judge(log, has_killed=options.kill) else 0


def crawl(count: int, *, kill: bool) -> list[Hit]:
    """Return the requests that reached the site, of all workers."""
    victim = Victim()
    site = SiteServer(HOSTS, on_hit=victim.note if kill else None)
    site.start()
    with redis_server() as url:
        os.environ.update(
            SCRAPY_PROJECT="workers", REDIS_URL=url, BUNDLED_SITE=site.address
        )
        if kill:
            os.environ["LEASE"] = str(LEASE)
        workers = {str(number): worker(number) for number in range(1, count + 1)}
        if kill:
            if not victim.is_chosen.wait(timeout=60):
                raise SystemExit("no worker has asked for pages")
            workers.pop(victim.name).kill()
            print(f"worker {victim.name} was killed")
            workers[str(count + 1)] = worker(count + 1)
        for name, process in workers.items():
            if process.wait():
                raise SystemExit(f"worker {name} ended with {process.returncode}")
    site.stop()
    return site.log


class Victim:
    """The first worker that has requested ``PAGES`` pages."""

    def __init__(self) -> None:
        self.name = ""
        self.is_chosen = Event()
        self._pages: Counter[str] = Counter()

    def note(self, hit: Hit) -> None:
        if not hit.url.endswith("/robots.txt"):
            self._pages[hit.worker] += 1
            if self._pages[hit.worker] >= PAGES and not self.name:
                self.name = hit.worker
                self.is_chosen.set()


def worker(number: int) -> subprocess.Popen[bytes]:
    # scrapy-redis still uses what Scrapy deprecates.
    quiet = "ignore:Passing a 'spider' argument,ignore:Spider.log"
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "crawl", "demo"],
        env={**os.environ, "WORKER": str(number), "PYTHONWARNINGS": quiet},
    )


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a Redis server without persistence, and yield its address."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        socket = Path(folder) / "redis.sock"
        options = {
            "--port": "0", "--unixsocket": str(socket), "--dir": folder, "--save": "",
        }  # fmt: skip
        process = subprocess.Popen(
            ["redis-server", *(part for option in options.items() for part in option)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for line in process.stdout:
                if "eady to accept connections" in line:
                    break
            else:
                raise SystemExit("redis-server did not start")
            yield f"unix://{socket}?db=0"
        finally:
            process.terminate()
            process.wait()


def judge(log: list[Hit], *, has_killed: bool) -> int:
    """Print a verdict. Return the number of errors. A page that a killed worker had in
    flight may be fetched twice.
    """
    settings = get_project_settings()
    agent = settings["USER_AGENT"]
    by_worker = Counter(hit.worker for hit in log)
    rows = [(name, str(number)) for name, number in sorted(by_worker.items())]
    print(table([("worker", "requests"), *rows]))
    pages = Counter(hit.url for hit in log if not hit.url.endswith("/robots.txt"))
    print(f"\npages that were fetched: {len(pages)}")
    longest = settings.getfloat("REP_CRAWL_DELAY_MAX", 180)
    missing = missing_pages(log, START, agent, longest, settings["REP_REL"])
    wrong = accuse("pages that should have been fetched, and were not", missing)
    again = accuse("pages fetched again", (pages - Counter(set(pages))).elements())
    print(f"requests for a robots.txt: {len(log) - sum(pages.values())}")
    again += accuse("robots.txt files asked for again", repeated_robotstxts(log))
    return wrong + judge_hits(log, agent) + (0 if has_killed else again)


if __name__ == "__main__":
    sys.exit(main())
