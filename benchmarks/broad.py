"""Crawls of many small hosts that are all in the queue at once.

The crawls need no network (``broad_crawl.py``). The compared number is the processor time for
a page: pushing its request, its part of robots.txt, and all that Scrapy does for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.broad_crawl import REQUESTS
from benchmarks.pairs import Side, in_pairs
from benchmarks.table import Row, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

STOCK = "Scrapy, obeying robots.txt"
OURS = "scrapy-rep, HostQueue"


class Size(NamedTuple):
    hosts: int
    pairs: int
    target: float

    pages: int = 0
    """The crawl ends after this number of pages; 0 means all of them."""

    @property
    def what(self) -> str:
        if self.pages:
            return f"the first {self.pages:,} pages of {self.hosts:,} hosts, each"
        return f"pages of {self.hosts:,} hosts, each"


SIZES = (
    Size(1_000, 3, 1.05),
    Size(4_000, 1, 0.65),
    # For this number of hosts, Scrapy takes minutes for all pages.
    Size(20_000, 1, 0.25, pages=1_500),
)


def broad(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Crawl each number of hosts with two pages each."""
    for size in SIZES:
        stock, ours = _side(STOCK, "stock", size), _side(OURS, "ours", size)
        target = Target(most_ratio=size.target)
        yield from in_pairs(size.what, stock, ours, min(size.pairs, rounds), target)


def _side(who: str, side: str, size: Size) -> Side:
    pages = size.pages or size.hosts * REQUESTS
    arguments = ["-m", "benchmarks.broad_crawl", side, str(size.hosts), str(pages)]
    return Side(who, arguments, lambda said, _: sum(json.loads(said).values()))
