"""Each fast path gives the same result as the plain code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_rep.protocol.agents import agents_of_line
from scrapy_rep.protocol.dialect import CLASSIC, GOOGLE, RFC9309
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.accessrules import CrawlerRules
from scrapy_rep.protocol.robotstxt.groups import parse_groups
from scrapy_rep.protocol.robotstxt.groupsearch import follow
from scrapy_rep.protocol.robotstxt.lines import canonical_text, decoded_text, lines
from scrapy_rep.protocol.robotstxt.ruleindex import RuleIndex
from scrapy_rep.protocol.robotstxt.rules import Rule, RuleLines
from scrapy_rep.protocol.robotstxt.rulescan import RuleScan, can_scan
from tests.protocol.corpus import read_corpus, urls_for
from tests.protocol.reference import Reference
from tests.protocol.robotstxt.test_agreement import DIALECTS, MIXTURES
from tests.protocol.strategies import ORIGIN, bodies, cases, patterns, urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_rep.protocol.dialect import Dialect

pytestmark = pytest.mark.unmeasured

ALL = [*DIALECTS, *MIXTURES]


# Finding groups


@given(case=cases())
def test_groups_are_found_where_all_are_read(
    case: tuple[bytes, str, tuple[str, ...]],
) -> None:
    """The spans found for a crawler's groups are those of the groups that name it."""
    body, _, agents = case
    for dialect in ALL:
        content = canonical_text(decoded_text(body, dialect), dialect)
        agent, spans, _ = follow(content, agents, dialect)
        found = [
            group
            for start, end, _ in spans
            for group in parse_groups(content[start:end], dialect)[0]
        ]
        expected = [
            group
            for group in RobotsTxt.parse(body, dialect).groups
            if any(names(token, agent, dialect) for token in group.agents)
        ]
        if not dialect.merge_groups:
            expected = expected[:1]
        assert [group.agents for group in found] == [g.agents for g in expected]
        assert [len(group.rules) for group in found] == [len(g.rules) for g in expected]
        for _, _, line in spans:
            read = content.split(b"\n")[line - 1]
            assert read.strip().lower().startswith(b"user-agent")


def names(token: str, agent: str | None, dialect: Dialect) -> bool:
    if agent is None or not token:
        return False
    if dialect.agent_match == "prefix" and agent != "*":
        return agent.lower().startswith(token)
    return agent.lower() == token


@given(
    value=st.one_of(
        st.text("*b-_/,. \t\x0c#1\xe9é\u212a", max_size=8), st.text(max_size=8)
    )
)
def test_tokens_are_those_of_agents_of_line(value: str) -> None:
    """The expression for user-agent lines reads the same tokens as ``agents_of_line``."""
    value = value.replace("\r", "").replace("\n", "")
    content = f"User-agent: {value}\nDisallow: /".encode()
    for dialect in DIALECTS:
        bare = value.partition("#")[0].encode().strip()
        for token in agents_of_line(bare, dialect):
            assert follow(content, [token], dialect).agent == (token or None)


@given(body=bodies())
def test_canonical_text_says_the_same_as_the_lines_as_written(body: bytes) -> None:
    """Normalizing the field names keeps the fields, their values and their number."""
    wanted = {"user-agent", "allow", "disallow"}
    for dialect in (*ALL, replace(GOOGLE, line_limit=12)):
        plain = replace(dialect, misspelt_fields=False, line_limit=None)
        content = canonical_text(decoded_text(body, dialect), dialect)
        # The text is UTF-8 by now, so a byte order mark in it is ordinary text.
        respelt = [
            line for line in lines(b"\n" + content, plain) if line.field in wanted
        ]
        as_written = [line for line in lines(body, dialect) if line.field in wanted]
        assert [line._replace(number=line.number - 1) for line in respelt] == as_written


@given(body=st.lists(st.sampled_from((b"a", b"\r", b"\n", b"\r\n"))).map(b"".join))
def test_line_ends_are_normalized(body: bytes) -> None:
    """Dropping each CR before an LF equals replacing CRLF."""
    assert decoded_text(body, RFC9309) == re.sub(rb"\r\n?", b"\n", body)


# Reading rules


@given(body=bodies())
def test_rules_are_read_as_lines_are(body: bytes) -> None:
    """Splitting a group at its disallow lines gives the same rules as reading its lines."""
    for dialect in ALL:
        content = canonical_text(decoded_text(body, dialect), dialect)
        for start, end, line in follow(content, ["bot"], dialect).spans:
            read = RuleLines()
            read.add_group(content[start:end].decode("latin-1"), line)
            found = {
                Rule.of_mark(mark, value.partition("#")[0].strip(" \t\v\f"))
                for values in (read.allows, read.disallows)
                for value, mark in values.items()
            }
            expected = {
                rule._replace(line=rule.line + line - 1)
                for group in parse_groups(content[start:end], dialect)[0]
                for rule in group.rules
            }
            # Of equivalent rules, the first is kept, in any spelling.
            firsts: dict[tuple[str, str], int] = {}
            for rule in sorted(expected, key=lambda rule: rule.line):
                firsts.setdefault(
                    (rule.kind if rule.pattern else "", rule.pattern), rule.line
                )
            lines_found = {rule.line for rule in found}
            assert set(firsts.values()) - _of_empty(expected) <= lines_found
            assert lines_found <= {rule.line for rule in expected}


def _of_empty(rules: set[Rule]) -> set[int]:
    return {rule.line for rule in rules if not rule.pattern}


