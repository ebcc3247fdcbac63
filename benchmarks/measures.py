"""Parsing robots.txt and deciding, compared with other Python parsers."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

from benchmarks import corpus
from benchmarks.peers import OURS, PROTEGO, STDLIB
from benchmarks.table import Row, Target, Task, compare
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers import Parser


def first_decision(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time the first questions of a crawl to each host: the delay, and a decision."""
    asked = {body: corpus.urls(body)[7] for body in files}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parsed = parser.parse(body)
            parser.is_allowed(parsed, asked[body])
            parser.crawl_delay(parsed)

    what = "read a file, its delay and one decision"
    task = Task(what, do, Target(4.5))
    yield from compare(task, files, rounds)


def warm(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time twenty decisions on each file, most of which touch its rules."""
    what = "decide on a URL, file already parsed"
    task = Task(what, _decide_on(files), Target(3), questions=20)
    yield from compare(task, files, rounds)


def warm_largest(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time twenty decisions on the files with the most rules for the agent."""

    def number_of_rules(body: bytes) -> int:
        groups = RobotsTxt.parse(body).groups
        return sum(len(group.rules) for group in groups if "*" in group.agents)

    largest = sorted(files, key=number_of_rules, reverse=True)[:20]
    what = "decide on a URL, 20 files with most rules"
    task = Task(what, _decide_on(largest), Target(10), (PROTEGO, STDLIB), 20)
    yield from compare(task, largest, rounds)


def _decide_on(files: list[bytes]) -> Callable[[Parser, list[bytes]], None]:
    asked = {body: corpus.urls(body) for body in files}
    parsed: dict[tuple[Parser, bytes], Any] = {}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            key = parser, body
            if key not in parsed:
                parsed[key] = parser.parse(body)
            this = parsed[key]
            for url in asked[body]:
                parser.is_allowed(this, url)

    return do


def memory(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Measure the memory that all parsed files keep after twenty decisions each."""
    asked = [corpus.urls(body) for body in files]
    what = "memory kept for a host"
    ours = 0
    for parser in (OURS, PROTEGO, STDLIB):
        tracemalloc.start()
        kept = []
        for body, urls in zip(files, asked, strict=True):
            # A copy, so that the body counts if the parser keeps it.
            parsed = parser.parse(bytes(bytearray(body)))
            for url in urls:
                parser.is_allowed(parsed, url)
            kept.append(parsed)
        size = tracemalloc.get_traced_memory()[0] // len(files)
        tracemalloc.stop()
        kept.clear()
        ours = ours or size
        row = Row(what, parser.label, size, unit="B")
        if parser is not OURS:
            row = row._replace(ratio=size / ours)
        yield row._replace(target=Target(3)) if parser is PROTEGO else row


ALL = (first_decision, warm, warm_largest, memory)
