"""Processor time that a ledger costs a crawl, for each page.

    python -m benchmarks.ledger [PAIRS]

The crawls visit the same site on loopback, with a ledger and without one. Each is a
Scrapy process of its own. The measured number is its processor time, user and system, of
all threads, from its first request to its end. Crawls with and without a ledger run in
pairs, side by side, so other load affects both alike; the result is the median of the
pairs. On a busy machine the pairs differ by more than a ledger costs, so the work for a
page is also timed alone: signal, record and transaction.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from socketserver import ThreadingTCPServer
from statistics import median, quantiles
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.test import get_crawler

from benchmarks.indexing import HEAD, ITEM
from scrapy_rep.downloadermiddlewares.indexing import IndexingMiddleware
from scrapy_rep.frontier.reporter import Case, DecisionReporter
from scrapy_rep.ledger.writer import LedgerWriter
from scrapy_rep.protocol.indexing.rules import IndexingRules
from scrapy_rep.protocol.origins import Origin
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.usage.preferences import NOTHING_STATED
from scrapy_rep.signals import rep_decided

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy_rep.record import Record

CHECKOUT = Path(__file__).parents[1]
PAGES = 1000
PAGE_BYTES = 20_000
PAIRS = 15
CRAWL_TIMEOUT = 300
LEVELS = ("denied", "all")
ROBOTSTXT = b"User-agent: *\nDisallow: /private/\nAllow: /pages/\n"

SETTINGS = {
    "ADDONS": {"scrapy_rep.Addon": 500},
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "bench/1.0",
}
STATEMENTS = {
    "no statement": "",
    "two statements": '<meta name="robots" content="noarchive, max-snippet:50">\n',
}


def body(robots: str) -> bytes:
    text = HEAD.format(0, robots=robots)
    items = (PAGE_BYTES - len(text)) // len(ITEM.format(100))
    return (text + "".join(ITEM.format(100 + one) for one in range(items))).encode()


class Spider(scrapy.Spider):
    """Makes an item of each page."""

    name = "ledger"
    origin: str
    begun = 0.0

    async def start(self) -> AsyncIterator[scrapy.Request]:
        self.begun = processor_time()
        for number in range(PAGES):
            yield scrapy.Request(f"{self.origin}/pages/{number}.html")

    def parse(self, response: scrapy.http.Response) -> Iterator[dict[str, Any]]:
        yield {"url": response.url, "title": response.css("title::text").get()}


def processor_time() -> float:
    """Return the processor seconds of this process, with all of its threads."""
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def crawl(level: str, origin: str, folder: str) -> NoReturn:
    """Crawl in this process, which must be a fresh one, and print the result."""
    ledger = {
        "REP_LEDGER": str(Path(folder, "ledger.sqlite")),
        "REP_LEDGER_LEVEL": level,
    }
    if hasattr(os, "sched_setaffinity"):  # Linux only
        # On one processor, so that a pair shares all resources.
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    process = AsyncCrawlerProcess(SETTINGS | (ledger if level != "none" else {}))
    crawler = process.create_crawler(Spider)
    process.crawl(crawler, origin=origin)
    process.start()
    taken = processor_time() - crawler.spider.begun
    if crawler.stats.get_value("item_scraped_count") != PAGES:
        sys.exit("Not all pages have come")
    print(taken)
    sys.exit(process.bootstrap_failed)


class Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, page: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.page = page


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        is_page = self.path != "/robots.txt"
        answer = self.server.page if is_page else ROBOTSTXT
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "text/plain")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def serving(page: bytes) -> Iterator[str]:
    with Server(page) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def seconds(origin: str, *levels: str) -> list[float]:
    """Run crawls side by side, and return the processor time of each."""
    with tempfile.TemporaryDirectory() as folder:
        crawls = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.ledger", level, origin, folder],
                cwd=CHECKOUT,
                stdout=subprocess.PIPE,
                text=True,
            )
            for level in levels
        ]
        return [float(one.communicate(timeout=CRAWL_TIMEOUT)[0]) for one in crawls]


def parts() -> None:
    """Time the work for each page at the level ``"all"``, without a crawl."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "ledger.sqlite"))
        settings = {"REP_LEDGER": path, "REP_LEDGER_LEVEL": "all"}
        crawler = get_crawler(Spider, settings)
        writer = LedgerWriter(path, ("", "", "[]", "", "{}", "{}", 0.0))

        def write(record: Record) -> None:
            writer.write(record)

        crawler.signals.connect(write, rep_decided)
        reporter = DecisionReporter.of(crawler)
        middleware = IndexingMiddleware(crawler)
        robots = RobotsTxt.parse(ROBOTSTXT)
        where = Origin("http", "127.0.0.1", 80)
        rules = IndexingRules.parse(html=body(STATEMENTS["two statements"]))
        requests = [scrapy.Request(f"{where}/pages/{one}.html") for one in range(5000)]
        answers = [scrapy.http.Response(one.url) for one in requests]
        writer.start()
        begun = processor_time()
        for one in requests:
            reporter.allowed(Case(one, where), robots.decide(one.url, "bench"))
        while writer.recorded < len(requests):
            time.sleep(0.01)
        middle = processor_time()
        for one, answer in zip(requests, answers, strict=True):
            middleware.report(one, answer, rules, NOTHING_STATED)
        writer.close((0.0, "", "{}"))
        ended = processor_time()
        print(f"a request: {(middle - begun) / len(requests) * 1e6:.1f} us")
        print(f"two statements: {(ended - middle) / len(requests) * 1e6:.1f} us")


def main(pairs: int) -> None:
    row = "{:16} {:8} {:>14} {:>14} {:>8} {:>10}".format
    parts()
    print(row("pages say", "level", "without", "more", "cost", "quartiles"))
    for says, robots in STATEMENTS.items():
        with serving(body(robots)) as origin:
            for level in LEVELS:
                without, costs = [], []
                for number in range(pairs + 1):
                    # Alternate which side starts first.
                    order = ("none", level) if number % 2 else (level, "none")
                    found = dict(zip(order, seconds(origin, *order), strict=True))
                    if number:  # The first pair warms up.
                        without.append(found["none"])
                        costs.append(found[level] / found["none"] - 1)
                each = median(without) / PAGES
                low, cost, high = quantiles(costs, n=4, method="inclusive")
                times = f"{each * 1e6:.0f} us", f"{cost * each * 1e6:.1f} us"
                spread = f"{low:.1%} {high:.1%}"
                print(row(says, level, *times, f"{cost:.1%}", spread), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        crawl(*sys.argv[1:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
