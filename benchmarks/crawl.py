"""Processor time that the whole package costs a crawl.

The same spider crawls the same sites without this package, and with all of it, a ledger
included. A process on another processor serves the sites, and does not count. The compared
number is the user and system time of each crawl, with its start and imports.
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING

from benchmarks.pairs import Side, beside, in_pairs
from benchmarks.table import Row, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def crawls(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Crawl without this package and with it."""
    with (
        tempfile.NamedTemporaryFile() as ledger,
        beside("benchmarks/crawl_site.py", str(HOSTS), str(PAGES // HOSTS)) as port,
    ):
        without = _side("ROBOTSTXT_OBEY = False", OFF, port)
        suite = _side("scrapy-rep, all of it", {**ON, "REP_LEDGER": ledger.name}, port)
        target = Target(most_ratio=1.03)
        yield from in_pairs("crawl", without, suite, rounds, target)


def _side(who: str, own: dict[str, object], port: str) -> Side:
    arguments = ["-m", "scrapy", "runspider", SPIDER, "-a", f"port={port}"]
    arguments += ["-a", f"hosts={HOSTS}"]
    for name, value in {**SETTINGS, **own}.items():
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        arguments += ["-s", f"{name}={text}"]

    def seconds(said: str, processor_time: float) -> float:
        # Both sides must have done the same.
        expected = {
            "item_scraped_count": PAGES,
            "robotstxt/response_count": HOSTS if "ADDONS" in own else None,
        }
        if expected.items() - json.loads(said).items():
            raise RuntimeError(f"{said}, not {expected}")
        return processor_time

    return Side(who, arguments, seconds)
