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
from scrapy_rep.protocol.grammar import PACE_FIELDS
from scrapy_rep.protocol.robots import RobotsTxt
from scrapy_rep.protocol.robotstxt import paths
from scrapy_rep.protocol.robotstxt.accessrules import CrawlerRules
from scrapy_rep.protocol.robotstxt.groups import follow, rule_lines
from scrapy_rep.protocol.robotstxt.lines import (
    bare,
    decoded_text,
    lines,
    plain_lines,
    read_line,
    user_agent_lines,
)
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
    """What is read for one crawler are the rules and delays of the groups that name it."""
    body, _, agents = case
    for dialect in ALL:
        followed = follow(body, agents, dialect)
        groups = [
            group
            for group in RobotsTxt.parse(body, dialect).groups
            if any(names(token, followed.agent, dialect) for token in group.agents)
        ]
        if not dialect.merge_groups:
            del groups[1:]
        found = [
            (field, bare(rest).encode("latin-1").decode("utf-8", "replace"), number)
            for number, field, rest in rule_lines(followed.texts, dialect)
        ]
        assert found == [rule for group in groups for rule in group.rules]
        records = [
            record._replace(run=0)
            for group in groups
            for record in group.records
            if record.field in PACE_FIELDS
            and any(
                run == record.run and names(token, followed.agent, dialect)
                for token, run in zip(group.agents, group.runs, strict=True)
            )
        ]
        assert list(followed.records) == (records if dialect.crawl_delay else [])


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
def test_usual_lines_are_read_as_any_line(body: bytes) -> None:
    """The fast paths for lines and user-agent lines read what the plain code reads."""
    for dialect in (*ALL, replace(GOOGLE, line_limit=12)):
        text = decoded_text(body, dialect)
        raw_lines = enumerate(text.split(b"\n"), 1)
        expected = [read_line(number, raw, dialect) for number, raw in raw_lines]
        assert list(lines(body, dialect)) == [line for line in expected if line]
        agents = [
            agents_of_line(line.value, dialect)
            for line in expected
            if line and line[1] == "user-agent"
        ]
        assert [tokens for _, tokens in user_agent_lines(text, dialect)] == agents
        assert [line[0] for line in plain_lines(text, dialect, 5)] == [
            line.number + 4 for line in expected if line
        ]


@given(body=st.lists(st.sampled_from((b"a", b"\r", b"\n", b"\r\n"))).map(b"".join))
def test_line_ends_are_normalized(body: bytes) -> None:
    """Dropping each CR before an LF equals replacing CRLF."""
    assert decoded_text(body, RFC9309) == re.sub(rb"\r\n?", b"\n", body)


# Deciding


@given(
    rules=st.lists(
        st.tuples(st.sampled_from(("Allow", "Disallow")), patterns()), max_size=12
    ),
    data=st.data(),
)
def test_the_first_decision_is_that_of_all_rules(
    rules: list[tuple[str, bytes]], data: st.DataObject
) -> None:
    """The rules that are read for the first URL alone decide as all rules do."""
    seen = [value for _, value in rules]
    asked = data.draw(st.lists(urls(seen), min_size=1, max_size=5))
    body = b"User-agent: *\n" + b"\n".join(
        kind.encode() + b": " + value for kind, value in rules
    )
    for dialect in ALL:
        for url in asked:
            target = paths.target(url, dialect)
            followed = CrawlerRules("bot", body, dialect)
            first = followed.first_rules(target)
            if first is not None:
                assert first.allows(target) is followed.read_rules().allows(target)
                assert followed.first_rules(target) is None


@given(case=cases(), data=st.data())
def test_each_question_gets_the_answer_of_the_reference(
    case: tuple[bytes, str, tuple[str, ...]], data: st.DataObject
) -> None:
    """The first decision, with a part of the rules, and later ones equal the reference."""
    body, url, agents = case
    asked = [url, *data.draw(st.lists(urls([b"/a*b$", b"/a"]), max_size=3)), url]
    for dialect in ALL:
        robots, reference = RobotsTxt.parse(body, dialect), Reference(body, dialect)
        for question in asked:
            expected = reference.decide(question, agents)[:2]
            decision = robots.decide(question, agents)
            assert (decision.allowed, decision.line) == expected
            assert robots.is_allowed(question, agents) is expected[0]


def test_the_first_decision_on_real_files() -> None:
    """On the files of real sites, the first decision is the same as later ones."""
    for dialect in DIALECTS:
        for name, body in read_corpus():
            all_rules = CrawlerRules("examplebot", body, dialect).read_rules()
            for url in urls_for(body, 12):
                target = paths.target(url, dialect)
                followed = CrawlerRules("examplebot", body, dialect)
                first = followed.first_rules(target)
                if first is not None:
                    expected = all_rules.allows(target)
                    assert first.allows(target) is expected, (name, url)


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
