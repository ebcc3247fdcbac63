"""Compares this package's robots.txt parser with other Python parsers, by the time to parse and to decide on URLs."""

from __future__ import annotations

import tracemalloc
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.robotparser import RobotFileParser

import protego
from robotexclusionrulesparser import RobotExclusionRulesParser
from robots import RobotsParser

from benchmarks import corpus
from benchmarks.corpus import AGENT
from benchmarks.table import Row, Target
from benchmarks.timing import interleaved
from scrapy_rep.protocol.robots import RobotsTxt

try:
    from robotstxt import RobotsMatcher
except ImportError:  # fast-robotstxt does not provide wheels for Python 3.14 and later.
    RobotsMatcher = None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Parser(NamedTuple):
    """The functions of a parser. The argument of ``parse`` is the content of a file. The first argument of the other
    functions is the result of ``parse``.
    """

    name: str
    parse: Callable[[bytes], Any]
    is_allowed: Callable[[Any, str], bool]
    crawl_delay: Callable[[Any], object] = lambda _: None
    """The function that returns the crawl delay for AGENT."""

    package: str = ""
    one_in: int = 1
    """The interval at which files are chosen for the sample on which the parser is measured: 1 for all files, 10 for
    every tenth file. Slow parsers have a small sample. This package's parser is measured on the same sample for
    comparison."""

    @property
    def label(self) -> str:
        return f"{self.name} {version(self.package)}" if self.package else self.name


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _stdlib(body: bytes) -> RobotFileParser:
    parser = RobotFileParser()
    parser.parse(_text(body).splitlines())
    # The parser denies all URLs until the time of the fetch is set. parse() sets it, but this is not documented.
    parser.modified()
    return parser


def _ask(matcher: Any, text: str, url: str) -> bool:
    return bool(matcher.is_allowed(text, AGENT, url))


def _rerp(body: bytes) -> RobotExclusionRulesParser:
    parser = RobotExclusionRulesParser()
    parser.parse(_text(body))
    return parser


OURS = Parser(
    "scrapy-rep",
    RobotsTxt.parse,
    lambda parsed, url: parsed.is_allowed(url, AGENT),
    lambda parsed: parsed.crawl_delay(AGENT),
)
PROTEGO = Parser(
    "protego",
    lambda body: protego.Protego.parse(_text(body)),
    lambda parsed, url: parsed.can_fetch(url, AGENT),
    lambda parsed: parsed.crawl_delay(AGENT),
    package="protego",
)
STDLIB = Parser(
    "urllib.robotparser",
    _stdlib,
    lambda parsed, url: parsed.can_fetch(AGENT, url),
    lambda parsed: parsed.crawl_delay(AGENT),
)
ROBOTSPY = Parser(  # robotspy does not parse delays.
    "robotspy",
    lambda body: RobotsParser.from_string(_text(body)),
    lambda parsed, url: parsed.can_fetch(AGENT, url),
    package="robotspy",
    one_in=10,
)
RERP = Parser(
    "robotexclusionrulesparser",
    _rerp,
    lambda parsed, url: parsed.is_allowed(AGENT, url),
    lambda parsed: parsed.get_crawl_delay(AGENT),
    package="robotexclusionrulesparser",
    one_in=10,
)
FAST = Parser(  # fast-robotstxt parses the file again for each decision.
    "fast-robotstxt",
    lambda body: (RobotsMatcher(), _text(body)),
    lambda matcher_and_text, url: _ask(*matcher_and_text, url),
    lambda matcher_and_text: matcher_and_text[0].crawl_delay,
    package="fast-robotstxt",
)
PEERS = (PROTEGO, STDLIB, ROBOTSPY, RERP, *([FAST] if RobotsMatcher else []))


