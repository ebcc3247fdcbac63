"""Compares crawls with and without this package by their processor time, function calls and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.pairs import Side, beside, in_pairs
from benchmarks.table import Row, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS, PAGES = 50, 3_000
SETTINGS: dict[str, object] = {
    "CLOSESPIDER_TIMEOUT": 1800,
    "CONCURRENT_REQUESTS": 32,
    "DOWNLOAD_DELAY": 0,
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "examplebot (+https://example.com/bot)",
}
STOCK, OURS = "Scrapy, obeying robots.txt", "scrapy-rep"
OFF: dict[str, object] = {"ROBOTSTXT_OBEY": False}
ON: dict[str, object] = {"ADDONS": {"scrapy_rep.Addon": 500}}


class BroadCrawl(NamedTuple):
    """A crawl of many hosts, which is measured with and without this package."""

    hosts: int
    pages_of_host: int
    """The number of pages of each host."""

    pairs: int
    """How often the crawl is measured, each time with and without this package."""

    target: Target
    """The maximum ratio of the processor time with this package to the processor time without it."""

    pages: int = 0
    """The number of pages after which the crawl ends; 0 for no limit."""

    job: str = ""
    """``JOBDIR`` for a crawl with a JOBDIR, or an empty string for a crawl without one."""

    order: str = ""
    """``BY_HOST`` if all requests for a host are pushed one after the other; an empty string if the hosts take turns,
    with one request for each."""


FEW_HOSTS_TARGET, MANY_HOSTS_TARGET = Target(most_ratio=1.03), Target(most_ratio=1.0)
BROAD_CRAWLS = (
    BroadCrawl(1, 3_000, 5, FEW_HOSTS_TARGET),
    BroadCrawl(10, 300, 5, FEW_HOSTS_TARGET),
    BroadCrawl(200, 5, 5, FEW_HOSTS_TARGET),
    BroadCrawl(1_000, 2, 3, MANY_HOSTS_TARGET),
    BroadCrawl(1_000, 2, 3, MANY_HOSTS_TARGET, order="BY_HOST"),
    BroadCrawl(1_000, 3, 3, MANY_HOSTS_TARGET, job="JOBDIR"),
    BroadCrawl(4_000, 2, 1, Target(most_ratio=0.6)),
    # Only 1,500 pages are crawled, because Scrapy would need minutes for all pages.
    BroadCrawl(20_000, 2, 1, Target(most_ratio=0.2), pages=1_500),
)


def crawls(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Compare the processor time of two crawls of the same sites. One runs without this package, the other with all
    features, including a ledger. The measured time includes the start and the imports of each crawl. It does not
    include the server of the sites, a separate process on another processor.
    """
    with (
        tempfile.NamedTemporaryFile() as ledger,
        beside("benchmarks/crawl_site.py", str(HOSTS), str(PAGES // HOSTS)) as port,
    ):
        without = _side("ROBOTSTXT_OBEY = False", OFF, port)
        suite = _side("scrapy-rep, all of it", {**ON, "REP_LEDGER": ledger.name}, port)
        targets = {"crawl": Target(most_ratio=1.03)}
        yield from in_pairs(without, suite, rounds, targets)


def _side(who: str, extra_settings: dict[str, object], port: str) -> Side:
    arguments = ["-m", "scrapy", "runspider", "benchmarks/crawl_spider.py"]
    arguments += ["-a", f"port={port}", "-a", f"hosts={HOSTS}"]
    for name, value in {**SETTINGS, **extra_settings}.items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        arguments += ["-s", f"{name}={text}"]

    def numbers(output: str, processor_time: float) -> dict[str, float]:
        # The comparison is valid only if both crawls fetched all pages.
        files = HOSTS if "ADDONS" in extra_settings else None
        expected = {"item_scraped_count": PAGES, "robotstxt/response_count": files}
        if expected.items() - json.loads(output).items():
            raise RuntimeError(
                f"The stats of the crawl must include {expected}, but they are {output}"
            )
        return {"crawl": processor_time}

    return Side(who, arguments, numbers)


def broad(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Compare Scrapy with this package in crawls of many hosts without a network, by the average processor time
    per page. The time includes the push of the request, the crawl of the page, and a share of the time for the
    robots.txt files. All requests are in the queue before the first page is crawled.
    """
    for crawl in BROAD_CRAWLS:
        hosts, pages_of_host, pages = crawl.hosts, crawl.pages_of_host, crawl.pages
        job = f", with a {crawl.job}" if crawl.job else ""
        order = ", pushed host by host" if crawl.order else ""
        first = f", only the first {pages:,} pages" if pages else ""
        what = f"time for a page, {hosts:,} hosts with {pages_of_host:,} pages each{job}{order}{first}"
        numbers = [
            str(number)
            for number in (hosts, pages_of_host, pages or hosts * pages_of_host)
        ]

        def compared(output: str, _: float, what: str = what) -> dict[str, float]:
            return {what: sum(json.loads(output).values())}

        stock, ours = (
            Side(
                who,
                [
                    "-m",
                    "benchmarks.broad_crawl",
                    side,
                    *numbers,
                    *filter(None, (crawl.job, crawl.order)),
                ],
                compared,
            )
            for side, who in (
                ("stock", STOCK),
                ("ours", OURS),
            )
        )
        pairs = min(crawl.pairs, rounds)
        yield from in_pairs(stock, ours, pairs, {what: crawl.target})


FEW_HOSTS, MANY_HOSTS = (10, 50), (250, 2)
"""The two crawls whose function calls are counted, as the number of hosts and the number of pages per host."""


def calls(_files: list[bytes], **_: object) -> Iterator[Row]:
    """Compare the numbers of Python function calls per request and per host, in crawls without and with this package. A
    separate row contains the calls of this package's own functions. The numbers are the same in each run.
    """
    stock, ours = (counted(side) for side in ("stock", "ours"))
    for what in stock:
        label = f"Python calls for a {what}"
        yield Row(label, STOCK, stock[what]["all"], unit="")
        ratio = ours[what]["all"] / stock[what]["all"]
        yield Row(label, OURS, ours[what]["all"], ratio=ratio, unit="")
        yield Row(label, "of these in scrapy-rep", ours[what]["ours"], unit="")


def counted(side: str) -> dict[str, dict[str, float]]:
    """Return how often a crawl calls Python functions, such as ``{"request": {"all": 1242, "ours": 92}, "host":
    {"all": 3100, "ours": 250}}``. ``request`` contains the calls per request, and ``host`` the additional calls per
    host. ``all`` counts the calls of all functions, and ``ours`` the calls of functions that this package defines.

    *side* is ``stock`` for a crawl without this package, or ``ours`` for a crawl with it.
    """
    few, many = (
        _counts(side, hosts, pages_of_host)
        for hosts, pages_of_host in (FEW_HOSTS, MANY_HOSTS)
    )
    calls_for: dict[str, dict[str, float]] = {"request": {}, "host": {}}
    for key in ("all", "ours"):
        # The calls per page are the calls per request, plus the calls per host divided by the pages per host. The two
        # crawls differ in the pages per host, which gives two equations for the two unknowns.
        of_host = (many[key] - few[key]) / (1 / MANY_HOSTS[1] - 1 / FEW_HOSTS[1])
        calls_for["host"][key] = of_host
        calls_for["request"][key] = few[key] - of_host / FEW_HOSTS[1]
    return calls_for


def _counts(side: str, hosts: int, pages_of_host: int) -> dict[str, float]:
    return _measured("benchmarks.counted_crawl", side, hosts, pages_of_host)


WAITING = ((100_000, 1), (1_000, 1_000))
"""The sizes of the measured queues: the number of hosts, and the number of requests per host."""


def waiting(_files: list[bytes], **_: object) -> Iterator[Row]:
    """Compare the memory per queued request of Scrapy and of this package. One queue contains many hosts with one
    request each, and another queue fewer hosts with many requests each.
    """
    module, target = "benchmarks.waiting_hosts", Target(most_ratio=1.0)
    for hosts, requests_of_host in WAITING:
        what = f"memory of a queued request, {hosts:,} hosts with {requests_of_host:,} each"
        stock, ours = (
            _measured(module, side, hosts, requests_of_host)["request"]
            for side in ("stock", "ours")
        )
        yield Row(what, STOCK, stock, unit="B")
        yield Row(what, OURS, ours, None, ours / stock, target, "B")


def _measured(module: str, side: str, *sizes: int) -> dict[str, float]:
    """Run *module* in a separate process, with *side* and *sizes* as command-line arguments. *side* is ``stock`` for a
    crawl without this package, or ``ours`` for a crawl with it. Return the numbers that the process prints as JSON.
    """
    command = [sys.executable, "-m", module, side, *map(str, sizes)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    numbers: dict[str, float] = json.loads(output)
    return numbers
