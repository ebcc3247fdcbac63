"""Compares Scrapy's robots.txt middleware with this package's middleware while a slow robots.txt is being fetched.

    python benchmarks/race.py

A crawl starts 50 requests to a new host at the same time. The response for robots.txt takes a second, and forbids all
50 URLs. A crawler that obeys robots.txt fetches robots.txt once, and fetches none of the pages.

Each crawl is a separate process. The numbers come from the access log of the server, which runs on the loopback
interface.
"""

from __future__ import annotations

import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

import scrapy
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.settings import default_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CHECKOUT = Path(__file__).parents[1]
PAGES = 50
ROBOTSTXT_DELAY = 1.0
CRAWL_TIMEOUT = 60

MIDDLEWARES = {
    "Scrapy": {"ROBOTSTXT_OBEY": True},
    "scrapy-rep": {"ADDONS": {"scrapy_rep.Addon": 500}},
}
MODES = {
    "asyncio reactor": {},
    "select reactor": {
        "TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"
    },
    "reactorless": {"TWISTED_REACTOR_ENABLED": False},
}
SETTINGS = {
    "CONCURRENT_REQUESTS": PAGES + 1,  # All pages and robots.txt may be in flight.
    "CONCURRENT_REQUESTS_PER_DOMAIN": PAGES,
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "racer/1.0",
}


class Spider(scrapy.Spider):
    name = "race"
    origin: str

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for number in range(PAGES):
            yield scrapy.Request(f"{self.origin}/private/{number}")

    def parse(self, response: scrapy.http.Response) -> None:
        """Do nothing, because the server counts the requests."""


def crawl(middleware: str, mode: str, origin: str) -> NoReturn:
    """Run a crawl, and end this process. The process must not have run another crawl before. *middleware* is a key of
    ``MIDDLEWARES``, *mode* is a key of ``MODES``, and *origin* is the URL of the server, without a path.
    """
    process_class = CrawlerProcess if mode == "select reactor" else AsyncCrawlerProcess
    process = process_class(SETTINGS | MIDDLEWARES[middleware] | MODES[mode])
    process.crawl(Spider, origin=origin)
    process.start()
    sys.exit(process.bootstrap_failed)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.log.append(self.path)
        body = b""
        if self.path == "/robots.txt":
            time.sleep(ROBOTSTXT_DELAY)
            body = b"User-agent: *\nDisallow: /private/\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Do nothing, because requests are logged in ``server.log``."""


class Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 2 * PAGES  # All requests may connect at the same time.


def race(middleware: str, mode: str) -> tuple[int, int]:
    """Run a crawl against a new server. Return the number of requests for robots.txt, and the number of forbidden pages
    that were fetched. *middleware* is a key of ``MIDDLEWARES``, and *mode* is a key of ``MODES``.
    """
    with Server(("127.0.0.1", 0), Handler) as server:
        server.log = log = []
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.race", middleware, mode, origin],
            cwd=CHECKOUT,  # Python imports this checkout, even if the package is installed.
            check=True,
            timeout=CRAWL_TIMEOUT,
        )
        server.shutdown()
    pages = sum(path.startswith("/private/") for path in log)
    return len(log) - pages, pages


def main() -> None:
    modes = list(MODES)
    if not hasattr(default_settings, "TWISTED_REACTOR_ENABLED"):
        modes.remove("reactorless")  # Versions of Scrapy before 2.15 need a reactor.
    row = "{:8} {:11} {:16} {:>18} {:>26}".format
    heads = ("robots.txt fetches", f"forbidden pages, of {PAGES}")
    print(row("Scrapy", "middleware", "mode", *heads))
    for middleware in MIDDLEWARES:
        for mode in modes:
            outcome = race(middleware, mode)
            print(row(scrapy.__version__, middleware, mode, *outcome), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        crawl(*sys.argv[1:])
    else:
        main()
