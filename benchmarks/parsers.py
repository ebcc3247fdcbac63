"""Parsing robots.txt and deciding, compared with other Python parsers."""

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
except ImportError:  # It has no wheels for Python 3.14 and later.
    RobotsMatcher = None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Parser(NamedTuple):
    """The functions of a parser. ``parse`` takes a file, and the others take the result of ``parse``."""

    name: str
    parse: Callable[[bytes], Any]
    is_allowed: Callable[[Any, str], bool]
    crawl_delay: Callable[[Any], object] = lambda _: None
    """Returns the crawl delay of the agent."""

    package: str = ""
    one_in: int = 1
    """A slow parser is measured on every n-th file, and compared with ours on the same files."""

    @property
    def label(self) -> str:
        return f"{self.name} {version(self.package)}" if self.package else self.name


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _stdlib(body: bytes) -> RobotFileParser:
    parser = RobotFileParser()
    parser.parse(_text(body).splitlines())
    parser.modified()  # It answers only after a fetch time is set.
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
ROBOTSPY = Parser(  # It does not parse delays.
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
FAST = Parser(  # It keeps nothing of a file: each decision reads it.
    "fast-robotstxt",
    lambda body: (RobotsMatcher(), _text(body)),
    lambda matcher_and_text, url: _ask(*matcher_and_text, url),
    lambda matcher_and_text: matcher_and_text[0].crawl_delay,
    package="fast-robotstxt",
)
PEERS = (PROTEGO, STDLIB, ROBOTSPY, RERP, *([FAST] if RobotsMatcher else []))


def first_decision(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time the first questions of a crawl to each host: the delay, and a decision."""
    asked = {body: corpus.urls(body)[7] for body in files}

    def do(parser: Parser, bodies: list[bytes]) -> None:
        for body in bodies:
            parsed = parser.parse(body)
            parser.is_allowed(parsed, asked[body])
            parser.crawl_delay(parsed)

    what = "read a file, its delay and one decision"
    yield from _compare(what, do, files, rounds, {PROTEGO: Target(4.5)})


def warm(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time twenty decisions on each file, most of which touch its rules."""
    what, targets = "decide on a URL, file already parsed", {PROTEGO: Target(3)}
    yield from _compare(what, _decide_on(files), files, rounds, targets, questions=20)


def warm_largest(files: list[bytes], rounds: int) -> Iterator[Row]:
    """Time twenty decisions on the files with the most rules for the agent."""

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


def _compare(  # noqa: PLR0917
    what: str,
    do: Callable[[Parser, list[bytes]], None],
    files: list[bytes],
    rounds: int,
    targets: dict[Parser, Target],
    questions: int = 1,
) -> Iterator[Row]:
    """Time all parsers at one task; ours also with each sample of the files. The numbers are for
    one of the *questions* to a file.
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
        ratio = None if parser is OURS else size / ours
        target = Target(3) if parser is PROTEGO else None
        yield Row(what, parser.label, size, None, ratio, target, "B")


ALL = (first_decision, warm, warm_largest, memory)
