"""Decisions agree with the reference and with other parsers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.robots import RobotsTxt
from tests.protocol.corpus import agents_for, read_corpus, urls_for
from tests.protocol.reference import BOM, USER_AGENT, Reference, Verdict, level
from tests.protocol.strategies import cases, urls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy_rep.protocol.dialect import Dialect

pytestmark = pytest.mark.unmeasured

DIALECTS = [RFC9309, GOOGLE, CLASSIC]
# Mixtures of fields that no built-in dialect has, but that users can make.
MIXTURES = [
    replace(RFC9309, name="index", index_html_quirk=True),
    replace(RFC9309, name="typos", misspelt_fields=True, line_limit=20),
    replace(RFC9309, name="first", rule_choice="first", merge_groups=False),
    replace(GOOGLE, name="slash", leading_slash_assumed=True, robotstxt_allowed=True),
    replace(CLASSIC, name="octets", rule_choice="most-octets", merge_groups=True),
    replace(CLASSIC, name="wild", wildcards=True, agent_match="token"),
]


def verdict(robots: RobotsTxt, url: str, agents: tuple[str, ...]) -> Verdict:
    decision = robots.decide(url, agents)
    assert robots.is_allowed(url, agents) is decision.allowed
    assert (decision.rule.line if decision.rule else 0) == decision.line
    return decision.allowed, decision.line, decision.agent, decision.reason.value


# pytest-twisted cannot run a test that is both generated and parametrized.
@given(case=cases(), data=st.data())
def test_generated_files_are_read_as_the_reference_reads_them(
    case: tuple[bytes, str, tuple[str, ...]], data: st.DataObject
) -> None:
    """Verdict, line, agent and reason agree with the reference, in every dialect, for the first
    question, which is answered with a part of the rules, and for later ones.
    """
    body, url, agents = case
    more = data.draw(st.lists(urls([b"/a*b$", b"/a"]), max_size=3))
    for dialect in DIALECTS + MIXTURES:
        robots, reference = RobotsTxt.parse(body, dialect), Reference(body, dialect)
        first = RobotsTxt.parse(body, dialect).is_allowed(url, agents)
        assert first is reference.decide(url, agents)[0], dialect.name
        for asked in (url, *more, url):
            expected = reference.decide(asked, agents)
            assert verdict(robots, asked, agents) == expected, dialect.name


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_real_files_are_read_as_the_reference_reads_them(dialect: Dialect) -> None:
    """Decisions on the files of real sites agree with the reference."""
    differences = []
    for name, body in read_corpus():
        robots, reference = RobotsTxt.parse(body, dialect), Reference(body, dialect)
        for url in urls_for(body, 16 if len(body) < 10_000 else 4):
            for agents in agents_for(body):
                ours = verdict(robots, url, agents)
                theirs = reference.decide(url, agents)
                if ours != theirs:
                    differences.append((name, url, agents, ours, theirs))
    assert not differences, differences[:10]


# The published parser of Google, in its Python port.


@dataclass
class Recorder:
    """Records the calls of the parser, so that a file is parsed once, not once per URL."""

    calls: list[tuple] = field(default_factory=list)

    def handle_robots_start(self) -> None:
        self.calls.append(("handle_robots_start",))

    def handle_robots_end(self) -> None:
        self.calls.append(("handle_robots_end",))

    def handle_user_agent(self, line: int, value: str) -> None:
        self.calls.append(("handle_user_agent", line, value))

    def handle_allow(self, line: int, value: str) -> None:
        self.calls.append(("handle_allow", line, value))

    def handle_disallow(self, line: int, value: str) -> None:
        self.calls.append(("handle_disallow", line, value))

    def handle_sitemap(self, line: int, value: str) -> None:
        """Ignore sitemaps."""

    def handle_unknown_action(self, line: int, action: str, value: str) -> None:
        """Ignore unknown fields."""


class Port:
    """gpyrobotstxt, with input that avoids its differences from the original."""

    def __init__(self, body: bytes) -> None:
        from gpyrobotstxt.robotstxtparser import RobotsTxtParser  # noqa: PLC0415

        recorder = Recorder()
        RobotsTxtParser(as_the_port_can_read(body), recorder).parse()
        self.calls = recorder.calls

    def is_allowed(self, url: str, agent: str) -> bool:
        from gpyrobotstxt import robots_cc  # noqa: PLC0415

        matcher, path = robots_cc.RobotsMatcher(), robots_cc.get_path_params_query(url)
        matcher.init_user_agents_and_path([agent], path)
        for method, *arguments in self.calls:
            getattr(matcher, method)(*arguments)
        return not matcher.disallow()


def as_the_port_can_read(body: bytes) -> bytes:
    """Return *body* rewritten so that the port reads it as the original parser does.

    The decisions of the original and the number of lines are kept. The exceptions are
    points on which the original itself is silent or unlike Google's documentation, and
    one on which this package deviates: a character that one URL library encodes and
    another does not is the same raw and encoded, since otherwise the library would
    determine the verdict.
    """
    # Documented by Google, but left to the caller: the size limit.
    bom = next((BOM[:n] for n in (3, 2, 1) if body.startswith(BOM[:n])), b"")
    if len(body) > GOOGLE.size_limit:
        body = body[: GOOGLE.size_limit]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    lines = body[len(bom) :].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return bom + b"\n".join(map(_line_for_the_port, lines))


def _line_for_the_port(line: bytes) -> bytes:
    # The port cuts lines too, but after the changes below have made the line longer.
    # Lines are C strings in the original, which end at a null byte.
    line = line[: GOOGLE.line_limit].split(b"\0")[0].split(b"#")[0]
    line = line.strip(b" \t\x0b\x0c")
    if b":" not in line:
        words = [word for word in line.replace(b"\t", b" ").split(b" ") if word]
        # A single word raises TypeError in the port; it is no record.
        if len(words) == 1:
            return b""
        # The port counts several blanks in place of the colon as several separators.
        line = b" ".join(words) if len(words) == 2 else line
    # The original does not accept this spelling.
    if line[:7].lower() == b"diaslow":
        return b""
    name, colon, value = line.partition(b":" if b":" in line else b" ")
    if not name.lower().strip().startswith(USER_AGENT):
        line = name + colon + as_one_library_writes(value.strip(b" \t\x0b\x0c"))
    # The port strips these as white space, as str.strip() does; none of them can stand
    # in a URL, and the original keeps them.
    line = line.translate(bytes.maketrans(b"\x1c\x1d\x1e\x1f", b"\x01\x01\x01\x01"))
    # The port decodes invalid octets with "replace", where the original escapes them.
    return b"".join(b"%%%02X" % o if o > 0x7F else bytes([o]) for o in line)


def as_one_library_writes(path: bytes) -> bytes:
    """Return *text* with the characters that libraries write differently in one spelling."""
    return bytes(level(path, GOOGLE, in_pattern=False))


def url_as_one_library_writes(url: str) -> str:
    url, mark, fragment = url.partition("#")
    path = url.removeprefix("https://example.com")
    written = as_one_library_writes(path.encode()).decode()
    return "https://example.com" + written + mark + fragment


def assert_agrees_with_the_port(
    name: str, body: bytes, urls: Iterable[str], agents: Iterable[str]
) -> None:
    robots, port = RobotsTxt.parse(body, GOOGLE), Port(body)
    # The original cuts names with digits or dots in user-agent lines and so never finds
    # them. This package compares the whole name, as sites address crawlers by such
    # names.
    agents = [agent for agent in agents if agent.replace("-", "_").isidentifier()]
    agents = [agent for agent in agents if not any(map(str.isdigit, agent))]
    differences = [
        (name, url, agent)
        for url in urls
        for agent in agents
        if robots.is_allowed(url, agent)
        is not port.is_allowed(url_as_one_library_writes(url), agent)
    ]
    assert not differences


@given(case=cases())
def test_generated_files_are_read_as_the_published_parser_reads_them(
    case: tuple[bytes, str, tuple[str, ...]],
) -> None:
    """The Google dialect decides as Google's parser does."""
    pytest.importorskip("gpyrobotstxt")
    body, url, agents = case
    # The spelling determines the number of octets of a pattern, so the file uses one.
    assert_agrees_with_the_port("", as_the_port_can_read(body), [url], agents)


@pytest.mark.slow
def test_real_files_are_read_as_the_published_parser_reads_them() -> None:
    """On the files of real sites, the Google dialect agrees with Google's parser."""
    pytest.importorskip("gpyrobotstxt")
    for name, body in read_corpus():
        urls = urls_for(body, 10 if len(body) < 10_000 else 2)
        agents = {agent for tokens in agents_for(body) for agent in tokens}
        assert_agrees_with_the_port(name, body, urls, sorted(agents)[:3])
