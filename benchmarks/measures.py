"""The measurements."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tempfile
import tracemalloc
from time import process_time
from typing import TYPE_CHECKING, Any

from benchmarks import corpus, hostile
from benchmarks.peers import OURS, PEERS, PROTEGO, STDLIB, Gpyrobotstxt
from benchmarks.table import Row, Target, Task, compare, timed
from benchmarks.timing import Times, environment, interleaved
from scrapy_rep.protocol.robots import RobotsTxt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers import Parser

HOSTILE_TIMEOUT = 20.0
LITERALS = (1_000, 10_000)

# Parsers that parse before the first decision.
PARSERS = tuple(peer for peer in PEERS if not isinstance(peer, Gpyrobotstxt))


def ready(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time parsing a file, and finding the groups of one agent and its delay."""

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parser.crawl_delay(parser.parse(body))

    what = "read a file, find the agent's delay"
    task = Task(what, do, Target(6), peers=PARSERS)
    yield from compare(task, files, rounds)


def all_rules(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time parsing a file, and sorting all rules of one agent."""

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parser.find_rules(parser.parse(body))

    task = Task("read a file, sort the agent's rules", do, peers=PARSERS)
    yield from compare(task, files, rounds)


def first_decision(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time the first questions of a crawl to each host: the delay, and a decision."""
    asked = {body: corpus.urls(body)[7] for body in files}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parsed = parser.parse(body)
            parser.is_allowed(parsed, asked[body])
            parser.crawl_delay(parsed)

    what = "read a file, its delay and one decision"
    task = Task(what, do, Target(4.5), peers=PARSERS)
    yield from compare(task, files, rounds)


def cold_visit(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time parsing a file, and twenty decisions."""
    asked = {body: corpus.urls(body) for body in files}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parsed = parser.parse(body)
            for url in asked[body]:
                parser.is_allowed(parsed, url)

    task = Task("read a file, decide on 20 URLs", do, peers=PARSERS)
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
    task = Task(
        what, _decide_on(largest), Target(10), (PROTEGO, STDLIB), 20, peers=PARSERS
    )
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


def growth(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Compare decisions on a parsed file with those on ten times its literal rules."""
    paths = [f"/section{n % 97}/page-{n * 37}" for n in range(LITERALS[-1])]
    urls = [f"https://example.com{path}.html" for path in paths[:1_000]]

    def asking(size: int, parser: Parser) -> Callable[[], object]:
        rules = [f"Disallow: {path}" for path in paths[:size]]
        parsed = parser.parse("\n".join(["User-agent: *", *rules]).encode())
        return lambda: [parser.is_allowed(parsed, url) for url in urls]

    for parser in (OURS, PROTEGO, STDLIB):
        times = interleaved({size: asking(size, parser) for size in LITERALS}, rounds)
        small, large = times.values()
        target = Target(most_ratio=1.5) if parser is OURS else None
        few, many = LITERALS
        yield timed(f"decide, {few:,} literal rules", parser, small, len(urls))
        row = timed(f"decide, {many:,} literal rules", parser, large, len(urls))
        yield row._replace(ratio=small.ratio(large), target=target)


def hostile_inputs(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time parsing and three decisions, at the size limit and at half of it."""

    def task(make: hostile.Maker, size: int) -> Callable[[], object]:
        body, url, dialect = make(size)

        def do() -> None:
            robots = RobotsTxt.parse(body, dialect)
            for _ in range(3):
                robots.is_allowed(url, corpus.AGENT)

        return do

    for what, make in hostile.INPUTS.items():
        sizes = (hostile.LIMIT // 2, hostile.LIMIT)
        half, whole = interleaved(
            {size: task(make, size) for size in sizes}, rounds
        ).values()
        target = Target(most_ratio=2.2, most=0.5)
        yield timed(what, OURS, whole)._replace(ratio=half.ratio(whole), target=target)
        yield _one_try(what, PROTEGO, *make(hostile.LIMIT)[:2])


def _one_try(what: str, parser: Parser, body: bytes, url: str) -> Row:
    """Measure one run, which is ended at a time limit."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def run() -> None:
        start = process_time()
        parser.is_allowed(parser.parse(body), url)
        sender.send(process_time() - start)

    process = context.Process(target=run, daemon=True)
    process.start()
    ended = receiver.poll(HOSTILE_TIMEOUT)
    seconds = receiver.recv() if ended else HOSTILE_TIMEOUT
    process.kill()
    process.join()
    return Row(what, parser.label if ended else f"{parser.label}, timed out", seconds)


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


def import_time(_files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time the import of the package after Scrapy was imported."""
    code = (
        "import time, scrapy; start = time.process_time(); import scrapy_rep; "
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory() as folder:
        seconds = [
            float(
                subprocess.run(
                    command, env=environment(folder), check=True, capture_output=True
                ).stdout
            )
            for _ in range(rounds + 1)
        ]
    # The first import compiles modules for the others.
    row = timed("import scrapy_rep after scrapy", OURS, Times(tuple(seconds[1:])))
    yield row._replace(target=Target(most=0.03))


ALL = (
    ready, all_rules, first_decision, cold_visit, warm, warm_largest, growth, hostile_inputs, memory,
    import_time,
)  # fmt: skip