# Deciding


@given(
    rules=st.lists(
        st.tuples(st.sampled_from(("Allow", "Disallow")), patterns()), max_size=12
    ),
    data=st.data(),
)
def test_the_index_finds_what_the_scan_finds(
    rules: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    """The index and the linear scan find the same winning rule."""
    seen = [value for _, value in rules]
    asked = data.draw(st.lists(urls(seen), min_size=1, max_size=5))
    group = "User-agent: *\n" + "\n".join(
        f"{kind}: {value.decode('latin-1')}" for kind, value in rules
    )
    for dialect in ALL:
        groups = [(group, 1)]
        index = RuleIndex(RuleLines.of_groups(groups), dialect)
        scan = RuleScan(groups, dialect)
        for url in asked:
            target = paths.target(url, dialect)
            if can_scan(target, groups, dialect):
                assert index.winner(target) == scan.winner(target), dialect.name


@given(case=cases(), data=st.data())
def test_each_question_gets_the_answer_of_the_reference(
    case: tuple[bytes, str, tuple[str, ...]], data: st.DataObject
) -> None:
    """The first decision, made by a scan, and later ones, by the index, equal the reference."""
    body, url, agents = case
    asked = [url, *data.draw(st.lists(urls([b"/a*b$", b"/a"]), max_size=3)), url]
    for dialect in ALL:
        robots, reference = RobotsTxt.parse(body, dialect), Reference(body, dialect)
        for question in asked:
            expected = reference.decide(question, agents)[:2]
            decision = robots.decide(question, agents)
            assert (decision.allowed, decision.line) == expected
            assert robots.is_allowed(question, agents) is expected[0]


def test_real_files_are_indexed_as_they_are_scanned() -> None:
    """On the files of real sites, the index and the scan find the same rule."""
    for dialect in DIALECTS:
        for name, body in read_corpus():
            content = canonical_text(decoded_text(body, dialect), dialect)
            groups = CrawlerRules(("examplebot",), content, dialect).groups
            index = RuleIndex(RuleLines.of_groups(groups), dialect)
            scan = RuleScan(groups, dialect)
            for url in urls_for(body, 12):
                target = paths.target(url, dialect)
                if can_scan(target, groups, dialect):
                    assert index.winner(target) == scan.winner(target), (name, url)


@given(
    url=st.one_of(
        urls([b"/a*b$", b"/~%7e\xe9"]), st.text(), st.from_regex("[ah]?t?tps?:?//?.*")
    )
)
def test_normal_urls_need_no_normalization(url: str) -> None:
    """A URL that the fast path treats as normalized equals its normalized form."""
    for dialect in ALL:
        assert paths.target(url, dialect) == paths.plain_target(url, dialect)


@given(value=patterns())
def test_plain_patterns_need_no_normalization(value: bytes) -> None:
    """The fast path normalizes a pattern as the plain code does, in every dialect."""
    octets = value.decode("latin-1")
    for dialect in ALL:
        found = paths._segments(octets, dialect)
        expected = found and paths._pattern(*found, dialect)
        assert paths.pattern(octets, dialect) == expected


# Kept state


@given(tail=st.binary(max_size=200), fill=st.sampled_from((0, 1000, 5000)))
def test_a_packed_body_is_the_same(tail: bytes, fill: int) -> None:
    """A body that is kept compressed is unchanged, and still answers for other crawlers."""
    body = b"User-agent: a\nDisallow: /a\n# %b\nUser-agent: b\nDisallow: /b\n" % (
        b"-" * fill
    )
    robots = RobotsTxt.parse(body + tail)
    groups, sitemaps = robots.groups, robots.sitemaps
    for _ in range(3):
        assert not robots.is_allowed(f"{ORIGIN}/a", "a")
    assert robots.body == body + tail
    assert (robots.groups, robots.sitemaps) == (groups, sitemaps)
    assert robots.decide(f"{ORIGIN}/b", "b").line == 5
    assert robots.decide(f"{ORIGIN}/a", ["a"]).line == 2


def test_many_crawlers_ask_in_turns() -> None:
    """Alternating questions of several agents each get their own answers."""
    names = [f"bot{'x' * i}" for i in range(100)]
    groups = [f"User-agent: {name}\nDisallow: /{name}$\n" for name in names]
    robots = RobotsTxt.parse("".join(groups).encode())
    for _ in range(3):
        for i, name in enumerate(names):
            for agents in (name, [name], (name.upper(), "x")):
                assert robots.decide(f"{ORIGIN}/{name}", agents).line == 2 * i + 2


@given(case=cases())
def test_the_order_of_questions_does_not_matter(
    case: tuple[bytes, str, tuple[str, ...]],
) -> None:
    """The order of questions does not change the answers."""
    body, url, agents = case
    questions: list[Callable[[RobotsTxt], object]] = [
        lambda robots: robots.decide(url, agents),
        lambda robots: robots.crawl_delay(agents),
        lambda robots: robots.request_rate(agents),
        lambda robots: robots.visit_time("*"),
        lambda robots: robots.groups,
        lambda robots: robots.sitemaps,
    ]
    for dialect in (RFC9309, GOOGLE, CLASSIC):
        fresh = [question(RobotsTxt.parse(body, dialect)) for question in questions]
        robots = RobotsTxt.parse(body, dialect)
        for _ in range(2):
            assert [question(robots) for question in questions] == fresh
        assert [question(robots) for question in questions[::-1]] == fresh[::-1]
