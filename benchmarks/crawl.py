"""What the whole of this package costs a crawl, in time of the processor.

The same spider crawls the same sites, in a fresh Scrapy process each time: without this
package; without it, but asking each host for its robots.txt as one page more; and with
all of it. They take turns, and what the server needs, in a process of its own, does not
count. What is compared is user and system time from the start of each process to its
end, so starting it and importing things is in it.
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
from benchmarks.timing import Times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKOUT = Path(__file__).resolve().parents[1]
HOSTS = 50
PAGES = 3_000
SPIDER = "benchmarks/crawl_spider.py"
TARGET = Target(most_ratio=1.03)

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


def crawls(
    pairs: int, pages: int, say: Callable[[str], None], *, together: bool = False
) -> Iterator[Row]:
    """Crawl in turns, or all *together*, and *say* how far that is."""
    off = {"ROBOTSTXT_OBEY": False}
    times: dict[str, list[float]] = {WITHOUT: [], FETCHING: [], SUITE: []}
    with tempfile.TemporaryDirectory() as folder, serving(pages) as port:
        for number in range(pairs + 1):
            sides = {
                WITHOUT: Crawl(port, pages, off),
                FETCHING: Crawl(port, pages, off, extra="/robots.txt"),
                SUITE: Crawl(port, pages, _suite(folder)),
            }
            for name, seconds in _each(sides, number, together=together):
                say(f"round {number} of {pairs}, {name}: {seconds:.2f} s")
                if number:  # the first round warms up
                    times[name].append(seconds)
    what = f"crawl of {pages:,} pages"
    found = {name: Times(tuple(seconds)) for name, seconds in times.items()}
    plain = found[WITHOUT]
    yield Row(what, WITHOUT, plain.median, plain.spread)
    for name, target in ((FETCHING, None), (SUITE, TARGET)):
        # Of pairs the ratios are what counts, and so it is their spread that is given.
        ratios = plain.ratios(found[name])
        seconds = found[name].median
        yield Row(what, name, seconds, ratios.spread, ratios.median, target)


def _each(
    sides: dict[str, Crawl], number: int, *, together: bool
) -> Iterator[tuple[str, float]]:
    """Crawl; another one begins each time."""
    names = list(sides)
    turn = number % len(names)
    order = names[turn:] + names[:turn]
    if together:
        for name in order:
            sides[name].start()
    for name in order:
        if not together:
            sides[name].start()
        yield name, sides[name].seconds()


def _suite(folder: str) -> dict[str, object]:
    """All of the package, and a ledger of this crawl alone."""
    ledger = Path(tempfile.mkdtemp(dir=folder)) / "ledger.sqlite"
    return {"ADDONS": {"scrapy_rep.Addon": 500}, "REP_LEDGER": str(ledger)}


class Crawl:
    """A crawl in a process of its own."""

    def __init__(
        self, port: int, pages: int, settings: dict[str, object], extra: str = ""
    ) -> None:
        self._pages = pages
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
        # In this checkout, so that it is what crawls, installed or not.
        self._process = subprocess.Popen(
            self._command,
            cwd=CHECKOUT,
            env=_environment(),
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


def _environment() -> dict[str, str]:
    """Ours, but for what changes Scrapy's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SCRAPY_")}
    return {**kept, "PYTHONPATH": str(CHECKOUT)}


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
    """Serve the sites. Gives their port."""
    process = subprocess.Popen(
        [sys.executable, "benchmarks/crawl_site.py", str(HOSTS), str(pages // HOSTS)],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
