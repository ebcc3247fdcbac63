"""Processor time that the whole package costs a crawl.

The same spider crawls the same sites, in a fresh Scrapy process each time: without this
package; without it, but with one more page for each host, its robots.txt; with all of it;
and with all of it but delays and visiting hours. The two sides of a comparison crawl at
the same time and share one processor, so other load affects both alike. The server runs
in a process of its own on another processor, and does not count. The compared number is
the user and system time of each process, with its start and imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOSTS = 50
PAGES = 3_000
SPIDER = "benchmarks/crawl_spider.py"
SETTINGS: dict[str, object] = {
    "CLOSESPIDER_TIMEOUT": 1800,
    "CONCURRENT_REQUESTS": 32,
    "DOWNLOAD_DELAY": 0,
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "examplebot (+https://example.com/bot)",
}
OFF: dict[str, object] = {"ROBOTSTXT_OBEY": False}
ON: dict[str, object] = {"ADDONS": {"scrapy_rep.Addon": 500}}


class Side(NamedTuple):
    name: str
    settings: dict[str, object]
    extra: str = ""
    """A path that is requested from each host besides its pages, if any."""


WITHOUT = Side("ROBOTSTXT_OBEY = False", OFF)
FETCHING = Side("the same and 50 robots.txt", OFF, "/robots.txt")
NO_PACE = Side(
    "scrapy-rep, delays ignored",
    {**ON, "REP_CRAWL_DELAY": False},
)
SUITE = Side("scrapy-rep, all of it", ON)

PAIRS = (
    ("crawl", WITHOUT, SUITE, Target(most_ratio=1.03)),
    ("crawl, no host asks for a delay", NO_PACE, SUITE, None),
    ("crawl, what robots.txt costs", WITHOUT, FETCHING, None),
)


def crawls(pairs: int, pages: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Crawl *pairs* times for each comparison, and report progress with *say*."""
    with tempfile.TemporaryDirectory() as folder, serving(pages) as port:
        crawl = partial(Crawl, port=port, pages=pages, folder=folder)
        _together([crawl(WITHOUT), crawl(SUITE)])  # Warm up.
        for what, one, other, target in PAIRS:
            times = []
            for number in range(pairs):
                times.append(_together([crawl(one), crawl(other)], turn=number % 2))
                say(
                    f"{number + 1} of {pairs}: "
                    + "{:.2f} s and {:.2f} s".format(*times[-1])
                )
            plain, found = map(Times, zip(*times, strict=True))
            # The ratio of each pair matters, so the spread is the spread of the ratios.
            ratios = plain.ratios(found)
            yield Row(what, one.name, plain.median, plain.spread)
            yield Row(
                what, other.name, found.median, ratios.spread, ratios.median, target
            )


def _together(crawls: list[Crawl], turn: int = 0) -> tuple[float, ...]:
    """Crawl on one processor, from *turn* on; return the processor time of each crawl."""
    with on_one_processor():
        for crawl in crawls[turn:] + crawls[:turn]:
            crawl.start()
    return tuple(crawl.seconds() for crawl in crawls)


class Crawl:
    """A crawl in a process of its own."""

    def __init__(self, side: Side, *, port: int, pages: int, folder: str) -> None:
        self._pages = pages
        self._folder = folder
        self._obeys = "ADDONS" in side.settings
        settings = SETTINGS | side.settings
        if self._obeys:  # A ledger for this crawl only
            ledger = Path(tempfile.mkdtemp(dir=folder)) / "ledger.sqlite"
            settings["REP_LEDGER"] = str(ledger)
        self._command = [sys.executable, "-m", "scrapy", "runspider", SPIDER]
        for name, value in settings.items():
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            self._command += ["-s", f"{name}={text}"]
        for name, value in {"port": port, "hosts": HOSTS, "extra": side.extra}.items():
            self._command += ["-a", f"{name}={value}"]

    def start(self) -> None:
        self._said = tempfile.TemporaryFile("w+")
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._command,
            cwd=CHECKOUT,
            env=environment(self._folder),
            stdout=self._said,
            stderr=self._log,
        )

    def seconds(self) -> float:
        """Wait for the end, and return the processor time."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        with self._said as said, self._log as log:
            said.seek(0)
            log.seek(0)
            _check(said.read(), log.read(), self._pages, obeys=self._obeys)
        return usage.ru_utime + usage.ru_stime


def _check(said: str, log: str, pages: int, *, obeys: bool) -> None:
    """Check that both sides did the same."""
    if not said:
        raise RuntimeError(log)
    stats = json.loads(said)
    fetches = HOSTS if obeys else None
    wanted = {"item_scraped_count": pages, "robotstxt/response_count": fetches}
    if wanted.items() - stats.items():
        raise RuntimeError(f"{stats}, not {wanted}\n{log}")


@contextmanager
def serving(pages: int) -> Iterator[int]:
    """Serve the sites, and leave one processor to the crawls. Yields the port."""
    process = subprocess.Popen(
        [sys.executable, "benchmarks/crawl_site.py", str(HOSTS), str(pages // HOSTS)],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    others = os.sched_getaffinity(0) - {_processor()}
    if others:
        os.sched_setaffinity(process.pid, others)
    with process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Run the processes started in this block on one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_processor()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _processor() -> int:
    return min(os.sched_getaffinity(0))
