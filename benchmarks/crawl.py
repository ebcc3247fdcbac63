"""What the whole of this package costs a crawl, in time of the processor.

The same spider crawls the same sites, in a fresh Scrapy process each time: without this
package; without it, but asking each host for its robots.txt as one page more; with all of
it; and with all of it but delays and visiting hours. These four share one processor, and
so whatever else the machine does falls on all of them alike; what the server needs, in a
process of its own on another, does not count. What is compared is user and system time
from the start of each process to its end, so starting it and importing things is in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.table import Row, Target
from benchmarks.timing import CHECKOUT, Times, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOSTS = 50
PAGES = 3_000
SPIDER = "benchmarks/crawl_spider.py"
TARGET = Target(most_ratio=1.03)
OFF = {"ROBOTSTXT_OBEY": False}
UNMINDED = {"REP_CRAWL_DELAY": False, "REP_VISIT_TIME": False}

SETTINGS = {
    "CLOSESPIDER_TIMEOUT": 1800,
    "CONCURRENT_REQUESTS": 32,
    "DOWNLOAD_DELAY": 0,
    "HTTPPROXY_ENABLED": False,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "USER_AGENT": "examplebot (+https://example.com/bot)",
}
WITHOUT = "ROBOTSTXT_OBEY = False"
FETCHING = "the same and 50 robots.txt"
SUITE = "scrapy-rep, all of it"
NO_PACE = "scrapy-rep, delays not minded"


def crawls(pairs: int, pages: int, say: Callable[[str], None]) -> Iterator[Row]:
    """Crawl all at once, so many times and once more, and *say* how far that is."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, serving(pages) as port:
        for number in range(pairs + 1):
            sides = {
                WITHOUT: Crawl(port, pages, folder, OFF),
                FETCHING: Crawl(port, pages, folder, OFF, extra="/robots.txt"),
                SUITE: Crawl(port, pages, folder, _suite(folder)),
                NO_PACE: Crawl(port, pages, folder, _suite(folder) | UNMINDED),
            }
            with _on_one_processor():
                for one in sides.values():
                    one.start()
            for name, one in sides.items():
                seconds = one.seconds()
                say(f"round {number} of {pairs}, {name}: {seconds:.2f} s")
                if number:  # the first round warms up
                    times.setdefault(name, []).append(seconds)
    yield from _rows(pages, {name: Times(tuple(them)) for name, them in times.items()})


def _rows(pages: int, found: dict[str, Times]) -> Iterator[Row]:
    what = f"crawl of {pages:,} pages"
    plain = found[WITHOUT]
    yield Row(what, WITHOUT, plain.median, plain.spread)
    for one, other, name, target in (
        (FETCHING, WITHOUT, FETCHING, None),
        (SUITE, WITHOUT, SUITE, TARGET),
        (NO_PACE, WITHOUT, NO_PACE, None),
        (SUITE, NO_PACE, "of that, for delays where nobody asks for one", None),
    ):
        # Of pairs the ratios are what counts, and so it is their spread that is given.
        ratios = found[other].ratios(found[one])
        median = found[one].median
        yield Row(what, name, median, ratios.spread, ratios.median, target)


def _suite(folder: str) -> dict[str, object]:
    """All of the package, and a ledger of this crawl alone."""
    ledger = Path(tempfile.mkdtemp(dir=folder)) / "ledger.sqlite"
    return {"ADDONS": {"scrapy_rep.Addon": 500}, "REP_LEDGER": str(ledger)}


class Crawl:
    """A crawl in a process of its own."""

    def __init__(
        self,
        port: int,
        pages: int,
        folder: str,
        settings: dict[str, object],
        extra: str = "",
    ) -> None:
        self._pages = pages
        self._folder = folder
        self._obeys = "ADDONS" in settings
        self._command = [sys.executable, "-m", "scrapy", "runspider", SPIDER]
        for name, value in (SETTINGS | settings).items():
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            self._command += ["-s", f"{name}={text}"]
        for name, value in {"port": port, "hosts": HOSTS, "extra": extra}.items():
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
        """Wait for it; how long it has had the processor."""
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        with self._said as said, self._log as log:
            said.seek(0)
            log.seek(0)
            _check(said.read(), log.read(), self._pages, obeys=self._obeys)
        return usage.ru_utime + usage.ru_stime


def _check(said: str, log: str, pages: int, *, obeys: bool) -> None:
    """Both sides must have done the same."""
    if not said:
        raise RuntimeError(log)
    stats = json.loads(said)
    fetches = HOSTS if obeys else None
    wanted = {"item_scraped_count": pages, "robotstxt/response_count": fetches}
    if wanted.items() - stats.items():
        raise RuntimeError(f"{stats}, not {wanted}\n{log}")


@contextmanager
def serving(pages: int) -> Iterator[int]:
    """Serve the sites, and leave one processor to the crawls. Gives the port."""
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
def _on_one_processor() -> Iterator[None]:
    """What is started here has it, with all else that is."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_processor()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _processor() -> int:
    return min(os.sched_getaffinity(0))