def first_decision(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Measure the time of a crawl's first steps for each host: parse robots.txt, get the delay, and decide on a URL."""
    url_of = {body: corpus.urls(body)[7] for body in files}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parsed = parser.parse(body)
            parser.is_allowed(parsed, url_of[body])
            parser.crawl_delay(parsed)

    what = "read a file, its delay and one decision"
    yield from _compare(what, do, files, rounds, {PROTEGO: Target(4.5)})


def warm(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Measure the time per decision on a URL, for twenty URLs per file, after the files were parsed."""
    what, targets = "decide on a URL, file already parsed", {PROTEGO: Target(3)}
    yield from _compare(what, _decide_on(files), files, rounds, targets, questions=20)


def warm_largest(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Measure the time per decision on a URL, after the files were parsed. Only the twenty robots.txt files with the
    most rules for AGENT are used.
    """

    def number_of_rules(body: bytes) -> int:
        groups = RobotsTxt.parse(body).groups
        return sum(len(group.rules) for group in groups if "*" in group.agents)

    largest = sorted(files, key=number_of_rules, reverse=True)[:20]
    what = "decide on a URL, 20 files with most rules"
    targets = {PROTEGO: Target(10), STDLIB: Target(10)}
    yield from _compare(
        what, _decide_on(largest), largest, rounds, targets, questions=20
    )


def _decide_on(files: list[bytes]) -> Callable[[Parser, list[bytes]], None]:
    urls_of = {body: corpus.urls(body) for body in files}
    parsed_files: dict[tuple[Parser, bytes], Any] = {}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            key = parser, body
            if key not in parsed_files:
                parsed_files[key] = parser.parse(body)
            parsed = parsed_files[key]
            for url in urls_of[body]:
                parser.is_allowed(parsed, url)

    return do


def _compare(  # noqa: PLR0917
    what: str,
    do: Callable[[Parser, list[bytes]], None],
    files: list[bytes],
    rounds: int,
    targets: dict[Parser, Target],
    questions: int = 1,
) -> Iterator[Row]:
    """Measure the time that each parser needs for the same task, *do*, and yield a row for each parser. *what* is the
    name of the task in the row. Slow parsers process only a sample of the *files*, and this package's parser is also
    measured on each sample. A row contains the average time per file. If *do* makes several decisions per file,
    *questions* is the number of these decisions, and the row contains the average time per decision.
    """
    by_size = sorted(files, key=len, reverse=True)
    samples = {peer.one_in: by_size[:: peer.one_in] for peer in (OURS, *PEERS)}
    sides = [(OURS, one_in) for one_in in samples]
    sides += [(peer, peer.one_in) for peer in PEERS]
    times = interleaved(
        {
            (parser, one_in): lambda p=parser, s=samples[one_in]: do(p, s)
            for parser, one_in in sides
        },
        rounds,
    )
    for parser in (OURS, *PEERS):
        one_in = parser.one_in
        parser_times = times[parser, one_in]
        seconds = parser_times.median / (len(samples[one_in]) * questions)
        who = f"{parser.label}, 1 file in {one_in}" if one_in > 1 else parser.label
        ratio = None if parser is OURS else times[OURS, one_in].ratio(parser_times)
        yield Row(what, who, seconds, parser_times.spread, ratio, targets.get(parser))


def memory(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Measure the memory that a parser keeps for a file, after it has parsed the file and decided on twenty URLs."""
    urls_of_files = [corpus.urls(body) for body in files]
    what = "memory kept for a host"
    ours = 0
    for parser in (OURS, PROTEGO, STDLIB):
        tracemalloc.start()
        kept = []
        for body, urls in zip(files, urls_of_files, strict=True):
            # The parser receives a copy of the body, so that the copy's memory counts if the parser keeps the copy.
            parsed = parser.parse(bytes(bytearray(body)))
            for url in urls:
                parser.is_allowed(parsed, url)
            kept.append(parsed)
        size = tracemalloc.get_traced_memory()[0] // len(files)
        tracemalloc.stop()
        kept.clear()
        ours = ours or size
        ratio = None if parser is OURS else size / ours
        target = Target(3) if parser is PROTEGO else None
        yield Row(what, parser.label, size, None, ratio, target, "B")


ALL = (first_decision, warm, warm_largest, memory)
