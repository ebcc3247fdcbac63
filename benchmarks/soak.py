"""A long crawl of many hosts in one process: no forbidden page, no loss, constant memory.

    python -m benchmarks.soak [--pages 200000] [--hosts 2000] [--seed 1]

Every host has rules, some have a delay of a few milliseconds, and any host can break
down: its robots.txt has status 503, at the start or later, or the host does not answer at
all. A download handler plays all hosts, and is the judge. Each page links to the next
page of its host, and one in ten also to a forbidden one, so that the queue does not grow.

The output is the number of pages, seconds and memory, twenty times; then the findings as
JSON. The exit status is 1 if a forbidden page was requested, a page was lost or fetched
twice, a refusal is missing, or memory grew by more than a tenth after the first quarter.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import scrapy
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.exceptions import DownloadFailedError, IgnoreRequest
from scrapy.http import HtmlResponse, TextResponse

from benchmarks.broad_crawl import PAGE, SETTINGS, SIDES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response
    from twisted.python.failure import Failure

LATENCY = 0.005  # seconds
HOLDS = 5
"""Seconds for which a robots.txt is fresh: few, so that each is fetched often."""

FORBIDDEN_EVERY = 10
BREAKDOWN = 0.01
"""The probability that a response begins a breakdown, which lasts up to LONGEST responses."""

LONGEST = 5
SAMPLES = 20

SOAKED = {
    **SETTINGS,
    **SIDES["ours"],
    "LOG_LEVEL": os.environ.get("SOAK_LOG", "ERROR"),
    "REP_MAX_AGE": HOLDS,
    "RETRY_ENABLED": True,
    # A breakdown ends after some responses, not after some time.
    "RETRY_TIMES": 50,
}


class Host:
    """The state of a host: its requests, and whether it answers."""

    def __init__(self, name: str, pages: int, chance: random.Random) -> None:
        self._chance = chance
        # One in ten begins with an unreachable robots.txt.
        self.robots_down = chance.randint(1, 2) if chance.random() < 0.1 else 0
        self.down = 0
        self.has_given = False
        delay = chance.choice(["", f"Crawl-delay: {chance.uniform(0.001, 0.01):.4f}\n"])
        self.robots = f"User-agent: *\nDisallow: /private/\n{delay}# {name}\n".encode()
        # Made at the start, so that the judge's own memory does not grow.
        self.pages = bytearray(pages)
        self.forbidden = self.robots_hits = self.breakdowns = 0

    def answers(self) -> bool:
        if self.down:
            self.down -= 1
            return False
        if self._chance.random() < BREAKDOWN:
            self.down = self._chance.randint(0, LONGEST - 1)
            self.breakdowns += 1
            return False
        return True

    def robotstxt(self, url: str) -> TextResponse:
        self.robots_hits += 1
        self.robots_down -= 1
        if self.robots_down >= 0:
            return TextResponse(url, status=503, headers={"Retry-After": "1"})
        self.has_given = True
        headers = {"Cache-Control": f"max-age={HOLDS}"}
        return TextResponse(url, headers=headers, body=self.robots)


HOSTS: dict[str, Host] = {}


class Handler(BaseDownloadHandler):
    """All hosts, and their access log."""

    async def download_request(self, request: scrapy.Request) -> TextResponse:
        await asyncio.sleep(LATENCY)
        _, _, name, path = request.url.split("/", 3)
        host = HOSTS[name]
        if path.startswith("private"):
            host.forbidden += 1
        # Until the host has sent its robots.txt, it answers at worst with 503 and
        # Retry-After: the crawler would not wait for a host that never answers.
        is_new = path == "robots.txt" and not host.has_given
        if not is_new and not host.answers():
            raise DownloadFailedError("The host is down")
        if path == "robots.txt":
            return host.robotstxt(request.url)
        if path.isdigit():
            host.pages[int(path)] += 1
        headers = {"Content-Type": "text/html; charset=utf-8"}
        return HtmlResponse(request.url, body=PAGE, headers=headers)


class SoakSpider(scrapy.Spider):
    name = "soak"
    each: int
    total: int

    async def start(self) -> AsyncIterator[scrapy.Request]:
        self.began, self.seen, self.refused = time.monotonic(), 0, 0
        self.samples: list[int] = []
        for name in HOSTS:
            yield self.request(f"http://{name}/0")

    def request(self, url: str) -> scrapy.Request:
        # The memory of the duplicate filter would grow.
        return scrapy.Request(url, dont_filter=True, errback=self.note_error)

    def parse(self, response: Response) -> Iterator[scrapy.Request]:
        self.seen += 1
        if self.seen % max(1, self.total // SAMPLES) == 0:
            self.sample()
        origin, _, number = response.url.rpartition("/")
        following = int(number) + 1
        if following < self.each:
            yield self.request(f"{origin}/{following}")
        if int(number) % FORBIDDEN_EVERY == 0:
            yield self.request(f"{origin}/private/{number}")

    def note_error(self, failure: Failure) -> None:
        if (
            isinstance(failure.value, IgnoreRequest)
            and "/private/" in failure.request.url
        ):
            self.refused += 1
        else:
            print(failure.request.url, failure.value, file=sys.stderr)

    def sample(self) -> None:
        gc.collect()
        self.samples.append(memory())
        seconds = time.monotonic() - self.began
        print(
            f"{self.seen:8,} pages {seconds:8.1f} s {self.samples[-1] / 1e6:8.1f} MB",
            flush=True,
        )


def memory() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def soak(hosts: int, pages: int, seed: int) -> bool:
    """Crawl, and print the findings. Returns True if there is no error."""
    chance = random.Random(seed)
    each = pages // hosts
    for number in range(hosts):
        name = f"www.host-{number:06}.example"
        HOSTS[name] = Host(name, each, random.Random(chance.random()))
    process = AsyncCrawlerProcess({**SOAKED, "DOWNLOAD_HANDLERS": {"http": Handler}})
    crawler = process.create_crawler(SoakSpider)
    process.crawl(crawler, each=each, total=each * hosts)
    process.start()
    spider, stats = crawler.spider, crawler.stats.get_stats()
    # The first samples belong to the warm-up.
    warm = spider.samples[SAMPLES // 4 :] or [0]
    expected = hosts * len(range(0, each, FORBIDDEN_EVERY))
    found = {
        "pages": spider.seen,
        "seconds": round(time.monotonic() - spider.began, 1),
        "lost": sum(not n for host in HOSTS.values() for n in host.pages),
        "twice": sum(n > 1 for host in HOSTS.values() for n in host.pages),
        "forbidden": sum(host.forbidden for host in HOSTS.values()),
        "refusals missing": expected - spider.refused,
        "breakdowns": sum(host.breakdowns for host in HOSTS.values()),
        "robots.txt asked for": sum(host.robots_hits for host in HOSTS.values()),
        "unreachable": stats.get("rep/robotstxt/unreachable", 0),
        "memory after a quarter": warm[0],
        "memory at most": max(warm),
        "errors in the log": stats.get("log_count/ERROR", 0),
    }
    print(json.dumps(found, indent=1), flush=True)
    wrong = ("lost", "twice", "forbidden", "refusals missing", "errors in the log")
    return not any(found[name] for name in wrong) and max(warm) <= 1.1 * warm[0]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--pages", type=int, default=200_000)
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if not 0 < given.hosts <= given.pages:
        parser.error("there must be a host, and a page for each")
    return 0 if soak(given.hosts, given.pages, given.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
